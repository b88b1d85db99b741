"""Make golden files: a log, and what the version that wrote it reads from it.

`tests/golden/logs/VERSION` were made by this script, run with the library of that version:

    PYTHONPATH=CHECKOUT:tests python -m golden.make sqlite:///agent.db FOLDER
    PYTHONPATH=CHECKOUT:tests python -m golden.make postgresql://... FOLDER

CHECKOUT is a clone of the repository at that version. The database has to be empty; SQLite writes
the file with its dump, and what is read from it; a server its dump alone. It uses public names
only, so it can be run with any version. Golden files are never rewritten: a later version adds a
folder of its own, and reads all.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from base64 import b64decode
from collections.abc import Iterable
from contextlib import closing
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

from golden import reading
from golden.dumps import dump, stored_events
from golden.every_member import EVENTS, FAILURE, NEWER_FORM, PDF, PIXEL
from sqlalchemy import create_engine, make_url

from eventstore import (
    Document,
    ErrorKind,
    Event,
    EventStore,
    Failure,
    GateAnswer,
    Image,
    RunEnded,
    RunStarted,
    Text,
    ToolsOffered,
)
from projections import Projector

NOON = 1_767_268_800_000_000
"""When the log begins: noon of 1 January 2026, UTC, in microseconds."""

SEEN = 10
"""How many events of the feed are before the cursor that is kept."""

HISTORIES = Path(__file__).with_name("histories.json")


class Clock:
    """A clock that stands still until it is moved, so that every engine gets the same times."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        """Return the microseconds since 1970 UTC."""
        return self.now

    def pass_(self, seconds: float) -> None:
        """Move the clock forward."""
        self.now += round(seconds * 1_000_000)


def histories() -> dict[str, list[Any]]:
    """Return a history for each provider, as its SDK takes it."""
    text = HISTORIES.read_text("utf-8").replace("PIXEL", PIXEL).replace('"PDF"', f'"{PDF}"')
    found = json.loads(text.replace(",PDF", f",{PDF}"), object_hook=_with_bytes)
    found.pop("about")
    return found  # type: ignore[no-any-return]


def _with_bytes(value: dict[str, Any]) -> Any:
    return b64decode(value["$bytes"]) if value.keys() == {"$bytes"} else value


def support() -> list[Event]:
    """Return the events of a conversation that is built with the library's own methods."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("support")
        chat.append(RunStarted("support"))
        chat.add_message("system", "Be brief.")
        chat.add_message("user", ["Where is order 7?", Image(data=PIXEL, media_type="image/png")])
        gates = (GateAnswer("budget", ("find_order", "refund")), GateAnswer("quiet"))
        chat.append(ToolsOffered(0, ("find_order", "refund", "drop"), ("find_order",), gates))
        _retried(chat)
        _decided(chat)
        chat.add_message("assistant", "Order 7 was refunded.")
        chat.add_message("user", "And a chart of it, and orders 8, 9, 10, 11?")
        _shown(chat)
        _repeated(chat)
        _left_open(chat)
        chat.append(RunEnded("error", Failure(ErrorKind.AUTH, "the key was revoked")))
        return [recorded.event for recorded in chat.events()]


def _retried(chat: Any) -> None:
    """Record a call that the model repeats, and one that the host retries."""
    chat.add_message("assistant", "I look it up.")
    chat.request("find_order", {"number": 7}, "call_find")
    chat.request("find_order", '{"number": 7', "call_cut")
    chat.start("call_find")
    chat.fail("call_find", FAILURE, delay=1.5)
    chat.start("call_find")
    chat.fail("call_find", TimeoutError("no answer within 30 s"), delay=0.25)
    chat.start("call_find")
    chat.complete("call_find", {"order": 7, "status": "shipped", "ratio": 0.1, "who": "Zoë"})
    chat.fail("call_cut", Failure(ErrorKind.VALIDATION, "the arguments are not JSON"))


def _decided(chat: Any) -> None:
    """Record edits, refusals by each source, and an answer without a run."""
    chat.add_message("assistant", "")
    for number, source in enumerate(("human", "gate", "hook", "rule", "limit", "sibling")):
        chat.request("drop", {"order": number}, f"call_{source}")
        chat.reject(f"call_{source}", f"refused by {source}", source, "grace", {"n": number})
    chat.request("refund", {"order": 7, "amount": 9.5}, "call_refund")
    chat.approve("call_refund", {"order": 7, "amount": 9.0}, "grace", "less the postage")
    chat.start("call_refund")
    chat.complete("call_refund", "refunded")
    chat.request("refund", {"order": 7, "amount": 1}, "call_skipped")
    chat.complete("call_skipped", "was done already", synthetic=True)
    chat.request("refund", [1, 2], "call_list")
    chat.request("refund", {"order": 7, "amount": 2}, "call_bytes")
    chat.start("call_bytes")
    chat.complete("call_bytes", {"receipt": b"\x00\xff", "of": {1, 2} & {2}})


