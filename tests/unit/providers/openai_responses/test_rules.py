"""The rules of OpenAI Responses: what each refuses, what it allows, and their properties."""

from __future__ import annotations

from typing import Any

import pytest
from support.provider_contract import BuiltInContract

from eventstore.providers.openai_responses import rules as responses
from eventstore.providers.registry import model_rules
from eventstore.providers.validation import is_valid, validate

Item = dict[str, Any]
OURS = "openai-responses"


def says(role: str = "user", content: object = "hello", **more: object) -> Item:
    """Return a message."""
    return {"role": role, "content": content, **more}


def call(call_id: object = "call_1", **more: object) -> Item:
    """Return a call of a function."""
    fields = {"type": "function_call", "call_id": call_id, "name": "search", "arguments": "{}"}
    return {**fields, **more}


def output(call_id: object = "call_1", **more: object) -> Item:
    """Return the output of a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": "12C", **more}


def reasoning(**more: object) -> Item:
    """Return a reasoning item."""
    return {"type": "reasoning", "summary": [], **more}


def custom(kind: str = "custom_tool_call", **more: object) -> Item:
    """Return a call of a custom tool, or its output."""
    return {"type": kind, "call_id": "call_1", **more}


SAID = {"type": "output_text", "text": "said", "annotations": []}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
UUID = "76f8b89e-4a41-46fb-86ae-546cc1e4ba6c"


def found(items: object) -> list[tuple[str, str]]:
    """Return the code and place of each violation."""
    return [(violation.code, violation.place) for violation in validate(items, OURS)]


BROKEN = [
    pytest.param("OR01", ["input[0]"], [call()], id="a call at the end"),
    pytest.param("OR01", ["input[0]"], [call("a"), call("b"), output("b")], id="one of two"),
    pytest.param("OR01", ["input[2]"], [call(), output(), output()], id="a second output"),
    pytest.param("OR01", ["input[1]"], [call(), call(), output()], id="one output for two calls"),
    pytest.param(
        "OR01", ["input[0]"], [custom(name="shell", input="ls")], id="a custom tool's call"
    ),
    pytest.param("OR02", ["input[0]"], [output()], id="an output alone"),
    pytest.param("OR02", ["input[2]"], [call(), output(), output("b")], id="another call's output"),
    pytest.param("OR03", ["input[0].id"], [says(id="item_1")], id="another kind's id"),
    pytest.param("OR03", ["input[0].id"], [call(id="call_1"), output()], id="a call's id as id"),
    pytest.param("OR03", ["input[0].id"], [reasoning(id="1"), says("assistant")], id="no rs_"),
    pytest.param("OR03", ["input[0].id"], [says(id=5)], id="a number"),
    pytest.param(
        "OR03",
        ["input[2].id"],
        [says(id="msg_1"), says("assistant"), says(id="msg_1")],
        id="an id twice",
    ),
    pytest.param("OR04", ["input[0]"], [reasoning()], id="reasoning at the end"),
    pytest.param("OR04", ["input[0]"], [reasoning(id="rs_1"), says()], id="a user follows"),
    pytest.param(
        "OR04",
        ["input[1]", "input[2]"],
        [call(), reasoning(), reasoning(), output()],
        id="an output follows",
    ),
    pytest.param(
        "OR04", ["input[0]"], [reasoning(id="rs_1"), says("assistant")], id="a message without id"
    ),
    pytest.param("OR05", ["input"], None, id="no list"),
    pytest.param("OR05", ["input[0]"], ["hello"], id="an item that is text"),
    pytest.param("OR05", ["input[0]"], [{"name": "x"}], id="neither type nor role"),
    pytest.param("OR05", ["input[0].role"], [says("tool")], id="another role"),
    pytest.param("OR05", ["input[0].content"], [says(content=None)], id="no content"),
    pytest.param("OR05", ["input[0].content[0]"], [says(content=["x"])], id="a part that is text"),
    pytest.param(
        "OR05",
        ["input[0].content[0]"],
        [says(content=[{"type": "text", "text": "x"}])],
        id="a part of Chat Completions",
    ),
    pytest.param(
        "OR05",
        ["input[0].content[1]"],
        [says("assistant", [SAID, {"type": "input_text"}])],
        id="what an assistant does not say",
    ),
    pytest.param(
        "OR05",
        ["input[1].output[0]"],
        [call(), output(output=[{"type": "output_text"}])],
        id="what no output shows",
    ),
    pytest.param(
        "OR05",
        ["input[0].summary"],
        [reasoning(summary=None), says("assistant")],
        id="no summary",
    ),
    pytest.param("OR05", ["input[0].arguments"], [call(arguments={}), output()], id="an object"),
    pytest.param("OR05", ["input[0].name"], [call(name="a b"), output()], id="an illegal name"),
    pytest.param("OR05", ["input[1].output"], [call(), output(output=None)], id="no output"),
    pytest.param(
        "OR05",
        ["input[0].call_id", "input[1].call_id"],
        [call("x" * 65), output("x" * 65)],
        id="65 characters",
    ),
    pytest.param(
        "OR05", ["input[0].call_id", "input[1].call_id"], [call(None), output(None)], id="no ids"
    ),
    pytest.param("OR05", ["input[1].type"], [says(), {"type": "response.created"}], id="an event"),
    pytest.param("OR05", ["input[0].type"], [says(type="text")], id="a message of no known type"),
    pytest.param("OR06", ["input[2]"], [call(), says("assistant"), output()], id="words between"),
]

SHELL = {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["make"]}}
PATCH = {
    "type": "apply_patch_call",
    "call_id": "call_1",
    "operation": {"type": "delete_file", "path": "a"},
}
COMPUTER = {"type": "computer_call", "call_id": "call_1", "action": {"type": "wait"}}
LOCAL = {"type": "local_shell_call", "call_id": "call_1", "action": {"command": ["ls"]}}
FIND = {"type": "tool_search_call", "call_id": "call_1", "execution": "client", "arguments": {}}
ASK = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "name": "f",
    "server_label": "s",
    "arguments": "{}",
}
PRINTED = {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
SHELL_OUTPUT = {"type": "shell_call_output", "call_id": "call_1", "output": [PRINTED]}
PATCHED = {"type": "apply_patch_call_output", "call_id": "call_1", "status": "failed"}
SHOT = {
    "type": "computer_call_output",
    "call_id": "call_1",
    "output": {"type": "computer_screenshot", "image_url": "https://example.com/a.png"},
}
LOCAL_OUTPUT = {"type": "local_shell_call_output", "id": "call_1", "output": ""}
FOUND = {"type": "tool_search_output", "call_id": "call_1", "execution": "client", "tools": []}
DECIDED = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False}
CLIENT_PAIRS = [
    (SHELL, SHELL_OUTPUT),
    (PATCH, PATCHED),
    (COMPUTER, SHOT),
    (LOCAL, LOCAL_OUTPUT),
    (FIND, FOUND),
    (ASK, DECIDED),
]
HOSTED = SHELL | {"environment": {"type": "container_reference", "container_id": "c"}}

for called, answered in CLIENT_PAIRS:
    BROKEN += [
        pytest.param("OR01", ["input[0]"], [called, says()], id=f"{called['type']} alone"),
        pytest.param("OR01", ["input[2]"], [called, answered, answered], id=answered["type"] * 2),
        pytest.param("OR02", ["input[0]"], [answered], id=f"{answered['type']} alone"),
        pytest.param(
            "OR06", ["input[2]"], [called, says(), answered], id=f"before {answered['type']}"
        ),
        pytest.param(
            "OR05",
            ["input[0].content"],
            [called | {"content": "x"}, answered],
            id=f"{called['type']} with words",
        ),
    ]
BROKEN += [
    pytest.param("OR01", ["input[0]"], [HOSTED, says()], id="the container's shell has no output"),
    pytest.param(
        "OR05",
        ["input[0].action.commands"],
        [SHELL | {"action": {}}, SHELL_OUTPUT],
        id="no commands",
    ),
    pytest.param(
        "OR05",
        ["input[1].output[0].outcome"],
        [SHELL, SHELL_OUTPUT | {"output": [{"stdout": "", "stderr": ""}]}],
        id="no outcome",
    ),
    pytest.param(
        "OR05", ["input[1].output"], [SHELL, SHELL_OUTPUT | {"output": "x"}], id="a shell's text"
    ),
    pytest.param(
        "OR05", ["input[1].status"], [PATCH, PATCHED | {"status": "done"}], id="a patch's status"
    ),
    pytest.param("OR05", ["input[1].output"], [COMPUTER, SHOT | {"output": "x"}], id="no picture"),
    pytest.param("OR05", ["input[1].tools"], [FIND, FOUND | {"tools": "x"}], id="no tools"),
    pytest.param("OR05", ["input[1].approve"], [ASK, DECIDED | {"approve": "no"}], id="no answer"),
    pytest.param(
        "OR05", ["input[0].caller.type"], [call(caller={"type": "x"}), output()], id="a caller"
    ),
    pytest.param(
        "OR05",
        ["input[0].content[0]"],
        [says("developer", [SAID])],
        id="what a developer does not say",
    ),
    pytest.param(
        "OR05",
        ["input[0].summary[0].type"],
        [reasoning(summary=[{"text": "t"}]), says("assistant")],
        id="a summary's text without a type",
    ),
    pytest.param(
        "OR07",
        ["input[0].content[0]"],
        [says("assistant", [{"type": "output_text", "text": "said"}])],
        id="no annotations",
    ),
]

BROKEN += [  # the API takes any text, vLLM does not
    pytest.param(
        "OR05*",
        ["input[0].arguments"],
        [call(arguments=given), output()],
        id=f"arguments {given!r}",
    )
    for given in ("", "{", "[1]", "null", '{"a": NaN}')
]

SOUND = [
    pytest.param("OR05*", [call(arguments='{"a": 1}'), output()], id="an object"),
    pytest.param("OR01", "hello", id="text is an input"),
    pytest.param("OR01", [call("a"), call("b"), output("b"), output("a")], id="another order"),
    pytest.param("OR01", [call(), output(), call(), output()], id="an id used again"),
    pytest.param(
        "OR01",
        [custom(name="shell", input="ls"), custom("custom_tool_call_output", output="a")],
        id="a custom tool",
    ),
    pytest.param("OR01", [SEARCH, says("assistant")], id="a search of the server's"),
    pytest.param(
        "OR02", [{"type": "item_reference", "id": "fc_1"}, output()], id="a call the server keeps"
    ),
    pytest.param("OR02", [{"id": "fc_1"}, output()], id="a reference without a type"),
    pytest.param(
        "OR03",
        [reasoning(id="rs_1"), call(id="fc_1"), output(id="x"), says("assistant", id="msg_1")],
        id="legal ids",
    ),
    pytest.param("OR03", [reasoning(id=UUID), call(), output()], id="a compatible server's"),
    pytest.param("OR03", [says("assistant", id=UUID)], id="a compatible server's message"),
    pytest.param("OR03", [reasoning(id="rs-a"), call(), output()], id="DeepSeek's reasoning"),
    pytest.param("OR03", [says(id=None), call(id=None), output(id=None)], id="null"),
    pytest.param("OR04", [reasoning(), reasoning(), call(), output()], id="a call follows"),
    pytest.param("OR04", [reasoning(), SEARCH, says("assistant")], id="a search follows"),
    pytest.param("OR04", [reasoning(), says("assistant")], id="neither has an id"),
    pytest.param(
        "OR04", [reasoning(id="rs_1"), says("assistant", id="msg_1")], id="both have an id"
    ),
    pytest.param(
        "OR04",
        [reasoning(id="rs_1", encrypted_content="gAAA"), says("assistant")],
        id="a message without id behind what brings its content",
    ),
    pytest.param(
        "OR04",
        [reasoning(), {"type": "tool_search_output", "execution": "server"}],
        id="what the server gave follows",
    ),
    pytest.param(
        "OR05",
        [custom(name="f", input="{"), custom("custom_tool_call_output", output="")],
        id="any text",
    ),
    pytest.param("OR05", [call("x" * 64), output("x" * 64, output=[])], id="64 characters"),
    pytest.param("OR05", [says("developer"), says(content=[{"type": "input_file"}])], id="any"),
    pytest.param(
        "OR05",
        [call(), output(output=[{"type": "input_text", "text": "t"}, {"type": "input_image"}])],
        id="what an output shows",
    ),
    pytest.param(
        "OR05", [says("assistant", [SAID, {"type": "refusal", "refusal": "no"}])], id="said"
    ),
    pytest.param(
        "OR06",
        [says("assistant"), call("a"), reasoning(), call("b"), output("a"), output("b"), says()],
        id="calls between",
    ),
]
SOUND += [
    pytest.param("OR01", [called, answered, says()], id=called["type"])
    for called, answered in CLIENT_PAIRS
]
SOUND += [
    pytest.param(
        "OR01", [LOCAL, output(), says()], id="a function's output of the local shell, as in Codex"
    ),
    pytest.param("OR01", [HOSTED, SHELL_OUTPUT, says()], id="the container's shell"),
    pytest.param("OR01", [FIND | {"execution": "server"}, says("assistant")], id="the server's"),
    pytest.param("OR07", [says("assistant", [SAID])], id="annotations"),
]


class TestContract(BuiltInContract):
    """What all providers have in common."""

    provider = "openai-responses"
    broken = BROKEN
    sound = SOUND


def test_the_levels_are_those_of_the_specification() -> None:
    """Three rules are strict: the API itself answers, of two nothing is lost by mending it."""
    strict = {code for code, row in responses.RULES.items() if row[0] == "strict"}
    assert strict == {"OR05*", "OR06", "OR07"}
    assert model_rules(OURS, None).tolerates == {"OR06"}
    assert is_valid([call(), says("assistant"), output()], OURS)


@pytest.mark.parametrize("state", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
def test_a_whole_request_may_answer_what_the_server_keeps(state: Item) -> None:
    """All other rules hold for it as well."""
    request = {**state, "input": [output(), call("call_2")]}
    assert found(request) == [("OR01", "input[1]")]
    assert found({"input": [output()]}) == [("OR02", "input[0]")]
    assert found({"input": "hello", **state}) == []
    assert found({"input": None, **state}) == [("OR05", "input")]


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([call()], "No tool output found for function call call_1."),
        ([output("\n")], "No tool call found for function call output with call_id '\\n'."),
        ([reasoning(id="rs_1")], "Item 'rs_1' of type 'reasoning' was provided without its"),
        ([says(id="a")], "Expected an ID that begins with 'msg_'."),
        ([SEARCH, SEARCH], "Duplicate item found with id ws_1."),
    ],
)
def test_the_message_is_in_the_words_of_the_api(items: object, said: str) -> None:
    """Therefore a refusal in a log leads to the rule."""
    assert said in validate(items, OURS)[0].message
