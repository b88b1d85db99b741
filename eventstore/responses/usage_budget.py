"""`UsageBudget`: the limits of a run, checked before a request and after its response.

    budget = UsageBudget(chat, UsageLimits(requests=20, total_tokens=200_000))
    while True:
        budget.before_request()
        response = client.chat.completions.create(...)
        budget.after_response(response, "openai")

What is used is read from the log, so that a limit holds across restarts and processes. A breach is
recorded, once per axis and run, and raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from eventstore.clock import system_clock
from eventstore.domain.agent_errors import UsageLimitExceeded
from eventstore.domain.codec import encode
from eventstore.domain.events import UsageLimitBreach
from eventstore.domain.recorded_responses import RecordedResponses, completion
from eventstore.policies.prices import priced
from eventstore.policies.usage_limits import RunUsage, UsageLimits
from eventstore.providers.response_facts import model_responded

if TYPE_CHECKING:
    from decimal import Decimal
    from uuid import UUID

    from eventstore.aio.conversation import AsyncConversation
    from eventstore.conversation import Conversation
    from eventstore.domain.events import ModelResponded, Recorded
    from eventstore.providers.registry import AnyProvider


class _Meter:
    """What a run has used so far, and what is to be recorded of it."""

    def __init__(self, limits: UsageLimits, clock: Callable[[], int]) -> None:
        self.limits = limits
        self.used = RunUsage()
        self.version = 0
        self._clock = clock
        self._responses = RecordedResponses()

    def take(self, recorded: Recorded) -> None:
        """Take in the next event."""
        self.used.apply(recorded)
        self._responses.take(recorded)
        self.version = recorded.version

    def next_request(self) -> None:
        """Take in that a request follows: an equal response that comes then is another one."""
        self._responses.forget_unnamed()

    def to_record(self, responded: ModelResponded) -> ModelResponded | None:
        """Return what the log does not have of a response: all, what is new, or None."""
        known = self._responses.find(responded)
        if known is None:
            return responded
        version, earlier = known
        return completion(earlier, responded, version)

    def breach(self, *, requesting: bool) -> UsageLimitBreach | None:
        """Return the limit that is breached, or None."""
        return self.limits.breach(self.used, self._clock(), requesting=requesting)

    def is_recorded(self, breach: UsageLimitBreach) -> bool:
        """Return whether a breach of its axis is in the log of this run."""
        return any(breach.axis == recorded.axis for recorded in self.used.breaches)


def _ids_of(new: ModelResponded, conversation_id: str) -> list[UUID] | None:
    """Return the id under which something new is stored once, also by processes at the same time.

    A whole response has none: it is counted once, by its own id.
    """
    if new.completes is None:
        return None
    return [uuid5(NAMESPACE_URL, f"{conversation_id}\n{encode(new).decode()}")]


class UsageBudget:
    """The limits of a run of a conversation; see the module.

    `clock` gives microseconds since 1970 UTC.
    """

    def __init__(
        self,
        chat: Conversation,
        limits: UsageLimits,
        *,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self._chat = chat
        self._meter = _Meter(limits, clock)

    @property
    def used(self) -> RunUsage:
        """What the run has used, by the log of this moment."""
        for recorded in self._chat.events(after=self._meter.version):
            self._meter.take(recorded)
        return self._meter.used

    def before_request(self) -> None:
        """Check the limits, with the request that is about to be made.

        Raises:
            UsageLimitExceeded: the request would go beyond a limit; do not make it.
        """
        self._check(requesting=True)

    def after_response(
        self,
        response: object,
        provider: AnyProvider | None = None,
        *,
        latency: float | None = None,
        cost: Decimal | None = None,
    ) -> None:
        """Record what a response says of itself, and check the limits.

        `response` is the SDK's own response or its JSON, with its `provider`, or a
        `ModelResponded`. `latency` is in seconds. Without `cost`, the store's price table tells
        it. A response that is recorded already, as by `Conversation.record`, is not counted again:
        only what was not known of it is stored, such as its cost (`ModelResponded.completes`).

        One without an id is taken for the one that was recorded since `before_request`, or since
        the response before it, if they say the same.

        Raises:
            UsageLimitExceeded: the run is beyond a limit; the response is recorded.
        """
        stated = model_responded(response, provider, latency=latency, cost=cost)
        responded = priced(stated, self._chat.session.prices)
        _ = self.used
        if (new := self._meter.to_record(responded)) is not None:
            self._chat.append(new, event_ids=_ids_of(new, self._chat.id))
        self._check(requesting=False)

    def _check(self, *, requesting: bool) -> None:
        _ = self.used
        self._meter.next_request()
        if breach := self._meter.breach(requesting=requesting):
            if not self._meter.is_recorded(breach):
                self._chat.append(breach)
            raise UsageLimitExceeded(breach)


class AsyncUsageBudget:
    """The limits of a run of an `AsyncConversation`: `UsageBudget`, awaited."""

    def __init__(
        self,
        chat: AsyncConversation,
        limits: UsageLimits,
        *,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self._chat = chat
        self._meter = _Meter(limits, clock)

    async def used(self) -> RunUsage:
        """Return what the run has used, by the log of this moment."""
        async for recorded in self._chat.events(after=self._meter.version):
            self._meter.take(recorded)
        return self._meter.used

    async def before_request(self) -> None:
        """Check the limits; see `UsageBudget.before_request`."""
        await self._check(requesting=True)

    async def after_response(
        self,
        response: object,
        provider: AnyProvider | None = None,
        *,
        latency: float | None = None,
        cost: Decimal | None = None,
    ) -> None:
        """Record what a response says of itself; see `UsageBudget.after_response`."""
        stated = model_responded(response, provider, latency=latency, cost=cost)
        responded = priced(stated, self._chat.session.blocking.prices)
        await self.used()
        if (new := self._meter.to_record(responded)) is not None:
            await self._chat.append(new, event_ids=_ids_of(new, self._chat.id))
        await self._check(requesting=False)

    async def _check(self, *, requesting: bool) -> None:
        await self.used()
        self._meter.next_request()
        if breach := self._meter.breach(requesting=requesting):
            if not self._meter.is_recorded(breach):
                await self._chat.append(breach)
            raise UsageLimitExceeded(breach)
