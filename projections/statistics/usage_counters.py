"""The counters that usage statistics are kept in while events come in.

The projector stores them as JSON: a field's name must not change.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from eventstore import ModelResponded, Usage
from eventstore.domain.response_turns import ResponseTurns, used_nothing
from projections.statistics.durations import Durations


class UsageCounter(msgspec.Struct, gc=False, omit_defaults=True):
    """What some responses have cost so far; `unknown` of them do not say their usage."""

    responses: int = 0
    unknown: int = 0
    usage: Usage = Usage()
    latency: Durations = msgspec.field(default_factory=Durations)
    finish_reasons: dict[str, int] = {}

    def add(self, response: ModelResponded) -> None:
        """Count a response."""
        self.responses += 1
        if response.usage is not None:
            self.usage += response.usage
        elif not used_nothing(response):
            self.unknown += 1
        if response.latency is not None:
            self.latency.add(response.latency)
        if response.finish_reason is not None:
            self._finished(response.finish_reason, 1)

    def complete(self, new: ModelResponded, estimate: Decimal | None) -> None:
        """Add what was not known of a response; its cost replaces the one that was estimated."""
        if new.usage is not None:
            self.unknown -= new.usage.total_tokens > 0
            self.usage += new.usage
            if estimate is not None and self.usage.cost is not None:
                cost = max(self.usage.cost - estimate, Decimal(0))
                self.usage = msgspec.structs.replace(self.usage, cost=cost)
        if new.latency is not None:
            self.latency.add(new.latency)
        if new.finish_reason is not None:
            self._finished(new.finish_reason, 1)

    def include(self, other: UsageCounter) -> None:
        """Add what another counter has counted."""
        self.responses += other.responses
        self.unknown += other.unknown
        self.usage += other.usage
        self.latency.include(other.latency)
        self.latency.bound()
        for reason, count in other.finish_reasons.items():
            self._finished(reason, count)

    def _finished(self, reason: str, count: int) -> None:
        self.finish_reasons[reason] = self.finish_reasons.get(reason, 0) + count


class ConversationUsage(msgspec.Struct, gc=False):
    """The responses of one conversation, up to a version of it.

    `tools` are those that the last turn has asked for. `copied` is the version of the last copy.
    `estimates` are the costs that a price table has told, by the versions of the responses.
    """

    version: int = 0
    counter: UsageCounter = msgspec.field(default_factory=UsageCounter)
    turns: ResponseTurns = msgspec.field(default_factory=ResponseTurns)
    tools: set[str] = set()
    estimates: dict[int, Decimal] = {}
    copied: int = 0

    def add_turn(self, turn: int) -> ModelResponded | None:
        """Take in an event of a turn; return its response, if it came before and is no copy."""
        if turn != self.turns.turn:
            self.tools.clear()
        response = self.turns.add_turn(turn)
        is_copy = self.turns.response is not None and self.turns.response[0] <= self.copied
        return None if is_copy else response


class UsageCounters:
    """The counters of conversations, models and tools by their names, and the breaches by axis."""

    def __init__(self) -> None:
        self.conversations: dict[str, ConversationUsage] = {}
        self.models: dict[str, UsageCounter] = {}
        self.tools: dict[str, UsageCounter] = {}
        self.breaches: dict[str, int] = {}
