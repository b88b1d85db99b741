"""Which `ModelResponded` events are of the same response, and what a later one adds. Pure.

A response may be told of twice: by `record`, with its message, and by a budget, with its cost.
Servers repeat ids: a counter to 999, one id for a session, the seconds of a clock. So an id alone
does not name a response.

1. Two tellings are of one response if they have the same provider and id, do not differ in their
   tokens, and nothing was said between them: no end of the last open call, no message, no other
   response. Otherwise the model may have been asked again.
2. Of those without an id, all that the response says has to be equal, and the caller that records
   the second one has to know.
3. The response is counted once, where it was recorded first.
4. What was not known then is appended as an event that completes the first one (`completes`). The
   event has nothing that was known before, so that a fold may add it to what it has.
5. What was known stays: a second cost, or a second latency, changes nothing.
6. Another response that could be taken for the one before it is stored with `is_another`.
"""

from __future__ import annotations

import msgspec

from eventstore.domain.events import ModelResponded
from eventstore.domain.usage import Usage


def response_key(responded: ModelResponded) -> tuple[str | None, str] | None:
    """Return what its provider names a response by, and the provider; None if it has no id."""
    given = responded.response_id
    return None if given is None else (responded.provider, given)


def is_repeat(one: ModelResponded, other: ModelResponded) -> bool:
    """Return whether two events that have an id are of one response, with nothing between them.

    Cost and latency are not compared: the caller tells them, and not the response.
    """
    key = response_key(one)
    return key is not None and key == response_key(other) and tokens_agree(one, other)


def could_be_one(one: ModelResponded, other: ModelResponded) -> bool:
    """Return whether two events are of one response, if nothing was said between them.

    Without an id both their words and their tokens are equal.
    """
    if response_key(one) is None:
        return _of_the_response(one) == _of_the_response(other)
    return is_repeat(one, other)


def another_after(last: ModelResponded | None, responded: ModelResponded) -> ModelResponded:
    """Return a response that is known not to be the `last` one, marked if it could be."""
    if last is None or not is_repeat(last, responded):
        return responded
    return msgspec.structs.replace(responded, is_another=True)


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


def _new_cost(earlier: Usage, later: Usage | None) -> Usage | None:
    if later is None or later.cost is None or earlier.cost is not None:
        return None
    return Usage(cost=later.cost)


def tokens_agree(one: ModelResponded, other: ModelResponded) -> bool:
    """Return whether the tokens of two events are the same, where both name them."""
    ones, others = _tokens(one), _tokens(other)
    return ones is None or others is None or ones == others


def _tokens(responded: ModelResponded) -> Usage | None:
    """Return the tokens of a response; None where it names none."""
    usage = responded.usage
    if usage is None or not usage.total_tokens:
        return None
    return msgspec.structs.replace(usage, cost=None)


def _of_the_response(responded: ModelResponded) -> ModelResponded:
    return msgspec.structs.replace(
        responded, usage=_tokens(responded), latency=None, completes=None, is_another=False
    )
