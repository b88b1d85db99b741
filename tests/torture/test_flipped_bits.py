"""One flipped bit of a stored log: named by `verify`, or it means nothing.

Rows are changed on purpose, so that no history of their writers is kept, and none is checked.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text
from support.tiers import rounds

from eventstore import (
    ConversationArchived,
    EventStore,
    EventStoreError,
    Tool,
    ToolPending,
    ToolRunning,
)
from eventstore.errors import StoreCorrupt
from eventstore.seals import SigningKey, check
from eventstore.storage.sql.schema import metadata
from eventstore.storage.sqlite.driver import driver
from eventstore.testing import message
from projections import resume_plan

if TYPE_CHECKING:
    from support.servers import Server

FLIPS = 400
TABLES = (
    "archives",
    "conversations",
    "event_ids",
    "events",
    "fingerprints",
    "lanes",
    "seals",
    "store",
    "subjects",
)
KEY = SigningKey("example.com/agents", bytes(range(32)))


Cell = tuple[str, list[str], Any, int]
"""A table, its columns, a row and the number of the column."""


def fill(url: str, folder: Path) -> str:
    """Write a log with events of all kinds that a row can differ in, of two tenants.

    Conversations are archived in the folder. Return the notes of its seals, which are kept.
    """
    notes: list[str] = []
    for tenant in ("", "acme"):
        with EventStore.open(url, tenant=tenant) as store:
            for name in ("refund", "größe", "old"):
                chat = store.conversation(name)
                chat.add_message("user", f"Please refund {name}.")
                for number in range(3):
                    tool = chat.request("refund", {"order": number, "why": "ü" * 40})
                    chat.start(tool.id)
                    if number or name == "old":
                        chat.complete(tool.id, {"ok": True})
                given = [random.Random(f"{name} {n}").randbytes(16).hex() for n in range(2)]
                chat.append(message("Thanks."), message("Bye."), event_ids=given)
                last = chat.request("refund", {"order": 9, "why": "ü" * 40})
                chat.start(last.id)
                chat.complete(last.id, {"ok": True})
                store.redact(name, by="mia", versions=[1, chat.version - 4])
                store.redact(name, by="mia", reason="ü", calls=[last.id], paths=["arguments.why"])
            store.accept_loss()
            notes += [each.note for each in store.seal(KEY)]
            moment = timedelta(microseconds=1)
            done = store.retain(moment, folder=folder, match="old", dry_run=False)
            assert done.conversations == 1
    return "\n".join(notes)


def is_reported(url: str, notes: str = "") -> bool:
    """Return whether `verify`, or opening the store, says that something is wrong.

    With notes the log is compared with them, too, which finds what is wrong with signatures.

    What is raised is always an error of the library.
    """
    try:
        with EventStore.open(url, create=False) as store:
            found = bool(list(store.verify()))
            if notes:
                found = found or bool(check(store, notes, [KEY.verifier]).findings)
            try:
                for recorded in store.read():
                    _ = recorded.event
                for name, _ in store.conversations():
                    with suppress(ConversationArchived):
                        list(store.conversation(name).events())
            except EventStoreError:
                assert found
            return found
    except EventStoreError:
        return True


def content(path: Path) -> list[Any]:
    """Return every value of the tables, with its type, and what the library's indexes find."""
    with closing(sqlite3.connect(path)) as file:
        file.text_factory = bytes
        found: list[Any] = []
        for table in (*(f"toolledger_{name}" for name in TABLES), "toolledger_version"):
            columns = [row[1].decode() for row in file.execute(f"PRAGMA table_info({table})")]
            values = ", ".join(f'quote("{c}"), typeof("{c}")' for c in columns)
            found.append(sorted(file.execute(f"SELECT {values} FROM {table}")))  # noqa: S608
        by_version = "SELECT lane, conversation, version, position FROM toolledger_events "
        by_version += "INDEXED BY sqlite_autoindex_toolledger_events_1"
        found.append(sorted(file.execute(by_version)))
        return found


