"""A turn's calls through the dispatcher: run, recorded, retried, refused; in threads and tasks."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
from support.dispatchers import (
    Waits,
    answers,
    last,
    make,
    raising,
    refuse_commands,
    store_unchecked,
    tags,
)

from eventstore import (
    Approve,
    AsyncDispatcher,
    Completed,
    Conversation,
    DefaultRetryClassifier,
    Dispatcher,
    ErrorKind,
    EventStore,
    Failed,
    Failure,
    FunctionCall,
    FunctionTool,
    IllegalTransition,
    OpeningGate,
    Outcome,
    Reject,
    RetryClass,
    RetryPolicy,
    RunEnded,
    Skip,
    StoreFull,
    StuckLoopGuard,
    Terminate,
    Tool,
    ToolApproved,
    ToolCompleted,
    ToolErrorPolicy,
    ToolErrorTerminal,
    ToolFailed,
    ToolRejected,
    ToolRunning,
    UnknownCall,
)
from eventstore.testing import run_concurrently
from projections import error_statistics, replay


def add(a: int, b: int = 1) -> int:
    """Return the sum."""
    return a + b


async def add_async(a: int, b: int = 1) -> int:
    """Return the sum, as a coroutine function."""
    return a + b


class Flaky:
    """A tool that fails some times, then returns its count."""

    __name__ = "flaky"

    def __init__(self, times: int, error: Any = None) -> None:
        self.left = times
        self.runs = 0
        self.error = error or ConnectionRefusedError("refused")

    def __call__(self) -> int:
        """Fail, or return the number of calls."""
        self.runs += 1
        if self.left:
            self.left -= 1
            if isinstance(self.error, Failure):
                return self.error  # type: ignore[return-value]
            raise self.error
        return self.runs


# running


@pytest.mark.parametrize("tool", [add, add_async, partial(add), FunctionTool(add, "sum")])
def test_a_call_runs_and_is_recorded_before_and_after(
    kind: str, chat: Conversation, tool: Any
) -> None:
    """Sync and async tools, under any name, are recorded as started and as completed."""
    name = "sum" if isinstance(tool, partial | FunctionTool) else tool.__name__
    if isinstance(tool, partial):
        tool = FunctionTool(tool, "sum")
    call = chat.request(name, {"a": 2})
    (done,) = make(kind, chat, [tool]).dispatch([call])
    assert done.response is not None
    assert done.response.result == 3
    assert tags(chat) == ["pending", "running", "completed"]
    assert last(chat, ToolRunning).arguments == {"a": 2}
    assert last(chat, ToolCompleted).duration is not None
    assert chat.tools[call.id] == done


def test_tools_come_as_a_list_or_by_name(kind: str, chat: Conversation) -> None:
    """A given name wins over the name of the function."""
    calls = [chat.request(name, {"a": 1}) for name in ("plus", "more")]
    tools = {"plus": lambda a: a + 1, "more": FunctionTool(add, "ignored")}
    done = make(kind, chat, tools).dispatch(calls)
    assert [tool.response.result for tool in done if tool.response] == [2, 2]


def test_calls_may_be_passed_by_id(kind: str, chat: Conversation) -> None:
    """An unknown id is refused, and so is an object that is not a call."""
    call = chat.request("add", {"a": 1})
    dispatcher = make(kind, chat, [add])
    with pytest.raises(UnknownCall, match="no call 'nope'"):
        dispatcher.dispatch([call.id, "nope"])
    with pytest.raises(TypeError, match="Tools that record"):
        dispatcher.dispatch([5])  # type: ignore[list-item]
    assert tags(chat) == ["pending"]
    assert dispatcher.dispatch([call.id])[0].response is not None


def test_the_call_of_another_conversation_is_refused(kind: str, chat: Conversation) -> None:
    """Such a call raises an error, and nothing runs."""
    with EventStore.open("sqlite://") as elsewhere:
        call = elsewhere.conversation("other").request("add", {"a": 1})
    with pytest.raises(UnknownCall):
        make(kind, chat, [FunctionTool(add, needs_approval=True)]).dispatch([call])
    with pytest.raises(UnknownCall):
        make(kind, chat, [add]).dispatch([call])


def test_an_empty_turn_returns_no_calls(kind: str, chat: Conversation) -> None:
    """An empty list of calls is allowed."""
    assert make(kind, chat, [add]).dispatch([]) == []


def test_a_tool_that_raises_is_recorded_and_the_turn_goes_on(kind: str, chat: Conversation) -> None:
    """The error is data, for the model and for statistics."""
    calls = [chat.request("bad"), chat.request("add", {"a": 1})]
    bad, done = make(kind, chat, {"bad": raising(KeyError("k")), "add": add}).dispatch(calls)
    assert isinstance(bad.status, Failed)
    assert bad.status.failure.exception == "KeyError"
    assert done.response is not None
    assert last(chat, ToolFailed).attempt == 1


def test_a_tool_may_return_a_failure_instead_of_raising(kind: str, chat: Conversation) -> None:
    """Its text for the model differs from the text for operators."""
    failure = Failure(ErrorKind.AUTH, "token expired on host 7", "not logged in")
    call = chat.request("whoami")
    (tool,) = make(kind, chat, {"whoami": lambda: failure}).dispatch([call])
    assert isinstance(tool.status, Failed)
    assert tool.status.failure == failure
    assert answers(chat)[call.id] == "not logged in"


@pytest.mark.parametrize(
    ("classify", "expected"),
    [
        (lambda error: ErrorKind.QUOTA, (ErrorKind.QUOTA, "5")),
        (lambda error: "quota", (ErrorKind.QUOTA, "5")),
        (lambda error: Failure(ErrorKind.AUTH, "no"), (ErrorKind.AUTH, "no")),
        (lambda error: "nonsense", (ErrorKind.INTERNAL, "5")),
        (lambda error: 1 / 0, (ErrorKind.INTERNAL, "5")),
    ],
)
def test_classify_of_the_tool_decides_the_kind(
    kind: str, chat: Conversation, classify: Any, expected: Any
) -> None:
    """`classify` returns a kind or a failure; if it fails itself, the failure is still recorded."""
    tool = FunctionTool(raising(RuntimeError("5")), "bad", classify=classify)
    (tool_,) = make(kind, chat, [tool]).dispatch([chat.request("bad")])
    assert isinstance(tool_.status, Failed)
    assert (tool_.status.failure.kind, tool_.status.failure.message) == expected


def test_a_tool_may_take_its_call_as_first_argument(kind: str, chat: Conversation) -> None:
    """The id of the call is an idempotency key that a later process has, too."""
    call = chat.request("pay", {"amount": 5})
    tool = FunctionTool(lambda tool, amount: [tool.id, amount], "pay", takes_tool=True)
    (done,) = make(kind, chat, [tool]).dispatch([call])
    assert done.response is not None
    assert done.response.result == [call.id, 5]


def test_a_tool_that_mutates_its_arguments_does_not_change_the_log(
    kind: str, chat: Conversation
) -> None:
    """Each tool gets its own copy of the arguments."""

    def greedy(items: list[int]) -> int:
        items.clear()
        return 0

    call = chat.request("greedy", {"items": [1, 2]})
    (done,) = make(kind, chat, [greedy]).dispatch([call])
    assert done.call.arguments == {"items": [1, 2]}
    assert last(chat, ToolRunning).arguments == {"items": [1, 2]}


def test_a_result_that_is_not_json_is_stored(kind: str, chat: Conversation) -> None:
    """A result is never lost because of its form."""
    (done,) = make(kind, chat, {"odd": lambda: {1, 2}}).dispatch([chat.request("odd")])
    assert done.response is not None
    assert last(chat, ToolCompleted).lossy


# what cannot start


def test_a_call_of_an_unknown_tool_fails_with_the_known_names(
    kind: str, chat: Conversation
) -> None:
    """The model reads the names that it may call; the failure kind is validation."""
    call = chat.request("nope")
    (tool,) = make(kind, chat, [add]).dispatch([call])
    assert isinstance(tool.status, Failed)
    assert tool.status.failure.message == "Tool `nope` not found"
    assert tool.status.failure.kind is ErrorKind.VALIDATION
    assert tool.status.failure.code == "tool_not_found"
    assert answers(chat)[call.id] == "Tool `nope` not found. Available: add."
    assert tags(chat) == ["pending", "failed"]


def test_a_long_list_of_names_is_cut(kind: str, chat: Conversation) -> None:
    """The text has the first twelve names and the number of all."""
    call = chat.request("nope")
    make(kind, chat, {f"tool{n:02}": add for n in range(15)}).dispatch([call])
    assert answers(chat)[call.id].endswith("tool10, tool11, … (15 in all).")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("{oops", "the arguments of `add` are not a JSON object: {oops"),
        ([1], "the arguments of `add` are not a JSON object: [1]"),
        ({}, "`add` is missing argument a"),
        ({"a": 1, "c": 2, "d": 3}, "`add` takes no arguments c, d"),
    ],
)
def test_a_call_with_invalid_arguments_never_starts(
    kind: str, chat: Conversation, arguments: Any, why: str
) -> None:
    """Nothing is started, and the model is told to call again."""
    call = chat.request("add", arguments)
    (tool,) = make(kind, chat, [add]).dispatch([call])
    assert isinstance(tool.status, Failed)
    assert tool.status.failure.message == why
    assert tool.status.failure.kind is ErrorKind.VALIDATION
    assert "Call it again" in answers(chat)[call.id]
    assert "running" not in tags(chat)


def test_calls_beyond_the_limit_are_rejected(kind: str, chat: Conversation) -> None:
    """Calls of unknown tools and parallel calls do not count; invalid ones do."""
    tools = [
        add,
        FunctionTool(add, "note", counted=False),
        FunctionTool(add, "look", parallel=True),
    ]
    names = ["note", "nope", "look", "add", "add", "look", "add"]
    arguments = [{"a": 1}] * 3 + [{}] + [{"a": 1}] * 3
    calls = [chat.request(n, a) for n, a in zip(names, arguments, strict=True)]
    done = make(kind, chat, tools, max_calls_per_turn=1).dispatch(calls)
    assert [tool.status.name for tool in done] == [
        "Completed",
        "Failed",
        "Completed",
        "Failed",
        "Rejected",
        "Completed",
        "Rejected",
    ]
    event = last(chat, ToolRejected)
    assert event.source == "limit"
    assert event.reason.startswith("not executed: only the first 1 call of a turn may run")
    assert event.details == {
        "kind": "tool_call_not_executed",
        "reason": "max_tool_calls_per_turn",
        "total_tool_calls": 7,
        "limit_counted_tool_calls": 3,
        "max_executed": 1,
    }


def test_a_hidden_call_uses_the_place_of_the_turn(kind: str, chat: Conversation) -> None:
    """The hidden call is refused by its gate, and the call after it by the limit."""
    tools = {"hidden": lambda: 1, "add": lambda: 2}
    calls = [chat.request(name) for name in ("hidden", "add", "hidden")]
    gates = [OpeningGate(["add"])]
    dispatcher = make(kind, chat, tools, gates=gates, max_calls_per_turn=1)
    dispatcher.dispatch(calls)
    rejections = [r.event for r in chat.events() if isinstance(r.event, ToolRejected)]
    assert [event.source for event in rejections] == ["gate", "limit", "gate"]
    assert rejections[1].details is not None
    assert rejections[1].details["total_tool_calls"] == 3


def test_a_skip_names_its_hook_and_the_reason(kind: str, chat: Conversation) -> None:
    """A skip does not count as a run, and the replay's line says skipped."""

    def cache(tool: Tool) -> Skip | None:
        if tool.call.arguments["a"] == 1:
            return Skip("as before", reason="asked for a minute ago")
        return Skip("known", by="the index") if tool.call.arguments["a"] == 2 else None

    calls = [chat.request("add", {"a": n}) for n in (1, 2, 3)]
    skipped, known, run = make(kind, chat, [add], hooks=[cache]).dispatch(calls)
    assert isinstance(skipped.status, Completed)
    assert (skipped.status.by, skipped.status.reason) == ("cache", "asked for a minute ago")
    assert isinstance(known.status, Completed)
    assert (known.status.by, known.status.reason) == ("the index", None)
    assert isinstance(run.status, Completed)
    assert (run.status.synthetic, run.status.by) == (False, None)
    assert Tool.decode(skipped.encode()) == chat.tools[skipped.id] == skipped
    found = error_statistics(chat.events())
    assert (found.overall.synthetic, found.overall.attempts) == (2, 1)
    assert "3 completed (2 without a run)" in str(found)
    frames = "\n".join(map(str, replay(chat.events())))
    assert "(not run by cache: asked for a minute ago)" in frames


