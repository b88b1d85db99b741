"""Events as JSON lines, as `export` and `show ID --json` write them, and how they are read back.

An event that this version cannot read stands there with its payload as text. `export` adds the
payload, as the member `stored`, where the event that was read has not all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args

import msgspec
from msgspec import Meta

from eventstore import Event, Recorded, UnknownEvent
from eventstore.backup import StoredEvent

_CLASSES: dict[str, Any] = {cls.tag: cls for cls in get_args(Event) if cls is not UnknownEvent}
_UNKNOWN_FIELDS = frozenset({"tag", "schema", "payload"})

_INT64 = Meta(ge=-(2**63), le=2**63 - 1)
_Version: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]
_Time: TypeAlias = Annotated[int, _INT64]
_Schema: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
_EventId: TypeAlias = Annotated[str, Meta(pattern="^(?:[0-9a-f]{32})?$")]
_Fingerprint: TypeAlias = Annotated[str, Meta(pattern="^x1:[0-9a-f]{32}$")]


class _Unknown(msgspec.Struct):
    """An event as it is stored."""

    tag: str
    schema: _Schema
    payload: str
    damage: str = ""


class _Line(msgspec.Struct):
    conversation_id: Annotated[str, Meta(min_length=1)]
    version: _Version
    tag: str
    event: dict[str, Any]
    lane: int = 0
    position: int = 0
    event_id: _EventId = ""
    recorded_at: _Time = 0
    call_id: str | None = None
    fingerprint: _Fingerprint | None = None
    occurred_at: _Time | None = None
    redacted: str | None = None
    stored: _Unknown | None = None


def event_line(recorded: Recorded, stored: UnknownEvent | None = None) -> bytes:
    """Return an event and its place as one line of JSON, without a line break."""
    fields: dict[str, Any] = msgspec.to_builtins(recorded)
    event = fields.pop("event")
    line = {**fields, "tag": recorded.event.tag, "event": event}
    return msgspec.json.encode(line if stored is None else {**line, "stored": stored})


def exported_line(event: StoredEvent) -> bytes:
    """Return an event as one line of JSON that `read_events` takes, with all that is stored of it.

    Raises:
        ValueError: the row is so damaged that no line can say what is stored.
    """
    recorded, stored = event
    line = event_line(recorded, stored)
    try:
        problem = _problem_of_row(recorded)
        _event(msgspec.json.decode(line, type=_Line))
    except ValueError as error:
        problem = str(error)
    if problem is not None:
        raise ValueError(
            f"version {recorded.version} of conversation {recorded.conversation_id!r} is damaged, "
            f"and no file of events can hold it ({problem}): copy the database itself, with "
            "`toolledger backup` or the tools of its server"
        )
    return line


def _problem_of_row(recorded: Recorded) -> str | None:
    """Return why a row cannot be written as a line; None if it can."""
    event = recorded.event
    if not recorded.event_id:
        return "it has no id"
    if isinstance(event, UnknownEvent) and event.damage and "\ufffd" in event.payload:
        return "its payload is not text"
    return None


def load_events(path: str | Path) -> list[Recorded]:
    """Return the events of a file of JSON lines.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not an event; the error names the line.
    """
    return [event.recorded for event in read_events(path)]


def read_events(path: str | Path) -> Iterator[StoredEvent]:
    """Yield the events of a file of JSON lines, one at a time, with all that was stored of them.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not an event; the error names the line.
    """
    with Path(path).open("rb") as lines:
        yield from _events(path, lines)


def _events(path: str | Path, lines: Iterable[bytes]) -> Iterator[StoredEvent]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _event(msgspec.json.decode(line, type=_Line))
        except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors
            raise ValueError(
                f"{path}: line {number} is not an event ({error}): write the file with "
                "`toolledger export`"
            ) from error


def _event(line: _Line) -> StoredEvent:
    cls = _CLASSES.get(line.tag)
    if cls is None or line.event.keys() >= _UNKNOWN_FIELDS:  # no known event has these three
        unknown = msgspec.convert(line.event, _Unknown)
        event: Any = UnknownEvent(unknown.tag, unknown.schema, unknown.payload, unknown.damage)
    else:
        event = msgspec.convert(line.event, cls)
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
        line.redacted,
    )
    stored = line.stored
    if stored is None:
        return StoredEvent(recorded)
    return StoredEvent(recorded, UnknownEvent(stored.tag, stored.schema, stored.payload))
