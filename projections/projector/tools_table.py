"""The current tools in a table: every call of a log as it stands, the pending ones among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from eventstore import EventStoreError, Recorded, Tool, ToolEvent, evolve
from projections.current_tools import CurrentTools
from projections.projector import schema
from projections.projector.conversations_table import (
    COPIED,
    IMPORTED,
    StoredConversation,
    StoredTool,
)
from projections.projector.queries import (
    Row,
    RowChanges,
    select_keys,
    select_page,
    select_rows,
)
from projections.projector.schema import key_of, storable
from projections.projector.table_projection import ProjectedLane, Reading

if TYPE_CHECKING:
    from sqlalchemy import Connection

STATUSES = ("Pending", "Approved", "Running", "Completed", "Failed", "Rejected")

_TAGS = frozenset(kind.tag for kind in get_args(ToolEvent))
_COLUMNS = ("key", "position", "imported", "body")

_encode = msgspec.json.Encoder().encode
decode_tool = msgspec.json.Decoder(Tool).decode


class StoredTools:
    """The calls of one lane; see `CurrentTools` for the rule."""

    def __init__(self) -> None:
        self._changed: list[tuple[StoredConversation, str, StoredTool]] = []
        self._conversations: dict[str, StoredConversation] = {}

    def __len__(self) -> int:
        """Return how many calls are in memory."""
        return sum(len(conversation.tools) for conversation in self._conversations.values())

    def load(
        self,
        lane: ProjectedLane,
        reading: Reading,
        conversations: dict[str, StoredConversation],
        events: Sequence[Recorded],
    ) -> None:
        """Load the calls that `events` are about."""
        self._conversations |= conversations
        if not any(conversation.is_stored for conversation in conversations.values()):
            return
        wanted: dict[bytes, tuple[StoredConversation, str]] = {}
        for recorded in events:
            conversation = conversations[recorded.conversation_id]
            call_id = recorded.call_id
            if call_id and conversation.is_stored and call_id not in conversation.tools:
                wanted[key_of(conversation.id, call_id)] = conversation, call_id
        if not wanted:
            return
        found = select_keys(reading(), schema.calls, _COLUMNS, lane.key, "key", wanted)
        for key, position, imported, body in found:
            conversation, call_id = wanted[bytes(key)]
            tool = decode_tool(body)
            stored = StoredTool(tool, position, imported=imported, is_stored=True)
            conversation.tools[call_id] = stored

    def extend(self, events: Sequence[Recorded]) -> None:
        """Take in events; a repeated or late one changes nothing."""
        for recorded in events:
            conversation = self._conversations[recorded.conversation_id]
            if recorded.version <= conversation.tools_version:
                continue
            conversation.tools_version = recorded.version
            call_id = recorded.call_id
            event: Any = recorded.event
            if not call_id or event.tag not in _TAGS:
                continue
            stored = conversation.tools.get(call_id)
            before = stored.tool if stored else None
            try:
                after = evolve(before, event, recorded.time, recorded.fingerprint)
            except (EventStoreError, TypeError, ValueError):
                continue  # it changes nothing
            if after is before:
                continue
            if stored is None:
                imported = IMPORTED * bool(getattr(event, "imported", False))
                imported += COPIED * recorded.is_copy
                stored = StoredTool(after, recorded.position, imported=imported, is_stored=False)
                conversation.tools[call_id] = stored
            elif not recorded.is_copy:  # it has a step of its own
                stored.imported &= ~COPIED
            stored.tool = after
            self._note(conversation, call_id, stored, recorded.time)

    def redact(self, conversation: StoredConversation, events: Sequence[Recorded]) -> None:
        """Make the calls anew of which an event is redacted."""
        concerned = {recorded.call_id for recorded in events if recorded.redacted}
        tools = CurrentTools().extend(each for each in events if each.call_id in concerned).tools
        for call_id, tool in tools.items():
            stored = conversation.tools.get(call_id)
            if stored is not None and stored.tool != tool:
                stored.tool = tool
                self._note(conversation, call_id, stored, events[-1].time)

    def _note(
        self, conversation: StoredConversation, call_id: str, stored: StoredTool, at: int
    ) -> None:
        stored.changed_at = at
        if not stored.is_changed:
            stored.is_changed = True
            self._changed.append((conversation, call_id, stored))

    def changes(
        self, _: Connection, __: Row, ___: Sequence[StoredConversation]
    ) -> list[RowChanges]:
        """Return what has changed; keep in memory only the calls that are likely to continue."""
        calls = RowChanges(schema.calls)
        for conversation, call_id, stored in self._changed:
            row = _state_of(stored)
            if not stored.is_stored:
                row |= _request_of(conversation, call_id, stored)
            (calls.changed if stored.is_stored else calls.new).append(row)
            stored.is_stored = True
            stored.is_changed = False
            if stored.tool.is_resolved:
                conversation.tools.pop(call_id, None)
        self._changed.clear()
        return [calls]


def _state_of(stored: StoredTool) -> Row:
    tool = stored.tool
    return {
        "position": stored.position,
        "status": tool.status.name,
        "attempts": tool.attempts,
        "imported": stored.imported,
        "fingerprint": None if tool.fingerprint is None else storable(tool.fingerprint),
        "changed_at": stored.changed_at,
        "body": _encode(tool).decode(),
    }


def _request_of(conversation: StoredConversation, call_id: str, stored: StoredTool) -> Row:
    return {
        "key": key_of(conversation.id, call_id),
        "conversation": conversation.number,
        "conversation_id": storable(conversation.id),
        "call_id": storable(call_id),
        "tool": storable(stored.tool.call.name),
        "requested_at": stored.tool.requested_at,
    }


def read_tools(
    reading: Callable[[], AbstractContextManager[tuple[Connection, int]]],
    conversation_id: str | None,
    where: Row,
    page_rows: int,
    holding: str = "",
) -> Iterator[tuple[str, Tool]]:
    """Yield the calls that `where` describes, each with its conversation, in bounded memory.

    With `holding`, only those whose JSON has this text. `reading` opens the live generation, again
    for each page of `page_rows`.
    """
    after = (-1, 0)
    columns = ("conversation_id", "body", "lane", "position")
    while True:
        with reading() as (connection, generation):
            conditions = where | {"projection": generation}
            if conversation_id is not None:
                key = {"projection": generation, "key": key_of(conversation_id)}
                names = ("lane", "conversation")
                found = select_rows(connection, schema.conversations, names, key)
                if not found:
                    return
                conditions |= {"lane": found[0][0], "conversation": found[0][1]}
            rows = select_page(
                connection, schema.calls, columns, conditions, after, page_rows, holding
            )
        for name, body, *_ in rows:
            yield name, decode_tool(body)
        if len(rows) < page_rows:
            return
        after = rows[-1][2], rows[-1][3]
