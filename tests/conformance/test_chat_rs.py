"""chat-rs: one tool call paired with its lifecycle status."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.dispatchers import answers

from eventstore import (
    Approved,
    Completed,
    Conversation,
    ErrorKind,
    Failed,
    Failure,
    FunctionCall,
    FunctionResponse,
    NonResolvedToolError,
    Pending,
    Rejected,
    Running,
    Text,
    Tool,
    ToolFailed,
    ToolRunning,
    validate,
)
from eventstore.dispatch import Dispatcher, FunctionTool
from projections import current_tools, model_history, resume_plan

CALL = FunctionCall("read_dir", {"path": "/"}, "call_abc")
STATUSES = {
    "Pending": Pending(),
    "Approved": Approved(),
    "Running": Running(1, {"path": "/"}),
    "Completed": Completed(FunctionResponse("read_dir", ["a"], "call_abc")),
    "Rejected": Rejected("no"),
    "Failed": Failed(Failure(ErrorKind.INTERNAL, "timeout")),
}


def asked(chat: Conversation) -> Tool:
    """Return a new pending call."""
    return chat.request("read_dir", {"path": "/"}, "call_abc")


def error_of(tool: Tool) -> Any:
    """Return the error text of the answer."""
    _, response = tool.to_tuple()
    assert response is not None
    assert set(response.result) == {"error"}
    return response.result["error"]


# --- tool.rs


def test_new_starts_pending(chat: Conversation) -> None:
    """A new call is pending, and in no other status."""
    tool = asked(chat)
    assert (tool.is_pending, tool.is_resolved, tool.is_executing) == (True, False, False)


def test_lifecycle_transitions(chat: Conversation) -> None:
    """Approved and running calls are executing; a completed call is resolved, with a response."""
    asked(chat)
    assert chat.approve("call_abc").is_executing
    assert chat.start("call_abc").is_executing
    tool = chat.complete("call_abc", "x")
    assert (tool.is_resolved, tool.is_executing, tool.is_pending) == (True, False, False)
    assert tool.response == FunctionResponse("read_dir", "x", "call_abc")


def test_rejected_to_tuple_synthesizes_error(chat: Conversation) -> None:
    """The reason follows the sentence that every rejection begins with."""
    asked(chat)
    reported = error_of(chat.reject("call_abc", "too dangerous"))
    assert reported == "User rejected this tool call: too dangerous"


@pytest.mark.parametrize(
    ("reason", "reported"),
    [(None, "User rejected this tool call"), ("", "User rejected this tool call: ")],
)
def test_rejected_to_tuple_without_a_reason(
    chat: Conversation, reason: str | None, reported: str
) -> None:
    """No reason adds nothing, an empty reason adds its colon."""
    asked(chat)
    assert error_of(chat.reject("call_abc", reason)) == reported


def test_failed_to_tuple_synthesizes_error(chat: Conversation) -> None:
    """A call may fail straight from pending."""
    asked(chat)
    assert error_of(chat.fail("call_abc", "timeout")) == "timeout"


def test_pending_to_tuple_yields_no_response(chat: Conversation) -> None:
    """The pair has the call and no response."""
    tool = asked(chat)
    assert tool.to_tuple() == (tool.call, None)


def test_try_to_tuple_errors_on_pending(chat: Conversation) -> None:
    """The error has the id and the state as attributes and in its text."""
    with pytest.raises(NonResolvedToolError) as caught:
        asked(chat).try_to_tuple()
    assert (caught.value.id, caught.value.state) == ("call_abc", "Pending")
    assert str(caught.value) == "cannot send non-resolved Tool (id=call_abc, state=Pending)"


def test_approved_with_edit_uses_edited_call(chat: Conversation) -> None:
    """The edit is in force; the answer to a rejection still names the original."""
    asked(chat)
    tool = chat.approve("call_abc", {"path": "/tmp"})  # noqa: S108 - never opened
    assert tool.to_tuple()[0].arguments == {"path": "/tmp"}  # noqa: S108
    failed = chat.fail("call_abc", "x").to_tuple()[1]
    assert failed == FunctionResponse("read_dir", {"error": "x"}, "call_abc")


@pytest.mark.parametrize("name", ["Rejected", "Failed"])
def test_a_synthesized_answer_bears_the_tool_s_id_and_the_original_name(name: str) -> None:
    """The answer does not have the edit's name, and has an id even if the call has none."""
    edit = FunctionCall("read_file", {"path": "/etc"}, "other")
    tool = Tool("t1", FunctionCall("read_dir", {}), STATUSES[name], edit=edit)
    call, response = tool.try_to_tuple()
    assert call is edit
    assert (response.id, response.name, set(response.result)) == ("t1", "read_dir", {"error"})


