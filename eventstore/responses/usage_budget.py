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

from eventstore.clock import system_clock
from eventstore.domain.agent_errors import UsageLimitExceeded
from eventstore.domain.events import UsageLimitBreach
from eventstore.policies.prices import priced
from eventstore.policies.usage_limits import RunUsage, UsageLimits
from eventstore.providers.response_facts import model_responded

if TYPE_CHECKING:
    from decimal import Decimal

    from eventstore.aio.conversation import AsyncConversation
    from eventstore.conversation import Conversation
    from eventstore.domain.events import Recorded
    from eventstore.providers.registry import AnyProvider


class _Meter:
    """What a run has used so far, and what is to be recorded of it."""

    def __init__(self, limits: UsageLimits, clock: Callable[[], int]) -> None:
        self.limits = limits
        self.used = RunUsage()
        self.version = 0
        self._clock = clock

    def take(self, recorded: Recorded) -> None:
        """Take in the next event."""
        self.used.apply(recorded)
        self.version = recorded.version

    def breach(self, *, requesting: bool) -> UsageLimitBreach | None:
        """Return the limit that is breached, or None."""
        return self.limits.breach(self.used, self._clock(), requesting=requesting)

    def is_recorded(self, breach: UsageLimitBreach) -> bool:
        """Return whether a breach of its axis is in the log of this run."""
        return any(breach.axis == recorded.axis for recorded in self.used.breaches)


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
        it. A response that is recorded already is not recorded again.

        Raises:
            UsageLimitExceeded: the run is beyond a limit; the response is recorded.
        """
        stated = model_responded(response, provider, latency=latency, cost=cost)
        responded = priced(stated, self._chat.session.prices)
        if not self.used.has_response(responded):
            self._chat.append(responded)
        self._check(requesting=False)

    def _check(self, *, requesting: bool) -> None:
        _ = self.used
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
        if not (await self.used()).has_response(responded):
            await self._chat.append(responded)
        await self._check(requesting=False)

    async def _check(self, *, requesting: bool) -> None:
        await self.used()
        if breach := self._meter.breach(requesting=requesting):
            if not self._meter.is_recorded(breach):
                await self._chat.append(breach)
            raise UsageLimitExceeded(breach)
