"""clark-agent: gates, the answer to a call of a hidden tool, and rejections in the loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.dispatchers import answers, awaited

from eventstore import (
    AgentError,
    Cancelled,
    Conversation,
    ErrorKind,
    EventStore,
    Failure,
    FatalToolError,
    GateAnswer,
    GateClass,
    OpeningGate,
    ProviderError,
    ProviderErrorKind,
    Rejected,
    Replace,
    RunEnded,
    Tool,
    ToolErrorPolicy,
    ToolErrorTerminal,
    ToolGate,
    ToolGateContext,
    ToolRejected,
    ToolsOffered,
    compose_gates,
    validate,
)
from eventstore.dispatch import AsyncDispatcher, Dispatcher, FunctionTool, Reject
from projections import gate_context, model_history, repair_messages

AVAILABLE = ["frame", "deliver", "ask", "shell", "browse", "write"]


def context(iteration: int = 0, available: Any = AVAILABLE) -> ToolGateContext:
    """Return the context of the gates."""
    return ToolGateContext(iteration, (), "c", available)


class Narrow(ToolGate):
    """A gate with a fixed allowlist."""

    def __init__(
        self,
        name: str,
        allow: set[str] | None,
        priority: int = 0,
        gate_class: GateClass = GateClass.REQUIRED,
        *,
        suppresses: bool = False,
        reason: str | None = None,
    ) -> None:
        self.name = name
        self.allow = allow
        self.priority = priority
        self.gate_class = gate_class
        self.suppresses = suppresses
        self.reason = reason

    def allowlist(self, context: ToolGateContext, /) -> set[str] | None:
        """Return the fixed names."""
        return self.allow

    def suppresses_advisory_gates(self, context: ToolGateContext, /) -> bool:
        """Return the given value."""
        return self.suppresses

    def denial_reason(self, name: str, context: ToolGateContext, /) -> str | None:
        """Return the given reason."""
        return self.reason


# --- opening_gate


def test_opening_gate_narrows_the_first_iteration() -> None:
    """Exactly three of the six tools are visible."""
    gate = OpeningGate(["frame", "deliver", "ask"])
    assert gate.allowlist(context()) == {"frame", "deliver", "ask"}


def test_opening_gate_has_no_opinion_later() -> None:
    """The gate has no opinion from the second model call on."""
    assert OpeningGate(["frame"]).allowlist(context(1)) is None


def test_opening_gate_invents_no_names() -> None:
    """A name that is not registered is not allowed."""
    gate = OpeningGate({"frame", "deliver", "ask"})
    assert gate.allowlist(context(0, ["ask", "deliver", "shell"])) == {"ask", "deliver"}


def test_opening_gate_takes_an_explicit_set() -> None:
    """The gate has no tool names of its own, and gives no reason."""
    gate = OpeningGate(frozenset({"ask"}))
    assert gate.names == {"ask"}
    assert gate.denial_reason("shell", context()) is None


# --- run.rs, gates


def test_disjoint_gates_are_repaired_by_priority() -> None:
    """The gate of the highest priority decides alone and is named."""
    gates = [
        Narrow("browser", {"browser_interact"}, 100),
        Narrow("delivery", {"message_result"}, 10),
    ]
    decision = compose_gates(gates, context(0, []))
    assert decision.allowed == {"browser_interact"}
    assert decision.conflict is not None
    assert decision.conflict.chosen == "browser"
    assert decision.conflict.reason == (
        "empty intersection repaired by highest-priority owner `browser` (priority 100)"
    )


def test_a_suppressor_sets_advisory_gates_aside() -> None:
    """The plan is unchanged; without the suppressor the two would leave one tool."""
    advice = Narrow("advice", {"plan", "message_result", "message_ask"}, 0, GateClass.ADVISORY)
    for suppresses, allowed in ((True, {"plan", "file_write"}), (False, {"plan"})):
        planner = Narrow("planner", {"plan", "file_write"}, 100, suppresses=suppresses)
        assert compose_gates([planner, advice], context()).allowed == allowed


# --- section 5.2, step by step


def test_step_1_all_gates_are_asked_and_on_record() -> None:
    """The gates stand in the order of registration, with those that have no opinion."""
    gates = [Narrow("b", {"shell", "ask"}), Narrow("a", None)]
    assert compose_gates(gates, context()).offered == ToolsOffered(
        0,
        tuple(AVAILABLE),
        ("ask", "shell"),
        (GateAnswer("b", ("ask", "shell")), GateAnswer("a", None)),
    )


@pytest.mark.parametrize(
    ("priority", "gate_class", "kept"),
    [
        (9, GateClass.ADVISORY, False),
        (10, GateClass.ADVISORY, True),
        (11, GateClass.ADVISORY, True),
        (0, GateClass.REQUIRED, True),
    ],
)
def test_step_2_only_advisory_gates_of_lower_priority_are_suppressed(
    priority: int, gate_class: GateClass, kept: bool
) -> None:
    """A gate of equal or higher priority stays, and a required gate always stays."""
    gates = [
        Narrow("strong", {"ask", "shell"}, 10, suppresses=True),
        Narrow("weak", {"shell"}, 3, suppresses=True),
        Narrow("other", {"shell"}, priority, gate_class),
    ]
    assert compose_gates(gates, context()).suppressed == (() if kept else ("other",))


def test_step_2_a_suppressor_without_an_opinion_has_no_effect() -> None:
    """A gate that did not answer suppresses no other."""
    gates = [
        Narrow("silent", None, 100, suppresses=True),
        Narrow("advice", {"ask"}, 0, GateClass.ADVISORY),
    ]
    assert compose_gates(gates, context()).allowed == {"ask"}


def test_step_3_no_answer_left_is_no_narrowing() -> None:
    """Every tool is visible if no gate has an opinion."""
    assert compose_gates([Narrow("a", None)], context()).allowed is None
    assert compose_gates([], context()).allowed is None


def test_step_4_the_intersection_is_not_cut_to_the_registry() -> None:
    """Only the visible names are cut to the registry."""
    gates = [Narrow("a", {"ghost", "ask", "frame"}), Narrow("b", {"ghost", "ask"})]
    decision = compose_gates(gates, context())
    assert decision.allowed == {"ghost", "ask"}
    assert decision.visible == ("ask",)


@pytest.mark.parametrize(
    ("gates", "chosen"),
    [
        ([Narrow("b", {"x"}, 1), Narrow("a", {"y"}, 2)], "a"),
        ([Narrow("b", {"x"}), Narrow("a", {"y", "z"})], "b"),
        ([Narrow("b", {"x"}), Narrow("a", {"y"})], "a"),
        ([Narrow("b", {"x"}), Narrow("a", set(), 9)], "b"),
    ],
    ids=["priority", "smaller set", "name", "an empty set never owns"],
)
def test_step_5_the_owner_of_a_conflict(gates: list[ToolGate], chosen: str) -> None:
    """The highest priority owns it, then the smaller set, then the first name."""
    conflict = compose_gates(gates, context()).conflict
    assert conflict is not None
    assert conflict.chosen == chosen


def test_step_6_all_empty_opens_the_catalogue() -> None:
    """An empty allowlist never disables tools, unless the host asks for that."""
    gates = [Narrow("a", set()), Narrow("b", set())]
    decision = compose_gates(gates, context())
    assert decision.allowed is None
    assert decision.conflict is not None
    assert decision.conflict.as_json() == {
        "gates": ["a", "b"],
        "empty": ["a", "b"],
        "chosen": None,
        "allow": [],
        "reason": "all gating plugins returned empty allowlists",
    }
    assert compose_gates(gates, context(), on_all_empty="deny").allowed == frozenset()


# --- protocol.rs


def reported(
    name: str, gates: list[ToolGate], available: Any = AVAILABLE, policy: Any = None
) -> Any:
    """Return the answer to a call of a hidden tool."""
    return compose_gates(gates, context(0, available)).denial(name, gates, policy)


HIDING = [Narrow("narrow", {"ask", "deliver"})]


def test_the_default_policy_answers_nothing() -> None:
    """An allowed tool needs no answer; without a policy the library gives the text."""
    assert reported("ask", HIDING) is None
    assert reported("shell", HIDING, policy=lambda name, decision: None) == reported(
        "shell", HIDING
    )


def test_no_alias_is_rewritten() -> None:
    """The name that the model used is the name it reads."""
    assert "`Shell `" in reported("Shell ", HIDING).text


def test_the_generic_text_names_what_was_asked_and_what_there_is() -> None:
    """The known names are sorted, and no more than twelve."""
    text = reported("shell", HIDING).text
    assert "`shell`" in text
    assert "ask, deliver" in text
    many = [f"t{n:02}" for n in range(13)]
    text = reported("shell", [Narrow("narrow", set(many))], [*many, "shell"]).text
    assert "t11, …" in text
    assert "13 in all" in text
    assert "t12" not in text


def test_the_generic_details_have_exactly_four_keys() -> None:
    """The details are for the host; the model sees only the text."""
    assert reported("shell", HIDING).details == {
        "runtime_block": True,
        "requested_tool": "shell",
        "allowed_tools": ["ask", "deliver"],
        "gate": "tool_gate",
    }


def test_a_custom_policy_overrides_all() -> None:
    """The policy gives text and details; only a gate's own reason precedes it."""

    def policy(name: str, decision: Any) -> tuple[str, dict[str, Any]]:
        return f"no {name}", {"mine": True}

    denial = reported("shell", HIDING, policy=policy)
    assert (denial.text, denial.details) == ("no shell", {"mine": True})
    silent = Narrow("silent", None, reason="later")
    denial = reported("shell", [*HIDING, silent], policy=policy)
    assert (denial.gate, denial.text, denial.details["gate"]) == ("silent", "later", "silent")


