"""`examine`: whether a conversation may go to an archive, and what goes of it.

1. It stays while its last event is younger than the limit. The record of a redaction does not
   count: nothing was done or said then.
2. It stays while a call is open, in doubt, or is to be tried again.
3. It stays where an event is damaged, or cannot be read by this version: that may be a step of any
   call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from eventstore.append.tool_fold import fold_tools
from eventstore.domain.detached import detached
from eventstore.domain.events import Recorded, RunStarted, UnknownEvent
from eventstore.domain.redaction import (
    SALTED_DIGEST_BYTES,
    TAGS_WITH_TEXT,
    PayloadsRedacted,
    is_marker,
)
from eventstore.retention.lines import digest_of, recorded_of
from eventstore.storage.chain import conversation_digest, row_problem
from eventstore.storage.interface import DetachedPayload
from eventstore.storage.stored_members import stored_members
from eventstore.storage.stored_row import StoredRow

YOUNG = "younger than the limit"
OPEN = "with an open call"
DOUBTFUL = "with a call in doubt"
UNREADABLE = "with an event that cannot be read"
OTHER_AGENT = "of another agent"
NOT_CHOSEN = "not chosen"


class Chosen(msgspec.Struct, frozen=True):
    """A conversation that may go: its last version and digest, and what it takes up."""

    conversation_id: str
    lane: int
    version: int
    digest: bytes
    payloads: list[DetachedPayload]
    payload_bytes: int
    text_bytes: int
    """Bytes of the payloads that hold texts, and were not redacted."""


def examine(
    tenant: str,
    conversation_id: str,
    lane: int,
    rows: Iterable[StoredRow],
    before: int,
    agent: str | None = None,
) -> Chosen | str:
    """Return what goes of a conversation, or why it stays; `before` is in microseconds."""
    found = _Examined(tenant, conversation_id, lane)
    tools = fold_tools(found.events(rows))
    if found.is_unreadable:
        return UNREADABLE
    if found.last is None or found.newest >= before:
        return YOUNG
    if agent is not None and found.agent != agent:
        return OTHER_AGENT
    for tool in tools.values():
        if tool.in_doubt:
            return DOUBTFUL
        if not tool.is_resolved or tool.retry_announced:
            return OPEN
    last = found.last
    return Chosen(
        conversation_id,
        lane,
        last.version,
        bytes(last.digest),
        found.payloads,
        found.payload_bytes,
        found.text_bytes,
    )


class _Examined:
    """A conversation, as far as it is read."""

    def __init__(self, tenant: str, conversation_id: str, lane: int) -> None:
        self._first = conversation_digest(tenant.encode(), conversation_id.encode())
        self._id = conversation_id
        self._lane = lane
        self.last: Any = None
        self.newest = 0
        self.agent: str | None = None
        self.is_unreadable = False
        self.payloads: list[DetachedPayload] = []
        self.payload_bytes = self.text_bytes = 0

    def events(self, rows: Iterable[StoredRow]) -> Iterator[Recorded]:
        """Yield the events of sound rows, and take them in."""
        for version, row in enumerate(rows, 1):
            if row.version != version or row_problem(row, self._first) is not None:
                self.is_unreadable = True
                return
            yield self._taken(row)

    def _taken(self, row: Any) -> Recorded:
        recorded = recorded_of(self._id, self._lane, row)
        event = recorded.event
        if type(event) is UnknownEvent and event.problem is not None:
            self.is_unreadable = True
        if type(event) is RunStarted and self.agent is None:
            self.agent = event.agent
        if type(event) is not PayloadsRedacted:
            self.newest = max(self.newest, row.recorded_at)
        self.last = row
        payload, mark, digest = bytes(row.payload), row.fingerprint, digest_of(row)
        self.payloads.append(
            DetachedPayload(
                row.version,
                detached(digest, stored_members(event.tag, row.schema, payload, row.salt).root),
                None if mark is None else bytes(mark),
                forgets=len(digest) == SALTED_DIGEST_BYTES,
                begins=row.begins is not None,
            )
        )
        self.payload_bytes += len(payload)
        if event.tag in TAGS_WITH_TEXT and not is_marker(payload):
            self.text_bytes += len(payload)
        return recorded