def test_a_limit_of_zero_rejects_every_call(kind: str, chat: Conversation) -> None:
    """Zero is a limit."""
    (tool,) = make(kind, chat, [add], max_calls_per_turn=0).dispatch(
        [chat.request("add", {"a": 1})]
    )
    assert tool.status.name == "Rejected"


def test_calls_that_have_started_are_left_alone(kind: str, chat: Conversation) -> None:
    """Only `resume` asks for their outcome."""
    calls = [chat.request("add", {"a": n}) for n in range(4)]
    chat.start(calls[0].id)
    chat.complete(calls[1].id, "by hand")
    chat.fail(calls[2].id, "no")
    chat.reject(calls[3].id)
    now = list(chat.tools.values())
    version = chat.version
    assert make(kind, chat, [add]).dispatch(now) == now
    assert chat.version == version


def test_a_call_that_another_worker_started_is_left_to_it(kind: str, chat: Conversation) -> None:
    """The handle is stale, the log is not: nothing runs twice."""
    runs: list[int] = []
    calls = [chat.request("run", {"n": n}) for n in range(2)]
    chat.start(calls[0].id)
    chat.reject(calls[1].id)
    done = make(kind, chat, {"run": lambda n: [runs.append(n)]}).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Running", "Rejected"]
    assert runs == []


