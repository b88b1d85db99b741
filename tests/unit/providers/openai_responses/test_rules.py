"""The rules of OpenAI Responses: what each refuses, what it allows, and their properties."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.providers.openai_responses import rules as responses
from eventstore.providers.registry import model_rules
from eventstore.providers.validation import Violation, is_valid, validate

Item = dict[str, Any]
OURS = "openai-responses"


def says(role: str = "user", content: object = "hello", **more: object) -> Item:
    """Return a message."""
    return {"role": role, "content": content, **more}


def call(call_id: object = "call_1", **more: object) -> Item:
    """Return a call of a function."""
    fields = {"type": "function_call", "call_id": call_id, "name": "search", "arguments": "{}"}
    return {**fields, **more}


def output(call_id: object = "call_1", **more: object) -> Item:
    """Return the output of a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": "12C", **more}


def reasoning(**more: object) -> Item:
    """Return a reasoning item."""
    return {"type": "reasoning", "summary": [], **more}


def custom(kind: str = "custom_tool_call", **more: object) -> Item:
    """Return a call of a custom tool, or its output."""
    return {"type": kind, "call_id": "call_1", **more}


SAID = {"type": "output_text", "text": "said"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
UUID = "76f8b89e-4a41-46fb-86ae-546cc1e4ba6c"


def found(items: object) -> list[tuple[str, str]]:
    """Return the code and place of each violation."""
    return [(violation.code, violation.place) for violation in validate(items, OURS)]


BROKEN = [
    pytest.param("OR01", ["input[0]"], [call()], id="a call at the end"),
    pytest.param("OR01", ["input[0]"], [call("a"), call("b"), output("b")], id="one of two"),
    pytest.param("OR01", ["input[2]"], [call(), output(), output()], id="a second output"),
    pytest.param("OR01", ["input[1]"], [call(), call(), output()], id="one output for two calls"),
    pytest.param(
        "OR01", ["input[0]"], [custom(name="shell", input="ls")], id="a custom tool's call"
    ),
    pytest.param("OR02", ["input[0]"], [output()], id="an output alone"),
    pytest.param("OR02", ["input[2]"], [call(), output(), output("b")], id="another call's output"),
    pytest.param("OR03", ["input[0].id"], [says(id="item_1")], id="another kind's id"),
    pytest.param("OR03", ["input[0].id"], [call(id="call_1"), output()], id="a call's id as id"),
    pytest.param("OR03", ["input[0].id"], [reasoning(id="1"), says("assistant")], id="no rs_"),
    pytest.param("OR03", ["input[0].id"], [says(id=5)], id="a number"),
    pytest.param(
        "OR03",
        ["input[2].id"],
        [says(id="msg_1"), says("assistant"), says(id="msg_1")],
        id="an id twice",
    ),
    pytest.param("OR04", ["input[0]"], [reasoning()], id="reasoning at the end"),
    pytest.param("OR04", ["input[0]"], [reasoning(id="rs_1"), says()], id="a user follows"),
    pytest.param(
        "OR04",
        ["input[1]", "input[2]"],
        [call(), reasoning(), reasoning(), output()],
        id="an output follows",
    ),
    pytest.param(
        "OR04", ["input[0]"], [reasoning(id="rs_1"), says("assistant")], id="a message without id"
    ),
    pytest.param("OR05", ["input"], None, id="no list"),
    pytest.param("OR05", ["input[0]"], ["hello"], id="an item that is text"),
    pytest.param("OR05", ["input[0]"], [{"name": "x"}], id="neither type nor role"),
    pytest.param("OR05", ["input[0].role"], [says("tool")], id="another role"),
    pytest.param("OR05", ["input[0].content"], [says(content=None)], id="no content"),
    pytest.param("OR05", ["input[0].content[0]"], [says(content=["x"])], id="a part that is text"),
    pytest.param(
        "OR05",
        ["input[0].content[0]"],
        [says(content=[{"type": "text", "text": "x"}])],
        id="a part of Chat Completions",
    ),
    pytest.param(
        "OR05",
        ["input[0].content[1]"],
        [says("assistant", [SAID, {"type": "input_text"}])],
        id="what an assistant does not say",
    ),
    pytest.param(
        "OR05",
        ["input[1].output[0]"],
        [call(), output(output=[{"type": "output_text"}])],
        id="what no output shows",
    ),
    pytest.param(
        "OR05",
        ["input[0].summary"],
        [reasoning(summary=None), says("assistant")],
        id="no summary",
    ),
    pytest.param("OR05", ["input[0].arguments"], [call(arguments={}), output()], id="an object"),
    pytest.param("OR05", ["input[0].name"], [call(name="a b"), output()], id="an illegal name"),
    pytest.param("OR05", ["input[1].output"], [call(), output(output=None)], id="no output"),
    pytest.param(
        "OR05",
        ["input[0].call_id", "input[1].call_id"],
        [call("x" * 65), output("x" * 65)],
        id="65 characters",
    ),
    pytest.param(
        "OR05", ["input[0].call_id", "input[1].call_id"], [call(None), output(None)], id="no ids"
    ),
    pytest.param("OR05", ["input[1].type"], [says(), {"type": "response.created"}], id="an event"),
    pytest.param("OR05", ["input[0].type"], [says(type="text")], id="a message of no known type"),
    pytest.param("OR06", ["input[2]"], [call(), says("assistant"), output()], id="words between"),
]

SOUND = [
    pytest.param("OR01", "hello", id="text is an input"),
    pytest.param("OR01", [call("a"), call("b"), output("b"), output("a")], id="another order"),
    pytest.param("OR01", [call(), output(), call(), output()], id="an id used again"),
    pytest.param(
        "OR01",
        [custom(name="shell", input="ls"), custom("custom_tool_call_output", output="a")],
        id="a custom tool",
    ),
    pytest.param("OR01", [SEARCH, says("assistant")], id="a search of the server's"),
    pytest.param(
        "OR02", [{"type": "item_reference", "id": "fc_1"}, output()], id="a call the server keeps"
    ),
    pytest.param("OR02", [{"id": "fc_1"}, output()], id="a reference without a type"),
    pytest.param(
        "OR03",
        [reasoning(id="rs_1"), call(id="fc_1"), output(id="x"), says("assistant", id="msg_1")],
        id="legal ids",
    ),
    pytest.param("OR03", [reasoning(id=UUID), call(), output()], id="a compatible server's"),
    pytest.param("OR03", [says("assistant", id=UUID)], id="a compatible server's message"),
    pytest.param("OR03", [reasoning(id="rs-a"), call(), output()], id="DeepSeek's reasoning"),
    pytest.param("OR03", [says(id=None), call(id=None), output(id=None)], id="null"),
    pytest.param("OR04", [reasoning(), reasoning(), call(), output()], id="a call follows"),
    pytest.param("OR04", [reasoning(), SEARCH, says("assistant")], id="a search follows"),
    pytest.param("OR04", [reasoning(), says("assistant")], id="neither has an id"),
    pytest.param(
        "OR04", [reasoning(id="rs_1"), says("assistant", id="msg_1")], id="both have an id"
    ),
    pytest.param(
        "OR04",
        [reasoning(id="rs_1", encrypted_content="gAAA"), says("assistant")],
        id="a message without id behind what brings its content",
    ),
    pytest.param(
        "OR04",
        [reasoning(), {"type": "tool_search_output", "execution": "server"}],
        id="what the server gave follows",
    ),
    pytest.param(
        "OR05",
        [custom(name="f", input="{"), custom("custom_tool_call_output", output="")],
        id="any text",
    ),
    pytest.param("OR05", [call("x" * 64), output("x" * 64, output=[])], id="64 characters"),
    pytest.param("OR05", [says("developer"), says(content=[{"type": "input_file"}])], id="any"),
    pytest.param(
        "OR05",
        [call(), output(output=[{"type": "input_text", "text": "t"}, {"type": "input_image"}])],
        id="what an output shows",
    ),
    pytest.param(
        "OR05", [says("assistant", [SAID, {"type": "refusal", "refusal": "no"}])], id="said"
    ),
    pytest.param(
        "OR06",
        [says("assistant"), call("a"), reasoning(), call("b"), output("a"), output("b"), says()],
        id="calls between",
    ),
]


@pytest.mark.parametrize(("code", "places", "items"), BROKEN)
def test_a_fault_is_reported_once_and_at_its_place(
    code: str, places: list[str], items: object
) -> None:
    """A history with one kind of fault gives that rule's code at each place, and no other."""
    assert found(items) == [(code, place) for place in places]


@pytest.mark.parametrize(("code", "items"), SOUND)
def test_a_history_that_keeps_a_rule_breaks_no_other(code: str, items: object) -> None:
    """A history that comes close to a fault, but has none, breaks no rule."""
    assert code in responses.RULES
    assert found(items) == []


HARD = sorted(code for code in responses.RULES if not code.endswith("*"))


@pytest.mark.parametrize("code", HARD)
def test_every_rule_is_seen_to_refuse_and_to_allow(code: str) -> None:
    """Each row of the table has a history that breaks it alone, and one that does not."""
    assert any(case.values[0] == code for case in BROKEN)
    assert any(case.values[0] == code for case in SOUND)


@pytest.mark.parametrize("code", HARD)
def test_every_violation_carries_the_level_and_the_remedy_of_its_rule(code: str) -> None:
    """A violation is the row of its rule with the place and the detail filled in."""
    items = next(case.values[2] for case in BROKEN if case.values[0] == code)
    violation = validate(items, OURS)[0]
    level, _, remedy = responses.RULES[code]
    assert (violation.code, violation.level, violation.remedy) == (code, level, remedy)
    assert "{place}" not in violation.message


def test_the_levels_are_those_of_the_specification() -> None:
    """Two rules are strict: the API itself answers, of one nothing is lost by mending it."""
    strict = {code for code, row in responses.RULES.items() if row[0] == "strict"}
    assert strict == {"OR05*", "OR06"}
    assert model_rules(OURS, None).tolerates == {"OR06"}
    assert is_valid([call(), says("assistant"), output()], OURS)


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "null", '{"a": NaN}'])
def test_arguments_that_are_no_object_are_refused_by_some_servers(arguments: str) -> None:
    """The API takes any text, vLLM does not."""
    (violation,) = validate([call(arguments=arguments), output()], OURS)
    assert (violation.code, violation.level) == ("OR05", "strict")
    assert violation.place == "input[0].arguments"
    assert not is_valid([call(arguments=arguments), output()], OURS)


