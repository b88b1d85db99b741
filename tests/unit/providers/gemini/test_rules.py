"""The rules of Gemini: what each refuses, what it allows, and their properties."""

from __future__ import annotations

from typing import Any

import pytest
from support.provider_contract import BuiltInContract

from eventstore.providers.gemini import rules as gemini
from eventstore.providers.registry import model_rules
from eventstore.providers.validation import is_valid, validate

Content = dict[str, Any]


def user(*parts: object) -> Content:
    """Return a user's content."""
    return {"role": "user", "parts": list(parts)}


def model(*parts: object) -> Content:
    """Return a content of the model's."""
    return {"role": "model", "parts": list(parts)}


def text(value: object = "hello", **more: object) -> Content:
    """Return a text part."""
    return {"text": value, **more}


def call(name: object = "search", *, signed: bool = True, **more: object) -> Content:
    """Return a part with a call."""
    part = {"functionCall": {"name": name, "args": {}, **more}}
    return {**part, "thoughtSignature": "c2ln"} if signed else part


def result(name: object = "search", **more: object) -> Content:
    """Return a part with a response."""
    return {"functionResponse": {"name": name, "response": {"output": "12C"}, **more}}


FILE = {"inlineData": {"mimeType": "a/b", "data": ""}}
ASK = user(text())


def found(contents: object) -> list[tuple[str, str]]:
    """Return the code and place of each violation."""
    return [(violation.code, violation.place) for violation in validate(contents, "gemini")]


