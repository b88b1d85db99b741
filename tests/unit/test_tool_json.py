"""A tool call as JSON: every state, in and out."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore import ErrorKind, Failure, FunctionCall, IllegalTransition, Running, Tool, evolve
from eventstore.testing import approved, completed, failed, pending, rejected, running

events = st.lists(
    st.sampled_from([
        approved(), approved(q="y"), approved(a=[1, None]), completed(), completed(result=None),
        replace(completed(), synthetic=True), failed(),
        replace(failed(), failure=Failure(ErrorKind.AUTH, "no", "told")),
        replace(failed(), failure=Failure(ErrorKind.INTERNAL, "odd")),
        rejected(), replace(rejected(), reason=None, source="gate", by=None),
        *(running(attempt=attempt, q="x") for attempt in (1, 2)), running(attempt=1, other=1),
    ]),
    max_size=6,
)  # fmt: skip


@given(events, st.sampled_from([{}, {"q": "x"}, {"deep": [{"é": 1.0}]}]))
def test_any_life_of_a_call_goes_through_json(life: list[Any], arguments: dict[str, Any]) -> None:
    """With attempts, edits, times and place: what comes back is equal."""
    tool = evolve(None, replace(pending(**arguments), turn=3), 1, "x1:0")
    for at, event in enumerate(life, 2):
        with suppress(IllegalTransition):
            tool = evolve(tool, event, at)
    assert Tool.decode(tool.encode()) == tool
    assert Tool.decode(tool.encode().decode()) == tool


def test_raw_arguments_are_kept() -> None:
    """What the model wrote instead of an object."""
    tool = Tool("1", FunctionCall("f", None, "1", "{not"))
    assert Tool.decode(tool.encode()) == tool


def test_a_foreign_running_call_runs_with_the_arguments_that_it_was_made_with() -> None:
    """Other libraries write no attempt: it is the first."""
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
def test_what_is_no_status_is_refused_and_the_place_named(status: str, message: str) -> None:
    """One clear error for wrong input."""
    data = f'{{"id":"1","call":{{"id":"1","name":"f","arguments":1}},"status":{status}}}'
    with pytest.raises(msgspec.ValidationError, match=message):
        Tool.decode(data)
