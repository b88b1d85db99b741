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
    size = opened(note, trusted).size
    if size < position:
        raise NotSealed(
            f"version {version} of conversation {conversation_id!r} is at position {position}, and "
            f"lane {lane} is sealed up to {size}: seal the log, then prove it"
        )
    return _proofs(log, lane, [position], note, trusted)[position]


def prove_all(
    store: SealableStore, lane: int, positions: Collection[int], trusted: Collection[VerifierKey]
) -> dict[int, Inclusion]:
    """Return the proofs of events of a lane, by their positions; the lane is read once.

    Those after the last seal have none.

    Raises:
        NotSealed: the lane has no seal.
        SealMismatch: the log is not what was sealed.
    """
    log = store.sealable_log
    return _proofs(log, lane, positions, _newest_note(log, lane), trusted)


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
    roots = range_roots(ranges, _hashes(log, lane, new.size) if ranges else ())
    proof = Consistency(old.size, tuple(roots[each] for each in ranges), note)
    with _of_this_log(new):
        proof.check(old_note, trusted)
    return proof


def _proofs(
    log: SealableLog,
    lane: int,
    positions: Collection[int],
    note: str,
    trusted: Collection[VerifierKey],
) -> dict[int, Inclusion]:
    """Return the proofs of those events that the note covers."""
    head = opened(note, trusted)
    kept: dict[int, SealedRow | None] = dict.fromkeys(at for at in positions if at <= head.size)
    ranges = {at: inclusion_ranges(at - 1, head.size) for at in kept}
    wanted = {each for some in ranges.values() for each in some}
    roots = range_roots(wanted, _hashes(log, lane, head.size, kept)) if kept else {}
    proofs: dict[int, Inclusion] = {}
    for at, row in kept.items():
        if row is not None:
            path = tuple(roots[each] for each in ranges[at])
            proofs[at] = Inclusion(leaf_of(row), at - 1, path, note)
            with _of_this_log(head):
                proofs[at].check(trusted)
    return proofs


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
    log: SealableLog, lane: int, size: int, kept: dict[int, SealedRow | None] | None = None
) -> Iterator[bytes]:
    """Yield the hashes of the leaves up to a size, and keep the rows whose positions are given."""
    end = 0
    for row in log.sealable_rows(lane, 0, size):
        if row.position != end + 1:
            break
        end = row.position
        if kept is not None and end in kept:
            kept[end] = row
        try:
            yield hash_of(row)
        except Unsealable as error:
            raise SealMismatch(f"{error}: check lane {lane} against its note") from None
    if end < size:
        raise SealMismatch(
            f"lane {lane} has no event at position {end + 1}, and is sealed up to {size}: "
            "check it against its note"
        )
