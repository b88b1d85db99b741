"""The rules of OpenAI Chat Completions: what each refuses, what it allows, and their properties."""

from __future__ import annotations

from typing import Any

import pytest
from support.provider_contract import BuiltInContract

from eventstore.providers import registry
from eventstore.providers.openai import rules as openai
from eventstore.providers.validation import validate

Message = dict[str, Any]


def user(content: object = "hello") -> Message:
    """Return a user message."""
    return {"role": "user", "content": content}


def call(call_id: object = "call_1", name: object = "search", arguments: object = "{}") -> Message:
    """Return a call of a function."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def custom(name: object = "shell", text: object = "ls -l") -> Message:
    """Return a call of a custom tool."""
    return {"id": "call_1", "type": "custom", "custom": {"name": name, "input": text}}


def calling(*calls: object, content: object = None, **more: object) -> Message:
    """Return an assistant message with these calls."""
    return {"role": "assistant", "content": content, "tool_calls": list(calls), **more}


def says(content: object = "done", **more: object) -> Message:
    """Return an assistant message without calls."""
    return {"role": "assistant", "content": content, **more}


def result(call_id: object = "call_1", content: object = "12C") -> Message:
    """Return a tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def found(messages: object) -> list[tuple[str, str]]:
    """Return the code and place of each violation."""
    return [(violation.code, violation.place) for violation in validate(messages, "openai")]


ARGUMENTS = "messages[0].tool_calls[0].function.arguments"
NAME = "messages[0].tool_calls[0].function.name"
CONTENT = "messages[0].content"

