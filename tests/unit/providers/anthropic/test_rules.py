"""The rules of Anthropic Messages: what each refuses, what it allows, and their properties."""

from __future__ import annotations

from typing import Any

import pytest
from support.provider_contract import BuiltInContract

from eventstore.providers.anthropic import rules as anthropic
from eventstore.providers.registry import model_rules
from eventstore.providers.validation import Violation, validate

Message = dict[str, Any]


def user(*blocks: object) -> Message:
    """Return a user message of these blocks."""
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: object) -> Message:
    """Return an assistant message of these blocks."""
    return {"role": "assistant", "content": list(blocks)}


def system(text: object = "Be brief.") -> Message:
    """Return a system message."""
    return {"role": "system", "content": text}


def text(value: object = "hello") -> Message:
    """Return a text block."""
    return {"type": "text", "text": value}


def call(call_id: object = "toolu_1", **more: object) -> Message:
    """Return a tool_use block."""
    return {"type": "tool_use", "id": call_id, "name": "search", "input": {}, **more}


def result(call_id: object = "toolu_1", **more: object) -> Message:
    """Return a tool_result block."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": "12C", **more}


FOUND_ID = "srvtoolu_1"


def served(kind: str = "server_tool_use", **more: object) -> Message:
    """Return a call that the provider's own servers run."""
    return {"type": kind, "id": FOUND_ID, "name": "web_search", "input": {}} | more


def served_result(kind: str = "web_search_tool_result", **more: object) -> Message:
    """Return the answer of the provider's servers."""
    return {"type": kind, "tool_use_id": FOUND_ID, "content": []} | more


FOUND = {"type": "tool_reference", "tool_name": "refund"}
PROGRAM = {"type": "code_execution_20260120", "tool_id": FOUND_ID}
ASK = user(text())


def answered(**more: object) -> list[Message]:
    """Return a call and its result, which has the members `more`."""
    return [ASK, assistant(call()), user(result(**more))]


def judged(messages: object) -> list[Violation]:
    """Return the violations but AN18: many histories here end with the assistant."""
    return [each for each in validate(messages, "anthropic") if each.code != "AN18"]


def found(messages: object) -> list[tuple[str, str]]:
    """Return the code and place of each violation but AN18."""
    return [(violation.code, violation.place) for violation in judged(messages)]


RESULT = "messages[2].content[0]"

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}

