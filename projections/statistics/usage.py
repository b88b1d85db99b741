"""Usage statistics: what the model's responses have cost, by conversation, model and tool.

1. A response is counted once, by its provider and id, under its conversation and its model. What a
   later event adds to it (`completes`) is added there, and under the tools of the last turn if it
   is the response of that.
2. It is also counted under each tool that its turn asked for (`ResponseTurns`). A response that
   asks for two tools stands under both, one that asks for none under none: the tools do not add up
   to the whole.
3. A response that does not say its usage is counted, and marked as `unknown`.

Folding a prefix and then the rest equals folding the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

import msgspec

from eventstore import (
    MessageAdded,
    ModelResponded,
    Prices,
    Recorded,
    ToolPending,
    Usage,
    UsageLimitBreach,
    priced,
)
from eventstore.domain.one_line import one_line
from projections.formatting import NotebookText, duration, plural, table, usage_text
from projections.projection import Projection
from projections.response_turns import ResponseTurns
from projections.statistics.durations import Durations, Percentiles

MAX_LISTED = 10
"""Conversations that the text lists; the data holds all."""

UNKNOWN_MODEL = "unknown"
"""The name under which responses are counted that do not say their model."""


class UsageCounts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What some responses have cost.

    `unknown` of the `responses` do not say their usage. `latency` is the time from the request to
    the whole response, in microseconds. `finish_reasons` are the provider's own words, the most
    frequent first.
    """

    responses: int = 0
    unknown: int = 0
    usage: Usage = Usage()
    latency: Percentiles = Percentiles()
    finish_reasons: dict[str, int] = {}


class UsageReport(NotebookText, msgspec.Struct, frozen=True, kw_only=True):
    """The usage of a log; what used the most tokens comes first in each mapping.

    `breaches` counts the recorded breaches of limits by their axis.
    """

    overall: UsageCounts
    by_conversation: dict[str, UsageCounts]
    by_model: dict[str, UsageCounts]
    by_tool: dict[str, UsageCounts]
    breaches: dict[str, int]

    def __str__(self) -> str:
        sections = (
            self._summary(),
            _rows("MODEL", self.by_model),
            _rows("ASKED FOR", self.by_tool),
            self._conversations(),
        )
        return "\n\n".join("\n".join(lines) for lines in sections if lines)

    def _summary(self) -> list[str]:
        n = self.overall
        unknown = f", {n.unknown:,} of unknown usage" if n.unknown else ""
        lines = [f"{plural(n.responses, 'response')} of models{unknown}: {usage_text(n.usage)}"]
        if n.finish_reasons:
            lines.append(f"finish reasons: {_listed(n.finish_reasons)}")
        if self.breaches:
            lines.append(f"usage limits reached: {_listed(self.breaches)}")
        return lines

    def _conversations(self) -> list[str]:
        if len(self.by_conversation) <= 1:
            return []
        shown = dict(list(self.by_conversation.items())[:MAX_LISTED])
        more = len(self.by_conversation) - len(shown)
        return _rows("CONVERSATION", shown) + ([f"  and {more:,} more"] if more else [])


def _rows(head: str, counts: dict[str, UsageCounts]) -> list[str]:
    rows = [
        (
            one_line(name, 40),
            n.responses,
            n.usage.input_tokens,
            n.usage.cached_tokens,
            n.usage.output_tokens,
            n.usage.reasoning_tokens,
            "-" if n.usage.cost is None else f"{n.usage.cost:f}",
            duration(n.latency.p50),
            duration(n.latency.p95),
        )
        for name, n in counts.items()
    ]
    heads = (head, "RESPONSES", "INPUT", "CACHED", "OUTPUT", "REASONING", "COST", "P50", "P95")
    return table(heads, rows, [head])


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{one_line(name, 40)} {count:,}" for name, count in counts.items())


class _UsageCounter:
    """The usage of some responses, so far."""

    def __init__(self) -> None:
        self.responses = 0
        self.unknown = 0
        self.usage = Usage()
        self.latency = Durations()
        self.finish_reasons = Counter[str]()

    def add(self, response: ModelResponded) -> None:
        """Count a response."""
        self.responses += 1
        if response.usage is None:
            self.unknown += 1
        else:
            self.usage += response.usage
        if response.latency is not None:
            self.latency.add(response.latency)
        if response.finish_reason is not None:
            self.finish_reasons[response.finish_reason] += 1

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
            self.finish_reasons[new.finish_reason] += 1

    def counts(self) -> UsageCounts:
        """Return the counts."""
        return UsageCounts(
            responses=self.responses,
            unknown=self.unknown,
            usage=self.usage,
            latency=self.latency.percentiles(),
            finish_reasons=_most_frequent_first(self.finish_reasons),
        )


