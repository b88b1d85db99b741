"""A history around each value that an SDK's types declare, in which its provider takes it back.

A case is named by the SDK's type. What the API asks for beside the value stands around it: the call
of a result, the result of a call, words behind reasoning.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from support.sdk_values import items_of, members_of_type, name_of, values_of, variants

Json = dict[str, Any]


class Case(NamedTuple):
    """A value in its history; `messages` hold it, and `objects` are the same from the SDK."""

    name: str
    said: Any
    before: list[Any]
    messages: list[Any]
    after: list[Any]
    objects: list[Any]
    spelled: Any = None
    """The value with the members' names in Python, where the provider takes them, too."""


def sdk_type(path: str) -> Any:
    """Return a type of an SDK by its module and its name; None where this version has none."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name, None)


def type_of_member(kind: Any, name: str) -> Any:
    """Return the type of a member."""
    return next(member.annotation for member in members_of_type(kind) if member.name == name)


# anthropic

_TEXT: Json = {"type": "text", "text": "said words"}
ASKED: Json = {"role": "user", "content": "asked words"}
_CODE: Json = {
    "type": "server_tool_use",
    "id": "srvtoolu_2",
    "name": "code_execution",
    "input": {},
}
_RAN: Json = {
    "type": "code_execution_tool_result",
    "tool_use_id": "srvtoolu_2",
    "content": {"type": "code_execution_tool_result_error", "error_code": "unavailable"},
}
_MARK: Json = {"type": "ephemeral", "ttl": "5m"}


def anthropic() -> Iterator[Case]:
    """Yield the blocks of Messages, and of its beta."""
    for path, response in (
        ("anthropic.types.MessageParam", "anthropic.types.Message"),
        ("anthropic.types.beta.BetaMessageParam", "anthropic.types.beta.BetaMessage"),
    ):
        model = sdk_type(response)
        answered = items_of(type_of_member(model, "content"))
        for kind in answered:
            for value in values_of(kind):
                yield _block(kind, deepcopy(value), "assistant", model)
        kinds = {value["type"] for kind in answered for value in values_of(kind)}
        for param in variants(sdk_type(path)):
            yield from _blocks_of_requests(param, kinds)


def _blocks_of_requests(param: Any, answered: set[str]) -> Iterator[Case]:
    roles = values_of(type_of_member(param, "role"))
    for kind in items_of(type_of_member(param, "content")):
        for value in values_of(kind) if not hasattr(kind, "model_fields") else ():
            is_the_models = value["type"] in answered - {"text"} or value["type"].endswith("_use")
            for role in roles:
                if role == "system" or is_the_models == (role == "assistant"):
                    yield _block(kind, deepcopy(value), role, None)


def _block(kind: Any, value: Json, role: str, model: Any) -> Case:
    around, before, after = _around_block(value, role)
    if (value.get("caller") or {}).get("tool_id"):
        value["caller"]["tool_id"] = "srvtoolu_2"
        around = [_CODE, *around, *([] if value["type"] == "tool_use" else [_RAN])]
    message: Json = {"role": role, "content": around}
    if model is None:
        return Case(name_of(kind), value, before, [message], after, [])
    response = {
        "id": "msg_1",
        "type": "message",
        **message,
        "model": "m",
        "stop_reason": "tool_use" if value["type"] == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return Case(name_of(kind), value, before, [message], after, [model.construct(**response)])


def _around_block(value: Json, role: str) -> tuple[list[Json], list[Json], list[Json]]:
    """Return the blocks of the message of a block, and the messages before and after it."""
    block = value["type"]
    if block == "tool_use":
        return [value], [ASKED], [{"role": "user", "content": [_result_of(value)]}]
    if block in ("server_tool_use", "mcp_tool_use"):
        value["id"] = "srvtoolu_1"
        ran: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
        if block == "mcp_tool_use":
            ran |= {"type": "mcp_tool_result", "is_error": False}
        return [value, ran, _TEXT], [ASKED], [ASKED]
    if block.endswith("_tool_result"):
        called = "mcp_tool_use" if block == "mcp_tool_result" else "server_tool_use"
        call = {"type": called, "id": "srvtoolu_1", "name": "web_search", "input": {}}
        return [call, value, _TEXT], [ASKED], [ASKED]
    if block == "tool_result":
        value["tool_use_id"] = "toolu_1"
        value["is_error"] = isinstance(value["content"], str)
        value["cache_control"] = _MARK
        call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
        if "toolset_name" in value:
            call["toolset_name"] = value["toolset_name"]
        return [value], [ASKED, {"role": "assistant", "content": [call]}], []
    if role == "system":
        return [value], [ASKED], [{"role": "assistant", "content": [_TEXT]}, ASKED]
    return ([value], [], []) if role == "user" else ([value, _TEXT], [ASKED], [ASKED])


def _result_of(call: Json) -> Json:
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "done"}
    if "toolset_name" in call:
        result["toolset_name"] = call["toolset_name"]
    return result


# openai

LEFT_OUT = {"function_call": "the former form of a call, beside which are no `tool_calls`"}
"""Members of a message that a value has not, and why."""
USAGE: Json = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def openai() -> Iterator[Case]:
    """Yield the messages of Chat Completions."""
    completion = sdk_type("openai.types.chat.ChatCompletion")
    answered = sdk_type("openai.types.chat.ChatCompletionMessage")
    for value in values_of(answered):
        case = chat(answered, value)
        yield case._replace(objects=[completion.construct(**completion_of(case))])
    for kind in variants(sdk_type("openai.types.chat.ChatCompletionMessageParam")):
        for value in values_of(kind):
            yield chat(kind, value)


def chat(kind: Any, value: Json) -> Case:
    """Return the case of a message; its calls are answered, a result has its call."""
    value = deepcopy(value)
    before, after = [ASKED], [ASKED]
    for member in LEFT_OUT:
        value.pop(member, None)
    calls = value.get("tool_calls") or ()
    for number, call in enumerate(calls):
        call["id"] = f"call{number:05}"
        after = [{"role": "tool", "tool_call_id": call["id"], "content": "done"}]
    if value["role"] == "tool":
        value["tool_call_id"] = "call00000"
        function = {"name": value.get("name", "f"), "arguments": "{}"}
        call = {"id": "call00000", "type": "function", "function": function}
        before = [ASKED, {"role": "assistant", "content": "", "tool_calls": [call]}]
        after = []
    return Case(name_of(kind), value, before, [value], after, [])


def completion_of(case: Case) -> Json:
    """Return a whole response with the message of a case."""
    (message,) = case.messages
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": USAGE,
    }


# openai-responses

_PREFIXES = {"message": "msg_1", "function_call": "fc_1", "reasoning": "rs_1"}
_SAID: Json = {
    "type": "message",
    "role": "assistant",
    "id": "msg_9",
    "status": "completed",
    "content": [{"type": "output_text", "text": "said words", "annotations": []}],
}
_CALLS: dict[str, tuple[Json, str, Json]] = {
    "apply_patch_call": (
        {"operation": {"type": "delete_file", "path": "a"}, "status": "completed"},
        "apply_patch_call_output",
        {"status": "completed", "output": "done"},
    ),
    "computer_call": (
        {"action": {"type": "screenshot"}, "pending_safety_checks": [], "status": "completed"},
        "computer_call_output",
        {"output": {"type": "computer_screenshot", "image_url": "https://a.b/c.png"}},
    ),
    "custom_tool_call": ({"name": "f", "input": ""}, "custom_tool_call_output", {"output": "done"}),
    "function_call": (
        {"name": "f", "arguments": "{}"},
        "function_call_output",
        {"output": "done"},
    ),
    "local_shell_call": (
        {"action": {"type": "exec", "command": ["ls"], "env": {}}, "status": "completed"},
        "local_shell_call_output",
        {"output": "done"},
    ),
    "shell_call": (
        {"action": {"commands": ["ls"]}, "status": "completed"},
        "shell_call_output",
        {"output": [{"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}]},
    ),
    "tool_search_call": (
        {"arguments": {}, "execution": "client", "status": "completed"},
        "tool_search_output",
        {"tools": [], "execution": "client", "status": "completed"},
    ),
}
"""Calls of the client: what one says besides its ids, and the type and members of its output."""
_ASKS: Json = {"type": "mcp_approval_request", "name": "f", "arguments": "{}"}
_ASKS["server_label"] = "s"
_APPROVED: Json = {"type": "mcp_approval_response", "approve": True}
_CALL_OF = {output: call for call, (_, output, _) in _CALLS.items()}
_WITH_IDS = ("computer_call", "local_shell_call", "local_shell_call_output", "tool_search_call")
"""Types of items of which each has an id."""


def responses() -> Iterator[Case]:
    """Yield the items of Responses."""
    response = sdk_type("openai.types.responses.Response")
    for kind in variants(sdk_type("openai.types.responses.ResponseOutputItem")):
        for value in values_of(kind):
            case = _item(kind, deepcopy(value))
            whole = response.construct(**_response_of(case.messages))
            is_output = value.get("type") in (*_CALL_OF, "mcp_approval_response")
            yield case if is_output else case._replace(objects=[whole])
    for kind in variants(sdk_type("openai.types.responses.ResponseInputItemParam")):
        for value in values_of(kind):
            yield _item(kind, deepcopy(value))


def _item(kind: Any, value: Json) -> Case:
    given = value.get("type") or "message"
    before: list[Any] = [ASKED]
    items, after = [value, _SAID], [ASKED]
    if "id" in value and given != "item_reference":
        value["id"] = _PREFIXES.get(given, "x_1")
    if "completed" in values_of(type_of_member(kind, "status") if "status" in value else str):
        value["status"] = "completed"
    if value.get("caller", {}).get("caller_id"):
        program: Json = {"type": "program", "id": "p_1", "code": "", "fingerprint": "f"}
        before.append({**program, "call_id": value["caller"]["caller_id"]})
    is_servers = value.get("execution") == "server"
    if given in _CALLS and not is_servers:
        _, output, said = _CALLS[given]
        items, after = [value], [_with_ids({"type": output, **said}, value["call_id"])]
    elif given in _CALL_OF and not is_servers:
        call_id: Any = value.setdefault("call_id", value.get("id"))
        said, _, _ = _CALLS[_CALL_OF[given]]
        before.append(_with_ids({"type": _CALL_OF[given], **said}, call_id))
        items = [value]
    elif given == "mcp_approval_request":
        items, after = [value], [{**_APPROVED, "approval_request_id": value["id"]}]
    elif given == "mcp_approval_response":
        before.append({**_ASKS, "id": value["approval_request_id"]})
        items = [value]
    return Case(name_of(kind), value, before, items, after, [])


def _with_ids(item: Json, call_id: str) -> Json:
    """Return an item of a call, with the ids that it needs."""
    own = {"id": "x_2"} if item["type"] in _WITH_IDS else {}
    return {**item, **own, "call_id": call_id}


def _response_of(output: list[Any]) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