def test_the_first_completion_of_a_running_call_stands(kind: str, chat: Conversation) -> None:
    """The tool's own result is too late, and the turn goes on."""
    calls = [chat.request("slow"), chat.request("slow")]

    def slow() -> str:
        if (tool := chat.tools[calls[0].id]).response is None:
            chat.complete(tool.id, "by hand")
        return "by itself"

    first, second = make(kind, chat, [slow]).dispatch(calls)
    assert first.response is not None
    assert second.response is not None
    assert (first.response.result, second.response.result) == ("by hand", "by itself")


def test_a_worker_without_the_tool_does_not_fail_anothers_attempt(
    kind: str, chat: Conversation
) -> None:
    """This worker read the call before another worker, which has the tool, started it."""
    call = chat.request("pay")
    chat.start(call.id)
    (tool,) = make(kind, chat, [add]).dispatch([call])
    assert tool.status.name == "Running"


def test_workers_that_dispatch_the_same_turn_run_each_call_once(
    kind: str, chat: Conversation
) -> None:
    """Any of the workers may start a call."""
    runs: list[int] = []
    calls = [chat.request("run", {"n": n}) for n in range(30)]

    def work() -> None:
        make(kind, chat, {"run": lambda n: [runs.append(n)]}).dispatch(calls)

    assert run_concurrently(work, work, work) == [None] * 3
    assert sorted(runs) == list(range(30))
    assert {tool.status.name for tool in chat.tools.values()} == {"Completed"}


# retries


def test_a_tool_without_a_retry_policy_runs_once(kind: str, chat: Conversation) -> None:
    """The tool runs once, whatever error it raises."""
    tool = Flaky(1)
    make(kind, chat, [tool]).dispatch([chat.request("flaky")])
    assert tool.runs == 1


def test_a_transient_failure_is_retried_after_a_wait(kind: str, chat: Conversation) -> None:
    """The wait is recorded before it begins."""
    tool, waits = Flaky(2), Waits()
    spec = FunctionTool(tool, retry=RetryPolicy(5, 0.5, 30))
    (done,) = make(kind, chat, [spec], sleep=waits).dispatch([chat.request("flaky")])
    assert done.response is not None
    assert done.attempts == tool.runs == 3
    assert tags(chat) == ["pending", *["running", "failed"] * 2, "running", "completed"]
    delays = [r.event.delay for r in chat.events() if isinstance(r.event, ToolFailed)]
    assert [delay / 1e6 for delay in delays if delay] == waits.seconds == [0.5, 1.0]


def test_no_more_attempts_are_made_than_the_policy_allows(kind: str, chat: Conversation) -> None:
    """The last failure stands."""
    tool = Flaky(9)
    spec = FunctionTool(tool, retry=RetryPolicy(2))
    (done,) = make(kind, chat, [spec]).dispatch([chat.request("flaky")])
    assert done.status.name == "Failed"
    assert tool.runs == 2
    assert last(chat, ToolFailed).delay is None


def test_the_hint_of_the_provider_decides_the_wait(kind: str, chat: Conversation) -> None:
    """Its hint wins over the backoff, up to the policy's cap."""
    waits = Waits()
    hint = Failure(ErrorKind.RATE_LIMIT, "slow down", retry_after=7.0)
    spec = FunctionTool(Flaky(1, hint), retry=RetryPolicy(3, 0.1, 5.0))
    make(kind, chat, [spec], sleep=waits).dispatch([chat.request("flaky")])
    assert waits.seconds == [5.0]


@pytest.mark.parametrize("error", [PermissionError("no"), Failure(ErrorKind.VALIDATION, "no")])
def test_a_permanent_failure_is_not_retried(kind: str, chat: Conversation, error: Any) -> None:
    """This holds for a failure that is raised and for one that is returned."""
    tool = Flaky(1, error)
    make(kind, chat, [FunctionTool(tool, retry=RetryPolicy(3))]).dispatch([chat.request("flaky")])
    assert tool.runs == 1


def test_a_custom_retry_classifier_decides(kind: str, chat: Conversation) -> None:
    """The classifier gets the raised error, and its answer decides on a retry."""

    class Never(DefaultRetryClassifier):
        def classify(self, error: BaseException | ErrorKind) -> RetryClass:
            assert isinstance(error, ConnectionError)
            return RetryClass.PERMANENT

    tool = Flaky(1)
    spec = FunctionTool(tool, retry=RetryPolicy(3))
    make(kind, chat, [spec], retry_classifier=Never()).dispatch([chat.request("flaky")])
    assert tool.runs == 1


