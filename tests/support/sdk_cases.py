"""A history around each value that an SDK's types declare, in which its provider takes it back.

A case is named by the SDK's type. What the API asks for beside the value stands around it: the call
of a result, the result of a call, words behind reasoning.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from support.sdk_values import items_of, members_of_type, name_of, values_of, variants

Json = dict[str, Any]


class Case(NamedTuple):
    """A value in its history; `message` holds it, and `objects` are the same from the SDK."""

    name: str
    said: Any
    before: list[Any]
    message: Any
    after: list[Any]
    objects: list[Any]


def _type(path: str) -> Any:
    """Return a type of an SDK by its module and its name; None where this version has none."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name, None)


def _member(kind: Any, name: str) -> Any:
    """Return the type of a member."""
    return next(member.annotation for member in members_of_type(kind) if member.name == name)


# anthropic

_TEXT: Json = {"type": "text", "text": "said words"}
_ASKED: Json = {"role": "user", "content": "asked words"}
_CODE: Json = {
    "type": "server_tool_use",
    "id": "srvtoolu_2",
    "name": "code_execution",
    "input": {},
}
_RAN: Json = {
    "type": "code_execution_tool_result",
    "tool_use_id": "srvtoolu_2",
    "content": {
        "type": "code_execution_result",
        "content": [],
        "return_code": 0,
        "stderr": "",
        "stdout": "",
    },
}


def anthropic() -> Iterator[Case]:
    """Yield the blocks of Messages, and of its beta."""
    for path, response in (
        ("anthropic.types.MessageParam", "anthropic.types.Message"),
        ("anthropic.types.beta.BetaMessageParam", "anthropic.types.beta.BetaMessage"),
    ):
        model = _type(response)
        answered = items_of(_member(model, "content"))
        for kind in answered:
            for value in values_of(kind):
                yield _anthropic(kind, deepcopy(value), "assistant", model)
        kinds = {value["type"] for kind in answered for value in values_of(kind)}
        for param in variants(_type(path)):
            yield from _anthropic_params(param, kinds)


def _anthropic_params(param: Any, answered: set[str]) -> Iterator[Case]:
    roles = values_of(_member(param, "role"))
    for kind in items_of(_member(param, "content")):
        for value in values_of(kind) if not hasattr(kind, "model_fields") else ():
            is_the_models = value["type"] in answered - {"text"} or value["type"].endswith("_use")
            for role in roles:
                if role == "system" or is_the_models == (role == "assistant"):
                    yield _anthropic(kind, deepcopy(value), role, None)


def _anthropic(kind: Any, value: Json, role: str, model: Any) -> Case:
    before, around, after = [_ASKED], [value, _TEXT], [_ASKED]
    block = value["type"]
    if block == "tool_use":
        around = [value]
        after = [{"role": "user", "content": [_result_of(value)]}]
    elif block in ("server_tool_use", "mcp_tool_use"):
        value["id"] = "srvtoolu_1"
        ran = "mcp_tool_result" if block == "mcp_tool_use" else "web_search_tool_result"
        around = [
            value,
            {"type": ran, "tool_use_id": "srvtoolu_1", "is_error": False, "content": []},
            _TEXT,
        ]
    elif block.endswith("_tool_result"):
        called = "mcp_tool_use" if block == "mcp_tool_result" else "server_tool_use"
        call = {"type": called, "id": "srvtoolu_1", "name": "web_search", "input": {}}
        around = [call, value, _TEXT]
    elif block == "tool_result":
        value["tool_use_id"] = "toolu_1"
        value["is_error"] = isinstance(value["content"], str)
        call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
        if "toolset_name" in value:
            call["toolset_name"] = value["toolset_name"]
        before = [_ASKED, {"role": "assistant", "content": [call]}]
        around, after = [value], []
    elif role == "user":
        around, before, after = [value], [], []
    elif role == "system":
        around, after = [value], [{"role": "assistant", "content": [_TEXT]}, _ASKED]
    if (value.get("caller") or {}).get("tool_id"):
        value["caller"]["tool_id"] = "srvtoolu_2"
        around = [_CODE, *around, *([] if block == "tool_use" else [_RAN])]
    message: Json = {"role": role, "content": around}
    if model is None:
        return Case(name_of(kind), value, before, message, after, [])
    response = {
        "id": "msg_1",
        "type": "message",
        **message,
        "model": "m",
        "stop_reason": "tool_use" if block == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return Case(name_of(kind), value, before, message, after, [model.construct(**response)])


def _result_of(call: Json) -> Json:
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "done"}
    if "toolset_name" in call:
        result["toolset_name"] = call["toolset_name"]
    return result


# openai


def openai() -> Iterator[Case]:
    """Yield the messages of Chat Completions."""
    completion = _type("openai.types.chat.ChatCompletion")
    answered = _type("openai.types.chat.ChatCompletionMessage")
    for value in values_of(answered):
        yield _chat(answered, deepcopy(value), completion)
    for kind in variants(_type("openai.types.chat.ChatCompletionMessageParam")):
        for value in values_of(kind):
            yield _chat(kind, deepcopy(value), None)


