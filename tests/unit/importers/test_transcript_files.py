"""Transcript files: the conversations in them, their providers, and the problems that are found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from eventstore.importers import Source, read
from eventstore.importers.reading.json_lines import MAX_FILE_BYTES, TextFile, decode
from eventstore.importers.reading.problems import MAX_KEPT_PROBLEMS, Problem, Problems, SourceError
from eventstore.importers.reading.transcript import Transcript, is_refusal

ASK = {"role": "user", "content": "where is it?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "here"}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}


def write(path: Path, *values: Any, text: str | bytes | None = None) -> Path:
    """Write a file with one JSON value a line, or with a text as it is."""
    data = "".join(json.dumps(value) + "\n" for value in values) if text is None else text
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def taken(source: Source) -> list[tuple[Transcript, list[Any]]]:
    """Return each transcript with its messages."""
    return [(transcript, list(transcript.messages)) for transcript in source.transcripts()]


def problems(source: Source) -> list[str]:
    """Return the problems as text, after everything was read."""
    taken(source)
    return [str(problem) for problem in source.problems]


# messages


def test_a_json_list_is_one_conversation(tmp_path: Path) -> None:
    """The conversation is named after its file."""
    path = write(tmp_path / "chat.json", [ASK, CALL, RESULT])
    ((transcript, messages),) = taken(read(path))
    assert (transcript.id, transcript.provider) == ("chat", "openai")
    assert messages == [ASK, CALL, RESULT]


def test_an_object_may_name_its_conversation_and_its_system_text(tmp_path: Path) -> None:
    """The text that Anthropic keeps outside of the messages comes first."""
    path = write(
        tmp_path / "a.json",
        {"conversation_id": "c-7", "system": "Be brief.", "messages": [ASK, USE]},
    )
    ((transcript, messages),) = taken(read(path))
    assert (transcript.id, transcript.provider) == ("c-7", "anthropic")
    assert messages == [{"role": "system", "content": "Be brief."}, ASK, USE]


def test_a_list_of_objects_is_several_conversations(tmp_path: Path) -> None:
    """A conversation without a name of its own is named after its place."""
    path = write(
        tmp_path / "a.json",
        [{"messages": [ASK]}, 5, {"messages": []}, {"id": "own", "messages": [USE]}],
    )
    source = read(path)
    found = [(transcript.id, transcript.provider) for transcript, _ in taken(source)]
    assert found == [("a/1", "openai"), ("own", "anthropic")]
    assert [str(problem) for problem in source.problems] == [
        "item 2 is not a conversation: it has no messages",
        "a/3: no messages",
    ]


def test_a_file_with_a_message_per_line_is_a_conversation(tmp_path: Path) -> None:
    """Other lines are problems."""
    path = write(
        tmp_path / "chat.jsonl", text=f"{json.dumps(ASK)}\n\nnoise\n{json.dumps(USE)}\n7\n"
    )
    source = read(path)
    ((transcript, messages),) = taken(source)
    assert (transcript.id, transcript.provider) == ("chat", "anthropic")
    assert messages == [ASK, USE]
    assert [str(problem) for problem in source.problems] == [
        "line 3: not JSON (noise)",
        "line 5: not a message: it has no role",
    ]


def test_a_long_file_is_read_as_its_messages_are_taken(tmp_path: Path) -> None:
    """Messages that were not asked for yet are not in memory."""
    path = write(tmp_path / "long.jsonl", *([ASK] * 50_000))
    source = read(path)
    transcript = next(source.transcripts())
    next(iter(transcript.messages))
    assert 0 < source.position < source.size / 10


def test_a_file_may_hold_a_conversation_per_line(tmp_path: Path) -> None:
    """Each is named after its task and trial, otherwise after its line."""
    path = write(
        tmp_path / "runs.jsonl",
        {"task_id": 3, "trial": 1, "messages": [ASK]},
        {"task_id": 3, "trial": 1, "messages": [ASK, CALL]},
        {"task_id": "uuid", "messages": [ASK]},
        {"messages": [ASK]},
        [ASK, USE],
        ASK,
    )
    source = read(path)
    assert [transcript.id for transcript, _ in taken(source)] == [
        "runs/task-3/trial-1",
        "runs/task-3/trial-1#2",
        "runs/uuid",
        "runs/4",
        "runs/5",
    ]
    assert [str(problem) for problem in source.problems] == [
        "line 6: not a conversation: it has no messages"
    ]


def test_a_given_name_replaces_the_name_of_the_file(tmp_path: Path) -> None:
    """Two files of one name can be distinguished."""
    one = write(tmp_path / "a.json", {"id": "own", "messages": [ASK]})
    assert next(read(one, name="b").transcripts()).id == "b"
    many = write(tmp_path / "a.jsonl", {"messages": [ASK]}, {"id": "own", "messages": [ASK]})
    assert [transcript.id for transcript, _ in taken(read(many, name="b"))] == ["b/1", "b/own"]


def test_a_json_file_may_hold_lines(tmp_path: Path) -> None:
    """The ending of the file's name does not decide how it is read."""
    path = write(tmp_path / "lines.json", ASK, CALL)
    assert taken(read(path))[0][1] == [ASK, CALL]
    path = write(tmp_path / "lines.txt", ASK, CALL)
    assert taken(read(path))[0][1] == [ASK, CALL]
    path = write(tmp_path / "list.txt", [ASK, CALL])
    assert taken(read(path))[0][1] == [ASK, CALL]