BROKEN = [
    pytest.param(
        "AN08",
        [f"{RESULT}.content"],
        answered(content=[text(), {"type": "image"}], is_error=True),
        id="an error that shows an image",
    ),
    pytest.param(
        "AN17",
        ["messages[1].content[0]"],
        [ASK, assistant(THOUGHT), ASK],
        id="reasoning that nothing came of",
    ),
    pytest.param(
        "AN17",
        ["messages[2].content[0]"],
        [ASK, assistant(text()), assistant({"type": "redacted_thinking", "data": "x"})],
        id="reasoning at the end",
    ),
    pytest.param("AN19", ["messages"], [user(*[text() | MARK] * 5)], id="5 marks"),
    pytest.param(
        "AN19",
        ["messages"],
        [*answered(content=[text() | MARK] * 4, **MARK)],
        id="marks in a result, and of it",
    ),
    pytest.param(
        "AN19",
        ["messages[1].content[0].cache_control"],
        [ASK, assistant(THOUGHT | MARK, text()), ASK],
        id="a mark on reasoning",
    ),
    pytest.param(
        "AN19",
        ["messages[0].content[1].cache_control.ttl"],
        [user(text() | MARK, text() | HOUR)],
        id="an hour after five minutes",
    ),
    pytest.param(
        "AN16",
        ["messages[1].content[2]"],
        [ASK, assistant(served(), served_result(), served_result(), text()), ASK],
        id="a second result of a served call",
    ),
    pytest.param(
        "AN16",
        ["messages[2].content[0]"],
        [ASK, assistant(served(), text()), user(served_result(), text())],
        id="a served result from the user",
    ),
    pytest.param(
        "AN16",
        ["messages[1].content[0]"],
        [ASK, assistant(served_result(), served(), text()), ASK],
        id="a served result before its call",
    ),
    pytest.param(
        "AN07",
        ["messages[1].content[0].input"],
        [ASK, assistant(served(input=None), served_result(), text()), ASK],
        id="a served call without input",
    ),
    pytest.param("AN01", ["messages[1]"], [ASK, assistant(call())], id="a call at the end"),
    pytest.param(
        "AN01", ["messages[1]"], [ASK, assistant(call()), ASK], id="a user speaks instead"
    ),
    pytest.param(
        "AN01",
        ["messages[1]"],
        [ASK, assistant(call("a"), call("b")), user(result("b"))],
        id="one of two is answered",
    ),
    pytest.param(
        "AN01",
        ["messages[1]", "messages[2]"],
        [ASK, assistant(call("a")), assistant(call("b")), ASK],
        id="two messages of one turn",
    ),
    pytest.param("AN02", ["messages[0].content[0]"], [user(result())], id="a result comes first"),
    pytest.param(
        "AN02",
        [RESULT],
        [ASK, assistant(text()), user(result())],
        id="a result after an assistant that called nothing",
    ),
    pytest.param(
        "AN02",
        ["messages[4].content[0]"],
        [*answered(), assistant(text()), user(result())],
        id="a late second result",
    ),
    pytest.param(
        "AN02",
        ["messages[2].content[1]"],
        [ASK, assistant(call()), user(result(), result("other"))],
        id="a stranger in the turn",
    ),
    pytest.param(
        "AN02",
        ["messages[0].content[1]"],
        [user(text(), result())],
        id="a result after text, where nothing was called",
    ),
    pytest.param(
        "AN03",
        ["messages[2].content[1]"],
        [ASK, assistant(call()), user(text(), result())],
        id="text in front of the result",
    ),
    pytest.param(
        "AN03",
        ["messages[2].content[2]", "messages[2].content[3]"],
        [
            ASK,
            assistant(call("a"), call("b"), call("c")),
            user(result("a"), {"type": "image"}, result("b"), result("c")),
        ],
        id="an image between results",
    ),
    pytest.param(
        "AN04",
        ["messages[2].content[1]", "messages[3].content[0]"],
        [*answered()[:2], user(result(), result()), user(result())],
        id="three results for one call",
    ),
    pytest.param(
        "AN05",
        ["messages[1].content[1]"],
        [ASK, assistant(call(), call()), user(result())],
        id="one id for two calls",
    ),
    pytest.param(
        "AN05",
        ["messages[3].content[0]"],
        [*answered(), assistant(call()), user(result())],
        id="an id again in a later turn",
    ),
    pytest.param(
        "AN05",
        ["messages[3].content[0]"],
        [*answered(), assistant(call()), user(result(content=[FOUND, text()]))],
        id="an id again, answered with more than tools found",
    ),
    pytest.param(
        "AN05",
        ["messages[1].content[1]"],
        [ASK, assistant(call(), call()), user(result(content=[FOUND]))],
        id="one id for two searches for tools",
    ),
    pytest.param(
        "AN06",
        ["messages[1].content[0].id", f"{RESULT}.tool_use_id"],
        [ASK, assistant(call("functions.search:0")), user(result("functions.search:0"))],
        id="illegal characters",
    ),
    pytest.param(
        "AN06",
        ["messages[1].content[0].id", f"{RESULT}.tool_use_id"],
        [ASK, assistant(call("")), user(result(""))],
        id="empty ids",
    ),
    pytest.param(
        "AN06",
        ["messages[1].content[0].id", f"{RESULT}.tool_use_id"],
        [ASK, assistant(call("a\n")), user(result("a\n"))],
        id="an id and a newline",
    ),
    pytest.param(
        "AN06",
        ["messages[1].content[0].id", f"{RESULT}.tool_use_id"],
        [ASK, assistant(call([])), user(result([]))],
        id="ids that no set can hold",
    ),
    pytest.param(
        "AN06",
        [
            "messages[1].content[0].id",
            "messages[1].content[1].id",
            f"{RESULT}.tool_use_id",
            "messages[2].content[1].tool_use_id",
        ],
        [ASK, assistant(call(None), call(None)), user(result(None), result(None))],
        id="two calls and two results without ids",
    ),
    pytest.param(
        "AN07",
        ["messages[1].content[0].input"],
        [ASK, assistant(call(input=None)), user(result())],
        id="null",
    ),
    pytest.param(
        "AN07",
        ["messages[1].content[0].input"],
        [ASK, assistant(call(input="{}")), user(result())],
        id="JSON text",
    ),
    pytest.param(
        "AN07",
        ["messages[1].content[0].input"],
        [ASK, assistant({"type": "tool_use", "id": "toolu_1", "name": "a"}), user(result())],
        id="no input",
    ),
    pytest.param(
        "AN08", [f"{RESULT}.content"], answered(content="", is_error=True), id="an empty error"
    ),
    pytest.param(
        "AN08", [f"{RESULT}.content"], answered(content=None, is_error=True), id="a null error"
    ),
    pytest.param(
        "AN08", [f"{RESULT}.content"], answered(content=[], is_error=True), id="no error blocks"
    ),
    pytest.param(
        "AN08", [f"{RESULT}.content"], answered(content=" \n", is_error=True), id="a blank error"
    ),
    pytest.param(
        "AN08", [f"{RESULT}.is_error"], answered(is_error="true"), id="a flag that is text"
    ),
    pytest.param("AN09", ["messages[0].content[0]"], [user(text(""))], id="empty text"),
    pytest.param("AN09", ["messages[0].content[1]"], [user(text(), text(" \n"))], id="blank text"),
    pytest.param("AN09", ["messages[0].content[0]"], [user({"type": "text"})], id="no text"),
    pytest.param("AN09", ["messages[0]"], [{"role": "user", "content": ""}], id="empty content"),
    pytest.param(
        "AN09", ["messages[0].content"], [{"role": "user", "content": "  "}], id="blank content"
    ),
    pytest.param("AN09", ["messages[0]"], [user()], id="a user without blocks"),
    pytest.param("AN09", ["messages[0].content"], [{"role": "user"}], id="no content"),
    pytest.param(
        "AN09", ["messages[0].content"], [{"role": "user", "content": {}}], id="an object"
    ),
    pytest.param("AN09", ["messages[1]"], [ASK, assistant(), ASK], id="an empty assistant inside"),
    pytest.param(
        "AN09",
        ["messages[1].content"],
        [ASK, {"role": "assistant", "content": None}],
        id="a null assistant at the end",
    ),
    pytest.param(
        "AN09",
        ["messages[1].content[0]"],
        [ASK, assistant(text(""))],
        id="an empty block at the end",
    ),
    pytest.param(
        "AN09",
        [f"{RESULT}.content[0]"],
        answered(content=[text("")]),
        id="empty text inside a result",
    ),
    pytest.param("AN09", [f"{RESULT}.content"], answered(content={}), id="an object as result"),
    pytest.param(
        "AN09",
        ["messages[1].content[1]"],
        [ASK, assistant(text(), text("It is "))],
        id="a blank at the very end",
    ),
    pytest.param(
        "AN09",
        ["messages[1].content"],
        [ASK, {"role": "assistant", "content": "It is\n"}],
        id="a prefill that ends its line",
    ),
    pytest.param("AN11", ["messages[1]"], [ASK, system()], id="a system message at the end"),
    pytest.param(
        "AN11*",
        ["messages[1]"],
        [ASK, {"role": "system", "content": [{"type": "tool_addition", "tool": {}}]}],
        id="a change of tools",
    ),
    pytest.param("AN12", ["messages[0]"], [assistant(text())], id="the assistant speaks first"),
    pytest.param("AN13", ["messages"], "hello", id="no list"),
    pytest.param("AN13", ["messages"], {"messages": []}, id="an object instead of the list"),
    pytest.param("AN13", ["messages[1]"], [ASK, None], id="a message that is none"),
    pytest.param(
        "AN13", ["messages[1].role"], [ASK, {"role": "tool", "content": "12C"}], id="a tool's role"
    ),
    pytest.param("AN13", ["messages[1].role"], [ASK, {"role": [], "content": "a"}], id="no role"),
    pytest.param("AN13", ["messages[0].content[0]"], [user("hello")], id="a block that is text"),
    pytest.param("AN13", ["messages[0].content[0]"], [user({"text": "a"})], id="no type"),
    pytest.param(
        "AN13",
        [f"{RESULT}.content[0]"],
        answered(content=[call("toolu_2")]),
        id="a call inside a result",
    ),
    pytest.param(
        "AN13", [f"{RESULT}.content[1]"], answered(content=[text(), 1]), id="a number as block"
    ),
    pytest.param(
        "AN13",
        ["messages[1].content[0].signature"],
        [ASK, assistant({"type": "thinking", "thinking": "hm"}, text()), ASK],
        id="unsigned thinking",
    ),
    pytest.param(
        "AN13",
        ["messages[0].content[0]"],
        [user({"type": "redacted_thinking", "data": "x"}, text())],
        id="a user's thinking",
    ),
    pytest.param(
        "AN13",
        ["messages[1].content[1]"],
        [ASK, assistant(text(), {"type": "image"}), ASK],
        id="an assistant's image",
    ),
    pytest.param(
        "AN14",
        ["messages[1].content[0].name"],
        [ASK, assistant(call(name="")), user(result())],
        id="an empty name",
    ),
    pytest.param(
        "AN14",
        ["messages[1].content[0].name"],
        [ASK, assistant(call(name=None)), user(result())],
        id="a null name",
    ),
    pytest.param(
        "AN14",
        ["messages[1].content[0].name"],
        [ASK, assistant(call(name="x" * 201)), user(result())],
        id="a name of 201 characters",
    ),
    pytest.param(
        "AN15",
        ["messages[1]"],
        [ASK, assistant(call("a"), call("b")), user(result("a")), user(result("b"))],
        id="results in two messages",
    ),
    pytest.param(
        "AN15",
        ["messages[1]"],
        [ASK, assistant(call()), assistant(text()), user(result())],
        id="assistant text between call and result",
    ),
    pytest.param(
        "AN15",
        ["messages[1]"],
        [ASK, assistant(call("a")), assistant(call("b")), user(result("a"), result("b"))],
        id="two messages of calls, one of results",
    ),
    pytest.param(
        "AN16",
        ["messages[1].content[0]"],
        [ASK, assistant(served(), text()), user(text())],
        id="the servers never answered, and the user went on",
    ),
    pytest.param(
        "AN16",
        ["messages[1].content[0]"],
        [ASK, assistant(served("mcp_tool_use"), call()), user(result(), text())],
        id="text after the results that came while it ran",
    ),
    pytest.param(
        "AN16",
        ["messages[1].content[0]", "messages[1].content[1]"],
        [ASK, assistant(served(id=7), served_result(tool_use_id="srvtoolu_2")), user(text())],
        id="ids that do not match",
    ),
    pytest.param(
        "AN16",
        ["messages[1].content[0]"],
        [ASK, assistant(served_result())],
        id="a result without a call",
    ),
    pytest.param(
        "AN13",
        ["messages[1].content[0].thinking"],
        [ASK, assistant({"type": "thinking", "signature": "sig"}, text()), ASK],
        id="thinking whose text is missing",
    ),
    pytest.param(
        "AN13",
        ["messages[1].content[0].parsed_output"],
        [ASK, assistant({**text(), "parsed_output": {}}), ASK],
        id="what the client has parsed",
    ),
    pytest.param(
        "AN13",
        ["messages[1].content[0].from_"],
        [ASK, assistant({"type": "fallback", "from_": {}, "to": {}}, text()), ASK],
        id="a member by its name in Python",
    ),
    pytest.param(
        "AN13*",
        ["messages[0].content[0]", "messages[1].content[0]"],
        [user({"type": "new"}), assistant({"type": "new"}, text()), ASK],
        id="types of which the API's reference has none",
    ),
    pytest.param(
        "AN21",
        [f"{RESULT}.toolset_name"],
        [ASK, assistant(call(toolset_name="browser")), user(result())],
        id="a result without its toolset",
    ),
    pytest.param(
        "AN21",
        [f"{RESULT}.toolset_name"],
        answered(toolset_name="browser"),
        id="a result with a toolset that its call has not",
    ),
    pytest.param(
        "AN22",
        ["messages[1].content[0].caller"],
        [ASK, assistant(call(caller=PROGRAM)), user(result())],
        id="a caller that is not there",
    ),
    pytest.param(
        "AN22",
        [f"{RESULT[:-3]}[1]"],
        [
            ASK,
            assistant(served(), call(caller=PROGRAM)),
            user(result(), text()),
            assistant(served_result(), text()),
            ASK,
        ],
        id="words beside the result of a call of code",
    ),
]