@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
def test_serde_round_trip(status: Any) -> None:
    """A call that is encoded and decoded is equal."""
    tool = Tool("call_abc", CALL, status)
    assert Tool.decode(tool.encode()) == tool


# --- section 1.1, the wire form of the status


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Pending(), {"state": "Pending"}),
        (Approved(), {"state": "Approved", "data": {}}),
        (
            Approved(FunctionCall("read_dir", {"path": "/a"})),
            {
                "state": "Approved",
                "data": {
                    "edited_call": {"id": None, "name": "read_dir", "arguments": {"path": "/a"}}
                },
            },
        ),
        (Running(1, {"path": "/"}), {"state": "Running"}),
        (
            Completed(FunctionResponse("read_dir", [1], "call_abc")),
            {
                "state": "Completed",
                "data": {"response": {"id": "call_abc", "name": "read_dir", "result": [1]}},
            },
        ),
        (Rejected(), {"state": "Rejected", "data": {}}),
        (Rejected("no"), {"state": "Rejected", "data": {"reason": "no"}}),
        (
            Failed(Failure(ErrorKind.INTERNAL, "x")),
            {"state": "Failed", "data": {"error": "x"}},
        ),
    ],
)
def test_the_status_is_adjacently_tagged(status: Any, expected: dict[str, Any]) -> None:
    """The JSON has the state and the data, which is left out if the state has none."""
    tool = Tool("call_abc", CALL, status, edit=getattr(status, "edited_call", None))
    assert msgspec.json.decode(tool.encode()) == {
        "id": "call_abc",
        "call": {"id": "call_abc", "name": "read_dir", "arguments": {"path": "/"}},
        "status": expected,
    }


# --- core/tests/tool_refactor.rs


def test_completed_tool_projects_to_real_response(chat: Conversation) -> None:
    """This holds if it ran without an approval, too."""
    asked(chat)
    chat.start("call_abc")
    call, response = chat.complete("call_abc", {"files": ["a", "b"]}).to_tuple()
    assert call.name == "read_dir"
    assert response is not None
    assert response.result == {"files": ["a", "b"]}


def test_rejected_tool_projects_to_synthetic_error(chat: Conversation) -> None:
    """The model reads the reason."""
    asked(chat)
    assert "forbidden" in error_of(chat.reject("call_abc", "forbidden"))


def test_failed_tool_projects_to_synthetic_error(chat: Conversation) -> None:
    """The model reads exactly the error."""
    asked(chat)
    chat.start("call_abc")
    assert error_of(chat.fail("call_abc", "connection reset")) == "connection reset"


def test_pending_approved_running_yield_no_response(chat: Conversation) -> None:
    """An open call has no answer yet."""
    ids = [chat.request("read_dir", {"n": n}).id for n in range(3)]
    chat.approve(ids[1])
    chat.start(ids[2])
    tools = chat.tools
    assert [tools[i].status.name for i in ids] == ["Pending", "Approved", "Running"]
    assert [tools[i].to_tuple()[1] for i in ids] == [None, None, None]


