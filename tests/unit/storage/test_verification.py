"""`EventStore.verify`: what it says of events whose rows are as they were written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from eventstore import (
    EventStore,
    FunctionCall,
    FunctionResponse,
    StoreClosed,
    ToolApproved,
    ToolCompleted,
    ToolPending,
    UnknownEvent,
)
from eventstore.domain.codec import encode
from eventstore.domain.fingerprint import digest
from eventstore.storage.interface import Append, Draft
from eventstore.testing import append, draft, pending, running


@pytest.fixture
def store() -> Iterator[EventStore]:
    """Return an empty log in memory."""
    with EventStore.open("sqlite://") as store:
        yield store


def write(store: EventStore, *drafts: Draft) -> None:
    """Store drafts that nothing has checked, after what is there."""
    storage = store.session.storage
    request = Append("chat", store.conversation("chat").version, 0, list(drafts), lambda _: drafts)
    storage.append([request])


def found(store: EventStore) -> list[tuple[str | None, int | None, str]]:
    """Return what `verify` finds."""
    return [(item.conversation_id, item.version, item.problem) for item in store.verify()]


def test_nothing_is_found_in_a_log_of_every_kind_of_call(store: EventStore) -> None:
    """Edits, retries, rejections and repeats are as the rules want them."""
    chat = store.conversation("chat")
    first, second, third = (chat.request("pay", {"n": number}) for number in range(3))
    chat.approve(first.id, {"n": 5})
    chat.start(first.id)
    chat.fail(first.id, "busy")
    chat.start(first.id, attempt=2)
    chat.complete(first.id, 1)
    chat.reject(second.id)
    chat.complete(third.id, 1)
    chat.add_message("user", "Thanks.")
    assert found(store) == []


def test_a_transition_that_the_table_forbids_is_named(store: EventStore) -> None:
    """The event is as it was written, and it should not have been."""
    append(store.session.storage, "chat", pending("1"), running("1", 7))
    ((name, version, problem),) = found(store)
    assert (name, version) == ("chat", 2)
    assert "attempt 7 cannot start" in problem


def test_a_second_answer_is_named_and_the_first_one_stands(store: EventStore) -> None:
    """Later events are judged by the calls as the sound events leave them."""
    answers = [ToolCompleted("1", FunctionResponse("search", n)) for n in (1, 2, 1)]
    append(store.session.storage, "chat", pending("1"), *answers)
    assert [version for _, version, _ in found(store)] == [3]


@pytest.mark.parametrize("mark", [None, bytes(16), digest("pay", {"n": 2})])
def test_a_call_under_the_fingerprint_of_another_is_named(
    store: EventStore, mark: bytes | None
) -> None:
    """A search by fingerprint would find the wrong call, or none."""
    call = FunctionCall("pay", {"n": 1}, "1")
    request = replace(draft(ToolPending(call)), fingerprint=mark, begins=mark is not None)
    write(store, request)
    problem = "the fingerprint is not that of the call's arguments"
    assert found(store) == [("chat", 1, problem)]
    edit = ToolApproved("1", edited_call=FunctionCall("pay", {"n": 3}, "1"))
    write(store, replace(draft(edit), fingerprint=mark))
    assert found(store) == [("chat", 1, problem), ("chat", 2, problem)]


def test_a_call_without_an_id_is_named(store: EventStore) -> None:
    """No later event can be of it."""
    event = ToolPending(FunctionCall("pay", {}))
    write(store, replace(draft(event), payload=encode(event)))
    assert found(store) == [("chat", 1, "the call has no id")]


def test_an_event_that_cannot_be_read_is_named_once(store: EventStore) -> None:
    """The calls of its conversation are not judged from there on, those of others are."""
    chat = store.conversation("chat")
    chat.request("pay", {}, "1")
    chat.append(UnknownEvent("running", 1, '{"nothing":1}'))
    write(store, draft(running("1", 7)))
    append(store.session.storage, "other", running("1", 7))
    named = [(name, version) for name, version, _ in found(store)]
    assert named == [("chat", 2), ("other", 1)]
    assert found(store)[0][2] == "running (schema 1) cannot be read: it is damaged"


@pytest.mark.parametrize(("tag", "schema"), [("running", 2), ("hologram", 1)])
def test_an_event_of_a_newer_version_is_no_damage(store: EventStore, tag: str, schema: int) -> None:
    """The same holds for an event of another program."""
    chat = store.conversation("chat")
    chat.append(UnknownEvent(tag, schema, '{"call_id":"1"}'))
    chat.request("pay", {}, "1")
    assert found(store) == []


def test_a_log_that_cannot_be_checked_is_an_error(store: EventStore) -> None:
    """An error is not a finding: nothing is known of the log."""
    store.close()
    with pytest.raises(StoreClosed):
        list(store.verify())
