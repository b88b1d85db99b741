"""katu-core: the agent's errors, provider causes, delays, the tool executor."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.dispatchers import awaited

from eventstore import (
    AgentError,
    AuthErrorKind,
    Cancelled,
    ConfigError,
    ContextOverflow,
    Conversation,
    ErrorKind,
    Failed,
    Failure,
    InternalError,
    ProviderError,
    ProviderErrorKind,
    RetryPolicy,
    Tool,
    ToolError,
    ToolErrorPolicy,
    ToolErrorTerminal,
    ToolFailed,
    ToolRunning,
    classify,
)
from eventstore.dispatch import AsyncDispatcher, Dispatcher, FunctionTool, Reject
from projections import resume_plan

KIND = ProviderErrorKind


def provider(kind: ProviderErrorKind, **more: Any) -> ProviderError:
    """Return an error of this kind."""
    return ProviderError(kind, "m", **more)


# --- error.rs


def test_tool_construction() -> None:
    """The error has its fields, and no cause."""
    error = ToolError("bash", "call_1", "permission denied")
    assert (error.name, error.call_id, error.message) == ("bash", "call_1", "permission denied")
    assert error.__cause__ is None


def test_tool_construction_with_source() -> None:
    """The cause is chained to the error."""
    cause = OSError("no such file")
    assert ToolError("bash", "call_1", "failed", cause=cause).__cause__ is cause


def test_provider_construction() -> None:
    """The error has its cause, and a suggestion for the user."""
    error = provider(KIND.AUTHENTICATION, suggestion="run /login")
    assert (error.kind, error.suggestion) == (KIND.AUTHENTICATION, "run /login")
    assert "/login" not in str(error)


def test_cancelled_is_not_retryable_and_has_no_delay() -> None:
    """The request was ended on purpose."""
    assert (Cancelled().retryable, Cancelled().retry_after) == (False, None)


def test_overflow_text() -> None:
    """The text has the used tokens and the limit."""
    assert str(ContextOverflow(130000, 128000)) == "context overflow: 130000/128000 tokens"


def test_config_text_contains_the_message() -> None:
    """Operators need the message."""
    assert str(ConfigError("no model")) == "config error: no model"


@pytest.mark.parametrize(
    ("error", "retryable", "delay"),
    [
        pytest.param(provider(KIND.RATE_LIMIT, retry_after=60), True, 60, id="RateLimit 60 s"),
        pytest.param(provider(KIND.RATE_LIMIT), True, 30, id="RateLimit none"),
        pytest.param(provider(KIND.SERVER_ERROR, status=500), True, 20, id="ServerError none"),
        pytest.param(provider(KIND.AUTHENTICATION), False, None, id="Authentication"),
        pytest.param(provider(KIND.QUOTA_EXCEEDED), False, None, id="QuotaExceeded"),
        pytest.param(provider(KIND.INVALID_REQUEST), False, None, id="InvalidRequest"),
        pytest.param(provider(KIND.CONTENT_FILTERED), False, None, id="ContentFiltered"),
        pytest.param(provider(KIND.INVALID_RESPONSE), False, None, id="InvalidResponse"),
        pytest.param(provider(KIND.UNKNOWN), False, None, id="Unknown"),
        pytest.param(provider(KIND.RATE_LIMIT, retry_after=0), True, 0, id="a given zero is kept"),
    ],
)
def test_retryable_and_delay(error: AgentError, retryable: bool, delay: float | None) -> None:
    """The cause decides; the provider's hint is used before the default."""
    assert (error.retryable, error.retry_after) == (retryable, delay)


def test_transport() -> None:
    """There it is not retryable.

    Here it is: a model request has no side effect.
    """
    error = provider(KIND.TRANSPORT)
    assert (error.retryable, error.retry_after) == (True, None)