# unknown outcomes


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_timeout_is_retried_only_for_an_idempotent_tool(
    kind: str, chat: Conversation, idempotent: bool
) -> None:
    """The call may have taken effect, and the model is told so."""
    tool = Flaky(1, TimeoutError("no answer"))
    spec = FunctionTool(tool, retry=RetryPolicy(3), idempotent=idempotent)
    call = chat.request("flaky")
    (done,) = make(kind, chat, [spec]).dispatch([call])
    assert tool.runs == 1 + idempotent
    assert done.status.name == ("Completed" if idempotent else "Failed")
    if not idempotent:
        assert last(chat, ToolFailed).failure.code == "timeout"
        assert "may have taken effect" in answers(chat)[call.id]


@pytest.mark.parametrize(
    ("outcome", "status", "runs"),
    [
        (Outcome.done("paid"), "Completed", 1),
        (Outcome.not_done(), "Completed", 2),
        (Outcome.failed("refused"), "Failed", 1),
        (Outcome.unknown(), "Failed", 1),
        (None, "Failed", 1),
    ],
)
def test_verify_is_called_before_a_retry(
    kind: str, chat: Conversation, outcome: Any, status: str, runs: int
) -> None:
    """If it is unknown whether an attempt took effect, `verify` may find out."""
    tool, asked = Flaky(1, TimeoutError("no answer")), []

    def verify(tool: Tool) -> Any:
        asked.append(tool.status.name)
        return outcome

    spec = FunctionTool(tool, retry=RetryPolicy(3), verify=verify)
    (done,) = make(kind, chat, [spec]).dispatch([chat.request("flaky")])
    assert (done.status.name, tool.runs, asked) == (status, runs, ["Failed"])


def test_a_verified_attempt_is_not_retried_without_a_policy(kind: str, chat: Conversation) -> None:
    """An attempt without effect may be retried, but only a policy demands it."""
    tool = Flaky(1, TimeoutError("no answer"))
    spec = FunctionTool(tool, verify=lambda _: Outcome.not_done())
    (done,) = make(kind, chat, [spec]).dispatch([chat.request("flaky")])
    assert (done.status.name, tool.runs) == ("Failed", 1)


@pytest.mark.parametrize("answer", ["yes", 1 / 3, True])
def test_an_invalid_answer_of_verify_is_raised(kind: str, chat: Conversation, answer: Any) -> None:
    """The error is raised after every other call was handled, and the call stays as it was."""
    spec = FunctionTool(Flaky(1, TimeoutError()), verify=lambda _: answer)
    calls = [chat.request("flaky"), chat.request("add", {"a": 1})]
    with pytest.raises(TypeError, match=r"verify of tool 'flaky' gave .*Outcome.done\(result\)"):
        make(kind, chat, [spec, add]).dispatch(calls)
    assert [tool.status.name for tool in chat.tools.values()] == ["Failed", "Completed"]


# the run's end


def test_the_policy_ends_the_run_after_everything_is_recorded(
    kind: str, chat: Conversation
) -> None:
    """Calls that had not started are closed, the end is recorded, the caller gets the failure."""
    calls = [chat.request("bad"), chat.request("add", {"a": 1})]
    tools = {"bad": raising(PermissionError("no key")), "add": add}
    dispatcher = make(kind, chat, tools, policy=ToolErrorPolicy.operator_safe())
    with pytest.raises(ToolErrorTerminal) as caught:
        dispatcher.dispatch(calls)
    assert caught.value.failure.kind is ErrorKind.AUTH
    assert caught.value.tool == chat.tools[calls[0].id]
    assert last(chat, RunEnded) == RunEnded("terminated", caught.value.failure)
    rejected = last(chat, ToolRejected)
    assert (rejected.call_id, rejected.source) == (calls[1].id, "sibling")
    assert rejected.details == {
        "kind": "tool_call_not_executed",
        "reason": "sibling_tool_error",
        "failed_tool": "bad",
    }


def test_a_retry_precedes_the_error_policy(kind: str, chat: Conversation) -> None:
    """The policy judges only the last failure."""
    policy = ToolErrorPolicy.new().add_terminal_kind(ErrorKind.TRANSIENT)
    retried = FunctionTool(Flaky(1), retry=RetryPolicy(2))
    make(kind, chat, [retried], policy=policy).dispatch([chat.request("flaky")])
    with pytest.raises(ToolErrorTerminal):
        make(kind, chat, [Flaky(1)], policy=policy).dispatch([chat.request("flaky")])


def test_a_terminal_failure_that_verify_corrects_does_not_end_the_run(
    kind: str, chat: Conversation
) -> None:
    """`verify` finds that the call was done after all."""
    policy = ToolErrorPolicy.new().add_terminal_kind(ErrorKind.TRANSIENT)
    spec = FunctionTool(Flaky(1, TimeoutError()), verify=lambda _: Outcome.done(1))
    (done,) = make(kind, chat, [spec], policy=policy).dispatch([chat.request("flaky")])
    assert done.response is not None