BROKEN += [
    pytest.param(
        ("AN10", "AN11", "AN12"), ["messages[0]"] * 3, [system(), ASK], id="the system comes first"
    ),
    *(
        pytest.param(("AN11", "AN20"), [f"messages[{place}]"] * 2, messages, id=named)
        for named, place, messages in (
            ("the system has the last word", 2, [ASK, assistant(text()), system()]),
            ("the system between users", 1, [ASK, system(), ASK]),
            (
                "the system between answers",
                2,
                [ASK, assistant(text()), system(), assistant(text())],
            ),
        )
    ),
]

SOUND = [
    pytest.param("AN10", [ASK], id="the user comes first"),
    pytest.param("AN20", [ASK, assistant(text()), ASK], id="no system message"),
    pytest.param(
        "AN01",
        [ASK, assistant(call("a"), call("b")), user(result("b"), result("a"))],
        id="any order",
    ),
    pytest.param(
        "AN01",
        [
            ASK,
            assistant(
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "a", "input": {}},
                {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": []},
                text(),
            ),
        ],
        id="tools of the server",
    ),
    pytest.param("AN02", [*answered(), assistant(text())], id="a result in its place"),
    pytest.param("AN03", [ASK, assistant(call()), user(result(), text())], id="text after results"),
    pytest.param("AN03", [*answered(), user(text())], id="text in the message after results"),
    pytest.param(
        "AN04",
        [*answered(), assistant(call("toolu_2")), user(result("toolu_2"))],
        id="one result for each call",
    ),
    pytest.param(
        "AN05",
        [ASK, assistant(call("a"), call("A")), user(result("a"), result("A"))],
        id="ids that differ in case",
    ),
    pytest.param(
        "AN05",
        [*answered(), assistant(call()), user(result(content=[FOUND]))],
        id="an id again, for a search for tools",
    ),
    pytest.param("AN06", [ASK, assistant(call("_-aZ9")), user(result("_-aZ9"))], id="all legal"),
    pytest.param("AN07", [ASK, assistant(call(input={"a": 1})), user(result())], id="an object"),
    pytest.param("AN08", answered(content="Timeout.", is_error=True), id="an error with a text"),
    pytest.param(
        "AN08", answered(content=[text()], is_error=True), id="an error that says something"
    ),
    pytest.param("AN08", answered(content=[{"type": "image"}]), id="a result with an image"),
    pytest.param(
        "AN17", [ASK, assistant(THOUGHT), assistant(text()), ASK], id="reasoning in its own message"
    ),
    pytest.param("AN17", [ASK, assistant(THOUGHT, call()), user(result())], id="reasoning first"),
    pytest.param("AN19", [user(*[text() | MARK] * 4)], id="4 marks"),
    pytest.param("AN19", [user(text() | HOUR, text() | MARK)], id="an hour first"),
    pytest.param("AN19", [user(*[text() | {"cache_control": None}] * 5)], id="no marks"),
    pytest.param("AN08", answered(content=[text("Timeout.")], is_error=True), id="an error block"),
    pytest.param("AN08", answered(content="", is_error=False), id="an empty success"),
    pytest.param(
        "AN08",
        [ASK, assistant(call()), user({"type": "tool_result", "tool_use_id": "toolu_1"})],
        id="a success without content",
    ),
    pytest.param("AN09", [ASK, assistant()], id="an empty assistant at the end"),
    pytest.param("AN09", [ASK, assistant(text("It is ")), ASK], id="a blank before the end"),
    pytest.param("AN09", [user(text("Is it "))], id="a user's blank at the end"),
    pytest.param(
        "AN09", [ASK, {"role": "assistant", "content": ""}], id="an empty prefill at the end"
    ),
    pytest.param(
        "AN09",
        [
            ASK,
            assistant(
                {"type": "thinking", "thinking": "", "signature": "sig"},
                {"type": "redacted_thinking", "data": "x"},
                text(),
            ),
        ],
        id="thinking without text",
    ),
    pytest.param("AN10", [{"role": "user", "content": "hello"}], id="content as text"),
    pytest.param("AN11", [ASK, assistant(text()), ASK], id="two speakers only"),
    pytest.param("AN11*", [ASK, user({"type": "document"})], id="no change of tools"),
    pytest.param("AN12", [], id="no messages"),
    pytest.param(
        "AN12",
        [assistant({"type": "compaction", "content": "It went well."}, text()), ASK],
        id="a compaction first",
    ),
    pytest.param(
        "AN20", [ASK, assistant(text()), ASK, {"role": "user", "content": "q"}], id="no system"
    ),
    pytest.param("AN13", [user(text(), {"type": "document"}, {"type": "image"})], id="any block"),
    pytest.param("AN13", answered(content=[text(), {"type": "image"}]), id="a result of blocks"),
    pytest.param("AN14", [ASK, assistant(call(name="x" * 200)), user(result())], id="200 letters"),
    pytest.param(
        "AN15", [*answered(), assistant(call("b")), user(result("b"))], id="a call at a time"
    ),
    pytest.param("AN15", [*answered(), user(text())], id="a user message that says more"),
    pytest.param(
        "AN16",
        [ASK, assistant(served(), served_result(), text()), user(text())],
        id="a served call with its result",
    ),
    pytest.param(
        "AN16",
        [ASK, assistant(served()), assistant(served_result(), text()), user(text())],
        id="the result in the next message",
    ),
    pytest.param(
        "AN16",
        [ASK, assistant(served(), call()), user(result())],
        id="a served call that still runs while a result of the client's comes",
    ),
    pytest.param("AN16", [ASK, assistant(served())], id="a turn that was paused"),
    pytest.param("AN13*", [user(text(), {"type": "document"})], id="types that the API knows"),
    pytest.param(
        "AN21",
        [ASK, assistant(call(toolset_name="browser")), user(result(toolset_name="browser"))],
        id="a result of a toolset",
    ),
    pytest.param("AN21", answered(), id="a result of a tool without a toolset"),
    pytest.param(
        "AN22",
        [ASK, assistant(served(), call(caller=PROGRAM)), user(result())],
        id="results alone",
    ),
    pytest.param(
        "AN22",
        [ASK, assistant(call(caller={"type": "direct"})), user(result(), text())],
        id="words beside the result of a call of the model's",
    ),
]


