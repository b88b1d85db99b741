"""The rules of Cohere: what each refuses, what it allows, and their properties."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import validate
from eventstore.providers.cohere import rules as cohere

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
    ("CO01", "hard", [f"{FIRST}.id"], [user(), calling(call())]),
    ("CO01", "hard", [f"{FIRST}.id"], [user(), calling(call()), user(), says()]),
    ("CO01", "hard", ["messages[1].tool_call_id"], [user(), result()]),
    ("CO01", "hard", ["messages[3].tool_call_id"], [user(), calling(call()), result(), result()]),
    (
        "CO01",
        "hard",
        ["messages[1].tool_calls[1].id"],
        [user(), calling(call(), call()), result()],
    ),
    (
        "CO01",
        "hard",
        [f"{FIRST}.id", "messages[2].tool_call_id"],
        [user(), calling(call()), result("other")],
    ),
    ("CO02", "hard", ["messages"], "text"),
    ("CO02", "hard", ["messages[0]"], [5]),
    ("CO02", "hard", ["messages[0].role"], [{"role": "developer", "content": "x"}]),
    ("CO02", "hard", ["messages[0].content"], [user(None)]),
    ("CO02", "hard", ["messages[0].content"], [user([])]),
    (
        "CO02",
        "hard",
        ["messages[0].content[0].type"],
        [user([{"type": "thinking", "thinking": "x"}])],
    ),
    ("CO02", "hard", ["messages[0].content[0].text"], [user([{"type": "text"}])]),
    (
        "CO02",
        "hard",
        ["messages[0].content[0].image_url"],
        [user([{"type": "image_url", "image_url": "https://a.b/c.png"}])],
    ),
    (
        "CO02",
        "hard",
        ["messages[2].content[0].document.data"],
        [user(), calling(call()), result(content=document(5))],
    ),
    (
        "CO02",
        "hard",
        ["messages[2].content[0].document.id"],
        [user(), calling(call()), result(content=document({}, id=5))],
    ),
    ("CO02", "hard", ["messages[1].tool_plan"], [user(), calling(call(), tool_plan=5), result()]),
    ("CO02", "hard", ["messages[1].tool_calls"], [user(), says(tool_calls={})]),
    ("CO02", "hard", [f"{FIRST}.function"], [user(), calling({"id": "f_1"}), result()]),
    (
        "CO02",
        "hard",
        [f"{FIRST}.id", "messages[2].tool_call_id"],
        [user(), calling(call(None)), result(None)],
    ),
    (
        "CO02",
        "hard",
        [f"{FIRST}.type"],
        [user(), calling({**call(), "type": "custom"}), result()],
    ),
    ("CO02", "hard", [f"{FIRST}.function.name"], [user(), calling(call(name="")), result()]),
    (
        "CO02",
        "hard",
        [f"{FIRST}.function.arguments"],
        [user(), calling(call(arguments={})), result()],
    ),
    ("CO02", "strict", ["messages[0].name"], [user(name="Ann")]),
    ("CO03", "hard", ["messages[1]"], [user(), says(None)]),
    ("CO03", "hard", ["messages[1]"], [user(), says("")]),
    ("CO03", "hard", ["messages[1]"], [user(), says([])]),
    ("CO03", "hard", ["messages[1]"], [user(), says([{"type": "text", "text": ""}])]),
    (
        "CO03",
        "hard",
        [f"{FIRST}.function.arguments"],
        [user(), calling(call(arguments="")), result()],
    ),
    (
        "CO03",
        "hard",
        [f"{FIRST}.function.arguments"],
        [user(), calling(call(arguments="[1]")), result()],
    ),
]
VALID = [
    [],
    [user()],
    [{"role": "system", "content": "be brief"}, user(), says()],
    [user(), calling(call(), tool_plan="I look.", content=None), result(), says()],
    [user(), calling(call(), content=[]), result(), says()],
    [user(), calling(call("a"), call("b")), result("b"), result("a", "")],
    [user(), calling(call()), result(content=document({"a": 1}, id="doc:1"))],
    [user(), calling(call()), result(content=document('{"a": 1}'))],
    [user(), says([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}])],
    [user([{"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}])],
    [user(), says(citations=[{"start": 0, "end": 1}])],
    [user(), {"role": "system", "content": [{"type": "text", "text": "later"}]}],
]


@pytest.mark.parametrize(("code", "level", "places", "messages"), BROKEN)
def test_a_broken_history_is_refused_where_it_is_broken(
    code: str, level: str, places: list[str], messages: Any
) -> None:
    """Each violation has the code, its level and its place."""
    found = validate(messages, "cohere")
    assert [(each.code, each.level, each.place) for each in found] == [
        (code, level, place) for place in places
    ]
    assert all(each.message and each.remedy for each in found)


@pytest.mark.parametrize("messages", VALID)
def test_a_valid_history_breaks_no_rule(messages: list[Any]) -> None:
    """The histories are those of the API's guides."""
    assert validate(messages, "cohere") == []


def test_every_rule_has_a_broken_history() -> None:
    """The table above has a history for each rule."""
    levels = {code.rstrip("*"): level for code, (level, _, _) in cohere.RULES.items()}
    assert {code for code, *_ in BROKEN} == set(levels)
    assert set(cohere.RULES) == set(cohere._CHECKS)