@pytest.mark.parametrize("state", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
def test_a_whole_request_may_answer_what_the_server_keeps(state: Item) -> None:
    """All other rules hold for it as well."""
    request = {**state, "input": [output(), call("call_2")]}
    assert found(request) == [("OR01", "input[1]")]
    assert found({"input": [output()]}) == [("OR02", "input[0]")]
    assert found({"input": "hello", **state}) == []
    assert found({"input": None, **state}) == [("OR05", "input")]


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([call()], "No tool output found for function call call_1."),
        ([output("\n")], "No tool call found for function call output with call_id '\\n'."),
        ([reasoning(id="rs_1")], "Item 'rs_1' of type 'reasoning' was provided without its"),
        ([says(id="a")], "Expected an ID that begins with 'msg_'."),
        ([SEARCH, SEARCH], "Duplicate item found with id ws_1."),
    ],
)
def test_the_message_is_in_the_words_of_the_api(items: object, said: str) -> None:
    """Therefore a refusal in a log leads to the rule."""
    assert said in validate(items, OURS)[0].message


@pytest.mark.parametrize(
    "value", [10**9, "\ud800", "x" * 1_000_000, b"bytes", float("nan"), {"a"}, [], {}, object()]
)
def test_no_value_anywhere_raises_or_floods_the_message(value: object) -> None:
    """Any value at any place gives violations that are short and can be written as UTF-8."""
    for items in (
        value,
        [value],
        [{"type": value, "role": value, "content": value, "id": value}],
        [says(value, [value, {"type": value}], id=value)],  # type: ignore[arg-type]
        [call(value, name=value, arguments=value, id=value), output(value, output=value)],
        [reasoning(id=value)],
    ):
        for violation in validate(items, OURS):
            assert len(violation.message.encode()) < 1000


