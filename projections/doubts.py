"""The inbox of doubts: the calls of all conversations that may have taken effect."""

from __future__ import annotations

from typing import Any

import msgspec

from eventstore import EventStore, Failed, FunctionCall, Running, Tool
from eventstore.domain.one_line import one_line
from eventstore.domain.times import Moment, microseconds_of
from eventstore.leases.under_way import is_under_way
from projections.formatting import NotebookText, arguments_text, quoted_name
from projections.unsettled_calls import UnsettledCalls


class Doubt(NotebookText, msgspec.Struct, frozen=True, gc=False):
    """A call in doubt, as it is shown to the person who asks the outside system about it.

    `arguments` are those in force: a JSON object, otherwise None, with the text in `raw`. `attempt`
    is the last one, 0 where no start can be read. `since` is when it began or ended, in
    microseconds since 1970 UTC. `is_open`: the attempt has no end, so that a worker may still be at
    it. Otherwise `code` and `message` are those of the failure that left the doubt. `revision` is
    what is shown: pass it back as `seen` of `Conversation.settle`.
    """

    conversation_id: str
    call_id: str
    name: str
    arguments: Any
    raw: str | None
    fingerprint: str | None
    attempt: int
    since: int | None
    is_open: bool
    code: str | None
    message: str | None
    revision: str

    @classmethod
    def of(cls, conversation_id: str, tool: Tool) -> Doubt:
        """Return the doubt about a call."""
        call, status = tool.effective_call, tool.status
        failure = status.failure if type(status) is Failed else None
        is_open = type(status) is Running
        return cls(
            conversation_id=conversation_id,
            call_id=tool.id,
            name=call.name,
            arguments=call.arguments,
            raw=call.raw,
            fingerprint=tool.fingerprint,
            attempt=tool.attempts,
            since=tool.started_at if is_open else tool.ended_at or tool.requested_at,
            is_open=is_open,
            code=None if failure is None else failure.code,
            message=None if failure is None else failure.message,
            revision=str(tool.revision),
        )

    def __str__(self) -> str:
        name, call_id, conversation_id = map(
            quoted_name, (self.name, self.call_id, self.conversation_id)
        )
        call = f"{one_line(name, 32)}({arguments_text(self.call, 60)})"
        return f"{conversation_id} {call_id}: {call}: {self.why}"

    @property
    def call(self) -> FunctionCall:
        """The call in force."""
        return FunctionCall(self.name, self.arguments, self.call_id, self.raw)

    @property
    def why(self) -> str:
        """What leaves the doubt, in words."""
        if self.is_open:
            return f"attempt {self.attempt} has no end; a worker may still be at it"
        if self.message is not None:
            return f"attempt {self.attempt} ended in doubt: {self.message}"
        return "a step of it cannot be read, or an attempt before it paused ended in doubt"


def doubts_among(calls: UnsettledCalls, now: int) -> list[Doubt]:
    """Return the calls in doubt at a time, in microseconds since 1970 UTC, the oldest first.

    A call whose worker has a lease on it then is under way, and not in doubt, unless the worker is
    known to have ended: see `is_under_way`.
    """
    found = [
        Doubt.of(name, tool)
        for name, tool in calls.unsettled()
        if tool.in_doubt and not is_under_way(name, tool, now)
    ]
    return sorted(found, key=_order)


def _order(doubt: Doubt) -> tuple[int, str, str]:
    return (doubt.since or 0, doubt.conversation_id, doubt.call_id)


def doubts(store: EventStore, *, now: Moment | None = None) -> list[Doubt]:
    """Return the calls of all conversations that are in doubt, the oldest doubt first.

    A call whose worker has a lease on it `now`, and is not known to have ended, is not among them;
    without `now` that is the time of the store. The log is read from its beginning, in memory that
    grows with the calls that are not settled.

    Raises:
        TypeError, ValueError: `now` is not a time.
    """
    at = store.now() if now is None else microseconds_of("now", now)
    return doubts_among(UnsettledCalls().extend(store.read()), at)


def result_of(text: str) -> object:
    """Return the result that a person wrote of a call: JSON, and what is not JSON as a text."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
