"""Redacted payloads: a marker in the place of a payload keeps the chain whole."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from eventstore import (
    EventStore,
    MessageAdded,
    Recorded,
    StoreCorrupt,
    ToolCompleted,
    ToolPending,
    ToolRunning,
    UnknownEvent,
)
from eventstore.domain.codec import encode
from eventstore.storage.chain import payload_digest
from eventstore.storage.sqlite.driver import driver
from projections import current_tools, model_history


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a log with a call that was completed."""
    path = tmp_path / "agent.db"
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("chat")
        chat.add_message("user", "My card is 4111 1111 1111 1111.")
        chat.request("pay", {"card": "4111 1111 1111 1111"}, "1")
        chat.start("1")
        chat.complete("1", {"card": "4111 1111 1111 1111"})
        chat.add_message("user", "Thanks.")
    return path


def events(path: Path) -> list[Recorded]:
    """Return what a reader gets."""
    with EventStore.open(f"sqlite:///{path}") as store:
        return list(store.conversation("chat").events())


def problems(path: Path) -> list[str]:
    """Return what `verify` finds."""
    with EventStore.open(f"sqlite:///{path}") as store:
        return [found.problem for found in store.verify()]


def redact(path: Path, version: int, **members: object) -> None:
    """Put a marker in the place of a payload; it keeps the payload's digest, and some members."""
    payload = encode(events(path)[version - 1].event)
    marker = {"redacted": payload_digest(payload).hex(), "by": "mia", **members}
    with closing(driver().connect(str(path))) as file:
        file.execute(
            "UPDATE toolledger_events SET payload = ? WHERE version = ?",
            (msgspec.json.encode(marker).decode(), version),
        )
        file.commit()


def test_a_redacted_log_is_sound_and_reads_as_before_but_for_the_payloads(path: Path) -> None:
    """With the members that their forms require, the events keep their kinds."""
    redact(path, 1, role="user")
    redact(path, 2, call={"id": "1", "name": "pay", "arguments": {}})
    redact(path, 3, call_id="1", attempt=1)
    redact(path, 4, call_id="1", response={"name": "pay", "result": None})
    read = [recorded.event for recorded in events(path)]
    kinds = [MessageAdded, ToolPending, ToolRunning, ToolCompleted, MessageAdded]
    assert [type(event) for event in read] == kinds
    assert b"4111" not in b"".join(map(encode, read))
    assert problems(path) == []
    assert current_tools(events(path))["1"].is_resolved
    assert model_history(events(path)).render("openai")["messages"]
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("chat")
        tool = chat.request("pay", {}, "2")
        chat.start(tool.id)
        assert chat.version == 7


def test_a_marker_without_the_forms_members_is_redacted_and_not_damaged(path: Path) -> None:
    """The event is read as unknown, and nothing is started: it may have been a start."""
    redact(path, 3)
    event = events(path)[2].event
    assert isinstance(event, UnknownEvent)
    assert (event.tag, event.is_redacted, event.damage) == ("running", True, "")
    assert problems(path) == []
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("chat")
        tool = chat.request("pay", {}, "2")
        with pytest.raises(StoreCorrupt, match=r"version 3 .* was redacted together with members"):
            chat.start(tool.id)


def test_a_marker_with_another_digest_is_damage(path: Path) -> None:
    """A payload that was replaced cannot pass for a redacted one."""
    redact(path, 1, role="user")
    with closing(driver().connect(str(path))) as file:
        file.execute(
            "UPDATE toolledger_events SET payload = replace(payload, substr(payload, 15, 6), "
            "'0000ff') WHERE version = 1"
        )
        file.commit()
    assert problems(path) == ["the event does not match its digest"]