BROKEN = [
    pytest.param("OA01", ["messages[0]"], [calling(call())], id="a call at the end"),
    pytest.param("OA01", ["messages[0]"], [calling(call()), user()], id="a user speaks instead"),
    pytest.param(
        "OA01",
        ["messages[0]"],
        [calling(call("a"), call("b"), call("c")), result("b")],
        id="one of three is answered",
    ),
    pytest.param(
        "OA01",
        ["messages[2]"],
        [calling(call()), result(), calling(call()), user()],
        id="an id answered in an earlier turn only",
    ),
    pytest.param("OA02", ["messages[0].tool_call_id"], [result()], id="a result without a call"),
    pytest.param(
        "OA02",
        ["messages[1].tool_call_id"],
        [says("hm"), result()],
        id="a result after an assistant that called nothing",
    ),
    pytest.param(
        "OA02",
        ["messages[3].tool_call_id"],
        [calling(call()), result(), user(), result()],
        id="a late second result",
    ),
    pytest.param(
        "OA02",
        ["messages[2].tool_call_id"],
        [calling(call()), result(), result("other")],
        id="a stranger in the run",
    ),
    pytest.param(
        "OA03",
        ["messages[2].tool_call_id", "messages[3].tool_call_id"],
        [calling(call()), result(), result(), result()],
        id="three results for one call",
    ),
    pytest.param("OA04", ["messages[0].tool_calls"], [says(tool_calls=[])], id="no call in list"),
    pytest.param(
        "OA04", ["messages[0].tool_calls"], [says(tool_calls={})], id="an object of calls"
    ),
    pytest.param(
        "OA04", ["messages[0].tool_calls[0]"], [calling("search")], id="a call that is a string"
    ),
    pytest.param(
        "OA04",
        [f"messages[0].tool_calls[{i}].type" for i in range(3)],
        [
            calling(
                {"id": "a", "function": call()["function"]},
                {**call("b"), "type": "tool"},
                {**call("c"), "type": ["function"]},
            ),
            *map(result, "abc"),
        ],
        id="calls of no known type",
    ),
    pytest.param(
        "OA04",
        ["messages[0].tool_calls"],
        [calling(*(call(f"c{i}") for i in range(129))), *(result(f"c{i}") for i in range(129))],
        id="129 calls",
    ),
    pytest.param(
        "OA05",
        ["messages[0].tool_calls[0].id", "messages[1].tool_call_id"],
        [calling(call("")), result("")],
        id="empty ids",
    ),
    pytest.param(
        "OA05",
        ["messages[0].tool_calls[0].id", "messages[1].tool_call_id"],
        [calling(call(None)), result(None)],
        id="null ids",
    ),
    pytest.param(
        "OA05",
        ["messages[0].tool_calls[0].id", "messages[1].tool_call_id"],
        [calling(call([])), result([])],
        id="ids that no set can hold",
    ),
    pytest.param(
        "OA05",
        ["messages[0].tool_calls[0].id", "messages[1].tool_call_id"],
        [calling(call(1)), result(1)],
        id="ids that are numbers",
    ),
    pytest.param(
        "OA05",
        [
            "messages[0].tool_calls[0].id",
            "messages[0].tool_calls[1].id",
            "messages[1].tool_call_id",
            "messages[2].tool_call_id",
        ],
        [calling(call(None), call(None)), result(None), result(None)],
        id="two calls and two results without ids",
    ),
    pytest.param(
        "OA06",
        ["messages[0].tool_calls[0].id", "messages[1].tool_call_id"],
        [calling(call("x" * 41)), result("x" * 41)],
        id="ids of 41 characters",
    ),
    pytest.param("OA07", [NAME], [calling(call(name="")), result()], id="no name"),
    pytest.param("OA07", [NAME], [calling(call(name=None)), result()], id="a null name"),
    pytest.param("OA07", [NAME], [calling(call(name="a.b")), result()], id="a dot in the name"),
    pytest.param("OA07", [NAME], [calling(call(name="a\n")), result()], id="a name and a newline"),
    pytest.param("OA07", [NAME], [calling(call(name="x" * 65)), result()], id="a long name"),
    pytest.param(
        "OA07",
        ["messages[0].tool_calls[0].custom.name"],
        [calling(custom(name="")), result()],
        id="a custom tool without a name",
    ),
    pytest.param(
        "OA07",
        ["messages[0].function_call.name"],
        [says(None, function_call={"name": "a b", "arguments": "{}"})],
        id="a legacy call with a blank in its name",
    ),
    pytest.param(
        "OA07",
        ["messages[0].name"],
        [{"role": "function", "content": "12C"}],
        id="a legacy result without a name",
    ),
    pytest.param("OA08", [ARGUMENTS], [calling(call(arguments={})), result()], id="an object"),
    pytest.param("OA08", [ARGUMENTS], [calling(call(arguments=None)), result()], id="null"),
    pytest.param(
        "OA08",
        ["messages[0].tool_calls[0].custom.input"],
        [calling(custom(text={})), result()],
        id="an object as custom input",
    ),
    pytest.param("OA09", [ARGUMENTS], [calling(call(arguments="")), result()], id="no text"),
    pytest.param("OA09", [ARGUMENTS], [calling(call(arguments="[]")), result()], id="an array"),
    pytest.param("OA09", [ARGUMENTS], [calling(call(arguments='{"a"')), result()], id="cut short"),
    pytest.param(
        "OA09", [ARGUMENTS], [calling(call(arguments='{"a": NaN}')), result()], id="not a number"
    ),
    pytest.param(
        "OA09",
        [ARGUMENTS],
        [calling(call(arguments='{"a": ' + "[" * 100_000)), result()],
        id="nested too deep to parse",
    ),
    pytest.param(
        "OA10",
        ["messages[0].tool_calls[1].id"],
        [calling(call(), call()), result()],
        id="one id for two calls",
    ),
    pytest.param(
        "OA07",
        ["messages[0].name", "messages[1].name"],
        [{**user("a"), "name": "John Smith"}, {**says("a"), "name": 7}],
        id="names of speakers",
    ),
    pytest.param(
        "OA11",
        ["messages[0].content[0]", "messages[0].content[1]"],
        [says([{"type": "image_url"}, {"type": "tool_use"}])],
        id="an assistant's image, another API's call",
    ),
    pytest.param("OA11", [CONTENT], [says(None)], id="null and nothing else"),
    pytest.param("OA11", [CONTENT], [{"role": "assistant"}], id="nothing at all"),
    pytest.param("OA11", [CONTENT], [says([])], id="no parts"),
    pytest.param("OA11", [CONTENT], [says(None, refusal=None, tool_calls=None)], id="nulls"),
    pytest.param("OA11", [CONTENT], [says(12)], id="a number"),
    pytest.param(
        "OA11", [CONTENT], [calling(call(), content=[]), result()], id="no parts beside calls"
    ),
    pytest.param(
        "OA11", ["messages[0].content[0]"], [says([{"type": "thinking"}])], id="a thinking part"
    ),
    pytest.param("OA11", ["messages[0].content[0]"], [says(["a"])], id="a part that is text"),
    pytest.param(
        "OA12", ["messages[1].content"], [calling(call()), result(content=None)], id="null"
    ),
    pytest.param(
        "OA12",
        ["messages[1].content"],
        [calling(call()), {"role": "tool", "tool_call_id": "call_1"}],
        id="a result without content",
    ),
    pytest.param(
        "OA12", ["messages[1].content"], [calling(call()), result(content={})], id="object"
    ),
    pytest.param(
        "OA12", ["messages[1].content"], [calling(call()), result(content=[])], id="parts"
    ),
    pytest.param(
        "OA12",
        ["messages[1].content[1]"],
        [
            calling(call()),
            result(content=[{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]),
        ],
        id="an image in a result",
    ),
    pytest.param(
        "OA12",
        ["messages[1].content[0].text"],
        [calling(call()), result(content=[{"type": "text"}])],
        id="a text part without text",
    ),
    pytest.param(
        "OA12",
        ["messages[0].content[0]", "messages[1].content[0]"],
        [
            {"role": "system", "content": [{"type": "file"}]},
            user([{"type": "input_text", "text": "a"}]),
        ],
        id="a system's file, another API's text",
    ),
    pytest.param("OA12", [CONTENT], [user(None)], id="a user message that is null"),
    pytest.param("OA12", [CONTENT], [user([])], id="a user message without parts"),
    pytest.param(
        "OA12", [CONTENT], [{"role": "system", "content": []}], id="a system message without parts"
    ),
    pytest.param("OA12", [CONTENT], [{"role": "system"}], id="a system message without content"),
    pytest.param("OA12", ["messages[0].content[0]"], [user([None])], id="a null part"),
    pytest.param(
        "OA12",
        [CONTENT],
        [{"role": "function", "name": "search", "content": {}}],
        id="an object in a legacy result",
    ),
    pytest.param(
        "OA13", ["messages[0].role"], [{"role": "model", "content": "a"}], id="a stranger"
    ),
    pytest.param("OA13", ["messages[0].role"], [{"content": "a"}], id="no role"),
    pytest.param("OA13", ["messages[0].role"], [{"role": {}}], id="a role that no set can hold"),
    pytest.param(
        "OA21",
        ["messages[0].thinking_blocks", "messages[0].tool_calls[0].provider_specific_fields"],
        [calling({**call(), "provider_specific_fields": {}}, thinking_blocks=[]), result()],
        id="members of litellm's",
    ),
    pytest.param("OA13", ["messages[0]"], ["hello"], id="a message that is a string"),
    pytest.param("OA13", ["messages"], {"messages": []}, id="an object instead of the list"),
    pytest.param("OA13", ["messages"], None, id="no list"),
    pytest.param(
        "OA20",
        ["messages[0].parsed"],
        [says(parsed={"order": 7})],
        id="what the client has parsed of a text",
    ),
    pytest.param(
        "OA20",
        ["messages[0].tool_calls[0].function.parsed_arguments"],
        [calling(parsed_call := call()), result()],
        id="what the client has parsed of arguments",
    ),
    pytest.param(
        "OA20*",
        ["messages[0].tool_calls[0].index"],
        [calling({**call(), "index": 0}), result()],
        id="a place in a stream",
    ),
]
parsed_call["function"]["parsed_arguments"] = {}

SOUND = [
    pytest.param("OA01", [calling(call("a"), call("b")), result("b"), result("a")], id="any order"),
    pytest.param(
        "OA01", [calling(call(), content="One moment."), result()], id="text beside calls"
    ),
    pytest.param(
        "OA01", [{**calling(call()), "role": "user", "content": "a"}], id="calls of a user"
    ),
    pytest.param("OA02", [calling(call()), result(), calling(call()), result()], id="an id again"),
    pytest.param("OA03", [calling(call("a"), call("b")), result("a"), result("b")], id="one each"),
    pytest.param("OA04", [says(tool_calls=None)], id="null instead of calls"),
    pytest.param("OA05", [calling(call("0")), result("0")], id="an id of one digit"),
    pytest.param("OA06", [calling(call("x" * 40)), result("x" * 40)], id="an id of 40 characters"),
    pytest.param("OA07", [calling(call(name="x" * 64)), result()], id="a name of 64 characters"),
    pytest.param("OA07", [calling(custom()), result()], id="a custom tool"),
    pytest.param(
        "OA07",
        [
            says(None, function_call={"name": "search", "arguments": "{}"}),
            {"role": "function", "name": "search", "content": None},
        ],
        id="a legacy call and its result",
    ),
    pytest.param("OA08", [calling(call(arguments='{"a": 1}')), result()], id="JSON text"),
    pytest.param(
        "OA09", [calling(custom(text="no JSON")), result()], id="free text to a custom tool"
    ),
    pytest.param(
        "OA09", [calling(call(arguments=f'{{"a": {"9" * 10_000}}}')), result()], id="a huge integer"
    ),
    pytest.param("OA09", [calling(call(arguments='{"a": "\\ud800"}')), result()], id="a surrogate"),
    pytest.param(
        "OA10",
        [calling(call()), result(), says(), calling(call()), result()],
        id="one id in two messages",
    ),
    pytest.param("OA11", [says("")], id="empty text"),
    pytest.param("OA11", [says([{"type": "refusal", "refusal": "No."}])], id="a refusal part"),
    pytest.param("OA11", [says(None, refusal="No.")], id="a refusal"),
    pytest.param("OA11", [says(None, audio={"id": "audio_1"})], id="audio"),
    pytest.param("OA12", [calling(call()), result(content="")], id="an empty result"),
    pytest.param(
        "OA12",
        [calling(call()), result(content=[{"type": "text", "text": "a"}])],
        id="a result of text parts",
    ),
    pytest.param(
        "OA12",
        [
            user(
                [{"type": "input_audio", "input_audio": {}}, {"type": "image_url", "image_url": {}}]
            )
        ],
        id="a user's audio and image",
    ),
    pytest.param(
        "OA12",
        [user([{"type": "video_url", "video_url": {"url": "https://a.b/c.mp4"}}])],
        id="video",
    ),
    pytest.param(
        "OA04",
        [calling(*(call(f"c{i}") for i in range(128))), *(result(f"c{i}") for i in range(128))],
        id="128 calls",
    ),
    pytest.param(
        "OA13",
        [{"role": "developer", "content": "a"}, {"role": "system", "content": "a"}, user(), says()],
        id="every speaker",
    ),
    pytest.param("OA13", [], id="no messages"),
    pytest.param("OA20", [user(), says()], id="a message of the wire"),
    pytest.param("OA20*", [calling(call()), result()], id="a call of the wire"),
    pytest.param("OA21", [says(reasoning_content="hm")], id="a member of DeepSeek's"),
]


class TestContract(BuiltInContract):
    """What all providers have in common."""

    provider = "openai"
    broken = BROKEN
    sound = SOUND


def test_the_levels_are_those_of_the_specification() -> None:
    """Strict are ids, their uniqueness, the JSON of arguments, places and litellm's members."""
    strict = [code for code, (level, _, _) in openai.RULES.items() if level == "strict"]
    assert strict == ["OA06", "OA09", "OA10", "OA20*", "OA21"]


def test_the_message_lists_only_the_unanswered_ids() -> None:
    """If a turn is half answered, the unanswered calls are named in their order."""
    [violation] = validate([calling(call("a"), call("b"), call("c")), result("b")], "openai")
    assert violation.message.endswith("did not have response messages: a, c")


def test_a_result_without_an_id_answers_nothing_and_leaves_its_call_open() -> None:
    """A missing tool_call_id is three faults: the call, the result and the id."""
    messages = [calling(call()), {"role": "tool", "content": "12C"}]
    assert [code for code, _ in found(messages)] == ["OA01", "OA02", "OA05"]


def test_a_call_list_without_a_call_carries_nothing() -> None:
    """An empty list of calls, or a value that is not a list, does not replace content."""
    empty: list[object] = [[], {"id": "call_1"}]
    for calls in empty:
        assert [code for code, _ in found([says(None, tool_calls=calls)])] == ["OA04", "OA11"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "a boolean"),
        (1, "an integer"),
        (1.5, "a number"),
        ({}, "an object"),
        ([], "an empty array"),
        ([1], "an array"),
        (b"", "a bytes"),
        ("", "''"),
        ("a\ud800", "'a\\ud800'"),
        ("x" * 81, f"'{'x' * 77}...'"),
    ],
)
def test_the_message_shows_the_value_at_fault(value: object, shown: str) -> None:
    """Text is quoted and cut, null and the empty list are named, other values by their type."""
    messages = [calling(call(name=value)), result()]
    [message] = [each.message for each in validate(messages, "openai") if each.code == "OA07"]
    assert message.endswith(f"but got {shown}.")


