"""The rules of Ollama: what they refuse and what they allow."""

from __future__ import annotations

from typing import Any

import pytest
from support.provider_contract import BuiltInContract

from eventstore import validate

Message = dict[str, Any]


def user(content: object = "hello", **more: object) -> Message:
    """Return a user message."""
    return {"role": "user", "content": content, **more}


def call(name: object = "search", arguments: object = None) -> Message:
    """Return a call of a function."""
    return {"function": {"name": name, "arguments": {} if arguments is None else arguments}}


def calling(*calls: object, **more: object) -> Message:
    """Return an assistant message with these calls."""
    return {"role": "assistant", "content": "", "tool_calls": list(calls), **more}


def result(name: object = "search", content: object = "12C", **more: object) -> Message:
    """Return a tool message."""
    return {"role": "tool", "tool_name": name, "content": content, **more}


FIRST = "messages[0].tool_calls[0]"

BROKEN = [
    pytest.param(
        "OL01",
        [f"{FIRST}.function.arguments"],
        [calling(call(arguments="{}")), result()],
        id="arguments as text",
    ),
    pytest.param(
        "OL01",
        [f"{FIRST}.function.arguments"],
        [calling({"function": {"name": "search"}}), result()],
        id="no arguments",
    ),
    pytest.param(
        ("OL01", "OL01**"),
        [f"{FIRST}.function.name", "messages[1].tool_name"],
        [calling(call("")), result("")],
        id="no name",
    ),
    pytest.param(
        ("OL01", "OL01*"), [FIRST, "messages[0]"], [calling("search")], id="a call that is text"
    ),
    pytest.param(
        "OL01",
        ["messages[0].tool_calls"],
        [{"role": "assistant", "content": "", "tool_calls": {}}],
        id="an object of calls",
    ),
    pytest.param(
        "OL01", ["messages[1].tool_name"], [calling(call()), result("f")], id="another name"
    ),
    pytest.param(
        "OL01",
        ["messages[1].tool_name", "messages[2].tool_name"],
        [calling(call("a"), call("b")), result("b"), result("a")],
        id="another order",
    ),
    pytest.param("OL01", ["messages[0]"], [result()], id="a result without a call"),
    pytest.param(
        "OL01", ["messages[2]"], [calling(call()), result(), result()], id="a second result"
    ),
    pytest.param(
        "OL01", ["messages[0].content"], [user([{"type": "text", "text": "a"}])], id="parts"
    ),
    pytest.param(
        "OL01", ["messages[0].images"], [user(images="AAE=")], id="one image without a list"
    ),
    pytest.param(
        "OL01", ["messages[0].images"], [user(images=[{"url": "x"}])], id="an image of a kind"
    ),
    pytest.param(
        "OL01",
        ["messages[0].thinking"],
        [{"role": "assistant", "content": "a", "thinking": True}],
        id="a flag",
    ),
    pytest.param(
        "OL01", ["messages[0].role"], [{"role": "developer", "content": "a"}], id="a stranger"
    ),
    pytest.param("OL01", ["messages[0].role"], [{"content": "a"}], id="no role"),
    pytest.param("OL01", ["messages[0]"], ["hello"], id="a message that is text"),
    pytest.param("OL01", ["messages"], None, id="no list"),
]

STRICT = [
    pytest.param("OL01*", ["messages[0]"], [calling(call())], id="a call at the end"),
    pytest.param(
        "OL01*", ["messages[0]"], [calling(call(), call()), result(), user()], id="one of two"
    ),
    pytest.param(
        "OL01**",
        ["messages[1].tool_name"],
        [calling(call()), {"role": "tool", "content": "12C"}],
        id="no tool_name",
    ),
    pytest.param(
        "OL01**", ["messages[1].tool_name"], [calling(call()), result("")], id="a blank one"
    ),
    pytest.param(
        "OL01*",
        ["messages[0].tool_calls[0].id", "messages[1].tool_call_id"],
        [calling({**call(), "id": "c1"}), result(tool_call_id="c1")],
        id="ids",
    ),
]

SOUND = [
    pytest.param("OL01", [calling(call("a"), call("b")), result("a"), result("b")], id="in order"),
    pytest.param(
        "OL01",
        [calling(call("get weather.v2", {"a": [1]})), result("get weather.v2")],
        id="any name",
    ),
    pytest.param("OL01", [user(images=["AAE=", b"\x00"])], id="images as base64 or bytes"),
    pytest.param(
        "OL01", [calling(call(), thinking="hm", content=None), result(content="")], id="thoughts"
    ),
    pytest.param(
        "OL01", [user(), {"role": "system", "content": "a"}, user(), user()], id="any order"
    ),
    pytest.param(
        "OL01",
        [{"role": "assistant", "content": "the last word", "tool_calls": None}],
        id="the last word",
    ),
    pytest.param("OL01", [], id="no messages"),
]


class TestContract(BuiltInContract):
    """What all providers have in common."""

    provider = "ollama"
    broken = BROKEN + STRICT
    sound = SOUND


def test_the_message_shows_the_value_at_fault() -> None:
    """Text is quoted and cut, any other value is named by its type."""
    (named,) = validate([calling(call()), result("x" * 99)], "ollama")
    assert named.message == f"messages[1].tool_name: expected 'search', but got '{'x' * 77}...'"
    (typed,) = validate([user(17)], "ollama")
    assert (
        typed.message == "messages[0].content: cannot unmarshal: Expected `str | null`, got `int`"
    )
    assert "right after the message" in typed.remedy
