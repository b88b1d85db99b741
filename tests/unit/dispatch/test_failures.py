"""What a dispatcher records of a failure, and what the model reads of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, get_args

import httpx
import pytest
from msgspec.structs import replace
from support.dispatchers import answers, last, make, raising

from eventstore import (
    Conversation,
    Dispatcher,
    ErrorKind,
    Failed,
    Failure,
    FunctionTool,
    Outcome,
    ProviderError,
    ProviderErrorKind,
    RetryPolicy,
    RunEnded,
    ToolErrorPolicy,
    ToolErrorTerminal,
    ToolFailed,
)
from eventstore.dispatch.failures import TEXTS_BY_KIND
from eventstore.domain.doubt import MAY_HAVE_TAKEN_EFFECT
from projections import model_history
from projections.history.options import Collapse

SECRET = "sk-live-42"  # noqa: S105 - the secret that must not reach the model


def refused(status: int) -> httpx.HTTPStatusError:
    """Return the error of an HTTP client, with a secret in its text."""
    request = httpx.Request("GET", f"https://bank.example/pay?key={SECRET}")
    response = httpx.Response(status, request=request)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    return caught.value


def failure_of(chat: Conversation, call_id: str) -> Failure:
    """Return the failure of a call in the log."""
    status = chat.tools[call_id].status
    assert isinstance(status, Failed)
    return status.failure


# the exception


def test_a_terminal_error_keeps_the_exception_of_the_tool(kind: str, chat: Conversation) -> None:
    """The exception is the cause, with its traceback."""
    error = PermissionError("the key has expired")
    dispatcher = make(kind, chat, {"pay": raising(error)}, policy=ToolErrorPolicy.operator_safe())
    with pytest.raises(ToolErrorTerminal) as caught:
        dispatcher.dispatch([chat.request("pay")])
    assert caught.value.__cause__ is error
    assert error.__traceback__ is not None


def test_a_terminal_failure_that_a_tool_returned_has_no_cause(
    kind: str, chat: Conversation
) -> None:
    """There was no exception."""
    failure = Failure(ErrorKind.QUOTA, "used up")
    dispatcher = make(kind, chat, {"pay": lambda: failure}, policy=ToolErrorPolicy.operator_safe())
    with pytest.raises(ToolErrorTerminal) as caught:
        dispatcher.dispatch([chat.request("pay")])
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("tracebacks", [True, False])
def test_tracebacks_are_kept_on_request(kind: str, chat: Conversation, tracebacks: bool) -> None:
    """Tracebacks name the line that raised."""

    def pay() -> None:
        raise KeyError("balance")

    call = chat.request("pay")
    make(kind, chat, [pay], tracebacks=tracebacks).dispatch([call])
    text = failure_of(chat, call.id).traceback
    assert (text is not None and 'raise KeyError("balance")' in text) == tracebacks
    assert "Traceback" not in answers(chat)[call.id]


# redaction


def test_redaction_comes_before_anything_is_stored(kind: str, chat: Conversation) -> None:
    """The log, the error that is raised and the end of the run have what it returned."""

    def redact(failure: Failure) -> Failure:
        def shown(text: str | None) -> str | None:
            return text and text.replace(SECRET, "***")

        return replace(
            failure,
            message=str(shown(failure.message)),
            model_message=shown(failure.model_message),
            traceback=shown(failure.traceback),
        )

    dispatcher = make(
        kind,
        chat,
        {"pay": raising(refused(403))},
        redact=redact,
        tracebacks=True,
        policy=ToolErrorPolicy.operator_safe(),
    )
    call = chat.request("pay")
    with pytest.raises(ToolErrorTerminal) as caught:
        dispatcher.dispatch([call])
    assert SECRET not in str([recorded.event for recorded in chat.events()])
    assert SECRET not in str(caught.value)
    assert "pay?key=***" in failure_of(chat, call.id).message
    assert last(chat, RunEnded).failure == failure_of(chat, call.id)


@pytest.mark.parametrize("redact", [raising(ValueError("odd")), lambda _: None, lambda _: "text"])
def test_a_broken_redaction_stores_nothing_of_the_failure(
    kind: str, chat: Conversation, redact: Callable[[Any], Any]
) -> None:
    """The attempt is recorded as failed, with its kind alone."""
    call = chat.request("pay")
    make(kind, chat, {"pay": raising(refused(503))}, redact=redact).dispatch([call])
    failure = failure_of(chat, call.id)
    assert failure.kind is ErrorKind.TRANSIENT
    assert failure.message.startswith("the failure is not shown: its redaction ")
    assert answers(chat)[call.id] == TEXTS_BY_KIND[ErrorKind.TRANSIENT]
    assert SECRET not in str(failure)


def test_a_redaction_cannot_hide_that_the_outcome_is_unknown(kind: str, chat: Conversation) -> None:
    """A call that may have taken effect is not run again."""
    tool = FunctionTool(raising(TimeoutError()), "pay", retry=RetryPolicy(3))
    call = chat.request("pay")
    redact = lambda failure: Failure(failure.kind, "hidden")  # noqa: E731
    (done,) = make(kind, chat, [tool], redact=redact).dispatch([call])
    assert (done.attempts, failure_of(chat, call.id)) == (
        1,
        Failure(ErrorKind.TRANSIENT, "hidden", code="timeout", in_doubt=True),
    )


def test_refusals_and_verified_failures_are_redacted_too(kind: str, chat: Conversation) -> None:
    """Arguments that do not parse stand in the message, and so does what `verify` found."""
    redact = lambda failure: replace(failure, message="hidden", model_message="hidden")  # noqa: E731
    tool = FunctionTool(
        raising(TimeoutError()),
        "pay",
        verify=lambda _: Outcome.failed(f"refused: {SECRET}"),
    )
    dispatcher = make(kind, chat, [tool], redact=redact)
    broken, unsure = chat.request("pay", f"{{{SECRET}"), chat.request("pay")
    dispatcher.dispatch([broken, unsure])
    chat.start(chat.request("pay", call_id="crashed").id)
    dispatcher.resume()
    assert failure_of(chat, "crashed").message == "hidden"
    failures = [r.event.failure for r in chat.events() if isinstance(r.event, ToolFailed)]
    assert SECRET not in str(failures)


# the model's text


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai", "openai-responses"])
@pytest.mark.parametrize("status", [401, 404, 429, 503])
def test_the_text_of_an_http_error_stays_with_the_operators(
    kind: str, chat: Conversation, status: int, provider: Any
) -> None:
    """The model reads a sentence for the kind, whatever is tried and however it is rendered."""
    tool = FunctionTool(raising(refused(status)), "pay", retry=RetryPolicy(2))
    call = chat.request("pay")
    (done,) = make(kind, chat, [tool], model_text="kind", tracebacks=True).dispatch([call])
    failure = failure_of(chat, call.id)
    assert SECRET in failure.message
    assert failure.model_text == TEXTS_BY_KIND[failure.kind]
    for collapse in get_args(Collapse):
        shown = model_history(chat.events(), collapse=collapse).render(provider)
        assert SECRET not in str(shown)
        assert failure.model_text in str(shown)
    assert SECRET not in str(done.to_tuple())


def test_texts_for_the_model_are_kept(kind: str, chat: Conversation) -> None:
    """The policy for kinds keeps the texts of exceptions, returned failures and refusals."""
    failure = Failure(ErrorKind.PERMANENT, "closed since May", "the account is closed")
    error = ProviderError(ProviderErrorKind.SERVER_ERROR, f"pod 7 {SECRET}")
    tools = {"a": lambda: failure, "b": raising(error), "c": lambda number: number}
    calls = [chat.request(name) for name in tools]
    make(kind, chat, tools, model_text="kind").dispatch(calls)
    assert list(answers(chat).values()) == [
        "the account is closed",
        "upstream model error",
        "Not executed: `c` is missing argument number. Call it again with other arguments.",
    ]


def test_a_function_gives_the_text_of_every_failure(kind: str, chat: Conversation) -> None:
    """This holds for a failure that has a text for the model, too."""
    failure = Failure(ErrorKind.PERMANENT, "closed since May", "the account is closed")
    tools = {"a": lambda: failure, "b": raising(refused(503)), "c": raising(TimeoutError("late"))}
    calls = [chat.request(name) for name in tools]
    make(kind, chat, tools, model_text=lambda f: f"no: {f.kind}").dispatch(calls)
    assert list(answers(chat).values()) == [
        "no: permanent",
        "no: transient",
        f"no: transient. {MAY_HAVE_TAKEN_EFFECT}",
    ]
    assert failure_of(chat, calls[0].id).message == "closed since May"


@pytest.mark.parametrize("policy", [raising(ValueError("odd")), lambda _: None])
def test_a_broken_function_shows_the_sentence_for_the_kind(
    kind: str, chat: Conversation, policy: Callable[[Any], Any]
) -> None:
    """The library does not fall back to the text for operators."""
    call = chat.request("pay")
    make(kind, chat, {"pay": raising(refused(503))}, model_text=policy).dispatch([call])
    assert answers(chat)[call.id] == TEXTS_BY_KIND[ErrorKind.TRANSIENT]


def test_a_timeout_says_so_to_the_model(kind: str, chat: Conversation) -> None:
    """The raw text names the limit.

    The text for the kind still says that it may have taken effect.
    """

    async def stuck() -> None:
        await asyncio.Event().wait()

    tool = FunctionTool(stuck, timeout=0.01, equal_calls="run")
    texts = []
    for policy in ("raw", "kind"):
        call = chat.request("stuck")
        make(kind, chat, [tool], model_text=policy).dispatch([call])
        texts.append(answers(chat)[call.id])
    assert texts == [
        f"timed out: no result within 0.01 s. {MAY_HAVE_TAKEN_EFFECT}",
        f"{TEXTS_BY_KIND[ErrorKind.TRANSIENT]} {MAY_HAVE_TAKEN_EFFECT}",
    ]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("model_text", "none", "model_text is 'none': pass 'raw', 'kind' or a function"),
        ("redact", "secrets", "redact is 'secrets': pass a function of the Failure, or None"),
    ],
)
def test_an_invalid_option_is_refused(
    chat: Conversation, option: str, value: str, message: str
) -> None:
    """The error names the value and the remedy."""
    with pytest.raises(TypeError, match=message):
        Dispatcher(chat, [], **{option: value})  # type: ignore[arg-type]


# retries


def test_the_default_wait_of_a_provider_does_not_replace_the_backoff(
    kind: str, chat: Conversation
) -> None:
    """The provider gave no hint: the tool's own backoff counts."""
    waits: list[float] = []
    error = ProviderError(ProviderErrorKind.SERVER_ERROR, "busy")
    tool = FunctionTool(raising(error), "ask", retry=RetryPolicy(2, initial_backoff=0.5))
    make(kind, chat, [tool], sleep=waits.append).dispatch([chat.request("ask")])
    assert waits == [0.5]


