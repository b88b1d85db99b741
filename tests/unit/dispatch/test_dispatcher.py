"""A turn's calls through the dispatcher: run, recorded, retried, refused; in threads and tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from dispatching import Waits, answers, check_log, last, make, raising, tags

from eventstore import (
    Approve,
    AsyncDispatcher,
    Conversation,
    DefaultRetryClassifier,
    Dispatcher,
    ErrorKind,
    EventStore,
    Failed,
    Failure,
    FunctionTool,
    IllegalTransition,
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
from eventstore.testing import together


@pytest.fixture(params=["threads", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which dispatcher."""
    return str(request.param)


@pytest.fixture
def chat() -> Iterator[Conversation]:
    """A conversation in which the user has asked for something."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("support-42")
        chat.add_message("user", "please")
        yield chat
        check_log(chat)


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


async def add_async(a: int, b: int = 1) -> int:
    """Add, as async functions do."""
    return a + b


class Flaky:
    """Fails some times, then gives its count."""

    __name__ = "flaky"

    def __init__(self, times: int, error: Any = None) -> None:
        self.left = times
        self.runs = 0
        self.error = error or ConnectionError("reset")

    def __call__(self) -> int:
        """Run."""
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
    """Sync, async, in between and by another name."""
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
    """A name that is given wins over the function's own."""
    calls = [chat.request(name, {"a": 1}) for name in ("plus", "more")]
    tools = {"plus": lambda a: a + 1, "more": FunctionTool(add, "ignored")}
    done = make(kind, chat, tools).dispatch(calls)
    assert [tool.response.result for tool in done if tool.response] == [2, 2]


def test_calls_may_be_named_by_id(kind: str, chat: Conversation) -> None:
    """What there is no call of is refused, and so is what is no call."""
    call = chat.request("add", {"a": 1})
    dispatcher = make(kind, chat, [add])
    with pytest.raises(UnknownCall, match="no call 'nope'"):
        dispatcher.dispatch([call.id, "nope"])
    with pytest.raises(TypeError, match="Tools that record"):
        dispatcher.dispatch([5])  # type: ignore[list-item]
    assert tags(chat) == ["pending"]
    assert dispatcher.dispatch([call.id])[0].response is not None


def test_the_call_of_another_conversation_is_refused(kind: str, chat: Conversation) -> None:
    """Nothing runs."""
    with EventStore.open("sqlite://") as elsewhere:
        call = elsewhere.conversation("other").request("add", {"a": 1})
    with pytest.raises(UnknownCall):
        make(kind, chat, [FunctionTool(add, needs_approval=True)]).dispatch([call])
    with pytest.raises(UnknownCall):
        make(kind, chat, [add]).dispatch([call])


def test_no_calls_are_dispatched_at_once(kind: str, chat: Conversation) -> None:
    """An empty turn is a turn."""
    assert make(kind, chat, [add]).dispatch([]) == []


def test_a_tool_that_raises_is_recorded_and_the_turn_goes_on(kind: str, chat: Conversation) -> None:
    """The error is data, for the model and for statistics."""
    calls = [chat.request("bad"), chat.request("add", {"a": 1})]
    bad, done = make(kind, chat, {"bad": raising(KeyError("k")), "add": add}).dispatch(calls)
    assert isinstance(bad.status, Failed)
    assert bad.status.failure.exception == "KeyError"
    assert done.response is not None
    assert last(chat, ToolFailed).attempt == 1


def test_a_tool_may_give_a_failure_in_place_of_raising(kind: str, chat: Conversation) -> None:
    """With words for the model that are not those for operators."""
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
def test_a_tool_knows_its_own_errors_best(
    kind: str, chat: Conversation, classify: Any, expected: Any
) -> None:
    """A kind or a whole failure; where that goes wrong, too, what happened is still recorded."""
    tool = FunctionTool(raising(RuntimeError("5")), "bad", classify=classify)
    (tool_,) = make(kind, chat, [tool]).dispatch([chat.request("bad")])
    assert isinstance(tool_.status, Failed)
    assert (tool_.status.failure.kind, tool_.status.failure.message) == expected


