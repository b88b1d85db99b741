"""What the client of OpenAI Responses runs: calls of the log, with outputs in their own forms."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from eventstore import (
    Conversation,
    ErrorKind,
    EventStore,
    Failure,
    Image,
    Pending,
    Tool,
    recording,
    validate,
)
from eventstore.domain.own_texts import CALLED, NOT_KNOWN_TO_HAVE_RUN, NOT_STARTED
from eventstore.providers import PROVIDERS
from projections import error_statistics, model_history, repair_messages, resume_plan

Item = dict[str, Any]
OURS = "openai-responses"
URL = "https://example.com/a.png"
DATA = "data:image/png;base64,iVBORw0KGgo="
PROGRAM = {"type": "program", "caller_id": "prog_1"}
SERVER = {"server_label": "shop", "name": "refund", "arguments": '{"order": 1}'}

CALLS: dict[str, Item] = {
    "shell": {
        "type": "shell_call",
        "id": "sh_1",
        "call_id": "call_1",
        "action": {"commands": ["make"], "timeout_ms": 1000, "max_output_length": 900},
        "caller": PROGRAM,
        "environment": {"type": "local"},
        "status": "completed",
    },
    "local_shell": {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "call_1",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
        "status": "completed",
    },
    "apply_patch": {
        "type": "apply_patch_call",
        "id": "apc_1",
        "call_id": "call_1",
        "operation": {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b"},
        "caller": {"type": "direct"},
        "status": "completed",
    },
    "computer": {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "call_1",
        "action": {"type": "click", "x": 10, "y": 20, "button": "left"},
        "pending_safety_checks": [],
        "status": "completed",
    },
    "tool_search": {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "call_1",
        "execution": "client",
        "arguments": {"query": "refunds"},
        "status": "completed",
    },
    "mcp_approval_request": {"type": "mcp_approval_request", "id": "call_1", **SERVER},
}
"""The name of each tool to the item that calls it."""
ARGUMENTS = {
    "shell": CALLS["shell"]["action"],
    "local_shell": CALLS["local_shell"]["action"],
    "apply_patch": CALLS["apply_patch"]["operation"],
    "computer": CALLS["computer"]["action"],
    "tool_search": CALLS["tool_search"]["arguments"],
    "mcp_approval_request": {**SERVER, "arguments": {"order": 1}},
}
DONE = {"type": "exit", "exit_code": 0}
FAILED = {"type": "exit", "exit_code": 1}
FOUND = {"type": "function", "name": "refund", "parameters": {}, "strict": False}
OUTPUTS: dict[str, Item] = {
    "shell": {
        "type": "shell_call_output",
        "id": "sho_1",
        "call_id": "call_1",
        "output": [{"stdout": "made words\n", "stderr": "", "outcome": DONE}],
        "max_output_length": 900,
        "caller": PROGRAM,
    },
    "local_shell": {"type": "local_shell_call_output", "id": "call_1", "output": "made words"},
    "apply_patch": {
        "type": "apply_patch_call_output",
        "call_id": "call_1",
        "status": "completed",
        "output": "made words",
        "caller": {"type": "direct"},
    },
    "computer": {
        "type": "computer_call_output",
        "call_id": "call_1",
        "output": {"type": "computer_screenshot", "image_url": URL},
    },
    "tool_search": {
        "type": "tool_search_output",
        "call_id": "call_1",
        "execution": "client",
        "status": "completed",
        "tools": [FOUND | {"description": "made words"}],
    },
    "mcp_approval_request": {
        "type": "mcp_approval_response",
        "approval_request_id": "call_1",
        "approve": True,
        "reason": "made words",
    },
}
MADE_UP = ("shell", "local_shell", "apply_patch", "mcp_approval_request")
"""The names of tools whose outputs can say that the outcome is unknown."""
NAMES = pytest.mark.parametrize("name", CALLS)


def says(role: str = "user", content: Any = "hello", **more: Any) -> Item:
    """Return a message."""
    return {"role": role, "content": content, **more}


def function(call_id: str, **more: Any) -> Item:
    """Return a call of a function."""
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", **more}


def result(call_id: str, text: str = "R", **more: Any) -> Item:
    """Return the output of a function."""
    return {"type": "function_call_output", "call_id": call_id, "output": text, **more}


def response(*items: Item, **more: Any) -> Item:
    """Return a whole response."""
    whole = {"id": "resp_1", "object": "response", "model": "m", "status": "completed"}
    return {**whole, "output": list(copy.deepcopy(items)), **more}


def shown(chat: Conversation) -> list[Item]:
    """Return the input that the log renders, which the rules and the SDK's types accept."""
    items: list[Item] = model_history(chat.events()).render(OURS)["input"]
    assert validate(items, OURS) == []
    as_typed(items)
    return items


