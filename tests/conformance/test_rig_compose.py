"""rig-compose: fingerprints, retry classes, the repair of histories, dispatch hooks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from eventstore import (
    Conversation,
    DefaultRetryClassifier,
    ErrorKind,
    Failure,
    FunctionCall,
    GateAnswer,
    NotApplicable,
    ResultLimits,
    RetryClass,
    Tool,
    ToolCompleted,
    ToolError,
    ToolErrorTerminal,
    ToolGate,
    ToolGateContext,
    ToolRejected,
    compose_gates,
    fingerprint,
    validate,
)
from eventstore.dispatch import Dispatcher, Skip, StuckLoopGuard, Terminate
from projections import HistoryEntry, model_history, repair_history

DEFAULT = DefaultRetryClassifier()

# xxh3_128 of ["search",{"limit":5,"q":"rig"}]
KNOWN = "x1:720b606342a765f6e4107d1dd28a4331"


def call(name: str, **arguments: object) -> FunctionCall:
    """Return a call with these arguments."""
    return FunctionCall(name, arguments)


def done(query: str, output: object) -> HistoryEntry:
    """Return a search that completed."""
    return HistoryEntry.completed(call("search", q=query), output)


def failed(query: str, retry_class: RetryClass, message: str) -> HistoryEntry:
    """Return a search that failed."""
    return HistoryEntry.failed(call("search", q=query), retry_class, message=message)


# --- reliability.rs


@pytest.mark.parametrize(
    "error", [ToolError("search", "1", "flake"), RuntimeError("the skill failed")], ids=repr
)
def test_default_classifier_marks_tool_failed_transient(error: Exception) -> None:
    """A call that raised an error may run again."""
    assert DEFAULT.classify(error) is RetryClass.TRANSIENT


def json_error() -> Exception:
    """Return the exception of broken JSON."""
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ErrorKind.VALIDATION, id="ToolNotFound"),
        pytest.param(PermissionError("not for this agent"), id="ToolNotAuthorised"),
        pytest.param(ErrorKind.VALIDATION, id="SkillNotFound"),
        pytest.param(NotApplicable("no such index"), id="ToolNotApplicable"),
        pytest.param(ErrorKind.VALIDATION, id="InvalidArgument"),
        pytest.param(ErrorKind.VALIDATION, id="NormalizerFailed"),
        pytest.param(
            ToolErrorTerminal(
                Failure(ErrorKind.INTERNAL, "limit hit"), Tool("1", FunctionCall("f", {}))
            ),
            id="ToolDispatchTerminated",
        ),
        pytest.param(ErrorKind.QUOTA, id="BudgetFailed"),
        pytest.param(json_error(), id="Serde"),
    ],
)
def test_default_classifier_marks_policy_errors_permanent(error: Exception | ErrorKind) -> None:
    """A refused call may not run again; each of their variants is one of our kinds or errors."""
    assert DEFAULT.classify(error) is RetryClass.PERMANENT


def test_fingerprint_is_stable_for_same_invocation() -> None:
    """Equal calls have equal fingerprints."""
    one, other = (fingerprint("search", {"q": "rig", "limit": 5}) for _ in range(2))
    assert one == other


def test_fingerprint_is_order_independent_for_object_args() -> None:
    """This holds at every level; the order of a list counts."""
    one = {"q": "rig", "in": {"a": 1, "b": [1, 2]}}
    other = {"in": {"b": [1, 2], "a": 1}, "q": "rig"}
    assert fingerprint("search", one) == fingerprint("search", other)
    assert fingerprint("search", {"b": [1, 2]}) != fingerprint("search", {"b": [2, 1]})


def test_fingerprint_differs_when_args_differ() -> None:
    """A call with another query has another fingerprint."""
    assert fingerprint("search", {"q": "rig"}) != fingerprint("search", {"q": "tokio"})


def test_fingerprint_differs_when_tool_name_differs() -> None:
    """The name counts, and is separated from the arguments."""
    assert fingerprint("search", {"q": "rig"}) != fingerprint("lookup", {"q": "rig"})


def test_repair_keeps_first_completion_after_retries() -> None:
    """The first answer stays."""
    entries = [
        failed("rig", RetryClass.TRANSIENT, "timeout"),
        done("rig", {"hits": 1}),
        done("rig", {"hits": 99}),
    ]
    assert repair_history(entries) == [done("rig", {"hits": 1})]


def test_repair_keeps_last_failure_when_no_completion() -> None:
    """The failure keeps its own class: transient became permanent."""
    last = failed("rig", RetryClass.PERMANENT, "last")
    assert repair_history([failed("rig", RetryClass.TRANSIENT, "first"), last]) == [last]


def test_repair_preserves_first_occurrence_order_across_fingerprints() -> None:
    """There is one entry for each call, in the order of the first calls."""
    entries = [done("a", 1), done("b", 2), done("a", "ignored")]
    assert repair_history(entries) == [done("a", 1), done("b", 2)]
    late = [failed("a", RetryClass.TRANSIENT, "x"), done("b", 2), done("a", 1)]
    assert repair_history(late) == [done("a", 1), done("b", 2)], "the survivor moves up"


def test_repair_is_idempotent() -> None:
    """A second repair changes nothing."""
    once = repair_history([failed("rig", RetryClass.TRANSIENT, "x"), done("rig", 1)])
    assert repair_history(once) == once


def test_repair_on_empty_history_returns_empty() -> None:
    """An empty history has no entries."""
    assert repair_history([]) == []


def test_history_entry_failed_helper_records_classifier_verdict() -> None:
    """The entry has the classifier's class and the error's message."""
    entry = HistoryEntry.failed(call("search"), ToolError("search", "1", "flake"), DEFAULT)
    assert entry.retry_class is RetryClass.TRANSIENT
    assert entry.message is not None
    assert "flake" in entry.message


def guarded(chat: Conversation, most: int) -> Callable[[str], str | None]:
    """Return a function that makes a call and returns why the run ended, None if it goes on."""
    dispatcher = Dispatcher(chat, [lookup], hooks=[StuckLoopGuard(most)])

    def make(query: str) -> str | None:
        try:
            dispatcher.dispatch([chat.request("lookup", {"q": query})])
        except ToolErrorTerminal as error:
            return error.failure.message
        return None

    return make


def lookup(q: str) -> str:
    """Return the query."""
    return q


def test_stuck_loop_terminates_after_threshold(chat: Conversation) -> None:
    """Two are allowed, and the third ends the run."""
    make = guarded(chat, 2)
    assert [make("a"), make("a")] == [None, None]
    assert make("a") == "stuck loop detected: `lookup` has been called 3 times"


def test_stuck_loop_tracks_multiple_distinct_tools(chat: Conversation) -> None:
    """Each call has a count of its own, and the count goes on growing."""
    make = guarded(chat, 1)
    assert [make("a"), make("b")] == [None, None]
    assert "2 times" in str(make("a"))
    assert "2 times" in str(make("b"))
    assert "3 times" in str(make("a"))


def test_stuck_loop_of_none_stops_the_first_call(chat: Conversation) -> None:
    """A limit of zero allows no call."""
    assert "1 times" in str(guarded(chat, 0)("a"))


# --- tests/dispatch_trace.rs: the log is the trace


def tags(chat: Conversation) -> list[str]:
    """Return the tags of the events, in order."""
    return [recorded.event.tag for recorded in chat.events()]


def test_trace_of_a_call_that_goes_on(chat: Conversation) -> None:
    """After a hook without a decision the call is started, then completed."""
    asked: list[str] = []

    def go_on(tool: Tool) -> None:
        asked.append(tool.id)

    tool = chat.request("lookup", {"q": "a"})
    Dispatcher(chat, [lookup], hooks=[go_on]).dispatch([tool])
    assert asked == [tool.id]
    assert tags(chat) == ["pending", "running", "completed"]


def test_trace_of_a_skip(chat: Conversation) -> None:
    """The call has one synthetic answer with the hook and its reason, and nothing ran."""
    tool = chat.request("lookup", {"q": "a"})

    def cache(tool: Tool) -> Skip:
        return Skip({"cached": True}, reason="policy")

    (skipped,) = Dispatcher(chat, [lookup], hooks=[cache]).dispatch([tool])
    assert tags(chat) == ["pending", "completed"]
    answer = list(chat.events())[-1].event
    assert isinstance(answer, ToolCompleted)
    assert (answer.synthetic, answer.response.result) == (True, {"cached": True})
    assert (answer.by, answer.reason) == ("cache", "policy")
    assert skipped.attempts == 0


def test_trace_of_a_termination(chat: Conversation) -> None:
    """The caller gets the reason, the log names the hook, and the call has its answer."""

    def limit(tool: Tool) -> Terminate:
        return Terminate("limit hit")

    tool = chat.request("lookup", {"q": "a"})
    with pytest.raises(ToolErrorTerminal, match="limit hit"):
        Dispatcher(chat, [lookup], hooks=[limit]).dispatch([tool])
    (refused,) = [r.event for r in chat.events() if isinstance(r.event, ToolRejected)]
    assert (refused.source, refused.by) == ("hook", "limit")
    assert "limit hit" in str(refused.reason)


def test_trace_of_a_hook_that_fails(chat: Conversation) -> None:
    """The hook's own error reaches the caller, the tool does not run, and the call stays open.

    There hooks are told to clean up; here nothing is held open that would need it.
    """
    asked: list[str] = []

    def budget(tool: Tool) -> None:
        raise LookupError("no budget service")

    hooks = [lambda tool: asked.append("first"), budget, lambda tool: asked.append("third")]
    tool = chat.request("lookup", {"q": "a"})
    with pytest.raises(LookupError, match="no budget service"):
        Dispatcher(chat, [lookup], hooks=hooks).dispatch([tool])
    assert asked == ["first"]
    assert tags(chat) == ["pending", "hook_raised"]


# --- registry.rs


class Scope(ToolGate):
    """Some of the registered tools."""

    name = "scope"

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def allowlist(self, context: ToolGateContext, /) -> set[str]:
        """Return the same names each time."""
        return self.names


def test_registry_a_scope_sees_what_is_in_it(chat: Conversation) -> None:
    """A tool inside the scope runs, one outside is rejected, an unknown one is not found."""
    tools = {"a": lambda: "A", "b": lambda: "B"}
    dispatcher = Dispatcher(chat, tools, gates=[Scope("a", "c")])
    ran = dispatcher.dispatch([chat.request(name) for name in ("a", "b", "c")])
    assert [tool.status.name for tool in ran] == ["Completed", "Rejected", "Failed"]
    assert "`b` is not available" in str(ran[1].to_tuple()[1])
    assert "`c` not found" in str(ran[2].to_tuple()[1])


def test_registry_descriptors_honour_the_scope() -> None:
    """There they are sorted by name. Here they have the registry's order, as in clark-agent.

    The recorded names that a gate allowed are sorted.
    """
    context = ToolGateContext(0, (), None, ("c", "b", "a"))
    decision = compose_gates([Scope("a", "c")], context)
    assert decision.visible == ("c", "a")
    assert decision.answers == (GateAnswer("scope", ("a", "c")),)


# --- normalizer.rs


def recorded(chat: Conversation, arguments: object, name: str = "search") -> Tool:
    """Return the result of recording a call as OpenAI Chat writes it."""
    function = {"name": name, "arguments": arguments}
    message = {
        "role": "assistant",
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    (tool,) = chat.record(message)
    return tool


def test_normalizer_chat_tool_calls_become_calls(chat: Conversation) -> None:
    """The call has name, arguments and the id, which is dropped there."""
    tool = recorded(chat, '{"q": "rig"}')
    assert tool.call == FunctionCall("search", {"q": "rig"}, "call_1")


@pytest.mark.parametrize("arguments", ['{"q": 1}', {"q": 1}])
def test_normalizer_arguments_may_be_text_or_an_object(
    chat: Conversation, arguments: object
) -> None:
    """Some providers send the one, some the other."""
    assert recorded(chat, arguments).call.arguments == {"q": 1}


@pytest.mark.parametrize("arguments", [None, "", "  ", "null", "{}"])
def test_normalizer_no_arguments_are_an_empty_object(chat: Conversation, arguments: object) -> None:
    """Null, blank and missing arguments mean the same."""
    call = recorded(chat, arguments).call
    assert (call.arguments, call.is_object) == ({}, True)


def test_normalizer_broken_json_is_kept_and_answered(chat: Conversation) -> None:
    """There the whole batch fails. Here the raw text is kept, and the model reads the problem."""
    tool = recorded(chat, '{"q": ')
    assert (tool.call.raw, tool.call.is_object) == ('{"q": ', False)
    (closed,) = Dispatcher(chat, {"search": lookup}).dispatch([tool])
    assert closed.status.name == "Failed"
    assert "not a JSON object" in str(closed.to_tuple()[1])


@pytest.mark.parametrize("message", [{"role": "assistant", "content": "hello"}])
def test_normalizer_a_message_without_calls_has_none(chat: Conversation, message: Any) -> None:
    """A text is never read as a call."""
    assert chat.record(message) == []


@pytest.mark.parametrize("name", ["read file", "näme", "a/b"])
def test_normalizer_an_invalid_tool_name_never_reaches_a_provider(
    chat: Conversation, name: str
) -> None:
    """There it is refused.

    Here the log keeps what the model wrote, and the request has a valid name.
    """
    tool = recorded(chat, "{}", name)
    assert tool.call.name == name
    (closed,) = Dispatcher(chat, [lookup]).dispatch([tool])
    assert closed.status.name == "Failed"
    for provider in ("openai", "anthropic"):
        assert validate(model_history(chat.events()).render(provider)["messages"], provider) == []


# --- defects


def test_defect_the_fingerprint_cannot_be_kept() -> None:
    """Here the recipe is written down with a version, and the text is stored in logs."""
    assert fingerprint("search", {"q": "rig", "limit": 5}) == KNOWN
    assert fingerprint("search", {"limit": 5, "q": "rig"}) == KNOWN


def test_defect_the_first_failure_loses_the_results_before_it(chat: Conversation) -> None:
    """Here each call has its own events and id, so a failure affects no other call."""

    def fail() -> None:
        raise RuntimeError("flake")

    dispatcher = Dispatcher(chat, {"a": lambda: "A", "fail": fail, "b": lambda: "B"})
    calls = [chat.request(name, {}, f"id_{name}") for name in ("a", "fail", "b")]
    ran = dispatcher.dispatch(calls)
    assert [(tool.id, tool.status.name) for tool in ran] == [
        ("id_a", "Completed"),
        ("id_fail", "Failed"),
        ("id_b", "Completed"),
    ]
    assert [tool.status for tool in chat.tools.values()] == [tool.status for tool in ran]


# --- results for the model: ToolResultEnvelope


def test_the_envelope_bounds_a_result_and_the_log_keeps_it(chat: Conversation) -> None:
    """The defaults are 4,000 characters and 64 items, as there. There are no tokens to go on."""
    result = {"text": "x" * 5_000, "rows": list(range(100))}
    Dispatcher(chat, {"read": lambda: result}).dispatch([chat.request("read")])
    (repair,) = model_history(chat.events(), result_limits=ResultLimits()).repairs
    assert repair.why.startswith(
        "left out: 1,044 of 5,000 characters at $.text; 37 of 100 items at $.rows; see it whole: "
    )
    (tool,) = chat.tools.values()
    assert tool.response is not None
    assert tool.response.result == result


def test_an_after_hook_runs_for_a_skip_too(chat: Conversation) -> None:
    """The synthetic output is seen, and may be replaced."""
    seen: list[object] = []

    def after(_: Tool, result: object) -> None:
        seen.append(result)

    dispatcher = Dispatcher(
        chat, {"f": lambda: "run"}, hooks=[lambda _: Skip("cached")], after_hooks=[after]
    )
    dispatcher.dispatch([chat.request("f")])
    assert seen == ["cached"]


def test_a_name_that_providers_refuse_is_written_in_their_characters(chat: Conversation) -> None:
    """Such a call is refused there; here it is recorded as it is, and its prompt is valid."""
    tool = chat.request("a b")
    chat.complete(tool.id, "done")
    history = model_history(chat.events())
    messages = history.render("openai")["messages"]
    assert validate(messages, "openai") == []
    assert messages[0]["tool_calls"][0]["function"]["name"] == "a_b_9252855e"
    (repair,) = history.repairs_for("openai")
    assert repair.why == "tool 'a b' is 'a_b_9252855e' here"
    assert chat.tools[tool.id].call.name == "a b"