def test_the_terminal_error_is_raised_if_the_end_cannot_be_recorded(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note on the error says that the end of the run was not recorded."""
    refuse_commands(monkeypatch, "append", StoreFull("no space"))
    policy = ToolErrorPolicy.operator_safe()
    with pytest.raises(ToolErrorTerminal) as caught:
        make(kind, chat, [Flaky(1, PermissionError())], policy=policy).dispatch(
            [chat.request("flaky")]
        )
    assert caught.value.__notes__ == ["the end of the run was not recorded: no space"]


def test_ends_run_asks_the_tools_that_vote(kind: str, chat: Conversation) -> None:
    """All votes must agree; a failure, an unknown tool and no vote at all do not end it."""
    tools = [FunctionTool(add, "deliver", ends_run=True), FunctionTool(add, "note", ends_run=None)]
    dispatcher = make(kind, chat, [*tools, FunctionTool(add)])

    def votes(*names: str, arguments: Any = None) -> bool:
        calls = [chat.request(name, arguments or {"a": 1}) for name in names]
        return bool(dispatcher.inner.ends_run(dispatcher.dispatch(calls)))

    assert votes("deliver")
    assert votes("note", "deliver", "note")
    assert not votes("deliver", "add")
    assert not votes("deliver", "nope")
    assert not votes("deliver", arguments={"wrong": 1})
    assert not votes("note")
    assert not votes()


# approval


def ask_first(**options: Any) -> FunctionTool:
    """Return a tool that needs approval."""
    return FunctionTool(add, **{"needs_approval": True, **options})


def test_a_call_that_needs_approval_stays_pending_for_another_process(
    kind: str, chat: Conversation
) -> None:
    """A call that needs no approval runs meanwhile; the other runs after the decision."""
    calls = [chat.request("add", {"a": 1}), chat.request("free", {"a": 1})]
    dispatcher = make(kind, chat, [ask_first(), FunctionTool(add, "free")])
    assert [tool.status.name for tool in dispatcher.dispatch(calls)] == ["Pending", "Completed"]
    chat.approve(calls[0].id, edited_arguments={"a": 5}, by="ada")
    (done,) = dispatcher.dispatch(
        [calls[0]]
    )  # the handle is stale: the approver is not asked again
    assert done.response is not None
    assert done.response.result == 6
    assert done.effective_call.arguments == {"a": 5}


def test_an_edit_that_comes_after_the_calls_were_passed_is_checked(
    kind: str, chat: Conversation
) -> None:
    """Hooks and the types of the arguments see what will run, not what the model asked for."""
    seen: list[Any] = []
    ran: list[int] = []

    def pay(amount: int) -> int:
        ran.append(amount)
        return amount

    def small_amounts(tool: Tool) -> Reject | None:
        seen.append(tool.effective_call.arguments["amount"])
        return Reject("too much") if seen[-1] == 1_000 else None

    small, large, wrong = (chat.request("pay", {"amount": 1}) for _ in range(3))
    chat.approve(small.id, edited_arguments={"amount": 2})
    chat.approve(large.id, edited_arguments={"amount": 1_000})
    chat.approve(wrong.id, edited_arguments={"amount": "nine"})
    given = FunctionTool(pay, parallel=True)
    done = make(kind, chat, [given], hooks=[small_amounts]).dispatch([small, large, wrong])
    assert [tool.status.name for tool in done] == ["Completed", "Rejected", "Failed"]
    assert ran == [2]
    assert sorted(map(str, seen)) == ["1", "1", "1", "1000", "2", "nine"]
    assert done[2].status.failure.code == "invalid_arguments"
    assert done[2].attempts == 0


@pytest.mark.parametrize("resumes", [False, True])
def test_an_edit_that_names_another_tool_runs_neither(
    kind: str, chat: Conversation, resumes: Any
) -> None:
    """A log of an older version may hold one: the call fails, and the model reads why."""
    ran: list[str] = []
    tools = [
        FunctionTool(lambda **_: ran.append("pay"), "pay", needs_approval=True),
        FunctionTool(lambda **_: ran.append("pay_all"), "pay_all"),
    ]
    call = chat.request("pay", {"order": 7})
    store_unchecked(chat, ToolApproved(call.id, FunctionCall("pay_all", {}, call.id), "ada"))
    assert chat.tools[call.id].edit_names_other_tool
    with pytest.raises(IllegalTransition, match="an edit changes the arguments alone"):
        chat.start(call.id)
    dispatcher = make(kind, chat, tools)
    (done,) = dispatcher.resume() if resumes else dispatcher.dispatch([call.id])
    assert ran == []
    assert isinstance(done.status, Failed)
    assert done.status.failure.code == "edit_of_other_tool"
    assert answers(chat)[call.id].endswith("Call `pay_all` by itself.")
    assert tags(chat, call.id) == ["pending", "approved", "failed"]


@pytest.mark.parametrize(
    ("decision", "status"),
    [
        (Approve(), "Completed"),
        (True, "Completed"),
        (Approve(edited_arguments={"a": 7}), "Completed"),
        (Approve(edited_arguments={"b": 7}), "Failed"),
        (Reject("too much", by="ada"), "Rejected"),
        (False, "Rejected"),
        (None, "Pending"),
        (Skip("cached"), "Completed"),
    ],
)
def test_an_approver_decides(kind: str, chat: Conversation, decision: Any, status: str) -> None:
    """Each decision is recorded; a call with an invalid edit fails before it starts."""

    async def approver(tool: Tool) -> Any:
        assert tool.is_pending
        return decision

    (tool,) = make(kind, chat, [ask_first()], approver=approver).dispatch(
        [chat.request("add", {"a": 1})]
    )
    assert tool.status.name == status
    if isinstance(decision, Approve):
        assert last(chat, ToolApproved).by is None
    if decision == Skip("cached"):
        assert last(chat, ToolCompleted).synthetic
        assert "running" not in tags(chat)
    if isinstance(decision, Reject):
        event = last(chat, ToolRejected)
        assert (event.source, event.by, event.reason) == ("human", "ada", "too much")


def test_needs_approval_may_depend_on_the_call(kind: str, chat: Conversation) -> None:
    """`needs_approval` may be a function of the call, for example of its arguments."""
    spec = ask_first(needs_approval=lambda tool: tool.effective_call.arguments["a"] > 9)
    calls = [chat.request("add", {"a": n}) for n in (1, 10)]
    done = make(kind, chat, [spec]).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Completed", "Pending"]


def test_an_invalid_decision_is_refused(kind: str, chat: Conversation) -> None:
    """The call and those after it stay open: the host has to correct this."""
    calls = [chat.request("add", {"a": 1}), chat.request("free", {"a": 1})]
    tools = [ask_first(), FunctionTool(add, "free")]
    with pytest.raises(TypeError, match="the approver decided 'maybe': give Approve"):
        make(kind, chat, tools, approver=lambda _: "maybe").dispatch(calls)
    assert tags(chat) == ["pending", "pending"]
    done = make(kind, chat, tools, approver=lambda _: True).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Completed", "Completed"]


def test_a_decision_made_during_the_approver_stands(kind: str, chat: Conversation) -> None:
    """The first decision is followed."""

    def overtaken(tool: Tool) -> bool:
        if tool.call.arguments["a"] == 1:
            chat.approve(tool.id, edited_arguments={"a": 100})
        else:
            chat.reject(tool.id, by="ada")
        return True

    calls = [chat.request("add", {"a": n}) for n in (1, 2)]
    done = make(kind, chat, [ask_first()], approver=overtaken).dispatch(calls)
    assert done[0].response is not None
    assert done[0].response.result == 101
    assert done[1].status.name == "Rejected"


# hooks


def test_hooks_are_called_in_order_until_one_decides(kind: str, chat: Conversation) -> None:
    """The log names the hook that decided."""
    asked: list[str] = []

    def first(tool: Tool) -> None:
        asked.append("first")

    def bananas(tool: Tool) -> Reject | None:
        asked.append("bananas")
        return Reject("no bananas allowed", details={"code": 7})

    def never(tool: Tool) -> None:
        asked.append("never")

    (tool,) = make(kind, chat, [add], hooks=[first, bananas, never]).dispatch(
        [chat.request("add", {"a": 1})]
    )
    assert asked == ["first", "bananas"]
    assert tool.status.name == "Rejected"
    event = last(chat, ToolRejected)
    assert (event.source, event.by, event.reason) == ("hook", "bananas", "no bananas allowed")
    assert event.details == {"code": 7}
    assert "running" not in tags(chat)


def test_a_hook_may_approve_a_call_that_needs_approval(kind: str, chat: Conversation) -> None:
    """A hook may edit the arguments, and does not undo the approval of a person."""

    def allow(tool: Tool) -> Approve:
        return Approve({"a": 41})

    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 1})]
    chat.approve(calls[1].id, by="ada")
    done = make(kind, chat, [ask_first()], hooks=[allow]).dispatch(chat.tools.values())
    assert [tool.response.result for tool in done if tool.response] == [42, 2]
    assert [r.event.by for r in chat.events() if isinstance(r.event, ToolApproved)] == [
        "ada",
        "allow",
    ]


def test_a_stuck_loop_ends_the_run(kind: str, chat: Conversation) -> None:
    """If two equal calls are allowed, the third ends the run; other arguments count separately."""
    dispatcher = make(kind, chat, [add], hooks=[StuckLoopGuard(2)])
    for n in (1, 1, 2, 2):
        dispatcher.dispatch([chat.request("add", {"a": n})])
    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 9})]
    with pytest.raises(
        ToolErrorTerminal, match="stuck loop detected: `add` has been called 3"
    ) as e:
        dispatcher.dispatch(calls)
    tools = chat.tools
    assert e.value.tool == tools[calls[0].id]
    assert [tools[call.id].status.name for call in calls] == ["Rejected", "Rejected"]
    event = last(chat, ToolRejected)
    assert (event.source, event.by, event.details["reason"]) == ("hook", "stuck_loop", "terminated")


def test_a_stuck_loop_guard_refuses_a_negative_limit() -> None:
    """The error names the value and the remedy."""
    with pytest.raises(ValueError, match="most is -1: pass how often"):
        StuckLoopGuard(-1)


def test_a_hook_that_raises_leaves_every_call_open(kind: str, chat: Conversation) -> None:
    """An error of the host does not decide the calls: they can be dispatched again."""
    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 2})]
    with pytest.raises(ZeroDivisionError):
        make(kind, chat, [add], hooks=[lambda _: 1 / 0]).dispatch(calls)
    assert tags(chat) == ["pending", "pending"]


def test_terminate_within_a_parallel_group_starts_none_of_it(kind: str, chat: Conversation) -> None:
    """Calls that an earlier hook decision had allowed do not start either."""

    def no_twos(tool: Tool) -> Terminate | None:
        return Terminate("no twos") if tool.call.arguments["a"] == 2 else None

    calls = [chat.request("add", {"a": n}) for n in (1, 2, 3)]
    with pytest.raises(ToolErrorTerminal, match="no twos"):
        make(kind, chat, [FunctionTool(add, parallel=True)], hooks=[no_twos]).dispatch(calls)
    assert {tool.status.name for tool in chat.tools.values()} == {"Rejected"}


# side by side


def test_parallel_tools_run_concurrently_and_answer_in_call_order(
    kind: str, chat: Conversation
) -> None:
    """Each parallel call waits until all have started; a call that is not parallel runs alone."""
    begun: list[int] = []
    all_here = threading.Barrier(3, timeout=30)

    def meet(n: int) -> int:
        begun.append(n)
        all_here.wait()
        return n

    def alone(n: int) -> int:
        assert len(begun) == 3
        return n

    tools = [FunctionTool(meet, parallel=True), alone]
    names = ["meet"] * 3 + ["alone"] + ["meet"] * 3
    calls = [chat.request(name, {"n": n}) for n, name in enumerate(names)]
    done = make(kind, chat, tools).dispatch(calls)
    assert [tool.response.result for tool in done if tool.response] == list(range(7))
    assert list(answers(chat).values()) == [str(n) for n in range(7)]


def test_a_turn_may_end_with_parallel_calls(kind: str, chat: Conversation) -> None:
    """A turn may also end with a call that is not parallel, after them."""
    tools = [FunctionTool(add, "beside", parallel=True), add]
    for names in (["add", "beside", "beside"], ["beside", "add"], ["beside"]):
        calls = [chat.request(name, {"a": 1}) for name in names]
        assert all(tool.response for tool in make(kind, chat, tools).dispatch(calls))


def test_max_parallel_limits_the_concurrent_calls(kind: str, chat: Conversation) -> None:
    """At no time do more than `max_parallel` tools run."""
    lock, now, most = threading.Lock(), 0, 0

    def count() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        with lock:
            now -= 1

    calls = [chat.request("count") for _ in range(20)]
    done = make(kind, chat, [FunctionTool(count, parallel=True)], max_parallel=2).dispatch(calls)
    assert all(tool.response for tool in done)
    assert most <= 2


def test_a_failed_sibling_does_not_stop_the_turn(kind: str, chat: Conversation) -> None:
    """The other calls of the turn run, unless the failed tool has `abort_siblings`."""
    spec = FunctionTool(raising(KeyError("x")), "bad", parallel=True)
    calls = [chat.request("bad"), chat.request("add", {"a": 1})]
    done = make(kind, chat, [spec, FunctionTool(add, parallel=True)]).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Failed", "Completed"]


def test_a_failure_may_keep_later_siblings_from_starting(kind: str, chat: Conversation) -> None:
    """Their rejections name the failed one, and the run goes on."""
    spec = FunctionTool(raising(KeyError("x")), "bad", abort_siblings=True)
    calls = [chat.request("add", {"a": 1}), chat.request("bad"), chat.request("add", {"a": 1})]
    done = make(kind, chat, [spec, add]).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Completed", "Failed", "Rejected"]
    event = last(chat, ToolRejected)
    assert (event.source, event.reason) == ("sibling", "not executed: `bad` failed before it")
    assert event.details == {
        "kind": "tool_call_not_executed",
        "reason": "sibling_tool_error",
        "failed_tool": "bad",
    }


def test_a_success_aborts_no_sibling(kind: str, chat: Conversation) -> None:
    """Only a failure aborts siblings, also with `abort_siblings`."""
    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 1})]
    done = make(kind, chat, [FunctionTool(add, abort_siblings=True)]).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Completed", "Completed"]


def test_a_terminal_failure_waits_for_concurrent_siblings(kind: str, chat: Conversation) -> None:
    """The siblings' results are recorded before the error is raised."""
    here = threading.Barrier(2, timeout=30)

    def bad() -> None:
        here.wait()
        raise PermissionError("no")

    def good() -> str:
        here.wait()
        return "done"

    tools = [FunctionTool(bad, parallel=True), FunctionTool(good, parallel=True), add]
    calls = [chat.request("bad"), chat.request("good"), chat.request("add", {"a": 1})]
    with pytest.raises(ToolErrorTerminal):
        make(kind, chat, tools, policy=ToolErrorPolicy.operator_safe()).dispatch(calls)
    assert [tool.status.name for tool in chat.tools.values()] == [
        "Failed",
        "Completed",
        "Rejected",
    ]


def test_a_terminal_failure_ends_the_retry_waits_of_siblings(kind: str, chat: Conversation) -> None:
    """An announced retry does not begin when the run is over, nor is it waited for."""
    announced = threading.Event()

    def flaky() -> None:
        raise ConnectionRefusedError("refused")

    def bad() -> None:
        while "failed" not in tags(chat):
            announced.wait(0.001)
        raise PermissionError("no")

    tools = [
        FunctionTool(flaky, parallel=True, retry=RetryPolicy(3, 3600, 3600)),
        FunctionTool(bad, parallel=True),
    ]
    calls = [chat.request("flaky"), chat.request("bad")]
    with pytest.raises(ToolErrorTerminal):
        make(kind, chat, tools, sleep=None, policy=ToolErrorPolicy.operator_safe()).dispatch(calls)
    assert chat.tools[calls[0].id].attempts == 1


# timeouts


def test_a_timeout_leaves_an_unknown_outcome(kind: str, chat: Conversation) -> None:
    """A function in a thread runs on, an async one is cancelled; both timeouts are recorded."""
    import asyncio  # as late as the library does

    release = threading.Event()

    def stuck() -> None:
        release.wait(30)

    async def stuck_async() -> None:
        await asyncio.Event().wait()

    tools = [FunctionTool(stuck, timeout=0.01), FunctionTool(stuck_async, timeout=0.01)]
    calls = [chat.request("stuck"), chat.request("stuck_async")]
    done = make(kind, chat, tools).dispatch(calls)
    release.set()
    for tool in done:
        assert isinstance(tool.status, Failed)
        assert tool.status.failure.code == "timeout"
        assert tool.status.failure.message == "timed out: no result within 0.01 s"


@pytest.mark.parametrize("error", [TimeoutError("its own"), KeyError("x"), KeyboardInterrupt()])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_timeout_does_not_affect_a_tool_that_ends_in_time(
    kind: str, chat: Conversation, error: BaseException, is_async: bool
) -> None:
    """Results and errors are passed on from every kind of tool."""

    async def fine() -> int:
        return 1

    async def bad() -> None:
        raise error

    tools = {
        "fine": FunctionTool(fine if is_async else lambda: 1, "fine", timeout=30),
        "bad": FunctionTool(bad if is_async else raising(error), "bad", timeout=30),
    }
    calls = [chat.request("fine"), chat.request("bad")]
    dispatcher = make(kind, chat, tools)
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            dispatcher.dispatch(calls)
    else:
        dispatcher.dispatch(calls)
    assert chat.tools[calls[0].id].response is not None
    failure = last(chat, ToolFailed).failure
    assert failure.exception == type(error).__name__


# the store


def test_a_result_that_cannot_be_recorded_leaves_the_call_open(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool did its work, so the log does not say that it failed."""
    runs: list[int] = []
    calls = [chat.request("run", {"n": 1}), chat.request("run", {"n": 2})]

    refuse_commands(monkeypatch, "complete", StoreFull("no space"))
    with pytest.raises(StoreFull):
        make(kind, chat, {"run": lambda n: [runs.append(n)]}).dispatch(calls)
    assert runs == [1]
    assert [tool.status.name for tool in chat.tools.values()] == ["Running", "Pending"]


def test_an_interrupt_that_cannot_be_recorded_is_raised(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt has a note; a plain error is replaced by the store's error."""
    refuse_commands(monkeypatch, "fail", StoreFull("no space"))
    tools = {"bad": raising(KeyboardInterrupt()), "worse": raising(KeyError("x"))}
    call = chat.request("bad")
    with pytest.raises(KeyboardInterrupt) as caught:
        make(kind, chat, tools).dispatch([call])
    assert any("was not recorded: no space" in note for note in caught.value.__notes__)
    with pytest.raises(StoreFull):
        make(kind, chat, tools).dispatch([chat.request("worse")])
    assert {tool.status.name for tool in chat.tools.values()} == {"Running"}


# interrupts


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, BaseException])
@pytest.mark.parametrize("parallel", [False, True])
def test_an_interrupt_in_a_tool_closes_the_turn_and_is_raised(
    kind: str, chat: Conversation, error: type[BaseException], parallel: bool
) -> None:
    """The call may have taken effect; calls that had not started are answered as not run."""
    tools = {
        "bad": FunctionTool(raising(error()), "bad", parallel=parallel),
        "wait": FunctionTool(add, needs_approval=True),
        "good": FunctionTool(add, "good", parallel=parallel),
        "add": add,
    }
    names = ["wait", "bad", "good", "add"]
    calls = [chat.request(name, {} if name == "bad" else {"a": 1}) for name in names]
    with pytest.raises(error):
        make(kind, chat, tools).dispatch(calls)
    now = [tool.status.name for tool in chat.tools.values()]
    assert now == ["Pending", "Failed", "Completed" if parallel else "Rejected", "Rejected"]
    event = last(chat, ToolRejected)
    assert (event.source, event.by) == ("rule", "cancelled")
    assert event.details == {"kind": "tool_call_not_executed", "reason": "cancelled"}
    unknown = error in (KeyboardInterrupt, SystemExit, GeneratorExit)
    assert (last(chat, ToolFailed).failure.code == "interrupted") == unknown