def as_typed(items: list[Item]) -> None:
    """Check items of the client by the types of the openai package."""
    types = pytest.importorskip("openai.types.responses", reason="openai is not installed")
    pydantic = pytest.importorskip("pydantic")
    params = types.response_input_item_param
    shapes = {
        "shell_call_output": params.ShellCallOutput,
        "local_shell_call_output": params.LocalShellCallOutput,
        "apply_patch_call_output": params.ApplyPatchCallOutput,
        "computer_call_output": params.ComputerCallOutput,
        "mcp_approval_response": params.McpApprovalResponse,
        "function_call_output": params.FunctionCallOutput,
        "shell_call": params.ShellCall,
        "apply_patch_call": params.ApplyPatchCall,
        "local_shell_call": params.LocalShellCall,
    }
    for item in items:
        if (shape := shapes.get(str(item.get("type")))) is not None:
            checked = pydantic.TypeAdapter(shape).validate_python(item)
            assert item.keys() - checked.keys() <= _ALSO.get(item["type"], set())
            json.dumps(checked, default=list)  # iterables are checked as they are read


_ALSO = {"local_shell_call_output": {"call_id"}}
"""What the guide has and the types have not."""


def mended(*items: Item, **options: Any) -> list[Item]:
    """Return the repaired items, which must be valid and stay as they are."""
    given = copy.deepcopy(items)
    repaired = repair_messages(list(items), OURS, **options)
    assert items == given
    assert validate(repaired.messages, OURS) == []
    assert repair_messages(repaired.messages, OURS).repairs == []
    as_typed(repaired.messages)
    return repaired.messages


def recorded(chat: Conversation, name: str, **more: Any) -> Tool:
    """Return the call of a recorded response."""
    chat.add_message("user", "hello")
    (tool,) = chat.record(response(CALLS[name] | more), OURS)
    return tool


@NAMES
def test_each_item_for_the_client_is_a_call_that_waits(chat: Conversation, name: str) -> None:
    """The name is the protocol's, the arguments are those of the item; plan and statistics know."""
    tool = recorded(chat, name)
    assert (tool.id, tool.call.name, tool.call.arguments) == ("call_1", name, ARGUMENTS[name])
    assert isinstance(tool.status, Pending)
    (step,) = resume_plan(chat.events()).steps
    assert (step.id, step.action) == ("call_1", "waiting")
    assert error_statistics(chat.events()).by_tool[name].calls == 1


@NAMES
def test_a_call_and_its_output_go_back_as_they_came(chat: Conversation, name: str) -> None:
    """The log gives back every byte, at once and imported item by item."""
    items = [says(), CALLS[name], OUTPUTS[name], says()]
    assert validate(items, OURS) == []
    repaired = repair_messages(items, OURS)
    assert (repaired.messages, repaired.repairs) == (items, [])
    chat.record_messages(items, OURS)
    assert json.dumps(shown(chat)) == json.dumps(items)
    for cut in range(len(items)):
        with EventStore.open("sqlite://") as store:
            imported = store.conversation("i")
            imported.import_messages(items[:cut], OURS)
            imported.import_messages(items, OURS)
            assert json.dumps(shown(imported)) == json.dumps(items)


@NAMES
def test_an_output_that_is_recorded_settles_its_call(chat: Conversation, name: str) -> None:
    """The call has completed, and its result is what the output says."""
    recorded(chat, name)
    chat.record(OUTPUTS[name], OURS)
    assert chat.tools["call_1"].status.name == "Completed"
    assert shown(chat)[-1] == OUTPUTS[name]


@pytest.mark.parametrize("other", [name for name in PROVIDERS if name != OURS])
@NAMES
def test_elsewhere_the_item_is_an_ordinary_call_with_its_result(name: str, other: Any) -> None:
    """No note tells of it, and its arguments arrive."""
    repaired = repair_messages([says(), CALLS[name], OUTPUTS[name], says()], OURS, other)
    assert validate(repaired.messages, other) == []
    written = json.dumps(repaired.messages).replace("\\", "")
    assert f'"{name}"' in written
    assert "Note, not said" not in written
    for key in ARGUMENTS[name]:
        assert f'"{key}"' in written
    assert (URL if name == "computer" else "made words") in written


