"""Sealing: the new events of each lane, a checkpoint over the whole lane, signed and kept.

1. A lane's tree continues from its last seal: only what came since is read, and only the right edge
   is kept. The last seal is believed because a trusted key has signed its root.
2. Where a position is missing, a row has no leaf, or the lane ends before its last seal, nothing of
   the lane is signed. Other lanes are.
3. Every anchor is asked first for its newest note. One that the database does not have says that
   the database was put back: nothing is signed, so that no two histories are.
4. The seal is stored, if no other process has stored one meanwhile, and then handed to the anchors.
   One that an anchor did not take is offered again by the next call, also without new events.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from eventstore.seals.checkpoints import Checkpoint, Origin, opened
from eventstore.seals.errors import AnchorFailed, BadNote, NotSigned, SealError, SealMismatch
from eventstore.seals.keys import VerifierKey
from eventstore.seals.merkle import Edge
from eventstore.seals.notes import sign_note
from eventstore.seals.stored_seals import edge_of
from eventstore.storage.leaves import Unsealable, hash_of
from eventstore.storage.sealable_log import Seal, SealableLog, SealableStore

if TYPE_CHECKING:
    from eventstore.seals.anchors import Anchor
    from eventstore.seals.keys import SigningKey


def seal(
    store: SealableStore,
    key: SigningKey,
    *,
    anchors: Sequence[Anchor] = (),
    trusted: Collection[VerifierKey] = (),
    lanes: Collection[int] | None = None,
) -> list[Seal]:
    """Seal the events of a store up to now; return the newest seal of each lane that has events.

    `trusted` are older keys of the same name, whose seals the log has. `lanes` are those to seal;
    all, if they are not given. What fails in one lane is raised when the others are sealed.

    Raises:
        SealMismatch: a lane is not what was sealed before, or cannot be sealed.
        NotSigned: the last seal, or a note of an anchor, is signed by another key.
        AnchorFailed: the seals are stored, and an anchor failed with the cause.
    """
    log = store.sealable_log
    found: list[Seal] = []
    errors: list[SealError] = []
    for lane in sorted(log.heads()):
        if lanes is None or lane in lanes:
            try:
                newest = _seal_lane(log, lane, key, anchors, (key.verifier, *trusted))
            except SealError as error:
                errors.append(error)
            else:
                if newest is not None:
                    found.append(newest)
    if errors:
        first, *others = errors
        for other in others:
            first.add_note(str(other))
        raise first
    return found


def _seal_lane(
    log: SealableLog,
    lane: int,
    key: SigningKey,
    anchors: Sequence[Anchor],
    keys: Collection[VerifierKey],
) -> Seal | None:
    """Return the newest seal of a lane, and store it if there are new events; None without any."""
    origin = str(Origin(key.name, log.epoch, lane))
    Origin.parse(origin)  # what could not be read is not signed
    last = log.last_seal(lane)
    edge = Edge() if last is None else edge_of(last, origin, keys)
    held = [_held(anchor, origin, keys) for anchor in anchors]
    for checkpoint in held:
        if checkpoint is not None:
            _check_known(log, lane, checkpoint, last)
    head = log.heads().get(lane, 0)  # after the last seal was read, so it is no lower than that
    newest = _next_seal(log, lane, head, origin, key, edge)
    if newest is None:  # nothing is new, or another process has sealed it
        newest = log.last_seal(lane)
        if newest is not None and newest != last:
            edge_of(newest, origin, keys)
    if newest is not None:
        _publish(newest, origin, list(zip(anchors, held, strict=True)))
    return newest


def _next_seal(
    log: SealableLog, lane: int, head: int, origin: str, key: SigningKey, edge: Edge
) -> Seal | None:
    """Store the next seal of a lane; None without new events, or if another process was first."""
    before = edge.size
    _grow(log, lane, head, edge)
    if edge.size == before:
        return None
    checkpoint = Checkpoint(origin, edge.size, edge.root())
    note = str(sign_note(str(checkpoint), [key]))
    new = Seal(lane, before, edge.size, checkpoint.root, edge.stored_form(), note)
    return new if log.add_seal(new) else None


def _grow(log: SealableLog, lane: int, head: int, edge: Edge) -> None:
    """Add the events of a lane that come after an edge, up to the lane's counter."""
    sealed = edge.size
    end = max(sealed - 1, 0)  # the last event that is sealed is read again: it has to be there
    for row in log.sealable_rows(lane, end, max(head, sealed)):
        if row.position != end + 1:
            break
        end = row.position
        if end > sealed:
            try:
                edge.add(hash_of(row))
            except Unsealable as error:
                raise SealMismatch(f"lane {lane} cannot be sealed: {error}: verify it") from None
    if end < max(head, sealed):
        raise SealMismatch(
            f"lane {lane} has no event at position {end + 1}, and was sealed up to {sealed}: "
            "events are missing, or the database was put back to an older copy; check it against a "
            "note"
        )
    if head < sealed:
        raise SealMismatch(
            f"the counter of lane {lane} is at {head}, and it was sealed up to {sealed}: it was "
            "changed, or the database was put back to an older copy; check it against a note"
        )


def _held(anchor: Anchor, origin: str, keys: Collection[VerifierKey]) -> Checkpoint | None:
    """Return the newest head that an anchor holds; None where it has none."""
    note = anchor.latest(origin)
    if note is None:
        return None
    try:
        head = opened(note, keys)
    except (BadNote, NotSigned) as error:
        raise type(error)(f"the newest note of an anchor is not to be believed: {error}") from None
    if head.origin != origin:
        raise SealMismatch(
            f"an anchor was asked for {origin}, and gave a note of {head.origin}: give each "
            "log one of its own"
        )
    return head


def _check_known(log: SealableLog, lane: int, held: Checkpoint, last: Seal | None) -> None:
    """Check that the database has the seal that an anchor holds."""
    is_last = last is not None and (last.size, last.root) == (held.size, held.root)
    if is_last or any((s.size, s.root) == (held.size, held.root) for s in log.seals(lane)):
        return
    raise SealMismatch(
        f"an anchor holds a seal of lane {lane} at {held.size} that the database does not have: "
        "the database was put back to an older copy, or its seals were changed. Nothing is signed; "
        "check the log against the anchor's notes"
    )


def _publish(
    newest: Seal, origin: str, anchors: Sequence[tuple[Anchor, Checkpoint | None]]
) -> None:
    """Hand a seal to the anchors that do not have it, to all of them even if one fails."""
    failed: Exception | None = None
    for anchor, held in anchors:
        if held is None or held.size < newest.size:
            try:
                anchor.publish(origin, newest.size, newest.note)
            except Exception as error:  # noqa: BLE001 - an anchor is a caller's own
                failed = error
    if failed is not None:
        raise AnchorFailed(
            f"the seal of {origin} at {newest.size} is stored, but an anchor failed "
            f"({type(failed).__name__}): mend the anchor, and the next seal offers the note again"
        ) from failed