def test_a_tool_may_ask_for_its_call(kind: str, chat: Conversation) -> None:
    """Whose id is an idempotency key that a later process knows, too."""
    call = chat.request("pay", {"amount": 5})
    tool = FunctionTool(lambda tool, amount: [tool.id, amount], "pay", takes_tool=True)
    (done,) = make(kind, chat, [tool]).dispatch([call])
    assert done.response is not None
    assert done.response.result == [call.id, 5]


def test_a_tool_that_changes_its_arguments_changes_nothing_else(
    kind: str, chat: Conversation
) -> None:
    """They are its own copy."""

    def greedy(items: list[int]) -> int:
        items.clear()
        return 0

    call = chat.request("greedy", {"items": [1, 2]})
    (done,) = make(kind, chat, [greedy]).dispatch([call])
    assert done.call.arguments == {"items": [1, 2]}
    assert last(chat, ToolRunning).arguments == {"items": [1, 2]}


def test_what_cannot_be_json_is_stored_all_the_same(kind: str, chat: Conversation) -> None:
    """A result is never lost for its form."""
    (done,) = make(kind, chat, {"odd": lambda: {1, 2}}).dispatch([chat.request("odd")])
    assert done.response is not None
    assert last(chat, ToolCompleted).lossy


# what cannot start


def test_an_unknown_tool_fails_with_the_names_there_are(kind: str, chat: Conversation) -> None:
    """The model reads what it may call; the failure says that it is the model's."""
    call = chat.request("nope")
    (tool,) = make(kind, chat, [add]).dispatch([call])
    assert isinstance(tool.status, Failed)
    assert tool.status.failure.message == "Tool `nope` not found"
    assert tool.status.failure.kind is ErrorKind.VALIDATION
    assert tool.status.failure.code == "tool_not_found"
    assert answers(chat)[call.id] == "Tool `nope` not found. Available: add."
    assert tags(chat) == ["pending", "failed"]


def test_a_long_list_of_names_is_cut(kind: str, chat: Conversation) -> None:
    """The first twelve, and how many there are."""
    call = chat.request("nope")
    make(kind, chat, {f"tool{n:02}": add for n in range(15)}).dispatch([call])
    assert answers(chat)[call.id].endswith("tool10, tool11, … (15 in all).")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("{oops", "the arguments of `add` are no JSON object: {oops"),
        ([1], "the arguments of `add` are no JSON object: [1]"),
        ({}, "`add` is missing argument a"),
        ({"a": 1, "c": 2, "d": 3}, "`add` takes no arguments c, d"),
    ],
)
def test_arguments_that_do_not_fit_never_start(
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
    """Those that cannot run, and those that run beside others, use up nothing."""
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
        "Completed", "Failed", "Completed", "Failed", "Completed", "Completed", "Rejected",
    ]  # fmt: skip
    event = last(chat, ToolRejected)
    assert event.source == "limit"
    assert event.reason.startswith("not executed: only the first 1 call of a turn may run")
    assert event.details == {
        "kind": "tool_call_not_executed", "reason": "max_tool_calls_per_turn",
        "total_tool_calls": 5, "limit_counted_tool_calls": 2, "max_executed": 1,
    }  # fmt: skip


def test_a_limit_of_none_at_all_rejects_everything(kind: str, chat: Conversation) -> None:
    """Zero is a limit."""
    (tool,) = make(kind, chat, [add], max_calls_per_turn=0).dispatch(
        [chat.request("add", {"a": 1})]
    )
    assert tool.status.name == "Rejected"


def test_calls_that_have_started_are_left_alone(kind: str, chat: Conversation) -> None:
    """Whatever became of them: only `resume` asks."""
    calls = [chat.request("add", {"a": n}) for n in range(4)]
    chat.start(calls[0].id)
    chat.complete(calls[1].id, "by hand")
    chat.fail(calls[2].id, "no")
    chat.reject(calls[3].id)
    now = list(chat.tools.values())
    version = chat.version
    assert make(kind, chat, [add]).dispatch(now) == now
    assert chat.version == version


