"""Real transcripts: imported and cut at every event; each prompt is valid and complete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.tiers import LONG
from support.transcripts import find, present

from eventstore import EventStore, Recorded, RunStarted, validate
from eventstore.importers import SourceError, import_file, read
from projections.history.projection import History, model_history
from projections.repeats.projection import Repeat, repeats
from projections.replay import replay

FILES = (
    "tau-bench/airline.jsonl",
    "livemcpbench/sonnet-4.jsonl",
    "letta/repeat-loop.messages.json",
    "pi-sessions/large-session.messages.json",
    "pi-sessions/before-compaction.messages.json",
    "claude-code/0-say-lol-session.jsonl",
    "claude-code/1-continue-run-ls-tool.jsonl",
    "claude-code/duplicate-assistant-response.jsonl",
    "claude-code/duplicate-assistant-response-2.jsonl",
    "claude-code/permission-prompt-aborted-with-interrupt.jsonl",
    "claude-code/task_non_sdk.jsonl",
    "claude-code/task_sdk.jsonl",
)
PROVIDERS = ("openai", "anthropic")
"""Whether long conversations, too, are cut at every event: that takes minutes."""

MANY, EVERY = 600, 12
"""A conversation of more events is cut at every twelfth, at other ones each day."""

HERE = present(*FILES)

every_file = pytest.mark.parametrize("name", HERE)


def path_of(name: str) -> Path:
    """Return a file of real transcripts, or skip the test."""
    path = find(name)
    if path is None:
        pytest.skip(f"{name} is not here")
    return path


def imported(name: str, store: EventStore) -> list[str]:
    """Import a file; return the ids of its conversations."""
    return import_file(store, path_of(name)).ids


def cuts(events: list[Recorded]) -> set[int]:
    """Return the versions to cut a conversation at."""
    every = 1 if LONG or len(events) <= MANY else EVERY
    today = datetime.now(UTC).toordinal()
    return {len(events), *range(1 + today % every, len(events) + 1, every)}


def strings(value: Any) -> Iterator[str]:
    """Yield all text in a JSON value, and in JSON objects inside text."""
    if isinstance(value, str):
        yield value
        if value.startswith('{"error":'):
            yield from strings(json.loads(value.split("}\n[", maxsplit=1)[0]))
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def texts(content: Any) -> list[str]:
    """Return the texts of a result as a file has it."""
    return [text for text in strings(content) if text not in ("text", "")]


@every_file
@pytest.mark.slow
def test_a_log_cut_anywhere_gives_valid_prompts(name: str, store: EventStore) -> None:
    """The prompts for both providers keep all rules, the strict ones too."""
    for conversation_id in imported(name, store):
        events = list(store.conversation(conversation_id).events())
        wanted = cuts(events)
        history = History()
        for recorded in events:
            history.apply(recorded)
            if recorded.version not in wanted:
                continue
            view = history.view()
            for provider in PROVIDERS:
                found = validate(view.render(provider)["messages"], provider)
                assert found == [], (conversation_id, recorded.version, provider)


@every_file
def test_no_real_result_is_lost(name: str, store: EventStore) -> None:
    """Every tool result of the file is in the prompt, for both providers."""
    given = {t.id: list(t.messages) for t in read(path_of(name)).transcripts()}
    for conversation_id in imported(name, store):
        chat = store.conversation(conversation_id)
        history = model_history(chat.events(), collapse="none")
        for provider in PROVIDERS:
            shown = "\n".join(strings(history.render(provider)))
            for message in given[conversation_id]:
                for text in results(message):
                    assert text in shown, (conversation_id, provider)


def results(message: dict[str, Any]) -> list[str]:
    """Return the texts of the results that a message holds."""
    content = message.get("content")
    if message["role"] == "tool":
        return texts(content)
    blocks = content if isinstance(content, list) else []
    return [
        text
        for block in blocks
        if block.get("type") == "tool_result"
        for text in texts(block.get("content"))
    ]


@every_file
def test_each_file_can_be_imported_again(name: str, store: EventStore) -> None:
    """The second import adds nothing, and every result goes back unchanged."""
    before = {i: store.conversation(i).version for i in imported(name, store)}
    assert {i: store.conversation(i).version for i in imported(name, store)} == before


@pytest.mark.parametrize("name", [name for name in HERE if name.startswith("claude-code/")])
def test_a_session_log_can_be_imported_as_it_grows(
    name: str, store: EventStore, tmp_path: Path
) -> None:
    """Imports line by line give the same log as one import."""
    whole = EventStore.open("sqlite://")
    ids = imported(name, whole)
    lines = path_of(name).read_bytes().splitlines(keepends=True)
    path = tmp_path / Path(name).name
    for count in range(1, len(lines) + 1, max(1, len(lines) // 40)):
        path.write_bytes(b"".join(lines[:count]))
        with suppress(SourceError):  # there is no message yet
            import_file(store, path)
    imported(name, store)
    for conversation_id in ids:
        grown, once = (
            model_history(one.conversation(conversation_id).events()).render("anthropic")
            for one in (store, whole)
        )
        assert grown == once
    whole.close()


@pytest.mark.parametrize(("name", "count"), [(FILES[3], 18), (FILES[4], 6)])
def test_unanswered_calls_are_answered(name: str, count: int, store: EventStore) -> None:
    """24 calls of two coding sessions were aborted, and the prompt says what is known of each."""
    (conversation_id,) = imported(name, store)
    history = model_history(store.conversation(conversation_id).events(), collapse="none")
    messages = history.render("openai")["messages"]
    made = [call["id"] for m in messages for call in m.get("tool_calls", ())]
    answers = [m for m in messages if m["role"] == "tool"]
    assert sorted(made) == sorted(m["tool_call_id"] for m in answers)
    reported = [m for m in answers if "No result was recorded" in m["content"]]
    assert len(reported) == count
    assert [r.what for r in history.repairs].count("answered") == count


def test_a_loop_of_41_equal_calls_is_reported(store: EventStore) -> None:
    """An agent repeated one call and got the same answer each time."""
    (conversation_id,) = imported(FILES[2], store)
    found = [
        finding
        for finding in repeats(store.conversation(conversation_id).events())
        if isinstance(finding, Repeat)
    ]
    assert max(finding.run for finding in found) >= 41


def test_an_aborted_prompt_is_a_rejection_by_a_human(store: EventStore) -> None:
    """The call is rejected by a human, not failed."""
    (conversation_id,) = imported(FILES[9], store)
    (tool,) = store.conversation(conversation_id).tools.values()
    assert (tool.status.name, tool.status.source) == ("Rejected", "human")  # type: ignore[union-attr]


def test_a_sub_agents_side_chain_is_linked(store: EventStore) -> None:
    """The chain is a conversation of its own, which names the call that started it."""
    main, side = imported("claude-code/task_non_sdk.jsonl", store)
    started = next(iter(store.conversation(side).events())).event
    assert isinstance(started, RunStarted)
    assert (side, started.parent_conversation_id) == (f"{main}/sidechain-1", main)
    assert started.parent_call_id in store.conversation(main).tools


@every_file
def test_a_replay_of_an_imported_log_has_no_anomaly(name: str, store: EventStore) -> None:
    """The library's own import writes only legal transitions."""
    for conversation_id in imported(name, store):
        frames = list(replay(store.conversation(conversation_id).events()))
        assert [frame for frame in frames if frame.anomalies] == []
        assert len(frames) == store.conversation(conversation_id).version
