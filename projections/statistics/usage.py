"""Usage statistics: what the model's responses have cost, by conversation, model and tool.

1. A response is counted once, by its provider and id, under its conversation and its model. What a
   later event adds to it (`completes`) is added there, and under the tools of the last turn if it
   is the response of that.
2. It is also counted under each tool that its turn asked for (`ResponseTurns`). A response that
   asks for two tools stands under both, one that asks for none under none: the tools do not add up
   to the whole.
3. A response that does not say its usage is counted, and marked as `unknown`.
4. What was copied (see `Recorded.is_copy`) is followed and not counted: it is counted in the
   conversation where it happened. So is what a later event adds to a response that was copied.

Folding a prefix and then the rest equals folding the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from math import inf
from typing import Any, ClassVar, Self

import msgspec

from eventstore import (
    MessageAdded,
    ModelResponded,
    Prices,
    Recorded,
    ToolPending,
    UnknownEvent,
    Usage,
    UsageLimitBreach,
    priced,
)
from eventstore.domain.copies import MARK
from eventstore.domain.one_line import one_line
from projections.formatting import NotebookText, duration, plural, table, usage_text
from projections.projection import Projection, outlined
from projections.statistics.durations import Percentiles
from projections.statistics.usage_counters import ConversationUsage, UsageCounter, UsageCounters

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


class UsageStatistics(Projection):
    """The usage so far; `result()` sums it up, `counters` are what it is counted in.

    `prices` is a price table for responses that were recorded without their cost. With `copies`
    what was copied from another conversation is counted here, too.
    """

    def __init__(self, prices: Prices | None = None, *, copies: bool = False) -> None:
        self._prices = prices
        self._counts_copies = copies
        self.counters = UsageCounters()

    def apply(self, recorded: Recorded) -> None:
        """Take in one event; one that comes again changes nothing."""
        self.extend((recorded,))

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in events, or their headers, each conversation in its order."""
        # Every event of a log goes through this loop: `is_copy` is a call, and few begin so.
        conversations, steps = self.counters.conversations, self._steps
        for recorded in events:
            chat = conversations.get(recorded.conversation_id)
            if chat is None:
                chat = conversations[recorded.conversation_id] = ConversationUsage()
            if recorded.version <= chat.version:
                continue
            chat.version = recorded.version
            event: Any = recorded.event
            step = steps.get(event.tag)
            if step is None or type(event) is UnknownEvent:
                continue
            if recorded.event_id[:6] == MARK and recorded.is_copy and not self._counts_copies:
                chat.copied = chat.version
                self._follow(step, chat, event)
            elif chat.copied and (getattr(event, "completes", None) or inf) <= chat.copied:
                self._follow(step, chat, event)
            else:
                step(self, chat, event)
        return self

    def _follow(self, step: Callable[..., None], chat: ConversationUsage, event: Any) -> None:
        """Take in an event that is counted elsewhere."""
        counters, counter = self.counters, chat.counter
        self.counters, chat.counter = UsageCounters(), UsageCounter()
        step(self, chat, event)
        self.counters, chat.counter = counters, counter

    def _add_response(self, chat: ConversationUsage, event: ModelResponded) -> None:
        if event.completes is not None:
            self._complete(chat, event, event.completes)
            return
        if chat.turns.knows(event):
            return
        response, estimate = self._priced(event)
        if estimate is not None:
            chat.estimates[chat.version] = estimate
        for counter in self._counters(chat, response):
            counter.add(response)
        if chat.turns.add_response(response, chat.version) is not None:
            for name in chat.tools:
                _counter_of(self.counters.tools, name).add(response)

    def _complete(self, chat: ConversationUsage, event: ModelResponded, version: int) -> None:
        """Add what was not known of the response at `version`."""
        replaced = chat.estimates.pop(version, None) if event.usage else None
        new, estimate = self._priced(event)
        if estimate is not None:
            chat.estimates[version] = estimate
        for counter in self._counters(chat, new):
            counter.complete(new, replaced)
        if chat.turns.complete(new) is not None:
            for name in chat.tools:
                _counter_of(self.counters.tools, name).complete(new, replaced)

    def _counters(
        self, chat: ConversationUsage, response: ModelResponded
    ) -> tuple[UsageCounter, UsageCounter]:
        return chat.counter, _counter_of(self.counters.models, response.model or UNKNOWN_MODEL)

    def _priced(self, stated: ModelResponded) -> tuple[ModelResponded, Decimal | None]:
        """Return a response with its cost, and what the price table has told of it."""
        response = priced(stated, self._prices)
        is_estimate = response is not stated and response.usage is not None
        return response, response.usage.cost if is_estimate and response.usage else None

    def _add_message(self, chat: ConversationUsage, event: MessageAdded) -> None:
        if event.role == "user":
            chat.turns.close()
        elif event.role == "assistant" and event.turn is not None:
            chat.add_turn(event.turn)

    def _add_call(self, chat: ConversationUsage, event: ToolPending) -> None:
        if event.imported:
            chat.turns.close()
        elif event.turn is not None:
            response = chat.add_turn(event.turn)
            name = event.call.name
            if response is not None and name not in chat.tools:
                _counter_of(self.counters.tools, name).add(response)
            chat.tools.add(name)

    def _add_breach(self, _: ConversationUsage, event: UsageLimitBreach) -> None:
        breaches = self.counters.breaches
        breaches[event.axis] = breaches.get(event.axis, 0) + 1

    _steps: ClassVar[dict[str, Callable[..., None]]] = {
        ModelResponded.tag: _add_response,
        MessageAdded.tag: _add_message,
        ToolPending.tag: _add_call,
        UsageLimitBreach.tag: _add_breach,
    }

    def result(self) -> UsageReport:
        """Return the usage of all events so far."""
        counters = self.counters
        conversations = {name: chat.counter for name, chat in counters.conversations.items()}
        return usage_report(conversations, counters.models, counters.tools, counters.breaches)