def test_another_worker_that_was_first_keeps_the_call(kind: str, chat: Conversation) -> None:
    """The handle is stale, the log is not: nothing runs twice."""
    runs: list[int] = []
    calls = [chat.request("run", {"n": n}) for n in range(2)]
    chat.start(calls[0].id)
    chat.reject(calls[1].id)
    done = make(kind, chat, {"run": lambda n: [runs.append(n)]}).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Running", "Rejected"]
    assert runs == []


def test_who_completes_a_running_call_first_has_completed_it(kind: str, chat: Conversation) -> None:
    """The tool's own result comes too late, and the turn goes on."""
    calls = [chat.request("slow"), chat.request("slow")]

    def slow() -> str:
        if (tool := chat.tools[calls[0].id]).response is None:
            chat.complete(tool.id, "by hand")
        return "by itself"

    first, second = make(kind, chat, [slow]).dispatch(calls)
    assert first.response is not None
    assert second.response is not None
    assert (first.response.result, second.response.result) == ("by hand", "by itself")


def test_another_workers_attempt_is_not_failed_by_one_that_lacks_the_tool(
    kind: str, chat: Conversation
) -> None:
    """It has the call, and this one has an old picture of it."""
    call = chat.request("pay")
    chat.start(call.id)
    (tool,) = make(kind, chat, [add]).dispatch([call])
    assert tool.status.name == "Running"


def test_two_workers_that_dispatch_one_turn_share_it(kind: str, chat: Conversation) -> None:
    """Each call runs once, whoever gets it."""
    runs: list[int] = []
    calls = [chat.request("run", {"n": n}) for n in range(30)]

    def work() -> None:
        make(kind, chat, {"run": lambda n: [runs.append(n)]}).dispatch(calls)

    assert together(work, work, work) == [None] * 3
    assert sorted(runs) == list(range(30))
    assert {tool.status.name for tool in chat.tools.values()} == {"Completed"}


# retries


def test_a_tool_is_run_once_unless_it_carries_a_policy(kind: str, chat: Conversation) -> None:
    """Whatever the error."""
    tool = Flaky(1)
    make(kind, chat, [tool]).dispatch([chat.request("flaky")])
    assert tool.runs == 1


def test_a_failure_that_may_pass_is_retried_after_a_wait(kind: str, chat: Conversation) -> None:
    """The wait is announced in the log before it begins."""
    tool, waits = Flaky(2), Waits()
    spec = FunctionTool(tool, retry=RetryPolicy(5, 0.5, 30))
    (done,) = make(kind, chat, [spec], sleep=waits).dispatch([chat.request("flaky")])
    assert done.response is not None
    assert done.attempts == tool.runs == 3
    assert tags(chat) == ["pending", *["running", "failed"] * 2, "running", "completed"]
    delays = [r.event.delay for r in chat.events() if isinstance(r.event, ToolFailed)]
    assert [delay / 1e6 for delay in delays if delay] == waits.seconds == [0.5, 1.0]


def test_attempts_run_out(kind: str, chat: Conversation) -> None:
    """Exactly as many as the policy allows, and the last failure stands."""
    tool = Flaky(9)
    spec = FunctionTool(tool, retry=RetryPolicy(2))
    (done,) = make(kind, chat, [spec]).dispatch([chat.request("flaky")])
    assert done.status.name == "Failed"
    assert tool.runs == 2
    assert last(chat, ToolFailed).delay is None


def test_the_provider_says_how_long_to_wait(kind: str, chat: Conversation) -> None:
    """Its hint wins over the backoff, up to the policy's cap."""
    waits = Waits()
    hint = Failure(ErrorKind.RATE_LIMIT, "slow down", retry_after=7.0)
    spec = FunctionTool(Flaky(1, hint), retry=RetryPolicy(3, 0.1, 5.0))
    make(kind, chat, [spec], sleep=waits).dispatch([chat.request("flaky")])
    assert waits.seconds == [5.0]


@pytest.mark.parametrize("error", [PermissionError("no"), Failure(ErrorKind.VALIDATION, "no")])
def test_what_will_not_pass_is_not_retried(kind: str, chat: Conversation, error: Any) -> None:
    """Permanent errors, raised or given."""
    tool = Flaky(1, error)
    make(kind, chat, [FunctionTool(tool, retry=RetryPolicy(3))]).dispatch([chat.request("flaky")])
    assert tool.runs == 1