def work(items: list[Item]) -> int:
    """Return the number of Python and C calls that validation takes."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    former = sys.getprofile()
    sys.setprofile(count)
    try:
        validate(items, OURS)
    finally:
        sys.setprofile(former)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("answered", [True, False])
def test_twice_the_history_is_twice_the_work(answered: bool) -> None:
    """The work grows in proportion, also where thousands of calls share one id."""
    whole, half = (
        work([call() for _ in range(n)] + [output() for _ in range(n * answered)])
        for n in (5_000, 2_500)
    )
    assert half > 2_500
    assert whole < 2.05 * half


@st.composite
def valid_histories(draw: st.DrawFn) -> list[Item]:
    """Generate histories of any number of turns and calls, all answered."""
    history: list[Item] = []
    for turn in range(draw(st.integers(0, 4))):
        history.append(says())
        ids = [f"call_{turn}_{index}" for index in range(draw(st.integers(0, 4)))]
        if ids and draw(st.booleans()):
            history.append(reasoning(id=f"rs_{turn}"))
        history += [*map(call, ids), *map(output, draw(st.permutations(ids)))]
        history.append(says("assistant"))
    return history


@given(valid_histories())
def test_a_history_with_every_call_answered_is_valid(history: list[Item]) -> None:
    """Outputs in any order after their calls make a valid history."""
    assert found(history) == []


@given(valid_histories(), st.data())
def test_a_lost_output_breaks_one_rule_alone(history: list[Item], data: st.DataObject) -> None:
    """Without any one of its outputs a valid history breaks OR01 once, at the call."""
    outputs = [item for item in history if item.get("type") == "function_call_output"]
    if not outputs:
        return
    lost = data.draw(st.sampled_from(outputs))
    left = [item for item in history if item is not lost]
    place = next(n for n, item in enumerate(left) if item.get("call_id") == lost["call_id"])
    assert found(left) == [("OR01", f"input[{place}]")]


TEXT = st.text(max_size=3)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.none(), inner, max_size=3)
    ),
    max_leaves=5,
)
KIND = st.sampled_from(
    ["message", "function_call", "function_call_output", "reasoning", "custom_tool_call"]
)
ITEM = st.fixed_dictionaries(
    {},
    optional={
        "type": KIND | JUNK,
        "role": st.sampled_from(["user", "assistant", "system"]) | JUNK,
        "call_id": st.sampled_from(["a", "b"]) | JUNK,
        "id": st.sampled_from(["fc_1", "rs_1", "msg_1"]) | JUNK,
        "content": JUNK,
        "output": JUNK,
        "arguments": JUNK,
        "name": TEXT | JUNK,
    },
)


@given(st.lists(ITEM | JUNK, max_size=6) | JUNK)
def test_validation_is_total_deterministic_and_leaves_its_input_alone(items: object) -> None:
    """Any items are validated, with the same result each time, and are not changed."""
    before = repr(items)
    violations = validate(items, OURS)
    assert validate(items, OURS) == violations
    assert repr(items) == before
    assert all(type(violation) is Violation for violation in violations)
    assert [violation.code for violation in violations] == sorted(each.code for each in violations)
