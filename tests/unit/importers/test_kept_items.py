"""Long conversations: long items wait in a temporary file, and nothing else differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import EventStore
from eventstore.importers import import_file
from eventstore.importers.reading import kept_items
from eventstore.importers.reading.kept_items import LONG_BYTES, KeptItems

LONG = "é" * LONG_BYTES
"""More bytes than an item that stays in memory, whatever is around it."""

items = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.tuples(inner)
)
long_items = st.builds(lambda item: {"item": item, "text": LONG}, items)


@given(st.lists(items | long_items), st.integers(0, 4 * LONG_BYTES), st.data())
def test_kept_items_are_a_list(given: list[Any], kept_bytes: int, data: st.DataObject) -> None:
    """Its items are equal and in order, as often as one asks, whichever of them wait in a file."""
    kept = KeptItems(given, kept_bytes=kept_bytes)
    assert [*kept] == [*kept] == given
    assert [kept[number] for number in range(len(kept))] == given
    start = data.draw(st.integers(0, len(given)))
    assert kept.taken_from(start) == given[start:]
    kept.append(LONG)
    assert [*kept] == [*given[:start], LONG]


def test_half_a_surrogate_pair_is_kept() -> None:
    """A log may have one, and what reads it says what becomes of it."""
    assert [*KeptItems([f"{LONG}\ud83d"], kept_bytes=0)] == [f"{LONG}\ud83d"]


def test_items_stay_in_memory_where_no_file_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk for temporary files ends no import."""
    opened: list[FullFile] = []

    class FullFile:
        """A file in which there is room for 5,000 bytes."""

        def __init__(self, buffering: int) -> None:
            opened.append(self)
            self.data = b""
            self.position = 0

        def seek(self, offset: int, whence: int = 0) -> int:
            self.position = len(self.data) if whence else offset
            return self.position

        def write(self, data: bytes) -> int:
            if len(self.data) >= 5000:
                raise OSError(28, "No space left on device")
            written = data[: 5000 - len(self.data)]
            self.data += written
            return len(written)

        def read(self, size: int) -> bytes:
            return self.data[self.position : self.position + size]

        def close(self) -> None:
            """Do nothing."""

    monkeypatch.setattr(kept_items, "TemporaryFile", FullFile)
    many = [f"{number} {LONG}" for number in range(6)]
    kept = KeptItems(many, kept_bytes=0)
    assert [*kept] == many
    assert len(opened[0].data) == 5000  # some of them are there


def claude_code() -> list[Any]:
    """Return a session of Claude Code with a sub-agent, and long results."""
    records: list[Any] = []

    def add(kind: str, content: Any, **more: Any) -> None:
        number = len(records)
        message = {"role": kind, "content": content}
        if kind == "assistant":
            message["id"] = f"m{number}"
        ids = {"uuid": f"r{number}", "parentUuid": f"r{number - 1}" if number else None}
        records.append({"type": kind, "sessionId": "s", **ids, "message": message, **more})

    add("user", "go")
    for number in range(3):
        use = {"type": "tool_use", "id": f"u{number}", "name": "Task", "input": {"prompt": "look"}}
        add("assistant", [{"type": "text", "text": LONG}, use])
        add("user", [{"type": "tool_result", "tool_use_id": f"u{number}", "content": LONG}])
    add("user", "look", isSidechain=True, parentUuid=None)
    add("assistant", [{"type": "text", "text": f"{LONG} seen"}], isSidechain=True)
    return records


def codex() -> list[Any]:
    """Return a rollout of Codex CLI with a turn that was rolled back, and long results."""

    def item(kind: str, **members: Any) -> Any:
        return {"type": "response_item", "payload": {"type": kind, **members}}

    made: list[Any] = [{"type": "session_meta", "payload": {"id": "s"}}]
    for number in range(3):
        said = [{"type": "input_text", "text": f"{number}"}]
        made.append(item("message", role="user", content=said))
        made.append(item("function_call", call_id=f"c{number}", name="shell", arguments="{}"))
        made.append(item("function_call_output", call_id=f"c{number}", output=LONG))
    rolled_back = {"type": "thread_rolled_back", "num_turns": 1}
    return [*made, {"type": "event_msg", "payload": rolled_back}]


@pytest.mark.parametrize("records", [claude_code(), codex()], ids=["claude-code", "codex"])
def test_a_long_session_is_imported_as_a_short_one(
    records: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events and their ids are the same, and those of a second conversation."""
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    logs = []
    for kept_bytes in (10**9, 0):
        monkeypatch.setattr(
            KeptItems.__init__, "__kwdefaults__", {"kept_bytes": kept_bytes, "may_wait": None}
        )
        with EventStore.open("sqlite://") as store:
            done = import_file(store, path)
            assert len(done.ids) == 2
            logs.append(
                [
                    (name, each.event_id, each.event)
                    for name in done.ids
                    for each in store.conversation(name).events()
                ]
            )
    assert logs[0] == logs[1]
    assert len(logs[0]) > 8


def test_items_that_nest_too_deeply_stay_in_memory() -> None:
    """A call of Claude Code may have any arguments; what pickle refuses depends on the Python."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert [each is deep for each in KeptItems([deep, deep], kept_bytes=0)] == [True, True]


@pytest.mark.parametrize("depth", [100, 900, 5000])
def test_items_of_any_depth_are_as_they_were(depth: int) -> None:
    """Those that lie in a file, too."""
    deep: Any = LONG
    for _ in range(depth):
        deep = {"a": deep}
    for kept in KeptItems([deep, deep], kept_bytes=0):
        inner: Any = kept
        for _ in range(depth):
            inner = inner["a"]
        assert inner == LONG