def test_the_host_may_classify_otherwise(kind: str, chat: Conversation) -> None:
    """A classifier sees what was raised."""

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
def test_a_timeout_is_retried_only_where_twice_is_as_good_as_once(
    kind: str, chat: Conversation, idempotent: bool
) -> None:
    """It may have taken effect, and the model is told so."""
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
def test_the_outside_system_is_asked_before_a_retry(
    kind: str, chat: Conversation, outcome: Any, status: str, runs: int
) -> None:
    """Where nobody knows whether an attempt took effect, `verify` may."""
    tool, asked = Flaky(1, TimeoutError("no answer")), []

    def verify(tool: Tool) -> Any:
        asked.append(tool.status.name)
        return outcome

    spec = FunctionTool(tool, retry=RetryPolicy(3), verify=verify)
    (done,) = make(kind, chat, [spec]).dispatch([chat.request("flaky")])
    assert (done.status.name, tool.runs, asked) == (status, runs, ["Failed"])


def test_a_verified_attempt_is_not_retried_without_a_policy(kind: str, chat: Conversation) -> None:
    """That it did not happen allows a retry, and does not ask for one."""
    tool = Flaky(1, TimeoutError("no answer"))
    spec = FunctionTool(tool, verify=lambda _: Outcome.not_done())
    (done,) = make(kind, chat, [spec]).dispatch([chat.request("flaky")])
    assert (done.status.name, tool.runs) == ("Failed", 1)


@pytest.mark.parametrize("answer", ["yes", 1 / 3, True])
def test_a_verify_that_makes_no_sense_is_told(kind: str, chat: Conversation, answer: Any) -> None:
    """After every other call has had its turn; the call stays as it was."""
    spec = FunctionTool(Flaky(1, TimeoutError()), verify=lambda _: answer)
    calls = [chat.request("flaky"), chat.request("add", {"a": 1})]
    with pytest.raises(TypeError, match=r"verify of tool 'flaky' gave .*Outcome.done\(result\)"):
        make(kind, chat, [spec, add]).dispatch(calls)
    assert [tool.status.name for tool in chat.tools.values()] == ["Failed", "Completed"]


# the run's end


def test_the_policy_ends_the_run_after_everything_is_recorded(
    kind: str, chat: Conversation
) -> None:
    """What had not started is closed, the end is in the log, and the caller gets the failure."""
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
        "kind": "tool_call_not_executed", "reason": "sibling_tool_error", "failed_tool": "bad",
    }  # fmt: skip


def test_a_retry_comes_before_the_verdict(kind: str, chat: Conversation) -> None:
    """A policy judges the failure that has settled."""
    policy = ToolErrorPolicy.new().add_terminal_kind(ErrorKind.TRANSIENT)
    retried = FunctionTool(Flaky(1), retry=RetryPolicy(2))
    make(kind, chat, [retried], policy=policy).dispatch([chat.request("flaky")])
    with pytest.raises(ToolErrorTerminal):
        make(kind, chat, [Flaky(1)], policy=policy).dispatch([chat.request("flaky")])


def test_a_terminal_failure_that_the_outside_system_knows_better_ends_nothing(
    kind: str, chat: Conversation
) -> None:
    """It was done after all."""
    policy = ToolErrorPolicy.new().add_terminal_kind(ErrorKind.TRANSIENT)
    spec = FunctionTool(Flaky(1, TimeoutError()), verify=lambda _: Outcome.done(1))
    (done,) = make(kind, chat, [spec], policy=policy).dispatch([chat.request("flaky")])
    assert done.response is not None


