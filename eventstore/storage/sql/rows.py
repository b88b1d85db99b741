"""The rows of events: made of drafts, and read again as what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from eventstore.domain.anchors import anchor
from eventstore.domain.codec import AS_STORED, DECODERS, Decoders, decode, stored_levels
from eventstore.domain.detached import is_detached
from eventstore.domain.envelopes import Place, is_envelope
from eventstore.domain.events import Recorded, UnknownEvent
from eventstore.domain.fingerprint import PREFIX
from eventstore.domain.nesting import SHALLOW_SIZE, nests_too_deeply
from eventstore.domain.redaction import is_marker, marker_digest
from eventstore.errors import StoreCorrupt, WrongKey
from eventstore.storage.chain import is_sound_tag, tag_digest
from eventstore.storage.interface import Draft
from eventstore.subjects.tags import Tag, versions_of
from eventstore.subjects.vault import Vault

Judge = Callable[[int, int, int], Mapping[int, str]]
"""Says what is wrong with the rows of a lane, from one position to another, by position."""


class Batch(NamedTuple):
    """Drafts of a conversation with their digests, and what they follow."""

    key: tuple[int, int]
    """The conversation's lane and key."""
    position: int
    version: int
    drafts: Sequence[Draft]
    digests: Sequence[bytes]


EventRow = tuple[
    int,
    int,
    int,
    int,
    bytearray,
    int,
    int | str | None,
    str,
    int,
    bytearray | str | None,
    bytearray,
    str,
    bytearray | None,
]
"""The columns of an event, in the order of the table's; a text stands for NULL (`Backend.null`)."""

MarkRow = tuple[int, bytearray, int, int]
"""The columns of the index of fingerprints."""

IdRow = tuple[int, int, bytearray, int]
"""The columns of the table of given ids."""

TagRow = tuple[int, bytearray, int, int, bytearray]
"""The columns of the index of subjects."""

NO_CONVERSATION = 0
"""The conversation of the row that recognises the secret of the subjects, at lane 0."""


_MAYBE_MARKER = frozenset({ord("c"), "c"})
"""The seventh character or byte of a marker, which no other payload has there."""

BEFORE_ALL = -(2**31)
"""A version below all that the column's 32 bits hold, so below a damaged one, too."""


# bytearray binds faster than bytes on Python 3.11 (no adapter look-up)
def event_row(
    lane: int,
    conversation: int,
    position: int,
    version: int,
    draft: Draft,
    digest: bytes,
    null: str | None = None,
) -> EventRow:
    """Return the row of a draft that has a place and a digest; `null` stands for NULL."""
    mark, occurred_at, salt = draft.fingerprint, draft.occurred_at, draft.salt
    return (
        lane,
        position,
        conversation,
        version,
        bytearray(draft.event_id),
        draft.recorded_at,
        null if occurred_at is None else occurred_at,
        draft.tag,
        draft.schema,
        null if mark is None else bytearray(mark),
        bytearray(digest),
        draft.payload.decode(),
        bytearray(salt) if salt else None,  # few have none
    )


def index_row(lane: int, conversation: int, version: int, draft: Draft) -> MarkRow:
    """Return the row that finds a draft by its fingerprint."""
    return lane, bytearray(draft.fingerprint or b""), conversation, version


def id_row(lane: int, conversation: int, version: int, draft: Draft) -> IdRow:
    """Return the row that finds a draft by the id that its caller gave."""
    return lane, conversation, bytearray(draft.event_id), version


def event_rows(batches: Iterable[Batch], null: str | None = None) -> Iterator[EventRow]:
    """Yield the rows of the events of batches."""
    for (lane, conversation), position, version, drafts, digests in batches:
        for place, (draft, digest) in enumerate(zip(drafts, digests, strict=True), 1):
            yield event_row(
                lane, conversation, position + place, version + place, draft, digest, null
            )


def index_rows(batches: Iterable[Batch]) -> Iterator[MarkRow]:
    """Yield the rows that find drafts of batches by their fingerprints."""
    for key, _, before, drafts, _ in batches:
        for version, draft in enumerate(drafts, before + 1):
            if draft.begins:
                yield index_row(*key, version, draft)


def id_rows(batches: Iterable[Batch]) -> Iterator[IdRow]:
    """Yield the rows that find drafts of batches by the ids that their callers gave."""
    for key, _, before, drafts, _ in batches:
        for version, draft in enumerate(drafts, before + 1):
            if draft.id_given:
                yield id_row(*key, version, draft)


def tag_rows(
    lane: int, conversation: int, tags: Iterable[Tag], after: int, count: int
) -> Iterator[TagRow]:
    """Yield the rows of the tags of an append of `count` events after a version."""
    places = ((tag.subject, version) for tag in tags for version in versions_of(tag, after, count))
    for subject, version in dict.fromkeys(places):
        yield tag_row(lane, subject, conversation, version)


def tag_row(lane: int, subject: bytes, conversation: int, version: int) -> TagRow:
    """Return the row of a tag."""
    digest = tag_digest(lane, subject, conversation, version)
    return lane, bytearray(subject), conversation, version, bytearray(digest)


def sound_tags(lane: int, conversation: int, rows: Iterable[Sequence[Any]]) -> list[Tag]:
    """Return the tags in rows of versions, subjects and digests, without damaged ones."""
    return [
        Tag(bytes(subject), version)
        for version, subject, digest in rows
        if is_sound_tag(lane, subject, conversation, version, digest)
    ]


def anchor_of_draft(draft: Draft) -> str:
    """Return the anchor that a draft has when it is stored."""
    return anchor(draft.event_id.hex(), draft.recorded_at)


