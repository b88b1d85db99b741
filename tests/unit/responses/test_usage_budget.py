"""Usage limits: counted from the log, checked before a request and after its response."""

from __future__ import annotations

import asyncio
import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Barrier

import pytest

from eventstore import (
    AgentError,
    AsyncEventStore,
    AsyncUsageBudget,
    Conversation,
    ErrorEnvelope,
    Failure,
    ModelResponded,
    Price,
    PriceTable,
    RunStarted,
    Usage,
    UsageBudget,
    UsageLimitBreach,
    UsageLimitExceeded,
    UsageLimits,
    UsageUnknown,
    UsageUnknownWarning,
    classify,
    recording,
)
from eventstore.testing import FrozenClock


def responded(**usage: object) -> ModelResponded:
    """Return a response with this usage."""
    return ModelResponded("openai", usage=Usage(**usage))  # type: ignore[arg-type]


def breach_of(call: Callable[[], None]) -> tuple[str, str, str]:
    """Return the axis, the limit and the observed value of the breach that a check raises."""
    with pytest.raises(UsageLimitExceeded) as raised:
        call()
    breach = raised.value.breach
    return breach.axis, str(breach.limit), str(breach.observed)


def test_a_request_beyond_the_limit_is_refused_before_it_is_made(chat: Conversation) -> None:
    """Ten are allowed; the eleventh is observed as 11."""
    budget = UsageBudget(chat, UsageLimits(requests=10))
    for _ in range(10):
        budget.before_request()
        budget.after_response(responded(input_tokens=1))
    assert breach_of(budget.before_request) == ("requests", "10", "11")


@pytest.mark.parametrize(
    ("limits", "usage", "breach"),
    [
        (UsageLimits(input_tokens=9), {"input_tokens": 10}, ("input_tokens", "9", "10")),
        (UsageLimits(output_tokens=9), {"output_tokens": 10}, ("output_tokens", "9", "10")),
        (
            UsageLimits(total_tokens=9),
            {"input_tokens": 5, "output_tokens": 5},
            ("total_tokens", "9", "10"),
        ),
        (UsageLimits(cost=0.5), {"cost": Decimal("0.51")}, ("cost", "0.5", "0.51")),
    ],
)
def test_a_response_beyond_a_limit_is_recorded_and_raised(
    chat: Conversation, limits: UsageLimits, usage: dict[str, object], breach: tuple[str, str, str]
) -> None:
    """The response and the breach are in the log; a value that is reached is allowed."""
    budget = UsageBudget(chat, limits)
    assert breach_of(lambda: budget.after_response(responded(**usage))) == breach
    assert [recorded.event.tag for recorded in chat.events()] == [
        "model_responded",
        "usage_limit_breach",
    ]
    axis, most, observed = breach
    assert list(chat.events())[-1].event == UsageLimitBreach(axis, Decimal(most), Decimal(observed))


def test_calls_of_the_model_are_counted_from_the_log(chat: Conversation) -> None:
    """Imported calls ran elsewhere and do not count."""
    budget = UsageBudget(chat, UsageLimits(tool_calls=1))
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat.record_messages([{"role": "assistant", "tool_calls": [call]}], provider="openai")
    chat.request("search")
    budget.after_response(responded())
    chat.request("search")
    assert breach_of(lambda: budget.after_response(responded())) == ("tool_calls", "1", "2")


def test_time_is_counted_from_the_start_of_the_run(chat: Conversation, clock: FrozenClock) -> None:
    """The clock is the store's and the budget's."""
    budget = UsageBudget(chat, UsageLimits(seconds=60), clock=clock)
    budget.before_request()  # nothing has begun
    chat.append(RunStarted("a"))
    clock.advance(60.0)
    budget.before_request()
    clock.advance(0.5)
    assert breach_of(budget.before_request) == ("seconds", "60", "60.5")


def test_a_breach_is_recorded_once_for_each_run(chat: Conversation) -> None:
    """The error is raised each time; another run begins with nothing used."""
    limits = UsageLimits(requests=0)
    for _ in range(2):
        chat.append(RunStarted("a"))
        for _ in range(2):  # the second budget is that of another process
            assert breach_of(UsageBudget(chat, limits).before_request) == ("requests", "0", "1")
    tags = [recorded.event.tag for recorded in chat.events()]
    assert tags == ["run_started", "usage_limit_breach"] * 2


def test_a_limit_holds_after_a_restart(chat: Conversation) -> None:
    """The log knows what was used; a response is counted once, by its id."""
    first = ModelResponded("openai", response_id="r1", usage=Usage(input_tokens=5))
    for _ in range(2):
        UsageBudget(chat, UsageLimits()).after_response(first)
    assert chat.version == 1
    used = UsageBudget(chat, UsageLimits()).used
    assert (used.requests, used.usage.total_tokens) == (1, 5)


def test_the_error_is_a_quota_that_programs_can_read() -> None:
    """The error survives JSON and pickle, and the model reads no numbers."""
    error = UsageLimitExceeded(UsageLimitBreach("requests", Decimal(10), Decimal(11)))
    assert str(error) == "usage limit exceeded: requests 11, the limit is 10"
    assert (classify(error), error.retryable) == ("quota", False)
    failure = Failure.from_exception(error)
    assert failure.model_text == "request quota reached"
    assert ErrorEnvelope.of(failure).code == "quota_exceeded"
    for again in (AgentError.decode(error.encode()), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own
        assert isinstance(again, UsageLimitExceeded)
        assert again.breach == error.breach


def test_limits_and_usages_that_make_no_sense_are_refused(chat: Conversation) -> None:
    """The error names the value."""
    refused = [{"requests": -1}, {"requests": 1.5}, {"seconds": "60"}, {"cost": True}]
    for limits in (*refused, {"cost": math.nan}, {"seconds": math.inf}):
        with pytest.raises(ValueError, match="pass a"):
            UsageLimits(**limits)  # type: ignore[arg-type]
    for usage in ({"input_tokens": -1}, {"output_tokens": 1.0}, {"cost": 0.5}):
        with pytest.raises(ValueError, match="pass a"):
            Usage(**usage)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="provider is None"):
        UsageBudget(chat, UsageLimits()).after_response({})