def test_a_value_may_stand_over_several_lines(tmp_path: Path) -> None:
    """Pretty-printed objects are read, also between other lines of a log."""
    pretty = json.dumps(ASK, indent=2)
    path = write(tmp_path / "a.jsonl", text=f"start\n{pretty}\nmore\n{{\n broken\n}}\n{pretty}\n")
    source = read(path)
    assert taken(source)[0][1] == [ASK, ASK]
    assert [str(problem) for problem in source.problems] == [
        "line 1: not JSON (start)",
        "lines 6 to 9: not JSON (more)",
    ]


@pytest.mark.parametrize(
    ("message", "provider"),
    [
        (ASK, "openai"),
        (CALL, "openai"),
        (RESULT, "openai"),
        ({"role": "developer", "content": "x"}, "openai"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}, "openai"),
        (USE, "anthropic"),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}, "anthropic"),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}, "anthropic"),
        ({"role": "user", "content": [7, None, "x"]}, "openai"),
    ],
)
def test_the_provider_is_detected_from_the_form(
    tmp_path: Path, message: Any, provider: str
) -> None:
    """Members that only one provider writes decide; otherwise the form is OpenAI's."""
    for suffix, value in (("json", [message]), ("jsonl", message)):
        path = write(tmp_path / f"a.{suffix}", value)
        assert taken(read(path))[0][0].provider == provider


def test_the_provider_can_be_given(tmp_path: Path) -> None:
    """A given provider is then not guessed, and a form that cannot be read is refused."""
    path = write(tmp_path / "a.json", [CALL])
    assert next(iter(read(path, "anthropic").transcripts())).provider == "anthropic"
    with pytest.raises(ValueError, match="pass one of agent-framework, ai-sdk"):
        read(path, "nobody")
    with pytest.raises(SourceError, match="not a record of a session log"):
        taken(read(path, "claude-code"))


# session logs of Claude Code


class Log:
    """A session log as it is written, record by record."""

    def __init__(self, session: str = "s-1") -> None:
        self.session = session
        self.records: list[dict[str, Any]] = []

    def add(self, kind: str, message: dict[str, Any], **fields: Any) -> Log:
        """Add a record after the last one."""
        parent = self.records[-1]["uuid"] if self.records else None
        self.records.append(
            {
                "type": kind,
                "uuid": f"u{len(self.records)}",
                "parentUuid": parent,
                "isSidechain": False,
                "sessionId": self.session,
                "message": message,
                **fields,
            }
        )
        return self

    def user(self, content: Any, **fields: Any) -> Log:
        """Add a message of the user, or a tool's result."""
        return self.add("user", {"role": "user", "content": content}, **fields)

    def assistant(self, key: str | None, *blocks: dict[str, Any], **fields: Any) -> Log:
        """Add a piece of a message of the model."""
        message = {"role": "assistant", "model": "m", "usage": {}, "content": list(blocks)}
        return self.add("assistant", message | ({"id": key} if key else {}), **fields)

    def save(self, folder: Path) -> Path:
        """Save the log as a file."""
        return write(folder / "log.jsonl", *self.records)


def text(words: str) -> dict[str, Any]:
    """Return a text block."""
    return {"type": "text", "text": words}


