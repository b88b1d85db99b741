"""How a conversation ends: each way by its name, in the same words everywhere."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from eventstore import (
    ErrorKind,
    Event,
    Failure,
    FunctionCall,
    FunctionResponse,
    MessageAdded,
    ModelResponded,
    RunEnded,
    RunStarted,
    Text,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    Usage,
    UsageLimitBreach,
)
from eventstore.testing.builders import log
from projections import why
from projections.debugging.conversation_summary import conversation_summary
from projections.debugging.run_end import RunEnd

USER = MessageAdded("user", (Text("Go."),))
ANSWER = MessageAdded("assistant", (Text("Done."),), 1)
ASKS = MessageAdded("assistant", (), 1, 1)
CALL = ToolPending(FunctionCall("deploy", {}, "a"))
IMPORTED = ToolPending(FunctionCall("deploy", {}, "a"), imported=True)
DONE = ToolCompleted("a", FunctionResponse("deploy", "ok", "a"))
STOPPED = MessageAdded("user", (Text("[Request interrupted by user]"),))
MARK = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
USAGE = Usage(100, 20)


def responded(reason: str | None = "stop", provider: str = "openai", **more: Any) -> ModelResponded:
    """Return a response with its usage, as every SDK gives it."""
    return ModelResponded(provider, "m", "r", reason, USAGE, **more)


def submits(name: str = "submit", arguments: Any = None) -> ToolPending:
    """Return the call by which a model says that it is done."""
    return ToolPending(FunctionCall(name, arguments or {}, "a"), imported=True)


CASES: dict[str, tuple[list[Event], str, str]] = {
    "an answer": ([USER, ANSWER], "answered", "the assistant answered at version 2"),
    "an answer with its usage": (
        [USER, ANSWER, responded()],
        "answered",
        "the assistant answered at version 2",
    ),
    "cut off": (
        [USER, ANSWER, responded("length")],
        "cut off (length)",
        "the last answer, version 2, was cut off (length)",
    ),
    "filtered": (
        [USER, ANSWER, responded("content_filter")],
        "withheld (content_filter)",
        "the last answer, version 2, was withheld (content_filter)",
    ),
    "cut off, in an imported message": (
        [USER, MessageAdded("assistant", (Text("x"),), 1, finish_reason="max_tokens")],
        "cut off (max_tokens)",
        "the last answer, version 2, was cut off (max_tokens)",
    ),
    "cut off, as earlier versions imported it": (
        [USER, MessageAdded("assistant", (), 1, 0, "openai", {"finish_reason": "length"}, True)],
        "cut off (length)",
        "the last answer, version 2, was cut off (length)",
    ),
    "a stream that broke off": (
        [USER, MessageAdded("assistant", (Text("x"),), 1, broken_off=True)],
        "ended by an error (error)",
        "the last answer, version 2, was ended by an error (error)",
    ),
    "a run that completed": (
        [USER, ANSWER, RunEnded("completed")],
        "run completed",
        "the run ended at version 3: completed",
    ),
    "a run that failed": (
        [USER, RunEnded("error", Failure(ErrorKind.AUTH, "no"))],
        "run error",
        "the run ended at version 2: error (auth)",
    ),
    "a run that started again": (
        [USER, RunEnded("error"), RunStarted("again"), ANSWER],
        "answered",
        "the assistant answered at version 4",
    ),
    "a call that waits for a decision": (
        [USER, ASKS, CALL],
        "waiting",
        "waiting at version 3 for deploy",
    ),
    "a call that was approved": (
        [USER, ASKS, CALL, ToolApproved("a")],
        "waiting",
        "waiting at version 4 for deploy",
    ),
    "a call that runs": (
        [USER, ASKS, CALL, ToolRunning("a", 1)],
        "under way",
        "under way or stopped at version 4: deploy has started",
    ),
    "a result": (
        [USER, ASKS, CALL, ToolRunning("a", 1), DONE, responded("tool_calls")],
        "under way",
        "under way or stopped at version 5: the last result has no answer",
    ),
    "a question": (
        [USER, ANSWER, USER],
        "under way",
        "under way or stopped at version 3: the user's message has no answer",
    ),
    "a question after a call without an end": (
        [USER, ASKS, IMPORTED, USER],
        "under way",
        "under way or stopped at version 4: the user's message has no answer",
    ),
    "an old call without an end": (
        [USER, ASKS, IMPORTED, USER, ANSWER],
        "answered",
        "the assistant answered at version 5",
    ),
    "an interruption": (
        [
            USER,
            ASKS,
            CALL,
            ToolRejected("a"),
            MessageAdded("user", (Text("[Request interrupted]"),)),
        ],
        "interrupted",
        "the user interrupted at version 5",
    ),
    "a submission": (
        [USER, ASKS, submits(), DONE],
        "answered",
        "the assistant ended with submit at version 4",
    ),
    "a submission without a result": (
        [USER, ASKS, submits("finish")],
        "answered",
        "the assistant ended with finish at version 3",
    ),
    "a submission in a shell": (
        [
            USER,
            ASKS,
            submits("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}),
            DONE,
        ],
        "answered",
        "the assistant ended with bash at version 4",
    ),
    "a submission that failed": (
        [USER, ASKS, submits(), ToolFailed("a", Failure(ErrorKind.INTERNAL, "no patch"))],
        "under way",
        "under way or stopped at version 4: the last result has no answer",
    ),
    "a limit": (
        [USER, ANSWER, UsageLimitBreach("requests", Decimal(3), Decimal(4))],
        "limit reached",
        "the usage limit was reached at version 3",
    ),
    "a response that failed": (
        [USER, responded("error", failed=True)],
        "response failed",
        "the model's response failed at version 2",
    ),
    "nothing": ([], "", "the log is empty"),
}


@pytest.mark.parametrize(("events", "name", "text"), CASES.values(), ids=CASES)
def test_an_end_has_its_name(events: list[Event], name: str, text: str) -> None:
    """The summary, the fold of the web page and `why` say the same."""
    recorded = log(*events)
    end = RunEnd()
    for each in recorded:
        end.apply(each)
    assert end.name == conversation_summary("chat", recorded).last == name
    assert why(recorded).ended.startswith(text)
    assert "just stops" not in why(recorded).ended


def test_an_end_is_said_of_every_beginning_of_a_log() -> None:
    """The part that `why` keeps of a log says the same as all of it."""
    events = [event for events, _, _ in CASES.values() for event in events]
    recorded = log(*events)
    end = RunEnd()
    for at, each in enumerate(recorded, 1):
        end.apply(each)
        assert conversation_summary("chat", recorded[:at]).last == end.name
