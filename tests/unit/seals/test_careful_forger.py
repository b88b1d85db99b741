"""A writer without the key who computes the chain anew: what `verify` cannot see, a note names."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.careful_forger import forging

from eventstore import EventStore
from eventstore.domain.fingerprint import digest
from eventstore.domain.marker_proofs import proof_for
from eventstore.domain.redaction import REDACTED, partial_marker
from eventstore.seals import (
    BadNote,
    Checked,
    Inclusion,
    NotSigned,
    SealMismatch,
    SigningKey,
    VerifierKey,
    check,
    prove,
)
from eventstore.storage.chain import payload_digest
from eventstore.testing import message

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


def sealed(path: Path) -> str:
    """Seal a log; return the newest note of its lane."""
    with EventStore.open(f"sqlite:///{path}") as store:
        (seal,) = store.seal(KEY)
        return seal.note


def checked(path: Path, notes: str, trusted: Collection[VerifierKey] = TRUSTED) -> Checked:
    """Compare a log with notes."""
    with EventStore.open(f"sqlite:///{path}") as store:
        return check(store, notes, trusted)


def proof_of(path: Path, name: str, version: int) -> Inclusion:
    """Return the proof of an event."""
    with EventStore.open(f"sqlite:///{path}") as store:
        return prove(store, name, version, TRUSTED)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of three conversations, sealed at 7 and 19 of its 19 events."""
    path = tmp_path_factory.mktemp("seals") / "agent.db"
    write(path, "a", "b", "a", "b")  # 1 to 7
    sealed(path)
    redact(path)  # 8, said at 9
    write(path, "a", "b", "a")  # 10 to 15
    write(path, "newest")  # 16 to 19
    sealed(path)
    return path


def redact(path: Path) -> None:
    """Append a message to a conversation, and let mia redact it."""
    with EventStore.open(f"sqlite:///{path}") as store:
        (there,) = store.conversation("a").append(message("the secret"))
        store.redact("a", by="mia", versions=[there.version])


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    """Return a copy of the log."""
    return Path(shutil.copy(original, tmp_path))


@pytest.fixture
def note(path: Path) -> str:
    """Return the note that somebody keeps."""
    with EventStore.open(f"sqlite:///{path}") as store:
        last = store.sealable_log.last_seal(0)
    assert last is not None
    assert last.size == 19
    return last.note


def problems(path: Path) -> list[str]:
    """Return what `verify` finds."""
    with EventStore.open(f"sqlite:///{path}") as store:
        return [found.problem for found in store.verify()]


def found(of: Checked) -> list[tuple[str, int, int]]:
    """Return kind and range of each finding."""
    return [(each.kind, each.first, each.last) for each in of.findings]


def edit(column: str, value: str, position: int = 12) -> Forgery:
    """Return what changes a column of the event at a position."""
    return lambda file: file.execute(
        f"UPDATE toolledger_events SET {column} = {value} WHERE position = {position}"  # noqa: S608
    )


