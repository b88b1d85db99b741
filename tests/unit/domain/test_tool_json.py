"""A tool call as JSON: every state, in and out."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore import (
    ErrorKind,
    Failure,
    FunctionCall,
    IllegalTransition,
    Running,
    Tool,
    ToolPaused,
    evolve,
)
from eventstore.testing import approved, completed, failed, pending, rejected, running

DEFERRED = ToolPaused("call_1", 0, 5_000, "later")
PAUSED = ToolPaused("call_1", 1, None, "a person decides")

events = st.lists(
    st.sampled_from(
        [
            approved(),
            approved(q="y"),
            approved(a=[1, None]),
            completed(),
            completed(result=None),
            replace(completed(), synthetic=True),
            failed(),
            replace(failed(), failure=Failure(ErrorKind.AUTH, "no", "reported")),
            replace(failed(), failure=Failure(ErrorKind.INTERNAL, "odd")),
            DEFERRED,
            PAUSED,
            rejected(),
            replace(rejected(), reason=None, source="gate", by=None),
            *(running(attempt=attempt, q="x") for attempt in (1, 2)),
            running(attempt=1, other=1),
        ]
    ),
    max_size=6,
)


@given(events, st.sampled_from([{}, {"q": "x"}, {"deep": [{"é": 1.0}]}]))
def test_any_call_survives_its_json_form(life: list[Any], arguments: dict[str, Any]) -> None:
    """A call with attempts, edits, times and place comes back equal."""
    tool = evolve(None, replace(pending(**arguments), turn=3), 1, "x1:0")
    for at, event in enumerate(life, 2):
        with suppress(IllegalTransition):
            tool = evolve(tool, event, at)
    assert Tool.decode(tool.encode()) == tool
    assert Tool.decode(tool.encode().decode()) == tool


def test_raw_arguments_are_kept() -> None:
    """The JSON holds the text that the model wrote instead of an object."""
    tool = Tool("1", FunctionCall("f", None, "1", "{not"))
    assert Tool.decode(tool.encode()) == tool


def test_a_foreign_running_call_has_the_arguments_of_its_request() -> None:
    """Other libraries write no attempt number: it is the first attempt."""
    data = (
        '{"id":"1","call":{"id":null,"name":"f","arguments":{"a":1}},"status":{"state":"Running"}}'
    )
    assert Tool.decode(data).status == Running(1, {"a": 1})


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ('{"state":"Done"}', r"Invalid enum value 'Done' - at `\$.status.state`"),
        ('{"state":"Completed"}', r"Completed carries `response` - at `\$.status.data`"),
        ('{"state":"Failed","data":{}}', r"Failed carries `error` - at `\$.status.data`"),
        ('{"state":"Failed","data":{"error":1}}', r"at `\$.status.data.error`"),
    ],
)
def test_an_invalid_status_is_refused_and_the_error_names_the_place(
    status: str, message: str
) -> None:
    """There is one clear error for wrong input, with the path to it."""
    data = f'{{"id":"1","call":{{"id":"1","name":"f","arguments":1}},"status":{status}}}'
    with pytest.raises(msgspec.ValidationError, match=message):
        Tool.decode(data)


@given(events)
def test_a_call_that_msgspec_encoded_is_read_whole(life: list[Any]) -> None:
    """Its states keep their members beside `state`; as a part of a message it is equal, too."""
    tool = evolve(None, replace(pending(q="x"), turn=3), 1, "x1:0")
    for at, event in enumerate(life, 2):
        with suppress(IllegalTransition):
            tool = evolve(tool, event, at)
    for encoded in (msgspec.json.encode(tool), tool.encode()):
        assert Tool.decode(encoded) == tool
        assert Tool.decode(b'{"type": "Tool", "value": %s}' % encoded) == tool


@pytest.mark.parametrize(
    "life",
    [
        [approved(q="y")],
        [rejected()],
        [running(attempt=1, q="x")],
        [completed()],
        [failed()],
        [DEFERRED],
        [running(attempt=1, q="x"), PAUSED],
    ],
)
def test_msgspec_refuses_what_encode_wrote(life: list[Any]) -> None:
    """An edit, a reason or the time of a deferred call is not lost without a word."""
    tool = evolve(None, pending(q="x"), 1)
    for event in life:
        tool = evolve(tool, event, 2)
    if tool.status == Running(1, {"q": "x"}):
        message = "missing required field `attempt`"
    else:
        message = r"unknown field `data`|missing required field"
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.json.decode(tool.encode(), type=Tool)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"type": "Text", "value": {}}', r"Invalid value 'Text' - at `\$.type`"),
        ('{"type": "Tool"}', "missing required field `value`"),
        ('{"type": "Tool", "value": {"id": 1}}', r"at `\$.value.id`"),
    ],
)
def test_a_part_that_is_not_a_call_is_refused(data: str, message: str) -> None:
    """The error names the place within the part."""
    with pytest.raises(msgspec.ValidationError, match=message):
        Tool.decode(data)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":1,"a":1}',
        '{"a":1,"\\u0061":2}',
        '{"a":{"b":[{"c":1,"c":2}]}}',
        '{"":1,"":2}',
        '{"a":"\\u0022","a":2}',
        '{"a":1,"a":"\\u0022"}',
        '{"a\\u0022":1,"a\\"":"\\u0022"}',
    ],
)
def test_arguments_with_a_key_twice_are_kept_as_text(text: str) -> None:
    """Leave it to a person which of two values is meant: such arguments are no object."""
    call = FunctionCall.of("find", text)
    assert (call.arguments, call.raw, call.is_object) == (None, text, False)


@pytest.mark.parametrize(
    "text",
    ['{ "a" : "\\"", "b": "\\u0022", "c": {"a": 1} }', "{}", '{"a":"a","b":[{"a":1},{"a":2}]}'],
)
def test_arguments_with_each_key_once_are_an_object(text: str) -> None:
    """Read the same key in different objects, and quotes in values, as they are."""
    call = FunctionCall.of("find", text)
    assert (call.arguments, call.raw) == (json.loads(text), None)