class TestContract(BuiltInContract):
    """What all providers have in common."""

    provider = "anthropic"
    broken = BROKEN
    sound = SOUND
    ignored_codes = ("AN18",)


def test_the_levels_are_those_of_the_specification() -> None:
    """System messages inside, who speaks first and last, new types and the letter are strict."""
    strict = [code for code, (level, _, _) in anthropic.RULES.items() if level == "strict"]
    assert strict == ["AN11", "AN11*", "AN12", "AN13*", "AN15", "AN18"]
    assert model_rules("anthropic", None).tolerates == {"AN11", "AN11*", "AN13*", "AN18"}


@pytest.mark.parametrize("last", [assistant(text()), assistant(), assistant(text("{"))])
def test_newer_models_refuse_to_go_on_from_the_assistant(last: Message) -> None:
    """A history that ends with the assistant's words breaks a strict rule, and no other."""
    [violation] = validate([ASK, last], "anthropic")
    assert (violation.code, violation.level) == ("AN18", "strict")
    assert violation.place == "messages[1]"
    assert violation.message.startswith("messages.1: This model does not support")
    assert validate([ASK, last, ASK], "anthropic") == [] or not last["content"]


@pytest.mark.parametrize(
    "last", [served(id="srvtoolu_2"), served_result(), {"type": "compaction", "content": "so far"}]
)
def test_a_turn_that_the_api_paused_goes_back_as_the_last(last: Message) -> None:
    """The API itself goes on from it, on every model."""
    assert validate([ASK, assistant(text(), served(), last)], "anthropic") == []