def edit_arguments(file: sqlite3.Connection) -> None:
    """Change the arguments of the last call, with their fingerprint wherever it stands."""
    old, new = digest("refund", {"amount": 1}), digest("refund", {"amount": 9})
    edit("payload", """replace(payload, '"amount":1', '"amount":9')""", 17)(file)
    for table in ("events", "fingerprints"):
        file.execute(
            f"UPDATE toolledger_{table} SET fingerprint = ? "  # noqa: S608
            "WHERE fingerprint = ? AND conversation = 16",
            (new, old),
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


def renumber(file: sqlite3.Connection, conversation: int, after: int, by: int) -> None:
    """Move the versions of a conversation after one of them, wherever they stand."""
    order = "DESC" if by > 0 else "ASC"
    for table in ("events", "fingerprints", "event_ids"):
        for (version,) in file.execute(
            f"SELECT DISTINCT version FROM toolledger_{table} "  # noqa: S608
            f"WHERE conversation = ? AND version > ? ORDER BY version {order}",
            (conversation, after),
        ).fetchall():
            file.execute(
                f"UPDATE toolledger_{table} SET version = version + ? "  # noqa: S608
                "WHERE conversation = ? AND version = ?",
                (by, conversation, version),
            )


def shift(file: sqlite3.Connection, after: int, by: int) -> None:
    """Move the positions after one, with the keys of the conversations that begin there."""
    positions = range(after + 1, 20)
    for position in positions[::-1] if by > 0 else positions:
        file.execute(
            "UPDATE toolledger_events SET position = position + ? WHERE position = ?",
            (by, position),
        )
    for table in ("events", "conversations", "fingerprints", "event_ids"):
        file.execute(
            f"UPDATE toolledger_{table} SET conversation = conversation + ? "  # noqa: S608
            "WHERE conversation > ?",
            (by, after),
        )
    file.execute("UPDATE toolledger_lanes SET position = position + ?", (by,))


def remove_from_the_middle(file: sqlite3.Connection) -> None:
    """Remove a message, and close the gap in positions and versions."""
    row = "SELECT conversation, version FROM toolledger_events WHERE position = 10"
    key, version = file.execute(row).fetchone()
    file.execute("DELETE FROM toolledger_events WHERE position = 10")
    renumber(file, key, version, -1)
    shift(file, 10, -1)


def insert(file: sqlite3.Connection) -> None:
    """Put a copy of the message at 12 before it, and make room for it."""
    row = "SELECT conversation, version FROM toolledger_events WHERE position = 12"
    key, version = file.execute(row).fetchone()
    renumber(file, key, version - 1, 1)
    shift(file, 11, 1)
    file.execute("CREATE TEMP TABLE copy AS SELECT * FROM toolledger_events WHERE position = 13")
    file.execute(
        "UPDATE copy SET position = 12, version = ?, event_id = randomblob(16)", (version,)
    )
    file.execute("INSERT INTO toolledger_events SELECT * FROM copy")
    file.execute("DROP TABLE copy")


def move(file: sqlite3.Connection) -> None:
    """Move the message at 12 from the first conversation to the end of the second."""
    row = "SELECT conversation, version FROM toolledger_events WHERE position = 12"
    key, version = file.execute(row).fetchone()
    edit(
        "(conversation, version)",
        "(2, 1 + (SELECT max(version) FROM toolledger_events WHERE conversation = 2))",
    )(file)
    renumber(file, key, version, -1)


def swap_seals(file: sqlite3.Connection) -> None:
    """Remove the seals beside the last event."""
    cut(file)
    file.execute("DELETE FROM toolledger_seals WHERE size > 7")


FORGERIES: dict[str, tuple[Forgery, list[tuple[str, int, int]]]] = {
    "payload": (edit("payload", "replace(payload, 'message', 'massage')"), [("changed", 8, 19)]),
    "recorded_at": (edit("recorded_at", "recorded_at + 1"), [("changed", 8, 19)]),
    "occurred_at": (edit("occurred_at", "5"), [("changed", 8, 19)]),
    "event_id": (edit("event_id", "randomblob(16)"), [("changed", 8, 19)]),
    "salt": (edit("salt", "randomblob(16)"), [("changed", 8, 19)]),
    "arguments with their fingerprint": (edit_arguments, [("changed", 8, 19)]),
    "who redacted a payload": (
        edit("payload", "replace(payload, 'mia', 'ann')", 9),
        [("changed", 8, 19)],
    ),
    "moved": (move, [("changed", 8, 19)]),
    "inserted": (insert, [("changed", 8, 19)]),
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
    assert found(checked(path, note)) == problems(path) == []
    forge, expected = FORGERIES[name]
    with forging(path) as file:
        forge(file)
    if "conversation" not in name or name == "the newest conversation":
        assert problems(path) == []
    assert found(checked(path, note)) == expected


def test_a_database_that_was_put_back_is_named(path: Path, note: str, tmp_path: Path) -> None:
    """A copy from before the seal does not hold it; nor does one that grew again."""
    old = Path(shutil.copy(path, tmp_path / "old.db"))
    with forging(old) as file:
        for table in ("events", "conversations", "fingerprints", "event_ids"):
            file.execute(f"DELETE FROM toolledger_{table} WHERE conversation >= 16")  # noqa: S608
        file.execute("UPDATE toolledger_lanes SET position = 15")
        file.execute("DELETE FROM toolledger_seals WHERE size > 7")
    expected = [("seal missing", 0, 0), ("put back", 8, 19)]
    assert found(checked(old, note)) == expected
    write(old, "a", "a", "a", "a")
    expected = [("seal missing", 0, 0), ("changed", 8, 19)]
    again = checked(old, note)
    assert found(again) == expected
    assert "put back to an older copy and went on" in str(again.findings[-1])
    assert (again.lanes[0].sealed, again.lanes[0].head) == (19, 22)


@pytest.mark.parametrize("column", ["root", "edge", "note", "size"])
def test_a_stored_seal_that_was_changed_is_not_believed(path: Path, note: str, column: str) -> None:
    """Neither a check nor the next seal goes on from it."""
    value = {"root": "x'00'", "edge": "zeroblob(96)", "note": "'x'", "size": "18"}[column]
    with forging(path) as file:
        file.execute(f"UPDATE toolledger_seals SET {column} = {value} WHERE size = 19")  # noqa: S608
    kinds = [kind for kind, *_ in found(checked(path, note))]
    assert kinds == ["seal changed", "seal missing"]
    write(path, "a")
    with pytest.raises((BadNote, SealMismatch)):
        sealed(path)


def test_a_note_of_another_store_or_key_is_no_proof(path: Path, note: str, tmp_path: Path) -> None:
    """The comparison is refused, and says why."""
    other = tmp_path / "other.db"
    write(other, "a")
    with pytest.raises(SealMismatch, match=r"the note is of store .* open the other"):
        checked(other, note)
    stranger = SigningKey("example.com/agents", bytes(32))
    with pytest.raises(NotSigned, match=r"is not signed by example\.com/agents"):
        checked(path, note, [stranger.verifier])
    with pytest.raises(NotSigned, match="is false, so the note was changed"):
        checked(path, note.replace("\n19\n", "\n18\n"))
    with pytest.raises(BadNote, match="no signed note"):
        checked(path, "nothing")


def test_two_heads_of_one_size_are_named(path: Path, note: str) -> None:
    """The owner of the key has signed two histories: both notes prove it."""
    with forging(path) as file:
        edit("recorded_at", "recorded_at + 1")(file)
        file.execute("DELETE FROM toolledger_seals WHERE size > 7")
    sealed(path)
    assert found(checked(path, note)) == [
        ("forked", 1, 19),
        ("seal missing", 0, 0),
        ("changed", 8, 19),
    ]


def test_a_redaction_leaves_leaf_and_seal_as_they_are(path: Path, note: str) -> None:
    """Payload, salt and fingerprint go. Where nobody has recorded it, `verify` says so."""
    before = proof_of(path, "newest", 2)
    assert b'"fingerprint":null' in before.leaf
    with EventStore.open(f"sqlite:///{path}") as store:
        store.redact("newest", by="mia", whole=True)
    assert found(checked(path, note)) == problems(path) == []
    assert proof_of(path, "newest", 2) == before
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM toolledger_events WHERE position > 19")
        file.execute("UPDATE toolledger_lanes SET position = 19")
    assert found(checked(path, note)) == []
    assert set(problems(path)) == {"it was redacted, and no redaction is recorded"}


@pytest.mark.parametrize("sealed_first", [True, False])
def test_other_content_under_a_redaction_is_a_change(
    path: Path, note: str, *, sealed_first: bool
) -> None:
    """Around a part of a text that is gone, it is told that no seal proves it."""
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("new")
        chat.add_message("user", "pay 10 to Bob")
        chat.request("pay", {"to": "Bob", "eur": 10}, "c1")
        chat.reject("c1", "not today")
        if sealed_first:
            note = store.seal(KEY)[0].note
        store.redact("new", by="mia", text="Bob", versions=[1])
        store.redact("new", by="mia", paths=["arguments.to"])
        note = note if sealed_first else store.seal(KEY)[0].note
    again = checked(path, note)
    assert found(again) == problems(path) == []
    assert [(each.version, each.paths) for each in again.lanes[0].unproven] == [
        (1, ("parts[0].text",))
    ]
    with forging(path) as file:
        file.execute("UPDATE toolledger_events SET payload = replace(payload, ':10', ':99')")
    (changed,) = found(checked(path, note))
    assert changed[0] == "changed"


def test_a_marker_shows_no_other_value_in_the_place_of_one(path: Path, note: str) -> None:
    """A marker that shows a value in the place of another one is none."""
    with EventStore.open(f"sqlite:///{path}") as store:
        store.redact("newest", by="mia", paths=["arguments.amount"])
    with forging(path) as file:
        file.execute(
            "UPDATE toolledger_events SET payload = "
            """replace(payload, '"amount":"[redacted]"', '"amount":9') WHERE position = 17"""
        )
    assert "its marker of a redaction is not as the library writes it" in problems(path)
    assert found(checked(path, note)) == [("changed", 8, 19)]


def test_verify_names_a_stored_seal_that_was_changed(path: Path) -> None:
    """Without a key all is checked but the signature."""
    edits = {
        "root = zeroblob(32)": "is not that of its note",
        "edge = zeroblob(96)": "is not that of its note",
        "size = 18": "is not that of its note",
        "note = 'x'": "not a text, an empty line",
        "lane = 5": "is not that of its note",
        "lane = 'x'": "there are seals of a lane 'x'",
        "previous = 'x', size = x'00'": "at -1 is missing",
        "previous = 6": "at 6 is missing",
    }
    for values, problem in edits.items():
        copy = Path(shutil.copy(path, f"{path}-copy"))
        with closing(sqlite3.connect(copy)) as file, file:
            file.execute(f"UPDATE toolledger_seals SET {values} WHERE previous = 7")  # noqa: S608
        assert any(problem in each for each in problems(copy)), values
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM toolledger_seals WHERE previous = 0")
    assert problems(path) == ["the seal of lane 0 at 7 is missing"]


def test_identifiers_of_a_payload_that_is_gone_are_those_that_were_sealed(
    path: Path, note: str
) -> None:
    """Each identifier is proven; what a marker says without a proof is told."""
    with EventStore.open(f"sqlite:///{path}") as store:
        store.redact("newest", by="mia", whole=True)
    assert [each.unproven for each in checked(path, note).lanes] == [()]
    with forging(path) as file:
        edit("payload", "replace(payload, 'refund', 'refuse')", 17)(file)
    assert "its marker of a redaction is not as the library writes it" not in problems(path)
    assert found(checked(path, note)) == [("changed", 8, 19)]


HIDDEN: dict[str, tuple[int, Callable[[dict[str, Any]], Any]]] = {
    "an event of the library that no version can read": (18, lambda _: REDACTED),
    "an identifier": (18, lambda event: {**event, "call_id": REDACTED}),
    "a member of a result": (19, lambda event: {**event, "response": _less(event["response"])}),
    "a member": (18, lambda event: {"call_id": event["call_id"]}),
}


def _less(response: dict[str, Any]) -> dict[str, Any]:
    return {**response, "result": {}}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_forged_redaction_hides_nothing_silently(path: Path, note: str, name: str) -> None:
    """A writer makes a marker with a true proof, and records it, as a redaction does."""
    position, hide = HIDDEN[name]
    with closing(sqlite3.connect(path)) as file, file:
        tag, payload, salt = file.execute(
            "SELECT tag, payload, salt FROM toolledger_events WHERE position = ?",
            (position,),
        ).fetchone()
        left = msgspec.json.encode(hide(json.loads(payload)))
        proof = proof_for(tag, payload.encode(), salt, left)
        digest = payload_digest(payload.encode(), salt, _fingerprint_at(file, position))
        marker = partial_marker(digest, left, bytes(16), proof)
        file.execute(
            "UPDATE toolledger_events SET payload = ?, salt = NULL, fingerprint = NULL "
            "WHERE position = ?",
            (marker.decode(), position),
        )
    assert "its marker of a redaction is not as the library writes it" in problems(path)
    assert found(checked(path, note)) == [("changed", 8, 19)]


def _fingerprint_at(file: sqlite3.Connection, position: int) -> bytes | None:
    row = "SELECT fingerprint FROM toolledger_events WHERE position = ?"
    return file.execute(row, (position,)).fetchone()[0]  # type: ignore[no-any-return]
