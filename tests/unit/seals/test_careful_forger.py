"""A writer without the key who computes the chain anew: what `verify` cannot see, a note names."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support.sealable_sqlite import SqliteLog, forging

from eventstore import EventStore
from eventstore.seals import (
    BadNote,
    Checked,
    NotSigned,
    SealMismatch,
    SigningKey,
    check,
    prove,
    seal,
)
from eventstore.storage.chain import payload_digest

KEY = SigningKey("example.com/agents", bytes(range(32)))
TRUSTED = [KEY.verifier]

Forgery = Callable[[sqlite3.Connection], object]


def write(path: Path, *names: str) -> None:
    """Append a message to each conversation that is named, and a call to the last one."""
    with EventStore.open(f"sqlite:///{path}") as store:
        for number, name in enumerate(names):
            store.conversation(name).add_message("user", f"message {number} of {name}")
        chat = store.conversation(names[-1])
        call = f"{names[-1]}-{len(names)}"
        chat.request("refund", {"amount": len(names)}, call)
        chat.start(call)
        chat.complete(call, {"paid": len(names)})


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of three conversations, sealed at 7 and 19 of its 19 events."""
    path = tmp_path_factory.mktemp("seals") / "agent.db"
    write(path, "a", "b", "a", "b")  # 1 to 7
    seal(SqliteLog(path), KEY)
    write(path, "a", "b", "a", "b", "a")  # 8 to 15
    write(path, "newest")  # 16 to 19
    seal(SqliteLog(path), KEY)
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    """Return a copy of the log."""
    return Path(shutil.copy(original, tmp_path))


@pytest.fixture
def note(path: Path) -> str:
    """Return the note that somebody keeps."""
    last = SqliteLog(path).last_seal(0)
    assert last is not None
    assert last.size == 19
    return last.note


def problems(path: Path) -> list[str]:
    """Return what `verify` finds."""
    with EventStore.open(f"sqlite:///{path}") as store:
        return [found.problem for found in store.verify()]


def found(checked: Checked) -> list[tuple[str, int, int]]:
    """Return kind and range of each finding."""
    return [(each.kind, each.first, each.last) for each in checked.findings]


def edit(column: str, value: str) -> Forgery:
    """Return what changes a column of the event at position 12."""
    return lambda file: file.execute(
        f"UPDATE toolledger_events SET {column} = {value} WHERE position = 12"  # noqa: S608
    )


def swap(file: sqlite3.Connection) -> None:
    """Swap two neighbours of different conversations."""
    for old, new in ((10, -1), (11, 10), (-1, 11)):
        file.execute("UPDATE toolledger_events SET position = ? WHERE position = ?", (new, old))


def cut(file: sqlite3.Connection) -> None:
    """Remove the last event, with all that says that it was there."""
    file.execute("DELETE FROM toolledger_events WHERE position > 18")
    file.execute("UPDATE toolledger_lanes SET position = 18")


def remove_newest(file: sqlite3.Connection) -> None:
    """Remove the newest conversation, with all that says that it was there."""
    for table in ("events", "conversations", "fingerprints", "event_ids"):
        file.execute(f"DELETE FROM toolledger_{table} WHERE conversation = 16")  # noqa: S608
    file.execute("UPDATE toolledger_lanes SET position = 15")


def remove_from_the_middle(file: sqlite3.Connection) -> None:
    """Remove a message, and close the gap in positions and versions; keys move along."""
    row = "SELECT conversation, version FROM toolledger_events WHERE position = 9"
    key, version = file.execute(row).fetchone()
    file.execute("DELETE FROM toolledger_events WHERE position = 9")
    for position in range(10, 20):
        file.execute(
            "UPDATE toolledger_events SET position = position - 1, "
            "version = version - (conversation = ? AND version > ?), "
            "conversation = conversation - (conversation > 9) WHERE position = ?",
            (key, version, position),
        )
    file.execute(
        "UPDATE toolledger_fingerprints SET version = version - 1 "
        "WHERE conversation = ? AND version > ?",
        (key, version),
    )
    for table in ("conversations", "fingerprints", "event_ids"):
        file.execute(
            f"UPDATE toolledger_{table} SET conversation = conversation - 1 "  # noqa: S608
            "WHERE conversation > 9"
        )
    file.execute("UPDATE toolledger_lanes SET position = 18")


def swap_seals(file: sqlite3.Connection) -> None:
    """Remove the seals beside the last event."""
    cut(file)
    file.execute("DELETE FROM toolledger_seals WHERE size > 7")


