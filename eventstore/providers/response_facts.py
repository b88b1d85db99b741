"""What a whole response says of itself: id, model, finish reason and usage.

Each adapter declares where its provider writes them (`ResponseMembers`). They are read from the
SDK's object or from its JSON alike; what is not there stays None.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from eventstore.domain.arguments import in_microseconds
from eventstore.domain.events import ModelResponded
from eventstore.domain.usage import Usage
from eventstore.domain.value_paths import Path, values_at
from eventstore.policies.prices import Prices, priced
from eventstore.providers.adapter_protocol import ResponseMembers
from eventstore.providers.detection import request_of
from eventstore.providers.failed_responses import FailedResponse, failure_of
from eventstore.providers.finish_reason import finish_reason_of, text_at
from eventstore.providers.registry import AnyProvider, adapter_of
from eventstore.providers.responses import is_response


def model_responded(
    response: object,
    provider: AnyProvider | None = None,
    *,
    latency: float | None = None,
    cost: Decimal | None = None,
) -> ModelResponded:
    """Return the event of a response; one that is a `ModelResponded` already stays as it is.

    `latency` is in seconds. `cost` is added to the usage, which providers give in tokens.

    Raises:
        ValueError: the provider is missing or not known, or `latency` is not a time.
    """
    if isinstance(response, ModelResponded):
        return response
    if provider is None:
        raise ValueError("provider is None: name the provider whose response this is")
    return _responded(response, provider, failure_of(response, provider), latency, cost)


def _responded(
    response: object,
    provider: AnyProvider,
    failed: FailedResponse | None,
    latency: float | None,
    cost: Decimal | None = None,
) -> ModelResponded:
    microseconds = in_microseconds("latency", latency)
    members = adapter_of(provider).response_members
    usage = _usage(response, members)
    if cost is not None:
        usage = msgspec.structs.replace(usage or Usage(), cost=cost)
    return ModelResponded(
        provider=provider,
        model=text_at(response, members.model),
        response_id=text_at(response, members.response_id if failed is None else _ids(members)),
        finish_reason=failed.reason if failed else finish_reason_of(response, provider),
        usage=usage,
        latency=microseconds,
        failed=failed is not None and not failed.says_something,
    )


def stated_facts(
    response: object,
    provider: AnyProvider,
    prices: Prices | None = None,
    latency: float | None = None,
    *,
    failed: FailedResponse | None = None,
) -> ModelResponded | None:
    """Return the event of a whole response: one that says its usage, its model or its id.

    `failed` is what `failure_of` says of it.

    None of a message, an item or a request, which may have a model or an id, too; unless the caller
    knows its `latency`.

    Raises:
        ValueError: `latency` is not a time in seconds.
    """
    if isinstance(response, ModelResponded):
        responded = priced(response, prices)
    else:
        responded = priced(_responded(response, provider, failed, latency), prices)
    if responded.latency is not None or failed is not None:
        return responded
    if request_of(response) is not None:
        return None
    is_named = responded.model is not None or responded.response_id is not None
    is_whole = responded.usage is not None or (is_named and is_response(response))
    return responded if is_whole else None


def _ids(members: ResponseMembers) -> tuple[Path, ...]:
    """Return where a response that failed names itself; an error names its request."""
    return (*members.response_id, ("request_id",), ("requestId",))


def _usage(response: object, members: ResponseMembers) -> Usage | None:
    numbers = (members.input, members.output, members.cached, members.reasoning)
    return Usage.stated(*(_all_at(response, paths) for paths in numbers))


def _all_at(response: object, paths: tuple[Path, ...]) -> list[object]:
    return [value for path in paths for value in values_at(response, path)]
