"""`toolledger serve`: the token, other sites, two people at once; as a process, Ctrl-C."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest
from support import unmeasured

from eventstore import EventStore
from projections.cli import app
from projections.web.server import Server

ROOT = Path(__file__).parents[2]
PATIENCE = 120
HOSTILE = "<script>alert(1)</script>\u202e"


class Answer(NamedTuple):
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    text: str


class Site:
    """Requests to a running server."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.netloc, self.entrance = parts.netloc, f"{parts.path}?{parts.query}"
        self.cookie = self.get(self.entrance, cookie="").headers["set-cookie"].partition(";")[0]

    def ask(self, method: str, path: str, body: str, headers: dict[str, str]) -> Answer:
        """Return the answer to a request."""
        connection = http.client.HTTPConnection(self.netloc, timeout=PATIENCE)
        try:
            connection.request(method, path, body or None, headers)
            got = connection.getresponse()
            names = {name.lower(): value for name, value in got.getheaders()}
            return Answer(got.status, names, got.read().decode())
        finally:
            connection.close()

    def get(self, path: str, cookie: str | None = None, **headers: str) -> Answer:
        """Return a page."""
        return self.ask(
            "GET", path, "", {"Cookie": self.cookie if cookie is None else cookie, **headers}
        )

    def post(
        self, fields: dict[str, str], page: str = "/approvals", cookie: str | None = None
    ) -> Answer:
        """Send a form of a page."""
        headers = {
            "Cookie": self.cookie if cookie is None else cookie,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        return self.ask("POST", page, urlencode(fields), headers)

    def forms(self, path: str = "/approvals") -> list[dict[str, str]]:
        """Return the hidden fields of each form on a page."""
        page = self.get(path).text
        return [
            {
                name: unescape(value)
                for name, value in re.findall(
                    r'<input type="hidden" name="(\w+)" value="([^"]*)">', form
                )
            }
            for form in page.split('<form method="post"')[1:]
        ]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a store with calls that wait, of two tenants."""
    address = f"sqlite:///{tmp_path}/log.db"
    with EventStore.open(address) as store:
        chat = store.conversation(f"shop {HOSTILE}")
        chat.add_message("user", HOSTILE)
        chat.request("refund", {"amount": 49, "note": HOSTILE})
        failed = chat.request("find", {"q": 1})
        chat.start(failed.id)
        chat.fail(failed.id, ValueError(f"no order {HOSTILE}"))
    with EventStore.open(address, tenant="other") as store:
        store.conversation("secret of the other tenant").request("pay", {"amount": 1})
    return address


@pytest.fixture
def site(url: str) -> Iterator[Site]:
    """Return a server that runs in a thread of this process, which takes a tenth of the time."""
    with EventStore.open(url) as store, Server(store, "127.0.0.1", 0) as server:
        thread = Thread(target=server.run)
        thread.start()
        yield Site(server.address)
        server._server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


@contextmanager
def command(url: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], Site]]:
    """Run the command in a process."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "projections.cli", *options),
            *("serve", "--port", "0", "--json", "--url", url),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env=unmeasured.environment() | {"PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    try:
        assert process.stdout is not None
        yield process, Site(json.loads(process.stdout.readline())["address"])
    finally:
        process.kill()
        process.communicate()


def test_every_page_shows_the_store_and_nothing_runs(site: Site) -> None:
    """The texts of the log are escaped, and the policy allows the server's own files alone."""
    for path, text in (
        ("/", "shop "),
        ("/errors", "no order"),
        ("/approvals", "refund"),
        ("/newest", "failed"),
    ):
        page = site.get(path)
        assert page.status == 200
        assert text in page.text
        assert "<script>alert" not in page.text
        shown = re.sub(r'<input type="hidden"[^>]*>', "", page.text)
        assert "\u202e" not in shown
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-store"
        assert "secret of the other tenant" not in page.text
    (link,) = re.findall(r'href="(/conversation/[^"]+)"', site.get("/").text)
    report = site.get(link)
    assert report.status == 200
    assert "Why it ended as it did" in report.text
    assert site.get("/conversation/nobody").status == 404
    assert site.get("/conversation/secret%20of%20the%20other%20tenant").status == 404
    assert site.get("/assets/../app.py").status == 404


def test_requests_without_the_token_are_refused(site: Site) -> None:
    """The same holds for another host's name, and for forms that another site made."""
    for path in ("/", "/approvals", "/newest", "/assets/web.css", "/nowhere"):
        assert site.get(path, cookie="").status == 403
        assert site.get(path, cookie="toolledger=guess").status == 403
    assert site.get("/?token=guess", cookie="").status == 403
    assert site.get("/", Host="evil.example").status == 421
    entered = site.get(site.entrance, cookie="")
    assert entered.status == 303
    assert entered.headers["location"] == "/"
    assert "HttpOnly" in entered.headers["set-cookie"]
    assert "SameSite=strict" in entered.headers["set-cookie"]
    (form,) = site.forms()
    fields = {**form, "by": "ann", "reason": "", "decision": "approve"}
    assert site.post(fields, cookie="").status == 403
    assert site.post({**fields, "form_token": "guess"}).status == 403
    assert (
        site.post({name: value for name, value in fields.items() if name != "form_token"}).status
        == 403
    )
    assert site.post({**fields, "reason": "x" * 3_000_000}).status == 413
    assert len(site.forms()) == 1


def test_one_of_many_people_at_once_decides(site: Site, url: str) -> None:
    """A refusal before the start is heard, and is final; the others are told who was faster."""
    (form,) = site.forms()

    def press(number: int) -> str:
        decision = "approve" if number % 2 else "reject"
        return site.post({**form, "by": f"person{number}", "reason": "", "decision": decision}).text

    with ThreadPoolExecutor(8) as people:
        notes = [re.search(r'class="note">([^<]*)<', text) for text in people.map(press, range(8))]
    said = [note[1] for note in notes if note is not None]
    assert len(said) == 8
    with EventStore.open(url) as store:
        (name,) = (name for name, _ in store.conversations())
        chat = store.conversation(name)
        decisions = [
            each.event for each in chat.events() if each.event.tag in ("approved", "rejected")
        ]
        heard = [each for each in said if not each.startswith("nothing was decided")]
        assert {f"refund is {each.tag} by {each.by}" for each in decisions} == {*heard}
        assert [each.tag for each in decisions] in (["rejected"], ["approved", "rejected"])
    assert site.forms() == []


def test_changed_arguments_are_not_approved(site: Site, url: str) -> None:
    """The page showed others: nothing is decided."""
    (form,) = site.forms()
    changed = {**form, "shown": form["shown"][::-1], "by": "ann", "reason": ""}
    said = site.post({**changed, "decision": "approve"}).text
    assert "is not as it was shown" in said
    assert len(site.forms()) == 1


def test_a_doubt_is_settled_on_the_page(site: Site, url: str) -> None:
    """The log has who said what; a call that was started since is left as it is."""
    with EventStore.open(url) as store:
        chat = store.conversation("shop")
        chat.start(chat.request("refund", {"order": 7}, "d1").id)
        (form,) = site.forms("/doubts")
        said = {**form, "by": "ann", "said": "paid", "reason": "asked", "outcome": "completed"}
        chat.start("d1", attempt=2)
        assert "the call is not as it was shown" in site.post(said, "/doubts").text
        (form,) = site.forms("/doubts")
        assert "enter your name" in site.post({**said, **form, "by": " "}, "/doubts").text
        assert "refund is completed" in site.post({**said, **form}, "/doubts").text
        assert site.forms("/doubts") == []
        done = chat.tool("d1")
    assert done.response is not None
    assert (done.response.result, done.status.by) == ("paid", "ann")  # type: ignore[union-attr]


def test_new_events_are_there_at_the_next_request(site: Site, url: str) -> None:
    """Another store has written them."""
    with EventStore.open(url) as store:
        store.conversation("new one").request("pay", {"amount": 2})
    assert "new one" in site.get("/").text
    assert "shop" not in site.get("/?q=new+one").text
    assert len(site.forms()) == 2


def test_a_tenant_sees_its_own_store_until_ctrl_c(url: str) -> None:
    """The command's option keeps the others out; its status is that of every interrupted one."""
    with command(url, "--tenant", "other") as (process, site):
        assert "secret of the other tenant" in site.get("/").text
        assert "shop" not in site.get("/").text
        assert len(site.forms()) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def test_a_port_in_use_is_one_line(
    site: Site, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the reason."""
    port = site.netloc.rpartition(":")[2]
    assert app.run(["serve", "--port", port, "--url", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith("toolledger: ")
    assert "in use" in said
    assert said.count("\n") == 1
