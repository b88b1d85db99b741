"""The prompts of a log at its versions, each exactly as it would be sent, stored as changes.

1. The prompt at a version is `model_history(events up to it).render(provider)`.
2. The prompts of one provider share their messages: each says how many messages it keeps of the
   prompt before it, and which ones follow.
3. Events that never reach a prompt, such as a response's usage, do not begin another one.
4. A long log has too many prompts for one page. A prompt costs the number of its turns. The most
   useful come first: the wanted versions, for the log's own provider and then for the others; the
   requests of its own provider; its other versions; all versions for the others. Of each the
   nearest to the first wanted version come first. What exceeds `MAX_TURNS` is left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import product

import msgspec

from eventstore import (
    HookRaised,
    MessageAdded,
    ModelResponded,
    Recorded,
    RunEnded,
    RunStarted,
    ToolEndedLate,
    ToolPending,
    ToolRenewed,
    ToolsOffered,
    UsageLimitBreach,
)
from eventstore.domain.json_types import is_json_list
from eventstore.providers import PROVIDERS, AnyProvider, known_provider, list_key
from projections.history.entries import Repair
from projections.history.projection import History
from projections.report.bounded import bounded_text

MAX_TURNS = 150_000
"""Turns that are rendered for a page in all: some seconds' work."""

_NEVER_SHOWN = (
    HookRaised,
    ModelResponded,
    RunEnded,
    RunStarted,
    ToolEndedLate,
    ToolRenewed,
    ToolsOffered,
    UsageLimitBreach,
)

_encode = msgspec.json.encode


class Prompt(msgspec.Struct, array_like=True, frozen=True):
    """The prompt from one version to another, as a change to the one before it.

    `others` are the arguments beside the messages, as JSON. The messages are the first `kept` ones
    of the prompt before, and then those at the places `added` in `ProviderPrompts.messages`.
    """

    version: int
    until: int
    others: str
    kept: int
    added: list[int]
    repairs: list[Repair]


class ProviderPrompts(msgspec.Struct):
    """The prompts of one provider in the order of their versions, and their messages as JSON.

    The messages are the argument named `list_key`.
    """

    provider: str
    list_key: str
    messages: list[str] = []
    prompts: list[Prompt] = []


def own_provider(events: Sequence[Recorded]) -> AnyProvider:
    """Return the provider that most messages of a log came from; openai if none says so."""
    counts = Counter(
        event.provider
        for event in (recorded.event for recorded in events)
        if isinstance(event, MessageAdded | ModelResponded) and event.provider in PROVIDERS
    )
    (most, _), *_ = counts.most_common(1) or [("openai", 0)]
    return known_provider(str(most))


def prompts_of(
    events: Sequence[Recorded],
    own: AnyProvider,
    wanted: Sequence[int],
    max_turns: int = MAX_TURNS,
) -> list[ProviderPrompts]:
    """Return the prompts of one conversation, its own provider's first.

    `wanted` are versions whose prompts matter most; the first of them matters more than the others.
    """
    chosen = _chosen(events, own, wanted, max_turns)
    starts = _starts(events)
    books = {name: _Book(name) for name in (own, *_others(own))}
    history = History()
    for recorded in events:
        history.apply(recorded)
        for name in chosen.get(recorded.version, ()):
            books[name].add(recorded.version, _until(recorded.version, starts, events), history)
    return [book.made for book in books.values()]


def _others(own: AnyProvider) -> list[AnyProvider]:
    return [known_provider(name) for name in PROVIDERS if name != own]


class _Book:
    """The prompts of one provider so far."""

    def __init__(self, provider: AnyProvider) -> None:
        self.made = ProviderPrompts(provider, list_key(provider), [], [])
        self._provider: AnyProvider = provider
        self._places: dict[bytes, int] = {}
        self._last: list[int] = []

    def add(self, version: int, until: int, history: History) -> None:
        arguments, repairs = history.view().rendered(self._provider)
        key = list_key(self._provider)
        shown = arguments[key]
        messages = shown if is_json_list(shown) else [shown]
        places = [self._place(_encode(message)) for message in messages]
        kept = _shared(self._last, places)
        others = {name: value for name, value in arguments.items() if name != key}
        text = bounded_text(_encode(others).decode()) if others else ""
        self.made.prompts.append(Prompt(version, until, text, kept, places[kept:], repairs))
        self._last = places

    def _place(self, message: bytes) -> int:
        place = self._places.setdefault(message, len(self._places))
        if place == len(self.made.messages):
            self.made.messages.append(bounded_text(message.decode()))
        return place


def _shared(one: list[int], other: list[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _starts(events: Sequence[Recorded]) -> list[int]:
    """Return the first version, and those at which the prompt may become another one."""
    return [
        recorded.version
        for number, recorded in enumerate(events)
        if number == 0 or not isinstance(recorded.event, _NEVER_SHOWN)
    ]


def _until(version: int, starts: list[int], events: Sequence[Recorded]) -> int:
    """Return the last version at which the prompt is still that of a version."""
    later = bisect_right(starts, version)
    return starts[later] - 1 if later < len(starts) else events[-1].version


def _chosen(
    events: Sequence[Recorded], own: AnyProvider, wanted: Sequence[int], max_turns: int
) -> dict[int, list[AnyProvider]]:
    """Return the versions to render, and for which providers."""
    turns: dict[int, int] = {}
    count = 0
    for recorded in events:
        count += isinstance(recorded.event, MessageAdded | ToolPending)
        turns[recorded.version] = count
    chosen: dict[int, list[AnyProvider]] = defaultdict(list)
    left = max_turns
    for version, provider in _by_use(events, own, wanted):
        if provider in chosen.get(version, ()):
            continue
        left -= turns[version]
        if left < 0 and chosen:
            break
        chosen[version].append(provider)
    return chosen


def _by_use(
    events: Sequence[Recorded], own: AnyProvider, wanted: Sequence[int]
) -> Iterator[tuple[int, AnyProvider]]:
    """Yield the versions with the providers to render them for, the most useful first."""
    starts = _starts(events)
    known = [starts[max(bisect_right(starts, version) - 1, 0)] for version in wanted]

    def nearest(versions: list[int]) -> list[int]:
        return sorted(versions, key=lambda version: (abs(version - known[0]), version))

    mine: list[AnyProvider] = [own]
    others = _others(own)
    yield from product(known, mine)
    yield from product(known, others)
    yield from product(nearest(_requests(events, starts)), mine)
    yield from product(nearest(starts), mine)
    yield from product(nearest(starts), others)


def _requests(events: Sequence[Recorded], starts: list[int]) -> list[int]:
    """Return the versions after which a turn of the model began, and the last one."""
    begins = [
        recorded.version
        for recorded in events
        if isinstance(recorded.event, MessageAdded) and recorded.event.role == "assistant"
    ]
    places = [bisect_right(starts, version - 1) - 1 for version in begins]
    return [starts[place] for place in places if place >= 0] + starts[-1:]
