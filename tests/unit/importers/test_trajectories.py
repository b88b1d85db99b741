"""Trajectories and evaluations: SWE-agent, ATIF, inspect_ai."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile
from zlib import crc32

import pytest
from support.foreign_logs import sample
from support.importing import AT, Importer, clock, states
from support.tiers import rounds

from eventstore import EventStore, ToolCompleted
from eventstore.importers import SourceError, import_files, read
from eventstore.importers.traces.eval_archive import ALWAYS_BYTES

# SWE-agent


def step(action: str, observation: str, **fields: Any) -> dict[str, Any]:
    """Return a step of a trajectory."""
    return {
        "action": action,
        "observation": observation,
        "response": f"I {action}.",
        "thought": "",
        "state": {},
        **fields,
    }


OPENING = [
    {"role": "system", "content": "You are."},
    {"role": "user", "content": "a demonstration", "is_demo": True},
    {"role": "user", "content": "fix it"},
]


def test_steps_of_text_actions_are_calls(importer: Importer) -> None:
    """The first word is the tool; a demonstration is left out, errors are told by their text."""
    steps = [
        step("ls -a", "a.py"),
        step("python a.py", "Traceback (most recent call last):\n ...\nKeyError: 1"),
        step("", "say something"),
        step("edit 1:1\nx", "Your proposed edit has introduced new syntax error(s)."),
        step("open a.py", "def f():\n    raise ValueError(1)  # no error here"),
    ]
    tools = importer.document(
        "run.traj", {"environment": "e", "trajectory": steps, "history": OPENING, "info": {}}
    )
    assert states(tools) == [
        ("ls", "Completed"),
        ("python", "Failed"),
        ("edit", "Failed"),
        ("open", "Completed"),
    ]
    assert tools[0].call.arguments == {"action": "ls -a"}
    assert ("user", "a demonstration") not in list(importer.said())


def test_calls_of_a_history_are_taken(importer: Importer) -> None:
    """Where the model called functions, they are told instead of the text of the actions."""
    made = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"c":1}'}}
    history = [
        *OPENING,
        {"role": "assistant", "content": "now", "tool_calls": [made]},
        {"role": "tool", "content": "bash: x: command not found", "tool_call_ids": ["a"]},
        {"role": "user", "content": "go on"},
    ]
    steps = [step("x", "", execution_time=0.25)]
    (tool,) = importer.document("run.traj", {"trajectory": steps, "history": history})
    assert (tool.call.name, tool.call.arguments) == ("bash", {"c": 1})
    assert tool.status.name == "Failed"


# ATIF


def test_a_trajectory_in_atif_is_read(importer: Importer) -> None:
    """Results stand in the step of their calls; one without a call's id answers an only call."""
    tools = importer.document(
        "trajectory.json",
        {
            "schema_version": "ATIF-v1.5",
            "session_id": "s",
            "steps": [
                {"step_id": 1, "source": "user", "message": "go", "timestamp": clock(0)},
                {
                    "step_id": 2,
                    "source": "agent",
                    "timestamp": clock(1),
                    "message": "",
                    "tool_calls": [
                        {"tool_call_id": "a", "function_name": "f", "arguments": {"n": 1}},
                        {"tool_call_id": "b", "function_name": "g", "arguments": {}},
                    ],
                    "observation": {
                        "results": [
                            {"source_call_id": "b", "content": "Error: gone"},
                            {"source_call_id": "a", "content": [{"type": "text", "text": "x"}]},
                        ]
                    },
                },
                {
                    "step_id": 3,
                    "source": "agent",
                    "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {}}],
                    "observation": {"results": [{"source_call_id": None, "content": "y"}]},
                },
                {
                    "step_id": 4,
                    "source": "agent",
                    "message": "done",
                    "observation": {"results": [{"content": "a terminal's text"}]},
                },
            ],
        },
    )
    assert states(tools) == [("f", "Completed"), ("g", "Failed"), ("f", "Completed")]
    assert tools[0].requested_at == AT + 1_000_000
    assert list(importer.said())[-1] == ("user", "a terminal's text")