@pytest.mark.parametrize("name", MADE_UP)
def test_an_open_call_gets_an_output_that_says_so(name: str) -> None:
    """The output of its own form stands directly after the call, whose bytes stay."""
    assert [v.code for v in validate([says(), CALLS[name], says()], OURS)] == ["OR01"]
    items = mended(says(), CALLS[name], says(content="And now?"))
    assert items[:2] == [says(), CALLS[name]]
    assert items[2]["type"] == OUTPUTS[name]["type"]
    assert NOT_KNOWN_TO_HAVE_RUN in json.dumps(items[2])
    assert items[3:] == [says(content="And now?")]


@pytest.mark.parametrize("name", ["computer", "tool_search"])
def test_an_open_call_without_a_possible_output_becomes_a_note(name: str) -> None:
    """Nobody can make up a screenshot, or the tools that were found; the user's words stay."""
    repaired = repair_messages([says(), CALLS[name], says(content="Stop.")], OURS)
    assert {("answered", "open-call"), ("wrapped", "OR01")} == {
        (each.what, each.rule) for each in repaired.repairs
    }
    items = mended(says(), CALLS[name], says(content="Stop."))
    assert [item["role"] for item in items] == ["user", "user", "user"]
    assert items[1]["content"].startswith(f"{CALLED}\n{name} {{")
    assert items[1]["content"].endswith(NOT_KNOWN_TO_HAVE_RUN)
    assert items[2] == says(content="Stop.")


