"""Events to stored payloads and back; unreadable payloads are kept."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from eventstore import PayloadsRedacted, RedactedPayload
from eventstore.domain import codec
from eventstore.domain.calls import FunctionCall
from eventstore.domain.detached import EventsArchived, EventsRestored
from eventstore.domain.events import (
    HistoryCompacted,
    HookRaised,
    MessageAdded,
    ModelResponded,
    RunEnded,
    RunStarted,
    ToolEndedLate,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRenewed,
    UnknownEvent,
    UsageLimitBreach,
)
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.messages import Image, Opaque, Text
from eventstore.domain.nesting import MAX_LEVELS, too_deep
from eventstore.domain.tools_offered import GateAnswer, ToolsOffered
from eventstore.domain.usage import Usage
from eventstore.errors import UnencodableEvent
from eventstore.testing import approved, completed, failed, paused, pending, rejected, running

FAILURE = Failure(ErrorKind.AUTH, "no", "try later", "E1", 401, 2.5, "builtins.Error", "at line 1")
EVENTS = [
    pending(q="Größe", n=[1, 2.5, None, True]),
    ToolPending(FunctionCall("f", [1], "1", "[1]"), None, None, 3),
    approved(q="y"),
    approved(),
    running(attempt=2, q="x"),
    EventsArchived("mia", 3, "old.jsonl", "24 months"),
    EventsRestored("mia", 3),
    PayloadsRedacted("mia", (RedactedPayload(3, "0" * 32, "1"),), "asked for", "cards", ("a.b",)),
    ToolRenewed("1", 2, 30),
    ToolEndedLate("1", 1, failure=FAILURE, duration=5),
    paused(),
    ToolPaused("1", 0, 5, "later", 7),
    completed(result={"deep": [{}]}),
    msgspec.structs.replace(completed(), synthetic=True, lossy=True, provider="p", native={"a": 1}),
    failed(),
    ToolFailed("1", FAILURE, 2, 5, 6, "p", [1]),
    rejected(),
    ToolRejected("1", None, "gate", None, {"gate": "night"}),
    MessageAdded("user", (Text("hi"), Image("u"), Opaque("anthropic", {"type": "thinking"}))),
    MessageAdded("assistant", (), 3, 2, "openai", {"role": "assistant"}, True, True, "1"),
    ToolsOffered(0, ("a", "b"), ("a",), (GateAnswer("g", ("a",)), GateAnswer("h")), {"kind": "x"}),
    ModelResponded("openai", "gpt-5", "r1", "stop", Usage(9, 8, 7, 6, Decimal("0.50")), 5),
    ModelResponded("openai", "gpt-5", "r1", usage=Usage(cost=Decimal("0.50")), completes=7),
    HookRaised("limit", "hook", Failure(ErrorKind.INTERNAL, "no such rule"), "c1"),
    HistoryCompacted(4, (MessageAdded("user", (Text("short"),)),), trigger="auto"),
    UsageLimitBreach("cost", Decimal("0.50"), Decimal("0.51")),
    RunStarted("agent", "parent", "call"),
    RunEnded("error", FAILURE),
    UnknownEvent("tool_paused", 7, '{"why":"lunch"}'),
]


def tag_and_schema(event: Any) -> tuple[str, int]:
    """Return the tag and schema that are stored beside the payload."""
    return event.tag, event.schema if isinstance(event, UnknownEvent) else codec.SCHEMAS[event.tag]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.tag)
def test_an_event_survives_encoding_and_decoding(event: Any) -> None:
    """The event comes back equal from bytes, from text and from `as_stored`."""
    payload = codec.encode(event)
    assert codec.decode(*tag_and_schema(event), payload) == event
    assert codec.decode(*tag_and_schema(event), payload.decode()) == event
    assert codec.as_stored(event) == (event, payload)


def test_every_event_class_has_a_tag_and_a_schema() -> None:
    """The tags are distinct."""
    tags = list(codec.EVENT_CLASSES)
    assert len(set(tags)) == len(tags)
    assert set(codec.SCHEMAS) == set(tags)
    assert {type(event) for event in EVENTS} == {*codec.EVENT_CLASSES.values(), UnknownEvent}


def test_a_payload_is_one_json_object_without_defaults() -> None:
    """The payload is short, and readable with the database's own tools."""
    assert codec.encode(running(attempt=1)) == b'{"call_id":"call_1","attempt":1,"arguments":{}}'


def test_the_stored_event_does_not_alias_the_given_one() -> None:
    """The caller may change the values afterwards."""
    given = {"list": [1]}
    stored, _ = codec.as_stored(ToolRejected("1", details=given))
    given["list"].append(2)
    assert stored.details == {"list": [1]}


def test_unknown_fields_are_ignored() -> None:
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
def test_an_unreadable_payload_becomes_an_unknown_event(
    tag: str, schema: int, payload: str
) -> None:
    """Another tag or schema, damage and a missing upcaster never raise an error."""
    assert codec.decode(tag, schema, payload) == UnknownEvent(tag, schema, payload)
    assert codec.decode(tag, schema, payload.encode()) == UnknownEvent(tag, schema, payload)


def test_an_unreadable_payload_of_invalid_utf8_is_kept() -> None:
    """Replacement characters stand for the invalid bytes."""
    assert codec.decode("running", 1, b"\xff{") == UnknownEvent("running", 1, "\ufffd{")


