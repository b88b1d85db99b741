"""`export` and `restore`: a restored log equals the one that was exported; CSV, traces, Parquet."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from support.played_logs import STEPS, Step, play
from support.tiers import examples

from eventstore import EventStore, Recorded, UnknownEvent
from eventstore.backup import StoredEvent, restore_events, stored_events
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
        (lambda lines: lines[3:], "continues at version 4, and the store has 0"),
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


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("=1", "'=1"),
        (" \t\n=1", " \t\n'=1"),
        ("\u200b@a", "'\u200b@a"),
        ("\uff1d1", "'\uff1d1"),
        ('a;"=1', "a;'\"=1"),
        ("a\r\n+1", "a\r\n'+1"),
        ("a=1, b-2", "a=1, b-2"),
    ],
)
def test_no_part_of_a_cell_is_a_formula(given: str, safe: str, url: str) -> None:
    """Spreadsheets pass over blanks, know full-width signs, and may separate cells at `;`."""
    with EventStore.open("sqlite:///cells.db") as store:
        chat = store.conversation("chat")
        chat.reject(chat.request("f").id, given)
    command = ["export", "--format", "csv", "--url", "sqlite:///cells.db", "-o", "calls.csv"]
    assert app.run(command) == 0
    text = Path("calls.csv").read_text("utf-8")
    assert text.startswith('"conversation","call",')
    with Path("calls.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["error"] == safe


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


PAYLOADS: dict[str, str] = {
    "a message of a newer schema": '{"said":"x"}',
    "a message with a member of a newer version": '{"role":"user","later":[1, 2]}',
    "a message that was redacted as a whole": '{"redacted":"' + 32 * "0" + '"}',
    "a message that was redacted but for its role": '{"redacted":"' + 32 * "0" + '","role":"user"}',
    "a damaged message": '{"role":"us',
    "a start that was redacted but for its call": (
        '{"redacted":"' + 32 * "0" + '","call_id":"c","attempt":1}'
    ),
    "a damaged start": "}",
    "an event of another program": '{"x":1}',
}


def stored_rows(path: str) -> list[tuple[object, ...]]:
    """Return what a store has of its events, but for their digests."""
    columns = "version, event_id, recorded_at, occurred_at, tag, schema, fingerprint"
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            f"SELECT {columns}, payload FROM toolledger_events ORDER BY position"  # noqa: S608 - our own names
        )
        return rows.fetchall()


def _with(each: StoredEvent, tag: str, payload: str) -> StoredEvent:
    event = each.recorded.event
    return (
        StoredEvent(each.recorded, UnknownEvent(tag, event.schema, payload))
        if event.tag == tag
        else each
    )


@pytest.mark.parametrize("what", PAYLOADS)
def test_events_that_cannot_be_read_are_restored_as_they_were_stored(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The payloads are equal byte for byte, and `load_events` reads what any reader reads."""
    monkeypatch.chdir(tmp_path)
    with EventStore.open("sqlite:///made.db") as store:
        chat = store.conversation("chat")
        if "newer schema" in what or "program" in what:
            tag = "message" if "message" in what else "other.thing"
            chat.append(UnknownEvent(tag, 99, PAYLOADS[what]))
        else:
            chat.add_message("user", "first")
        call = chat.request("f", {"n": 1}, call_id="c")
        if "newer schema" not in what:
            chat.start(call.id)
            chat.complete(call.id, "done")
        made = list(stored_events(store))
    changed = "running" if "start" in what else "message"
    readable = "damaged" not in what
    with EventStore.open("sqlite:///log.db") as store:  # with sound digests of what can be read
        restore_events(store, [_with(e, changed, PAYLOADS[what]) if readable else e for e in made])
    with closing(sqlite3.connect("log.db")) as connection, connection:
        statement = "UPDATE toolledger_events SET payload = ? WHERE tag = ?"
        connection.execute(statement, (PAYLOADS[what], changed))
    assert app.run(["export", "--url", "sqlite:///log.db", "-o", "log.jsonl"]) == 0
    not_recorded = "redacted" in what  # which `restore` tells
    assert app.run(["restore", "log.jsonl", "--url", "sqlite:///copy.db"]) == not_recorded
    assert stored_rows("copy.db") == stored_rows("log.db")
    with EventStore.open("sqlite:///log.db") as store:
        events = [recorded.event for recorded in store.read()]
    assert [recorded.event for recorded in load_events("log.jsonl")] == events


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("DELETE FROM toolledger_events WHERE position = 3", "version 4 of conversation"),
        ("UPDATE toolledger_events SET schema = -1 WHERE position = 3", "no file"),
        ("UPDATE toolledger_events SET event_id = x'00' WHERE position = 3", "would look sound"),
    ],
)
def test_a_log_that_no_file_can_hold_is_refused_before_the_first_byte(
    url: str, damage: str, complaint: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The reason is told, and what to copy instead."""
    with closing(sqlite3.connect("log.db")) as connection, connection:
        connection.execute(damage)
    assert app.run(["export", "--url", url]) == 1
    out, err = capsysbinary.readouterr()
    assert out == b""
    assert complaint in err.decode()
    assert app.run(["export", "--url", url, "-o", "log.jsonl"]) == 1
    assert not list(Path().glob("*log.jsonl*"))


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("version", 0),
        ("version", 2**63),
        ("recorded_at", 2**63),
        ("occurred_at", -(2**63) - 1),
        ("fingerprint", "x1:"),
        ("event_id", "12"),
        ("conversation_id", ""),
        ("event", {"tag": "message", "schema": -1, "payload": "{}"}),
    ],
)
def test_a_line_that_no_log_can_hold_is_named(
    url: str, member: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is one of the library, in one line."""
    assert app.run(["export", "one", "--url", url, "-o", "run.jsonl"]) == 0
    first, *others = Path("run.jsonl").read_text("utf-8").splitlines()
    changed = json.dumps({**json.loads(first), member: value})
    Path("run.jsonl").write_text("\n".join([changed, *others]), encoding="utf-8")
    assert app.run(["restore", "run.jsonl", "--url", "sqlite:///copy.db"]) == 1
    assert "line 1 is not an event" in capsys.readouterr().err


def test_files_made_of_a_private_log_are_private(url: str) -> None:
    """A file has no more permissions than the store, and than a file that it replaces."""
    made = {
        "copy.db": ["backup", "copy.db"],
        "log.jsonl": ["export", "-o", "log.jsonl"],
        "log.parquet": ["export", "--format", "parquet", "-o", "log.parquet"],
        "one.html": ["report", "one", "-o", "one.html"],
        "one.jsonl": ["pytest", "one", "--out", "."],
    }

    def modes() -> set[int]:
        for words in made.values():
            assert app.run([*words, "--url", url]) == 0
        return {Path(name).stat().st_mode & 0o777 for name in made}

    before = os.umask(0o022)
    try:
        Path("log.db").chmod(0o600)
        assert modes() == {0o600}
        Path("log.db").chmod(0o644)
        assert app.run(["report", "one", "-o", "one.html", "--url", url]) == 0
        assert Path("one.html").stat().st_mode & 0o777 == 0o600
        for name in made:
            Path(name).unlink()
        Path("test_one.py").unlink()
        assert modes() == {0o644}
    finally:
        os.umask(before)


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


MARKER = {"tag": "other", "schema": 1, "payload": '{"redacted":"' + "a" * 64 + '"}'}
LEFT = {"tag": "other", "schema": 1, "payload": '{"detached":"' + "a" * 64 + '"}'}
RECORD = {"by": "eve", "payloads": [{"version": 2, "marker": "a" * 32}]}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tag": "other", "event": MARKER}, "'one' version 3: its marker"),
        ({"tag": "redacted", "event": RECORD}, "'one' version 2: a redaction of it is recorded"),
        ({"tag": "other", "event": LEFT}, "version 3 of conversation 'one' is in an archive"),
    ],
)
def test_a_redaction_without_its_record_is_named(
    url: str, change: dict[str, Any], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`restore` says what `verify` would; what no reader could read is refused."""
    assert app.run(["export", "one", "--url", url, "-o", "run.jsonl"]) == 0
    lines = [json.loads(line) for line in Path("run.jsonl").read_bytes().splitlines()[:3]]
    Path("run.jsonl").write_text("\n".join(map(json.dumps, [*lines[:2], {**lines[2], **change}])))
    assert app.run(["restore", "run.jsonl", "--url", "sqlite:///copy.db"]) == 1
    assert complaint in capsys.readouterr().err


def test_only_a_regular_file_is_restored(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A device may give one line without end."""
    assert app.run(["restore", os.devnull, "--url", url]) == 2
    assert "is not a regular file: save it as one first" in capsys.readouterr().err