BROKEN = [
    pytest.param("GE01", ["contents[1]"], [ASK, model(call())], id="a call at the end"),
    pytest.param("GE01", ["contents[1]"], [ASK, model(call()), ASK], id="a user speaks instead"),
    pytest.param(
        "GE01", ["contents[1]"], [ASK, model(call(), call()), user(result())], id="one of two"
    ),
    pytest.param(
        "GE01", ["contents[1]"], [ASK, model(call()), user(result(), result())], id="answered twice"
    ),
    pytest.param(
        "GE01*",
        ["contents[1]"],
        [ASK, model(call("a"), call("b")), user(result("a")), user(result("b")), ASK],
        id="a content for each response",
    ),
    pytest.param(
        "GE01",
        ["contents[1]"],
        [ASK, model(call("a"), call("b")), user(result("a")), ASK],
        id="words instead of the second content",
    ),
    pytest.param("GE02", ["contents[0]"], [user(result())], id="a response alone"),
    pytest.param(
        "GE02",
        ["contents[3]"],
        [ASK, model(call()), user(result()), user(result())],
        id="a second content of responses",
    ),
    pytest.param(
        "GE02", ["contents[2]"], [ASK, model(text()), user(result())], id="after words alone"
    ),
    pytest.param("GE03", ["contents[0]"], [model(call()), user(result())], id="a call opens"),
    pytest.param(
        "GE03",
        ["contents[2]"],
        [ASK, model(text()), model(call()), user(result())],
        id="a call after the model's own words",
    ),
    pytest.param(
        "GE03*",
        ["contents[2]"],
        [ASK, model(call("a")), model(call("b")), user(result("a"), result("b"))],
        id="two contents with calls",
    ),
    pytest.param(
        "GE04",
        ["contents[1].parts[1].functionCall.id"],
        [ASK, model(call(id="1"), call(id="1")), user(result(id="1"), result(id="1"))],
        id="two calls with one id",
    ),
    pytest.param(
        "GE04",
        ["contents[2].parts[0].functionResponse.name"],
        [ASK, model(call()), user(result("other"))],
        id="another name",
    ),
    pytest.param(
        "GE04",
        ["contents[2].parts[1].functionResponse.name"],
        [ASK, model(call("a"), call("b")), user(result("a"), result("a"))],
        id="one name twice",
    ),
    pytest.param(
        "GE04",
        ["contents[2].parts[0].functionResponse.id"],
        [ASK, model(call(id="1")), user(result(id="2"))],
        id="another id",
    ),
    pytest.param(
        "GE04",
        ["contents[2].parts[0].functionResponse.id", "contents[2].parts[1].functionResponse.id"],
        [
            ASK,
            model(call("a", id="1"), call("b", id="2")),
            user(result("a", id="2"), result("b", id="1")),
        ],
        id="ids crossed",
    ),
    pytest.param(
        "GE04",
        ["contents[2].parts[1].functionResponse.id"],
        [ASK, model(call(id="1"), call(id="2")), user(result(id="1"), result(id="1"))],
        id="one id twice",
    ),
    pytest.param(
        "GE05",
        ["contents[1].parts[0].functionCall.args"],
        [ASK, model(call(args="{}")), user(result())],
        id="arguments as text",
    ),
    pytest.param(
        "GE05",
        ["contents[2].parts[0].functionResponse.response"],
        [ASK, model(call()), user(result(response="12C"))],
        id="a response as text",
    ),
    pytest.param(
        "GE05",
        ["contents[2].parts[0].functionResponse.response"],
        [ASK, model(call()), user({"functionResponse": {"name": "search"}})],
        id="no response",
    ),
    pytest.param(
        "GE05",
        ["contents[1].parts[0].functionCall.name", "contents[2].parts[0].functionResponse.name"],
        [ASK, model(call("")), user(result(""))],
        id="no name",
    ),
    pytest.param(
        "GE06",
        ["contents[1].parts[1]"],
        [ASK, model(text(thoughtSignature="c2ln"), call(signed=False)), user(result())],
        id="a signature on the words before the call",
    ),
    pytest.param(
        "GE06",
        ["contents[3].parts[1]"],
        [ASK, model(call()), user(result()), model(text(), call(signed=False)), user(result())],
        id="a later step without a signature",
    ),
    pytest.param(
        "GE06",
        ["contents[3].parts[0]", "contents[5].parts[0]"],
        [
            ASK,
            model(call()),
            user(result()),
            model(call(signed=False)),
            user(result()),
            model(call(signed=False)),
            user(result()),
        ],
        id="two steps of one turn",
    ),
    pytest.param(
        "GE07", ["contents[0].parts[0]"], [user(text(type="text"))], id="another API's text"
    ),
    pytest.param(
        "GE07", ["contents[0].parts[0]"], [user({"type": "image_url"})], id="another API's image"
    ),
    pytest.param("GE07", ["contents[0].parts[0]"], [user({5: "x", **text()})], id="a key"),
    pytest.param(
        "GE07", ["contents[0].parts[0]"], [user(text(inlineData={}))], id="two data in a part"
    ),
    pytest.param(
        "GE07",
        ["contents[0].parts[0]"],
        [model({"thoughtSignature": "c2ln"})],
        id="a signature without a datum",
    ),
    pytest.param(
        "GE07",
        ["contents[1].parts[0].functionCall"],
        [ASK, user(call()), user(result())],
        id="a call from the user",
    ),
    pytest.param(
        "GE07",
        ["contents[2].parts[0].functionResponse"],
        [ASK, model(call()), model(result())],
        id="a response from the model",
    ),
    pytest.param("GE07", ["contents"], {"role": "user"}, id="no list"),
    pytest.param("GE07", ["contents[0]"], ["hello"], id="a content that is text"),
    pytest.param(
        "GE07", ["contents[0].role"], [{"role": "assistant", "parts": [text()]}], id="another role"
    ),
    pytest.param(
        "GE07", ["contents[1].role"], [ASK, {"parts": [text()]}], id="no role among several"
    ),
    pytest.param("GE07", ["contents[0].parts"], [user()], id="no parts"),
    pytest.param("GE07", ["contents[0].parts"], [{"role": "user"}], id="no list of parts"),
    pytest.param("GE07", ["contents[0].parts[0]"], [user({})], id="an empty part"),
    pytest.param("GE07", ["contents[0].parts[0]"], [user({"text": None})], id="a part of nothing"),
    pytest.param("GE07", ["contents[0].parts[0]"], [user("hello")], id="a part that is text"),
    pytest.param("GE07", ["contents[0].parts[0].text"], [user(text(5))], id="text that is none"),
    pytest.param(
        "GE08", ["contents[2]"], [ASK, model(call()), user(result(), text())], id="words with it"
    ),
]

SNAKE = {"function_call": {"name": "f", "args": None, "id": None}, "thought_signature": "c2ln"}

NEWLY_NAMED = [
    *(
        pytest.param(
            "GE05",
            [
                "contents[1].parts[0].functionCall.name",
                "contents[2].parts[0].functionResponse.name",
            ],
            [ASK, model(call(name)), user(result(name))],
            id=repr(name),
        )
        for name in ("a\nb", "a b", "3d", "é", "x" * 129)
    ),
    pytest.param(
        "GE05*",
        ["contents[1].parts[0].functionCall.args"],
        [ASK, model(call(args=None)), user(result())],
        id="null instead of arguments",
    ),
    pytest.param(
        "GE03",
        ["contents[2]"],
        [
            ASK,
            model(call("a", signed=False)),
            model(call("b", signed=False)),
            user(result("a"), result("b")),
        ],
        id="unsigned calls without ids in a row",
    ),
    pytest.param(
        "GE07",
        ["contents[1].parts[0]"],
        [ASK, model({**call(), "thoughtSignature": "no base64!"}), user(result())],
        id="a signature that is no base64",
    ),
    pytest.param(
        "GE07*", ["contents[0].role"], [{"parts": [text()]}], id="one content without a role"
    ),
]

