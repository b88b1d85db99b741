"""The stored form of every event is pinned: each tag, with each member.

A log outlives the version that wrote it. A change of an event never changes a line of
`payloads.json`: a new member gets an event of its own in `every_member.LATER` and a line here, and
a new form gets a new schema number and an upcaster.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from golden.every_member import EVENTS, LATER

from eventstore import Event, UnknownEvent
from eventstore.domain.codec import decode, encode
from eventstore.domain.events import EVENT_CLASSES, SCHEMAS

KNOWN = [event for event in (*EVENTS, *LATER) if not isinstance(event, UnknownEvent)]
STORED = json.loads(Path(__file__).with_name("payloads.json").read_text("utf-8"))


def pairs() -> list[Any]:
    """Return each event with what is stored of it."""
    return [
        pytest.param(event, stored, id=f"{stored['tag']}-{number}")
        for number, (event, stored) in enumerate(zip(KNOWN, STORED, strict=True))
    ]


def text(stored: dict[str, Any]) -> str:
    """Return the payload as the database has it."""
    return json.dumps(stored["payload"], ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize(("event", "stored"), pairs())
def test_a_stored_payload_is_read_as_its_event(event: Event, stored: dict[str, Any]) -> None:
    """Every member is found under its stored name."""
    read = decode(stored["tag"], stored["schema"], text(stored))
    assert read == event
    assert type(read) is type(event)


@pytest.mark.parametrize(("event", "stored"), pairs())
def test_an_event_is_written_as_its_stored_payload(event: Event, stored: dict[str, Any]) -> None:
    """The bytes are equal, so that older versions can read it."""
    if SCHEMAS[stored["tag"]] > stored["schema"]:
        pytest.skip("written with a newer schema, which has a payload of its own")
    assert event.tag == stored["tag"]
    assert encode(event).decode() == text(stored)


def test_every_tag_has_a_payload() -> None:
    """The test fails for a new tag without a payload."""
    assert {stored["tag"] for stored in STORED} == set(EVENT_CLASSES)
    assert {(tag, schema) for tag, schema in SCHEMAS.items()} <= {
        (stored["tag"], stored["schema"]) for stored in STORED
    }


def test_every_member_is_set_in_some_payload() -> None:
    """The test fails for a new member, of an event or of a struct in it, without a value."""
    unset: dict[str, set[str]] = defaultdict(set)
    for struct in structs(KNOWN):
        unset[type(struct).__name__] |= {f.name for f in msgspec.structs.fields(struct)}
    for struct in structs(KNOWN):
        for field in msgspec.structs.fields(struct):
            if getattr(struct, field.name) != field.default:
                unset[type(struct).__name__].discard(field.name)
    assert {name: members for name, members in unset.items() if members} == {}


def structs(value: Any) -> Iterator[msgspec.Struct]:
    """Yield every struct in a value."""
    if isinstance(value, msgspec.Struct):
        yield value
        for field in value.__struct_fields__:
            yield from structs(getattr(value, field))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from structs(item)