def test_a_hidden_call_never_runs(chat: Conversation) -> None:
    """The first gate with a reason rejects it, the details are for the host, the run continues."""
    ran: list[str] = []
    gates = [Narrow("narrow", {"ask"}), Narrow("policy", None, reason="not before the plan")]
    tools = {"deliver": lambda: ran.append("deliver"), "ask": lambda: ran.append("ask")}
    dispatcher = Dispatcher(chat, tools, gates=gates)
    hidden, seen = dispatcher.dispatch([chat.request("deliver"), chat.request("ask")])
    assert ran == ["ask"]
    assert hidden.status == Rejected("not before the plan", "gate", "policy")
    assert seen.status.name == "Completed"
    (rejected,) = [r.event for r in chat.events() if isinstance(r.event, ToolRejected)]
    assert rejected.details == {
        "runtime_block": True,
        "requested_tool": "deliver",
        "allowed_tools": ["ask"],
        "gate": "policy",
    }
    shown = model_history(chat.events()).render("openai")["messages"]
    assert "not before the plan" in str(shown)
    assert "runtime_block" not in str(shown)


# --- exec tests: the cap on the calls of a turn


def names(tools: list[Tool]) -> list[str]:
    """Return the names of the calls' statuses."""
    return [tool.status.name for tool in tools]


