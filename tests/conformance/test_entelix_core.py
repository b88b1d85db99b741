"""entelix-core: error kinds, retries, the terminal policy, the text for each reader."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from support.dispatchers import awaited

from eventstore import (
    AgentError,
    AuthErrorKind,
    Cancelled,
    ConfigError,
    Conversation,
    DefaultRetryClassifier,
    ErrorEnvelope,
    ErrorKind,
    ErrorKindSet,
    Failed,
    Failure,
    ModelResponded,
    ModelRetry,
    NonResolvedToolError,
    ProviderError,
    ProviderErrorKind,
    RetryClass,
    RetryPolicy,
    Tool,
    ToolCompleted,
    ToolEffect,
    ToolErrorPolicy,
    ToolErrorTerminal,
    Usage,
    UsageBudget,
    UsageLimitExceeded,
    UsageLimits,
    classify,
    validate,
)
from eventstore.dispatch import AsyncDispatcher, Dispatcher, FunctionTool, Toolbox
from projections import error_statistics, model_history, usage_statistics, why

TRANSIENT, RATE_LIMIT, QUOTA, AUTH, PERMANENT, VALIDATION, INTERNAL = ErrorKind
DEFAULT = DefaultRetryClassifier()


class HttpError(Exception):
    """The exception of an HTTP client for a status."""

    def __init__(self, status_code: int, retry_after: int | None = None) -> None:
        super().__init__(f"provider returned {status_code}")
        self.status_code = status_code
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}


def json_error() -> Exception:
    """Return the exception of broken JSON."""
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    return caught.value


# --- error_kind.rs


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(ConnectionResetError("reset"), TRANSIENT, id="network"),
        pytest.param(socket.gaierror("unknown"), TRANSIENT, id="dns"),
        pytest.param(ssl.SSLError("handshake"), TRANSIENT, id="tls"),
        pytest.param(HttpError(503), TRANSIENT, id="503"),
        pytest.param(HttpError(502), TRANSIENT, id="502"),
        pytest.param(HttpError(408), TRANSIENT, id="408"),
        pytest.param(HttpError(425), TRANSIENT, id="425"),
        pytest.param(HttpError(429, 5), RATE_LIMIT, id="429-with-hint"),
        pytest.param(HttpError(429), QUOTA, id="429-bare"),
        pytest.param(HttpError(401), AUTH, id="401"),
        pytest.param(HttpError(403), AUTH, id="403"),
        pytest.param(HttpError(404), PERMANENT, id="404"),
        pytest.param(HttpError(422), PERMANENT, id="422"),
        pytest.param(
            ProviderError(ProviderErrorKind.INVALID_REQUEST, "m"), VALIDATION, id="invalid_request"
        ),
        pytest.param(json_error(), VALIDATION, id="json"),
        pytest.param(ConfigError("m"), INTERNAL, id="config"),
        pytest.param(
            ProviderError(ProviderErrorKind.QUOTA_EXCEEDED, "requests 10/11"), QUOTA, id="usage"
        ),
        pytest.param(Cancelled(), INTERNAL, id="cancelled"),
    ],
)
def test_each_error_has_its_kind(error: Exception, kind: ErrorKind) -> None:
    """Transient and rate limit are retryable, the others are not."""
    assert classify(error) is kind
    assert kind.is_retryable == (kind in (TRANSIENT, RATE_LIMIT))


@pytest.mark.parametrize("status", [0, 100, 200, 302, 399, 600, 999])
def test_a_status_that_is_no_error_was_no_terminal_response(status: int) -> None:
    """Such a status is transient."""
    assert ErrorKind.from_http_status(status) is TRANSIENT


def test_every_bit_of_a_kind_set_is_unique_and_fits() -> None:
    """Each kind has one fixed bit in one byte."""
    bits = [ErrorKindSet.singleton(kind).bits for kind in ErrorKind]
    assert bits == [1, 2, 4, 8, 16, 32, 64]


# --- retry_tool_layer.rs


class Tries:
    """A tool that ends in these ways in turn; the last one repeats."""

    def __init__(self, *ends: Exception | str) -> None:
        self.ends = ends
        self.calls = 0

    def __call__(self) -> str:
        """End in the next way."""
        end = self.ends[min(self.calls, len(self.ends) - 1)]
        self.calls += 1
        if isinstance(end, Exception):
            raise end
        return end


def ran(
    chat: Conversation, tool: Callable[[], Any], retry: RetryPolicy | None = None, **options: Any
) -> tuple[Tool, list[float]]:
    """Return the call after it was dispatched, and the waits in between."""
    waits: list[float] = []
    spec = FunctionTool(tool, "fetch", retry=retry)
    dispatcher = Dispatcher(chat, [spec], sleep=waits.append, chance=lambda: 1.0, **options)
    (called,) = dispatcher.dispatch([chat.request("fetch")])
    return called, waits


def test_no_hint_runs_once(chat: Conversation) -> None:
    """Without a policy of its own a tool is run once, whatever the error."""
    tries = Tries(HttpError(503))
    tool, waits = ran(chat, tries)
    assert (tries.calls, waits, tool.status.name) == (1, [], "Failed")


def test_a_hint_of_five_recovers_at_the_third_call(chat: Conversation) -> None:
    """Two transient failures are followed by the answer."""
    tries = Tries(HttpError(503), HttpError(503), "ok")
    tool, waits = ran(chat, tries, RetryPolicy(5, 0.2))
    assert (tries.calls, waits) == (3, [0.2, 0.4])
    assert tool.response is not None
    assert tool.response.result == "ok"


def test_a_hint_of_two_gives_up_after_two(chat: Conversation) -> None:
    """The last error is recorded."""
    tries = Tries(HttpError(503))
    tool, waits = ran(chat, tries, RetryPolicy(2, 0.2))
    assert (tries.calls, len(waits), tool.attempts, tool.status.name) == (2, 1, 2, "Failed")


def test_a_400_is_not_tried_again(chat: Conversation) -> None:
    """The classifier says that it is permanent."""
    tries = Tries(HttpError(400))
    ran(chat, tries, RetryPolicy(5, 0.2))
    assert tries.calls == 1


def test_a_cancel_during_the_backoff_ends_the_wait(chat: Conversation) -> None:
    """The wait ends at once, and no other attempt is made."""
    tries = Tries(HttpError(503))

    async def main() -> None:
        waiting = asyncio.Event()

        async def sleep(seconds: float) -> None:
            assert seconds == 60
            waiting.set()
            await asyncio.Event().wait()  # for ever

        spec = FunctionTool(tries, "fetch", retry=RetryPolicy(5, 60, 60))
        dispatcher = AsyncDispatcher(awaited(chat), [spec], sleep=sleep, chance=lambda: 1.0)
        task = asyncio.ensure_future(dispatcher.dispatch([chat.request("fetch")]))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    (tool,) = chat.tools.values()
    assert (tries.calls, tool.attempts, tool.status.name) == (1, 1, "Failed")


def test_a_vendor_s_hint_is_waited_for_up_to_the_cap(chat: Conversation) -> None:
    """There jitter is added to the cap; here no wait is longer than the cap."""
    tries = Tries(HttpError(429, 7), HttpError(429, 100), "ok")
    _, waits = ran(chat, tries, RetryPolicy(5, 0.2, 30))
    assert waits == [7, 30]


# --- effect.rs


def test_default_effect() -> None:
    """There it is read-only.

    Here there is none, and nothing is assumed: the tool runs alone and never twice.
    """
    spec = FunctionTool(str)
    assert spec.effect is None
    assert (spec.parallel, spec.idempotent, spec.retry, spec.needs_approval) == (
        False,
        False,
        None,
        False,
    )


@pytest.mark.parametrize(
    ("spec", "status", "reruns"),
    [
        pytest.param(
            FunctionTool(lambda: "r", "t", effect="read_only"),
            "Completed",
            True,
            id="read_only",
        ),
        pytest.param(
            FunctionTool(lambda: "m", "t", effect="mutating"), "Completed", False, id="mutating"
        ),
        pytest.param(
            FunctionTool(lambda: "d", "t", effect="destructive"),
            "Pending",
            False,
            id="destructive",
        ),
    ],
)
def test_effects_drive_approval_and_what_may_run_again(
    chat: Conversation, spec: FunctionTool, status: str, reruns: bool
) -> None:
    """The destructive tool waits for a person; only the read may run after an unknown outcome."""
    dispatcher = Dispatcher(chat, [spec])
    (tool,) = dispatcher.dispatch([chat.request("t")])
    assert tool.status.name == status
    crashed = chat.request("t", {}, "crashed")
    chat.start(crashed.id)
    dispatcher.resume()
    assert (chat.tools["crashed"].status.name == "Completed") == reruns


def test_effect_wire_names() -> None:
    """Effects have the names of entelix, and JSON gives them back."""
    assert msgspec.json.encode(list(ToolEffect)) == b'["read_only","mutating","destructive"]'
    assert msgspec.json.decode(b'"mutating"', type=ToolEffect) is ToolEffect.MUTATING


def test_effect_preset() -> None:
    """There are three attempts from 200 ms up to half a minute."""
    assert RetryPolicy() == RetryPolicy(max_attempts=3, initial_backoff=0.2, max_backoff=30)


def test_effect_round_trip() -> None:
    """A policy that is written as JSON reads back equal."""
    data = msgspec.json.encode(RetryPolicy())
    assert data == b'{"max_attempts":3,"initial_backoff":0.2,"max_backoff":30.0}'
    assert msgspec.json.decode(data, type=RetryPolicy) == RetryPolicy()


def test_effect_zero_attempts() -> None:
    """The first attempt counts, so zero is invalid."""
    with pytest.raises(ValueError, match="max_attempts is 0"):
        RetryPolicy(0)


# --- error_wire_code.rs and section 3.2: three views of one error

_UPSTREAM = "upstream model error"


@pytest.mark.parametrize(
    ("error", "code", "error_class", "reported", "status"),
    [
        pytest.param(
            ProviderError(ProviderErrorKind.INVALID_REQUEST, "too many tools"),
            "invalid_request",
            "client",
            "invalid input: too many tools",
            None,
            id="InvalidRequest",
        ),
        pytest.param(
            ConfigError("no key"), "config_error", "server", "tool misconfigured", None, id="Config"
        ),
        pytest.param(
            ProviderError(ProviderErrorKind.TRANSPORT, "m"),
            "transport_failure",
            "server",
            _UPSTREAM,
            None,
            id="Network",
        ),
        pytest.param(
            ProviderError(ProviderErrorKind.TRANSPORT, "m", cause=ssl.SSLError()),
            "tls_failure",
            "server",
            _UPSTREAM,
            None,
            id="Tls",
        ),
        pytest.param(
            ProviderError(ProviderErrorKind.TRANSPORT, "m", cause=socket.gaierror()),
            "dns_failure",
            "server",
            _UPSTREAM,
            None,
            id="Dns",
        ),
        *(
            pytest.param(
                ProviderError.from_http_status(status, "m"),
                code,
                error_class,
                _UPSTREAM,
                status,
                id=f"Http {status}",
            )
            for status, code, error_class in [
                (429, "rate_limited", "client"),
                (401, "upstream_unauthorized", "client"),
                (403, "upstream_unauthorized", "client"),
                (400, "upstream_invalid", "client"),
                (404, "upstream_invalid", "client"),
                (500, "upstream_unavailable", "server"),
                (503, "upstream_unavailable", "server"),
            ]
        ),
        pytest.param(
            ProviderError(ProviderErrorKind.UNKNOWN, "m"),
            "upstream_error",
            "server",
            _UPSTREAM,
            None,
            id="Http outside, hand-built",
        ),
        pytest.param(
            ProviderError(ProviderErrorKind.AUTHENTICATION, "m", auth=AuthErrorKind.EXPIRED),
            "auth_failed",
            "client",
            "authentication failed",
            None,
            id="Auth",
        ),
        pytest.param(Cancelled(), "cancelled", "client", "cancelled", None, id="Cancelled"),
        pytest.param(
            ProviderError(ProviderErrorKind.QUOTA_EXCEEDED, "m"),
            "quota_exceeded",
            "client",
            "request quota reached",
            None,
            id="UsageLimitExceeded",
        ),
    ],
)
def test_every_error_has_a_code_a_class_and_a_text_for_the_model(
    error: AgentError, code: str, error_class: str, reported: str, status: int | None
) -> None:
    """The text for operators never reaches the model."""
    failure = Failure.from_exception(error)
    envelope = ErrorEnvelope.of(failure)
    assert (envelope.code, envelope.error_class) == (code, error_class)
    assert envelope.provider_status == status
    assert failure.model_text == reported
    assert failure.message == str(error) != reported or isinstance(error, Cancelled)


def test_a_deadline_exceeded_says_so(chat: Conversation) -> None:
    """The model reads the tool's own time limit, and that the outcome is unknown."""
    tool = chat.request("slow")
    chat.start(tool.id)
    status: Any = chat.fail(tool.id, TimeoutError("no result within 5 s")).status
    envelope = ErrorEnvelope.of(status.failure)
    assert (envelope.code, envelope.error_class) == ("deadline_exceeded", "server")


