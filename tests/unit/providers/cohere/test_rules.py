"""The rules of Cohere: what each refuses, what it allows, and their properties."""

from __future__ import annotations

from typing import Any

from support.provider_contract import BuiltInContract

Message = dict[str, Any]


def user(content: object = "hello", **more: object) -> Message:
    """Return a user message."""
    return {"role": "user", "content": content, **more}


def call(call_id: object = "f_1", name: object = "f", arguments: object = "{}") -> Message:
    """Return a call of a function."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def calling(*calls: object, **more: object) -> Message:
    """Return an assistant message with these calls."""
    return {"role": "assistant", "tool_calls": list(calls), **more}


def says(content: object = "done", **more: object) -> Message:
    """Return an assistant message without calls."""
    return {"role": "assistant", "content": content, **more}


def result(call_id: object = "f_1", content: object = "12C", **more: object) -> Message:
    """Return a tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


def document(data: object, **more: object) -> list[Message]:
    """Return the content of a result: one document."""
    return [{"type": "document", "document": {"data": data, **more}}]


FIRST = "messages[1].tool_calls[0]"
BROKEN = [
    ("CO01", [f"{FIRST}.id"], [user(), calling(call())]),
    ("CO01", [f"{FIRST}.id"], [user(), calling(call()), user(), says()]),
    ("CO01", ["messages[1].tool_call_id"], [user(), result()]),
    ("CO01", ["messages[3].tool_call_id"], [user(), calling(call()), result(), result()]),
    (
        "CO01",
        ["messages[1].tool_calls[1].id"],
        [user(), calling(call(), call()), result()],
    ),
    (
        "CO01",
        [f"{FIRST}.id", "messages[2].tool_call_id"],
        [user(), calling(call()), result("other")],
    ),
    ("CO02", ["messages"], "text"),
    ("CO02", ["messages[0]"], [5]),
    ("CO02", ["messages[0].role"], [{"role": "developer", "content": "x"}]),
    ("CO02", ["messages[0].content"], [user(None)]),
    ("CO02", ["messages[0].content"], [user([])]),
    (
        "CO02",
        ["messages[0].content[0].type"],
        [user([{"type": "thinking", "thinking": "x"}])],
    ),
    ("CO02", ["messages[0].content[0].text"], [user([{"type": "text"}])]),
    (
        "CO02",
        ["messages[0].content[0].image_url"],
        [user([{"type": "image_url", "image_url": "https://a.b/c.png"}])],
    ),
    (
        "CO02",
        ["messages[2].content[0].document.data"],
        [user(), calling(call()), result(content=document(5))],
    ),
    (
        "CO02",
        ["messages[2].content[0].document.id"],
        [user(), calling(call()), result(content=document({}, id=5))],
    ),
    ("CO02", ["messages[1].tool_plan"], [user(), calling(call(), tool_plan=5), result()]),
    ("CO02", ["messages[1].tool_calls"], [user(), says(tool_calls={})]),
    ("CO02", [f"{FIRST}.function"], [user(), calling({"id": "f_1"}), result()]),
    (
        "CO02",
        [f"{FIRST}.id", "messages[2].tool_call_id"],
        [user(), calling(call(None)), result(None)],
    ),
    (
        "CO02",
        [f"{FIRST}.type"],
        [user(), calling({**call(), "type": "custom"}), result()],
    ),
    ("CO02", [f"{FIRST}.function.name"], [user(), calling(call(name="")), result()]),
    (
        "CO02",
        [f"{FIRST}.function.arguments"],
        [user(), calling(call(arguments={})), result()],
    ),
    ("CO02*", ["messages[0].name"], [user(name="Ann")]),
    ("CO03", ["messages[1]"], [user(), says(None)]),
    ("CO03", ["messages[1]"], [user(), says("")]),
    ("CO03", ["messages[1]"], [user(), says([])]),
    ("CO03", ["messages[1]"], [user(), says([{"type": "text", "text": ""}])]),
    (
        "CO03",
        [f"{FIRST}.function.arguments"],
        [user(), calling(call(arguments="")), result()],
    ),
    (
        "CO03",
        [f"{FIRST}.function.arguments"],
        [user(), calling(call(arguments="[1]")), result()],
    ),
]
SOUND = [
    ("CO01", []),
    ("CO01", [user()]),
    ("CO03", [{"role": "system", "content": "be brief"}, user(), says()]),
    ("CO01", [user(), calling(call(), tool_plan="I look.", content=None), result(), says()]),
    ("CO03", [user(), calling(call(), content=[]), result(), says()]),
    ("CO01", [user(), calling(call("a"), call("b")), result("b"), result("a", "")]),
    ("CO02", [user(), calling(call()), result(content=document({"a": 1}, id="doc:1"))]),
    ("CO02", [user(), calling(call()), result(content=document('{"a": 1}'))]),
    (
        "CO02",
        [user(), says([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}])],
    ),
    ("CO02", [user([{"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}])]),
    ("CO02*", [user(), says(citations=[{"start": 0, "end": 1}])]),
    ("CO02", [user(), {"role": "system", "content": [{"type": "text", "text": "later"}]}]),
]


class TestContract(BuiltInContract):
    """What all providers have in common."""

    provider = "cohere"
    broken = BROKEN
    sound = SOUND