def capped(chat: Conversation, *called: str) -> list[Tool]:
    """Dispatch the calls with a cap of one."""
    tools = [
        FunctionTool(lambda: "w", "work"),
        FunctionTool(lambda: "p", "progress", counted=False),
        FunctionTool(lambda: "r", "read", parallel=True),
    ]
    dispatcher = Dispatcher(chat, tools, max_calls_per_turn=1)
    return dispatcher.dispatch([chat.request(name) for name in called])


def test_cap_a_progress_only_tool_does_not_starve_the_first_work_tool(chat: Conversation) -> None:
    """Its calls do not count for the cap."""
    assert names(capped(chat, "progress", "work")) == ["Completed", "Completed"]


def test_cap_an_extra_counted_call_is_not_executed(chat: Conversation) -> None:
    """The answer names the limit, and the details have the numbers."""
    tools = capped(chat, "work", "work")
    assert names(tools) == ["Completed", "Rejected"]
    (rejected,) = [r.event for r in chat.events() if isinstance(r.event, ToolRejected)]
    assert (rejected.source, rejected.details) == (
        "limit",
        {
            "kind": "tool_call_not_executed",
            "reason": "max_tool_calls_per_turn",
            "total_tool_calls": 2,
            "limit_counted_tool_calls": 2,
            "max_executed": 1,
        },
    )


def test_cap_parallel_safe_reads_are_uncounted(chat: Conversation) -> None:
    """Reads do not compete with a write for the cap."""
    assert set(names(capped(chat, "read", "work", "read"))) == {"Completed"}


