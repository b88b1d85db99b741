"""Conversations as records of an Internet-Draft: they say what is not known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from eventstore import Conversation, EventStore
from projections.cli.app import run
from projections.exports.agent_record import agent_record


def lost(chat: Conversation) -> None:
    """Leave an attempt without an end."""


def failed_in_doubt(chat: Conversation) -> None:
    """End it by an error that says nothing of its effect."""
    chat.fail("1", ConnectionResetError("gone"))


def failed(chat: Conversation) -> None:
    """End it by an error of the tool itself."""
    chat.fail("1", "no such order")


def completed(chat: Conversation) -> None:
    """End it with a result."""
    chat.complete("1", {"paid": True})


ENDS: list[tuple[Callable[[Conversation], None], bool, list[bool]]] = [
    (lost, True, []),
    (failed_in_doubt, True, []),
    (failed, False, [True]),
    (completed, False, [False]),
]


@pytest.mark.parametrize(("end", "is_unknown", "results"), ENDS)
def test_a_record_has_an_outcome_only_where_the_log_has_one(
    end: Callable[[Conversation], None], *, is_unknown: bool, results: list[bool]
) -> None:
    """An attempt without an end is no failure, and no success."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        chat.add_message("user", "Pay.")
        chat.request("pay", {"n": 1}, "1")
        chat.start("1")
        end(chat)
        record = agent_record(chat.events())
    entries = record["session"]["entries"]
    kinds = [entry.get("event-type") for entry in entries]
    assert ("outcome-unknown" in kinds) == is_unknown
    assert [e["is-error"] for e in entries if e["type"] == "tool-result"] == results
    assert [e["type"] for e in entries[:2]] == ["user", "tool-call"]
    assert record["session"]["agent-meta"]["model-id"] == "unknown"


def test_records_are_exported_by_command(tmp_path: Path) -> None:
    """A line for each conversation; a redaction is told."""
    url, out = f"sqlite:///{tmp_path / 'a.db'}", tmp_path / "records.jsonl"
    with EventStore.open(url) as store:
        for name in ("a", "b"):
            store.conversation(name).add_message("user", "Hello.")
        store.redact("a", by="mia", whole=True)
    assert run(["export", "--format", "agent-record", "--url", url, "--out", str(out)]) == 0
    records = [msgspec.json.decode(line) for line in out.read_text("utf-8").splitlines()]
    assert [record["id"] for record in records] == ["a", "b"]
    kinds = [entry["type"] for entry in records[0]["session"]["entries"]]
    assert kinds == ["user", "system-event"]