def anchors_by_lane(rows: Iterable[Sequence[Any]]) -> dict[int, str]:
    """Return the anchors of events by lane; in a damaged row the parts may be anything."""
    return {
        lane: anchor(
            bytes(found).hex() if isinstance(found, bytes | bytearray) else str(found), recorded_at
        )
        for lane, found, recorded_at in rows
    }


def digest_read(row: Sequence[Any] | None, conversation_id: str, version: int) -> bytes:
    """Return the digest of the event at a version, as its row has it.

    Raises:
        StoreCorrupt: there is no such event, or no digest in it.
    """
    digest: object = None if row is None else row[0]
    if not isinstance(digest, bytes | bytearray):
        raise StoreCorrupt(
            f"conversation {conversation_id!r} has lost its version {version}; nothing was "
            "written: run `toolledger verify`, and restore the database from a copy"
        )
    return bytes(digest)


def recorded(
    lane: int,
    rows: Iterable[Any],
    names: Mapping[int, Any],
    judge: Judge,
    decoders: Decoders = DECODERS,
    vault: Vault | None = None,
) -> list[Recorded]:
    """Return the events of a lane's rows; `names` are the ids of their conversations.

    Those whose payloads are in an archive are left out. `judge` says which of those that could not
    be decoded are damaged. What is encrypted is read with the keys of `vault`.

    Raises:
        StoreCorrupt: a row holds what no event can be.
        WrongKey: a key is another one than that which a row was encrypted with.
    """
    # The loop that every event read goes through: nothing is called that need not be.
    found: list[Recorded] = []
    rare: list[tuple[int, _Rare]] = []
    position = None
    try:
        for position, key, version, event_id, at, occurred, tag, schema, mark, payload in rows:
            event: Any
            _ = version + at  # raises TypeError where one of them is not a number
            try:
                if payload[6] in _MAYBE_MARKER and _is_no_payload(payload, decoders):
                    raise ValueError  # noqa: TRY301 - it is read below, as few are
                if len(payload) > SHALLOW_SIZE and nests_too_deeply(payload, stored_levels(tag)):
                    event = decode(tag, schema, payload)
                else:
                    event = decoders[tag, schema](payload)
            except Exception:  # noqa: BLE001 - an older schema, another's tag, a marker, damage
                if is_detached(payload):
                    continue
                event = decode(tag, schema, payload)
                rare.append((len(found), (tag, schema, payload)))
            found.append(
                Recorded(
                    lane,
                    position,
                    names[key],
                    version,
                    event_id.hex(),
                    at,
                    getattr(event, "call_id", None),
                    None if mark is None else PREFIX + mark.hex(),
                    event,
                    occurred,
                )
            )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise unreadable(lane, position) from error
    if rare:
        _judge_rare(lane, found, rare, vault, judge)
    return found


_Rare = tuple[str, int, str | bytes]
"""The tag, the schema and the payload of a row whose event was not decoded at once."""


def _is_no_payload(payload: str | bytes, decoders: Decoders) -> bool:
    """Return whether something else stands in the place of a payload."""
    return is_detached(payload) or (is_marker(payload) and decoders is not AS_STORED)


def _judge_rare(
    lane: int,
    found: list[Recorded],
    rare: Sequence[tuple[int, _Rare]],
    vault: Vault | None,
    judge: Judge,
) -> None:
    """Note which events are redacted and which are damaged, and read what is encrypted."""
    unknown = [place for place, _ in rare if type(found[place].event) is UnknownEvent]
    for place, row in rare:
        payload = row[2]
        if is_marker(payload):
            stored = payload.encode() if isinstance(payload, str) else bytes(payload)
            found[place] = replace(found[place], redacted=marker_digest(stored))
        elif is_envelope(payload) and place not in unknown:  # it is one of this version
            found[place] = _opened(found[place], row, vault, judge)
    if unknown:
        _mark_damaged(lane, found, unknown, judge)


def _opened(found: Recorded, row: _Rare, vault: Vault | None, judge: Judge) -> Recorded:
    """Return an event that is encrypted as its key has it, or as locked without one."""
    tag, schema, payload = row
    if vault is None:
        return replace(found, locked="it is encrypted, and the store was opened without keys")
    event_id = bytes.fromhex(found.event_id)
    try:
        plain = vault.decrypt(Place(found.conversation_id, event_id, tag, schema), payload)
    except WrongKey:
        problem = judge(found.lane, found.position, found.position).get(found.position)
        if problem is None:
            raise
        text = payload if isinstance(payload, str) else bytes(payload).decode()
        return replace(found, event=UnknownEvent(tag, schema, text, damage=problem))
    if plain is None:
        return replace(found, locked="it is encrypted, and its key was destroyed or is not there")
    return replace(found, event=decode(tag, schema, plain))


def check_first(found: Sequence[Recorded]) -> None:
    """Raise an error if events of a conversation begin with one whose version no event can have.

    Raises:
        StoreCorrupt: they do.
    """
    if found and found[0].version < 1:
        raise unreadable(found[0].lane, found[0].position)


def unreadable(lane: int, position: object) -> StoreCorrupt:
    """Return the error for a row that holds what no event can be."""
    return StoreCorrupt(
        f"the event of lane {lane} at position {position} cannot be read: run `toolledger verify`, "
        "and restore the database from a copy"
    )


def _mark_damaged(lane: int, found: list[Recorded], unknown: list[int], judge: Judge) -> None:
    """Mark the unknown events whose rows are not as they were written."""
    first, last = found[unknown[0]].position, found[unknown[-1]].position
    problems = judge(lane, first, last)
    for place in unknown:
        recorded = found[place]
        problem = problems.get(recorded.position)
        if problem is not None:
            event = replace(recorded.event, damage=problem)
            found[place] = replace(recorded, event=event)