@pytest.mark.parametrize("name", ["glitch", ""])
def test_cap_unknown_and_blank_names_are_uncounted(chat: Conversation, name: str) -> None:
    """An invalid call uses up no slot; of two real calls the second is still not executed."""
    for called, ended in (
        (["work"], ["Failed", "Completed"]),
        (["work", "work"], ["Failed", "Completed", "Rejected"]),
    ):
        message = turn(*"abc"[: len(called) + 1])
        for call, wanted in zip(message["tool_calls"], [name, *called], strict=True):
            call["function"]["name"] = wanted
        dispatcher = Dispatcher(chat, {"work": lambda: "w"}, max_calls_per_turn=1)
        assert names(dispatcher.dispatch(chat.record(message))) == ended


def test_failed_validation_is_explained_and_the_run_goes_on(chat: Conversation) -> None:
    """The call does not run, uses its place of the turn, and the sibling has its answer."""

    def work(pages: int) -> int:
        return pages

    calls = [chat.request("work", {"pages": pages}) for pages in ("nine", 9)]
    failed, done = Dispatcher(chat, [work], max_calls_per_turn=2).dispatch(calls)
    assert names([failed, done]) == ["Failed", "Completed"]
    assert failed.attempts == 0
    reported = str(model_history(chat.events()).render("openai"))
    assert "Expected `int`, got `str` - at `$.pages`" in reported


# --- exec tests: the vote on the end of the run


def vote(chat: Conversation, *called: str) -> bool:
    """Return whether the run may end after these calls."""
    tools = [
        FunctionTool(lambda: 1, "final", ends_run=True),
        FunctionTool(lambda: 1, "other", ends_run=False),
        FunctionTool(lambda: 1, "advisory", ends_run=None),
    ]
    dispatcher = Dispatcher(chat, tools)
    return dispatcher.ends_run(dispatcher.dispatch([chat.request(name) for name in called]))


@pytest.mark.parametrize(
    ("called", "ends"),
    [
        (["final", "advisory"], True),
        (["final", "other"], False),
        (["advisory", "advisory"], False),
        ([], False),
        (["final", "unknown"], False),
    ],
    ids=["opted-out siblings", "a counted one did not vote", "all advisory", "empty", "unknown"],
)
def test_vote(chat: Conversation, called: list[str], ends: bool) -> None:
    """All counted calls have to vote for it, and at least one has to count."""
    assert vote(chat, *called) is ends


# --- loop_smoke


def test_loop_one_call_then_the_end(chat: Conversation) -> None:
    """The log has user, assistant and result, and the start precedes the end."""
    chat.add_message("user", "go")
    dispatcher = Dispatcher(chat, [FunctionTool(lambda: "done", "finish", ends_run=True)])
    tools = dispatcher.dispatch([chat.request("finish")])
    assert dispatcher.ends_run(tools)
    assert [r.event.tag for r in chat.events()] == ["message", "pending", "running", "completed"]
    shown = model_history(chat.events()).render("openai")["messages"]
    assert [message["role"] for message in shown] == ["user", "assistant", "tool"]


def test_loop_a_hook_blocks(chat: Conversation) -> None:
    """The call has an error result, and no start."""
    dispatcher = Dispatcher(
        chat, {"fruit": lambda: "banana"}, hooks=[lambda tool: Reject("no bananas allowed")]
    )
    (tool,) = dispatcher.dispatch([chat.request("fruit")])
    assert tool.try_to_tuple()[1].result == {"error": "no bananas allowed"}
    assert answers(chat) == {tool.id: "no bananas allowed"}
    assert [r.event.tag for r in chat.events()] == ["pending", "rejected"]


def test_loop_both_calls_stay_when_one_is_over_the_cap(chat: Conversation) -> None:
    """The assistant's message is whole, and each call has one answer."""
    chat.add_message("user", "go")
    first, second = capped(chat, "work", "work")
    shown = model_history(chat.events(), collapse="none").render("openai")["messages"]
    assert [call["id"] for call in shown[1]["tool_calls"]] == [first.id, second.id]
    assert [message["tool_call_id"] for message in shown[2:]] == [first.id, second.id]
    assert "not executed" in shown[3]["content"]
    assert "only the first 1 call" in shown[3]["content"]
    assert validate(shown, "openai") == []


def test_loop_a_result_flagged_as_an_error_stays_context(chat: Conversation) -> None:
    """A tool may return a failure; the model reads it, and the run continues."""
    failure = Failure(ErrorKind.VALIDATION, "no such city")
    (tool,) = Dispatcher(chat, {"weather": lambda: failure}).dispatch([chat.request("weather")])
    shown = model_history(chat.events()).render("anthropic")["messages"]
    (block,) = shown[-1]["content"]
    assert (block["is_error"], "no such city" in str(block["content"])) == (True, True)
    assert tool.status.name == "Failed"