def test_the_end_is_raised_even_where_it_cannot_be_recorded(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a note that it was not."""

    def full(*_: Any) -> None:
        raise StoreFull("no space")

    monkeypatch.setattr(Conversation, "append", full)
    policy = ToolErrorPolicy.operator_safe()
    with pytest.raises(ToolErrorTerminal) as caught:
        make(kind, chat, [Flaky(1, PermissionError())], policy=policy).dispatch(
            [chat.request("flaky")]
        )
    assert caught.value.__notes__ == ["the end of the run was not recorded: no space"]


def test_a_run_may_end_with_a_tools_success(kind: str, chat: Conversation) -> None:
    """When all that have a say agree; a failure, an unknown tool and silence do not."""
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
    """A tool that needs approval."""
    return FunctionTool(add, **{"needs_approval": True, **options})


def test_a_call_that_needs_approval_stays_pending_for_another_process(
    kind: str, chat: Conversation
) -> None:
    """What needs none runs meanwhile; once somebody has decided, the call does."""
    calls = [chat.request("add", {"a": 1}), chat.request("free", {"a": 1})]
    dispatcher = make(kind, chat, [ask_first(), FunctionTool(add, "free")])
    assert [tool.status.name for tool in dispatcher.dispatch(calls)] == ["Pending", "Completed"]
    chat.approve(calls[0].id, edited_arguments={"a": 5}, by="ada")
    (done,) = dispatcher.dispatch([calls[0]])  # the handle is stale: nobody is asked again
    assert done.response is not None
    assert done.response.result == 6
    assert done.effective_call.arguments == {"a": 5}


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
    """Each decision has its place in the log; an edit that does not fit fails before it starts."""

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


def test_a_tool_may_say_which_calls_need_approval(kind: str, chat: Conversation) -> None:
    """By its arguments, say."""
    spec = ask_first(needs_approval=lambda tool: tool.effective_call.arguments["a"] > 9)
    calls = [chat.request("add", {"a": n}) for n in (1, 10)]
    done = make(kind, chat, [spec]).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Completed", "Pending"]


def test_a_decision_that_is_none_is_refused(kind: str, chat: Conversation) -> None:
    """The call stays open, and so do those after it: the host has to mend this."""
    calls = [chat.request("add", {"a": 1}), chat.request("free", {"a": 1})]
    tools = [ask_first(), FunctionTool(add, "free")]
    with pytest.raises(TypeError, match="the approver decided 'maybe': give Approve"):
        make(kind, chat, tools, approver=lambda _: "maybe").dispatch(calls)
    assert tags(chat) == ["pending", "pending"]
    done = make(kind, chat, tools, approver=lambda _: True).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Completed", "Completed"]


def test_who_decides_while_the_approver_is_asked_has_decided(kind: str, chat: Conversation) -> None:
    """The first decision stands; the call runs, or does not, as that one says."""

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


def test_hooks_are_asked_in_order_until_one_decides(kind: str, chat: Conversation) -> None:
    """Who decided is in the log."""
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


def test_a_hook_may_allow_what_a_person_would_be_asked(kind: str, chat: Conversation) -> None:
    """With its own arguments; a person's approval is not undone by one."""

    def allow(tool: Tool) -> Approve:
        return Approve({"a": 41})

    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 1})]
    chat.approve(calls[1].id, by="ada")
    done = make(kind, chat, [ask_first()], hooks=[allow]).dispatch(chat.tools.values())
    assert [tool.response.result for tool in done if tool.response] == [42, 2]
    assert [r.event.by for r in chat.events() if isinstance(r.event, ToolApproved)] == [
        "ada", "allow",
    ]  # fmt: skip


def test_a_stuck_loop_ends_the_run(kind: str, chat: Conversation) -> None:
    """The third of three equal calls, where two are allowed; other arguments count apart."""
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


def test_a_guard_that_allows_less_than_nothing_is_refused() -> None:
    """With the remedy."""
    with pytest.raises(ValueError, match="most is -1: pass how often"):
        StuckLoopGuard(-1)


def test_a_hook_that_raises_leaves_everything_open(kind: str, chat: Conversation) -> None:
    """A host's own error is no verdict on the calls: they can be dispatched again."""
    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 2})]
    with pytest.raises(ZeroDivisionError):
        make(kind, chat, [add], hooks=[lambda _: 1 / 0]).dispatch(calls)
    assert tags(chat) == ["pending", "pending"]