@pytest.mark.parametrize(
    ("error", "stored"),
    [
        (
            provider(KIND.RATE_LIMIT, retry_after=5.0),
            b'{"RateLimit":{"message":"m","retry_after":5000}}',
        ),
        (
            provider(KIND.SERVER_ERROR, status=529),
            b'{"ServerError":{"message":"m","status":529,"retry_after":null}}',
        ),
        *(
            (
                provider(KIND.AUTHENTICATION, auth=auth),
                b'{"Authentication":{"message":"m","kind":"%s"}}' % auth.encode(),
            )
            for auth in AuthErrorKind
        ),
    ],
)
def test_round_trips(error: ProviderError, stored: bytes) -> None:
    """Errors are tagged by the name of the cause; durations are whole milliseconds or null."""
    assert error.encode() == b'{"type":"provider","kind":' + stored + b"}"
    again = AgentError.decode(error.encode())
    assert isinstance(again, ProviderError)
    assert (again.kind, again.auth, again.status, again.retry_after, str(again)) == (
        error.kind,
        error.auth,
        error.status,
        error.retry_after,
        str(error),
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (AuthErrorKind.MISSING, "missing"),
        (AuthErrorKind.INVALID, "invalid"),
        (AuthErrorKind.EXPIRED, "expired"),
        (AuthErrorKind.INSUFFICIENT_PERMISSIONS, "insufficient_permissions"),
        (AuthErrorKind.UNKNOWN, "unknown"),
    ],
)
def test_auth_texts(kind: AuthErrorKind, text: str) -> None:
    """The text is the word itself, or follows the message."""
    assert str(kind) == text
    error = provider(KIND.AUTHENTICATION, auth=kind)
    assert str(error) == f"provider error: authentication failed: m ({text})"


def test_an_error_delegates_to_its_cause() -> None:
    """An `AgentError` has the facts of its cause."""
    limited: AgentError = provider(KIND.RATE_LIMIT, retry_after=10)
    assert (limited.retryable, limited.retry_after) == (True, 10)
    refused: AgentError = provider(KIND.AUTHENTICATION)
    assert (refused.retryable, refused.retry_after) == (False, None)


@pytest.mark.parametrize(
    "error",
    [Cancelled(), ConfigError("m"), ContextOverflow(2, 1), ToolError("f", "1", "m")],
    ids=lambda error: type(error).__name__,
)
def test_the_others_are_not_retryable(error: AgentError) -> None:
    """Asking the provider again would not help."""
    assert (error.retryable, error.retry_after) == (False, None)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ToolError("bash", "1", "permission denied"),
            "tool `bash` failed: permission denied",
        ),
        (
            ProviderError(KIND.TRANSPORT, "connection reset"),
            "provider error: transport error: connection reset",
        ),
        (provider(KIND.RATE_LIMIT), "provider error: rate limited: m"),
        (provider(KIND.QUOTA_EXCEEDED), "provider error: quota exceeded: m"),
        (provider(KIND.INVALID_REQUEST), "provider error: invalid request: m"),
        (provider(KIND.CONTENT_FILTERED), "provider error: content filtered: m"),
        (
            provider(KIND.SERVER_ERROR, status=500),
            "provider error: provider internal error (500): m",
        ),
        (provider(KIND.SERVER_ERROR), "provider error: provider internal error: m"),
        (provider(KIND.INVALID_RESPONSE), "provider error: invalid response: m"),
        (provider(KIND.UNKNOWN), "provider error: unknown provider error: m"),
        (Cancelled(), "cancelled"),
        (InternalError(ValueError("odd")), "odd"),
    ],
)
def test_texts(error: AgentError, text: str) -> None:
    """Each error has its text for operators."""
    assert str(error) == text


@pytest.mark.parametrize(
    ("status", "hint", "kind", "auth"),
    [
        (401, None, KIND.AUTHENTICATION, AuthErrorKind.INVALID),
        (403, None, KIND.AUTHENTICATION, AuthErrorKind.INSUFFICIENT_PERMISSIONS),
        (429, 7, KIND.RATE_LIMIT, None),
        (429, None, KIND.QUOTA_EXCEEDED, None),
        (400, None, KIND.INVALID_REQUEST, None),
        (422, None, KIND.INVALID_REQUEST, None),
        (500, None, KIND.SERVER_ERROR, None),
        (599, 7, KIND.SERVER_ERROR, None),
        (404, None, KIND.UNKNOWN, None),
        (418, None, KIND.UNKNOWN, None),
        (408, None, KIND.TRANSPORT, None),
        (425, None, KIND.TRANSPORT, None),
    ],
)
def test_http_mapping(
    status: int, hint: float | None, kind: ProviderErrorKind, auth: AuthErrorKind | None
) -> None:
    """There 429 is always a rate limit, 408 and 425 unknown. Here one table.

    A bare 429 is a quota, and what the table calls transient is retryable.
    """
    error = ProviderError.from_http_status(status, "m", retry_after=hint)
    assert (error.kind, error.auth, error.status) == (kind, auth, status)
    assert error.retryable == ErrorKind.from_http_status(status, hint).is_retryable