def _chat(kind: Any, value: Json, completion: Any) -> Case:
    before, after = [_ASKED], [_ASKED]
    value.pop("function_call", None)
    calls = value.get("tool_calls") or ()
    for number, call in enumerate(calls):
        call["id"] = f"call{number:05}"
        after = [{"role": "tool", "tool_call_id": call["id"], "content": "done"}]
    if value["role"] in ("tool", "function"):
        value["tool_call_id"] = "call00000"
        function = {"name": "f", "arguments": "{}"}
        call = {"id": "call00000", "type": "function", "function": function}
        before = [_ASKED, {"role": "assistant", "content": None, "tool_calls": [call]}]
    if completion is None:
        return Case(name_of(kind), value, before, value, after, [])
    response = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls" if calls else "stop",
                "message": value,
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    return Case(name_of(kind), value, before, value, after, [completion.construct(**response)])


# openai-responses

_PREFIXES = {"message": "msg_1", "function_call": "fc_1", "reasoning": "rs_1"}
_SAID: Json = {
    "type": "message",
    "role": "assistant",
    "id": "msg_9",
    "status": "completed",
    "content": [{"type": "output_text", "text": "said words", "annotations": []}],
}


def responses() -> Iterator[Case]:
    """Yield the items of Responses."""
    response = _type("openai.types.responses.Response")
    items = {name_of(k): k for k in variants(_type("openai.types.responses.ResponseOutputItem"))}
    for kind in items.values():
        for value in values_of(kind):
            yield _item(kind, deepcopy(value), response)
    for kind in variants(_type("openai.types.responses.ResponseInputItemParam")):
        for value in values_of(kind):
            yield _item(kind, deepcopy(value), None)


_PAIRS = {
    "function_call": {"name": "f", "arguments": "{}"},
    "custom_tool_call": {"name": "f", "input": ""},
    "computer_call": {"pending_safety_checks": [], "status": "completed"},
    "local_shell_call": {},
    "shell_call": {},
    "apply_patch_call": {},
    "tool_search_call": {},
    "program": {},
}


def _item(kind: Any, value: Json, response: Any) -> Case:
    given = value.get("type", "message")
    before: list[Any] = [_ASKED]
    after: list[Any] = [_ASKED]
    if "id" in value:
        value["id"] = _PREFIXES.get(given, "x_1")
    if "completed" in values_of(_member(kind, "status") if "status" in value else str):
        value["status"] = "completed"
    output = [value, _SAID]
    if value.get("caller", {}).get("caller_id"):
        before = [_ASKED, _program("caller_id_words")]
    if given in ("function_call", "custom_tool_call"):
        result = {"type": f"{given}_output", "call_id": value["call_id"], "output": "done"}
        output, after = [value], [result]
    elif given.removesuffix("_output") in ("function_call", "custom_tool_call"):
        call = {"type": given.removesuffix("_output"), "call_id": value["call_id"]}
        before += [call | _PAIRS[call["type"]]]
        output = [value]
    if response is None or (given.removesuffix("_output") in _PAIRS and given.endswith("_output")):
        return Case(name_of(kind), value, before, value, after, [])
    whole = response.construct(
        id="resp_1",
        object="response",
        created_at=1,
        model="m",
        status="completed",
        output=output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
    )
    return Case(name_of(kind), value, before, value, after, [whole])


def _program(call_id: str) -> Json:
    return {"type": "program", "id": "p_1", "call_id": call_id, "code": "", "fingerprint": "f"}


# gemini


def gemini() -> Iterator[Case]:
    """Yield the parts of Gemini, each with all that says more of it."""
    part = _type("google.genai.types.Part")
    content = _type("google.genai.types.Content")
    shown = {"text", "inlineData", "fileData", "functionCall", "functionResponse"}
    shown |= {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
    for value in values_of(part):
        beside = {key: value[key] for key in value if key not in shown}
        for key in value:
            if key in shown:
                yield from _part({**beside, key: value[key]}, key, content)


_GIVEN = ("inlineData", "fileData", "functionResponse")


def _part(value: Json, key: str, content: Any) -> Iterator[Case]:
    text = {"text": "said words"}
    before, after = [{"role": "user", "parts": [text]}], [{"role": "user", "parts": [text]}]
    parts, role = [value], "user" if key in _GIVEN else "model"
    if role == "user":
        value = {name: each for name, each in value.items() if not name.startswith("thought")}
        parts = [value]
    call = {"functionCall": {"id": "id_words", "name": "name_words", "args": {}}}
    if key == "functionResponse":
        before = [*before, {"role": "model", "parts": [call]}]
    elif key == "functionCall":
        response = {"id": "id_words", "name": "name_words", "response": {"output": "done"}}
        after = [{"role": "user", "parts": [{"functionResponse": response}]}]
    elif role == "model":
        parts = [value, text]
    message = {"role": role, "parts": parts}
    objects = [content.model_validate(message)]
    yield Case(f"Part.{key}", value, before, message, after, objects)


WIRES: Mapping[str, Callable[[], Iterator[Case]]] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "openai": openai,
    "openai-responses": responses,
}