def use(call_id: str, **given: Any) -> dict[str, Any]:
    """Return a block that makes a call."""
    return {"type": "tool_use", "id": call_id, "name": "Task", "input": given}


def test_a_message_in_several_records_keeps_its_id(tmp_path: Path) -> None:
    """The pieces with one id become one turn when they are imported."""
    log = Log().user("go").assistant("m1", text("now")).assistant("m1", use("a"))
    ((transcript, messages),) = taken(read(log.save(tmp_path)))
    assert (transcript.id, transcript.provider) == ("s-1", "anthropic")
    assert messages == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "id": "m1", "content": [text("now")]},
        {"role": "assistant", "id": "m1", "content": [use("a")]},
    ]


def test_the_time_of_a_record_is_that_of_its_message(tmp_path: Path) -> None:
    """A record without one that can be read has none."""
    log = Log().user("go", timestamp="2025-01-02T03:04:05.678Z").assistant("m1", use("a"))
    ((transcript, _),) = taken(read(log.save(tmp_path)))
    assert transcript.times == [1_735_787_045_678_000, None]


def test_a_repeated_record_is_imported_once(tmp_path: Path) -> None:
    """A repeated record, message or block adds nothing; a new block beside it is imported."""
    log = Log().user("go").assistant("m1", text("a")).assistant("m1", text("a"))
    log.records.append(log.records[0])
    log.assistant("m1", text("a"), text("b"), uuid="u9")
    source = read(log.save(tmp_path))
    ((_, messages),) = taken(source)
    assert [message["content"] for message in messages] == ["go", [text("a")], [text("b")]]
    assert [str(problem) for problem in source.problems] == [
        "line 3: the same assistant message again (m1)",
        "line 4: the same record again",
        "line 5: the same assistant message again (m1)",
    ]


def test_requests_that_the_program_keeps_are_silent(tmp_path: Path) -> None:
    """Their messages stand in the session, too."""
    log = Log().user("go")
    kept = {"type": "api-request-blob", "hash": "h", "message": {"role": "user", "content": "go"}}
    log.records.append({"sessionId": log.session, "uuid": "u9", **kept})
    source = read(log.save(tmp_path))
    ((_, messages),) = taken(source)
    assert (len(messages), source.problems) == (1, [])


def test_a_call_that_is_written_again_as_its_message_grows_is_one(tmp_path: Path) -> None:
    """The last of its arguments count; the same id in another message is another call."""
    log = Log().user("go").assistant("m1", text("now"), use("a"))
    log.assistant("m1", text("now"), use("a", prompt="look"), use("b"))
    log.assistant("m2", use("a", prompt="look"))
    ((_, messages),) = taken(read(log.save(tmp_path)))
    assert [message["content"] for message in messages[1:]] == [
        [text("now"), use("a", prompt="look")],
        [use("b")],
        [use("a", prompt="look")],
    ]


def test_equal_words_of_two_messages_are_not_the_same(tmp_path: Path) -> None:
    """Two messages are the same only if their message id or record is."""
    log = Log().assistant("m1", text("ok")).assistant("m2", text("ok")).assistant(None, text("ok"))
    assert len(taken(read(log.save(tmp_path)))[0][1]) == 3


def test_a_sub_agent_has_a_conversation_of_its_own(tmp_path: Path) -> None:
    """Its log names the parent conversation and the call whose prompt it began with."""
    log = Log().user("go").assistant("m1", use("a", prompt="look"), use("b", prompt="look"))
    log.user("look", isSidechain=True, parentUuid=None)
    log.assistant("m2", text("found"), isSidechain=True)
    log.user([text("look")], isSidechain=True, parentUuid=None)
    log.user("something else", isSidechain=True, parentUuid=None)
    log.user([{"type": "tool_result", "tool_use_id": "a", "content": "found"}], parentUuid="u1")
    found = taken(read(log.save(tmp_path)))
    assert [(t.id, t.parent_id, t.parent_call_id, len(messages)) for t, messages in found] == [
        ("s-1", None, None, 3),
        ("s-1/sidechain-1", "s-1", "a", 2),
        ("s-1/sidechain-2", "s-1", "b", 1),
        ("s-1/sidechain-3", "s-1", None, 1),
    ]


