"""The rules of Amazon Bedrock's Converse: what each refuses, what it allows."""

from __future__ import annotations

from typing import Any

import pytest
from support.provider_contract import BuiltInContract

from eventstore import validate

Message = dict[str, Any]


def user(*blocks: object) -> Message:
    """Return a user message of these blocks."""
    return {"role": "user", "content": list(blocks or ({"text": "hello"},))}


def says(*blocks: object) -> Message:
    """Return an assistant message of these blocks."""
    return {"role": "assistant", "content": list(blocks or ({"text": "done"},))}


def call(
    call_id: object = "t1", name: object = "search", given: object = None, **more: object
) -> Message:
    """Return a toolUse block."""
    input_ = {} if given is None else given
    return {"toolUse": {"toolUseId": call_id, "name": name, "input": input_, **more}}


def result(call_id: object = "t1", content: object = None, **more: object) -> Message:
    """Return a toolResult block."""
    said = [{"text": "12C"}] if content is None else content
    return {"toolResult": {"toolUseId": call_id, "content": said, **more}}


TEXT = {"text": "hm"}
USE = "messages[1].content[0].toolUse"
RESULT = "messages[2].content[0].toolResult"

POINT = {"cachePoint": {"type": "default"}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}}
DOCUMENT = {"document": {"format": "pdf", "name": "a", "source": {"bytes": b"x"}}}
PICTURE = {"image": {"format": "png", "source": {"bytes": b"x"}}}


def document(name: object, form: str = "pdf") -> Message:
    """Return a document."""
    return {"document": {"format": form, "name": name, "source": {"bytes": b"x"}}}


BROKEN = [
    pytest.param(
        "BE01", ["messages[0].content[1]"], [user(TEXT, THOUGHT)], id="reasoning of the user"
    ),
    pytest.param(
        "BE01",
        ["messages[1].content[0]"],
        [user(), says(PICTURE), user()],
        id="an image of the assistant",
    ),
    pytest.param(
        "BE02",
        ["messages[0].content[1]"],
        [user(TEXT, {"document": {"format": "pdf", "name": 7, "source": {"bytes": b"x"}}})],
        id="a document whose name is a number",
    ),
    pytest.param("BE04", ["messages"], [user(TEXT, *[POINT] * 5)], id="5 cache points"),
    pytest.param(
        "BE04",
        ["messages[1].content[1]"],
        [user(), says(THOUGHT, POINT, TEXT), user()],
        id="a cache point after reasoning",
    ),
    pytest.param("BE01", ["messages[1]"], [user(), says(call())], id="a call at the end"),
    pytest.param("BE01", ["messages[1]"], [user(), says(call()), user()], id="a user speaks"),
    pytest.param(
        "BE01",
        ["messages[1]"],
        [user(), says(call("a"), call("b")), user(result("a"))],
        id="one of two",
    ),
    pytest.param(
        "BE01",
        ["messages[3].content[0]", "messages[1]"],
        [user(), says(call("a"), call("b")), user(result("a")), user(result("b"))],
        id="results split over two messages",
    ),
    pytest.param("BE01", ["messages[0].content[0]"], [user(result())], id="a result without call"),
    pytest.param(
        "BE01",
        ["messages[3].content[0]"],
        [user(), says(call()), user(result()), user(result())],
        id="a late second result",
    ),
    pytest.param(
        "BE01",
        ["messages[2].content[1]"],
        [user(), says(call()), user(result(), result())],
        id="two results of a call",
    ),
    pytest.param(
        "BE01",
        ["messages[1].content[1]"],
        [user(), says(call(), call()), user(result())],
        id="one id for two calls",
    ),
    pytest.param(
        "BE01",
        ["messages[1]", "messages[1].content[1]"],
        [user(), says(call(), result())],
        id="a result of the assistant",
    ),
    pytest.param("BE01", ["messages[0].content[0]"], [user(call())], id="a call of the user"),
    pytest.param(
        "BE02",
        [f"{USE}.input"],
        [user(), says(call(given="{}")), user(result())],
        id="text as input",
    ),
    pytest.param(
        "BE02",
        [f"{USE}.input"],
        [user(), says(call(given=[1])), user(result())],
        id="a list as input",
    ),
    pytest.param(
        "BE02",
        ["messages[1].content"],
        [user(), {"role": "assistant", "content": []}],
        id="no blocks",
    ),
    pytest.param(
        "BE02",
        ["messages[0].content"],
        [{"role": "user", "content": "hello"}],
        id="text instead of blocks",
    ),
    pytest.param("BE02", ["messages[0].content"], [{"role": "user"}], id="no content"),
    pytest.param("BE02", ["messages[0].content"], [user(DOCUMENT)], id="a document alone"),
    pytest.param("BE02", ["messages[0].content[0]"], [user({"text": " \n"})], id="blank text"),
    pytest.param("BE02", ["messages[0].content[1]"], [user(TEXT, {"text": ""})], id="empty text"),
    pytest.param("BE02", ["messages[0].content[0]"], [user({"text": 1})], id="a number as text"),
    pytest.param("BE02", ["messages[0].content[0]"], [user("hello")], id="a block that is text"),
    pytest.param("BE02", ["messages[0].content[0]"], [user({})], id="a block of nothing"),
    pytest.param(
        "BE02",
        ["messages[0].content[0]"],
        [user({"text": "a", "cachePoint": {"type": "default"}})],
        id="two in one block",
    ),
    pytest.param("BE02", ["messages[0].content[0]"], [user({"image": "x"})], id="image as text"),
    pytest.param("BE02", ["messages[1]"], [user(), None], id="a message that is null"),
    pytest.param(
        "BE02",
        [f"{RESULT}.content"],
        [user(), says(call()), user(result(content="12C"))],
        id="a result's text",
    ),
    pytest.param(
        "BE02",
        [f"{RESULT}.content"],
        [user(), says(call()), user(result(content=[], status="error"))],
        id="an error that says nothing",
    ),
    pytest.param(
        "BE02",
        [f"{RESULT}.status"],
        [user(), says(call()), user(result(status="failed"))],
        id="another status",
    ),
    pytest.param(
        "BE02",
        [f"{RESULT}.content[0]"],
        [user(), says(call()), user(result(content=["12C"]))],
        id="no block in a result",
    ),
    pytest.param(
        "BE02",
        [f"{RESULT}.content[0]"],
        [user(), says(call()), user(result(content=[result("t2")]))],
        id="a result in a result",
    ),
    pytest.param("BE02", ["messages[0].content[0]"], [user({"json": {}})], id="a user's JSON"),
    pytest.param("BE03", ["messages[0]"], [says(), user()], id="the assistant begins"),
    pytest.param(
        "BE03",
        [f"{USE}.toolUseId", f"{RESULT}.toolUseId"],
        [user(), says(call("call|fc")), user(result("call|fc"))],
        id="a bar in the id",
    ),
    pytest.param(
        "BE03",
        [f"{USE}.toolUseId", f"{RESULT}.toolUseId"],
        [user(), says(call("x" * 65)), user(result("x" * 65))],
        id="a long id",
    ),
    pytest.param(
        "BE03",
        [f"{USE}.toolUseId", f"{RESULT}.toolUseId"],
        [user(), says(call(None)), user(result(None))],
        id="no id",
    ),
    pytest.param(
        "BE03",
        [f"{USE}.name"],
        [user(), says(call(name="a.b")), user(result())],
        id="a dot in the name",
    ),
    pytest.param(
        "BE03", ["messages[1].role"], [user(), {"role": "tool", "content": [TEXT]}], id="a stranger"
    ),
    pytest.param("BE03", ["messages"], "hello", id="no list"),
]