def test_a_note_stands_after_the_outputs_of_the_calls_before_it() -> None:
    """The other call keeps its output; the reasoning that belonged to both is gone."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    calls = [function("call_2", id="fc_1"), CALLS["computer"], function("call_3", id="fc_2")]
    items = mended(says(), thought, *calls, result("call_2"), result("call_3"), says())
    assert [item.get("type", item.get("role")) for item in items] == [
        "user",
        "function_call",
        "function_call_output",
        "user",
        "function_call",
        "function_call_output",
        "user",
    ]


@NAMES
def test_one_of_two_parallel_calls_is_answered(name: str) -> None:
    """Both outputs are there afterwards, the given one as it came."""
    other = function("call_2")
    items = mended(says(), CALLS[name], other, result("call_2"), says())
    assert result("call_2") in items
    assert other in items
    assert [item for item in items if item == says()] == [says(), says()]
    assert any(NOT_KNOWN_TO_HAVE_RUN in json.dumps(item) for item in items)
    answered = mended(says(), CALLS[name], other, OUTPUTS[name], says())
    assert OUTPUTS[name] in answered
    assert answered[answered.index(OUTPUTS[name]) + 1]["call_id"] == "call_2"


@NAMES
def test_an_output_without_its_call_becomes_text(name: str) -> None:
    """The text stays; a picture stays a picture."""
    assert validate([says(), OUTPUTS[name]], OURS)[0].code == "OR02"
    items = mended(says(), OUTPUTS[name], says())
    assert [item["role"] for item in items] == ["user", "user", "user"]
    assert (URL if name == "computer" else "made words") in json.dumps(items[1])


@NAMES
def test_an_output_moves_to_its_call(name: str) -> None:
    """A message between the two is told after them, where the input is changed at all."""
    items = mended(says(), CALLS[name], says("assistant"), OUTPUTS[name], function("call_2"))
    assert items[1:3] == [CALLS[name], OUTPUTS[name]]


@pytest.mark.parametrize("name", ["shell", "local_shell", "computer", "tool_search"])
def test_a_call_that_is_not_whole_does_not_run(chat: Conversation, name: str) -> None:
    """The response broke off in it: it has failed, and nobody is given it to run."""
    tool = recorded(chat, name, status="incomplete")
    assert tool.status.name == "Failed"
    assert resume_plan(chat.events()).steps[0].action == "done"
    shown(chat)


@pytest.mark.parametrize("name", ["shell", "apply_patch"])
def test_a_call_in_progress_waits_to_be_run(chat: Conversation, name: str) -> None:
    """The API says it of what the client has not answered yet."""
    assert isinstance(recorded(chat, name, status="in_progress").status, Pending)


RESULTS: list[Any] = [
    pytest.param("shell", "text", [("text", "", DONE)], id="text"),
    pytest.param("shell", "", [("", "", DONE)], id="nothing"),
    pytest.param(
        "shell",
        {"stdout": "o", "stderr": "e", "exit_code": 2},
        [("o", "e", {"type": "exit", "exit_code": 2})],
        id="what a process gave",
    ),
    pytest.param(
        "shell",
        [{"stdout": "o", "stderr": "", "outcome": {"type": "timeout"}}, {"stdout": "p"}],
        [("o", "", {"type": "timeout"}), ("p", "", DONE)],
        id="entries",
    ),
    pytest.param(
        "shell", {"output": [{"stdout": "o"}]}, [("o", "", DONE)], id="the members of an output"
    ),
    pytest.param("shell", ["a", "b"], [("a", "", DONE), ("b", "", DONE)], id="texts"),
    pytest.param("shell", {"x": 1}, [('{"x":1}', "", DONE)], id="another object"),
    pytest.param("shell", [1], [("[1]", "", DONE)], id="another list"),
    pytest.param("local_shell", "text", {"output": "text"}, id="local text"),
    pytest.param("local_shell", {"a": 1}, {"output": '{"a":1}'}, id="local object"),
    pytest.param("local_shell", [1], {"output": "[1]"}, id="local list"),
    pytest.param("apply_patch", "text", {"status": "completed", "output": "text"}, id="patched"),
    pytest.param(
        "apply_patch",
        {"status": "failed", "output": "no"},
        {"status": "failed", "output": "no"},
        id="the members of a patch's output",
    ),
    pytest.param(
        "apply_patch", [1], {"status": "completed", "output": "[1]"}, id="a list of a patch"
    ),
    pytest.param("computer", URL, {"output": {"image_url": URL}}, id="an address"),
    pytest.param("computer", DATA, {"output": {"image_url": DATA}}, id="a data address"),
    pytest.param("computer", {"image_url": URL}, {"output": {"image_url": URL}}, id="a picture"),
    pytest.param("computer", {"file_id": "f"}, {"output": {"file_id": "f"}}, id="a file"),
    pytest.param(
        "computer", ["seen", Image(URL)], {"output": {"image_url": URL}}, id="text and image"
    ),
    pytest.param("computer", b"\x89PNG\r\n\x1a\n", {"output": {"image_url": DATA}}, id="bytes"),
    pytest.param("tool_search", [FOUND], {"tools": [FOUND]}, id="tools"),
    pytest.param("tool_search", {"tools": [FOUND]}, {"tools": [FOUND]}, id="named tools"),
    pytest.param("tool_search", [], {"tools": []}, id="no tools"),
    pytest.param("mcp_approval_request", True, {"approve": True}, id="yes"),
    pytest.param("mcp_approval_request", False, {"approve": False}, id="no"),
    pytest.param(
        "mcp_approval_request", "fine", {"approve": True, "reason": "fine"}, id="yes, in words"
    ),
    pytest.param(
        "mcp_approval_request",
        {"approve": False, "reason": "why"},
        {"approve": False, "reason": "why"},
        id="no, with a reason",
    ),
]


@pytest.mark.parametrize(("name", "given", "expected"), RESULTS)
def test_a_result_has_the_form_of_its_output(
    chat: Conversation, name: str, given: Any, expected: Any
) -> None:
    """Text, objects and lists become what the API asks for; the caller is copied."""
    tool = recorded(chat, name)
    chat.complete(tool.id, given)
    made = next(item for item in shown(chat) if item.get("type") == OUTPUTS[name]["type"])
    assert made.get("caller") == CALLS[name].get("caller")
    if name == "shell":
        found = [(each["stdout"], each["stderr"], each["outcome"]) for each in made["output"]]
        assert (found, made["max_output_length"]) == (expected, 900)
    elif name == "computer":
        assert made["output"] == {"type": "computer_screenshot"} | expected["output"]
    else:
        assert made | expected == made


def test_words_beside_a_screenshot_follow_the_outputs(chat: Conversation) -> None:
    """The output has no place for them, and the change has a name."""
    chat.add_message("user", "hello")
    second = {**CALLS["computer"], "id": "cu_2", "call_id": "call_2"}
    for tool in chat.record(response(CALLS["computer"], second), OURS):
        chat.complete(tool.id, ["a shop", Image(URL)] if tool.id == "call_1" else URL)
    items = shown(chat)
    assert [item.get("call_id") for item in items] == [None, *["call_1", "call_2"] * 2, None]
    assert items[-1] == says(content="a shop")
    repairs = model_history(chat.events()).repairs_for(OURS)
    assert next((each.what, each.call_id) for each in repairs) == ("moved", "call_1")
    assert mended(*items) == items


def test_an_output_keeps_an_id_of_its_own(chat: Conversation) -> None:
    """Beside the `call_id`, as the guide has it, the id names the output."""
    output = {"type": "local_shell_call_output", "id": "o_1", "call_id": "call_1", "output": "R"}
    items = [says(), CALLS["local_shell"], output, says()]
    chat.record_messages(items, OURS)
    assert shown(chat) == items == mended(*items)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("shell", [{"stdout": "", "stderr": "no disk", "outcome": FAILED}]),
        ("local_shell", '{"error":"no disk"}'),
        ("apply_patch", "no disk"),
    ],
)
def test_a_failed_call_says_so_in_its_form(chat: Conversation, name: str, expected: Any) -> None:
    """A patch has failed, and the shell has ended with 1."""
    tool = recorded(chat, name)
    chat.start(tool.id)
    chat.fail(tool.id, Failure(ErrorKind.PERMANENT, "no disk"))
    made = shown(chat)[-1]
    assert made["output"] == expected
    assert made["type"] == OUTPUTS[name]["type"]
    assert made.get("status") in (None, "failed")


@NAMES
def test_a_refused_call_says_so_in_its_form(chat: Conversation, name: str) -> None:
    """The reason arrives; what has no form for it is told in a note."""
    tool = recorded(chat, name)
    chat.reject(tool.id, reason="too dear", by="Ann")
    made = shown(chat)[-1]
    assert "too dear" in json.dumps(made)
    if name in MADE_UP:
        assert made["type"] == OUTPUTS[name]["type"]
        assert made.get("status") in (None, "failed")
        assert made.get("approve") in (None, False)
    else:
        assert made["role"] == "user"


def test_an_approval_is_the_answer_to_a_request(chat: Conversation) -> None:
    """Before it the answer is a no that says that the call has not run."""
    tool = recorded(chat, "mcp_approval_request")
    waits = {"approve": False, "reason": NOT_STARTED}
    assert shown(chat)[-1] | waits == shown(chat)[-1]
    chat.approve(tool.id, by="Ann")
    assert shown(chat)[-2:] == [
        CALLS["mcp_approval_request"],
        {"type": "mcp_approval_response", "approval_request_id": "call_1", "approve": True},
    ]


def test_other_arguments_cannot_be_approved_at_the_server(chat: Conversation) -> None:
    """The server would run what it asked for, so the answer is no."""
    tool = recorded(chat, "mcp_approval_request")
    chat.approve(tool.id, edited_arguments={"order": 2})
    made = shown(chat)[-1]
    assert made["approve"] is False
    assert '{"order":2}' in made["reason"]


@pytest.mark.parametrize(
    ("name", "edited", "member"),
    [
        ("shell", {"commands": ["true"]}, "action"),
        ("local_shell", {"type": "exec", "command": ["id"], "env": {}}, "action"),
        ("apply_patch", {"type": "delete_file", "path": "b"}, "operation"),
        ("computer", {"type": "wait"}, "action"),
        ("tool_search", {"query": "x"}, "arguments"),
    ],
)
def test_an_edited_call_keeps_its_form(
    chat: Conversation, name: str, edited: Item, member: str
) -> None:
    """The edit stands in the item; what cannot be such an item is a function's call."""
    tool = recorded(chat, name)
    chat.approve(tool.id, edited_arguments=edited)
    chat.record(OUTPUTS[name], OURS)
    made = shown(chat)[1:]
    assert [item["type"] for item in made] == [CALLS[name]["type"], OUTPUTS[name]["type"]]
    assert made[0][member] == edited
    assert made[0].get("caller") == CALLS[name].get("caller")


