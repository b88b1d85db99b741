"""Copies of a store: of its file while others write to it, and of its events one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import urandom
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from msgspec.structs import replace

from eventstore.append.event_ids import event_ids
from eventstore.domain.codec import decode, encode
from eventstore.domain.detached import EventsArchived, EventsRestored, is_detached
from eventstore.domain.events import Recorded, ToolApproved, ToolPending, UnknownEvent
from eventstore.domain.fingerprint import parse
from eventstore.domain.redaction import SALT_BYTES, PayloadsRedacted, is_marker, marker_digest
from eventstore.errors import VersionConflict
from eventstore.storage.interface import Append, Draft

if TYPE_CHECKING:
    from eventstore.retention import ArchiveLine
    from eventstore.session import LogSession
    from eventstore.storage.migrations import Progress

__all__ = [
    "StoredEvent",
    "archived_event",
    "backup",
    "permissions_of",
    "restore_events",
    "stored_events",
]


def backup(url: str, path: str | Path, progress: Progress | None = None) -> None:
    """Copy the SQLite file at a URL, with every committed event, to a new file at `path`.

    Others may append meanwhile: the copy is the database as it was at one moment, other programs'
    tables included. It is there whole or not at all, and no more open to others than its source.
    `progress` is called with the pages that are copied, and with the number of all.

    Raises:
        ValueError: the URL is of a server or of a database in memory; the error says what to use.
        NotAStore: there is no store at the URL.
        StorageError: `path` exists, or cannot be written.
    """
    from eventstore.storage.factory import backend_for  # loads SQLAlchemy

    backend_for(url).backup(Path(path), progress)


def permissions_of(url: str) -> int:
    """Return the permissions that a file made of a store's events may have at most.

    They are those of a SQLite store's own file; of a server, all that the umask leaves.
    """
    from eventstore.storage.factory import backend_for  # loads SQLAlchemy
    from eventstore.storage.sqlite.files import path_of, permissions

    found = backend_for(url).url
    path = path_of(found) if found.get_backend_name() == "sqlite" else None
    return 0o666 if path is None else permissions(path)


class StoredEvent(NamedTuple):
    """An event, and its payload as it is stored.

    `stored` is None where `recorded.event` has all that the payload has. It is there for an event
    of an older or newer version, and for one that was redacted but for some members.
    """

    recorded: Recorded
    stored: UnknownEvent | None = None

    @property
    def needs_another(self) -> bool:
        """Whether it records what was done to another event, or is a marker, which has a record."""
        event = self.stored or self.recorded.event
        return event.tag in _RECORDS or (type(event) is UnknownEvent and is_marker(event.payload))

    @property
    def draft(self) -> Draft:
        """The event as it is stored again; its id counts as one that a caller gave."""
        recorded = self.recorded
        event = self.stored or recorded.event
        mark, event_id = recorded.fingerprint, bytes.fromhex(recorded.event_id)
        payload = encode(event)
        return Draft(
            event_id or event_ids(1, max(recorded.recorded_at, 0))[0],
            recorded.recorded_at,
            event.tag,
            event.schema,
            payload,
            None if mark is None else parse(mark),
            mark is not None and _brings_arguments(recorded.event),
            id_given=bool(event_id),
            occurred_at=recorded.occurred_at,
            # A marker has the digest of what it stands for, which cannot be salted anew.
            salt=b"" if is_marker(payload) else urandom(SALT_BYTES),
        )


_RECORDS = frozenset({PayloadsRedacted.tag, EventsArchived.tag, EventsRestored.tag})


def _brings_arguments(event: Any) -> bool:
    if type(event) is ToolApproved:
        return event.edited_call is not None
    return bool(event.tag == ToolPending.tag)


class _Store(Protocol):
    """An `EventStore`."""

    session: LogSession


@runtime_checkable
class _HoldsPayloads(Protocol):
    """A storage that gives payloads as they are stored, as those over SQL do."""

    def as_stored(self, conversation_id: str | None = None) -> Iterator[Recorded]:
        """Yield events; see `codec.AS_STORED`."""
        ...


def stored_events(store: _Store, conversation_id: str | None = None) -> Iterator[StoredEvent]:
    """Yield the events of a store, or of one conversation, with all that is stored of them."""
    storage = store.session.storage
    if isinstance(storage, _HoldsPayloads):
        yield from map(_stored_event, storage.as_stored(conversation_id))
        return
    events = storage.feed({}) if conversation_id is None else storage.conversation(conversation_id)
    yield from map(StoredEvent, events)


def _stored_event(recorded: Recorded) -> StoredEvent:
    stored = recorded.event
    if type(stored) is UnknownEvent and not stored.damage:
        if is_marker(stored.payload):
            recorded = replace(recorded, redacted=marker_digest(stored.payload.encode()))
        event: Any = decode(stored.tag, stored.schema, stored.payload)
        if type(event) is not UnknownEvent:
            call_id = getattr(event, "call_id", None)
            return StoredEvent(replace(recorded, event=event, call_id=call_id), stored)
    return StoredEvent(recorded)


def archived_event(line: ArchiveLine) -> StoredEvent:
    """Return the event of a line of an archive, with all that is stored of it."""
    event: Any = decode(line.tag, line.schema, line.payload)
    recorded = Recorded(
        line.lane,
        line.position,
        line.conversation_id,
        line.version,
        line.event_id,
        line.recorded_at,
        line.call_id,
        line.fingerprint,
        event,
        line.occurred_at,
    )
    if line.stored is None:
        return StoredEvent(recorded)
    return StoredEvent(recorded, UnknownEvent(line.tag, line.schema, line.stored.payload))


def restore_events(store: _Store, events: Sequence[StoredEvent]) -> None:
    """Append events of one conversation as they were stored, all or none: with ids and times.

    Their versions follow one another, and that of the conversation. They are not judged: a log is
    restored with its damage, and with what only a newer version can read.

    Raises:
        ValueError: an id of an event, or a fingerprint, cannot be one; or a payload is what an
            archive leaves of one, with which the conversation could not be read.
        VersionConflict: the conversation is at another version; nothing was written.
        EventStoreError: nothing was written.
    """
    first = events[0].recorded
    before = first.version - 1
    drafts = [each.draft for each in events]
    for (recorded, _), draft in zip(events, drafts, strict=True):
        if is_detached(draft.payload):
            raise ValueError(
                f"the payload of version {recorded.version} of conversation "
                f"{recorded.conversation_id!r} is in an archive: restore the file of that"
            )

    def rebase(tail: Sequence[Recorded]) -> Sequence[Draft]:
        at = tail[-1].version if tail else before
        if at != before:
            raise VersionConflict(before, at)
        return drafts

    request = Append(first.conversation_id, before, 0, drafts, rebase)
    (outcome,) = store.session.storage.append([request])
    if isinstance(outcome, Exception):
        raise outcome