def test_the_message_prints_ids_bare_where_they_can_be_read() -> None:
    """A legible id is printed as it is; an empty or unprintable one is quoted."""
    messages = [calling(call("call_1"), call(""), call("a\n"), call(None))]
    violation = validate(messages, "openai")[0]
    assert violation.message.endswith(r"response messages: call_1, '', 'a\n', null")


def test_any_other_message_ends_the_run_of_results() -> None:
    """A system message, or an invalid one, between call and result separates them."""
    for between in ({"role": "system", "content": "Be brief."}, None):
        codes = {code for code, _ in found([calling(call()), between, result()])}
        assert {"OA01", "OA02"} <= codes


def test_one_id_for_two_calls_and_two_results_is_two_faults() -> None:
    """The calls are answered, but calls and results each use the id twice."""
    messages = [calling(call(), call()), result(), result()]
    assert [code for code, _ in found(messages)] == ["OA03", "OA10"]


def test_violations_come_in_the_order_of_rules_and_places() -> None:
    """Codes ascend, and places ascend inside a code."""
    messages = [user(None), result("a"), calling(call(name=""), call(name="")), user(None)]
    assert found(messages) == [
        ("OA01", "messages[2]"),
        ("OA02", "messages[1].tool_call_id"),
        ("OA07", "messages[2].tool_calls[0].function.name"),
        ("OA07", "messages[2].tool_calls[1].function.name"),
        ("OA10", "messages[2].tool_calls[1].id"),
        ("OA12", "messages[0].content"),
        ("OA12", "messages[3].content"),
    ]


def test_an_unknown_provider_is_named_beside_the_known_ones() -> None:
    """The error lists the providers that have rules."""
    with pytest.raises(ValueError, match=r"'acme': pass one of .*anthropic.*openai"):
        validate([], "acme")


def test_a_violation_is_a_value() -> None:
    """Violations compare by what they say, can be kept in sets, and do not change."""
    [first], [second] = validate([says(None)], "openai"), validate([says(None)], "openai")
    assert {first} == {second}
    with pytest.raises(AttributeError):
        first.code = "OA01"  # type: ignore[misc]


def test_the_registry_takes_another_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule book put into the registry is applied like the built-in ones."""
    monkeypatch.setitem(registry._providers, "acme", registry._Provider("", rules=openai))
    assert validate(None, "acme") == validate(None, "openai")
