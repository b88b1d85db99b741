"""What a file repeats of another conversation is counted once, in whichever order files come."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from support.foreign_logs import codex, item
from support.importing import AT, Importer

from eventstore import EventStore, RunStarted
from eventstore.importers import import_file, import_files, read
from projections import error_statistics

Counts = tuple[int, int, int, int]
"""Calls, completed and failed ones, and copied ones in no count."""


def counts(store: EventStore) -> Counts:
    """Return what the statistics over a store say."""
    found = error_statistics(store.read())
    overall = found.overall
    ends = overall.completions, overall.terminal_failures
    return overall.calls, *ends, found.copied_calls


def write(path: Path, *records: Any) -> Path:
    """Write a file with one JSON value a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


# Codex CLI


def made(seconds: int, number: int) -> str:
    """Return a UUID of version 7 that was made so long after `AT`."""
    digits = f"{AT // 1000 + seconds * 1000:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-{number:012x}"


THREAD, FORK, CHILD = made(0, 1), made(100, 2), made(200, 3)


def header(at: int, thread: str, parent: str | None = None, **more: Any) -> Any:
    """Return the first record of a rollout."""
    origin = {} if parent is None else {"forked_from_id": parent}
    return codex("session_meta", at, id=thread, session_id=THREAD, **origin, **more)


