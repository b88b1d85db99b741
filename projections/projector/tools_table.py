"""The current tools in a table: every call of a log as it stands, the pending ones among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from eventstore import Recorded, Tool, ToolEvent, evolve
from projections.projector.streams import Known, Stream
from projections.projector.tables import (
    Reading,
    Row,
    add,
    calls,
    change,
    find_keys,
    key_of,
    storable,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

_TAGS = frozenset(kind.tag for kind in get_args(ToolEvent))
_COLUMNS = ("key", "position", "imported", "body")

_encode = msgspec.json.Encoder().encode
decode_tool = msgspec.json.Decoder(Tool).decode


class StoredTools:
    """The calls of one lane; see `CurrentTools` for the rule."""

    name = "tools"

    def __init__(self) -> None:
        self._touched: list[tuple[Stream, str, Known]] = []
        self._streams: dict[str, Stream] = {}

    def __len__(self) -> int:
        """How many calls are at hand."""
        return sum(len(stream.tools) for stream in self._streams.values())

    def load(
        self,
        reading: Reading,
        at: Row,
        streams: dict[str, Stream],
        events: Iterable[Recorded],
    ) -> None:
        """Have the calls at hand that `events` are about."""
        self._streams |= streams
        if not any(stream.stored for stream in streams.values()):
            return
        wanted: dict[bytes, tuple[Stream, str]] = {}
        for recorded in events:
            stream = streams[recorded.conversation_id]
            call_id = recorded.call_id
            if call_id and stream.stored and call_id not in stream.tools:
                wanted[key_of(stream.id, call_id)] = stream, call_id
        with reading() as connection:
            found = list(find_keys(connection, calls, _COLUMNS, "key", wanted, **at))
        for key, position, imported, body in found:
            stream, call_id = wanted[bytes(key)]
            known = Known(decode_tool(body), position, imported=bool(imported), stored=True)
            stream.tools[call_id] = known

    def extend(self, events: Iterable[Recorded]) -> None:
        """Take in events; a repeated or late one changes nothing."""
        for recorded in events:
            stream = self._streams[recorded.conversation_id]
            if recorded.version <= stream.seen:
                continue
            stream.seen = recorded.version
            call_id = recorded.call_id
            event: Any = recorded.event
            if not call_id or event.tag not in _TAGS:
                continue
            known = stream.tools.get(call_id)
            before = known.tool if known else None
            try:
                after = evolve(before, event, recorded.recorded_at, recorded.fingerprint)
            except Exception:  # noqa: BLE001, S112 - an IllegalTransition, which changes nothing
                continue
            if after is before:
                continue
            if known is None:
                imported = bool(getattr(event, "imported", False))
                known = Known(after, recorded.position, imported=imported, stored=False)
                stream.tools[call_id] = known
            known.tool = after
            known.changed_at = recorded.recorded_at
            if not known.touched:
                known.touched = True
                self._touched.append((stream, call_id, known))

    def store(self, connection: Connection, at: Row, _: Iterable[Stream]) -> None:
        """Store what has changed."""
        new: list[Row] = []
        changed: list[Row] = []
        for stream, call_id, known in self._touched:
            row = at | {"position": known.position} | _state(known)
            if known.stored:
                changed.append(row)
                continue
            known.stored = True
            tool = known.tool
            new.append(row | {
                "key": key_of(stream.id, call_id), "conversation": stream.number,
                "conversation_id": storable(stream.id), "call_id": storable(call_id),
                "tool": storable(tool.call.name), "imported": int(known.imported),
                "requested_at": tool.requested_at,
            })  # fmt: skip
        add(connection, calls, new)
        change(connection, calls, ("projection", "lane", "position"), changed)

    def settle(self) -> None:
        """Keep at hand only what is likely to go on; all is stored."""
        for stream, call_id, known in self._touched:
            known.touched = False
            if known.tool.is_resolved:
                stream.tools.pop(call_id, None)
        self._touched.clear()


def _state(known: Known) -> Row:
    tool = known.tool
    return {
        "status": tool.status.name, "attempts": tool.attempts,
        "fingerprint": None if tool.fingerprint is None else storable(tool.fingerprint),
        "changed_at": known.changed_at, "body": _encode(tool).decode(),
    }  # fmt: skip


def tools_of(rows: Sequence[Any]) -> Iterator[tuple[str, Tool]]:
    """The conversation and the call of rows with the columns conversation_id, body."""
    for conversation_id, body in rows:
        yield conversation_id, decode_tool(body)