def test_an_interrupt_between_start_and_run_leaves_an_unknown_outcome(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start is recorded, and nothing more is known."""
    refuse_commands(monkeypatch, "start", KeyboardInterrupt(), stored=True)
    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 1})]
    with pytest.raises(KeyboardInterrupt):
        make(kind, chat, [add]).dispatch(calls)
    assert [tool.status.name for tool in chat.tools.values()] == ["Failed", "Rejected"]
    assert last(chat, ToolFailed).failure.code == "interrupted"
    assert "may have taken effect" in answers(chat)[calls[0].id]


def test_an_interrupt_while_calls_are_looked_up_closes_the_turn(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for calls that are passed by id, too."""
    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 1})]
    whole = Conversation.tools.fget
    errors = [KeyboardInterrupt()]

    def interrupted(self: Conversation) -> Any:
        if errors:
            raise errors.pop()
        return whole(self)  # type: ignore[misc]

    monkeypatch.setattr(Conversation, "tools", property(interrupted))
    with pytest.raises(KeyboardInterrupt):
        make(kind, chat, [add]).dispatch([calls[0], calls[1].id, "nope"])
    assert tags(chat) == ["pending", "pending", "rejected", "rejected"]
    assert last(chat, ToolRejected).by == "cancelled"


def test_an_interrupt_while_closing_is_noted_on_the_error(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first error is raised; if the store fails as well, a note says so."""
    refuse_commands(monkeypatch, "reject", StoreFull("no space"))
    calls = [chat.request("bad"), chat.request("bad")]
    with pytest.raises(KeyboardInterrupt) as caught:
        make(kind, chat, {"bad": raising(KeyboardInterrupt())}).dispatch(calls)
    assert caught.value.__notes__ == ["not every call could be closed: no space"]


def test_the_most_severe_of_concurrent_errors_is_raised(kind: str, chat: Conversation) -> None:
    """The raised error has a note about the other one."""
    here = threading.Barrier(2, timeout=30)

    def exits() -> None:
        here.wait()
        raise SystemExit(3)

    def interrupts() -> None:
        here.wait()
        raise KeyboardInterrupt

    tools = [FunctionTool(exits, parallel=True), FunctionTool(interrupts, parallel=True)]
    with pytest.raises((SystemExit, KeyboardInterrupt)) as caught:
        make(kind, chat, tools).dispatch([chat.request("exits"), chat.request("interrupts")])
    assert len(caught.value.__notes__) == 1
    assert caught.value.__notes__[0].startswith("and beside it: ")


# settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_calls_per_turn": -1}, "max_calls_per_turn is -1: pass 0 or more"),
        ({"max_calls_per_turn": True}, "max_calls_per_turn is True: pass 0 or more"),
        ({"max_parallel": 0}, "max_parallel is 0: pass 1 or more"),
        ({"gates": len}, "gates is <built-in function len>: pass a list"),
        ({"gates": [5]}, "5 is not a gate: give it allowlist"),
        ({"hooks": [5]}, "one of hooks is 5: pass a function of the Tool"),
        ({"approver": False}, "approver is False: pass a function of the Tool, or None"),
        ({"policy": {"auth"}}, "policy is {'auth'}: pass a ToolErrorPolicy"),
        ({"retry_classifier": 5}, "retry_classifier is 5: pass a RetryClassifier"),
        ({"on_all_empty": "close"}, "on_all_empty is 'close': pass 'open' or 'deny'"),
    ],
)
def test_invalid_options_are_refused(
    kind: str, chat: Conversation, settings: Any, message: str
) -> None:
    """The error is raised before anything is dispatched."""
    with pytest.raises((TypeError, ValueError), match=message):
        make(kind, chat, [add], **settings)


@pytest.mark.parametrize("given", ["support-42", None, 5])
def test_an_object_that_is_not_a_conversation_is_refused(kind: str, given: Any) -> None:
    """The error is raised before anything is dispatched."""
    of = Dispatcher if kind == "threads" else AsyncDispatcher
    with pytest.raises(TypeError, match=r"conversation is .*: pass store\.conversation"):
        of(given, [add])


def test_the_approver_is_called_for_one_call_at_a_time(
    kind: str, store: EventStore, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dispatcher that looks for a decision does not read all events."""
    calls = [chat.request("add", {"a": n}) for n in range(5)]
    read = []
    events = store.session.committer.events

    def reading(*args: Any) -> Any:
        read.append(args)
        return events(*args)

    monkeypatch.setattr(store.session.committer, "events", reading)
    done = make(kind, chat, [ask_first()], approver=lambda _: True).dispatch(calls)
    assert {tool.status.name for tool in done} == {"Completed"}
    assert read == []


def test_a_dispatcher_names_its_conversation_and_tools(kind: str, chat: Conversation) -> None:
    """The tools are in order."""
    inner = make(kind, chat, [add_async, add]).inner
    assert inner.conversation.id == chat.id
    assert inner.tool_names == ("add_async", "add")


def test_an_approval_of_a_call_rejected_meanwhile_changes_nothing(
    kind: str, chat: Conversation
) -> None:
    """The approver answers after the rejection."""
    call = chat.request("add", {"a": 1})
    chat.reject(call.id, by="ada")
    (tool,) = make(kind, chat, [ask_first()], approver=lambda _: True).dispatch([call])
    assert tool.status.name == "Rejected"
    with pytest.raises(IllegalTransition):
        chat.approve(call.id)
