"""Events as JSON lines, as `export` and `show ID --json` write them, and how they are read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

from eventstore import Event, Recorded, UnknownEvent

_CLASSES: dict[str, Any] = {cls.tag: cls for cls in get_args(Event) if cls is not UnknownEvent}
_UNKNOWN_FIELDS = frozenset(UnknownEvent.__struct_fields__)


class _Line(msgspec.Struct):
    conversation_id: str
    version: int
    tag: str
    event: dict[str, Any]
    lane: int = 0
    position: int = 0
    event_id: str = ""
    recorded_at: int = 0
    call_id: str | None = None
    fingerprint: str | None = None
    occurred_at: int | None = None


def event_line(recorded: Recorded) -> bytes:
    """Return an event and its place as one line of JSON, without a line break."""
    fields: dict[str, Any] = msgspec.to_builtins(recorded)
    event = fields.pop("event")
    return msgspec.json.encode({**fields, "tag": recorded.event.tag, "event": event})


def load_events(path: str | Path) -> list[Recorded]:
    """Return the events of a file of JSON lines.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not an event; the error names the line.
    """
    return list(read_events(path))


def read_events(path: str | Path) -> Iterator[Recorded]:
    """Yield the events of a file of JSON lines, one at a time.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not an event; the error names the line.
    """
    with Path(path).open("rb") as lines:
        yield from _events(path, lines)


def _events(path: str | Path, lines: Iterable[bytes]) -> Iterable[Recorded]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _event(msgspec.json.decode(line, type=_Line))
        except msgspec.MsgspecError as error:
            raise ValueError(
                f"{path}: line {number} is not an event ({error}): write the file with "
                "`toolledger export`"
            ) from error


def _event(line: _Line) -> Recorded:
    cls = _CLASSES.get(line.tag, UnknownEvent)
    if line.event.keys() == _UNKNOWN_FIELDS:  # no known event has these three fields
        cls = UnknownEvent
    event = msgspec.convert(line.event, cls)
    return Recorded(
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
