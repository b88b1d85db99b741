"""Sealing in turns, by several processes and beside anchors; and the proofs of what was sealed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from eventstore import EventStore
from eventstore.latch import Latch
from eventstore.seals import (
    AnchorFailed,
    BadNote,
    Consistency,
    FileAnchor,
    FolderStore,
    Inclusion,
    NotSealed,
    NotSigned,
    ObjectAnchor,
    Seal,
    SealedRow,
    Sealer,
    SealingPace,
    SealMismatch,
    SigningKey,
    check,
    prove,
    prove_since,
    seal,
)
from eventstore.seals.sealer import lanes_due

KEY = SigningKey("example.com/agents", bytes(range(32)))
TRUSTED = [KEY.verifier]
ORIGIN = "example.com/agents/e/0"


class MemoryLog:
    """Two lanes in memory, the second one empty at first."""

    epoch = "e"

    def __init__(self, events: int = 0) -> None:
        self.rows: dict[int, list[SealedRow]] = {0: [], 1: []}
        self.stored: list[Seal] = []
        self.append(events)

    def append(self, events: int, lane: int = 0) -> None:
        """Append events of one conversation in each lane."""
        for _ in range(events):
            n = len(self.rows[lane]) + 1
            row = SealedRow(
                n, "", f"c{lane}", n, b"i", n, None, "message", 1, None, b"p" * 16, None, b"c" * 16
            )
            self.rows[lane].append(row)

    def heads(self) -> Mapping[int, int]:
        """Return the counters."""
        return {lane: rows[-1].position if rows else 0 for lane, rows in self.rows.items()}

    @property
    def sealable_log(self) -> MemoryLog:
        """Return this log."""
        return self

    def sealable_rows(self, lane: int, after: int, until: int) -> Iterator[SealedRow]:
        """Yield rows."""
        yield from [row for row in self.rows[lane] if after < row.position <= until]

    def place_of(self, conversation_id: str, version: int) -> tuple[int, int] | None:
        """Return a place; conversations are named for their lanes."""
        lane = int(conversation_id[1:])
        return (lane, version) if version <= len(self.rows[lane]) else None

    def sealed_lanes(self) -> set[object]:
        """Return the lanes with seals."""
        return {each.lane for each in self.stored}

    def seals(self, lane: int) -> Iterator[Seal]:
        """Yield the seals."""
        yield from sorted((s for s in self.stored if s.lane == lane), key=lambda s: s.size)

    def last_seal(self, lane: int) -> Seal | None:
        """Return the greatest seal."""
        return max(self.seals(lane), key=lambda seal: seal.size, default=None)

    def add_seal(self, seal: Seal) -> bool:
        """Store a seal after the one that the caller knows."""
        last = self.last_seal(seal.lane)
        if (last.size if last else 0) != seal.previous:
            return False
        self.stored.append(seal)
        return True


class LateLog(MemoryLog):
    """A log in which another process stores its seal right before this one."""

    forged = ""
    """The note that the other process stores, if it is to be another one."""

    def add_seal(self, seal: Seal) -> bool:
        """Let the other process be first."""
        super().add_seal(msgspec.structs.replace(seal, note=self.forged or seal.note))
        return super().add_seal(seal)


class Broken:
    """An anchor that takes nothing as long as it is broken."""

    def __init__(self) -> None:
        self.is_broken = True
        self.refused, self.taken = Latch(), Latch()
        self.notes: list[str] = []

    def publish(self, origin: str, size: int, note: str) -> None:
        """Take a note, or refuse it."""
        if self.is_broken:
            self.refused.set()
            raise OSError("no route to the host")
        self.notes.append(note)
        self.taken.set()

    def latest(self, origin: str) -> str | None:
        """Return the last note."""
        return next((note for note in self.notes[::-1] if note.startswith(f"{origin}\n")), None)


def test_a_seal_reads_what_is_new_and_goes_on_from_the_last_one() -> None:
    """Sealed in turns or at once, a lane has the same root; nothing new gives the same seal."""
    log, other = MemoryLog(), MemoryLog(23)
    assert seal(log, KEY) == []
    for events in (1, 2, 4, 16):
        log.append(events)
        (last,) = seal(log, KEY)
    assert [each.size for each in log.seals(0)] == [1, 3, 7, 23]
    (at_once,) = seal(other, KEY)
    assert (at_once.note, at_once.edge) == (last.note, last.edge)
    assert seal(log, KEY) == [last]
    log.append(5, lane=1)
    checked = check(log, last.note, TRUSTED)
    assert (checked.findings, checked.without_note) == ([], (1,))
    assert [(each.lane, each.size) for each in seal(log, KEY)] == [(0, 23), (1, 5)]
    assert [each.lane for each in seal(log, KEY, lanes={1})] == [1]


def test_a_seal_of_another_process_is_not_written_over() -> None:
    """The newest seal is returned and published, but only if the key has signed its note."""
    log, anchor = LateLog(3), Broken()
    anchor.is_broken = False
    assert [each.size for each in seal(log, KEY, anchors=[anchor])] == [3]
    assert [each.note for each in log.stored] == anchor.notes
    log.append(3)
    log.forged = log.stored[0].note
    with pytest.raises(SealMismatch, match="lane 0 at 6 is not that of its note"):
        seal(log, KEY, anchors=[anchor])
    assert len(anchor.notes) == 1


def test_a_lane_that_is_not_whole_is_not_signed() -> None:
    """A gap, a lost tail and a damaged row are named; the other lanes are sealed all the same."""
    damages: list[tuple[Callable[[MemoryLog], object], str]] = [
        (lambda log: log.rows[0].pop(6), "no event at position 7, and was sealed up to 5"),
        (lambda log: log.rows[0].__delitem__(slice(4, None)), "no event at position 5, and was"),
        (lambda log: log.rows[0].pop(4), "no event at position 5, and was sealed up to 5"),
        (lambda log: log.rows[0].clear(), "no event at position 5, and was sealed up to 5"),
        (
            lambda log: log.rows[0].append(SealedRow(*log.rows[0][0]._replace(position=9, tag=3))),
            "cannot be sealed: the event at position 9 has no valid tag",
        ),
    ]
    for damage, problem in damages:
        log = MemoryLog(5)
        seal(log, KEY)
        log.append(3)
        log.append(2, lane=1)
        damage(log)
        with pytest.raises(SealMismatch, match=problem):
            seal(log, KEY)
        assert [(each.lane, each.size) for each in log.stored] == [(0, 5), (1, 2)]


def test_a_counter_without_events_is_named() -> None:
    """There is nothing to seal, though something was appended."""

    class Emptied(MemoryLog):
        def heads(self) -> Mapping[int, int]:
            return {0: 3, 1: 0}

    with pytest.raises(
        SealMismatch, match="lane 0 has no event at position 1, and was sealed up to 0"
    ):
        seal(Emptied(), KEY)


def test_a_key_is_replaced_by_another_of_its_name() -> None:
    """The older key has to be trusted, and another name is another log."""
    log, new = MemoryLog(3), SigningKey("example.com/agents", bytes(32))
    (old,) = seal(log, KEY)
    log.append(3)
    with pytest.raises(NotSigned, match="pass the key that has signed it"):
        seal(log, new)
    with pytest.raises(SealMismatch, match="not that of its note"):
        seal(log, SigningKey("example.com/others", bytes(32)), trusted=TRUSTED)
    (newer,) = seal(log, new, trusted=TRUSTED)
    keys = [*TRUSTED, new.verifier]
    assert check(log, f"{old.note}\n{newer.note}", keys).findings == []


@pytest.mark.parametrize("kind", ["file", "objects"])
def test_an_anchor_keeps_every_note(tmp_path: Path, kind: str) -> None:
    """Another process finds the newest one, and `check` takes the file as it is."""

    def anchor() -> FileAnchor | ObjectAnchor:
        if kind == "file":
            return FileAnchor(tmp_path / "notes")
        return ObjectAnchor(FolderStore(tmp_path), "seals/")

    log, one = MemoryLog(), anchor()
    assert one.latest(ORIGIN) is None
    for _ in range(3):
        log.append(4)
        seal(log, KEY, anchors=[one])
        seal(log, KEY, anchors=[anchor()])
    notes = [each.note for each in log.seals(0)]
    assert one.latest(ORIGIN) == anchor().latest(ORIGIN) == notes[-1]
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    kept = "\n".join(path.read_text() for path in files)
    assert [note in kept for note in notes] == [True] * 3
    assert len(check(log, kept, TRUSTED).lanes) == 1
    assert check(log, kept, TRUSTED).without_note == ()
    one.publish(ORIGIN, 12, notes[-1])
    with pytest.raises(AnchorFailed, match="another"):
        one.publish(ORIGIN, 12, notes[0])


def test_a_note_that_was_torn_in_a_crash_is_passed_over(tmp_path: Path) -> None:
    """The next one begins on a line of its own, wherever the write before it ended."""
    log = MemoryLog(5)
    (first,) = seal(log, KEY)
    log.append(5)
    (second,) = seal(log, KEY)
    data = f"{first.note}\n".encode()
    ends = [number for number, byte in enumerate(data) if byte in b"\n\xe2\x80\x94"]
    for length in {0, *ends, *(end + 1 for end in ends), len(data) - 10}:
        path = tmp_path / str(length)
        path.write_bytes(data[:length])
        anchor = FileAnchor(path)
        anchor.latest(ORIGIN)
        anchor.publish(ORIGIN, 10, second.note)
        assert anchor.latest(ORIGIN) == FileAnchor(path).latest(ORIGIN) == second.note, length


def test_an_anchor_that_failed_gets_the_note_later() -> None:
    """The seal is stored, the other anchors have it, and the error names the cause."""
    log, broken, other = MemoryLog(3), Broken(), Broken()
    other.is_broken = False
    with pytest.raises(AnchorFailed, match=r"at 3 is stored, but an anchor failed \(OSError\)"):
        seal(log, KEY, anchors=[broken, other])
    assert len(log.stored) == len(other.notes) == 1
    broken.is_broken = False
    seal(log, KEY, anchors=[broken, other])
    assert broken.notes == other.notes == [log.stored[0].note]


def test_a_database_that_was_put_back_is_not_sealed_again(tmp_path: Path) -> None:
    """The anchor knows a seal that the database does not have: no second history is signed."""
    log, anchor = MemoryLog(5), FileAnchor(tmp_path / "notes")
    seal(log, KEY, anchors=[anchor])
    before = list(log.stored)
    log.append(5)
    seal(log, KEY, anchors=[anchor])
    for log.stored, events in ((before, 7), (before, 16), ([], 0)):
        log.rows[0].clear()
        log.append(events)
        with pytest.raises(SealMismatch, match="holds a seal of lane 0 at 10 that the database"):
            seal(log, KEY, anchors=[anchor])
        assert log.stored in (before, [])


def test_proofs_go_through_their_text_forms() -> None:
    """Each event of each size is proven, each older note leads to the newest one."""
    log = MemoryLog()
    old: list[str] = []
    for size in range(1, 12):
        log.append(1)
        (newest,) = seal(log, KEY)
        for version in range(1, size + 1):
            proof = prove(log, "c0", version, TRUSTED)
            assert Inclusion.parse(str(proof)) == proof
            row, head = proof.check(TRUSTED)
            assert row == log.rows[0][version - 1]
            assert (head.origin, head.size) == (ORIGIN, size)
        for number, note in enumerate(old, 1):
            since = prove_since(log, note, TRUSTED)
            assert Consistency.parse(str(since)) == since
            assert [each.size for each in since.check(note, TRUSTED)] == [number, size]
        old.append(newest.note)


def test_a_proof_that_was_changed_proves_nothing() -> None:
    """Leaf, index, path and note belong together."""
    log = MemoryLog(7)
    (old,) = seal(log, KEY)
    log.append(6)
    seal(log, KEY)
    proof, other = prove(log, "c0", 3, TRUSTED), prove(log, "c0", 4, TRUSTED)
    changed = {"leaf": other.leaf, "index": 3, "path": other.path, "note": old.note}
    for member, value in changed.items():
        parts = {name: getattr(proof, name) for name in changed} | {member: value}
        with pytest.raises(SealMismatch, match=r"does not lead to the note|says position"):
            Inclusion(**parts).check(TRUSTED)
    since = prove_since(log, old.note, TRUSTED)
    for name, value in {"old_size": 6, "path": since.path[1:], "note": old.note}.items():
        parts = {"old_size": 7, "path": since.path, "note": since.note} | {name: value}
        with pytest.raises(SealMismatch):
            Consistency(**parts).check(old.note, TRUSTED)
    log.rows[0][2] = log.rows[0][3]
    with pytest.raises(SealMismatch, match="no event at position 3, and is sealed up to 13"):
        prove(log, "c0", 3, TRUSTED)
    log.rows[0][2] = SealedRow(*log.rows[0][3])._replace(position=3)
    with pytest.raises(SealMismatch, match="not those that were sealed up to 13"):
        prove(log, "c0", 9, TRUSTED)
    with pytest.raises(SealMismatch, match="not those that were sealed up to 13"):
        prove_since(log, old.note, TRUSTED)


def test_an_event_that_cannot_be_proven_is_named() -> None:
    """Each error names the event, and what to do."""
    log = MemoryLog(3)
    with pytest.raises(NotSealed, match="lane 0 has no seal: seal the log first"):
        prove(log, "c0", 1, TRUSTED)
    seal(log, KEY)
    log.append(1)
    with pytest.raises(NotSealed, match="'c0' has no version 9"):
        prove(log, "c0", 9, TRUSTED)
    with pytest.raises(NotSealed, match="is sealed up to 3: seal the log, then prove it"):
        prove(log, "c0", 4, TRUSTED)
    (new,) = seal(log, KEY)
    log.stored.remove(new)
    with pytest.raises(NotSealed, match="put back to an older copy"):
        prove_since(log, new.note, TRUSTED)
    log.rows[0].pop(1)
    with pytest.raises(SealMismatch, match="no event at position 2, and is sealed up to 3"):
        prove(log, "c0", 1, TRUSTED)
    for text in ("", "c2sp.org/tlog-proof@v1\nindex 1\n\n", "c2sp.org/tlog-proof@v1\nextra YQ==\n"):
        with pytest.raises(BadNote, match="the proof"):
            Inclusion.parse(text)
    for text in ("", "old x\n\n", "old 1\nAAAA\n\n"):
        with pytest.raises(BadNote, match="the proof"):
            Consistency.parse(text)


def test_lanes_are_due_by_events_or_by_time() -> None:
    """Events are counted from the last seal; a counter that went back is due, too."""
    pace = SealingPace(events=10, seconds=60)
    assert lanes_due(pace, {0: 9, 1: 10}, {}, 59) == {1}
    assert lanes_due(pace, {0: 9, 1: 10, 2: 0}, {1: 10}, 60) == {0}
    assert lanes_due(pace, {0: 9, 1: 10}, {1: 11}, 0) == {1}


def test_a_sealer_seals_what_comes_and_the_rest_at_its_end(tmp_path: Path) -> None:
    """A failure is kept until a later seal succeeds; the last one is raised at the end."""
    log, anchor = MemoryLog(5), Broken()
    with pytest.raises(ValueError, match="numbers above 0"):
        Sealer(log, KEY, pace=SealingPace(events=0))
    pace = SealingPace(events=5, seconds=0.01, poll_seconds=0.001)
    with Sealer(log, KEY, anchors=[anchor], pace=pace) as sealer:
        assert anchor.refused.wait(60)
        anchor.is_broken = False
        assert anchor.taken.wait(60)
        log.append(6)
    assert sealer.error is None
    assert log.stored[-1].size == 11
    assert anchor.notes[-1] == log.stored[-1].note
    log.append(1)
    anchor.is_broken = True
    sealer = Sealer(log, KEY, anchors=[anchor], pace=SealingPace())
    with pytest.raises(AnchorFailed):
        sealer.close()
    sealer.close()


def test_two_sealers_beside_a_writer_sign_one_history(tmp_path: Path) -> None:
    """Each size is stored once, and the notes of both are those of one log."""
    path = tmp_path / "agent.db"
    pace = SealingPace(events=1, poll_seconds=0.0001)
    with EventStore.open(f"sqlite:///{path}") as store:
        anchor = FileAnchor(tmp_path / "notes")
        with Sealer(store, KEY, anchors=[anchor], pace=pace), Sealer(store, KEY, pace=pace):
            for number in range(100):
                store.conversation(f"c{number % 3}").add_message("user", f"message {number}")
        seals = list(store.sealable_log.seals(0))
        assert [each.previous for each in seals] == [0, *(each.size for each in seals[:-1])]
        assert seals[-1].size == 100
        notes = "\n".join(each.note for each in seals) + (tmp_path / "notes").read_text()
        assert check(store, notes, TRUSTED).findings == []