# --- retry.rs: their three retries are four attempts here, for the first one counts

SAME = RetryPolicy(max_attempts=4, initial_backoff=1, max_backoff=60)


@pytest.mark.parametrize("status", [302, 600])
def test_defect_a_status_that_is_no_answer_of_the_api(status: int) -> None:
    """`Unknown` there; here entelix is followed, to whom it is transient."""
    error = ProviderError.from_http_status(status, "m")
    assert (error.kind, error.retryable) == (KIND.TRANSPORT, True)


def test_defect_a_hint_of_part_of_a_millisecond() -> None:
    """Cut off there, to 1.0; here it is rounded to the nearest one."""
    error = AgentError.decode(provider(KIND.RATE_LIMIT, retry_after=1.0009).encode())
    assert error.retry_after == 1.001


def test_retry_defaults() -> None:
    """There each default can be set; ours are the presets of entelix."""
    assert [SAME.delay(attempt) for attempt in range(1, 5)] == [1, 2, 4, None]
    assert RetryPolicy() == RetryPolicy(3, 0.2, 30)


def test_retry_disabled() -> None:
    """A disabled policy has one attempt."""
    assert RetryPolicy(1).max_attempts == 1


def test_retry_builder() -> None:
    """Options that are not set have their defaults."""
    assert RetryPolicy(max_attempts=9) == RetryPolicy(9, 0.2, 30)


def test_retry_fresh_state() -> None:
    """A policy has no state, so the first attempt is always the first."""
    assert SAME.delay(1) == 1


def test_retry_disabled_gives_none() -> None:
    """No hint leads to a second attempt."""
    assert RetryPolicy(1).delay(1) is None
    assert RetryPolicy(1).delay(1, 5.0) is None


def test_retry_two_then_none() -> None:
    """Two retries are made, and no third."""
    policy = RetryPolicy(3)
    assert [policy.delay(attempt) is None for attempt in (1, 2, 3)] == [False, False, True]


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_retry_first_delay(chance: float) -> None:
    """There it is half of the base or more.

    Here full jitter is used, from a tenth of 2 s to all of it.
    """
    delay = RetryPolicy(3, 2).delay(1, None, chance)
    assert delay is not None
    assert 0.2 <= delay <= 2


def test_retry_growth() -> None:
    """Each wait is at most twice as long as the one before."""
    policy = RetryPolicy(20, 1, 10**6)
    for attempt in range(1, 20):
        delay = policy.delay(attempt)
        assert delay is not None
        assert delay <= 2 ** (attempt - 1)


def test_retry_cap() -> None:
    """No wait is longer than the cap."""
    assert RetryPolicy(20, 1, 5).delay(19) == 5


def test_retry_hint() -> None:
    """The wait is not shorter than the provider asked for."""
    assert SAME.delay(1, 10.0, 0.0) == 10


def test_retry_hint_is_capped() -> None:
    """A longer hint becomes exactly the cap."""
    assert RetryPolicy(4, 1, 30).delay(1, 120.0) == 30


def test_retry_reset() -> None:
    """A policy has nothing to reset: the same arguments give the same answer."""
    assert [SAME.delay(attempt) for attempt in (3, 1)] == [4, 1]


def test_retry_many_steps_do_not_overflow() -> None:
    """A million steps do not overflow either."""
    assert RetryPolicy(10**7, 1, 60).delay(36) == 60
    assert RetryPolicy(10**7, 1, 60).delay(10**6) == 60


# --- tool_executor.rs


def echo(text: str = "") -> str:
    """Return the argument."""
    return text


