"""Events to stored text and back; what this version cannot read is kept."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from eventstore import codec
from eventstore.errors import UnencodableEvent
from eventstore.events import (
    GateAnswer,
    MessageAdded,
    RunEnded,
    RunStarted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolsOffered,
    UnknownEvent,
)
from eventstore.failure import ErrorKind, Failure
from eventstore.message import Image, Opaque, Text
from eventstore.testing import approved, completed, failed, pending, rejected, running
from eventstore.tool import FunctionCall

FAILURE = Failure(ErrorKind.AUTH, "no", "try later", "E1", 401, 2.5, "builtins.Error", "at line 1")
EVENTS = [
    pending(q="Größe", n=[1, 2.5, None, True]),
    ToolPending(FunctionCall("f", [1], "1", "[1]"), None, None, 3),
    approved(q="y"),
    approved(),
    running(attempt=2, q="x"),
    completed(result={"deep": [{}]}),
    msgspec.structs.replace(completed(), synthetic=True, lossy=True, provider="p", native={"a": 1}),
    failed(),
    ToolFailed("1", FAILURE, 2, 5, 6, "p", [1]),
    rejected(),
    ToolRejected("1", None, "gate", None, {"gate": "night"}),
    MessageAdded("user", (Text("hi"), Image("u"), Opaque("anthropic", {"type": "thinking"}))),
    MessageAdded("assistant", (), 3, 2, "openai", {"role": "assistant"}, True, True, "1"),
    ToolsOffered(0, ("a", "b"), ("a",), (GateAnswer("g", ("a",)), GateAnswer("h")), {"kind": "x"}),
    RunStarted("agent", "parent", "call"),
    RunEnded("error", FAILURE),
    UnknownEvent("tool_paused", 7, '{"why":"lunch"}'),
]


def tag_and_schema(event: Any) -> tuple[str, int]:
    """What stands beside the payload."""
    return event.tag, event.schema if isinstance(event, UnknownEvent) else codec.SCHEMAS[event.tag]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.tag)
def test_an_event_comes_back_as_it_was(event: Any) -> None:
    """From bytes and from text, and for a writer who asks beforehand."""
    payload = codec.encode(event)
    assert codec.decode(*tag_and_schema(event), payload) == event
    assert codec.decode(*tag_and_schema(event), payload.decode()) == event
    assert codec.as_stored(event) == (event, payload)


def test_every_event_class_has_a_tag_and_a_schema() -> None:
    """One each, so that no two are mistaken for one another."""
    tags = [cls.tag for cls in codec.EVENT_CLASSES]
    assert len(set(tags)) == len(tags)
    assert set(codec.SCHEMAS) == set(tags)
    assert {type(event) for event in EVENTS} == {*codec.EVENT_CLASSES, UnknownEvent}


def test_a_payload_is_one_json_object_without_defaults() -> None:
    """Short, and readable with the database's own tools."""
    assert codec.encode(running(attempt=1)) == b'{"call_id":"call_1","attempt":1,"arguments":{}}'


def test_what_is_kept_shares_nothing_with_what_was_given() -> None:
    """The caller may go on and change his values."""
    given = {"list": [1]}
    stored, _ = codec.as_stored(ToolRejected("1", details=given))
    given["list"].append(2)
    assert stored.details == {"list": [1]}


def test_unknown_fields_are_passed_over() -> None:
    """A newer version may add fields without a new schema."""
    event = codec.decode("run_started", 1, '{"agent":"a","mood":"good"}')
    assert event == RunStarted("a")


@pytest.mark.parametrize(
    ("tag", "schema", "payload"),
    [
        ("tool_paused", 1, '{"a":1}'),
        ("running", 2, '{"call_id":"1","attempt":1}'),
        ("running", 1, '{"call_id":"1"}'),
        ("running", 1, '{"call_id":1,"attempt":1}'),
        ("running", 1, "not json"),
        ("running", 1, ""),
        ("running", 0, '{"call_id":"1","attempt":1}'),
    ],
)
def test_what_cannot_be_read_is_kept_as_it_was_stored(tag: str, schema: int, payload: str) -> None:
    """Another tag or schema, a damaged payload, a missing upcaster: never an error."""
    assert codec.decode(tag, schema, payload) == UnknownEvent(tag, schema, payload)
    assert codec.decode(tag, schema, payload.encode()) == UnknownEvent(tag, schema, payload)


def test_bytes_that_are_no_text_are_kept_too() -> None:
    """With signs in place of what is no UTF-8."""
    assert codec.decode("running", 1, b"\xff{") == UnknownEvent("running", 1, "\ufffd{")