def test_a_dispatch_interrupted_for_review_is_no_error(chat: Conversation) -> None:
    """There it is an error that must not reach the classifier.

    Here the call is open, and says so.
    """
    toolbox = Toolbox([FunctionTool(lambda: 1, "pay", needs_approval=True)])
    (tool,) = Dispatcher(chat, toolbox).dispatch([chat.request("pay")])
    assert tool.is_pending
    waits = toolbox.needs_approval_for
    shown = model_history(chat, needs_approval=waits).render("openai")["messages"]
    assert "Awaiting approval" in shown[-1]["content"]


def test_a_model_retry_tells_the_hint_verbatim(chat: Conversation) -> None:
    """There its kind is internal, and no classifier sees it. Here the model can correct it."""

    def book() -> None:
        raise ModelRetry("use ISO dates")

    tool, waits = ran(chat, book, RetryPolicy(3))
    _, response = tool.to_tuple()
    assert response is not None
    assert response.result == {"error": "use ISO dates"}
    assert (tool.attempts, waits) == (1, [])
    assert isinstance(tool.status, Failed)
    assert tool.status.failure.kind is VALIDATION
    envelope = ErrorEnvelope.of(tool.status.failure)
    assert (envelope.code, envelope.error_class) == ("model_retry_exhausted", "client")