def _trajectory(*results: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a trajectory whose only step makes a call for each result."""
    made = [
        {"tool_call_id": f"call-{number}", "function_name": "f", "arguments": {}}
        for number in range(len(results))
    ]
    step = {
        "step_id": 1,
        "source": "agent",
        "message": "look",
        "tool_calls": made,
        "observation": {"results": list(results)},
    }
    return {"schema_version": "ATIF-v1.7", "session_id": "s", "steps": [step], **fields}


def test_results_without_ids_answer_the_calls_of_their_step_in_order(importer: Importer) -> None:
    """Harbor writes those of mini-swe-agent so."""
    results = [{"content": f"<returncode>{code}</returncode>\n<output>\n"} for code in (2, 0)]
    assert states(importer.document("trajectory.json", _trajectory(*results))) == [
        ("f", "Failed"),
        ("f", "Completed"),
    ]


@pytest.mark.parametrize(
    ("result", "state"),
    [
        ({"content": "gone", "extra": {"tool_result_is_error": True}}, "Failed"),
        ({"content": "x", "extra": {"tool_result_metadata": {"is_error": True}}}, "Failed"),
        ({"content": "", "extra": {"exit_code": 2}}, "Failed"),
        ({"content": "gone\n\n[error] tool reported failure"}, "Failed"),
        ({"content": "Chunk ID: 1\nProcess exited with code 2\nOutput:\n"}, "Failed"),
        ({"content": "Chunk ID: 1\nOutput:\nProcess exited with code 2\n"}, "Completed"),
        ({"content": "unsupported call: f"}, "Failed"),
        ({"content": "The user doesn't want to proceed with this tool use. Wait."}, "Rejected"),
    ],
)
def test_marks_that_a_converter_keeps_tell_a_failure(
    importer: Importer, result: dict[str, Any], state: str
) -> None:
    """ATIF itself has no mark."""
    assert states(importer.document("trajectory.json", _trajectory(result))) == [("f", state)]


def test_trajectories_of_sub_agents_inside_are_conversations(importer: Importer) -> None:
    """Each names the call that started it, and shares the session's id."""
    inner = _trajectory({"content": "x"}, trajectory_id="t")
    reference = {"content": "done", "subagent_trajectory_ref": [{"trajectory_id": "t"}]}
    outer = _trajectory({**reference, "source_call_id": "call-0"}, subagent_trajectories=[inner])
    assert len(importer.document("trajectory.json", outer)) == 2
    assert importer.ids == ["s", "s/t"]
    transcripts = list(read(importer.folder / "trajectory.json").transcripts())
    assert (transcripts[1].parent_id, transcripts[1].parent_call_id) == ("s", "call-0")


# mini-swe-agent


def test_a_run_of_mini_swe_agent_is_read(importer: Importer) -> None:
    """Exit codes tell failures; what was handed in answers the last call."""
    made = {"id": "a", "function": {"name": "bash", "arguments": '{"command":"ls /no"}'}}
    tools = importer.document(
        "run.traj.json",
        {
            "trajectory_format": "mini-swe-agent-1.1",
            "info": {"exit_status": "Submitted"},
            "messages": [
                {"role": "system", "content": "You fix."},
                {"role": "user", "content": "fix it"},
                {
                    "role": "assistant",
                    "content": "I look.",
                    "tool_calls": [made],
                    "extra": {"actions": [{"command": "ls /no"}], "timestamp": AT / 1e6 + 1},
                },
                {
                    "role": "tool",
                    "tool_call_id": "a",
                    "content": "<returncode>2</returncode>\n<output>\nno</output>",
                    "extra": {"returncode": 2, "timestamp": AT / 1e6 + 2},
                },
                {"role": "assistant", "content": "Then:\n\n```bash\necho x\n```"},
                {"role": "user", "content": "<returncode>0</returncode>\n<output>\nx</output>"},
                {
                    "object": "response",
                    "output": [
                        {"type": "message", "content": [{"type": "output_text", "text": "end"}]},
                        {
                            "type": "function_call",
                            "call_id": "c",
                            "name": "bash",
                            "arguments": '{"command":"submit"}',
                        },
                    ],
                },
                {"role": "exit", "content": "fin", "extra": {"exit_status": "Submitted"}},
            ],
        },
    )
    assert importer.ids == ["run"]
    assert states(tools) == [("bash", "Failed"), ("bash", "Completed"), ("bash", "Completed")]
    assert [tool.call.arguments for tool in tools] == [
        {"command": "ls /no"},
        {"command": "echo x"},
        {"command": "submit"},
    ]
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 1_000_000, AT + 2_000_000)
    assert [role for role, _ in importer.said()] == ["system", "user", *["assistant"] * 3]


# inspect_ai


def check_samples(importer: Importer, tools: list[Any]) -> None:
    """Check that the sample's calls were told, with the times of its events."""
    assert [tool.status.name for tool in tools] == ["Completed", "Failed", "Rejected"]
    assert tools[0].call.arguments == {"cmd": "ls"}
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 2_000_000, AT + 4_000_000)
    events = importer.store.conversation(importer.ids[0]).events()
    completed = next(each.event for each in events if isinstance(each.event, ToolCompleted))
    assert completed.duration == 500_000