def test_terminate_in_the_middle_of_a_batch_lets_nothing_of_it_start(
    kind: str, chat: Conversation
) -> None:
    """Those that had been let through, neither."""

    def no_twos(tool: Tool) -> Terminate | None:
        return Terminate("no twos") if tool.call.arguments["a"] == 2 else None

    calls = [chat.request("add", {"a": n}) for n in (1, 2, 3)]
    with pytest.raises(ToolErrorTerminal, match="no twos"):
        make(kind, chat, [FunctionTool(add, parallel=True)], hooks=[no_twos]).dispatch(calls)
    assert {tool.status.name for tool in chat.tools.values()} == {"Rejected"}


# side by side


def test_parallel_tools_run_at_once_and_answer_in_call_order(kind: str, chat: Conversation) -> None:
    """Each waits until all have begun; one that is not parallel runs between, alone."""
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
    """Or with one that is not, behind them."""
    tools = [FunctionTool(add, "beside", parallel=True), add]
    for names in (["add", "beside", "beside"], ["beside", "add"], ["beside"]):
        calls = [chat.request(name, {"a": 1}) for name in names]
        assert all(tool.response for tool in make(kind, chat, tools).dispatch(calls))


def test_no_more_run_at_once_than_are_allowed(kind: str, chat: Conversation) -> None:
    """Counted where they run."""
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


def test_a_failed_sibling_is_no_reason_to_stop(kind: str, chat: Conversation) -> None:
    """Unless its tool says so."""
    spec = FunctionTool(raising(KeyError("x")), "bad", parallel=True)
    calls = [chat.request("bad"), chat.request("add", {"a": 1})]
    done = make(kind, chat, [spec, FunctionTool(add, parallel=True)]).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Failed", "Completed"]


def test_a_failure_may_keep_later_siblings_from_starting(kind: str, chat: Conversation) -> None:
    """They are told which one, and the run goes on."""
    spec = FunctionTool(raising(KeyError("x")), "bad", abort_siblings=True)
    calls = [chat.request("add", {"a": 1}), chat.request("bad"), chat.request("add", {"a": 1})]
    done = make(kind, chat, [spec, add]).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Completed", "Failed", "Rejected"]
    event = last(chat, ToolRejected)
    assert (event.source, event.reason) == ("sibling", "not executed: `bad` failed before it")
    assert event.details == {
        "kind": "tool_call_not_executed", "reason": "sibling_tool_error", "failed_tool": "bad",
    }  # fmt: skip


def test_a_success_aborts_nobody(kind: str, chat: Conversation) -> None:
    """Whatever its tool says."""
    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 1})]
    done = make(kind, chat, [FunctionTool(add, abort_siblings=True)]).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Completed", "Completed"]


def test_a_terminal_failure_waits_for_those_beside_it(kind: str, chat: Conversation) -> None:
    """They are recorded; only then is the end raised."""
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
        "Failed", "Completed", "Rejected",
    ]  # fmt: skip


def test_a_terminal_failure_ends_the_waits_of_those_beside_it(
    kind: str, chat: Conversation
) -> None:
    """An announced retry does not begin when the run is over, and nobody waits an hour for it."""
    announced = threading.Event()

    def flaky() -> None:
        raise ConnectionError("reset")

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


def test_what_takes_too_long_has_an_unknown_outcome(kind: str, chat: Conversation) -> None:
    """A function in a thread is left behind, an async one is cancelled; both are recorded."""
    import asyncio  # noqa: PLC0415 - as late as the library does

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
        assert tool.status.failure.message == "no result within 0.01 s"


@pytest.mark.parametrize("error", [TimeoutError("its own"), KeyError("x"), KeyboardInterrupt()])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_timeout_changes_nothing_for_what_ends_in_time(
    kind: str, chat: Conversation, error: BaseException, is_async: bool
) -> None:
    """Results and errors come through, from wherever it ran."""

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
    """The tool did its work: that is no failure, and nobody says that it was one."""
    runs: list[int] = []
    calls = [chat.request("run", {"n": 1}), chat.request("run", {"n": 2})]

    def full(*args: Any, **kwargs: Any) -> None:
        raise StoreFull("no space")

    monkeypatch.setattr(Conversation, "_complete", full)
    with pytest.raises(StoreFull):
        make(kind, chat, {"run": lambda n: [runs.append(n)]}).dispatch(calls)
    assert runs == [1]
    assert [tool.status.name for tool in chat.tools.values()] == ["Running", "Pending"]


