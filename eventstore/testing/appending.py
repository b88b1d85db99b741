"""Appends to a storage, without a store, and reading all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from eventstore.domain.events import Event, MessageAdded, Recorded
from eventstore.domain.messages import Text
from eventstore.storage.interface import Append, Appended, Draft, Storage
from eventstore.testing.builders import draft


def forbid_rebase(tail: Sequence[Recorded]) -> NoReturn:
    """Fail: a `rebase` for appends that no other append may precede."""
    raise AssertionError(f"others wrote {tail}")


def rebase_with(event: Event, _: Sequence[Recorded]) -> Sequence[Draft]:
    """Return the event's draft: a `rebase` that stores the event after the events of others."""
    return [draft(event)]


def append(
    storage: Storage,
    conversation_id: str,
    *events: Event,
    version: int = 0,
    rebase: Callable[[Sequence[Recorded]], Sequence[Draft]] = forbid_rebase,
) -> Appended:
    """Append to a conversation that is known at `version`."""
    drafts = [draft(event) for event in events]
    return append_one(storage, Append(conversation_id, version, 0, drafts, rebase))


def append_one(storage: Storage, request: Append) -> Appended:
    """Append one request; raise what its `rebase` raised."""
    (outcome,) = storage.append([request])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def text_of(recorded: Recorded) -> str:
    """Return the text of a message's only part."""
    assert isinstance(recorded.event, MessageAdded)
    (part,) = recorded.event.parts
    assert isinstance(part, Text)
    return part.text


def all_events(storage: Storage) -> list[Recorded]:
    """Return every event of the storage."""
    return list(storage.feed({}))