def test_an_edit_that_fits_no_item_is_a_call_of_a_function(chat: Conversation) -> None:
    """The output is a function's, too."""
    tool = recorded(chat, "shell")
    chat.approve(tool.id, edited_arguments={"script": "true"})
    chat.complete(tool.id, "ok")
    assert shown(chat)[1:] == [
        function("call_1", name="shell", arguments='{"script":"true"}', caller=PROGRAM),
        result("call_1", "ok", caller=PROGRAM),
    ]


@pytest.mark.parametrize(
    "called",
    [
        function("call_1", caller=PROGRAM, namespace="n"),
        {
            "type": "custom_tool_call",
            "call_id": "call_1",
            "name": "run",
            "input": "x",
            "caller": PROGRAM,
        },
    ],
)
def test_the_caller_of_a_call_is_that_of_its_output(chat: Conversation, called: Item) -> None:
    """A program gets the result of the call that it made; an edit keeps what names the tool."""
    (tool,) = chat.record(response(called), OURS)
    chat.approve(tool.id, edited_arguments={"input": "y"})
    chat.complete(tool.id, "R")
    made, answered = shown(chat)
    assert answered["caller"] == made["caller"] == PROGRAM
    assert made.get("namespace") == called.get("namespace")
    assert answered["type"] == f"{called['type']}_output"
    (dangling,) = [item for item in mended(called) if item["type"].endswith("_output")]
    assert dangling["caller"] == PROGRAM