SOUND = [
    pytest.param("GE01", [ASK, model(call(), call()), user(result(), result())], id="two and two"),
    pytest.param(
        "GE01",
        [ASK, model(SNAKE), user({"function_response": {"name": "f", "response": {}}})],
        id="the SDK's spelling",
    ),
    pytest.param(
        "GE01*",
        [ASK, model(call()), user(result()), model(call()), user(result())],
        id="a content for each call",
    ),
    pytest.param("GE02", [ASK, model(call()), user(result()), ASK], id="words after a response"),
    pytest.param(
        "GE02",
        [ASK, model(call()), {"role": "function", "parts": [result()]}],
        id="a response with the function's role",
    ),
    pytest.param(
        "GE03",
        [ASK, model(call()), user(result()), model(text(), call()), user(result())],
        id="a call after a response",
    ),
    pytest.param(
        "GE03*",
        [ASK, model(call("a")), user(result("a")), model(call("b")), user(result("b"))],
        id="a response between",
    ),
    pytest.param("GE03", [model(text()), ASK, ASK, model(text()), model(text())], id="only words"),
    pytest.param(
        "GE04",
        [ASK, model(call("a"), call("b")), user(result("b"), result("a"))],
        id="another order",
    ),
    pytest.param("GE04", [ASK, model(call(id="1")), user(result())], id="an id on the call alone"),
    pytest.param("GE04", [ASK, model(call()), user(result(id="1"))], id="an id on the response"),
    pytest.param(
        "GE05",
        [
            ASK,
            model(
                {
                    "function_call": {"name": "search", "args": None},
                    "thought_signature": "c2ln",
                }
            ),
            user(result()),
        ],
        id="null, which the SDK does not send",
    ),
    pytest.param(
        "GE05",
        [ASK, model(call("_a.b:c-1" * 16)), user(result("_a.b:c-1" * 16))],
        id="names of 128 characters",
    ),
    pytest.param(
        "GE07",
        [user(text(), FILE, {"videoMetadata": {"startOffset": "2s"}})],
        id="what belongs to the video before it",
    ),
    pytest.param("GE05", [ASK, model(call()), user(result(response={}))], id="an empty response"),
    pytest.param(
        "GE06",
        [ASK, model(call(), call(signed=False)), user(result(), result())],
        id="the first of two is signed",
    ),
    pytest.param("GE06", [ASK, model(call(signed=False)), user(result())], id="an older model's"),
    pytest.param(
        "GE06",
        [ASK, model(call(signed=False)), user(result()), ASK, model(text(thoughtSignature="c2ln"))],
        id="unsigned in an earlier turn",
    ),
    pytest.param(
        "GE07",
        [user(text(video_metadata={}, type=None)), model({"executable_code": {}})],
        id="known",
    ),
    pytest.param(
        "GE07",
        [user(text("")), model(FILE)],
        id="any part",
    ),
    pytest.param("GE08", [ASK, model(call()), user(result()), user(text())], id="words apart"),
]


class TestContract(BuiltInContract):
    """What all providers have in common."""

    provider = "gemini"
    broken = BROKEN + NEWLY_NAMED
    sound = SOUND


def test_the_levels_are_those_of_the_specification() -> None:
    """A rule is strict where the API answers although it is broken."""
    strict = {code for code, row in gemini.RULES.items() if row[0] == "strict"}
    assert strict == {"GE01*", "GE03*", "GE05*", "GE06", "GE07*", "GE08"}
    assert strict - model_rules("gemini", None).tolerates == {"GE01*", "GE05*", "GE06"}
    assert is_valid([ASK, model(call(signed=False)), user(result(), text())], "gemini")
    assert not is_valid([ASK, model(call(signed=False))], "gemini")


def test_a_call_that_is_not_an_object_has_no_name() -> None:
    """The violation shows the call's value; its response has no call with that name."""
    contents = [ASK, model({"functionCall": "f", "thoughtSignature": "c2ln"}), user(result())]
    assert found(contents) == [
        ("GE04", "contents[2].parts[0].functionResponse.name"),
        ("GE05", "contents[1].parts[0].functionCall"),
    ]
