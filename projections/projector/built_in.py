"""The built-in projections, tools, statistics and usage: one `TableProjection` of three views.

They share a generation, a checkpoint and the table of conversations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol

from eventstore import Recorded
from projections.projector import schema
from projections.projector.conversations_table import (
    StoredConversation,
    conversation_changes,
    load_conversations,
)
from projections.projector.queries import Row, RowChanges, delete_rows, write_changes
from projections.projector.schema import FORMAT, USAGE_FORMAT
from projections.projector.settings import DEFAULT_SETTINGS
from projections.projector.statistics_table import StoredStatistics
from projections.projector.table_projection import ProjectedLane, Reading
from projections.projector.tools_table import StoredTools
from projections.projector.usage_table import StoredUsage

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

VIEWS = ("statistics", "tools", "usage")

ROWS_PER_CONVERSATION = 5
"""A conversation takes as much memory as this number of small rows."""


class View(Protocol):
    """One of the built-in projections of a lane."""

    def __len__(self) -> int:
        """Return how many small rows' worth of memory it takes."""
        ...

    def load(
        self,
        lane: ProjectedLane,
        reading: Reading,
        conversations: dict[str, StoredConversation],
        events: Sequence[Recorded],
    ) -> None:
        """Load what `events` of these conversations need."""
        ...

    def extend(self, events: Sequence[Recorded]) -> object:
        """Apply events."""
        ...

    def redact(self, conversation: StoredConversation, events: Sequence[Recorded], /) -> None:
        """Give up what a conversation's events do not have any more."""
        ...

    def changes(
        self, connection: Connection, at: Row, changed: Sequence[StoredConversation], /
    ) -> list[RowChanges]:
        """Return the rows that have changed, of these conversations, as those to be stored."""
        ...


class ViewsState:
    """What memory holds of a lane: its conversations, and each view's part."""

    def __init__(self, views: Sequence[View]) -> None:
        self.views = views
        self.conversations: dict[str, StoredConversation] = {}
        self.changed: dict[str, StoredConversation] = {}

    def __len__(self) -> int:
        """Return how many small rows' worth of memory it takes."""
        return sum(map(len, self.views)) + sum(
            ROWS_PER_CONVERSATION + len(conversation.requests)
            for conversation in self.conversations.values()
        )


class BuiltInProjection:
    """The `TableProjection` of the built-in views, in time buckets of `bucket` microseconds.

    `fingerprints` are kept in each lane at most. A lane that takes more than `max_cached_rows`
    small rows' worth of memory is loaded when needed.
    """

    def __init__(
        self,
        views: Sequence[str],
        bucket: int,
        fingerprints: int,
        max_cached_rows: int = DEFAULT_SETTINGS.max_cached_rows,
    ) -> None:
        self.name = ",".join(views)
        self.version = USAGE_FORMAT if "usage" in views else FORMAT
        self.bucket = bucket
        self._views = views
        self._fingerprints = fingerprints
        self._max_cached_rows = max_cached_rows
        self._has_statistics = "statistics" in views

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of all views: an earlier generation may have had others."""
        return (
            *schema.CONVERSATION_TABLES,
            *schema.TOOL_TABLES,
            *schema.STATISTICS_TABLES,
            *schema.USAGE_TABLES,
        )

    def _state(self, lane: ProjectedLane) -> ViewsState:
        views: list[View] = []
        if "tools" in self._views:
            views.append(StoredTools())
        if self._has_statistics:
            views.append(StoredStatistics(lane.totals, self.bucket, self._fingerprints))
        if "usage" in self._views:
            views.append(StoredUsage(lane.totals))
        return ViewsState(views)

    def load(
        self, lane: ProjectedLane, events: Sequence[Recorded], state: ViewsState | None
    ) -> ViewsState:
        """Return the state with the conversations and rows that `events` are about."""
        if state is None:
            state = self._state(lane)
        names = {recorded.conversation_id for recorded in events}
        with ExitStack() as stack:
            reading = cache(partial(stack.enter_context, lane.reading()))
            if missing := names - state.conversations.keys():
                self._load_conversations(lane, reading, missing, events, state.conversations)
            conversations = {name: state.conversations[name] for name in names}
            state.changed |= conversations
            for view in state.views:
                view.load(lane, reading, conversations, events)
        return state

    def _load_conversations(
        self,
        lane: ProjectedLane,
        reading: Reading,
        names: set[str],
        events: Iterable[Recorded],
        conversations: dict[str, StoredConversation],
    ) -> None:
        """Add conversations: those that are stored, and those that begin with these events."""
        # What begins after the checkpoint cannot be stored yet.
        begun = {
            recorded.conversation_id
            for recorded in events
            if recorded.version == 1 and recorded.position > lane.position
        }
        if older := names - begun:
            conversations |= load_conversations(
                reading(), lane.key, older, with_requests=self._has_statistics
            )
        for recorded in events:
            name = recorded.conversation_id
            if name not in conversations:
                lane.totals.conversations += 1
                number = lane.totals.conversations
                conversations[name] = StoredConversation(
                    name, number, recorded.version - 1, is_stored=False
                )

    def apply(self, state: ViewsState, events: Sequence[Recorded]) -> None:
        """Apply events to each view."""
        for view in state.views:
            view.extend(events)

    def redact(self, state: ViewsState, events: Sequence[Recorded]) -> None:
        """Give up, in each view, what a conversation's events do not have any more."""
        conversation = state.conversations[events[0].conversation_id]
        for view in state.views:
            view.redact(conversation, events)

    def store(
        self, connection: Connection, lane: ProjectedLane, state: ViewsState
    ) -> ViewsState | None:
        """Store what has changed; return the state, or None if it has become too large."""
        conversations = list(state.changed.values())
        state.changed.clear()
        for conversation in conversations:
            if conversation.are_requests_rewritten:
                where = lane.key | {"conversation": conversation.number}
                delete_rows(connection, schema.requests, where)
        changes = conversation_changes(conversations)
        for view in state.views:
            changes += view.changes(connection, lane.key, conversations)
        write_changes(connection, lane.key, changes)
        return state if len(state) <= self._max_cached_rows else None
