"""`UsageBudget`: the limits of a run, checked before a request and after its response.

    budget = UsageBudget(chat, UsageLimits(requests=20, total_tokens=200_000))
    while True:
        budget.before_request()
        response = client.chat.completions.create(...)
        budget.after_response(response, "openai")

What is used is read from the log, so that a limit holds across restarts and processes. A breach is
recorded, once per axis and run, and raised. What a limit cannot know is told, too: see
`UsageLimits.unknown`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from eventstore.agent_errors.errors import UsageLimitExceeded
from eventstore.append.command import Command, PendingAppend
from eventstore.domain.codec import encode
from eventstore.domain.events import ModelResponded
from eventstore.domain.recorded_responses import (
    another_after,
    completion,
    could_be_one,
    response_key,
)
from eventstore.domain.usage import UsageLimitBreach
from eventstore.errors import UsageUnknown, UsageUnknownWarning
from eventstore.policies.prices import priced
from eventstore.policies.usage_limits import RunUsage, UsageLimits
from eventstore.providers.response_facts import model_responded

if TYPE_CHECKING:
    from decimal import Decimal

    from eventstore.aio.conversation import AsyncConversation
    from eventstore.append.conversation_state import ConversationState
    from eventstore.append.tool_fold import LookUp
    from eventstore.conversation import Conversation
    from eventstore.domain.events import Event, Recorded
    from eventstore.providers.registry import AnyProvider


class _Meter:
    """What a run has used so far, and what is to be recorded of it.

    A response that it is told of may be recorded already:

    1. It is one that was recorded since the request before, and not told of since. So `record` and
       `after_response` may both tell of it, in any order, also for several requests at a time.
    2. It is the last word of the conversation, as the log has it: another process told of it, and
       stopped. Without an id, or where only budgets told of it, that cannot be said once this one
       has made a request since: the model may have given an equal answer.
    """

    def __init__(self, conversation_id: str, limits: UsageLimits, clock: Callable[[], int]) -> None:
        self.limits = limits
        self.used = RunUsage()
        self.version = 0
        self._conversation_id = conversation_id
        self._clock = clock
        self._is_new = True
        self._recent: dict[int, ModelResponded] = {}
        self._keys: set[tuple[str | None, str]] = set()
        self._keys_since_request: set[tuple[str | None, str]] = set()
        self._has_asked = False
        self._warned: set[tuple[str, int]] = set()

    def take(self, recorded: Recorded) -> None:
        """Take in the next event."""
        self.used.apply(recorded)
        self.version = recorded.version
        event = recorded.event
        if type(event) is not ModelResponded or self._is_new:
            return
        if event.completes is None:
            self._recent[recorded.version] = event
        elif event.completes in self._recent:
            earlier = self._recent[event.completes]
            self._recent[event.completes] = earlier.completed_by(event)

    def is_read(self) -> None:
        """Take in that the log was read to its end."""
        self._is_new = False

    def next_request(self) -> None:
        """Take in that a request follows: an equal response that comes then is another one."""
        self._forget(self._keys_since_request)
        self._keys_since_request = set()
        self._has_asked = True

    def telling(self, responded: ModelResponded) -> Command[None]:
        """Return the append of what the log does not have of a response."""
        key = response_key(responded)
        is_first = not self._has_asked if key is None else key not in self._keys
        repeated = key in self._keys_since_request
        if key is not None:
            self._keys.add(key)
            self._keys_since_request.add(key)
        found = self._found(responded)
        if found is not None:
            return self._completing(*found, responded)

        def decide(state: ConversationState, _: LookUp) -> Sequence[Event]:
            turn = state.last_turn
            last = turn.failed if responded.failed else turn.response
            not_run = turn.not_run_of(responded, state.open_tools())
            if last is None:
                return (responded, *not_run)
            version, event = last
            may_be_last = is_first or (repeated and not turn.response_waits)
            if not responded.failed:
                may_be_last = may_be_last and turn.own_response is not None
                may_be_last = may_be_last and turn.may_be_repeated(state.open_tools())
            if may_be_last and could_be_one(event, responded):
                new = completion(event, responded, version)
                return () if new is None else (new,)
            return (another_after(event, responded), *not_run)

        return Command(self._conversation_id, decide, _nothing)

    def _completing(
        self, version: int, earlier: ModelResponded, responded: ModelResponded
    ) -> Command[None]:
        """Return the append of what is new of a response, once for all processes that add it."""
        new = completion(earlier, responded, version)
        if new is None:
            return Command(self._conversation_id, lambda _, __: (), _nothing)
        name = f"{self._conversation_id}\n{encode(new).decode()}"
        ids = [uuid5(NAMESPACE_URL, name).bytes]
        return Command(
            self._conversation_id, lambda _, __: (new,), _nothing, None, ids, exclusive=True
        )

    def is_recorded(self) -> None:
        """Take in that a response was told of: an equal one without an id is another one."""
        self._forget(())
        self._has_asked = True

    def check(self, *, requesting: bool) -> UsageLimitBreach | None:
        """Return the limit that is breached, or None.

        Raises:
            UsageUnknown: a limit cannot be kept.
        """
        breach = self.limits.breach(self.used, self._clock(), requesting=requesting)
        if breach is None and self.limits.unknown != "ignore":
            self._tell_unknown()
        return breach

    def recording(self, breach: UsageLimitBreach) -> Command[None]:
        """Return the append of a breach, unless one of its axis is in the log of this run."""

        def decide(state: ConversationState, _: LookUp) -> Sequence[Event]:
            return () if breach.axis in state.breached else (breach,)

        return Command(self._conversation_id, decide, _nothing)

    def _found(self, responded: ModelResponded) -> tuple[int, ModelResponded] | None:
        """Return the version of a response that was recorded since the request before."""
        for version, event in reversed(self._recent.items()):
            if could_be_one(event, responded):
                return version, event
        return None

    def _forget(self, keys: Collection[tuple[str | None, str]]) -> None:
        """Forget the recent responses that have one of these keys, or none."""
        self._recent = {
            version: event
            for version, event in self._recent.items()
            if (key := response_key(event)) is not None and key not in keys
        }

    def _tell_unknown(self) -> None:
        """Tell of the responses that a limit counts without, each once where that is a warning."""
        for unknown in self.limits.unknown_usages(self.used):
            if self.limits.unknown == "raise" and not unknown.broke_off:
                error = UsageUnknown(f"{unknown}: {unknown.remedy}")
                error.axis, error.version = unknown.axis, unknown.version
                raise error
            place = unknown.axis, unknown.version
            if place not in self._warned:
                self._warned.add(place)
                warnings.warn(str(unknown), UsageUnknownWarning, stacklevel=5)


def _nothing(_: PendingAppend) -> None:
    """Return nothing: the meter reads the log."""


class UsageBudget:
    """The limits of a run of a conversation; see the module.

    `clock` gives microseconds since 1970 UTC, by default those of the store.
    """

    def __init__(
        self,
        chat: Conversation,
        limits: UsageLimits,
        *,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._chat = chat
        self._meter = _Meter(chat.id, limits, clock or chat.session.clock)

    @property
    def used(self) -> RunUsage:
        """What the run has used, by the log of this moment."""
        for recorded in self._chat.events(after=self._meter.version):
            self._meter.take(recorded)
        self._meter.is_read()
        return self._meter.used

    def before_request(self) -> None:
        """Check the limits, with the request that is about to be made.

        Raises:
            UsageLimitExceeded: the request would go beyond a limit; do not make it.
            UsageUnknown: a limit cannot be kept, because a response does not say what it counts.
        """
        _ = self.used
        self._meter.next_request()
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

        One that says the same as one before `before_request` is another response, whatever its id.
        One without an id is taken for the one that was recorded since then, or since the response
        before it.

        Raises:
            UsageLimitExceeded: the run is beyond a limit; the response is recorded.
            UsageUnknown: a limit cannot be kept; the response is recorded.
        """
        stated = model_responded(response, provider, latency=latency, cost=cost)
        responded = priced(stated, self._chat.session.prices)
        _ = self.used
        self._chat.session.run(self._meter.telling(responded))
        _ = self.used
        self._meter.is_recorded()
        self._check(requesting=False)

    def _check(self, *, requesting: bool) -> None:
        if breach := self._meter.check(requesting=requesting):
            self._chat.session.run(self._meter.recording(breach))
            raise UsageLimitExceeded(breach)


class AsyncUsageBudget:
    """The limits of a run of an `AsyncConversation`: `UsageBudget`, awaited."""

    def __init__(
        self,
        chat: AsyncConversation,
        limits: UsageLimits,
        *,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._chat = chat
        self._meter = _Meter(chat.id, limits, clock or chat.session.blocking.clock)

    async def used(self) -> RunUsage:
        """Return what the run has used, by the log of this moment."""
        async for recorded in self._chat.events(after=self._meter.version):
            self._meter.take(recorded)
        self._meter.is_read()
        return self._meter.used

    async def before_request(self) -> None:
        """Check the limits; see `UsageBudget.before_request`."""
        await self.used()
        self._meter.next_request()
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
        await self._chat.session.run(self._meter.telling(responded))
        await self.used()
        self._meter.is_recorded()
        await self._check(requesting=False)

    async def _check(self, *, requesting: bool) -> None:
        if breach := self._meter.check(requesting=requesting):
            await self._chat.session.run(self._meter.recording(breach))
            raise UsageLimitExceeded(breach)