@pytest.mark.slow
def test_every_flipped_bit_of_a_file_is_reported_or_means_nothing(tmp_path: Path) -> None:
    """Anywhere in the file; what no reader ever sees (free space, statistics) means nothing."""
    whole, path = tmp_path / "whole.db", tmp_path / "log.db"
    notes = fill(f"sqlite:///{whole}", tmp_path)
    with closing(driver().connect(str(whole))) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before, sound = content(whole), whole.read_bytes()
    chance = random.Random(2)
    silent: list[tuple[int, int]] = []
    for _ in range(rounds(FLIPS, FLIPS)):
        place, bit = chance.randrange(len(sound)), chance.randrange(8)
        flipped = bytearray(sound)
        flipped[place] ^= 1 << bit
        for rest in ("", "-wal", "-shm"):
            path.with_name(path.name + rest).unlink(missing_ok=True)
        path.write_bytes(flipped)
        shutil.copymode(whole, path)
        if not is_reported(f"sqlite:///{path}", notes) and content(path) != before:
            silent.append((place, bit))
    assert silent == [], silent


def flipped(value: Any, chance: random.Random) -> Any:
    """Return a value of a column with one bit flipped; of text, one that leaves it text."""
    if isinstance(value, str):
        while True:
            raw = bytearray(value.encode())
            raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(7)
            try:
                changed = raw.decode()
            except UnicodeDecodeError:
                continue
            if "\x00" not in changed:
                return changed
    if isinstance(value, int):
        return value ^ 1 << chance.randrange(max(1, value.bit_length()))
    raw = bytearray(value)
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    return bytes(raw)