def test_no_call_names_a_program_that_went(chat: Conversation) -> None:
    """The program goes with the reasoning of a turn that had to be changed."""
    program = {
        "type": "program",
        "id": "pr_1",
        "call_id": "prog_1",
        "code": "f()",
        "fingerprint": "x",
    }
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    called = function("call_1", id="fc_1", caller=PROGRAM)
    whole = [says(), thought, program, called, result("call_1", caller=PROGRAM)]
    chat.record_messages(whole, OURS)
    assert shown(chat) == whole
    items = mended(says(), thought, program, {**called, "id": "x"}, result("call_1"))
    assert [item for item in items if item.get("type") == "program"] == []
    assert [item for item in items if "caller" in item] == []


HOSTED = CALLS["shell"] | {"environment": {"type": "container_reference", "container_id": "c"}}


def test_the_shell_of_a_container_is_no_call_of_the_client(chat: Conversation) -> None:
    """The item goes back as it came; elsewhere a note tells of it."""
    answered = {**OUTPUTS["shell"], "status": "completed"}
    assert chat.record(response(HOSTED, answered, says("assistant", "so")), OURS) == []
    assert shown(chat) == [HOSTED, answered, says("assistant", "so")]
    other = json.dumps(model_history(chat.events()).render("anthropic"))
    assert "made words" in other
    assert "tool_use" not in other


def test_the_shell_of_a_container_without_an_output_is_answered_in_the_prompt(
    chat: Conversation,
) -> None:
    """The API would ask for the output; nobody is given the call to run."""
    assert validate([HOSTED, says()], OURS)[0].code == "OR01"
    assert chat.record(response(HOSTED), OURS) == []
    chat.add_message("user", "hello")
    first, answered, _ = shown(chat)
    assert (first, answered["call_id"]) == (HOSTED, "call_1")
    assert NOT_KNOWN_TO_HAVE_RUN in json.dumps(answered)


def test_a_search_of_the_servers_is_no_call(chat: Conversation) -> None:
    """The server has run it."""
    search = CALLS["tool_search"] | {"execution": "server", "call_id": None}
    found = OUTPUTS["tool_search"] | {"execution": "server", "call_id": None}
    assert chat.record(response(search, found, says("assistant")), OURS) == []
    assert shown(chat) == [search, found, says("assistant")]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"type": "exit", "exit_code": 2}, "Failed"),
        ({"type": "timeout"}, "Failed"),
        (DONE, "Completed"),
    ],
)
def test_the_outcome_of_a_shell_says_whether_it_failed(
    chat: Conversation, given: Item, status: str
) -> None:
    """The entry that failed counts, and the whole output goes back."""
    recorded(chat, "shell")
    printed = {"stdout": "o", "stderr": "e", "outcome": given}
    chat.record(OUTPUTS["shell"] | {"output": [printed]}, OURS)
    assert chat.tools["call_1"].status.name == status
    assert shown(chat)[-1]["output"] == [printed]


def test_a_patch_that_failed_has_failed_and_a_no_is_a_refusal(chat: Conversation) -> None:
    """The status of the one and the answer of the other say so."""
    patch = CALLS["apply_patch"] | {"call_id": "call_2"}
    chat.record(response(patch, CALLS["mcp_approval_request"]), OURS)
    failed = OUTPUTS["apply_patch"] | {"call_id": "call_2", "status": "failed", "output": "no"}
    refused = OUTPUTS["mcp_approval_request"] | {"approve": False, "reason": "too dear"}
    chat.record_messages([failed, refused], OURS)
    assert [tool.status.name for tool in chat.tools.values()] == ["Failed", "Rejected"]
    assert shown(chat) == [patch, CALLS["mcp_approval_request"], failed, refused]
    assert chat.tools["call_1"].status.reason == "too dear"  # type: ignore[union-attr]