FORGERIES: dict[str, tuple[Forgery, list[tuple[str, int, int]]]] = {
    "payload": (edit("payload", "replace(payload, 'message', 'massage')"), [("changed", 8, 19)]),
    "recorded_at": (edit("recorded_at", "recorded_at + 1"), [("changed", 8, 19)]),
    "occurred_at": (edit("occurred_at", "5"), [("changed", 8, 19)]),
    "event_id": (edit("event_id", "randomblob(16)"), [("changed", 8, 19)]),
    "tag": (edit("tag", "'note'"), [("changed", 8, 19)]),
    "schema": (edit("schema", "schema + 1"), [("changed", 8, 19)]),
    "two neighbours swapped": (swap, [("changed", 8, 19)]),
    "the tail with its counter": (cut, [("cut", 8, 19)]),
    "the newest conversation": (remove_newest, [("cut", 8, 19)]),
    "from the middle": (remove_from_the_middle, [("cut", 8, 19)]),
    "the tail with its seal": (swap_seals, [("seal missing", 0, 0), ("put back", 8, 19)]),
    "its conversation is not listed": (
        lambda file: file.execute("DELETE FROM toolledger_conversations WHERE conversation = 16"),
        [("unreadable", n, n) for n in range(16, 20)],
    ),
    "a conversation's name": (
        lambda file: file.execute(
            "UPDATE toolledger_conversations SET tenant = 'x' WHERE conversation = 1"
        ),
        [("changed", 1, 7), ("changed", 8, 19)],
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_that_verify_cannot_see_is_named(path: Path, note: str, name: str) -> None:
    """A kept note says that it happened, what kind it is, and between which seals."""
    assert found(check(SqliteLog(path), note, TRUSTED)) == []
    forge, expected = FORGERIES[name]
    with forging(path) as file:
        forge(file)
    if "conversation" not in name or name == "the newest conversation":
        assert problems(path) == []
    assert found(check(SqliteLog(path), note, TRUSTED)) == expected


def test_a_database_that_was_put_back_is_named(path: Path, note: str, tmp_path: Path) -> None:
    """A copy from before the seal does not hold it; nor does one that grew again."""
    old = Path(shutil.copy(path, tmp_path / "old.db"))
    with forging(old) as file:
        for table in ("events", "conversations", "fingerprints", "event_ids"):
            file.execute(f"DELETE FROM toolledger_{table} WHERE conversation >= 16")  # noqa: S608
        file.execute("UPDATE toolledger_lanes SET position = 15")
        file.execute("DELETE FROM toolledger_seals WHERE size > 7")
    expected = [("seal missing", 0, 0), ("put back", 8, 19)]
    assert found(check(SqliteLog(old), note, TRUSTED)) == expected
    write(old, "a", "a", "a")
    expected = [("seal missing", 0, 0), ("changed", 8, 19)]
    checked = check(SqliteLog(old), note, TRUSTED)
    assert found(checked) == expected
    assert "put back to an older copy and went on" in str(checked.findings[-1])
    assert (checked.lanes[0].sealed, checked.lanes[0].head) == (19, 21)


@pytest.mark.parametrize("column", ["root", "edge", "note", "size"])
def test_a_stored_seal_that_was_changed_is_not_believed(path: Path, note: str, column: str) -> None:
    """Neither a check nor the next seal goes on from it."""
    value = {"root": "x'00'", "edge": "zeroblob(96)", "note": "'x'", "size": "18"}[column]
    with forging(path) as file:
        file.execute(f"UPDATE toolledger_seals SET {column} = {value} WHERE size = 19")  # noqa: S608
    kinds = [kind for kind, *_ in found(check(SqliteLog(path), note, TRUSTED))]
    assert kinds == ["seal changed", "seal missing"]
    write(path, "a")
    with pytest.raises((BadNote, SealMismatch)):
        seal(SqliteLog(path), KEY)


def test_a_note_of_another_store_or_key_is_no_proof(path: Path, note: str, tmp_path: Path) -> None:
    """The comparison is refused, and says why."""
    other = tmp_path / "other.db"
    write(other, "a")
    with pytest.raises(SealMismatch, match=r"the note is of store .* open the other"):
        check(SqliteLog(other), note, TRUSTED)
    stranger = SigningKey("example.com/agents", bytes(32))
    with pytest.raises(NotSigned, match=r"is not signed by example\.com/agents"):
        check(SqliteLog(path), note, [stranger.verifier])
    with pytest.raises(NotSigned, match="is false, so the note was changed"):
        check(SqliteLog(path), note.replace("\n19\n", "\n18\n"), TRUSTED)
    with pytest.raises(BadNote, match="no signed note"):
        check(SqliteLog(path), "nothing", TRUSTED)


def test_two_heads_of_one_size_are_named(path: Path, note: str) -> None:
    """The owner of the key has signed two histories: both notes prove it."""
    with forging(path) as file:
        edit("recorded_at", "recorded_at + 1")(file)
        file.execute("DELETE FROM toolledger_seals WHERE size > 7")
    seal(SqliteLog(path), KEY)
    assert found(check(SqliteLog(path), note, TRUSTED)) == [
        ("forked", 1, 19),
        ("seal missing", 0, 0),
        ("changed", 8, 19),
    ]


def test_a_redacted_payload_leaves_every_seal_whole(path: Path, note: str) -> None:
    """The marker keeps the payload's digest, and the leaf has nothing else of the payload."""
    log = SqliteLog(path)
    before = prove(log, "b", 1, TRUSTED)
    with closing(sqlite3.connect(path)) as file, file:
        row = "SELECT position, CAST(payload AS BLOB) FROM toolledger_events"
        for position, payload in file.execute(row).fetchall():
            marker = f'{{"redacted":"{payload_digest(payload).hex()}"}}'
            file.execute(
                "UPDATE toolledger_events SET payload = ? WHERE position = ?", (marker, position)
            )
    assert found(check(log, note, TRUSTED)) == []
    assert prove(log, "b", 1, TRUSTED) == before