def rows(url: str) -> Iterator[tuple[str, list[str], Any]]:
    """Yield each table, its columns, and its rows."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for name in TABLES:
            found = connection.execute(text(f"SELECT * FROM toolledger_{name}"))  # noqa: S608
            yield f"toolledger_{name}", list(found.keys()), found.fetchall()
    engine.dispose()


def test_flips_reach_every_table_of_a_log() -> None:
    """Tables of projections and of the search of texts are left out: the log makes them again."""
    assert {f"toolledger_{name}" for name in TABLES} == set(metadata.tables)


@pytest.mark.slow
def test_every_flipped_bit_of_a_servers_rows_is_reported(server: Server, tmp_path: Path) -> None:
    """In each column of each table, as long as the server takes the value."""
    check_flipped_cells(server.database(), tmp_path, rounds(FLIPS // 10, FLIPS))


@pytest.mark.slow
def test_every_flipped_bit_of_sqlites_rows_is_reported(tmp_path: Path) -> None:
    """In each column of each table."""
    check_flipped_cells(f"sqlite:///{tmp_path / 'log.db'}", tmp_path, rounds(FLIPS // 4, FLIPS))


def check_flipped_cells(url: str, folder: Path, flips: int) -> None:
    """Flip a bit in a cell of each column, and in others until there are as many as asked for."""
    notes = fill(url, folder)
    assert not is_reported(url, notes)
    chance = random.Random(3)
    silent: list[Any] = []
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        quote = engine.dialect.identifier_preparer.quote
        for table, columns, row, place in chosen_cells(url, flips, chance):
            old, new = row[place], flipped(row[place], chance)
            if old == new:
                continue
            where = " AND ".join(
                f"{quote(column)} {'IS NULL' if value is None else f'= :k{number}'}"
                for number, (column, value) in enumerate(zip(columns, row, strict=True))
            )
            keys = {f"k{n}": v for n, v in enumerate(row) if v is not None}
            change = f"UPDATE {table} SET {quote(columns[place])} = :new WHERE {where}"  # noqa: S608
            try:
                done = connection.execute(text(change), {"new": new, **keys}).rowcount
            except Exception:  # noqa: BLE001, S112 - the server refuses the value
                continue
            assert done == 1
            if not is_reported(url, notes):
                silent.append((table, columns[place], old, new))
            keys[f"k{place}"] = new
            back = f"UPDATE {table} SET {quote(columns[place])} = :new WHERE {where}"  # noqa: S608
            assert connection.execute(text(back), {**keys, "new": old}).rowcount == 1
    engine.dispose()
    assert silent == [], silent
    assert not is_reported(url, notes)


def chosen_cells(url: str, flips: int, chance: random.Random) -> list[Cell]:
    """Return a cell of each column, and others."""
    cells = [
        (table, columns, row, place)
        for table, columns, found in rows(url)
        for row in found
        for place in range(len(columns))
        if row[place] is not None and row[place] != ""
    ]
    chance.shuffle(cells)
    one_of_each = {
        (table, place): (table, columns, row, place) for table, columns, row, place in cells
    }
    return [*one_of_each.values(), *cells][:flips]


DAMAGES: dict[str, Callable[[sqlite3.Connection], object]] = {
    "tag": lambda file: file.execute(
        "UPDATE toolledger_events SET tag = 'rujning' WHERE tag = 'running'"
    ),
    "schema": lambda file: file.execute(
        "UPDATE toolledger_events SET schema = 0 WHERE tag = 'running'"
    ),
    "payload": lambda file: file.execute(
        "UPDATE toolledger_events SET payload = cast(x'7bff7d' AS TEXT) WHERE tag = 'running'"
    ),
    "text or bytes": lambda file: file.execute(
        "UPDATE toolledger_events SET tag = cast(tag AS BLOB) WHERE tag = 'running'"
    ),
    "call": lambda file: file.execute(
        "UPDATE toolledger_events SET payload = replace(payload, '_id\":\"call', '_id\":\"call!') "
        "WHERE tag = 'running'"
    ),
    "attempt": lambda file: file.execute(
        "UPDATE toolledger_events SET payload = replace(payload, 'attempt\":1', 'attempt\":3') "
        "WHERE tag = 'running'"
    ),
}


def started_refund(path: Path) -> Tool:
    """Record a call that runs, the last event of its conversation; return it as requested."""
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("refunds")
        tool = chat.request("refund", {"order": 7})
        chat.start(tool.id)
    return tool


@pytest.mark.parametrize("damage", DAMAGES)
def test_nothing_is_started_where_an_event_cannot_be_read(tmp_path: Path, damage: str) -> None:
    """The event may be the start of the very call: a refund is not made twice."""
    path = tmp_path / "log.db"
    tool = started_refund(path)
    with closing(driver().connect(str(path))) as file:
        DAMAGES[damage](file)
        file.commit()
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("refunds")
        with pytest.raises(StoreCorrupt, match="nothing was started: run `toolledger verify`"):
            chat.start(tool.id)
        with pytest.raises(StoreCorrupt, match="version 2 of conversation 'refunds' is damaged"):
            chat.append(ToolRunning(tool.id, 1))
        assert type(next(chat.events()).event) is ToolPending
        assert {found.version for found in store.verify()} == {2}
        assert resume_plan(chat.events()) is not None
        store.conversation("another").start(store.conversation("another").request("f", {}).id)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("conversations", "conversation_id"),
        ("conversations", "tenant"),
        ("events", "payload"),
        ("events", "tag"),
        ("store", "epoch"),
    ],
)
def test_text_that_became_bytes_is_reported(tmp_path: Path, table: str, column: str) -> None:
    """One bit of a row's header says which it is: the bytes are the same, and are not found."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    fill(url, tmp_path)
    with closing(driver().connect(str(tmp_path / "log.db"))) as file:
        file.execute(
            f"UPDATE toolledger_{table} SET {column} = cast({column} AS BLOB) "  # noqa: S608
            f"WHERE rowid = (SELECT max(rowid) FROM toolledger_{table})"
        )
        file.commit()
    assert is_reported(url)


NOT_TEXT = "cast(x'ff' AS TEXT)"
NO_EVENT = {
    "tag": f"events SET tag = {NOT_TEXT}",
    "event_id": "events SET event_id = 7",
    "fingerprint": "events SET fingerprint = 7",
    "recorded_at": "events SET recorded_at = 'noon'",
    "version": "events SET version = 'one'",
    "conversation_id": f"conversations SET conversation_id = {NOT_TEXT}",
    "tenant": f"conversations SET tenant = {NOT_TEXT}",
}