def test_system_messages_in_a_row_stand_before_an_answer() -> None:
    """The API merges them; after a tool of the server one may stand, too."""
    assert {code for code, _ in found([ASK, system(), system(), assistant(text())])} == {"AN11"}
    paused = [ASK, assistant(served(), served_result()), system(), assistant(text())]
    assert {code for code, _ in found(paused)} == {"AN11"}


def test_a_system_message_inside_is_refused_by_some_only() -> None:
    """After a user turn the newest models accept one, so no hard rule is broken."""
    [violation] = judged([ASK, system(), assistant(text())])
    assert (violation.code, violation.level) == ("AN11", "strict")


def test_a_system_message_between_call_and_result_separates_them() -> None:
    """No model takes a system message there: the call has no result right after it."""
    codes = [code for code, _ in found([ASK, assistant(call()), system(), user(result())])]
    assert codes == ["AN01", "AN02", "AN11", "AN20"]


def test_text_in_an_earlier_neighbour_stands_before_the_result_once_merged() -> None:
    """User text and then the result, in two messages: answered, but late and not at once."""
    messages = [ASK, assistant(call()), user(text()), user(result())]
    assert found(messages) == [("AN03", "messages[3].content[0]"), ("AN15", "messages[1]")]


def test_calls_and_results_with_the_wrong_speaker_pair_with_nothing() -> None:
    """A user's call and an assistant's result are misplaced, and do not form a pair."""
    messages = [user(call("a")), assistant(result("a"), call("b")), user(result("b"))]
    assert found(messages) == [
        ("AN01", "messages[0]"),
        ("AN02", "messages[1].content[0]"),
        ("AN13", "messages[0].content[0]"),
        ("AN13", "messages[1].content[0]"),
    ]