def test_a_file_of_one_sub_agent_names_its_session(tmp_path: Path) -> None:
    """Newer logs have one file for each sub-agent."""
    log = (
        Log()
        .user("look", isSidechain=True, agentId="x9")
        .assistant("m", text("found"), isSidechain=True, agentId="x9")
    )
    ((transcript, messages),) = taken(read(log.save(tmp_path)))
    assert (transcript.id, transcript.parent_id) == ("s-1/sidechain-x9", "s-1")
    assert len(messages) == 2


def test_a_resumed_session_is_one_conversation(tmp_path: Path) -> None:
    """Records that the session took over from an earlier one belong to it."""
    log = Log("old").user("go")
    log.session = "new"
    log.assistant("m1", text("yes"))
    ((transcript, messages),) = taken(read(log.save(tmp_path)))
    assert (transcript.id, len(messages)) == ("new", 2)


def test_two_sessions_in_a_file_are_two_conversations(tmp_path: Path) -> None:
    """Nothing links their records."""
    log = Log("one").user("go")
    log.session = "two"
    log.user("also", parentUuid=None)
    source = read(log.save(tmp_path))
    assert [transcript.id for transcript, _ in taken(source)] == ["one", "two"]
    named = read(tmp_path / "log.jsonl", name="mine")
    assert [transcript.id for transcript, _ in taken(named)] == ["mine/one", "mine/two"]


def test_records_without_a_message_are_skipped(tmp_path: Path) -> None:
    """The program's own records are skipped silently, what may hold a message is reported."""
    path = write(
        tmp_path / "a.jsonl",
        {"type": "summary", "summary": "x", "leafUuid": "y"},
        {"type": "system", "uuid": "s", "sessionId": "s-1"},
        {"type": "user", "uuid": "u", "parentUuid": "s", "sessionId": "s-1", "message": ASK},
        {"type": "last-prompt", "lastPrompt": "x", "sessionId": "s-1"},
        {"type": "permission-mode", "permissionMode": "plan"},
        {"type": "of tomorrow", "sessionId": "s-1", "message": ASK},
        {"type": "assistant", "sessionId": "s-1", "message": USE},
        ASK,
    )
    source = read(path)
    assert [len(messages) for _, messages in taken(source)] == [1]
    assert [str(problem) for problem in source.problems] == [
        "line 6: a record of type of tomorrow, whose message is not known",
        "line 7: a record without a uuid, from another stream",
        "line 8: not a record of a session log",
    ]


def test_a_log_may_be_a_list(tmp_path: Path) -> None:
    """The records may be wrapped in one JSON list."""
    path = write(tmp_path / "log.json", Log().user("go").records)
    assert taken(read(path))[0][0].id == "s-1"


@pytest.mark.parametrize(
    ("result", "refused"),
    [
        (
            {"content": "The user doesn't want to proceed with this tool use. x", "is_error": True},
            1,
        ),
        ({"content": "Permission prompt was aborted.", "is_error": True}, 1),
        ({"content": [text("Permission denied by user")], "is_error": True}, 1),
        ({"content": "Permission prompt was aborted."}, 0),
        ({"content": "He said: Permission prompt was aborted.", "is_error": True}, 0),
        ({"content": None, "is_error": True}, 0),
        ({"content": [], "is_error": True}, 0),
        ("Permission prompt was aborted.", 0),
    ],
)
def test_a_refusal_is_a_failed_result_that_says_so(result: Any, refused: int) -> None:
    """A tool that prints the same words has not been refused."""
    assert is_refusal(result) is bool(refused)