def test_an_output_that_cannot_be_serialised_is_kept(chat: Conversation) -> None:
    """There it is an error. Here a result is never lost because of its form."""
    tool, _ = ran(chat, lambda: {"raw": b"\xff", "at": object})
    assert tool.status.name == "Completed"
    (answer,) = [r.event for r in chat.events() if isinstance(r.event, ToolCompleted)]
    assert answer.lossy


@pytest.mark.parametrize("status", [0, 100, 204, 301, 399, 600, 1000])
def test_a_status_outside_400_to_599_is_a_transport_failure(status: int) -> None:
    """A status that was not a terminal response is not reported."""
    error = ProviderError.from_http_status(status, "m")
    assert error.kind is ProviderErrorKind.TRANSPORT
    envelope = ErrorEnvelope.of(Failure.from_exception(error))
    assert (envelope.code, envelope.provider_status) == ("transport_failure", None)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_hint_changes_nothing_but_the_seconds(status: int) -> None:
    """Code, class and status stay the same."""
    bare, hinted = (
        ErrorEnvelope.of(
            Failure.from_exception(ProviderError.from_http_status(status, "m", retry_after=hint))
        )
        for hint in (None, 4.9)
    )
    assert hinted.retry_after_secs == 4
    assert msgspec.structs.replace(hinted, retry_after_secs=bare.retry_after_secs) == bare