def fail() -> None:
    """Fail."""
    raise RuntimeError("disk full")


def answers(tools: list[Tool]) -> list[Any]:
    """Return the answer of each call, None for an open one."""
    return [response and response.result for _, response in (tool.to_tuple() for tool in tools)]


def tags(chat: Conversation) -> list[str]:
    """Return the tags of the events after the calls were made, in order."""
    return [r.event.tag for r in chat.events() if r.event.tag != "pending"]


def test_executor_one_echo(chat: Conversation) -> None:
    """The call is recorded as started, then as succeeded."""
    tools = Dispatcher(chat, [echo]).dispatch([chat.request("echo", {"text": "hi"})])
    assert answers(tools) == ["hi"]
    assert tags(chat) == ["running", "completed"]


def test_executor_unknown_tool(chat: Conversation) -> None:
    """The call has an error result and never started."""
    tools = Dispatcher(chat, [echo]).dispatch([chat.request("nope")])
    assert "Tool `nope` not found" in answers(tools)[0]["error"]
    assert tags(chat) == ["failed"]


def test_executor_failing_tool(chat: Conversation) -> None:
    """The error result has the tool's own text."""
    tools = Dispatcher(chat, [fail]).dispatch([chat.request("fail")])
    assert answers(tools) == [{"error": "disk full"}]


def test_executor_three_shared_results_in_order(chat: Conversation) -> None:
    """The calls run concurrently, and the results are in call order."""
    together = threading.Barrier(3)

    def shared(text: str) -> str:
        together.wait(30)
        return text

    spec = FunctionTool(shared, parallel=True)
    calls = [chat.request("shared", {"text": text}) for text in "abc"]
    assert answers(Dispatcher(chat, [spec]).dispatch(calls)) == ["a", "b", "c"]


def test_executor_shared_exclusive_shared(chat: Conversation) -> None:
    """An exclusive call runs alone, between the others, in call order."""
    order: list[str] = []

    def note(text: str) -> str:
        order.append(text)
        return text

    tools = [FunctionTool(note, "shared", parallel=True), FunctionTool(note, "exclusive")]
    names = ["shared", "exclusive", "shared"]
    calls = [chat.request(name, {"text": str(n)}) for n, name in enumerate(names)]
    assert answers(Dispatcher(chat, tools).dispatch(calls)) == ["0", "1", "2"]
    assert order == ["0", "1", "2"]


def test_executor_pre_cancelled(chat: Conversation) -> None:
    """Nothing runs, and every call has its answer."""
    calls = [chat.request("echo", {"text": text}) for text in "ab"]

    async def main() -> None:
        task = asyncio.ensure_future(AsyncDispatcher(awaited(chat), [echo]).dispatch(calls))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert tags(chat) == ["rejected", "rejected"]
    assert all("error" in answer for answer in answers(list(chat.tools.values())))


def test_executor_rule_denial(chat: Conversation) -> None:
    """A refusal by the tool's own check is an error result."""
    rule = Reject("denied by rule for 'echo'", source="rule")
    spec = FunctionTool(echo, needs_approval=True)
    tools = Dispatcher(chat, [spec], approver=lambda tool: rule).dispatch([chat.request("echo")])
    assert "denied by rule" in answers(tools)[0]["error"]
    assert tags(chat) == ["rejected"]


def test_executor_hook_denial(chat: Conversation) -> None:
    """A rejection by a hook is an error result, too."""
    hooks = [lambda tool: Reject("not now")]
    tools = Dispatcher(chat, [echo], hooks=hooks).dispatch([chat.request("echo")])
    assert "not now" in answers(tools)[0]["error"]
    assert tags(chat) == ["rejected"]


def test_executor_no_calls(chat: Conversation) -> None:
    """An empty turn does nothing."""
    assert Dispatcher(chat, [echo]).dispatch([]) == []
    assert tags(chat) == []


# --- katu-agent/error.rs: what the loop does with an error


