"""`toolledger import`: folders, patterns, several files at a time, and what counts as a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.foreign_logs import export, span

from eventstore import EventStore
from projections.cli import app


def session(path: Path, name: str, result: str = "done") -> Path:
    """Write a conversation with one call as a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "tool_calls": [made], "timestamp": "2025-01-02T03:04:05Z"},
        {"role": "tool", "tool_call_id": "a", "content": result},
    ]
    path.write_text(json.dumps({"id": name, "messages": messages}))
    return path


def statuses(url: str) -> dict[str, str]:
    """Return the status of the call of each conversation."""
    with EventStore.open(url) as store:
        names = [name for name, _ in store.conversations()]
        return {name: store.conversation(name).tools["a"].status.name for name in sorted(names)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with conversations, and with a file that is none of them."""
    logs = tmp_path / "logs"
    for number in range(6):
        session(logs / f"day-{number % 2}" / f"{number}.json", f"chat-{number}")
    (logs / "notes.txt").write_text("not a log")
    return logs


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_folder_is_imported_at_once(
    folder: Path, tmp_path: Path, jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files are imported in parallel, and again without effect; reports keep their order."""
    url = f"sqlite:///{tmp_path}/log.db"
    for added in (2, 0):
        assert app.run(["import", str(folder), "--jobs", jobs, "--url", url, "--json"]) == 0
        reports = json.loads(capsys.readouterr().out)
        assert [report["added"] for report in reports] == [added] * 6
        paths = [report["path"] for report in reports]
        assert paths == sorted(paths)
    assert statuses(url) == {f"chat-{number}": "Completed" for number in range(6)}


def test_a_pattern_names_files(folder: Path, tmp_path: Path) -> None:
    """A shell that does not know the pattern hands it on."""
    url = f"sqlite:///{tmp_path}/log.db"
    assert app.run(["import", f"{folder}/**/[01].json", "--url", url]) == 0
    assert list(statuses(url)) == ["chat-0", "chat-1"]
    assert app.run(["import", f"{folder}/*.nothing", "--url", url]) == 1


def test_a_file_that_is_refused_does_not_stop_those_beside_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are imported, and the status tells of it."""
    url = f"sqlite:///{tmp_path}/log.db"
    (folder / "package.json").write_text('{"name": "x"}')
    assert app.run(["import", str(folder), "--url", url]) == 1
    assert "it looks like an object with 'name'" in capsys.readouterr().err
    assert len(statuses(url)) == 6


def test_failures_are_recognised_by_a_pattern(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without one, the form of the file decides which texts are failures."""
    url = f"sqlite:///{tmp_path}/log.db"
    files = [
        session(tmp_path / "1.json", "error", "Error: gone"),
        session(tmp_path / "2.json", "done", "nothing found"),
    ]
    assert app.run(["import", *map(str, files), "--url", url]) == 0
    assert statuses(url) == {"done": "Completed", "error": "Failed"}
    url = f"sqlite:///{tmp_path}/other.db"
    assert app.run(["import", *map(str, files), "--error-pattern", "nothing", "--url", url]) == 0
    assert statuses(url) == {"done": "Failed", "error": "Completed"}
    assert app.run(["import", str(files[0]), "--error-pattern", "(", "--url", url]) == 2
    assert "--error-pattern" in capsys.readouterr().err
    assert app.run(["show", "done", "--url", url]) == 0
    assert "2025-01-02 03:04:05" in capsys.readouterr().out


def test_parts_of_one_conversation_in_several_files_are_kept_apart(tmp_path: Path) -> None:
    """A trace has the spans of one turn: a later one is not taken for a conflict."""
    url = f"sqlite:///{tmp_path}/log.db"
    files: list[str] = []
    for trace in "tu":
        root = span("invoke_agent", 0, 3, gen_ai__conversation__id="c")
        tool = span("execute_tool f", 1, 2, gen_ai__tool__call__id="a", gen_ai__tool__name=trace)
        path = tmp_path / f"{trace}.json"
        path.write_text(
            json.dumps(export(root, tool)).replace('"traceId": "t"', f'"traceId": "{trace}"')
        )
        files.append(str(path))
    for _ in range(2):
        assert app.run(["import", *files, "--jobs", "1", "--url", url]) == 0
        assert statuses(url) == {"c": "Completed", "c/trace-u": "Completed"}