def test_an_interrupt_that_cannot_be_recorded_is_still_an_interrupt(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a note; a plain error gives way to the store's."""

    def full(*args: Any, **kwargs: Any) -> None:
        raise StoreFull("no space")

    monkeypatch.setattr(Conversation, "_fail", full)
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
    """The call may have taken effect; what had not started is told that it did not run."""
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
    """The start is on disk, or will be; that is all anybody knows."""
    start = Conversation.start

    def interrupted(*args: Any) -> None:
        start(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(Conversation, "start", interrupted)
    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 1})]
    with pytest.raises(KeyboardInterrupt):
        make(kind, chat, [add]).dispatch(calls)
    assert [tool.status.name for tool in chat.tools.values()] == ["Failed", "Rejected"]
    assert last(chat, ToolFailed).failure.code == "interrupted"
    assert "may have taken effect" in answers(chat)[calls[0].id]


def test_an_interrupt_while_calls_are_looked_up_closes_the_turn(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does for calls that need not be looked up."""
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


def test_an_interrupt_while_closing_is_told(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first error is raised; where the store fails as well, a note says so."""

    def full(*args: Any) -> None:
        raise StoreFull("no space")

    monkeypatch.setattr(Conversation, "reject", full)
    calls = [chat.request("bad"), chat.request("bad")]
    with pytest.raises(KeyboardInterrupt) as caught:
        make(kind, chat, {"bad": raising(KeyboardInterrupt())}).dispatch(calls)
    assert caught.value.__notes__ == ["not every call could be closed: no space"]


def test_of_errors_side_by_side_the_worst_is_raised(kind: str, chat: Conversation) -> None:
    """The other is noted on it."""
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
        ({"gates": [5]}, "one of gates is 5: pass a ToolGate"),
        ({"hooks": [5]}, "one of hooks is 5: pass a function of the Tool"),
        ({"approver": False}, "approver is False: pass a function of the Tool, or None"),
        ({"policy": {"auth"}}, "policy is {'auth'}: pass a ToolErrorPolicy"),
        ({"retry_classifier": 5}, "retry_classifier is 5: pass a RetryClassifier"),
        ({"on_all_empty": "close"}, "on_all_empty is 'close': pass 'open' or 'deny'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    kind: str, chat: Conversation, settings: Any, message: str
) -> None:
    """Before anything is dispatched."""
    with pytest.raises((TypeError, ValueError), match=message):
        make(kind, chat, [add], **settings)


@pytest.mark.parametrize("given", ["support-42", None, 5])
def test_what_is_no_conversation_is_refused(kind: str, given: Any) -> None:
    """Before anything is dispatched."""
    of = Dispatcher if kind == "threads" else AsyncDispatcher
    with pytest.raises(TypeError, match=r"conversation is .*: pass store\.conversation"):
        of(given, [add])


def test_many_calls_that_need_approval_are_asked_about_one_by_one(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To see whether somebody has decided yet takes none of them all events."""
    calls = [chat.request("add", {"a": n}) for n in range(5)]
    read = []
    store = chat._store
    events = store.appender.events

    def reading(*args: Any) -> Any:
        read.append(args)
        return events(*args)

    monkeypatch.setattr(store.appender, "events", reading)
    done = make(kind, chat, [ask_first()], approver=lambda _: True).dispatch(calls)
    assert {tool.status.name for tool in done} == {"Completed"}
    assert read == []


def test_a_dispatcher_says_what_it_dispatches(kind: str, chat: Conversation) -> None:
    """Its conversation, and its tools in order."""
    inner = make(kind, chat, [add_async, add]).inner
    assert inner.conversation.id == chat.id
    assert inner.tool_names == ("add_async", "add")


def test_the_log_refuses_what_a_stale_handle_would_do(kind: str, chat: Conversation) -> None:
    """An approver that answers for a call that has been rejected since changes nothing."""
    call = chat.request("add", {"a": 1})
    chat.reject(call.id, by="ada")
    (tool,) = make(kind, chat, [ask_first()], approver=lambda _: True).dispatch([call])
    assert tool.status.name == "Rejected"
    with pytest.raises(IllegalTransition):
        chat.approve(call.id)
