"""Checking a log against notes that were kept outside of its database.

1. Each note must be signed by a trusted key, and be of this store. Several may be given, of several
   lanes and ages: the older ones narrow down where something was changed.
2. The seals that the database holds are used, too, as far as they are signed. One that is not is a
   finding; so is a note without its stored seal.
3. What a redaction has left of a payload proves to be a part of what was sealed. Where it left a
   part of a text, or the seal is younger than the redaction, or the row had no salt, no seal proves
   what is there: `CheckedLane.unproven` names it.
4. What is compared, and what is found, is in `findings`. The digests of the chain are not checked
   here: after the last seal they are all there is, and `verify` checks them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import msgspec

from eventstore.seals.checkpoints import Checkpoint, notes_in, opened
from eventstore.seals.errors import BadNote, SealError
from eventstore.seals.findings import Finding, Mark, findings_of, merged
from eventstore.seals.stored_seals import edge_of

if TYPE_CHECKING:
    from eventstore.seals.keys import VerifierKey
    from eventstore.storage.leaves import SealedRow
    from eventstore.storage.sealable_log import SealableLog, SealableStore


class Unproven(msgspec.Struct, frozen=True):
    """Members of a payload that show what a redaction has left there, by its word alone."""

    conversation: str
    version: int
    paths: tuple[str, ...]
    """The paths of the members; "" is the whole payload."""


class CheckedLane(msgspec.Struct, frozen=True):
    """A lane that was compared with its notes."""

    lane: int
    sealed: int
    """The events that the notes cover: those up to this position."""
    head: int
    """The last position, by the lane's counter; what comes after `sealed` is not judged."""
    unproven: tuple[Unproven, ...]
    """What redactions have left of sealed events, and what no seal proves."""
    findings: tuple[Finding, ...]


class Checked(msgspec.Struct, frozen=True):
    """What a comparison of a log with notes has found."""

    lanes: tuple[CheckedLane, ...]
    without_note: tuple[int, ...]
    """Lanes that have events, and of which no note was given: nothing is known of them."""

    @property
    def findings(self) -> list[Finding]:
        """All that was found, lane after lane; nothing, if the log is what was sealed."""
        return [finding for lane in self.lanes for finding in lane.findings]


def check(store: SealableStore, notes: str, trusted: Collection[VerifierKey]) -> Checked:
    """Compare a store's log with one note or several, as a `FileAnchor` has them.

    Raises:
        BadNote: there is no note, or one is not that of a checkpoint.
        NotSigned: a note is not signed by a trusted key.
        SealMismatch: a note is of another store.
    """
    log = store.sealable_log
    heads: dict[int, list[Checkpoint]] = {}
    for note in notes_in(notes):
        head = opened(note, trusted)
        heads.setdefault(head.lane_in(log.epoch), []).append(head)
    if not heads:
        raise BadNote("there is no signed note in what was given: pass what an anchor has kept")
    counters = log.heads()
    lanes = [
        _checked(log, lane, heads[lane], trusted, counters.get(lane, 0)) for lane in sorted(heads)
    ]
    others = {lane for lane, head in counters.items() if head} - heads.keys()
    return Checked(tuple(lanes), tuple(sorted(others)))


def _checked(
    log: SealableLog,
    lane: int,
    heads: list[Checkpoint],
    trusted: Collection[VerifierKey],
    counter: int,
) -> CheckedLane:
    stored, named, found = _stored(log, lane, heads[0].origin, trusted)
    outside = [Mark(head.size, head.root, is_outside=True) for head in heads]
    marks, forked = merged(lane, [*outside, *stored])
    found += forked
    missing = {mark.size for mark in marks if mark.is_outside and not mark.is_stored}
    for size in sorted(missing | named - {mark.size for mark in marks if mark.is_stored}):
        problem = f"the database does not hold the seal of lane {lane} at {size}"
        found.append(Finding("seal missing", lane, 0, 0, problem))
    unproven: list[Unproven] = []

    def rows() -> Iterator[SealedRow]:
        for row in log.sealable_rows(lane, 0, marks[-1].size):
            if row.unproven:
                name, version = str(row.conversation), row.version
                at = version if isinstance(version, int) else 0
                unproven.append(Unproven(name, at, row.unproven))
            yield row

    found += findings_of(lane, rows(), marks)
    sealed = max(head.size for head in heads)
    return CheckedLane(lane, sealed, counter, tuple(unproven), tuple(found))


def _stored(
    log: SealableLog, lane: int, origin: str, trusted: Collection[VerifierKey]
) -> tuple[list[Mark], set[int], list[Finding]]:
    """Return the marks of the stored seals that are signed, and what is found of the others.

    Between them stand the sizes that the seals name as those of the seals before.
    """
    marks: list[Mark] = []
    named: set[int] = set()
    found: list[Finding] = []
    for seal in log.seals(lane):
        if seal.previous:
            named.add(seal.previous)
        try:
            edge_of(seal, origin, trusted)
        except SealError as error:
            problem = (
                f"the stored seal of lane {lane} at {seal.size} is not to be believed: {error}"
            )
            found.append(Finding("seal changed", lane, 0, 0, problem))
        else:
            marks.append(Mark(seal.size, seal.root, seal.edge, is_stored=True))
    return marks, named, found