def turn(at: int, number: int, exit_code: int, *, named: bool = True, made_at: int = -1) -> Any:
    """Return the records of a turn with one call."""
    turn_id = made(at if made_at < 0 else made_at, number)
    words = [{"type": "input_text", "text": f"go {number}"}]
    printed = f"Process exited with code {exit_code}\nout"
    begun = [codex("event_msg", at, type="task_started", turn_id=turn_id)] if named else []
    return [
        *begun,
        item("message", at, role="user", content=words),
        item("function_call", at + 1, name="exec", arguments="{}", call_id=f"call_{number}"),
        item("function_call_output", at + 2, call_id=f"call_{number}", output=printed),
        item("message", at + 3, role="assistant", content=[{"type": "output_text", "text": "ok"}]),
    ]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_turns_say_what_a_fork_of_codex_repeats(
    store: EventStore, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """A fork, and a sub-agent of it, whose copies have new times; they grow, and come again."""
    first, second, third = turn(1, 1, 2), turn(101, 2, 0), turn(201, 3, 0)
    again = turn(100, 1, 2, made_at=1)  # what was copied has the time of the fork
    nested = [*turn(200, 1, 2, made_at=1), *turn(200, 2, 0, made_at=101)]
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": FORK, "depth": 1}}}
    files = [
        (header(0, THREAD), *first),
        (header(100, FORK, THREAD), header(100, THREAD), *again, *second),
        (header(200, CHILD, source=spawned), header(200, FORK, THREAD), *nested, *third),
    ]
    paths = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for number in order:
        write(paths[number], *files[number])
        done = import_file(store, paths[number])
        assert (done.refused, done.conversations) == ([], 1)
    assert counts(store) == (3, 2, 1, 3)
    write(paths[1], *files[1], *turn(301, 4, 1))
    assert import_file(store, paths[1]).added == 4
    assert counts(store) == (4, 2, 2, 3)
    assert [import_file(store, path).added for path in paths] == [0, 0, 0]
    assert list(store.verify()) == []


def test_a_fork_of_codex_without_turns_of_its_own_is_a_copy(
    store: EventStore, tmp_path: Path
) -> None:
    """The times are those of the fork, and the only turn is the parent's."""
    records = header(100, FORK, THREAD), header(100, THREAD), *turn(100, 1, 2, made_at=1)
    import_file(store, write(tmp_path / "fork.jsonl", *records))
    assert counts(store) == (0, 0, 0, 1)
    assert error_statistics(store.conversation(FORK).events(), copies=True).overall.calls == 1
    (started,) = (r.event for r in store.conversation(FORK).events() if type(r.event) is RunStarted)
    assert started.parent_conversation_id == THREAD


def test_times_before_a_thread_of_codex_are_its_parents(store: EventStore, tmp_path: Path) -> None:
    """Older versions keep the times, and name no turns."""
    copied, own = turn(1, 1, 2, named=False), turn(101, 2, 0, named=False)
    records = header(100, FORK, THREAD), header(0, THREAD), *copied, *own
    import_file(store, write(tmp_path / "fork.jsonl", *records))
    assert counts(store) == (1, 1, 0, 1)


@pytest.mark.parametrize(
    ("parent", "fork"),
    [("rollout-a-{}.jsonl", "rollout-b.jsonl"), ("sessions/2025/01/02/rollout-a-{}.jsonl",) * 2],
    ids=["beside", "of another day"],
)
def test_the_rollout_of_the_parent_tells_what_a_fork_of_codex_repeats(
    store: EventStore, tmp_path: Path, parent: str, fork: str
) -> None:
    """Neither times nor turns tell: its records do, as far as they are the same."""
    copied, own = turn(101, 1, 2, named=False), turn(105, 2, 0, named=False)
    beside = tmp_path / fork.replace("/02/", "/03/").format(FORK)
    records = header(100, FORK, THREAD), header(100, THREAD), *copied, *own
    write(beside, *records)
    (alone,) = read(beside).transcripts()
    assert alone.copied == 0  # nothing tells
    whole = [header(0, THREAD), *turn(1, 1, 2, named=False), *turn(5, 9, 0, named=False)]
    write(tmp_path / parent.format(THREAD), *whole)
    import_file(store, beside)
    assert counts(store) == (1, 1, 0, 1)


def test_a_fork_of_codex_that_repeats_nothing_names_its_past(importer: Importer) -> None:
    """The newest versions say how many records of the parent the model had."""
    own = header(100, FORK, THREAD, forked_from_ordinal_exclusive=9)
    importer.lines("fork.jsonl", own, *turn(101, 1, 2))
    assert [problem.partition(":")[0] for problem in importer.problems] == [
        f"it continues {THREAD}, from which it was forked"
    ]


@pytest.mark.parametrize("text", ["", "\x00", "[]\n"])
def test_a_rollout_of_the_parent_that_cannot_be_read_tells_nothing(
    store: EventStore, tmp_path: Path, text: str
) -> None:
    """The fork is imported all the same, as its own."""
    (tmp_path / f"rollout-{THREAD}.jsonl").write_text(text)
    records = header(100, FORK, THREAD), *turn(101, 1, 2, named=False)
    import_file(store, write(tmp_path / "fork.jsonl", *records))
    assert counts(store) == (1, 0, 1, 0)


def test_turns_that_codex_rolled_back_are_copies_where_they_were_repeated(
    store: EventStore, tmp_path: Path
) -> None:
    """In the parent, before the fork; and in the fork, of the parent's turn."""
    back = codex("event_msg", 150, type="thread_rolled_back", num_turns=1)
    copied = [*turn(100, 1, 2, made_at=1), back, *turn(100, 2, 0, made_at=11)]
    own = turn(151, 3, 0)
    twice = codex("event_msg", 160, type="thread_rolled_back", num_turns=2)
    records = header(100, FORK, THREAD), header(100, THREAD), *copied, *own, twice, *turn(161, 4, 0)
    done = import_file(store, write(tmp_path / "fork.jsonl", *records))
    assert done.ids == [FORK, f"{FORK}/rolled-back-1", f"{FORK}/rolled-back-2"]
    assert counts(store) == (2, 2, 0, 2)


def test_a_sub_agent_of_codex_that_repeats_nothing_has_no_copies(
    store: EventStore, tmp_path: Path
) -> None:
    """Its own header alone names the parent."""
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": THREAD, "depth": 1}}}
    records = header(200, CHILD, source=spawned), *turn(100, 1, 2, named=False)
    import_file(store, write(tmp_path / "child.jsonl", *records))
    assert counts(store) == (1, 0, 1, 0)


# Claude Code


def record(number: int, session: str, role: str, content: Any, **more: Any) -> Any:
    """Return a record of a session log."""
    said = {"role": role, "content": content}
    return {
        "type": role,
        "uuid": f"uuid-{number}",
        "parentUuid": f"uuid-{number - 1}" if number > 1 else None,
        "sessionId": session,
        "isSidechain": False,
        "timestamp": f"2026-09-01T10:00:{number:02}.000Z",
        "message": said if role == "user" else {**said, "id": f"msg_{number}"},
        **more,
    }


def exchange(first: int, session: str, call: str, command: str, *, fails: bool, **more: Any) -> Any:
    """Return the records of a question, a call and its result."""
    asked = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": call, "content": "out", "is_error": fails}
    return [
        record(first, session, "user", f"run {command}", **more),
        record(first + 1, session, "assistant", [asked], **more),
        record(first + 2, session, "user", [result], **more),
    ]


def sessions(folder: Path, *, says_so: bool) -> list[Path]:
    """Write a session, one that was forked from it, and one that was forked from that."""
    origin = {"forkedFrom": {"sessionId": "one", "messageUuid": "uuid-1"}} if says_so else {}
    paths: list[Path] = []
    for count, name in enumerate(("one", "two", "three")):
        copied = [
            each
            for number in range(count)
            for each in exchange(
                1 + 3 * number,
                name,
                f"toolu_{number}",
                f"make {number}",
                fails=number == 0,
                **origin,
            )
        ]
        own = exchange(1 + 3 * count, name, f"toolu_{count}", f"make {count}", fails=count == 0)
        later = exchange(50 + count, name, f"toolu_{name}", "ls", fails=False)
        paths.append(write(folder / f"{name}.jsonl", *copied, *own, *later))
    return paths


@pytest.mark.parametrize("says_so", [True, False])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_sessions_of_claude_code_with_the_same_records_are_counted_once(
    store: EventStore, tmp_path: Path, order: tuple[int, ...], says_so: bool
) -> None:
    """Whether a copy says what it is of, or not, and in whichever order they come."""
    paths = sessions(tmp_path, says_so=says_so)
    for number in order:
        assert import_file(store, paths[number]).refused == []
    calls, completed, failed, _ = counts(store)
    assert (calls, completed, failed) == (6, 5, 1)
    assert [import_file(store, path).added for path in paths] == [0, 0, 0]
    for count, path in enumerate(paths):
        events = store.conversation(path.stem).events()
        assert error_statistics(events, copies=True).overall.calls == count + 2
    assert list(store.verify()) == []


def test_files_that_are_imported_together_are_counted_once(
    store: EventStore, tmp_path: Path
) -> None:
    """A file that may repeat another one waits for those before it."""
    sessions(tmp_path, says_so=False)
    assert not any(done.refused for done in import_files(store, [tmp_path], jobs=3))
    assert counts(store)[:3] == (6, 5, 1)


def test_a_session_that_grew_after_it_was_forked_counts_its_tail(
    store: EventStore, tmp_path: Path
) -> None:
    """Its fork, which was imported meanwhile, had a part of it first."""
    one, two, three = (exchange(n, "{}", f"toolu_{n}", f"make {n}", fails=False) for n in (1, 4, 7))

    def of(session: str, *records: Any) -> Path:
        named = [{**each, "sessionId": session} for part in records for each in part]
        return write(tmp_path / f"{session}.jsonl", *named)

    import_file(store, of("origin", one))
    import_file(store, of("fork", one, two))
    assert counts(store) == (2, 2, 0, 1)
    assert import_file(store, of("origin", one, two, three)).added == 6
    assert counts(store) == (3, 3, 0, 2)


def test_the_parent_of_a_fork_of_claude_code_is_named(store: EventStore, tmp_path: Path) -> None:
    """The conversation begins with the session that the fork was made from."""
    import_file(store, sessions(tmp_path, says_so=True)[1])
    (started, *_) = store.conversation("two").events()
    assert started.event == RunStarted(parent_conversation_id="one")
    assert not started.is_copy


def test_the_same_steps_of_another_program_are_no_copies(importer: Importer) -> None:
    """Two runs may begin alike where ids are not unique, as those of trajectories are not."""
    asked = {
        "role": "assistant",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        ],
    }
    for name in ("a", "b"):
        importer.document(
            f"{name}.json",
            [
                {"role": "user", "content": "go"},
                asked,
                {"role": "tool", "tool_call_id": "call_1", "content": "x"},
            ],
        )
    assert counts(importer.store) == (2, 2, 0, 0)


