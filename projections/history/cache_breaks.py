"""Cache breaks: where the next request of a log does not begin with the one before it.

1. A request is made before each turn of the model, and at the end of the log.
2. It keeps the one before if it begins with the same bytes. Brackets that close a list count
   as nothing: what is added to a message breaks nothing.
3. A break has the changes of the history that only one of both requests shows: a call that was
   left out since, or one whose late answer took the place of the words that stood for it.
4. Where turns were only added, the last ones are rendered alone, with and without what was added:
   that takes the time of the news. All other requests are rendered and compared whole, and so are
   the first and the last of each stretch without a break. Where that shows a break which the last
   turns did not, every request is compared whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Unpack

import msgspec

from eventstore import Event, MessageAdded, Recorded, ToolPending
from eventstore.domain.json_types import JsonObject
from eventstore.providers import AnyProvider
from projections.history.entries import Repair
from projections.history.model_history import ModelHistory
from projections.history.options import HistoryKeywords, HistoryOptions
from projections.history.projection import History

LAST_TURNS = 4
"""Turns that are rendered before those that were added: a message may take up the one before."""

_CLOSING = b"]}"

_encode = msgspec.json.Encoder().encode


class CacheBreak(msgspec.Struct, frozen=True):
    """A request that begins otherwise than the one before it.

    `version` is the last version that the request shows. `kept` and `lost` are the bytes of the
    request before, as JSON, that a cache can and cannot be used for. `repairs` are why: the changes
    of the history that are new in this request, then those that only the request before has. Where
    both have the same, a line at the end of the request stands elsewhere now.
    """

    version: int
    kept: int
    lost: int
    repairs: tuple[Repair, ...]


class _Request(msgspec.Struct, frozen=True):
    version: int
    shown: ModelHistory


def cache_breaks(
    events: Iterable[Recorded], provider: AnyProvider, **options: Unpack[HistoryKeywords]
) -> list[CacheBreak]:
    """Return each request of a log that its provider's cache of the one before did not fit.

    The options are those of `model_history`, with which the requests were made.

    Raises:
        NonResolvedToolError: a call is open in some request, and `open_calls` is "raise".
        ValueError: the provider is unknown, or an option makes no sense.
    """
    wanted = HistoryOptions(**options)
    known = list(events)
    breaks = _Comparison(provider)
    for request in _requests(known, wanted):
        breaks.take(request)
    if not breaks.end():
        breaks = _Comparison(provider, is_whole=True)
        for request in _requests(known, wanted):
            breaks.take(request)
        breaks.end()
    return breaks.found


def _requests(events: Iterable[Recorded], options: HistoryOptions) -> Iterator[_Request]:
    """Yield the request before each turn of the model, and the one at the end."""
    history = History()
    begun: set[int] = set()
    version = 0
    for recorded in events:
        if version and _begins_turn(recorded.event, begun):
            yield _Request(version, history.view_with(options))
        history.apply(recorded)
        version = recorded.version
    yield _Request(version, history.view_with(options))


class _Comparison:
    """Each request of a log beside the one before it."""

    def __init__(self, provider: AnyProvider, *, is_whole: bool = False) -> None:
        self.found: list[CacheBreak] = []
        self._provider: AnyProvider = provider
        self._is_whole = is_whole
        self._begun: bytes | None = None  # the first request since the last break
        self._before: _Request | None = None
        self._is_sound = True

    def take(self, request: _Request) -> None:
        """Take in the next request."""
        before, self._before = self._before, request
        if before is None:
            self._begun = self._made(request)[0]
        elif self._is_whole or not self._only_adds(before.shown, request.shown):
            self._compare(before, request)

    def end(self) -> bool:
        """Return whether the last requests begin as their stretch did."""
        if self._before is not None:
            self._check(self._made(self._before)[0])
        return self._is_sound

    def _only_adds(self, before: ModelHistory, shown: ModelHistory) -> bool:
        """Return whether turns were added at the end, which change nothing before them."""
        if not shown.only_adds_to(before):
            return False
        place = before.place_of_last(LAST_TURNS)
        end, longer = (
            _as_text(each.since_place(place).render(self._provider)) for each in (before, shown)
        )
        return longer.startswith(end.rstrip(_CLOSING))

    def _compare(self, before: _Request, request: _Request) -> None:
        earlier, repairs = self._made(before)
        text, new_repairs = self._made(request)
        self._check(earlier)
        earlier = earlier.rstrip(_CLOSING)
        if text.startswith(earlier):
            return
        self._begun = text
        kept = _common(earlier, text)
        new = _without(new_repairs, repairs)
        gone = _without(repairs, new_repairs)
        reasons = (*new, *gone) or tuple(filter(_is_of_request, repairs))
        self.found.append(CacheBreak(request.version, kept, len(earlier) - kept, reasons))

    def _check(self, text: bytes) -> None:
        """Note whether a request begins with the first one since the last break."""
        begun = (self._begun or b"").rstrip(_CLOSING)
        self._is_sound = self._is_sound and text.startswith(begun)

    def _made(self, request: _Request) -> tuple[bytes, list[Repair]]:
        arguments, repairs = request.shown.rendered(self._provider)
        return _as_text(arguments), repairs


def _begins_turn(event: Event, begun: set[int]) -> bool:
    """Return whether an event is the first of a turn of the model; its turn is added to `begun`."""
    if not isinstance(event, MessageAdded | ToolPending):
        return False
    if isinstance(event, MessageAdded) and event.role != "assistant":
        return False
    if event.turn is None:
        return True
    is_new = event.turn not in begun
    begun.add(event.turn)
    return is_new


def _as_text(arguments: JsonObject) -> bytes:
    # Providers read what stands beside the list of messages, as the system's text, before it.
    return _encode(sorted(arguments.items(), key=lambda member: isinstance(member[1], list)))


def _is_of_request(repair: Repair) -> bool:
    """Return whether a repair is of the request as a whole, such as a line at its end."""
    return repair.call_id is None and not repair.versions


def _without(repairs: list[Repair], others: list[Repair]) -> list[Repair]:
    known = set(others)
    return [repair for repair in repairs if repair not in known]


def _common(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts begin with together."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if other.startswith(one[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low