def test_the_output_of_a_function_answers_a_local_shell_as_codex_does_it(
    chat: Conversation,
) -> None:
    """The API takes both types."""
    items = [says(), CALLS["local_shell"], result("call_1"), says()]
    assert repair_messages(items, OURS).messages == items
    chat.record_messages(items, OURS)
    assert shown(chat) == items


def test_checks_of_a_computer_are_shown_and_acknowledged_with_the_result(
    chat: Conversation,
) -> None:
    """The person sees the checks; the host that ran the call has acknowledged them."""
    check = {"id": "sc_1", "code": "malicious", "message": "odd page"}
    tool = recorded(chat, "computer", pending_safety_checks=[check])
    assert tool.call.arguments["pending_safety_checks"] == [check]
    chat.complete(tool.id, URL)
    assert shown(chat)[-1]["acknowledged_safety_checks"] == [check]


def test_several_actions_of_a_computer_are_the_arguments(chat: Conversation) -> None:
    """The newer model asks for several at once."""
    actions = [{"type": "wait"}, {"type": "screenshot"}]
    called = {key: value for key, value in CALLS["computer"].items() if key != "action"}
    (tool,) = chat.record(response(called | {"actions": actions}), OURS)
    assert tool.call.arguments == {"actions": actions}
    chat.approve(tool.id, edited_arguments={"actions": actions[:1]})
    chat.complete(tool.id, URL)
    assert shown(chat)[0]["actions"] == actions[:1]


EVENTS: list[Item] = [
    {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": CALLS["shell"] | {"action": {"commands": []}, "status": "in_progress"},
    },
    {
        "type": "response.shell_call_command.added",
        "output_index": 0,
        "command_index": 0,
        "command": "",
    },
    {
        "type": "response.shell_call_command.delta",
        "output_index": 0,
        "command_index": 0,
        "delta": "ma",
    },
    {
        "type": "response.shell_call_command.delta",
        "output_index": 0,
        "command_index": 0,
        "delta": "ke",
    },
    {
        "type": "response.shell_call_command.done",
        "output_index": 0,
        "command_index": 0,
        "command": "make",
    },
    {"type": "response.output_item.done", "output_index": 0, "item": CALLS["shell"]},
    {
        "type": "response.output_item.done",
        "output_index": 1,
        "item": CALLS["apply_patch"] | {"call_id": "call_2"},
    },
]


def test_a_stream_gives_the_calls_of_its_response(chat: Conversation) -> None:
    """The last event has them whole."""
    whole = response(CALLS["shell"], CALLS["apply_patch"] | {"call_id": "call_2"})
    events = [*copy.deepcopy(EVENTS), {"type": "response.completed", "response": whole}]
    with recording(iter(events), chat, OURS) as stream:
        for _ in stream:
            pass
    assert [(tool.call.name, tool.status.name) for tool in stream.tools] == [
        ("shell", "Pending"),
        ("apply_patch", "Pending"),
    ]


@pytest.mark.parametrize("cut", range(2, len(EVENTS) + 1))
def test_a_stream_that_broke_off_runs_no_call(chat: Conversation, cut: int) -> None:
    """The words that came of a command are kept; the prompt stays valid."""
    with recording(iter(copy.deepcopy(EVENTS[:cut])), chat, OURS) as stream:
        for _ in stream:
            pass
    assert all(tool.status.name == "Failed" for tool in stream.tools)
    chat.add_message("user", "hello")
    shown(chat)
    if cut > 3:
        commands = chat.tools["call_1"].call.arguments["commands"]
        assert commands == ["ma" if cut == 4 else "make"]


@pytest.mark.parametrize("broken", ["no id", "no arguments", "long id", "used id", "words beside"])
@NAMES
def test_a_call_of_a_wrong_form_is_mended(name: str, broken: str) -> None:
    """The request is kept, in its own form or as the call of a function."""
    item = copy.deepcopy(CALLS[name])
    key = "id" if name == "mcp_approval_request" else "call_id"
    match broken:
        case "no id":
            del item[key]
        case "no arguments":
            for member in ("action", "operation", "arguments"):
                item.pop(member, None)
        case "long id":
            item[key] = "x" * 70
        case "used id":
            mended(says(), item, OUTPUTS[name], says(), item, OUTPUTS[name], says())
            return
        case _:
            item["content"] = "words beside"
    items = mended(says(), item, says())
    if broken == "words beside":
        assert "words beside" in json.dumps(items)


