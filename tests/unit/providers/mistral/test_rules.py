"""The rules of Mistral: what each refuses, what it allows, and their properties."""

from __future__ import annotations

from typing import Any

import pytest
from support.provider_contract import BuiltInContract

from eventstore import validate

Message = dict[str, Any]
ID = "abcDEF123"
OTHER = "zzzzzzzz9"


def user(content: object = "hello") -> Message:
    """Return a user message."""
    return {"role": "user", "content": content}


def call(call_id: object = ID, name: object = "search", arguments: object = "{}") -> Message:
    """Return a call of a function."""
    return {"id": call_id, "function": {"name": name, "arguments": arguments}}


def calling(*calls: object, content: object = "", **more: object) -> Message:
    """Return an assistant message with these calls."""
    return {"role": "assistant", "content": content, "tool_calls": list(calls), **more}


def says(content: object = "done", **more: object) -> Message:
    """Return an assistant message without calls."""
    return {"role": "assistant", "content": content, **more}


def result(call_id: object = ID, content: object = "12C", **more: object) -> Message:
    """Return a tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


SYSTEM = {"role": "system", "content": "be brief"}
FIRST = "messages[1].tool_calls[0]"

BROKEN = [
    pytest.param(
        "MI01",
        [f"{FIRST}.id", "messages[2].tool_call_id"],
        [user(), calling(call("null")), result("null")],
        id="the SDK's word for no id",
    ),
    pytest.param(
        "MI01",
        [f"{FIRST}.id", "messages[2].tool_call_id"],
        [user(), calling(call(None)), result(None)],
        id="no ids",
    ),
    pytest.param(
        "MI01",
        [f"{FIRST}.function.name"],
        [user(), calling(call(name="a.b")), result()],
        id="a dot in the name",
    ),
    pytest.param(
        "MI01",
        [f"{FIRST}.function.name"],
        [user(), calling(call(name=None)), result()],
        id="no name",
    ),
    pytest.param(
        "MI01",
        ["messages[2].name"],
        [user(), calling(call()), result(name="a b")],
        id="a blank in a result's name",
    ),
    pytest.param("MI02", ["messages[1]"], [user(), calling(call()), user()], id="no result"),
    pytest.param(
        "MI02",
        ["messages[1]"],
        [user(), calling(call(), call(OTHER)), result()],
        id="one of two results",
    ),
    pytest.param("MI02", ["messages[1].tool_call_id"], [user(), result()], id="no call"),
    pytest.param("MI02", ["messages[0].tool_call_id"], [result()], id="a result at the start"),
    pytest.param(
        "MI02",
        ["messages[1]", "messages[2].tool_call_id"],
        [user(), calling(call()), result(OTHER)],
        id="a result of another id",
    ),
    pytest.param(
        "MI02",
        ["messages[3].tool_call_id"],
        [user(), calling(call()), result(), result()],
        id="two results of a call",
    ),
    pytest.param(
        "MI02",
        ["messages[1].tool_calls[1].id"],
        [user(), calling(call(), call()), result()],
        id="one id for two calls",
    ),
    pytest.param(
        "MI02",
        ["messages[1]", "messages[3].tool_call_id"],
        [user(), calling(call()), user(), result()],
        id="a user in between",
    ),
    pytest.param(
        "MI02",
        ["messages[1].tool_calls"],
        [user(), says(tool_calls={}), user()],
        id="an object of calls",
    ),
    pytest.param(
        "MI02",
        ["messages[1].tool_calls[0]"],
        [user(), says(tool_calls=["search"]), user()],
        id="a call that is text",
    ),
    pytest.param(
        "MI02",
        [f"{FIRST}.function.arguments"],
        [user(), calling(call(arguments=None)), result()],
        id="no arguments",
    ),
    pytest.param(
        "MI02",
        [f"{FIRST}.function.arguments"],
        [user(), calling(call(arguments=[1])), result()],
        id="a list of arguments",
    ),
    pytest.param("MI03", ["messages[1]"], [user(), says()], id="the assistant has the last word"),
    pytest.param("MI03", ["messages[1]"], [user(), says(prefix=False)], id="and is no prefix"),
    pytest.param("MI03", ["messages[1]"], [user(), says(prefix=True), user()], id="prefix before"),
    pytest.param("MI03", ["messages[2]"], [user(), says(), SYSTEM, user()], id="a late system"),
    pytest.param(
        "MI03",
        ["messages[3]"],
        [user(), calling(call()), result(), SYSTEM, user()],
        id="system after a result",
    ),
    pytest.param(
        "MI03",
        ["messages[0].role"],
        [{"role": "developer", "content": "a"}, user()],
        id="a role it does not know",
    ),
    pytest.param("MI03", ["messages[0].role"], [{"content": "a"}, user()], id="no role"),
    pytest.param("MI03", ["messages[0]"], ["hello", user()], id="a message that is text"),
    pytest.param("MI03", ["messages[0].content"], [user(17)], id="a number"),
    pytest.param("MI03", ["messages[0].content[0]"], [user(["a"])], id="a chunk that is text"),
    pytest.param(
        "MI03",
        ["messages[0].content[0].text"],
        [user([{"type": "text"}])],
        id="a text chunk without text",
    ),
    pytest.param("MI03", ["messages"], {"messages": []}, id="an object instead of the list"),
    pytest.param(
        "MI03",
        ["messages[0].content[0].type"],
        [{"role": "system", "content": [{"type": "image_url"}]}, user()],
        id="a system message that shows",
    ),
]

FROWNED_AT = [
    pytest.param("MI02*", ["messages[0]"], [calling(call()), result()], id="a call comes first"),
    pytest.param("MI03*", ["messages[0].content"], [user(None)], id="a user message that is null"),
    pytest.param("MI03*", ["messages[1].content"], [user(), says(""), user()], id="nothing said"),
    pytest.param(
        "MI03*",
        ["messages[1].content"],
        [user(), says(None, tool_calls=[]), user()],
        id="neither text nor calls",
    ),
    pytest.param("MI03*", ["messages[0]"], [SYSTEM], id="the system has the last word"),
    pytest.param(
        "MI03*",
        ["messages[3]"],
        [user(), calling(call()), result(), user()],
        id="a user after a result",
    ),
]

UNKNOWN = [
    *(
        pytest.param(
            "MI01**",
            [f"{FIRST}.id", "messages[2].tool_call_id"],
            [user(), calling(call(given)), result(given)],
            id=given,
        )
        for given in ("call_Abc123DefGhi", "toolu_01FupCqh9WiFLKTeXddq4ZXH")
    ),
    pytest.param("MI04", ["messages[0].name"], [{**user(), "name": "a"}], id="a user's name"),
    pytest.param(
        "MI04",
        ["messages[1].reasoning_content", "messages[1].refusal", "messages[2].is_error"],
        [
            user(),
            calling(call(), reasoning_content="hm", refusal=None),
            result(is_error=True),
        ],
        id="members of Chat Completions",
    ),
    pytest.param(
        "MI04",
        [f"{FIRST}.extra", f"{FIRST}.function.parsed_arguments"],
        [
            user(),
            calling(
                {
                    "id": ID,
                    "extra": 1,
                    "function": {"name": "f", "arguments": "{}", "parsed_arguments": {}},
                }
            ),
            result(),
        ],
        id="members of a call",
    ),
    pytest.param(
        "MI04",
        [
            "messages[0].content[0].cache_control",
            "messages[0].content[1].image_url.name",
            "messages[0].content[2].thinking[0].annotations",
        ],
        [
            user(
                [
                    {"type": "text", "text": "a", "cache_control": {}},
                    {"type": "image_url", "image_url": {"url": "u", "name": "n"}},
                    {
                        "type": "thinking",
                        "thinking": [{"type": "text", "text": "b", "annotations": []}],
                    },
                ]
            )
        ],
        id="members of chunks",
    ),
]

SOUND = [
    pytest.param("MI01", [user(), calling(call()), result()], id="nine characters"),
    pytest.param("MI01", [user(), calling(call("call_1-x")), result("call_1-x")], id="any id"),
    pytest.param(
        "MI04",
        [
            user([{"type": "image_url", "image_url": {"url": "u", "detail": "low"}}]),
            calling({**call(), "type": "function", "index": 0}, prefix=False),
            result(name="f"),
        ],
        id="every member that is known",
    ),
    pytest.param("MI04", [user([{"type": "later", "any": 1}])], id="a chunk of an unknown type"),
    pytest.param("MI01", [user(), calling(call(name="x" * 64)), result(name="f")], id="names"),
    pytest.param(
        "MI02", [user(), calling(call(), call(OTHER)), result(OTHER), result()], id="any order"
    ),
    pytest.param(
        "MI02",
        [user(), calling(call()), result(), calling(call()), result()],
        id="an id again in a later turn",
    ),
    pytest.param("MI02", [user(), calling(call(arguments={"a": 1})), result()], id="an object"),
    pytest.param("MI02", [user(), calling(call(arguments="no JSON")), result()], id="any text"),
    pytest.param("MI02", [SYSTEM, calling(call()), result()], id="a call after the system"),
    pytest.param("MI02", [user(), says(tool_calls=None), user()], id="null instead of calls"),
    pytest.param(
        "MI03", [user(), calling(call()), result(), says("so"), user()], id="a user after an answer"
    ),
    pytest.param("MI03", [user(), says("It is", prefix=True)], id="a prefix at the end"),
    pytest.param("MI03", [user(), SYSTEM, user()], id="system after the user"),
    pytest.param("MI03", [user(), calling(call(), content=[]), result()], id="no chunks but calls"),
    pytest.param("MI03", [user(), calling(call(), content=None), result()], id="null but calls"),
    pytest.param("MI03", [user(), calling(call(), content="One moment."), result()], id="and text"),
    pytest.param("MI03", [user([{"type": "thinking", "thinking": []}])], id="a thinking chunk"),
    pytest.param("MI03", [], id="no messages"),
]


class TestContract(BuiltInContract):
    """What all providers have in common."""

    provider = "mistral"
    broken = BROKEN + FROWNED_AT + UNKNOWN
    sound = SOUND


def test_the_message_is_in_the_words_of_the_api() -> None:
    """The message names the faulty id, short and printable."""
    given = [user(), calling(call("x" * 99)), result("x" * 99)]
    (bad, _) = validate(given, "mistral", model="open-mistral-nemo")
    assert bad.message.endswith(
        f"Tool call id was {'x' * 77}... but must be a-z, A-Z, 0-9, with a length of 9."
    )
    assert "letters and digits" in bad.remedy
    (empty,) = validate([user(), calling(call(name="")), result()], "mistral")
    assert "Function name was ''" in empty.message
