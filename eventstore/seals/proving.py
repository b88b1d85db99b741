"""Proving: what the events of a log, read once, prove to a person who holds a note.

The rows are read from the first one on, in memory of O(log n). What does not lead to the signed
root is not handed out: then the log is not what was sealed.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from eventstore.seals.checkpoints import opened
from eventstore.seals.errors import NotSealed, SealMismatch
from eventstore.seals.merkle import consistency_ranges, inclusion_ranges, range_roots
from eventstore.seals.proofs import Consistency, Inclusion
from eventstore.storage.leaves import SealedRow, Unsealable, hash_of, leaf_of

if TYPE_CHECKING:
    from eventstore.seals.checkpoints import Checkpoint
    from eventstore.seals.keys import VerifierKey
    from eventstore.storage.sealable_log import SealableLog, SealableStore


def prove(
    store: SealableStore, conversation_id: str, version: int, trusted: Collection[VerifierKey]
) -> Inclusion:
    """Return the proof that an event is in the log of the newest seal.

    Raises:
        NotSealed: there is no such event, or the last seal comes before it.
        SealMismatch: the log is not what was sealed.
    """
    log = store.sealable_log
    place = log.place_of(conversation_id, version)
    if place is None:
        raise NotSealed(
            f"conversation {conversation_id!r} has no version {version}: look at its events"
        )
    lane, position = place
    note = _newest_note(log, lane)
    head = opened(note, trusted)
    if head.size < position:
        raise NotSealed(
            f"version {version} of conversation {conversation_id!r} is at position {position}, and "
            f"lane {lane} is sealed up to {head.size}: seal the log, then prove it"
        )
    kept: list[SealedRow] = []
    ranges = inclusion_ranges(position - 1, head.size)
    path = range_roots(ranges, _hashes(log, lane, head.size, position, kept))
    if not kept:
        raise NotSealed(
            f"the event at position {position} of lane {lane} was archived: take its proof from "
            "the archive"
        )
    proof = Inclusion(leaf_of(kept[0]), position - 1, tuple(path), note)
    with _of_this_log(head):
        proof.check(trusted)
    return proof


def prove_since(
    store: SealableStore, old_note: str, trusted: Collection[VerifierKey]
) -> Consistency:
    """Return the proof that the log of an older note is the beginning of that of the newest seal.

    Raises:
        BadNote, NotSigned: the older note is not one of a trusted key.
        NotSealed: the newest seal is older than the note.
        SealMismatch: the log is not what was sealed.
    """
    log = store.sealable_log
    old = opened(old_note, trusted)
    lane = old.lane_in(log.epoch)
    note = _newest_note(log, lane)
    new = opened(note, trusted)
    if new.size < old.size:
        raise NotSealed(
            f"the newest seal of lane {lane} is at {new.size}, and the note at {old.size}, so the "
            "database was put back to an older copy, or its seals were removed: check it against "
            "the note"
        )
    ranges = consistency_ranges(old.size, new.size)
    path = range_roots(ranges, _hashes(log, lane, new.size) if ranges else ())
    proof = Consistency(old.size, tuple(path), note)
    with _of_this_log(new):
        proof.check(old_note, trusted)
    return proof


@contextmanager
def _of_this_log(head: Checkpoint) -> Generator[None, None, None]:
    """Say of a proof that proves nothing that the log is at fault."""
    try:
        yield
    except SealMismatch as error:
        raise SealMismatch(
            f"the events of {head.origin} are not those that were sealed up to {head.size}: check "
            "the log against the notes that you have"
        ) from error


def _newest_note(log: SealableLog, lane: int) -> str:
    last = log.last_seal(lane)
    if last is None:
        raise NotSealed(f"lane {lane} has no seal: seal the log first")
    return last.note


def _hashes(
    log: SealableLog,
    lane: int,
    size: int,
    wanted: int | None = None,
    kept: list[SealedRow] | None = None,
) -> Iterator[bytes]:
    """Yield the hashes of the leaves up to a size, and keep the row at one position."""
    end = 0
    for row in log.sealable_rows(lane, 0, size):
        if row.position != end + 1:
            break
        end = row.position
        if kept is not None and end == wanted and isinstance(row, SealedRow):
            kept.append(row)
        try:
            yield hash_of(row)
        except Unsealable as error:
            raise SealMismatch(f"{error}: check lane {lane} against its note") from None
    if end < size:
        raise SealMismatch(
            f"lane {lane} has no event at position {end + 1}, and is sealed up to {size}: "
            "check it against its note"
        )