def test_items_by_the_sdks_objects_are_the_same_calls(chat: Conversation) -> None:
    """A whole response of the openai package gives each call, and goes back as it came."""
    types = pytest.importorskip("openai.types.responses", reason="openai is not installed")
    items = [
        CALLS[name] | ({} if name == "mcp_approval_request" else {"call_id": f"call_{place}"})
        for place, name in enumerate(CALLS, 2)
    ]
    whole = types.Response.model_validate(
        response(*items, created_at=1, tools=[], parallel_tool_calls=True, tool_choice="auto")
    )
    tools = chat.record(whole, OURS)
    assert [tool.call.name for tool in tools] == list(CALLS)
    assert all(isinstance(tool.status, Pending) for tool in tools)
    for tool in tools:
        chat.complete(tool.id, URL if tool.call.name == "computer" else [])
    made = shown(chat)
    assert made[: len(items)] == items
    assert [each["type"] for each in made[len(items) :]] == [o["type"] for o in OUTPUTS.values()]


def test_our_own_texts_come_back_as_no_result(chat: Conversation) -> None:
    """A framework hands the prompt back: the calls wait as before."""
    recorded(chat, "shell")
    chat.record_messages(shown(chat)[2:], OURS)
    assert isinstance(chat.tools["call_1"].status, Pending)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("shell", {"stdout": "o", "stderr": "e", "exit_code": 2}),
        ("local_shell", {"a": 1}),
        ("apply_patch", {"status": "failed", "output": "no"}),
        ("computer", URL),
        ("tool_search", [FOUND]),
        ("mcp_approval_request", True),
    ],
)
def test_a_prompt_that_comes_back_adds_nothing(chat: Conversation, name: str, given: Any) -> None:
    """The output is known as the form of the result that the log has."""
    chat.complete(recorded(chat, name).id, given)
    prompt, version = shown(chat), chat.version
    chat.record_messages(prompt[-1:], OURS)
    assert (chat.version, shown(chat)) == (version, prompt)


def test_vllm_gets_whole_messages() -> None:
    """Parts of the assistant's stand in a message with its type, id and status there."""
    said = says("assistant", [{"type": "output_text", "text": "so", "annotations": []}])
    assert validate([says(), said], OURS) == []
    codes = {violation.code for violation in validate([says(), said], OURS, model="vllm/m")}
    assert codes == {"OR08"}
    repaired = repair_messages([says(), said], OURS, model="vllm/m")
    assert [(each.what, each.rule) for each in repaired.repairs] == [("added", "OR08")]
    assert validate(repaired.messages, OURS, model="vllm/m") == []
    whole = repaired.messages[1]
    assert whole == said | {"type": "message", "id": "msg_1", "status": "completed"}
    plain = [says(), says("assistant", "so")]
    assert repair_messages(plain, OURS, model="vllm/m").messages == plain


@pytest.mark.parametrize("role", ["developer", "system", "user"])
def test_words_in_a_part_of_the_assistants_are_given_as_input(role: str) -> None:
    """The text stays in the message of its role."""
    said = {"type": "output_text", "text": "so", "annotations": []}
    assert mended(says(role, [said]), says())[0] == says(role, "so")
    image = {"type": "input_image", "image_url": URL, "detail": "auto"}
    assert mended(says(role, [said, image]), says())[0]["content"] == [
        {"type": "input_text", "text": "so"},
        image,
    ]


def test_texts_of_reasoning_get_their_types_and_words_their_annotations() -> None:
    """Each is named, and nothing else of the items changes."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"text": "t"}, {"text": "u"}]}
    said = says("assistant", [{"type": "output_text", "text": "so"}], id="msg_1", phase="x")
    repaired = repair_messages([says(), thought, said], OURS)
    assert repaired.messages == [
        says(),
        thought | {"summary": [{"type": "summary_text", "text": each} for each in "tu"]},
        said | {"content": [{"type": "output_text", "text": "so", "annotations": []}]},
    ]
    assert {each.rule for each in repaired.repairs} == {"OR05", "OR07"}