def silent(number: int) -> ModelResponded:
    """Return a response that names no tokens."""
    return ModelResponded("openai", "gpt-5", f"r{number}")


@pytest.mark.parametrize(
    ("axis", "response", "why"),
    [
        ("total_tokens", silent(1), "names no tokens"),
        ("input_tokens", responded(cost=Decimal(1)), "names no tokens"),
        ("input_tokens", responded(output_tokens=5), "names no tokens"),
        ("output_tokens", responded(input_tokens=5), "names no tokens"),
        ("total_tokens", responded(input_tokens=5), "names no tokens"),
        ("total_tokens", responded(output_tokens=5), "names no tokens"),
        ("cost", responded(input_tokens=5), "has no known cost"),
    ],
)
def test_a_limit_that_cannot_be_kept_raises_an_error(
    chat: Conversation, axis: str, response: ModelResponded, why: str
) -> None:
    """At the first such response and before each request, until the response says more."""
    budget = UsageBudget(chat, UsageLimits(**{axis: 100}))  # type: ignore[arg-type]
    UsageBudget(chat, UsageLimits(requests=9)).after_response(response)
    with pytest.raises(UsageUnknown, match=f"the limit of {axis} cannot be kept: .*{why}") as error:
        budget.before_request()
    assert (error.value.axis, error.value.version) == (axis, 1)
    known = Usage(5, 1, cost=Decimal(1)) if axis != "cost" else Usage(cost=Decimal(1))
    chat.append(ModelResponded("openai", usage=known, completes=1))
    budget.before_request()


@pytest.mark.parametrize("odd", [-5, True, "12", 3.5, math.nan, math.inf, -math.inf, {}])
@pytest.mark.parametrize("member", ["prompt_tokens", "completion_tokens"])
def test_a_number_of_tokens_that_counts_nothing_is_unknown(
    chat: Conversation, member: str, odd: object
) -> None:
    """No limit on tokens or cost passes on it; a whole number may be written as a float."""
    chat.session.prices = PriceTable({"gpt-5": Price(input=Decimal(1), output=Decimal(1))})
    limits = UsageLimits(total_tokens=9, cost=Decimal(1), unknown="ignore")
    budget = UsageBudget(chat, limits)
    usage = {"prompt_tokens": 2.0, "completion_tokens": 1}
    for number, given in enumerate((usage, {**usage, member: odd})):
        response = {"id": f"r{number}", "model": "gpt-5", "choices": [], "usage": given}
        budget.after_response(response, "openai")
    used = budget.used
    assert (list(used.unknown_tokens), list(used.unknown_costs)) == ([2], [2])
    assert (used.usage.input_tokens, used.usage.output_tokens) == (2, 1)


def test_the_answer_to_an_unknown_usage_may_be_chosen(chat: Conversation) -> None:
    """A warning names each response once; a stream that broke off is never more than that."""
    warned = UsageBudget(chat, UsageLimits(total_tokens=9, unknown="warn"))
    for number in range(2):
        with pytest.warns(UsageUnknownWarning, match=f"at version {number + 1} names no tokens"):
            warned.after_response(silent(number))
        warned.before_request()
    UsageBudget(chat, UsageLimits(total_tokens=9, unknown="ignore")).before_request()
    other = Conversation(chat.session, "other")
    chunk = {"choices": [{"index": 0, "delta": {"content": "Let me"}}]}
    with recording(iter([chunk]), other, "openai") as stream:
        list(stream)
    budget = UsageBudget(other, UsageLimits(total_tokens=9, requests=1))
    with pytest.raises(UsageLimitExceeded):  # it counts as a request, though it has no id
        budget.before_request()
    with pytest.warns(UsageUnknownWarning, match="broke off before it named its tokens"):
        UsageBudget(other, UsageLimits(total_tokens=9)).before_request()
    with pytest.raises(ValueError, match="unknown is 'no'"):
        UsageLimits(unknown="no")  # type: ignore[arg-type]


def test_budgets_that_meet_a_limit_at_once_record_one_breach(chat: Conversation) -> None:
    """The append decides on the log as it is then, whatever each budget has read."""
    chat.append(silent(1))
    together = Barrier(8)

    def ask(_: int) -> None:
        budget = UsageBudget(Conversation(chat.session, chat.id), UsageLimits(requests=1))
        together.wait(60)
        with pytest.raises(UsageLimitExceeded):
            budget.before_request()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    assert [recorded.event.tag for recorded in chat.events()][1:] == ["usage_limit_breach"]


def test_the_same_holds_with_asyncio() -> None:
    """`AsyncUsageBudget` has the same names, awaited."""

    async def main() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            budget = AsyncUsageBudget(chat, UsageLimits(requests=1))
            await budget.before_request()
            await budget.after_response(responded(input_tokens=3))
            assert (await budget.used()).usage.input_tokens == 3
            for _ in range(2):
                with pytest.raises(UsageLimitExceeded):
                    await budget.before_request()
            tags = [recorded.event.tag async for recorded in chat.events()]
            assert tags == ["model_responded", "usage_limit_breach"]

    asyncio.run(main())