# Other programs


def pi(session: str, count: int) -> list[Any]:
    """Return a session of pi with so many calls."""
    entries: list[Any] = [{"type": "session", "version": 3, "id": session, "cwd": "/"}]
    for number in range(count):
        call = {"type": "toolCall", "id": f"c{number}", "name": "bash", "arguments": {"n": number}}
        result = {"role": "toolResult", "toolCallId": f"c{number}", "toolName": "bash"}
        said = [
            {"role": "user", "content": f"go {number}"},
            {"role": "assistant", "content": [call]},
            {**result, "content": [{"type": "text", "text": "out"}], "isError": False},
        ]
        for part, message in enumerate(said, 1):
            place = 3 * number + part
            parent = None if place == 1 else f"e{place - 1}"
            entry = {"type": "message", "id": f"e{place}", "parentId": parent, "timestamp": AT}
            entries.append({**entry, "message": {**message, "timestamp": 1_735_787_045_000}})
    return entries


def qwen(session: str, count: int) -> list[Any]:
    """Return a session of Qwen Code with so many calls."""
    records: list[Any] = []

    def add(kind: str, role: str, part: Any, **more: Any) -> None:
        place = len(records) + 1
        parent = None if place == 1 else f"u{place - 1}"
        record = {"uuid": f"u{place}", "parentUuid": parent, "sessionId": session, "type": kind}
        records.append({**record, "message": {"role": role, "parts": [part]}, **more})

    for number in range(count):
        call = {"id": f"c{number}", "name": "shell"}
        add("user", "user", {"text": f"go {number}"})
        add("assistant", "model", {"functionCall": {**call, "args": {"n": number}}})
        answer = {**call, "response": {"output": "out"}}
        add(
            "tool_result",
            "user",
            {"functionResponse": answer},
            toolCallResult={"status": "success"},
        )
    return records