def test_a_log_of_inspect_is_read_sample_by_sample(importer: Importer) -> None:
    """Errors have a kind each; times and durations are those of the events."""
    log = {"version": 2, "eval": {"task": "t"}, "samples": [sample()]}
    check_samples(importer, importer.document("log.json", log))
    assert importer.ids == ["log/1/epoch-2"]


def test_an_eval_archive_is_read_as_it_is(importer: Importer) -> None:
    """Its samples are read one by one; one that is damaged becomes a problem."""
    path = importer.folder / "log.eval"
    with ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/1_epoch_2.json", json.dumps(sample()))
        archive.writestr("samples/2_epoch_1.json", "{")
    check_samples(importer, importer.file(path))
    assert importer.problems == ["samples/2_epoch_1.json is not JSON"]


def test_a_key_twice_in_a_file_of_many_is_reported_with_its_name(importer: Importer) -> None:
    """In an archive's file, and in the file of one event."""
    twice = '{"input": 1, "input": 2}'
    path = importer.folder / "log.eval"
    with ZipFile(path, "w") as archive:
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample()))
        archive.writestr("samples/2_epoch_1.json", twice)
    importer.file(path)
    reported = "a key twice in one object: the last of its values was read"
    assert f"samples/2_epoch_1.json: {reported}" in importer.problems
    folder = importer.folder / "conversation" / "events"
    folder.mkdir(parents=True)
    user = '"source": "user", "action": "message", "message": "go", "args": {"content": "go"}'
    (folder / "0.json").write_text(f'{{"id": 0, {user}, "id": 0}}')
    source = read(folder)
    list(source.transcripts())
    assert [str(problem) for problem in source.problems] == [f"0.json: {reported}"]


def zstandard_archive(path: Path, name: str, content: bytes, packed: bytes) -> None:
    """Write an archive whose file is packed in a way that `zipfile` writes from Python 3.14 on."""
    with ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
        archive.writestr(name, packed)
        entry = archive.infolist()[-1]
        entry.compress_type, entry.file_size, entry.CRC = 93, len(content), crc32(content)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="zipfile reads Zstandard itself")
def test_an_eval_archive_may_be_packed_with_zstandard(importer: Importer) -> None:
    """Newer versions of inspect_ai do so, in one frame or in several."""
    import zstandard  # Python 3.14 needs none

    path = importer.folder / "log.eval"
    content = json.dumps(sample()).encode()
    pack = zstandard.ZstdCompressor().compress
    frames = pack(content[:100]) + pack(content[100:])
    zstandard_archive(path, "samples/1_epoch_2.json", content, frames)
    check_samples(importer, importer.file(path))


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="zipfile reads Zstandard itself")
def test_a_damaged_zstandard_archive_is_refused(tmp_path: Path) -> None:
    """The error names the file inside."""
    path = tmp_path / "log.eval"
    zstandard_archive(path, "samples/1_epoch_2.json", b"{}", b"not packed")
    with pytest.raises(SourceError, match=r"is damaged: samples/1_epoch_2\.json"):
        list(read(path).transcripts())


def test_a_damaged_archive_holds_up_nothing(store: EventStore, tmp_path: Path) -> None:
    """Its other samples are read, and so are the files after it; the error is one of ours."""
    path, names = tmp_path / "1.eval", ("1_epoch_1", "2_epoch_1")
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        for name in names:
            archive.writestr(f"samples/{name}.json", json.dumps(sample()))
    whole = path.read_bytes()
    (tmp_path / "2.json").write_text('[{"role": "user", "content": "go"}]')
    refused = 0
    chance = random.Random(1)
    for _ in range(rounds(40, 3000)):
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        damaged, other = import_files(store, [tmp_path])
        assert (other.conversations, other.refused) == (1, [])
        assert all(type(error) is SourceError for error in damaged.refused)
        refused += bool(damaged.refused)
    assert refused


def test_a_sample_that_unpacks_to_much_more_than_it_is_is_not_read(importer: Importer) -> None:
    """The others are; a small sample may always be read."""
    path = importer.folder / "log.eval"
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr("samples/1_epoch_2.json", json.dumps(sample()))
        for number, size in ((2, ALWAYS_BYTES - 2), (3, ALWAYS_BYTES)):
            archive.writestr(f"samples/{number}_epoch_1.json", f'"{" " * size}"')
    check_samples(importer, importer.file(path))
    (problem,) = (each for each in importer.problems if "samples/3_epoch_1.json" in each)
    assert "are read at most" in problem
    assert not [each for each in importer.problems if "samples/2" in each and "at most" in each]


def test_another_archive_is_refused(importer: Importer) -> None:
    """The error says that it is a ZIP archive."""
    path = importer.folder / "a.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "text")
    with pytest.raises(SourceError, match="is a ZIP archive, and not a log of inspect_ai"):
        list(read(path).transcripts())