def test_older_schemas_go_through_their_upcasters(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step after the other, up to the schema of this version."""
    monkeypatch.setitem(codec.SCHEMAS, "run_ended", 3)
    monkeypatch.setitem(codec.UPCASTERS, ("run_ended", 1), lambda old: {"why": old["end"]})
    monkeypatch.setitem(codec.UPCASTERS, ("run_ended", 2), lambda old: {"reason": old["why"]})
    assert codec.decode("run_ended", 1, '{"end":"completed"}') == RunEnded("completed")
    assert codec.decode("run_ended", 2, '{"why":"error"}') == RunEnded("error")
    damaged = codec.decode("run_ended", 1, '{"nothing":1}')
    assert damaged == UnknownEvent("run_ended", 1, '{"nothing":1}')


@pytest.mark.parametrize("key", [("running", 2), ("nope", 1)])
def test_there_is_a_decoder_for_what_this_version_writes_alone(key: tuple[str, int]) -> None:
    """One that there is stays the same."""
    with pytest.raises(KeyError):
        codec.DECODERS[key]
    assert codec.DECODERS["running", 1] is codec.DECODERS["running", 1]


class Foreign:
    """Nothing that JSON knows."""


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "event",
    [
        ToolRejected("1", details={"what": Foreign()}),
        ToolRejected("1", details={"loop": LOOP}),
        ToolRejected("1", reason="\ud800"),
        MessageAdded(5),  # type: ignore[arg-type]
        MessageAdded("user", "text, not parts"),  # type: ignore[arg-type]
        running(attempt="first"),  # type: ignore[arg-type]
        ToolFailed("1", None),  # type: ignore[arg-type]
        ToolsOffered(0, "search"),  # type: ignore[arg-type]
        UnknownEvent("tag\ud800", 1, "{}"),
        UnknownEvent("tag", 1, "\ud800"),
        UnknownEvent("tag", 1, None),  # type: ignore[arg-type]
        UnknownEvent(7, 1, "{}"),  # type: ignore[arg-type]
        UnknownEvent("tag", "1", "{}"),  # type: ignore[arg-type]
        UnknownEvent("tag", 2**40, "{}"),
        UnknownEvent("tag", -1, "{}"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(event: Any) -> None:
    """The error names the event's class and says what to do."""
    with pytest.raises(UnencodableEvent, match=r"^\w+ c(annot|ould not) .*: pass ") as caught:
        codec.as_stored(event)
    assert type(event).__name__ in str(caught.value)


def test_a_wrong_member_is_named_with_its_path() -> None:
    """So that it is found."""
    event = MessageAdded("user", (Text(5),))  # type: ignore[arg-type]
    with pytest.raises(UnencodableEvent, match=r"\$\.parts\[0\]\.text"):
        codec.as_stored(event)


def test_a_reader_short_of_stack_never_takes_a_sound_event_for_unknown() -> None:
    """It fails instead: what it passed over would be missing from the state it decides on."""
    payload = codec.encode(rejected())

    def dive() -> Any:
        try:
            return dive()
        except RecursionError:
            return codec.decode("rejected", 1, payload)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        event = dive()
    finally:
        sys.setrecursionlimit(limit)
    assert event == rejected()


def test_an_event_that_nobody_can_parse_is_kept_as_unknown() -> None:
    """Nested deeper than any reader goes."""
    payload = '{"call_id":"1","attempt":1,"arguments":' + "[" * 100_000 + "]" * 100_000 + "}"
    assert codec.decode("running", 1, payload) == UnknownEvent("running", 1, payload)


def test_an_unknown_event_says_whether_it_is_newer_or_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tag or a schema of tomorrow is newer; what this version writes, and before, is not."""
    monkeypatch.setitem(codec.SCHEMAS, "running", 2)
    newer = [UnknownEvent(*of, "{") for of in (("running", 3), ("failed", 2), ("hologram", 1))]
    damaged = [UnknownEvent(*of, "{") for of in (("running", 2), ("running", 1), ("failed", 1))]
    assert [event.is_newer for event in newer + damaged] == [True] * 3 + [False] * 3


def test_a_parser_that_runs_out_of_stack_is_not_mistaken_for_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error comes out, as it is the reader's."""

    def exhausted(_: Any) -> None:
        raise RecursionError

    monkeypatch.setitem(codec.DECODERS, ("rejected", 1), exhausted)
    for payload in ("{}", b"{}"):
        with pytest.raises(RecursionError):
            codec.decode("rejected", 1, payload)
