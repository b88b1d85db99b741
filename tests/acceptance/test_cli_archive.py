"""`export` and `restore`: a restored log equals the one that was exported; CSV, traces, Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from support.played_logs import STEPS, Step, play
from support.tiers import examples

from eventstore import EventStore, Recorded
from eventstore.testing import FrozenClock
from projections import load_events
from projections.cli import app


def of_place(events: Iterable[Recorded]) -> dict[str, list[Recorded]]:
    """Return the events of each conversation, without their place in the store."""
    found: dict[str, list[Recorded]] = {}
    for recorded in events:
        found.setdefault(recorded.conversation_id, []).append(replace(recorded, lane=0, position=0))
    return found


def in_store(url: str) -> dict[str, list[Recorded]]:
    """Return the events of each conversation of a store."""
    with EventStore.open(url) as store:
        return of_place(store.read())


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a store with two conversations, in the folder that the command runs in."""
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/log.db"
    clock = FrozenClock()
    with EventStore.open(address, clock=clock) as store:
        for turn in range(3):
            for name in ("one", "two \u202e"):
                chat = store.conversation(name)
                chat.add_message("user", f"question {turn}")
                call = chat.request("find", {"q": turn, "text": "=1+1"})
                clock.advance(0.5)
                chat.start(call.id)
                clock.advance(1.25)
                chat.complete(call.id, {"found": turn, "big": 2**60})
    return address