def opencode(session: str, count: int) -> list[Any]:
    """Return an export of OpenCode with so many calls; a fork has ids of its own."""
    messages: list[Any] = []
    for number in range(count):
        state = {"status": "completed", "input": {"n": number}, "output": "out"}
        tool = {"type": "tool", "callID": f"c{number}", "tool": "bash", "state": state}
        own = f"{session}-{number}"
        asked = {
            "info": {"id": f"{own}a", "role": "user"},
            "parts": [{"type": "text", "text": "go"}],
        }
        replied = {"info": {"id": f"{own}b", "role": "assistant"}, "parts": [tool]}
        messages += [asked, replied]
    return [{"info": {"id": session}, "messages": messages}]


@pytest.mark.parametrize("session", [pi, qwen, opencode])
@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_forks_of_programs_that_repeat_their_origins_are_counted_once(
    store: EventStore, tmp_path: Path, session: Any, order: tuple[int, int]
) -> None:
    """A fork begins with the same calls under another id."""
    suffix = "json" if session is opencode else "jsonl"
    for count in order:
        path = write(tmp_path / f"of-{count}.{suffix}", *session(f"session-{count}", count))
        assert import_file(store, path).refused == []
    assert counts(store) == (3, 3, 0, 2)


def test_copied_steps_of_a_trajectory_are_copies(importer: Importer) -> None:
    """A trajectory that continues another one marks what it has from there."""

    def step(number: int, **more: Any) -> Any:
        call = {"tool_call_id": f"c{number}", "function_name": "bash", "arguments": {}}
        results = {"results": [{"source_call_id": f"c{number}", "content": "out"}]}
        said = {"source": "agent", "message": f"step {number}", "tool_calls": [call]}
        return {"step_id": number, **said, "observation": results, **more}

    for name, steps in (
        ("first", [step(1), step(2)]),
        ("next", [step(1, is_copied_context=True), step(3), step(4, is_copied_context=True)]),
    ):
        trajectory = {"schema_version": "ATIF-v1.8", "session_id": name, "steps": steps}
        importer.document(f"{name}.json", trajectory)
    assert counts(importer.store) == (4, 4, 0, 1)
