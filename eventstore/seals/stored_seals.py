"""Seals as a database holds them: which of them can be believed, and what is wrong with the others.

1. A seal is believed if a trusted key has signed its note, and its size, root and edge are those of
   the note.
2. Without a key all of this is checked but the signature: `verify` does so.
3. The seals of a lane form a list: each one names the size of the one before, the first one 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from eventstore.seals.checkpoints import Checkpoint, Origin, opened
from eventstore.seals.errors import SealError, SealMismatch
from eventstore.seals.merkle import Edge
from eventstore.seals.notes import Note

if TYPE_CHECKING:
    from eventstore.seals.keys import VerifierKey
    from eventstore.storage.sealable_log import Seal, SealableLog


def edge_of(stored: Seal, origin: str, trusted: Collection[VerifierKey]) -> Edge:
    """Return the right edge of a stored seal.

    Raises:
        BadNote, NotSigned: its note was not written by a trusted key.
        SealMismatch: it is not that of its note.
    """
    return _edge(stored, origin, opened(stored.note, trusted))


def seal_problems(log: SealableLog) -> Iterator[tuple[int, str]]:
    """Yield the lane and what is wrong with its stored seals, as far as no key is needed."""
    for lane in sorted(log.sealed_lanes(), key=repr):
        if not isinstance(lane, int):
            yield -1, f"there are seals of a lane {lane!r}"
            continue
        before = 0
        for stored in log.seals(lane):
            if stored.previous != before:
                yield lane, f"the seal of lane {lane} at {stored.previous} is missing"
            before = stored.size
            try:
                _check_form(stored, log.epoch)
            except SealError as error:
                yield lane, f"the seal of lane {lane} at {stored.size} is not as written: {error}"


def _check_form(stored: Seal, epoch: str) -> None:
    head = Checkpoint.parse(Note.parse(stored.note).text)
    origin = Origin(Origin.parse(head.origin).name, epoch, stored.lane)
    _edge(stored, str(origin), head)


def _edge(stored: Seal, origin: str, head: Checkpoint) -> Edge:
    edge = Edge.of(stored.size, stored.edge)
    said = (origin, stored.size, stored.root)
    if edge is None or (head.origin, head.size, head.root) != said or edge.root() != head.root:
        raise SealMismatch(
            f"the stored seal of lane {stored.lane} at {stored.size} is not that of its note, "
            f"which is of {head.origin} at {head.size}, so its row was changed: check the log "
            "against the notes of an anchor"
        )
    return edge
