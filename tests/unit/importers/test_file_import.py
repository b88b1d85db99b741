"""Files that the library imports: ids, parents, rejections, failures, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import foreign_logs
from support.provider_messages import WRITE, Call, Said
from support.transcripts import DATA

from eventstore import EventStore, ImportConflict, RunStarted
from eventstore.importers import SourceError, import_file, import_files
from eventstore.providers import ForeignForm
from eventstore.providers.registry import adapter_of
from projections.cli.app import run

USES = [
    {"type": "tool_use", "id": f"u{n}", "name": "Task", "input": {"prompt": "look"}} for n in (1, 2)
]
REFUSAL = "The user doesn't want to proceed with this tool use. The tool use was rejected."
RESULTS = [
    {"type": "tool_result", "tool_use_id": "u1", "content": REFUSAL, "is_error": True},
    {"type": "tool_result", "tool_use_id": "u2", "content": "Error: 0 found"},
]


def record(number: int, role: str, content: Any, **fields: Any) -> dict[str, Any]:
    """Return a record of a Claude Code session."""
    message = {"id": f"m{number}", "role": role, "content": content}
    ids = {"uuid": f"r{number}", "parentUuid": f"r{number - 1}" if number else None}
    return {
        "type": role,
        "sessionId": "s",
        "isSidechain": False,
        **ids,
        "message": message,
        **fields,
    }


SESSION = [
    record(0, "user", "go"),
    record(1, "assistant", USES),
    record(2, "user", "look", isSidechain=True, parentUuid=None),
    record(3, "user", RESULTS, parentUuid="r1"),
]


def write(path: Path, *lines: Any) -> Path:
    """Write values as lines; return the path."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def trace(number: int, conversation_id: str) -> dict[str, Any]:
    """Return exported traces: one call of a tool, in a trace of its own."""
    named = {"tool__name": "find", "conversation__id": conversation_id}
    fields = {f"gen_ai__{key}": value for key, value in named.items()}
    span = foreign_logs.span(
        "find", number, number, gen_ai__operation__name="execute_tool", **fields
    )
    return foreign_logs.export(span | {"traceId": f"{number:032}"})


def logged(store: EventStore) -> list[Any]:
    """Return all that imports of the same files have in common."""
    names = sorted(name for name, _ in store.conversations())
    events = (each for name in names for each in store.conversation(name).events())
    return [(e.conversation_id, e.version, e.event_id, e.event, e.occurred_at) for e in events]


def test_the_command_and_the_functions_give_equal_logs(tmp_path: Path) -> None:
    """All kinds of files that this repository has are imported, one by one and together."""
    write(tmp_path / "1.jsonl", *SESSION)
    for number in (2, 3):
        write(tmp_path / f"{number}.jsonl", trace(number, "talk"))
    files = [*sorted(tmp_path.iterdir()), *DATA.rglob("*.messages.json"), tmp_path / "none.json"]
    url = f"sqlite:///{tmp_path}/log.db"
    assert run(["import", *map(str, files), "--url", url, "--json"]) == 1  # one is missing
    with (
        EventStore.open(url) as imported,
        EventStore.open("sqlite://") as one,
        EventStore.open("sqlite://") as together,
    ):
        for path in files[:-1]:
            import_file(one, path)
        done = [*import_files(together, files, jobs=3)]
        assert [len(each.refused) for each in done] == [0] * (len(files) - 1) + [1]
        assert logged(imported) == logged(one) == logged(together)


def test_a_conversation_goes_on_in_another_file_of_traces(
    store: EventStore, tmp_path: Path
) -> None:
    """The second part has an id of its own, even where its file is read first."""
    others = [trace(number, "other") for number in range(3, 1_003)]
    files = [write(tmp_path / "1.jsonl", trace(1, "talk"), *others)]
    files.append(write(tmp_path / "2.jsonl", trace(2, "talk")))
    first, second = import_files(store, files, jobs=2)
    assert (first.ids, first.added) == (["talk", "other"], 2_002)
    assert (second.ids, second.added) == ([f"talk/trace-{2:032}"], 2)


def test_a_session_keeps_what_a_person_refused_and_who_began_it(
    store: EventStore, tmp_path: Path
) -> None:
    """A refused call is rejected, words are no failure, and a sub-agent has a parent."""
    done = import_file(store, write(tmp_path / "log.jsonl", *SESSION))
    assert done.ids == ["s", "s/sidechain-1"]
    tools = store.conversation("s").tools
    assert [tools[call_id].status.name for call_id in ("u1", "u2")] == ["Rejected", "Completed"]
    first = next(iter(store.conversation("s/sidechain-1").events())).event
    assert first == RunStarted(None, "s", "u1")


@pytest.mark.parametrize("provider", WRITE)
def test_text_tells_a_failure_only_where_a_provider_has_no_mark(
    store: EventStore, tmp_path: Path, provider: str
) -> None:
    """Its adapter says whether there is one; the file's form is guessed, or given."""
    calls = (Call("find", {}, "Error: 0 found", id="a"),)
    messages = WRITE[provider]([Said("user", "go"), Said("assistant", "", calls)])
    has_mark = adapter_of(provider).error_flag
    for form in (None, provider):
        path = write(tmp_path / f"{form}.jsonl", *messages)
        (name,) = import_file(store, path, provider=form).ids
        (tool,) = store.conversation(name).tools.values()
        assert tool.status.name == ("Completed" if has_mark else "Failed")
    (tool,) = store.conversation("recorded").record_messages(messages, provider)  # type: ignore[arg-type]
    assert tool.status.name == "Completed"


def test_a_refused_conversation_is_reported(store: EventStore, tmp_path: Path) -> None:
    """A file of which nothing is imported raises the error; of others it is kept."""
    chats = [{"id": name, "messages": [{"role": "user", "content": name}]} for name in ("a", "b")]
    path = write(tmp_path / "chats.jsonl", *chats)
    assert import_file(store, path).refused == []
    chats[0]["messages"] = [{"role": "user", "content": "else"}]
    done = import_file(store, write(path, *chats))
    assert (done.ids, [type(error) for error in done.refused]) == (["b"], [ImportConflict])
    with pytest.raises(ImportConflict, match="'a' exists already"):
        import_file(store, write(path, chats[0]))
    with pytest.raises(ForeignForm, match="pass provider='anthropic'"):
        import_file(store, write(path, SESSION[1]["message"]), provider="openai")
    with pytest.raises(SourceError, match=r"none\.json"):
        import_file(store, tmp_path / "none.json")