def test_try_to_tuple_is_strict(chat: Conversation) -> None:
    """A pending call is refused; a call that was completed without a start is accepted."""
    with pytest.raises(NonResolvedToolError):
        asked(chat).try_to_tuple()
    assert chat.complete("call_abc", 1).try_to_tuple()[1].result == 1


def test_edited_call_wins_in_projection(chat: Conversation) -> None:
    """The edit is in the call half of the pair, and in what the model sees."""
    asked(chat)
    chat.approve("call_abc", {"path": "/home"})
    call, _ = chat.complete("call_abc", 1).to_tuple()
    assert call.arguments == {"path": "/home"}
    shown = model_history(chat.events()).render("anthropic")["messages"]
    assert shown[-2]["content"][0]["input"] == {"path": "/home"}


def test_part_enum_tool_serde_round_trip(chat: Conversation) -> None:
    """A completed call comes back equal, as JSON and from the log."""
    asked(chat)
    tool = chat.complete("call_abc", {"files": ["a"]})
    assert Tool.decode(tool.encode()) == tool
    assert current_tools(chat.events())["call_abc"] == tool


def test_part_enum_tool_rejected_serde_round_trip(chat: Conversation) -> None:
    """A rejected call comes back equal, with its reason."""
    asked(chat)
    tool = chat.reject("call_abc", "forbidden")
    assert Tool.decode(tool.encode()) == tool
    assert current_tools(chat.events())["call_abc"] == tool


def test_parts_iterator_helpers_filter_by_state(chat: Conversation) -> None:
    """A message with a text, a pending and a completed call has two calls, one of each."""
    first, _ = chat.record(
        {
            "role": "assistant",
            "content": "let me look",
            "tool_calls": [
                {"id": i, "type": "function", "function": {"name": "read_dir", "arguments": "{}"}}
                for i in ("1", "2")
            ],
        }
    )
    chat.complete(first.id, [])
    tools = chat.tools.values()
    assert len(tools) == 2
    assert sum(tool.is_pending for tool in tools) == 1
    assert sum(tool.is_resolved for tool in tools) == 1
    assert next(chat.events()).event.parts == (Text("let me look"),)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", STATUSES)
def test_tool_status_state_name_matches_variant(name: str) -> None:
    """The name of a state is one word for a user interface."""
    assert STATUSES[name].name == name


# --- types/tools.rs


def test_an_auto_execute_collection_asked_about_an_unknown_name(chat: Conversation) -> None:
    """There the answer is to ask a person. Here the call is closed: never run.

    Both are fail-safe; an unknown tool that waits for approval would leave the turn open.
    """
    ran: list[str] = []

    def remember(name: str) -> None:
        ran.append(name)

    tool = chat.request("delete_everything")
    (closed,) = Dispatcher(chat, [remember]).dispatch([tool])
    assert closed.status.name == "Failed"
    assert "not found" in error_of(closed)
    assert ran == []


def test_a_custom_strategy_reads_metadata_of_the_tool(chat: Conversation) -> None:
    """A dangerous call waits for a person, the others run."""
    danger = {"drop": True, "read": False}

    def tool(name: str) -> FunctionTool:
        return FunctionTool(lambda: name, name, needs_approval=lambda tool: danger[tool.call.name])

    dispatcher = Dispatcher(chat, [tool("drop"), tool("read")])
    calls = [chat.request("drop"), chat.request("read")]
    assert [call.status.name for call in dispatcher.dispatch(calls)] == ["Pending", "Completed"]


# --- provider conformance helper


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        (
            "openai",
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
        ),
        (
            "anthropic",
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}],
            },
        ),
    ],
)
def test_tools_parsed_from_a_model_response_are_pending(
    chat: Conversation, provider: str, message: dict[str, Any]
) -> None:
    """No call of any provider's message has run."""
    assert [tool.is_pending for tool in chat.record(message, provider)] == [True]


# --- defects