def test_a_hint_on_an_error_that_is_no_provider_s_is_ignored() -> None:
    """Only a provider may ask to wait."""
    envelope = ErrorEnvelope.of(Failure.from_exception(ConfigError("m")))
    assert msgspec.json.encode(envelope) == b'{"code":"config_error","class":"server"}'


def test_the_class_prints_lower_case() -> None:
    """Its text is the same as in JSON."""
    assert str(ErrorEnvelope.of(Failure(AUTH, "m")).error_class) == "client"


# --- compaction.rs: what the model sees


def grouped(chat: Conversation, messages: Iterable[Any], **options: Any) -> list[Any]:
    """Return the messages as the model sees them, after they were recorded."""
    chat.record_messages(list(messages))
    shown: list[Any] = model_history(chat.events(), **options).render("openai")["messages"]
    assert validate(shown, "openai") == []
    return shown


def calling(*ids: str) -> dict[str, Any]:
    """Return an assistant message with calls."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids
        ],
    }


def result(call_id: str) -> dict[str, Any]:
    """Return a result message."""
    return {"role": "tool", "tool_call_id": call_id, "content": "found"}


USER = {"role": "user", "content": "go"}
SAID = {"role": "assistant", "content": "hello"}


def test_compaction_empty(chat: Conversation) -> None:
    """An empty log shows nothing."""
    assert model_history(chat.events()).turns == []


def test_compaction_user_and_assistant(chat: Conversation) -> None:
    """Text is shown unchanged."""
    assert grouped(chat, [USER, SAID]) == [USER, SAID]


def test_compaction_a_pair_attaches_to_the_preceding_assistant(chat: Conversation) -> None:
    """The result comes after the turn of its call, wherever it was logged."""
    shown = grouped(chat, [USER, calling("1"), SAID, result("1")])
    assert [message["role"] for message in shown] == ["user", "assistant", "tool", "assistant"]


def test_compaction_an_orphan_result(chat: Conversation) -> None:
    """There it is an error. Here nothing real is lost: it becomes text."""
    shown = grouped(chat, [USER, result("1")])
    assert "found" in str(shown)
    assert [message["role"] for message in shown] == ["user", "user"]


def test_compaction_an_unanswered_call(chat: Conversation) -> None:
    """There it is an error. Here only on request; otherwise it is answered from the log."""
    shown = grouped(chat, [USER, calling("1")])
    assert shown[-1]["role"] == "tool"
    with pytest.raises(NonResolvedToolError):
        model_history(chat.events(), open_calls="raise")


def test_compaction_a_budget_drops_the_oldest(chat: Conversation) -> None:
    """Whole turns are dropped from the front."""
    shown = grouped(
        chat,
        [USER, SAID, {"role": "user", "content": "more"}, SAID],
        max_tokens=12,
        count_tokens=len,
    )
    assert [message["content"] for message in shown] == ["more", "hello"]


def test_compaction_order_of_messages(chat: Conversation) -> None:
    """The order is user, assistant, tool."""
    shown = grouped(chat, [USER, calling("1"), result("1")])
    assert [message["role"] for message in shown] == ["user", "assistant", "tool"]


def test_compaction_pairs_survive_partial_drops(chat: Conversation) -> None:
    """A cut never falls between a call and its result."""
    messages = [USER, calling("1", "2"), result("1"), result("2"), USER, calling("3"), result("3")]
    shown = grouped(chat, messages, last_turns=1)
    assert [message["role"] for message in shown] == ["user", "assistant", "tool"]
    assert shown[-1]["tool_call_id"] == shown[-2]["tool_calls"][0]["id"] == "3"


# --- error_policy.rs

POLICIES = {
    "empty": (ToolErrorPolicy.new(), set()),
    "operator_safe": (ToolErrorPolicy.operator_safe(), {AUTH, QUOTA, PERMANENT}),
    "operator_safe+internal": (
        ToolErrorPolicy.operator_safe().add_terminal_kind(INTERNAL),
        {AUTH, QUOTA, PERMANENT, INTERNAL},
    ),
}


@pytest.mark.parametrize("kind", ErrorKind)
@pytest.mark.parametrize(("policy", "members"), POLICIES.values(), ids=POLICIES)
def test_a_kind_is_terminal_iff_it_is_a_member(
    policy: ToolErrorPolicy, members: set[ErrorKind], kind: ErrorKind
) -> None:
    """Adding a member again changes nothing."""
    assert policy.classifies_terminal(kind) == (kind in members)
    if kind in members:
        assert policy.add_terminal_kind(kind) == policy


def test_the_default_policy_is_the_empty_one() -> None:
    """Every failure goes back to the model."""
    assert ToolErrorPolicy() == ToolErrorPolicy.new()
    assert ToolErrorPolicy.new().terminate_on == ErrorKindSet.empty()


@pytest.mark.parametrize("kind", ErrorKind)
@pytest.mark.parametrize(("policy", "members"), POLICIES.values(), ids=POLICIES)
def test_the_layer_wraps_members_and_leaves_others_untouched(
    chat: Conversation, policy: ToolErrorPolicy, members: set[ErrorKind], kind: ErrorKind
) -> None:
    """Every failure is recorded; only a member ends the run, and the error carries the failure."""
    failure = Failure(kind, "no")
    if kind not in members:
        tool, _ = ran(chat, lambda: failure, policy=policy)
    else:
        with pytest.raises(ToolErrorTerminal) as caught:
            ran(chat, lambda: failure, policy=policy)
        assert caught.value.failure == failure
        (tool,) = chat.tools.values()
    assert tool.status.failure == failure  # type: ignore[union-attr]


def test_the_layer_leaves_success_untouched(chat: Conversation) -> None:
    """A success ends no run, whatever the policy is."""
    everything = ToolErrorPolicy(ErrorKindSet.of(*ErrorKind))
    assert ran(chat, lambda: "ok", policy=everything)[0].status.name == "Completed"


def test_the_policy_judges_what_the_retries_left_over(chat: Conversation) -> None:
    """A failure that a retry corrects does not end the run."""
    policy = ToolErrorPolicy.new().add_terminal_kind(TRANSIENT)
    tool, _ = ran(chat, Tries(HttpError(503), "ok"), RetryPolicy(2, 0.2), policy=policy)
    assert tool.status.name == "Completed"
    with pytest.raises(ToolErrorTerminal):
        ran(chat, Tries(HttpError(503)), RetryPolicy(2, 0.2), policy=policy)


# --- defects


@pytest.mark.parametrize("hint", [None, 5])
@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_defect_kind_and_classifier_disagree_on_a_bare_429(status: int, hint: int | None) -> None:
    """Here one table decides kind, retry class and `retryable`."""
    kind = classify(HttpError(status, hint))
    again = DEFAULT.classify(HttpError(status, hint)) is RetryClass.TRANSIENT
    asked = ProviderError.from_http_status(status, "m", retry_after=hint)
    assert kind.is_retryable == again == asked.retryable == (status != 429 or hint is not None)


def test_defect_the_backoff_is_zero_from_the_sixth_step_on() -> None:
    """Here no wait is zero, and the backoff never shrinks."""
    policy = RetryPolicy(1000, 0.2, 30)
    waits = [policy.delay(attempt, None, 0.0) or 0 for attempt in range(1, 1000)]
    assert all(0 < wait < math.inf for wait in waits)
    assert waits == sorted(waits)


def test_defect_a_human_s_rejection_counts_as_a_validation_error(chat: Conversation) -> None:
    """Here it is a rejection with its source, and not a failure."""
    chat.reject(chat.request("pay").id, "too much", by="ada")
    numbers = error_statistics(chat.events()).overall
    assert (numbers.failures, numbers.failures_by_kind) == (0, {})
    assert numbers.rejections_by_source == {"human": 1}


def test_model_retries_are_exhausted_after_a_limit(chat: Conversation) -> None:
    """In entelix a run of hints ends with the code `model_retry_exhausted`.

    Here a tool has a limit where `max_model_retries` says so, and its failure is the last hint.
    """

    def book() -> None:
        raise ModelRetry("use ISO dates")

    dispatcher = Dispatcher(chat, [FunctionTool(book, max_model_retries=1)])
    dispatcher.dispatch([chat.request("book")])
    with pytest.raises(ToolErrorTerminal) as ended:
        dispatcher.dispatch([chat.request("book")])
    assert isinstance(ended.value.__cause__, ModelRetry)
    assert ErrorEnvelope.of(ended.value.failure).code == "model_retry_exhausted"


def test_a_budget_breach_is_a_signal_of_its_own(chat: Conversation) -> None:
    """In entelix: "budget breaches as their own signal"; here they are the cause in `why`."""
    budget = UsageBudget(chat, UsageLimits(total_tokens=10))
    with pytest.raises(UsageLimitExceeded):
        budget.after_response(ModelResponded("openai", "gpt-5", usage=Usage(9, 2)))
    assert why(chat.events()).causes[0].kind == "limit"
    assert usage_statistics(chat.events()).breaches == {"total_tokens": 1}