def _shown(chat: Any) -> None:
    """Record a result that is shown as images and documents."""
    chat.request("chart", {"order": 7}, "call_chart")
    chat.start("call_chart")
    parts = [Text("the chart"), Image(data=PIXEL, media_type="image/png"), Document(data=PDF)]
    chat.complete("call_chart", parts)


def _repeated(chat: Any) -> None:
    """Record the same call again and again, in turns of their own, and finally a result."""
    for number in range(3):
        chat.add_message("assistant", "Once more.")
        chat.request("find_order", {"number": 8}, f"call_again_{number}")
        chat.start(f"call_again_{number}")
        if number < 2:
            chat.fail(f"call_again_{number}", Failure(ErrorKind.TRANSIENT, "no answer"))
        else:
            chat.complete(f"call_again_{number}", None)


def _left_open(chat: Any) -> None:
    """Record a call in every state that waits for something."""
    chat.add_message("assistant", "The others.")
    chat.request("find_order", {"number": 9}, "call_pending")
    chat.request("find_order", {"number": 10}, "call_approved")
    chat.approve("call_approved")
    chat.request("find_order", {"number": 11}, "call_running")
    chat.start("call_running")


def write(url: str) -> None:
    """Write the log, in two tenants, and the tables of a projector."""
    clock = Clock()
    with EventStore.open(url, clock=clock) as store:
        _append(store, "every-member", EVENTS, clock)
        _append(store, "support", support(), clock)
        for provider, messages in histories().items():
            clock.pass_(3600)
            store.conversation(f"from-{provider}").import_messages(messages, provider)
    with EventStore.open(url, tenant="acme", clock=clock) as store:
        _append(store, "support", support()[:8], clock)
        _append(store, "newer", [*support()[:3], NEWER_FORM, *support()[3:5]], clock)
    for tenant in reading.TENANTS:
        with EventStore.open(url, tenant=tenant) as store, Projector(store) as projector:
            projector.catch_up()


def _append(store: EventStore, name: str, events: Iterable[Event], clock: Clock) -> None:
    chat = store.conversation(name)
    for event, number in zip(events, count(), strict=False):
        clock.pass_(0.25)
        key = f"{store.tenant}/{name}/{number}".encode()
        chat.append(event, event_ids=[blake2b(key, digest_size=16).digest()])


def main(url: str, folder: Path) -> None:
    """Write the files of one engine; of SQLite, also those that hold for all."""
    folder.mkdir(parents=True, exist_ok=True)
    write(url)
    engine = _engine_name(url)
    (folder / f"{engine}.sql").write_text(dump(url), "utf-8")
    with EventStore.open(url) as store:
        feed = store.read(limit=SEEN)
        assert len(list(feed)) == SEEN
        (folder / f"{engine}.cursor").write_text(f"{feed.cursor}\n", "utf-8")
    if engine == "sqlite":
        path = Path(make_url(url).database or "")
        with closing(sqlite3.connect(path)) as file:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            file.execute("VACUUM")
        shutil.copyfile(path, folder / "sqlite.db")
        for tenant in reading.TENANTS:
            read(url, tenant, folder / (tenant or "default"))


def read(url: str, tenant: str, folder: Path) -> None:
    """Write what this version reads from the log."""
    (folder / "prompts").mkdir(parents=True, exist_ok=True)
    with EventStore.open(url, tenant=tenant) as store:
        text = reading.lines(store, stored_events(url, tenant))
        (folder / "events.jsonl").write_text(text, "utf-8")
        (folder / "tools.json").write_text(reading.tools(store), "utf-8")
        (folder / "statistics.json").write_text(reading.statistics(store), "utf-8")
        for name in set(reading.conversations(store)) - reading.NOT_RENDERED:
            path = folder / "prompts" / f"{name}.json"
            path.write_text(reading.prompts(store, name), "utf-8")
        with Projector(store) as projector:
            text = reading.projected_statistics(projector)
            (folder / "projected_statistics.json").write_text(text, "utf-8")
            text = reading.projected_tools(projector)
            (folder / "projected_tools.json").write_text(text, "utf-8")
            assert projector.lag().events == 0


def _engine_name(url: str) -> str:
    kind = make_url(url).get_backend_name()
    if kind != "mysql":
        return kind
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            version = str(connection.exec_driver_sql("SELECT version()").scalar())
    finally:
        engine.dispose()
    return "mariadb" if "MariaDB" in version else "mysql"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