def _counter_of(counters: dict[str, UsageCounter], name: str) -> UsageCounter:
    counter = counters.get(name)
    if counter is None:
        counter = counters[name] = UsageCounter()
    return counter


def usage_report(
    conversations: Mapping[str, UsageCounter],
    models: Mapping[str, UsageCounter],
    tools: Mapping[str, UsageCounter],
    breaches: Mapping[str, int],
) -> UsageReport:
    """Return what counters of conversations, models and tools have counted."""
    overall = UsageCounter()
    for counter in models.values():  # each response has one
        overall.include(counter)
    return UsageReport(
        overall=_counts(overall),
        by_conversation=_most_tokens_first(conversations),
        by_model=_most_tokens_first(models),
        by_tool=_most_tokens_first(tools),
        breaches=_most_frequent_first(breaches),
    )


def _most_tokens_first(counters: Mapping[str, UsageCounter]) -> dict[str, UsageCounts]:
    used = {name: counter for name, counter in counters.items() if counter.responses}
    names = sorted(used, key=lambda name: (-used[name].usage.total_tokens, name))
    return {name: _counts(used[name]) for name in names}


def _counts(counter: UsageCounter) -> UsageCounts:
    return UsageCounts(
        responses=counter.responses,
        unknown=counter.unknown,
        usage=counter.usage,
        latency=counter.latency.percentiles(),
        finish_reasons=_most_frequent_first(counter.finish_reasons),
    )


def _most_frequent_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def usage_statistics(
    events: Iterable[Recorded], prices: Prices | None = None, *, copies: bool = False
) -> UsageReport:
    """Return what the responses of `events` have cost, by conversation, model and tool.

    `print` it, or encode it as JSON. The responses are the `ModelResponded` events. `prices` is a
    price table for those that were recorded without their cost. What was copied from another
    conversation is left out, as it happened there; pass `copies=True` for all that one conversation
    has. Of a feed only the headers are read.
    """
    return UsageStatistics(prices, copies=copies).extend(outlined(events)).result()