class _Conversation:
    """The responses of one conversation, and the tools that its last turn has asked for."""

    def __init__(self) -> None:
        self.version = 0
        self.counter = _UsageCounter()
        self.turns = ResponseTurns()
        self.turn: int | None = None
        self.tools: set[str] = set()
        self.known: set[tuple[str | None, str]] = set()
        self.estimates: dict[int, Decimal] = {}

    def begin(self, turn: int) -> None:
        """Take in an event of a turn."""
        if turn != self.turn:
            self.turn, self.tools = turn, set()

    def knows(self, response: ModelResponded) -> bool:
        """Return whether a response came before, and note that it has come."""
        if response.response_id is None:
            return False
        key = (response.provider, response.response_id)
        is_known = key in self.known
        self.known.add(key)
        return is_known


class UsageStatistics(Projection):
    """The usage so far; `result()` sums it up. Memory grows with the responses that have an id.

    `prices` is a price table for responses that were recorded without their cost.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self._prices = prices
        self._overall = _UsageCounter()
        self._conversations: dict[str, _Conversation] = {}
        self._models: dict[str, _UsageCounter] = {}
        self._tools: dict[str, _UsageCounter] = {}
        self._breaches = Counter[str]()

    def apply(self, recorded: Recorded) -> None:
        """Take in one event; one that comes again changes nothing."""
        chat = self._conversations.get(recorded.conversation_id)
        if chat is None:
            chat = self._conversations[recorded.conversation_id] = _Conversation()
        if recorded.version <= chat.version:
            return
        chat.version = recorded.version
        match recorded.event:
            case ModelResponded(completes=int()) as new:
                self._complete(chat, new)
            case ModelResponded() as response if not chat.knows(response):
                self._add_response(chat, response, recorded.version)
            case MessageAdded(role="user") | ToolPending(imported=True):
                chat.turns.close()
            case MessageAdded(role="assistant", turn=int(turn)):
                chat.begin(turn)
                chat.turns.add_turn(turn)
            case ToolPending(turn=int(turn), call=call):
                self._add_call(chat, turn, call.name)
            case UsageLimitBreach(axis=axis):
                self._breaches[axis] += 1
            case _:
                pass

    def _add_response(self, chat: _Conversation, stated: ModelResponded, version: int) -> None:
        response = self._priced(chat, stated, version)
        for counter in self._counters(chat, response):
            counter.add(response)
        if chat.turns.add_response(response, version) is not None:
            for name in chat.tools:
                self._tools.setdefault(name, _UsageCounter()).add(response)

    def _complete(self, chat: _Conversation, stated: ModelResponded) -> None:
        estimate = chat.estimates.pop(stated.completes or 0, None) if stated.usage else None
        new = self._priced(chat, stated, stated.completes or 0)
        for counter in self._counters(chat, new):
            counter.complete(new, estimate)
        if chat.turns.complete(new) is not None:
            for name in chat.tools:
                self._tools[name].complete(new, estimate)

    def _counters(self, chat: _Conversation, response: ModelResponded) -> tuple[_UsageCounter, ...]:
        model = response.model or UNKNOWN_MODEL
        return self._overall, chat.counter, self._models.setdefault(model, _UsageCounter())

    def _priced(self, chat: _Conversation, stated: ModelResponded, version: int) -> ModelResponded:
        """Return a response with its cost, noted as an estimate if the price table tells it."""
        response = priced(stated, self._prices)
        if response is not stated and response.usage and response.usage.cost is not None:
            chat.estimates[version] = response.usage.cost
        return response

    def _add_call(self, chat: _Conversation, turn: int, name: str) -> None:
        chat.begin(turn)
        response = chat.turns.add_turn(turn)
        if response is not None and name not in chat.tools:
            self._tools.setdefault(name, _UsageCounter()).add(response)
        chat.tools.add(name)

    def result(self) -> UsageReport:
        """Return the usage of all events so far."""
        conversations = {
            name: chat.counter
            for name, chat in self._conversations.items()
            if chat.counter.responses
        }
        return UsageReport(
            overall=self._overall.counts(),
            by_conversation=_most_tokens_first(conversations),
            by_model=_most_tokens_first(self._models),
            by_tool=_most_tokens_first(self._tools),
            breaches=_most_frequent_first(self._breaches),
        )


def _most_tokens_first(counters: dict[str, _UsageCounter]) -> dict[str, UsageCounts]:
    names = sorted(counters, key=lambda name: (-counters[name].usage.total_tokens, name))
    return {name: counters[name].counts() for name in names}


def _most_frequent_first(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def usage_statistics(events: Iterable[Recorded], prices: Prices | None = None) -> UsageReport:
    """Return what the responses of `events` have cost, by conversation, model and tool.

    `print` it, or encode it as JSON. The responses are the `ModelResponded` events. `prices` is a
    price table for those that were recorded without their cost.
    """
    return UsageStatistics(prices).extend(events).result()