# files that are none


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("a.json", b"", "is empty"),
        ("a.jsonl", b"\xef\xbb\xbf \n\n ", "is empty"),
        ("a.json", b"\x00\x01\x02", "is a binary file"),
        ("a.jsonl", "[]".encode("utf-16"), "is UTF-16"),
        ("a.jsonl", b"\x1f\x8b\x08", "is compressed"),
        ("a.jsonl.zst", b"\x28\xb5\x2f\xfd\x00", "zstd -d"),
        ("a.json", b"PK\x03\x04", "is a ZIP archive"),
        ("a.json", b"SQLite format 3\x00", "is a SQLite database"),
        ("a.json", b'["\xff"]', "is not UTF-8"),
        ("a.json", b"[{]", "is not JSON .*line 1"),
        ("a.json", b"7", "holds no messages"),
        ("a.json", b"[]", "holds no messages"),
        ("a.json", b"[7]", "looks like a list of int values"),
        ("a.json", b"{}", "looks like an empty object"),
        ("a.jsonl", b"\xff\xfa\n", "holds no messages; line 1: not UTF-8"),
        ("a.jsonl", b"hello\n", "holds no messages; line 1: not JSON"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_without_messages_is_refused_in_one_line(
    tmp_path: Path, name: str, data: bytes, complaint: str
) -> None:
    """The error has the path and the reason, whatever the file is."""
    path = write(tmp_path / name, text=data)
    with pytest.raises(SourceError, match=complaint) as refusal:
        taken(read(path))
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_path_that_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a folder and a pipe are refused."""
    with pytest.raises(SourceError, match="there is no file"):
        read(tmp_path / "nothing.json")
    with pytest.raises(SourceError, match="is a folder"):
        read(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="is not a regular file"):
        read(tmp_path / "pipe")


def test_a_file_that_cannot_be_read_whole_says_what_to_do(tmp_path: Path) -> None:
    """A list of messages in one value has to fit; lines do not."""
    path = write(tmp_path / "huge.json", text="[" + " " * 5000)
    os.truncate(path, MAX_FILE_BYTES + 1)
    with pytest.raises(SourceError, match=r"too large .* \(.jsonl\)"):
        taken(read(path))


def test_a_line_that_is_too_long_is_skipped(tmp_path: Path) -> None:
    """Memory stays bounded, and the lines after it are read."""
    path = write(tmp_path / "a.jsonl", ASK, {"role": "user", "content": "x" * 1000}, CALL)
    problems = Problems()
    file = TextFile(path, problems, max_line_bytes=200)
    assert list(file.values()) == [(1, ASK), (3, CALL)]
    assert [str(problem) for problem in problems.kept] == ["line 2: longer than 200 bytes"]


# problems and values


def test_equal_problems_of_neighbouring_lines_are_reported_once() -> None:
    """A log file with a thousand lines of noise has one problem."""
    found = Problems()
    for line in (1, 2, 3, 5):
        found.add("not JSON", line)
    found.add("something else", 6)
    assert found.kept == [
        Problem("not JSON", 1, 3),
        Problem("not JSON", 5, 5),
        Problem("something else", 6, 6),
    ]
    assert found.count == 3


def test_the_number_of_kept_problems_is_limited() -> None:
    """All problems are counted."""
    found = Problems()
    for line in range(0, 4 * MAX_KEPT_PROBLEMS, 2):
        found.add("not JSON", line)
    assert (len(found.kept), found.count) == (MAX_KEPT_PROBLEMS, 2 * MAX_KEPT_PROBLEMS)


def test_a_detail_cannot_harm_the_terminal(tmp_path: Path) -> None:
    """Text from the file is shown without control codes."""
    path = write(tmp_path / "a.jsonl", text=b"\x1b[31mred\n" + json.dumps(ASK).encode())
    assert problems(read(path)) == ["line 1: not JSON (\\x1b[31mred)"]


@pytest.mark.parametrize(
    ("name", "begin", "end", "where"),
    [
        ("a.jsonl", "", "", "line 2: "),
        ("a.json", "[\n", "\n]", ""),
        ("b.jsonl", "{\n", "\n}", "line 1: "),
    ],
)
def test_a_key_that_is_there_twice_is_reported(
    tmp_path: Path, name: str, begin: str, end: str, where: str
) -> None:
    """The last of an object's two values is read, which need not be the one that the tool had."""
    call = '{"type": "tool_use", "id": "t", "name": "rm", "input": {"path": "a", "path": "b"}}'
    message = f'{{"role": "assistant", "content": [{call}]}}'
    user = '{"role": "user", "content": "clean up"}'
    lines = {
        "a.jsonl": f"{user}\n{message}\n",
        "a.json": f"{user},\n{message}",
        "b.jsonl": f'"messages": [{user}, {message}]',
    }
    (tmp_path / name).write_text(begin + lines[name] + end)
    reported = "a key twice in one object: the last of its values was read"
    assert problems(read(tmp_path / name)) == [f"{where}{reported}"]


def test_values_that_only_python_reads_are_read() -> None:
    """NaN and half a surrogate pair are read, because other programs write them."""
    assert decode(b'"\\ud800"') == "\ud800"
    assert str(decode(b"NaN")) == "nan"
