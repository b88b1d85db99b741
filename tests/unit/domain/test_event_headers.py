"""Event headers: the lifecycle of a call is the same as with whole events."""

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
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRenewed,
    ToolRunning,
    evolve,
)
from eventstore.domain.calls import same_json
from eventstore.domain.codec import decode, encode
from eventstore.domain.event_headers import HEADER_DECODERS, MessageHeader
from eventstore.domain.events import EVENT_CLASSES, SCHEMAS
from projections import CurrentTools, ErrorStatistics, error_statistics

CALL = FunctionCall("find", {"b": 1, "a": [None, 2.5]}, "c")
EDIT = FunctionCall("find", {"b": 2}, "c")
LIVES: dict[str, list[Event]] = {
    "completed": [
        ToolPending(CALL, "p", 3, 1, imported=True),
        ToolApproved("c", EDIT, "ann", "why not"),
        ToolPaused("c", 0, 9, "later"),
        ToolRunning("c", 1, {"b": 2}),
        ToolPaused("c", 1, None, "asks", 4),
        ToolRunning("c", 2, {"b": 2}, lease=5, worker="w"),
        ToolRenewed("c", 2, 5),
        ToolCompleted("c", FunctionResponse("find", {"z": [1]}, "c"), 2, 5, lossy=True),
    ],
    "failed": [
        ToolPending(CALL),
        ToolRunning("c", 1),
        ToolFailed("c", Failure(ErrorKind.QUOTA, "no", code="x", http_status=429), 1, 7, 9),
    ],
    "rejected": [ToolPending(CALL), ToolRejected("c", "no", "gate", "g", {"more": 1})],
    "not an object": [ToolPending(FunctionCall("find", None, "c", "{"))],
}


def header(event: Event) -> Any:
    """Return the header in an event's payload."""
    return HEADER_DECODERS[event.tag, SCHEMAS[event.tag]](encode(event))


def evolved(events: list[Any]) -> Tool | None:
    """Return the call after its events."""
    tool = None
    for at, event in enumerate(events):
        tool = evolve(tool, event, at)
    return tool


def test_every_event_class_has_a_header() -> None:
    """The header has the schema that is written today."""
    assert HEADER_DECODERS.keys() == {(tag, SCHEMAS[tag]) for tag in EVENT_CLASSES}
    assert header(MessageAdded("user", (Text("hi"),))) == MessageHeader("user")
    assert header(RunStarted("me")).tag == ""


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
def test_headers_and_events_give_the_same_call(life: list[Event]) -> None:
    """The calls have the same JSON form."""
    found = evolved([header(event) for event in life])
    assert msgspec.json.decode(msgspec.json.encode(found), type=Tool) == evolved(life)
    assert [header(event).call_id for event in life] == [e.call_id for e in life]  # type: ignore[union-attr]


def test_a_repeated_request_is_recognised_by_its_header() -> None:
    """Key order does not count; other arguments are refused."""
    once = header(ToolPending(CALL))
    turned = FunctionCall("find", {"a": [None, 2.5], "b": 1}, "c")
    tool = evolve(None, once)
    assert evolve(tool, header(ToolPending(turned))) is tool
    assert evolve(tool, ToolPending(turned)) is tool
    with pytest.raises(IllegalTransition, match="another call of this id exists"):
        evolve(tool, header(ToolPending(EDIT)))
    assert same_json(1, msgspec.Raw(b"1"))
    assert not same_json(1, 1.0)


def test_a_header_has_the_fingerprint_of_its_call() -> None:
    """The fingerprint can be computed where the log does not contain it."""
    for call in (CALL, FunctionCall("find", None, "c", "{")):
        assert header(ToolPending(call)).call.fingerprint == call.fingerprint


def test_an_event_without_a_header_is_read_whole(tmp_path: Any) -> None:
    """An event of an unknown tag and a damaged one are returned as in the feed."""
    assert decode("pending", SCHEMAS["pending"], b"{}").tag == "pending"
    with EventStore.open(f"sqlite:///{tmp_path}/log.db") as store:
        store.conversation("a").append(*LIVES["completed"])
        store.conversation("b").append(*LIVES["failed"], MessageAdded("user", (Text("x"),)))
        pages = list(store.read().outlines())
        headers: list[Recorded] = [recorded for page in pages for recorded in page]
        whole = list(store.read())
        assert error_statistics(store.read()) == error_statistics(whole)
    assert [r.call_id for r in headers] == [r.call_id for r in whole]
    assert ErrorStatistics().extend(headers).result() == ErrorStatistics().extend(whole).result()
    assert CurrentTools().extend(whole).anomalies == []


def test_headers_are_the_rest_of_a_feed(tmp_path: Any) -> None:
    """Headers move the feed's cursor as events do, and give what was not read yet, once."""
    with EventStore.open(f"sqlite:///{tmp_path}/log.db") as store:
        store.conversation("a").append(*LIVES["completed"])
        whole = list(store.read())
        feed = store.read(limit=2)
        (page,) = feed.outlines()
        assert [r.version for r in page] == [1, 2]
        assert feed.cursor == next_cursor(store, 2)
        assert list(feed) == list(feed.outlines()) == []
        feed = store.read()
        next(feed)
        assert [r for page in feed.outlines() for r in page] == whole[1:]
        assert feed.cursor == store.end()


def next_cursor(store: EventStore, events: int) -> object:
    """Return the cursor after that many events."""
    feed = store.read(limit=events)
    assert len(list(feed)) == events
    return feed.cursor