def broken() -> None:
    """Fail."""
    raise RuntimeError("disk full")


def test_loop_an_execution_error_stays_context(chat: Conversation) -> None:
    """A failing tool does not stop the run by itself."""
    (tool,) = Dispatcher(chat, [broken]).dispatch([chat.request("broken")])
    assert "disk full" in str(tool.to_tuple()[1])


def test_loop_a_fatal_error_of_a_tool_ends_the_run(chat: Conversation) -> None:
    """The tool decides; there the call has no answer, here it has its failure."""

    def write() -> None:
        raise FatalToolError("disk full")

    calls = [chat.request("write"), chat.request("broken")]
    with pytest.raises(ToolErrorTerminal, match="disk full"):
        Dispatcher(chat, [write, broken]).dispatch(calls)
    assert names(list(chat.tools.values())) == ["Failed", "Rejected"]
    assert [r.event.tag for r in chat.events()][-1] == "run_ended"


def test_loop_a_fatal_kind_of_errors_ends_the_run(chat: Conversation) -> None:
    """A policy may decide which failures are fatal, whatever the tool."""
    policy = ToolErrorPolicy.new().add_terminal_kind(ErrorKind.INTERNAL)
    with pytest.raises(ToolErrorTerminal, match="disk full"):
        Dispatcher(chat, [broken], policy=policy).dispatch([chat.request("broken")])
    assert names(list(chat.tools.values())) == ["Failed"]
    assert [r.event.tag for r in chat.events()][-1] == "run_ended"


def test_loop_an_aborted_tool_ends_the_run(chat: Conversation) -> None:
    """This holds for any exception, and the caller gets it."""

    def abort() -> None:
        raise SystemExit(3)

    calls = [chat.request("abort"), chat.request("broken")]
    with pytest.raises(SystemExit):
        Dispatcher(chat, [abort, broken]).dispatch(calls)
    assert names(list(chat.tools.values())) == ["Failed", "Rejected"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ProviderError(ProviderErrorKind.SERVER_ERROR, "overloaded"), "error"),
        (ProviderError(ProviderErrorKind.INVALID_RESPONSE, "empty"), "error"),
        (Cancelled(), "cancelled"),
    ],
    ids=["transient", "empty", "aborted"],
)
def test_loop_a_stream_error_ends_the_run(
    chat: Conversation, error: AgentError, reason: str
) -> None:
    """The model call is the host's; the unfinished message stays valid to render."""
    chat.add_message("user", "go")
    chat.request("f", '{"half')
    chat.append(RunEnded(reason, Failure.from_exception(error)))
    ended: Any = list(chat.events())[-1].event
    assert (ended.reason, ended.failure.message) == (reason, str(error))
    shown = model_history(chat.events()).render("openai")["messages"]
    assert validate(shown, "openai") == []


def test_loop_a_leaked_progress_sender_does_not_hang(chat: Conversation) -> None:
    """A tool that leaves something running does not block the turn."""
    end = threading.Event()

    def leak() -> str:
        threading.Thread(target=end.wait, args=(30,), daemon=True).start()
        return "done"

    assert names(Dispatcher(chat, [leak]).dispatch([chat.request("leak")])) == ["Completed"]
    end.set()


# --- sibling_abort


def siblings(chat: Conversation, *, aborts: bool) -> tuple[list[Tool], list[str]]:
    """Run a failing tool beside a slow one; return the calls and the events of the slow one."""
    seen: list[str] = []

    async def main() -> list[Tool]:
        begun = asyncio.Event()

        async def fail() -> None:
            await begun.wait()
            raise RuntimeError("no")

        async def slow() -> str:
            begun.set()
            try:
                for _ in range(3):
                    await asyncio.sleep(0)
                if aborts:
                    await asyncio.Event().wait()  # for ever
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            seen.append("finished")
            return "done"

        tools = [
            FunctionTool(fail, parallel=True, abort_siblings=aborts),
            FunctionTool(slow, parallel=True),
        ]
        calls = [chat.request("fail"), chat.request("slow")]
        async with asyncio.timeout(30):
            return await AsyncDispatcher(awaited(chat), tools).dispatch(calls)

    return asyncio.run(main()), seen