STRICT = [
    pytest.param(
        "BE01*",
        ["messages[3].content[0]"],
        [user(), says(call()), user(result()), says(call()), user(result())],
        id="an id again in a later turn",
    ),
    pytest.param(
        "BE06",
        ["messages[2].content[0].toolResult.content"],
        [user(), says(call()), user(result(content=[TEXT, PICTURE], status="error"))],
        id="an error that shows an image",
    ),
    pytest.param(
        "BE01*",
        ["messages[1]"],
        [user(), says(call()), says(), user(result())],
        id="an assistant in between",
    ),
    pytest.param(
        "BE02*",
        [f"{RESULT}.content"],
        [user(), says(call()), user(result(content=[]))],
        id="an empty result",
    ),
    pytest.param(
        "BE02*",
        [f"{RESULT}.content[0]"],
        [user(), says(call()), user(result(content=[{"text": " "}]))],
        id="blank",
    ),
    pytest.param(
        "BE02*",
        [f"{RESULT}.content[0]"],
        [user(), says(call()), user(result(content=[{"json": [1]}]))],
        id="a JSON list",
    ),
    pytest.param(
        "BE07",
        ["messages[2].content[1].document.name"],
        [user(TEXT, document("a")), says(TEXT), user(TEXT, document("a", "csv"))],
        id="one name for two documents",
    ),
    pytest.param(
        "BE07",
        ["messages[2].content[0].toolResult.content[0].document.name"],
        [user(TEXT, document("a")), says(call()), user(result(content=[document("a")]))],
        id="a name that a result repeats",
    ),
    pytest.param(
        "BE07",
        [f"messages[0].content[{place}].document.name" for place in (1, 2, 3, 4, 5)],
        [user(TEXT, *map(document, ("a.pdf", "a_b", "a  b", "é", "x" * 201)))],
        id="names that are not legal",
    ),
    pytest.param(
        "BE07",
        ["messages[2].content[2].document"],
        [user(TEXT, *map(document, "abcd")), says(TEXT), user(TEXT, *map(document, "ef"))],
        id="six documents",
    ),
    pytest.param(
        "BE07",
        ["messages[0].content[1].document.format", "messages[0].content[2].image.format"],
        [user(TEXT, document("a", "bin"), {"image": {**PICTURE["image"], "format": "bmp"}})],
        id="formats that are not known",
    ),
    pytest.param(
        "BE07**",
        ["messages[2]"],
        [user(), says(call()), user(result(content=[PICTURE]), *[PICTURE] * 20)],
        id="21 images in a message",
    ),
    pytest.param(
        "BE07*",
        ["messages[0].content[2]"],
        [user(TEXT, document("a", "csv"), POINT)],
        id="a cache point behind a table",
    ),
    pytest.param(
        "BE07*",
        ["messages[0].content[2].document.name"],
        [user(TEXT, document("a"), document("A"))],
        id="names that differ in case",
    ),
    pytest.param(
        "BE03*",
        ["messages[1].role"],
        [user(), {"role": "system", "content": [TEXT]}],
        id="a system message",
    ),
    pytest.param(
        "BE03**",
        ["messages[1].role"],
        [user(), {"role": "system", "content": [{"toolAddition": {}}]}, says(TEXT), user()],
        id="a change of the tools",
    ),
]

