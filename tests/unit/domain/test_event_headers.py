"""Outlines: events without their content, told apart from whole ones by nobody who counts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from eventstore import (
    ErrorKind,
    Event,
    EventStore,
    Failure,
    FunctionCall,
    FunctionResponse,
    IllegalTransition,
    MessageAdded,
    Recorded,
    RunStarted,
    Text,
    Tool,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    evolve,
)
from eventstore.codec import EVENT_CLASSES, SCHEMAS, decode, encode
from eventstore.outline import OUTLINES
from eventstore.tool import same_json
from projections import CurrentTools, ErrorStatistics

CALL = FunctionCall("find", {"b": 1, "a": [None, 2.5]}, "c")
EDIT = FunctionCall("find", {"b": 2}, "c")
LIVES: dict[str, list[Event]] = {
    "completed": [
        ToolPending(CALL, "p", 3, 1, imported=True),
        ToolApproved("c", EDIT, "ann", "why not"),
        ToolRunning("c", 1, {"b": 2}),
        ToolCompleted("c", FunctionResponse("find", {"z": [1]}, "c"), 1, 5, lossy=True),
    ],
    "failed": [
        ToolPending(CALL),
        ToolRunning("c", 1),
        ToolFailed("c", Failure(ErrorKind.QUOTA, "no", code="x", http_status=429), 1, 7, 9),
    ],
    "rejected": [ToolPending(CALL), ToolRejected("c", "no", "gate", "g", {"more": 1})],
    "not an object": [ToolPending(FunctionCall("find", None, "c", "{"))],
}


def outline(event: Event) -> Any:
    """What is read of an event's payload."""
    return OUTLINES[event.tag, SCHEMAS[event.tag]](encode(event))


def lived(events: list[Any]) -> Tool | None:
    """The call after its events."""
    tool = None
    for at, event in enumerate(events):
        tool = evolve(tool, event, at)
    return tool


def test_there_is_one_of_every_event() -> None:
    """Of the schema that is written."""
    assert OUTLINES.keys() == {(cls.tag, SCHEMAS[cls.tag]) for cls in EVENT_CLASSES}
    assert outline(MessageAdded("user", (Text("hi"),))).tag == ""
    assert outline(RunStarted("me")).tag == ""


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
def test_a_call_lives_the_same_by_outlines(life: list[Event]) -> None:
    """Written down, it is the same call."""
    found = lived([outline(event) for event in life])
    assert msgspec.json.decode(msgspec.json.encode(found), type=Tool) == lived(life)
    assert [outline(event).call_id for event in life] == [e.call_id for e in life]  # type: ignore[union-attr]


def test_what_comes_again_is_known_by_its_outline() -> None:
    """Whatever the order of its keys; another is another."""
    once = outline(ToolPending(CALL))
    turned = FunctionCall("find", {"a": [None, 2.5], "b": 1}, "c")
    tool = evolve(None, once)
    assert evolve(tool, outline(ToolPending(turned))) is tool
    assert evolve(tool, ToolPending(turned)) is tool
    with pytest.raises(IllegalTransition, match="another call of this id exists"):
        evolve(tool, outline(ToolPending(EDIT)))
    assert same_json(1, msgspec.Raw(b"1"))
    assert not same_json(1, 1.0)


def test_an_outline_has_the_fingerprint_of_its_call() -> None:
    """For a log that does not name it."""
    for call in (CALL, FunctionCall("find", None, "c", "{")):
        assert outline(ToolPending(call)).call.fingerprint == call.fingerprint


def test_what_cannot_be_outlined_is_read_whole(tmp_path: Any) -> None:
    """An event of an unknown tag, and one that is damaged: as the feed gives it."""
    assert decode("pending", SCHEMAS["pending"], b"{}").tag == "pending"
    with EventStore.open(f"sqlite:///{tmp_path}/log.db") as store:
        store.conversation("a").append(*LIVES["completed"])
        store.conversation("b").append(*LIVES["failed"], MessageAdded("user", (Text("x"),)))
        pages = list(store.read().outlines())
        outlines: list[Recorded] = [recorded for page in pages for recorded in page]
        whole = list(store.read())
    assert [r.call_id for r in outlines] == [r.call_id for r in whole]
    assert ErrorStatistics().extend(outlines).result() == ErrorStatistics().extend(whole).result()
    assert CurrentTools().extend(whole).anomalies == []