def test_defect_the_edit_is_lost_when_the_call_runs(chat: Conversation) -> None:
    """Here an approved edit is what runs, what the log records, and what the model sees."""
    seen: list[str] = []

    def read_dir(path: str) -> str:
        seen.append(path)
        return "done"

    asked(chat)
    chat.approve("call_abc", {"path": "/edited"})
    (tool,) = Dispatcher(chat, [read_dir]).dispatch(["call_abc"])
    assert seen == ["/edited"]
    started = [r.event for r in chat.events() if isinstance(r.event, ToolRunning)]
    assert [event.arguments for event in started] == [{"path": "/edited"}]
    assert tool.effective_call.arguments == {"path": "/edited"}
    shown = model_history(chat.events()).render("openai")["messages"]
    assert shown[0]["tool_calls"][0]["function"]["arguments"] == '{"path":"/edited"}'


def test_defect_the_id_is_minted_on_the_tool_alone(chat: Conversation) -> None:
    """Here call, response and both halves of the request have the same id."""
    tool = chat.request("read_dir")
    assert tool.id == tool.call.id
    response = chat.complete(tool.id, []).response
    assert response is not None
    assert response.id == tool.id
    shown = model_history(chat.events()).render("openai")["messages"]
    assert shown[0]["tool_calls"][0]["id"] == shown[1]["tool_call_id"]
    assert validate(shown, "openai") == []


@pytest.mark.parametrize("call_id", ["call_abc", "toolu_01", "1", "é 名"])
def test_defect_ids_that_are_no_uuid_cannot_be_read_back(call_id: str) -> None:
    """Here any text is a valid id."""
    tool = Tool(call_id, FunctionCall("f", {}, call_id))
    assert Tool.decode(tool.encode()) == tool


def test_defect_a_running_call_is_decided_again_on_resume(chat: Conversation) -> None:
    """Here a start without an end is an unknown outcome, and the call does not run again."""
    runs: list[str] = []

    def read_dir(path: str) -> None:
        runs.append(path)

    asked(chat)
    chat.start("call_abc")
    Dispatcher(chat, [read_dir]).resume()
    assert runs == []
    assert chat.tools["call_abc"].status.name == "Running"
    assert [step.tool.id for step in resume_plan(chat.events()).unknown] == ["call_abc"]


def test_defect_a_retry_erases_what_ran_and_deferral_times_collapse(chat: Conversation) -> None:
    """Here every attempt stays in the log, and each call has its own wait."""
    waits = {"a": 5.0, "b": 60.0}
    for name, wait in waits.items():
        call = chat.request(name)
        chat.start(call.id)
        chat.fail(call.id, f"{name} is busy", delay=wait)
    chat.start(next(iter(chat.tools)))
    failed = [r.event for r in chat.events() if isinstance(r.event, ToolFailed)]
    assert [(e.failure.message, e.delay) for e in failed] == [
        ("a is busy", 5_000_000),
        ("b is busy", 60_000_000),
    ]
    assert [tool.attempts for tool in chat.tools.values()] == [2, 1]


def test_defect_an_edit_replaces_the_whole_call(chat: Conversation) -> None:
    """There the edit may name another tool, while the answer names the original one.

    Here an edit is the arguments alone.
    """
    call = asked(chat)
    with pytest.raises(TypeError, match="an edit changes the arguments alone"):
        chat.approve(call.id, FunctionCall("delete_dir", {"path": "/"}))  # type: ignore[arg-type]
    assert chat.tools[call.id].is_pending


@pytest.mark.parametrize("by", [None, "ann"])
@pytest.mark.parametrize("reason", [None, "", "too dangerous"])
def test_the_wire_has_the_answer_of_to_tuple(
    chat: Conversation, by: str | None, reason: str | None
) -> None:
    """There `to_tuple` is the single place between the local state and the wire."""
    asked(chat)
    reported = error_of(chat.reject("call_abc", reason, by=by))
    assert answers(chat) == {"call_abc": reported}
