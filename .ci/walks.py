"""How far one reads through the source for one thing that is done: `python .ci/walks.py [-v]`.

A walk is every function of the two packages that runs, on a store that is warm. Printed are its
calls, the files that they are in, and how often a call is in another file than the one before.
With `-v` the functions follow, in their order. It walks the packages that are installed, with the
extra `test`.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import FrameType

from starlette.testclient import TestClient

import eventstore
from eventstore import EventStore
from eventstore.importers import import_file
from projections import Projector
from projections.web.app import web_app
from projections.web.guard import Guard, new_token

ROOT = Path(eventstore.__file__).parents[1]
PACKAGES = (f"{ROOT}/eventstore/", f"{ROOT}/projections/")
AT = "2026-01-02T10:00:00.000Z"
ROLLOUT = [
    ("session_meta", {"id": "ID", "timestamp": AT, "cwd": "/srv", "cli_version": "0.50.0"}),
    ("message", {"role": "user", "content": [{"type": "input_text", "text": "List the files."}]}),
    ("function_call", {"name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "a"}),
    ("function_call_output", {"call_id": "a", "output": '{"metadata": {"exit_code": 0}}'}),
    ("message", {"role": "assistant", "content": [{"type": "output_text", "text": "One."}]}),
]
"""A file of Codex CLI."""


def walk(name: str, do: Callable[[], object]) -> None:
    """Print the walk through what `do` calls, in any thread."""
    steps: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_ours = event == "call" and code.co_filename.startswith(PACKAGES)
        if is_ours and not code.co_name.startswith("<"):
            steps.append((code.co_filename.removeprefix(f"{ROOT}/"), code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    stretches = [(file, list(group)) for file, group in groupby(steps, lambda step: step[0])]
    files = {file for file, _ in stretches}
    print(f"{name}: {len(steps)} calls, {len(files)} files, {len(stretches) - 1} changes of file")
    if "-v" in sys.argv:
        for file, group in stretches:
            print(f"    {file}: {', '.join(name for _, name in group)}")


def rollout(folder: Path, name: str) -> str:
    """Return the path of a rollout with an id of its own."""
    lines = [
        {"timestamp": AT, "type": kind, "payload": payload}
        if kind == "session_meta"
        else {"timestamp": AT, "type": "response_item", "payload": {"type": kind, **payload}}
        for kind, payload in ROLLOUT
    ]
    path = folder / f"rollout-{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines).replace("ID", name))
    return str(path)


def walks(folder: Path) -> None:
    """Print a request, a projector's step, an import, and an approval on the page."""
    store = EventStore.open(f"sqlite:///{folder}/agents.db")
    chat = store.conversation("chat")
    for number in range(3):
        chat.request("pay", {"number": number})
    walk("a request", lambda: chat.request("pay", {"number": 3}))
    projector = Projector(store)
    for number in (4, 5):
        projector.catch_up()
        chat.request("pay", {"number": number})
    walk("one event through a projector", projector.catch_up)
    import_file(store, rollout(folder, "first"))
    path = rollout(folder, "second")
    walk("a file of Codex CLI", lambda: import_file(store, path))
    approval(EventStore.open(f"sqlite:///{folder}/shop.db"))


def approval(store: EventStore) -> None:
    """Print the walk of the second of two approvals on the page."""
    for number in range(2):
        store.conversation("shop").request("refund", {"number": number})
    token = new_token()
    pages = web_app(store, Guard(token, frozenset({"here:80"})))
    browser = TestClient(pages, base_url="http://here:80", headers={"Host": "here:80"})
    browser.get(f"/?token={token}")

    def approve() -> Callable[[], object]:
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', browser.get("/approvals").text))
        form = {**fields, "by": "ann", "decision": "approve"}
        return lambda: browser.post("/approvals", data=form)

    approve()()
    walk("an approval on the page", approve())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        walks(Path(made))
