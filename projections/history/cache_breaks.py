"""Cache breaks: where the next request of a log does not begin with the one before it.

1. A request is made before each turn of the model, and at the end of the log.
2. It keeps the one before if it begins with the same bytes. Brackets that close a list count
   as nothing: what is added to a message breaks nothing.
3. A break has the changes of the history that only one of both requests shows: a call that was
   left out since, or one whose late answer took the place of the words that stood for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import msgspec

from eventstore import Event, MessageAdded, Recorded, ToolPending
from eventstore.providers import AnyProvider
from projections.history.entries import Repair
from projections.history.options import HistoryKeywords, HistoryOptions
from projections.history.projection import History

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
    text: bytes
    repairs: list[Repair]


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
    history = History()
    begun: set[int] = set()
    before: _Request | None = None
    version = 0
    breaks: list[CacheBreak] = []
    for recorded in events:
        if version and _begins_turn(recorded.event, begun):
            request = _request(history, version, provider, wanted)
            breaks += _breaks(before, request)
            before = request
        history.apply(recorded)
        version = recorded.version
    return [*breaks, *_breaks(before, _request(history, version, provider, wanted))]


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


def _request(
    history: History, version: int, provider: AnyProvider, options: HistoryOptions
) -> _Request:
    arguments, repairs = history.view_with(options).rendered(provider)
    # Providers read what stands beside the list of messages, as the system's text, before it.
    in_order = sorted(arguments.items(), key=lambda member: isinstance(member[1], list))
    return _Request(version, _encode(in_order), repairs)


def _breaks(before: _Request | None, request: _Request) -> list[CacheBreak]:
    if before is None:
        return []
    earlier = before.text.rstrip(_CLOSING)
    if request.text.startswith(earlier):
        return []
    kept = _common(earlier, request.text)
    new = _without(request.repairs, before.repairs)
    gone = _without(before.repairs, request.repairs)
    reasons = (*new, *gone) or tuple(filter(_is_of_request, before.repairs))
    return [CacheBreak(request.version, kept, len(earlier) - kept, reasons)]


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