def test_a_date_in_retry_after_counts_from_the_clock_of_the_dispatcher(
    kind: str, chat: Conversation
) -> None:
    """If the response has no date of its own."""
    waits: list[float] = []
    response = httpx.Response(
        503,
        headers={"Retry-After": "Thu, 01 Jan 1970 00:00:05 GMT"},
        request=httpx.Request("GET", "https://bank.example"),
    )
    error = httpx.HTTPStatusError("busy", request=response.request, response=response)
    tool = FunctionTool(raising(error), "ask", retry=RetryPolicy(2))
    make(kind, chat, [tool], sleep=waits.append).dispatch([chat.request("ask")])
    assert waits == [5.0]


@pytest.mark.parametrize(
    "failure",
    [
        Failure(ErrorKind.INTERNAL, "x", code="config_error"),
        Failure(ErrorKind.INTERNAL, "x", code="awaiting_review"),
        Failure(ErrorKind.VALIDATION, "x"),
    ],
)
def test_a_returned_failure_is_retried_like_the_error_that_it_stands_for(
    kind: str, chat: Conversation, failure: Failure
) -> None:
    """Its code counts as well as its kind."""
    tool = FunctionTool(lambda: failure, "ask", retry=RetryPolicy(3))
    (done,) = make(kind, chat, [tool]).dispatch([chat.request("ask")])
    assert done.attempts == 1