def test_sibling_abort_cancels_a_parallel_sibling(chat: Conversation) -> None:
    """Both calls have a result, and both results are errors."""
    tools, seen = siblings(chat, aborts=True)
    assert (names(tools), seen) == (["Failed", "Failed"], ["cancelled"])


def test_sibling_abort_without_the_opt_in(chat: Conversation) -> None:
    """The sibling runs to its end."""
    tools, seen = siblings(chat, aborts=False)
    assert (names(tools), seen) == (["Failed", "Completed"], ["finished"])


def test_sibling_abort_in_sequence(chat: Conversation) -> None:
    """The later sibling never starts, and its answer names the failed one."""
    tools = [FunctionTool(broken, abort_siblings=True), FunctionTool(lambda: 1, "later")]
    ran = Dispatcher(chat, tools).dispatch([chat.request("broken"), chat.request("later")])
    assert names(ran) == ["Failed", "Rejected"]
    assert "`broken`" in str(ran[1].to_tuple()[1])
    (rejected,) = [r.event for r in chat.events() if isinstance(r.event, ToolRejected)]
    assert (rejected.source, rejected.details) == (
        "sibling",
        {
            "kind": "tool_call_not_executed",
            "reason": "sibling_tool_error",
            "failed_tool": "broken",
        },
    )


def test_sibling_abort_of_a_success(chat: Conversation) -> None:
    """No sibling is aborted."""
    tools = [FunctionTool(lambda: 1, "first", abort_siblings=True), FunctionTool(lambda: 1, "next")]
    ran = Dispatcher(chat, tools).dispatch([chat.request("first"), chat.request("next")])
    assert names(ran) == ["Completed", "Completed"]


def test_sibling_abort_keeps_parallel_tools_parallel(chat: Conversation) -> None:
    """Both run at the same time."""
    together = threading.Barrier(2)

    def meet() -> bool:
        return together.wait(30) >= 0

    spec = FunctionTool(meet, parallel=True, abort_siblings=True)
    assert names(Dispatcher(chat, [spec]).dispatch([chat.request("meet") for _ in "ab"])) == [
        "Completed",
        "Completed",
    ]


# --- history: ids are unique in the log, and wherever a provider asks for that