def test_older_schemas_go_through_their_upcasters(monkeypatch: pytest.MonkeyPatch) -> None:
    """One upcaster follows the other, up to the schema of this version."""
    monkeypatch.setitem(codec.SCHEMAS, "run_ended", 3)
    monkeypatch.setitem(codec.UPCASTERS, ("run_ended", 1), lambda old: {"why": old["end"]})
    monkeypatch.setitem(codec.UPCASTERS, ("run_ended", 2), lambda old: {"reason": old["why"]})
    assert codec.decode("run_ended", 1, '{"end":"completed"}') == RunEnded("completed")
    assert codec.decode("run_ended", 2, '{"why":"error"}') == RunEnded("error")
    damaged = codec.decode("run_ended", 1, '{"nothing":1}')
    assert damaged == UnknownEvent("run_ended", 1, '{"nothing":1}')


@pytest.mark.parametrize("key", [("running", 2), ("nope", 1)])
def test_only_payloads_that_this_version_writes_have_a_decoder(key: tuple[str, int]) -> None:
    """Each decoder is made once."""
    with pytest.raises(KeyError):
        codec.DECODERS[key]
    assert codec.DECODERS["running", 1] is codec.DECODERS["running", 1]


class Foreign:
    """An object that JSON cannot express."""


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
        UnknownEvent("tag", 2**32, "{}"),
        UnknownEvent("tag", -1, "{}"),
    ],
)
def test_an_event_that_could_not_be_read_back_is_refused(event: Any) -> None:
    """The error names the event's class and says what to do."""
    with pytest.raises(UnencodableEvent, match=r"^\w+ c(annot|ould not) .*: pass ") as caught:
        codec.as_stored(event)
    assert type(event).__name__ in str(caught.value)


def test_an_event_that_cannot_be_written_is_distinguished_from_one_that_cannot_be_read() -> None:
    """The first is no JSON value; the second is one, of another type than its field."""
    with pytest.raises(UnencodableEvent, match="ToolRejected cannot be written as JSON"):
        codec.as_stored(ToolRejected("1", details={"what": Foreign()}))
    with pytest.raises(UnencodableEvent, match="MessageAdded could not be read back"):
        codec.as_stored(MessageAdded(5))  # type: ignore[arg-type]


def test_the_error_names_the_path_of_a_wrong_member() -> None:
    """The path leads to the value."""
    event = MessageAdded("user", (Text(5),))  # type: ignore[arg-type]
    with pytest.raises(UnencodableEvent, match=r"\$\.parts\[0\]\.text"):
        codec.as_stored(event)


def test_a_recursion_error_of_the_reader_does_not_make_a_sound_event_unknown() -> None:
    """The error is raised, because a skipped event would be missing from the state."""
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


def test_is_newer_separates_newer_events_from_damaged_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A later tag or schema is newer; a tag and schema that this version can read is not."""
    monkeypatch.setitem(codec.SCHEMAS, "running", 2)
    newer = [UnknownEvent(*of, "{") for of in (("running", 3), ("failed", 2), ("hologram", 1))]
    damaged = [UnknownEvent(*of, "{") for of in (("running", 2), ("running", 1), ("failed", 1))]
    assert [event.is_newer for event in newer + damaged] == [True] * 3 + [False] * 3


def test_a_recursion_error_of_the_parser_is_not_taken_for_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error is raised, because it is the reader's and not the payload's."""

    def exhausted(_: Any) -> None:
        raise RecursionError

    monkeypatch.setitem(codec.DECODERS, ("rejected", 1), exhausted)
    for payload in ("{}", b"{}"):
        with pytest.raises(RecursionError):
            codec.decode("rejected", 1, payload)


LEVELS_BELOW: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "pending": ('{"call":{"name":"f","arguments":%s}}', lambda event: event.call.arguments),
    "approved": (
        '{"call_id":"1","edited_call":{"name":"f","arguments":%s}}',
        lambda event: event.edited_call.arguments,
    ),
    "running": ('{"call_id":"1","attempt":1,"arguments":%s}', lambda event: event.arguments),
    "rejected": ('{"call_id":"1","details":%s}', lambda event: event.details),
    "tools_offered": ('{"iteration":0,"available":[],"conflict":%s}', lambda event: event.conflict),
    "message": (
        '{"role":"user","parts":[{"type":"opaque","provider":"p","data":%s}]}',
        lambda event: event.parts[0].data,
    ),
}


@pytest.mark.parametrize("tag", LEVELS_BELOW)
def test_a_value_is_read_as_it_is_up_to_the_limit_and_no_further(tag: str) -> None:
    """The limit is that of the value, however much of its event stands around it."""
    form, value_of = LEVELS_BELOW[tag]
    for levels in (MAX_LEVELS, MAX_LEVELS + 1):
        text = '{"a":' * levels + "1" + "}" * levels
        event: Any = codec.decode(tag, 1, form % text)
        if levels == MAX_LEVELS:
            assert msgspec.json.encode(value_of(event)).decode() == text
        else:
            assert not isinstance(event, UnknownEvent)
            assert too_deep(value_of(event)) is None
            kept = msgspec.json.encode(value_of(event)).count(b'{"a":')
            assert kept == (0 if tag in ("pending", "approved") else MAX_LEVELS)


def test_a_value_in_a_part_that_is_nested_too_deeply_is_named() -> None:
    """The path goes through the parts of the message."""
    deep: Any = "end"
    for _ in range(MAX_LEVELS + 1):
        deep = [deep]
    with pytest.raises(UnencodableEvent, match=r"at `\$\.parts\[1\]\.data\[0\]"):
        codec.as_stored(MessageAdded("user", (Text("x" * 500), Opaque("p", deep))))