def test_the_message_lists_only_the_unanswered_ids() -> None:
    """If a turn is half answered, the unanswered calls are named in their order."""
    messages = [ASK, assistant(call("a"), call("b"), call("c")), user(result("b"))]
    [violation] = validate(messages, "anthropic")
    assert "immediately after: a, c. Each" in violation.message


def test_the_message_prints_ids_bare_where_they_can_be_read() -> None:
    """A legible id is printed as it is; an unprintable one is quoted, a long one cut."""
    calls = [call("a"), call(""), call("a\ud800"), call("x" * 81), call(None), call(None)]
    violation = validate([ASK, assistant(*calls)], "anthropic")[0]
    listed = rf"a, '', 'a\ud800', {'x' * 77}..., (no id)"
    assert f"immediately after: {listed}. Each" in violation.message


def test_a_result_that_comes_with_a_later_message_is_named() -> None:
    """If a call has a result in the next message and one after it, the second is the late one."""
    messages = [ASK, assistant(text(), call("a"), call("b")), user(result("a")), user(result("b"))]
    [violation] = validate(messages, "anthropic")
    assert violation.message.endswith("the `tool_result` blocks of: b")


@pytest.mark.parametrize(
    ("value", "said"), [("", "be non-empty"), (" ", "non-whitespace text"), (None, "valid string")]
)
def test_blank_text_is_refused_in_the_words_of_the_api(value: object, said: str) -> None:
    """The API has different answers for empty text, blank text and no text."""
    [violation] = validate([user(text(value))], "anthropic")
    assert violation.message.endswith(said)


def test_an_error_of_blank_blocks_is_both_blank_and_silent() -> None:
    """Without its blank block the error would be empty."""
    messages = answered(content=[text(" ")], is_error=True)
    assert [code for code, _ in found(messages)] == ["AN08", "AN09"]