SOUND = [
    pytest.param(
        "BE03", [user(), says(call("f.g:0")), user(result("f.g:0"))], id="a point in the id"
    ),
    pytest.param(
        "BE07",
        [user(TEXT, *(document(f"a (1) [{n}]-b", "csv") for n in range(5)))],
        id="five documents",
    ),
    pytest.param(
        "BE07",
        [user(TEXT, {"document": {"name": "a", "source": {"text": "A"}}})],
        id="a text without a format",
    ),
    pytest.param("BE07*", [user(TEXT, document("a"), POINT)], id="a cache point behind a PDF"),
    pytest.param(
        "BE07**",
        [user(*[PICTURE] * 20), says(TEXT), user(*[PICTURE] * 20)],
        id="20 images in each of two messages",
    ),
    pytest.param(
        "BE07*", [user(document("a", "csv"), TEXT, POINT)], id="a cache point behind words"
    ),
    pytest.param("BE04", [user(TEXT, *[POINT] * 4)], id="4 cache points"),
    pytest.param(
        "BE06",
        [user(), says(call()), user(result(content=[TEXT, PICTURE]))],
        id="a result that shows an image",
    ),
    pytest.param(
        "BE01", [user(), says(call("a"), call("b")), user(result("b"), result("a"))], id="any order"
    ),
    pytest.param(
        "BE01", [user(), says(TEXT, call()), user(TEXT, result(), TEXT)], id="text beside results"
    ),
    pytest.param(
        "BE01",
        [user(), says(TEXT), says(call()), user(result()), user()],
        id="neighbours that are merged",
    ),
    pytest.param(
        "BE01",
        [user(), says(call(type="server_tool_use"), result(type="nova_code_interpreter_result"))],
        id="a tool of the service",
    ),
    pytest.param(
        "BE02", [user({"image": {"format": "png", "source": {"bytes": b"\x89"}}})], id="an image"
    ),
    pytest.param(
        "BE02",
        [user(), says({"reasoningContent": {"reasoningText": {"text": ""}}})],
        id="reasoning",
    ),
    pytest.param("BE02", [user(TEXT, {"cachePoint": {"type": "default"}})], id="a cache point"),
    pytest.param("BE02", [user(), says(call()), user(result(content=[{"json": {}}]))], id="JSON"),
    pytest.param("BE02", [user(), says(call()), user(result(status="error"))], id="an error"),
    pytest.param(
        "BE03", [user(), says(call("x" * 64, "x" * 64)), user(result("x" * 64))], id="64 characters"
    ),
    pytest.param("BE03", [], id="no messages"),
]


class TestContract(BuiltInContract):
    """What all providers have in common."""

    provider = "bedrock"
    broken = BROKEN + STRICT
    sound = SOUND
    ignored_codes = ("BE05",)


def test_newer_models_refuse_to_go_on_from_the_assistant() -> None:
    """A history that ends with the assistant's words breaks a strict rule, and no other."""
    [violation] = validate([user(), says(TEXT)], "bedrock")
    assert (violation.code, violation.level) == ("BE05", "strict")
    assert violation.place == "messages[1]"
    assert validate([user(), says(TEXT), user()], "bedrock") == []
    assert validate([user(), says(call(type="server_tool_use"))], "bedrock") == []


def test_the_message_is_in_the_words_of_the_service() -> None:
    """The message names the place and the ids."""
    (open_call,) = validate([user(), says(call("a"), call("b")), user(result("b"))], "bedrock")
    assert open_call.message == (
        "Expected toolResult blocks at messages.2.content for the following Ids: a"
    )
    assert "one user message" in open_call.remedy
    (last, nameless) = validate([user(), says(call(None))], "bedrock")
    assert last.message.endswith("messages.1 + 1.content for the following Ids: (no id)")
    assert nameless.message.endswith("[a-zA-Z0-9_.:-], but is (no id).")
    (blank,) = validate([user({"text": " "})], "bedrock")
    assert blank.message.startswith(
        "The text field in the ContentBlock object at messages.0.content.0 is blank."
    )
    (long,) = validate([user(), says(call("t1", "x" * 99)), user(result())], "bedrock")
    assert long.message.endswith(f"but is {'x' * 77}....")
    (wrong,) = validate([user(17)], "bedrock")
    assert wrong.message == "messages.0.content.0 must be a ContentBlock, but is an integer."
