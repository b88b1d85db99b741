"""Which `ModelResponded` events are of the same response, and what a later one adds. Pure.

A response may be told of twice: by `record`, with its message, and by a budget, with its cost.

1. Two events with the same provider and response id are of the same response. Of events without
   an id nothing is said here: the caller that records the second one has to know.
2. The response is counted once, where it was recorded first.
3. What was not known then is appended as an event that completes the first one (`completes`). The
   event has nothing that was known before, so that a fold may add it to what it has.
4. What was known stays: a second cost, or a second latency, changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from eventstore.domain.events import ModelResponded
from eventstore.domain.usage import Usage

if TYPE_CHECKING:
    from eventstore.domain.events import Recorded


def response_key(responded: ModelResponded) -> tuple[str | None, str] | None:
    """Return what names a response, its provider and id; None if it has no id."""
    given = responded.response_id
    return None if given is None else (responded.provider, given)


def says_the_same(one: ModelResponded, other: ModelResponded) -> bool:
    """Return whether two events could be of one response: both its words and its tokens agree.

    Cost and latency are not compared: the caller tells them, and not the response.
    """
    return _of_the_response(one) == _of_the_response(other)


def completion(
    earlier: ModelResponded, later: ModelResponded, version: int
) -> ModelResponded | None:
    """Return the event of what `later` adds to `earlier`, which is at `version`; None of nothing.

    Both are of the same response.
    """
    usage = later.usage if earlier.usage is None else _new_cost(earlier.usage, later.usage)
    finish_reason = later.finish_reason if earlier.finish_reason is None else None
    latency = later.latency if earlier.latency is None else None
    if usage is None and finish_reason is None and latency is None:
        return None
    return ModelResponded(
        earlier.provider,
        earlier.model or later.model,
        earlier.response_id,
        finish_reason,
        usage,
        latency,
        version,
    )


class RecordedResponses:
    """The responses of one conversation that have an id, with all that the log knows of each.

    Those without an id are in `unnamed` until `forget_unnamed`, the latest last.
    """

    def __init__(self) -> None:
        self.unnamed: list[tuple[int, ModelResponded]] = []
        self._named: dict[tuple[str | None, str], tuple[int, ModelResponded]] = {}

    def take(self, recorded: Recorded) -> None:
        """Take in the next event."""
        event = recorded.event
        if type(event) is not ModelResponded:
            return
        key = response_key(event)
        if key is None:
            if event.completes is None:
                self.unnamed.append((recorded.version, event))
        elif (known := self._named.get(key)) is None:
            self._named[key] = recorded.version, event
        elif event.completes is not None:
            self._named[key] = known[0], known[1].completed_by(event)

    def find(self, responded: ModelResponded) -> tuple[int, ModelResponded] | None:
        """Return the version of a response that the log has, and what is known of it."""
        key = response_key(responded)
        if key is not None:
            return self._named.get(key)
        alike = (found for found in reversed(self.unnamed) if says_the_same(found[1], responded))
        return next(alike, None)

    def forget_unnamed(self) -> None:
        """Let no later response be one of those without an id that came so far."""
        self.unnamed.clear()


def _new_cost(earlier: Usage, later: Usage | None) -> Usage | None:
    if later is None or later.cost is None or earlier.cost is not None:
        return None
    return Usage(cost=later.cost)


def _of_the_response(responded: ModelResponded) -> ModelResponded:
    usage = responded.usage
    if usage is not None:
        usage = msgspec.structs.replace(usage, cost=None)
    return msgspec.structs.replace(responded, usage=usage, latency=None, completes=None)
