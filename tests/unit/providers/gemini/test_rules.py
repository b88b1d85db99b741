"""The rules of Gemini: what each refuses, what it allows, and their properties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.providers.gemini import rules as gemini
from eventstore.providers.registry import model_rules
from eventstore.providers.validation import Violation, is_valid, validate

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
    pytest.param("GE05", [ASK, model(call(args=None)), user(result())], id="no arguments"),
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
    pytest.param("GE07", [{"parts": [text()]}], id="no role, but alone"),
    pytest.param(
        "GE07",
        [user(text("")), model(FILE)],
        id="any part",
    ),
    pytest.param("GE08", [ASK, model(call()), user(result()), user(text())], id="words apart"),
]


@pytest.mark.parametrize(("code", "places", "contents"), BROKEN)
def test_a_fault_is_reported_once_and_at_its_place(
    code: str, places: list[str], contents: object
) -> None:
    """A history with one kind of fault gives that rule's code at each place, and no other."""
    assert found(contents) == [(code.rstrip("*"), place) for place in places]


@pytest.mark.parametrize(("code", "contents"), SOUND)
def test_a_history_that_keeps_a_rule_breaks_no_other(code: str, contents: object) -> None:
    """A history that comes close to a fault, but has none, breaks no rule."""
    assert code in gemini.RULES
    assert found(contents) == []


@pytest.mark.parametrize("code", sorted(gemini.RULES))
def test_every_rule_is_seen_to_refuse_and_to_allow(code: str) -> None:
    """Each row of the table has a history that breaks it alone, and one that does not."""
    assert any(case.values[0] == code for case in BROKEN)
    assert any(case.values[0] == code for case in SOUND)


@pytest.mark.parametrize("code", sorted(gemini.RULES))
def test_every_violation_carries_the_level_and_the_remedy_of_its_rule(code: str) -> None:
    """A violation is the row of its rule with the place and the detail filled in."""
    contents = next(case.values[2] for case in BROKEN if case.values[0] == code)
    violation = validate(contents, "gemini")[0]
    level, _, remedy = gemini.RULES[code]
    assert violation.code == code.rstrip("*")
    assert (violation.level, violation.remedy) == (level, remedy)
    assert violation.place in violation.message
    assert "{place}" not in violation.message


def test_the_levels_are_those_of_the_specification() -> None:
    """A rule is strict where the API answers although it is broken."""
    strict = {code for code, row in gemini.RULES.items() if row[0] == "strict"}
    assert strict == {"GE01*", "GE03*", "GE06", "GE08"}
    assert strict - model_rules("gemini", None).tolerates == {"GE01*", "GE06"}
    assert is_valid([ASK, model(call(signed=False)), user(result(), text())], "gemini")
    assert not is_valid([ASK, model(call(signed=False))], "gemini")


def test_a_call_that_is_not_an_object_has_no_name() -> None:
    """The violation shows the call's value; its response has no call with that name."""
    contents = [ASK, model({"functionCall": "f", "thoughtSignature": "c2ln"}), user(result())]
    assert found(contents) == [
        ("GE04", "contents[2].parts[0].functionResponse.name"),
        ("GE05", "contents[1].parts[0].functionCall"),
    ]


@pytest.mark.parametrize(
    "value", [10**9, "\ud800", "x" * 1_000_000, b"bytes", float("nan"), {"a"}, object()]
)
def test_no_value_anywhere_raises_or_floods_the_message(value: object) -> None:
    """Any value at any place gives violations that are short and can be written as UTF-8."""
    for contents in (
        value,
        [value],
        [{"role": value, "parts": value}],
        [user(value, text(value))],
        [ASK, model(call(value, args=value, id=value)), user(result(value, response=value))],
        [ASK, model({"functionCall": value}), user({"functionResponse": value})],
    ):
        for violation in validate(contents, "gemini"):
            assert len(violation.message.encode()) < 1000


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=2) | st.none(), inner, max_size=3)
    ),
    max_leaves=5,
)
BODY = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["f", "g"]) | JUNK,
        "id": st.sampled_from(["1", "2"]) | JUNK,
        "args": JUNK,
        "response": JUNK,
    },
)
PART = st.fixed_dictionaries(
    {},
    optional={
        "text": JUNK,
        "functionCall": BODY | JUNK,
        "function_response": BODY | JUNK,
        "thoughtSignature": JUNK,
    },
)
CONTENT = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "model", "function"]) | JUNK,
        "parts": st.lists(PART | JUNK, max_size=4) | JUNK,
    },
)


@given(st.lists(CONTENT | JUNK, max_size=6) | JUNK)
def test_validation_is_total_deterministic_and_leaves_its_input_alone(contents: object) -> None:
    """Any contents are validated, with the same result each time, and are not changed."""
    before = repr(contents)
    violations = validate(contents, "gemini")
    assert validate(contents, "gemini") == violations
    assert repr(contents) == before
    assert all(type(violation) is Violation for violation in violations)
    assert [violation.code for violation in violations] == sorted(each.code for each in violations)


@st.composite
def valid_histories(draw: st.DrawFn) -> list[Content]:
    """Generate histories of any number of turns and calls, all answered."""
    history: list[Content] = []
    for _ in range(draw(st.integers(0, 4))):
        history.append(ASK)
        names = draw(st.lists(st.sampled_from("abc"), max_size=4))
        if names:
            history.append(model(*map(call, names)))
            history.append(user(*map(result, draw(st.permutations(names)))))
        history.append(model(text()))
    return history


@given(valid_histories())
def test_a_history_with_every_call_answered_is_valid(history: list[Content]) -> None:
    """Responses in any order inside their content make a valid history."""
    assert found(history) == []


@given(valid_histories(), st.data())
def test_a_lost_response_breaks_one_rule_alone(history: list[Content], data: st.DataObject) -> None:
    """Without any one of its responses a valid history breaks GE01 once, at the calls."""
    answers = [n for n, content in enumerate(history) if "functionResponse" in content["parts"][0]]
    if not answers:
        return
    place = data.draw(st.sampled_from(answers))
    history[place] = user(
        *history[place]["parts"][1:], *([] if history[place]["parts"][1:] else [text()])
    )
    assert found(history) == [("GE01", f"contents[{place - 1}]")]