@pytest.mark.parametrize("change", NO_EVENT.values(), ids=NO_EVENT)
def test_a_row_that_holds_what_no_event_can_be_is_reported(tmp_path: Path, change: str) -> None:
    """By an error of the library on every way of reading it, never by one of the driver."""
    path = tmp_path / "log.db"
    url = f"sqlite:///{path}"
    with EventStore.open(url) as store:
        store.conversation("chat").request("search", {"q": "x"})
    with closing(driver().connect(str(path))) as file:
        file.execute(f"UPDATE toolledger_{change}")
        file.commit()
    with EventStore.open(url) as store:
        assert list(store.verify()) != []
        for read in (
            lambda: list(store.read()),
            lambda: list(store.read().outlines()),
            lambda: list(store.conversations()),
            lambda: list(store.conversation("chat").events()),
            lambda: store.conversation("chat").version,
            lambda: store.conversation("chat").tools,
            lambda: store.conversation("chat").add_message("user", "hello"),
        ):
            with suppress(EventStoreError):
                read()


@pytest.mark.parametrize("column", ["tag", "event_id", "fingerprint", "recorded_at", "version"])
def test_an_event_that_cannot_be_returned_is_an_error(tmp_path: Path, column: str) -> None:
    """Reading does not pass over it."""
    path = tmp_path / "log.db"
    with EventStore.open(f"sqlite:///{path}") as store:
        store.conversation("chat").request("search", {"q": "x"})
        with closing(driver().connect(str(path))) as file:
            file.execute(f"UPDATE toolledger_{NO_EVENT[column]}")
            file.commit()
        for read in (
            lambda: list(store.read()),
            lambda: list(store.conversation("chat").events()),
            lambda: list(store.read().outlines()),
        ):
            with pytest.raises(StoreCorrupt, match="verify"):
                read()


def test_nothing_is_started_where_an_event_is_missing(tmp_path: Path) -> None:
    """The missing event may have been the start of the very call."""
    path = tmp_path / "log.db"
    tool = started_refund(path)
    with EventStore.open(f"sqlite:///{path}") as store:
        store.conversation("refunds").add_message("user", "And?")
    with closing(driver().connect(str(path))) as file:
        file.execute("DELETE FROM toolledger_events WHERE tag = 'running'")
        file.commit()
    with EventStore.open(f"sqlite:///{path}") as store:
        with pytest.raises(StoreCorrupt, match=r"it follows version 1.*nothing was started"):
            store.conversation("refunds").start(tool.id)
        assert {found.version for found in store.verify()} == {3}


@pytest.mark.parametrize("version", [0, -126])
def test_nothing_is_started_where_the_last_version_is_damaged(tmp_path: Path, version: int) -> None:
    """The last event of a conversation does not leave it by one flipped bit of its version."""
    path = tmp_path / "log.db"
    tool = started_refund(path)
    with closing(driver().connect(str(path))) as file:
        file.execute("UPDATE toolledger_events SET version = ? WHERE tag = 'running'", (version,))
        file.commit()
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("refunds")
        for read in (lambda: chat.start(tool.id), lambda: list(chat.events())):
            with pytest.raises(StoreCorrupt, match="position 2 cannot be read: run `toolledger v"):
                read()
        assert {found.position for found in store.verify()} == {2}
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection, EventStore.open(f"sqlite:///{path}") as store:
        own = store.conversation("refunds", connection=connection)
        with pytest.raises(StoreCorrupt, match="position 2 cannot be read"):
            list(own.events())
    engine.dispose()


@pytest.mark.parametrize("lanes", [0, 3, 2**33])
def test_a_number_of_lanes_without_their_counters_is_reported(tmp_path: Path, lanes: int) -> None:
    """Otherwise conversations are sought in other lanes, or in milliards of them."""
    path = tmp_path / "log.db"
    EventStore.open(f"sqlite:///{path}").close()
    with closing(driver().connect(str(path))) as file:
        file.execute("UPDATE toolledger_store SET lanes = ?", (lanes,))
        file.commit()
    with pytest.raises(StoreCorrupt, match=f"says that it has {lanes} lanes"):
        EventStore.open(f"sqlite:///{path}")


def test_an_epoch_that_is_not_text_is_reported(tmp_path: Path) -> None:
    """The store cannot be opened, and the error says what to do."""
    path = tmp_path / "log.db"
    EventStore.open(f"sqlite:///{path}").close()
    with closing(driver().connect(str(path))) as file:
        file.execute("UPDATE toolledger_store SET epoch = cast(x'ff' AS TEXT)")
        file.commit()
    with pytest.raises(StoreCorrupt, match="run `toolledger verify`, restore it from a copy"):
        EventStore.open(f"sqlite:///{path}")
