"""Databases of programs: OpenCode, Crush, Goose; what others keep, and what is left beside them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.importing import AT, Importer, states
from support.program_databases import (
    CRUSH,
    GOOSE,
    OPENCODE,
    crush_call,
    crush_result,
    crush_session,
    database,
    goose_request,
    goose_response,
    goose_session,
    opencode_session,
    opencode_tool,
)

from eventstore import EventStore
from eventstore.importers import (
    SourceError,
    described,
    discover,
    import_file,
    import_sessions,
    read,
)
from projections import model_history


def said(text: str) -> dict[str, Any]:
    """Return a part of text."""
    return {"type": "text", "text": text}


# OpenCode


def test_the_database_of_opencode_is_read(importer: Importer) -> None:
    """Exit codes and unknown tools are failures; a sub-agent names the call that started it."""
    path = importer.folder / "opencode.db"
    parts = [
        {"type": "step-start"},
        said("I look."),
        opencode_tool("a", metadata={"exit": 0}),
        opencode_tool("b", metadata={"exit": 3}),
        opencode_tool("c", "invalid"),
        opencode_tool("d", "read", status="error", error="File not found"),
        opencode_tool("e", "task", metadata={"sessionId": "child"}),
        opencode_tool("f", status="running"),
        {"type": "step-finish"},
    ]
    with database(path, OPENCODE) as connection:
        opencode_session(connection, "child", [("user", [said("count")])], parent="main")
        opencode_session(connection, "main", [("user", [said("go")]), ("assistant", parts)])
    tools = importer.file(path)
    assert importer.ids == ["main", "child"]
    assert states(tools) == [
        ("bash", "Completed"),
        ("bash", "Failed"),
        ("invalid", "Failed"),
        ("read", "Failed"),
        ("task", "Completed"),
        ("bash", "Pending"),
    ]
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 1_000_000, AT + 1_500_000)
    transcripts = list(read(path).transcripts())
    assert [(each.parent_id, each.parent_call_id) for each in transcripts] == [
        (None, None),
        ("main", "e"),
    ]


def test_a_session_of_opencode_that_is_under_way_is_imported_at_any_moment(
    importer: Importer,
) -> None:
    """Arguments are being written, and the next call of a step comes after the first has ended."""
    at = {"start": AT // 1000}
    writing = {"input": {}, "time": {}}
    first = opencode_tool("a", second=2)
    stages = [
        [said("I look.")],
        [said("I look."), opencode_tool("a", status="pending", **writing)],
        [said("I look."), opencode_tool("a", second=2, status="running")],
        [said("I look."), first],
        [said("I look."), first, opencode_tool("b", status="pending", **writing)],
        [said("I look."), first, opencode_tool("b", second=3, status="running")],
        [said("I look."), first, opencode_tool("b", second=3), {"type": "step-finish"}],
    ]
    for stage in stages:
        info = {"id": "m", "role": "assistant", "time": {"created": AT // 1000}}
        parts = [{**part, "time": at} if part["type"] == "text" else part for part in stage]
        session = {"info": {"id": "s"}, "messages": [{"info": info, "parts": parts}]}
        importer.document("s.json", session)
    grown = importer.store.conversation("s")
    with EventStore.open("sqlite://") as store:
        assert import_file(store, importer.folder / "s.json").ids == ["s"]
        whole = [recorded.event for recorded in store.conversation("s").events()]
    assert [recorded.event for recorded in grown.events()] == whole
    assert states([*grown.tools.values()]) == [("bash", "Completed")] * 2


def test_turns_reverted_in_opencode_are_a_conversation_of_their_own(
    importer: Importer,
) -> None:
    """A person goes back to a message, or to a part of one."""
    path = importer.folder / "opencode.db"
    messages = [
        ("user", [said("one")]),
        ("assistant", [said("kept"), opencode_tool("a")]),
        ("user", [said("two")]),
        ("assistant", [opencode_tool("b")]),
    ]
    with database(path, OPENCODE) as connection:
        opencode_session(connection, "m", messages, revert={"messageID": "msg_m_2"})
        to_part = {"messageID": "msg_p_1", "partID": "prt_p_1_1"}
        opencode_session(connection, "p", messages, revert=to_part)
        opencode_session(connection, "q", messages, revert={"messageID": "gone"})
    importer.file(path)
    assert importer.ids == ["m", "m/taken-back-1", "p", "p/taken-back-1", "q"]
    assert [[*importer.store.conversation(each).tools] for each in importer.ids] == [
        ["a"],
        ["b"],
        [],
        ["a", "b"],
        ["a", "b"],
    ]


def test_a_row_of_opencode_that_is_not_json_is_a_problem(importer: Importer) -> None:
    """The rest of the session is read."""
    path = importer.folder / "opencode.db"
    with database(path, OPENCODE) as connection:
        opencode_session(connection, "s", [("user", [said("go")]), ("user", [said("on")])])
        connection.execute("UPDATE part SET data = '{' WHERE message_id = 'msg_s_1'")
        connection.execute("UPDATE message SET data = '[]' WHERE id = 'msg_s_1'")
    importer.file(path)
    assert importer.problems == ["session s: a row is not a JSON object"] * 2
    assert list(importer.said()) == [("user", "go")]


# Crush


def test_the_database_of_crush_is_read(importer: Importer) -> None:
    """Its marks, and what stands below the output of a command, tell failures."""
    path = importer.folder / "crush.db"
    tail = "\n\n<cwd>/p</cwd>"
    calls = [crush_call(each) for each in "abcdef"] + [crush_call("g", "view")]
    results = [
        crush_result("a", f"hello{tail}"),
        crush_result("b", f"gone\nExit code 3{tail}"),
        crush_result("c", "not found", is_error=True),
        crush_result("d", "User denied permission", is_error=True),
        crush_result("e", f"Exit code 3\nthe rest{tail}"),
        crush_result("f", f"Command was aborted before completion{tail}"),
        crush_result("g", f"gone\nExit code 3{tail}", "view"),
    ]
    command = {"command": "ls", "output": "a.txt", "exit_code": 0}
    with database(path, CRUSH) as connection:
        crush_session(connection, "s", [
            ("user", [("text", {"text": "go"}), ("shell_command", command)]),
            ("assistant", [("reasoning", {"thinking": "hm"}), ("text", {"text": "Yes."}), *calls]),
            ("tool", results),
            ("assistant", [("text", {"text": "Done."}), ("finish", {"reason": "end_turn"})]),
        ])  # fmt: skip
        crush_session(connection, "m1$$a", [("user", [("text", {"text": "sub"})])], parent="s")
    tools = importer.file(path)
    assert importer.ids == ["s", "m1$$a"]
    assert [tool.status.name for tool in tools] == [
        "Completed",
        "Failed",
        "Failed",
        "Rejected",
        "Completed",
        "Failed",
        "Completed",
    ]
    assert tools[0].call.arguments == {"n": 1}
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 1_000_000, AT + 2_000_000)
    assert next(importer.said()) == ("user", "go\n$ ls\na.txt")
    child = list(read(path).transcripts())[1]
    assert (child.parent_id, child.parent_call_id) == ("s", "a")


def prompt_of(importer: Importer, name: str) -> str:
    """Return the next prompt of a conversation."""
    return json.dumps(model_history(importer.store.conversation(name).events()).render("openai"))


def test_a_summary_of_crush_takes_the_place_of_what_was_before(importer: Importer) -> None:
    """The log keeps the past; the next prompt begins with the summary."""
    path = importer.folder / "crush.db"

    def words(role: str, said: str) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
        return role, [("text", {"text": said})]

    said = [words("user", "PAST"), words("assistant", "SUMMARY"), words("user", "more")]
    with database(path, CRUSH) as connection:
        crush_session(connection, "s", said, summary=1)
    importer.file(path)
    prompt = prompt_of(importer, "s")
    assert ("SUMMARY" in prompt, "more" in prompt, "PAST" in prompt) == (True, True, False)
    assert next(importer.said()) == ("user", "PAST")


def test_parts_of_crush_that_are_no_list_are_a_problem(importer: Importer) -> None:
    """The other messages are read."""
    path = importer.folder / "crush.db"
    with database(path, CRUSH) as connection:
        one = ("user", [("text", {"text": "go"})])
        crush_session(connection, "s", [one, one])
        connection.execute("UPDATE messages SET parts = '{}' WHERE id = 's-1'")
    importer.file(path)
    assert importer.problems == ["session s: the parts of a message are not a JSON list"]


# Goose

GOOSE_CALLS = [goose_request(each) for each in "abcdefg"]
GOOSE_RESULTS = [
    goose_response("a", "hello"),
    goose_response("b", "gone", isError=True),
    {"type": "toolResponse", "id": "c", "toolResult": {"status": "error", "error": "no tool"}},
    goose_response("d", "The user has declined to run this tool. DO NOT attempt"),
    {
        "type": "toolResponse",
        "id": "e",
        "toolResult": {"status": "success", "value": [said("of older versions")]},
    },
    goose_response("f", "x", structuredContent={"stdout": "x", "exit_code": 3}),
    goose_response("g", "he said: The user has declined to run this tool."),
]
GOOSE_STATES = ["Completed", "Failed", "Failed", "Rejected", "Completed", "Failed", "Completed"]


def test_the_database_of_goose_is_read(importer: Importer) -> None:
    """A response says whether it failed; a refusal has the words for it at its beginning."""
    path = importer.folder / "sessions.db"
    with database(path, GOOSE) as connection:
        goose_session(connection, "20250102_1", [
            ("user", [said("go")]),
            ("assistant", [{"type": "thinking", "thinking": "hm"}, said("Yes."), *GOOSE_CALLS]),
            ("user", GOOSE_RESULTS),
            ("assistant", [said("Done.")]),
        ])  # fmt: skip
        goose_session(connection, "20250102_2", [("user", [said("sub")])], "20250102_1")
    tools = importer.file(path)
    assert importer.ids == ["20250102_1", "20250102_2"]
    assert [tool.status.name for tool in tools] == GOOSE_STATES
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 1_000_000, AT + 2_000_000)
    assert [text for _, text in importer.said()] == ["go", "Yes.", "Done.", "sub"]
    assert list(read(path).transcripts())[1].parent_id == "20250102_1"


def test_messages_hidden_by_goose_are_not_in_the_next_prompt(
    importer: Importer,
) -> None:
    """A compaction hides all that was before, and adds a summary for the model alone."""
    path = importer.folder / "sessions.db"
    words = ["PAST", "OLD", "SUMMARY", "more", "a notice"]
    hidden = {"agentVisible": False, "userVisible": True}
    with database(path, GOOSE) as connection:
        goose_session(
            connection,
            "s",
            [("user" if n % 2 == 0 else "assistant", [said(each)]) for n, each in enumerate(words)],
            metadata={0: hidden, 1: hidden, 2: {"agentVisible": True, "userVisible": False}},
        )
        goose_session(connection, "t", [("user", [said("KEPT")])] * 2, metadata={1: hidden})
    importer.file(path)
    prompt = prompt_of(importer, "s")
    assert [each in prompt for each in words] == [False, False, True, True, True]
    assert "KEPT" in prompt_of(importer, "t")
    assert [text for _, text in importer.said()][:2] == ["PAST", "OLD"]


def test_a_session_of_goose_in_lines_is_read(importer: Importer) -> None:
    """Versions before the database wrote a header, and a message a line."""
    tools = importer.lines(
        "20250102_030405.jsonl",
        {"working_dir": "/p", "description": "t", "message_count": 4, "total_tokens": 9},
        {"role": "user", "created": AT // 1_000_000, "content": [said("go")]},
        {"role": "assistant", "created": AT // 1_000_000 + 1, "content": GOOSE_CALLS},
        {"role": "user", "created": AT // 1_000_000 + 2, "content": GOOSE_RESULTS},
        {"neither": 1},
    )
    assert importer.ids == ["20250102_030405"]
    assert [tool.status.name for tool in tools] == GOOSE_STATES
    assert importer.problems == ["line 5: not a message of a session"]


# how they are opened


def test_a_database_beside_a_writer_is_read_with_what_it_has_not_moved_yet(
    importer: Importer,
) -> None:
    """The -wal file has the newest rows, and the writer goes on; a copy without it has the rest."""
    path = importer.folder / "opencode.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.executescript(OPENCODE)
        opencode_session(writer, "s", [("user", [said("go")])])
        writer.commit()
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        opencode_session(writer, "t", [("user", [said("on")])])
        writer.commit()
        alone = importer.folder / "copy" / "opencode.db"
        alone.parent.mkdir()
        shutil.copy(path, alone)
        importer.file(path)
        assert importer.ids == ["s", "t"]
        opencode_session(writer, "u", [("user", [said("more")])])
        writer.commit()
    assert [each.id for each in read(alone).transcripts()] == ["s"]
    assert [each.name for each in alone.parent.iterdir()] == ["opencode.db"]


def test_a_database_that_is_written_while_it_is_read_is_read_as_it_was(
    store: EventStore, tmp_path: Path
) -> None:
    """A message that comes between two sessions belongs to the next import."""
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.executescript(OPENCODE)
        for name in ("a", "b"):
            opencode_session(writer, name, [("user", [said("go")])])
        writer.commit()
        transcripts = read(path).transcripts()
        assert next(transcripts).id == "a"
        writer.execute("DELETE FROM part")
        writer.commit()
        assert [len(list(each.messages)) for each in transcripts] == [1]
    with pytest.raises(SourceError, match="holds no messages"):  # by now
        import_file(store, path)


def test_a_database_that_a_writer_opens_while_it_is_read_has_to_be_read_again(
    tmp_path: Path,
) -> None:
    """Without a -wal file at the beginning, nothing holds the writer up."""
    path = tmp_path / "opencode.db"
    with database(path, f"PRAGMA journal_mode = WAL; {OPENCODE}") as connection:
        opencode_session(connection, "s", [("user", [said("go")])])
    assert not path.with_name("opencode.db-wal").exists()
    transcripts = read(path).transcripts()
    assert next(transcripts).id == "s"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("DELETE FROM part")
        writer.commit()
        with pytest.raises(SourceError, match="was written while it was read: import it again"):
            list(transcripts)


def test_a_database_whose_rows_are_all_in_a_lost_wal_names_it(tmp_path: Path) -> None:
    """A copy of the file alone may have no tables."""
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.executescript(OPENCODE)
        writer.commit()
        shutil.copy(path, tmp_path / "copy.db")
    with pytest.raises(SourceError, match="without tables: copy it again, with the -wal file"):
        list(read(tmp_path / "copy.db").transcripts())


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        (("ItemTable", "cursorDiskKV"), "is a database of Cursor with the tables"),
        (("ItemTable",), "is a database of VS Code, or a program made of it with the tables"),
        (("auth_kv", "conversations"), "is a database of Kiro CLI or Amazon Q with the tables"),
        (("orders",), "is a SQLite database with the tables orders: import a database of Crush"),
    ],
)
def test_a_database_of_another_program_is_refused_by_its_name(
    tmp_path: Path, tables: tuple[str, ...], named: str
) -> None:
    """The remedy names the programs whose databases are read."""
    path = tmp_path / "state.vscdb"
    with database(path, ";".join(f"CREATE TABLE {each} (key, value)" for each in tables)):
        pass
    with pytest.raises(SourceError, match=named):
        list(read(path).transcripts())


def test_a_message_of_opencode_in_a_file_of_its_own_is_refused_by_name(tmp_path: Path) -> None:
    """Older versions kept each message and each part in a file: none is a conversation."""
    path = tmp_path / "msg_1.json"
    path.write_text('{"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1}}')
    with pytest.raises(SourceError, match="a file of an older OpenCode with one message or part"):
        list(read(path).transcripts())


# The search for sessions


def test_the_sessions_of_databases_are_listed_with_their_calls(
    tmp_path: Path, store: EventStore
) -> None:
    """Those of sub-agents are no sessions of their own; they are imported with theirs."""
    share = tmp_path / ".local" / "share"
    for program in ("opencode", "crush", "goose/sessions"):
        (share / program).mkdir(parents=True)
    with database(share / "opencode" / "opencode.db", OPENCODE) as connection:
        parts = [said("I look."), opencode_tool("a"), opencode_tool("b", "invalid")]
        opencode_session(connection, "ses_1", [("user", [said("go")]), ("assistant", parts)])
        opencode_session(connection, "ses_2", [("user", [said("sub")])], parent="ses_1")
    with database(share / "crush" / "crush.db", CRUSH) as connection:
        called = [("user", [("text", {"text": "go"})]), ("assistant", list(map(crush_call, "ab")))]
        crush_session(connection, "c", called)
        crush_session(connection, "m1$$a", [("user", [("text", {"text": "sub"})])], parent="c")
    with database(share / "goose" / "sessions" / "sessions.db", GOOSE) as connection:
        goose_session(
            connection, "20250102_1", [("user", [said("go")]), ("assistant", GOOSE_CALLS)]
        )
        goose_session(connection, "20250102_2", [("user", [said("sub")])], "20250102_1")
    found = discover(tmp_path)
    assert found.problems == []
    listed = {each.name: described(each) for each in found.sessions}
    assert {name: each.calls for name, each in listed.items()} == {
        "opencode:ses_1": 2,
        "crush:c": 2,
        "goose:20250102_1": 7,
    }
    assert listed["goose:20250102_1"].project == "/p"
    for name, ids in {
        "opencode:ses_1": ["ses_1", "ses_2"],
        "crush:c": ["c", "m1$$a"],
        "goose:20250102_1": ["20250102_1", "20250102_2"],
    }.items():
        (done,) = import_sessions(store, [listed[name]])
        assert (done.ids, done.refused) == (ids, [])