def turn(*ids: str) -> dict[str, Any]:
    """Return an assistant message with calls."""
    return {
        "role": "assistant",
        "tool_calls": [
            {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids
        ],
    }


def result(call_id: str, content: str) -> dict[str, Any]:
    """Return a result message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def pairs(chat: Conversation, *messages: Any) -> dict[str, Any]:
    """Return each call of the log with its result; assert that every provider's view is valid."""
    chat.record_messages([{"role": "user", "content": "go"}, *messages])
    view = model_history(chat.events(), collapse="none")
    for provider in ("openai", "anthropic"):
        shown = view.render(provider)["messages"]
        assert validate(shown, provider) == []
        assert repair_messages(shown, provider).messages == shown
    tools = chat.tools.values()
    return {tool.id: tool.response and tool.response.result for tool in tools}


def test_history_a_reused_id_is_renamed_together_with_its_result(chat: Conversation) -> None:
    """The first use keeps its id; the result of the second is renamed with it."""
    found = pairs(
        chat, turn("call_1"), result("call_1", "a"), turn("call_1"), result("call_1", "b")
    )
    (first, second) = found
    assert (first, second.startswith("call_1")) == ("call_1", True)
    assert list(found.values()) == ["a", "b"]


def test_history_two_equal_ids_in_one_batch_are_paired_by_position(chat: Conversation) -> None:
    """The first result belongs to the first call, in the rendered request, too."""
    found = pairs(chat, turn("call_1", "call_1"), result("call_1", "a"), result("call_1", "b"))
    assert list(found.values()) == ["a", "b"]
    shown = model_history(chat.events(), collapse="none").render("openai")["messages"]
    called = [call["id"] for call in shown[1]["tool_calls"]]
    assert len(set(called)) == 2
    assert [(m["tool_call_id"], m["content"]) for m in shown[2:]] == [
        (called[0], "a"),
        (called[1], "b"),
    ]


def test_history_a_new_id_is_not_an_existing_one(store: EventStore, chat: Conversation) -> None:
    """There an id is numbered past those in use; here it is qualified."""
    twice = (turn("call_1", "call_1"), result("call_1", "a"), result("call_1", "b"))
    taken = list(pairs(store.conversation("other"), *twice))[1]
    found = pairs(chat, turn(taken), result(taken, "z"), *twice)
    assert list(found.values()) == ["z", "a", "b"]
    assert list(found)[:2] == [taken, "call_1"]


# --- defects


class Watching(ToolGate):
    """A gate that keeps its contexts."""

    name = "watching"

    def __init__(self) -> None:
        self.seen: list[ToolGateContext] = []

    def allowlist(self, context: ToolGateContext, /) -> set[str]:
        """Return one name, and keep the context."""
        self.seen.append(context)
        return {"ask"}

    def denial_reason(self, name: str, context: ToolGateContext, /) -> str:
        """Return a reason, and keep the context."""
        self.seen.append(context)
        return f"iteration {context.iteration}, {len(context.messages)} messages"


def test_defect_the_denial_sees_another_context_than_the_gating(chat: Conversation) -> None:
    """Here both get the same object, with iteration and messages as the model chose."""
    gate = Watching()
    dispatcher = Dispatcher(
        chat, {"ask": lambda: 1, "shell": lambda: 1}, gates=[gate], gate_context=gate_context
    )
    chat.add_message("user", "go")
    offered = dispatcher.offer()
    (tool,) = dispatcher.dispatch([chat.request("shell")])
    assert all(seen is offered.context for seen in gate.seen)
    assert tool.status == Rejected("iteration 0, 1 messages", "gate", "watching")


def test_defect_a_conflict_lists_gates_with_empty_sets_as_if_they_had_a_say() -> None:
    """Here all counted gates are listed, and those with empty sets separately."""
    gates = [Narrow("a", {"ask"}), Narrow("b", set()), Narrow("c", {"shell"}), Narrow("d", None)]
    conflict = compose_gates(gates, context()).conflict
    assert conflict is not None
    assert (conflict.gates, conflict.empty) == (("a", "b", "c"), ("b",))


def test_defect_an_aborted_tool_leaves_its_call_unanswered() -> None:
    """Here every call of the turn is closed, and the history is valid."""

    def abort() -> None:
        raise KeyboardInterrupt

    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.add_message("user", "go")
        calls = [chat.request(name) for name in ("broken", "abort", "broken")]
        with pytest.raises(KeyboardInterrupt):
            Dispatcher(chat, [abort, broken]).dispatch(calls)
        assert all(tool.is_resolved for tool in chat.tools.values())
        for provider in ("openai", "anthropic"):
            shown = model_history(chat.events()).render(provider)["messages"]
            assert validate(shown, provider) == []


def test_loop_an_after_hook_overrides_a_result(chat: Conversation) -> None:
    """There it sees failed and denied calls as well. Here it sees results alone."""
    seen: list[str] = []

    def after(tool: Tool, result: object) -> Replace:
        seen.append(tool.call.name)
        return Replace(f"checked {result}")

    dispatcher = Dispatcher(chat, {"f": lambda: 1, "broken": broken}, after_hooks=[after])
    done, _ = dispatcher.dispatch([chat.request("f"), chat.request("broken")])
    assert done.response is not None
    assert (done.response.result, seen) == ("checked 1", ["f"])


def test_the_model_reads_the_denial_alone_and_the_details_stay_with_the_host(
    chat: Conversation,
) -> None:
    """In clark: "Details stay host-side; the model sees only the text"."""
    dispatcher = Dispatcher(
        chat,
        {"look": lambda: 1, "deliver": lambda: 2},
        gates=[Narrow("opening", {"look"}, reason="Look at the order first.")],
    )
    dispatcher.offer()
    (refused,) = dispatcher.dispatch([chat.request("deliver")])
    assert answers(chat) == {refused.id: "Look at the order first."}
    assert refused.try_to_tuple()[1].result == {"error": "Look at the order first."}
    rejected = next(r.event for r in chat.events() if isinstance(r.event, ToolRejected))
    assert rejected.details is not None
    assert rejected.details["gate"] == "opening"


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("next_turn_tool_allowlist", "allowlist"),
        ("conflict_priority", "priority"),
        ("tool_gate_class", "gate_class"),
    ],
)
def test_a_gate_that_is_brought_over_unchanged_is_refused(name: str, here: str) -> None:
    """The method has another name here, and would have no effect."""
    with pytest.raises(TypeError, match=f"{name}.* to {here}"):
        type("Ported", (OpeningGate,), {name: lambda *_: None})({"look"})
