"""How often in a row a tool has answered with a hint."""

from __future__ import annotations

import pytest

from eventstore import (
    ErrorKind,
    Event,
    Failure,
    FunctionCall,
    FunctionResponse,
    MessageAdded,
    RunStarted,
    ToolCompleted,
    ToolFailed,
    ToolPending,
)
from eventstore.policies.model_retries import model_retries
from eventstore.testing import log

HINT = Failure(ErrorKind.VALIDATION, "m", "use ISO dates", code="model_retry")
OTHER = Failure(ErrorKind.TRANSIENT, "lost")


def asked(call_id: str, name: str = "book") -> ToolPending:
    """Return a request of a tool."""
    return ToolPending(FunctionCall(name, {}, call_id))


def hinted(call_id: str, name: str = "book") -> list[Event]:
    """Return a call that ended with a hint."""
    return [asked(call_id, name), ToolFailed(call_id, HINT)]


@pytest.mark.parametrize(
    ("events", "count"),
    [
        ([], 0),
        ([*hinted("1"), *hinted("2")], 2),
        ([*hinted("1"), *hinted("2", "other")], 1),
        ([*hinted("1"), asked("2"), ToolFailed("2", OTHER), *hinted("3")], 2),
        (
            [
                *hinted("1"),
                asked("2"),
                ToolCompleted("2", FunctionResponse("book", 1, "2")),
                *hinted("3"),
            ],
            1,
        ),
        ([*hinted("1"), MessageAdded("user")], 0),
        ([*hinted("1"), MessageAdded("assistant")], 1),
        ([*hinted("1"), RunStarted(), *hinted("2")], 1),
        ([ToolFailed("unknown", HINT)], 0),
    ],
)
def test_hints_are_counted_until_the_tool_succeeds_or_the_question_is_new(
    events: list[Event], count: int
) -> None:
    """Other tools and other failures do not matter."""
    assert model_retries(log(*events), "book") == count