@pytest.mark.parametrize(
    ("error", "kind", "asks_again"),
    [
        pytest.param(ConfigError("m"), ErrorKind.INTERNAL, False, id="build is fatal"),
        pytest.param(InternalError("m"), ErrorKind.INTERNAL, False, id="internal is fatal"),
        pytest.param(Cancelled(), ErrorKind.INTERNAL, False, id="cancelled ends normally"),
        pytest.param(provider(KIND.SERVER_ERROR), ErrorKind.TRANSIENT, True, id="server"),
        pytest.param(provider(KIND.RATE_LIMIT), ErrorKind.RATE_LIMIT, True, id="rate limit"),
        pytest.param(provider(KIND.TRANSPORT), ErrorKind.TRANSIENT, True, id="transport"),
        pytest.param(provider(KIND.AUTHENTICATION), ErrorKind.AUTH, False, id="authentication"),
        pytest.param(provider(KIND.QUOTA_EXCEEDED), ErrorKind.QUOTA, False, id="quota"),
        pytest.param(provider(KIND.CONTENT_FILTERED), ErrorKind.PERMANENT, False, id="filtered"),
        pytest.param(ToolError("f", "1", "m"), ErrorKind.INTERNAL, False, id="tool"),
    ],
)
def test_the_loop_asks_again_or_ends(error: AgentError, kind: ErrorKind, asks_again: bool) -> None:
    """`retryable` decides, and the failure keeps the text and the kind."""
    assert (error.retryable, classify(error)) == (asks_again, kind)
    failure = Failure.from_exception(error)
    assert (failure.message, failure.kind) == (str(error), kind)


def test_a_tool_error_never_gets_into_the_loop(chat: Conversation) -> None:
    """There it would be fatal. Here one call has failed, and only a policy ends the run."""

    def search() -> None:
        raise ToolError("search", "1", "no index")

    tools = Dispatcher(chat, [search]).dispatch([chat.request("search")])
    assert answers(tools) == [{"error": "tool `search` failed: no index"}]
    policy = ToolErrorPolicy.new().add_terminal_kind(ErrorKind.INTERNAL)
    with pytest.raises(ToolErrorTerminal, match="no index"):
        Dispatcher(chat, [search], policy=policy).dispatch([chat.request("search")])


# --- defects


def test_defect_the_provider_s_hint_never_reaches_the_retries(chat: Conversation) -> None:
    """Here the hint decides the wait, and the log has it."""
    waits: list[float] = []
    ends = iter([provider(KIND.RATE_LIMIT, retry_after=12), None])

    def ask() -> str:
        if error := next(ends):
            raise error
        return "ok"

    spec = FunctionTool(ask, retry=RetryPolicy())
    tools = Dispatcher(chat, [spec], sleep=waits.append).dispatch([chat.request("ask")])
    assert (answers(tools), waits) == (["ok"], [12])
    (failed,) = [r.event for r in chat.events() if isinstance(r.event, ToolFailed)]
    assert (failed.delay, failed.failure.retry_after) == (12_000_000, 12)


def test_defect_asking_for_permission_is_a_denial(chat: Conversation) -> None:
    """Here it is a pause: the call waits, and runs after a person has approved it."""
    dispatcher = Dispatcher(chat, [FunctionTool(echo, needs_approval=True)])
    (tool,) = dispatcher.dispatch([chat.request("echo", {"text": "hi"})])
    assert tool.is_pending
    assert answers(dispatcher.dispatch([chat.approve(tool.id)])) == ["hi"]


def test_defect_a_panic_is_reported_as_a_cancellation(chat: Conversation) -> None:
    """Here each has its own code, and only one may have taken effect."""

    class Panic(BaseException):
        """An exception that no tool should raise."""

    def panic() -> None:
        raise Panic("bug")

    def stop() -> None:
        raise asyncio.CancelledError

    for tool in (panic, stop):
        call = chat.request(tool.__name__)
        try:
            Dispatcher(chat, [tool]).dispatch([call])
        except Panic:
            continue
    codes = {}
    for tool in chat.tools.values():
        assert isinstance(tool.status, Failed)
        codes[tool.call.name] = tool.status.failure.code
    assert codes == {"panic": None, "stop": "cancelled"}
    assert [step.tool.call.name for step in resume_plan(chat.events()).unknown] == ["stop"]
    assert sum(isinstance(r.event, ToolRunning) for r in chat.events()) == 2
