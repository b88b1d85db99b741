"""The inbox as a web page, with nothing but Python: approve and reject bound to what was shown.

    python web_inbox.py 8000

Open the address that it prints. The form carries the revision of the call that the page showed and
a token of this process: a decision on another state of the call, or from another site, is refused.
"""

from __future__ import annotations

import html
import json
import secrets
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs
from wsgiref.simple_server import make_server

from eventstore import EventStore, EventStoreError
from projections import pending_approvals

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

TOKEN = secrets.token_urlsafe()
MAX_FORM = 10_000  # bytes


class Inbox:
    """A WSGI application over the calls of a store that wait."""

    def __init__(self, store: EventStore) -> None:
        self.store = store

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Show the calls that wait, or take a decision."""
        note = self.decide(environ) if environ["REQUEST_METHOD"] == "POST" else ""
        headers = [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Security-Policy", "default-src 'none'; form-action 'self'"),
        ]
        start("200 OK", headers)
        return [self.page(note).encode()]

    def decide(self, environ: WSGIEnvironment) -> str:
        """Approve or reject a call; return what became of it."""
        length = min(int(environ.get("CONTENT_LENGTH") or 0), MAX_FORM)
        form = parse_qs(environ["wsgi.input"].read(length).decode())
        fields = {key: values[0] for key, values in form.items()}
        if not secrets.compare_digest(fields.get("token", ""), TOKEN):
            return "refused: the form is not of this page"
        chat = self.store.conversation(fields["conversation"])
        call, seen = fields["call"], fields["seen"]
        try:
            if fields["decision"] == "approve":
                tool = chat.approve(call, by="web", seen=seen)
            else:
                tool = chat.reject(call, "refused in the inbox", by="web", seen=seen)
        except (EventStoreError, ValueError) as error:  # somebody else was faster
            return str(error)
        return f"{tool.call.name}: {tool.status.name.lower()}"

    def page(self, note: str) -> str:
        """Return the page; whatever a call holds is shown as text."""
        rows = [f"<p>{html.escape(note)}</p>"]
        for item in pending_approvals(self.store):
            hidden = {
                "token": TOKEN,
                "conversation": item.conversation_id,
                "call": item.call_id,
                "seen": item.revision,
            }
            fields = "".join(
                f'<input type=hidden name="{key}" value="{html.escape(value)}">'
                for key, value in hidden.items()
            )
            shown = json.dumps(item.arguments) if item.raw is None else item.raw
            rows.append(
                f"<form method=post>{fields}<b>{html.escape(item.name)}</b> "
                f"<code>{html.escape(shown)}</code> <button name=decision value=approve>Approve"
                "</button> <button name=decision value=reject>Reject</button></form>"
            )
        return "<!doctype html><title>Inbox</title><h1>Calls that wait</h1>" + "".join(rows)


def main(port: int) -> None:
    """Serve the inbox on this machine until Ctrl-C."""
    with EventStore.open("sqlite:///web_inbox.db") as store:
        store.conversation("news").request("send_mail", {"to": "all@example.com"})
        with make_server("127.0.0.1", port, Inbox(store)) as server:
            print(f"http://127.0.0.1:{server.server_port}", flush=True)
            server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