def test_a_restored_log_is_equal(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Ids, versions, times, fingerprints and events are those of the exported log."""
    with EventStore.open(url) as store:
        old = [{"role": "user", "content": text} for text in "ab"]
        store.conversation("old").import_messages(old, occurred_at=[1_000_000])
    assert app.run(["export", "--url", url, "-o", "all.jsonl"]) == 0
    assert app.run(["restore", "all.jsonl", "--url", "sqlite:///copy.db"]) == 0
    assert [each.occurred_at for each in in_store("sqlite:///copy.db")["old"]] == [1_000_000, None]
    assert capsys.readouterr().out == "all.jsonl: 26 events\n26 events added, 0 there already\n"
    assert in_store("sqlite:///copy.db") == in_store(url)
    assert of_place(load_events("all.jsonl")) == in_store(url)
    assert app.run(["verify", "--url", "sqlite:///copy.db"]) == 0


def test_one_conversation_alone(url: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Without a file the events go to the output; JSON lines are ordinary lines of JSON."""
    assert app.run(["export", "one", "--url", url]) == 0
    lines = capsysbinary.readouterr().out.splitlines()
    assert [json.loads(line)["version"] for line in lines] == list(range(1, 13))
    Path("one.jsonl").write_bytes(b"\n".join(lines))
    assert app.run(["restore", "one.jsonl", "--url", "sqlite:///copy.db", "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"added": 12, "there_already": 0}
    assert in_store("sqlite:///copy.db") == {"one": in_store(url)["one"]}


def test_a_restore_goes_on_where_it_stopped(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A longer export adds what is new; the same one adds nothing."""
    assert app.run(["export", "one", "--url", url, "-o", "whole.jsonl"]) == 0
    lines = Path("whole.jsonl").read_bytes().splitlines(keepends=True)
    Path("part.jsonl").write_bytes(b"".join(lines[:5]))
    capsys.readouterr()
    for name, reported in (
        ("part", "5 events added, 0 there already\n"),
        ("whole", "7 events added, 5 there already\n"),
        ("whole", "0 events added, 12 there already\n"),
    ):
        assert app.run(["restore", f"{name}.jsonl", "--url", "sqlite:///copy.db"]) == 0
        assert capsys.readouterr().out == reported
    assert in_store("sqlite:///copy.db") == {"one": in_store(url)["one"]}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda lines: lines[3:], "goes on at version 4, and the store has 0"),
        (lambda lines: [*lines[:2], b"{}\n"], "line 3 is not an event"),
        (lambda lines: [*lines[:2], b"\xff\n"], "line 3 is not an event"),
        (lambda lines: [*lines[:2], lines[2][:-20] + b"\n"], "line 3 is not an event"),
    ],
)
def test_a_wrong_file_is_refused(
    url: str, change: Any, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line or the version is named, in one line."""
    assert app.run(["export", "one", "--url", url, "-o", "run.jsonl"]) == 0
    lines = Path("run.jsonl").read_bytes().splitlines(keepends=True)
    Path("run.jsonl").write_bytes(b"".join(change(lines)))
    capsys.readouterr()
    assert app.run(["restore", "run.jsonl", "--url", "sqlite:///copy.db"]) == 1
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1


def test_another_log_of_that_name_is_left_alone(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is mixed: the first event that differs ends the restore."""
    assert app.run(["export", "one", "--url", url, "-o", "run.jsonl"]) == 0
    with EventStore.open("sqlite:///copy.db") as store:
        store.conversation("one").add_message("user", "mine")
    assert app.run(["restore", "run.jsonl", "--url", "sqlite:///copy.db"]) == 1
    assert "has another event at version 1" in capsys.readouterr().err
    assert len(in_store("sqlite:///copy.db")["one"]) == 1
    assert app.run(["export", "--url", url, "-o", "run.jsonl"]) == 1
    assert "run.jsonl exists" in capsys.readouterr().err
    assert app.run(["export", "--url", url, "--format", "xml"]) == 2
    assert app.run(["export", "--url", url, "--json"]) == 2


def test_calls_as_csv(url: str) -> None:
    """One line for each call; a cell never is a formula."""
    with EventStore.open(url) as store:
        store.conversation("=cmd").request("@tool", {"a": "b,c\n"})
    assert app.run(["export", "--format", "csv", "--url", url, "-o", "calls.csv"]) == 0
    with Path("calls.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7
    assert rows[0]["status"] == "Completed"
    assert rows[0]["started_at"] == "2023-11-14 22:13:20.500"
    assert json.loads(rows[0]["arguments"]) == {"q": 0, "text": "=1+1"}
    assert (rows[0]["error_kind"], rows[0]["error"]) == ("", "")
    assert (rows[6]["conversation"], rows[6]["tool"]) == ("'=cmd", "'@tool")


def test_a_trace_for_each_conversation(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A line of JSON each; what is private is there on request only."""
    assert app.run(["export", "--format", "otlp", "--url", url, "-o", "traces.json"]) == 0
    assert capsys.readouterr().out == "traces.json: 2 traces\n"
    lines = [json.loads(line) for line in Path("traces.json").read_bytes().splitlines()]
    spans = [line["resourceSpans"][0]["scopeSpans"][0]["spans"] for line in lines]
    names = ["invoke_agent", *["execute_tool find"] * 3]
    assert [[span["name"] for span in trace] for trace in spans] == [names, names]
    assert "=1+1" not in Path("traces.json").read_text("utf-8")
    assert app.run(["export", "one", "--format", "otlp", "--content", "--url", url]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "=1+1" in line
    assert app.run(["export", "--content", "--url", url]) == 2
    assert "--format otlp" in capsys.readouterr().err


def test_a_table_of_events(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """DuckDB reads the file that was written, and nothing else is left in the folder."""
    assert app.run(["export", "--format", "parquet", "--url", url, "-o", "log.parquet"]) == 0
    assert capsys.readouterr().out == "log.parquet: 24 events\n"
    with duckdb.connect() as connection:
        tags = connection.read_parquet("log.parquet").project("tag").fetchall()
    assert sorted(tags) == sorted((r.event.tag,) for log in in_store(url).values() for r in log)
    assert sorted(path.suffix for path in Path().iterdir()) == [".db", ".parquet"]


@settings(max_examples=examples(10))
@given(one=STEPS, other=STEPS)
def test_any_log_is_restored(one: list[Step], other: list[Step], tmp_path_factory: Any) -> None:
    """The restored store has equal events."""
    folder = tmp_path_factory.mktemp("archive")
    source, copy = f"sqlite:///{folder}/log.db", f"sqlite:///{folder}/copy.db"
    with EventStore.open(source) as store:
        for name, steps in (("one", one), ("other", other)):
            chat = store.conversation(name)
            chat.add_message("user", "begin")
            play(chat, steps)
    archive = str(folder / "log.jsonl")
    assert app.run(["export", "--url", source, "-o", archive]) == 0
    assert app.run(["restore", archive, "--url", copy]) == 0
    assert in_store(copy) == in_store(source)
