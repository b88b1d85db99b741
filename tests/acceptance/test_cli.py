"""The command line, as people and programs run it."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from eventstore import EventStore, UnknownEvent, validate
from projections.cli import app

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "demo", "import", "show", "prompt", "check", "tools", "stats", "approvals", "approve",
    "reject", "replay", "tail", "verify", "migrate",
)  # fmt: skip
PATIENCE = 600
"""Seconds until a process that never ends is a failure, on a slow machine too."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

Done = subprocess.CompletedProcess[str]


class Terminal(StringIO):
    """Something that a person looks at."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def _hear_ctrl_c() -> None:
    """Whoever started the tests in the background, deaf to it, passes that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Command:
    """`toolledger`, run in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/log.db"
        self.environment = {
            **{key: value for key, value in os.environ.items() if key != "TOOLLEDGER_URL"},
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(folder),
        }

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """Start it."""
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "projections.cli", *map(str, arguments)],
            cwd=self.folder, env=self.environment, text=True, encoding="utf-8",
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
            preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 - no thread has a lock here
        )  # fmt: skip

    def __call__(self, *arguments: object, status: int = 0) -> Done:
        """Run it to its end, which is the one expected, and never a traceback."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == status, out + err
        assert "Traceback" not in err
        return subprocess.CompletedProcess(process.args, status, out, err)

    def here(self, *arguments: object, status: int = 0, terminal: bool = False) -> Done:
        """Run it in this process: the same from the first argument on, and sooner done."""
        out, err = (Terminal(), Terminal()) if terminal else (StringIO(), StringIO())
        given = [str(argument) for argument in arguments]
        with chdir(self.folder), redirect_stdout(out), redirect_stderr(err):
            assert app.run(given) == status, out.getvalue() + err.getvalue()
        return subprocess.CompletedProcess(given, status, out.getvalue(), err.getvalue())

    def json(self, *arguments: object, status: int = 0) -> Any:
        """What it prints for programs."""
        return json.loads(self.here(*arguments, "--json", status=status).stdout)

    def lines(self, *arguments: object) -> list[Any]:
        """What it prints for programs, line by line."""
        return [json.loads(line) for line in self.here(*arguments, "--json").stdout.splitlines()]

    def refused(self, *arguments: object, status: int = 1) -> str:
        """The one line that it says no with."""
        done = self.here(*arguments, status=status)
        assert done.stdout == ""
        assert done.stderr.startswith("toolledger: ")
        assert done.stderr.count("\n") == 1
        return done.stderr


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, in an empty folder."""
    monkeypatch.delenv("TOOLLEDGER_URL", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    return Command(folder)


@pytest.fixture
def store(run: Command) -> Iterator[EventStore]:
    """The store that `--url` names, with two conversations."""
    with EventStore.open(run.url) as opened:
        chat = opened.conversation("chat")
        chat.add_message("user", "find it")
        chat.request("find", {"query": "wide " * 100}, "a")
        with pytest.raises(TimeoutError), chat.running("a"):
            raise TimeoutError("no answer")
        chat.start("a", 2)
        chat.complete("a", {"found": "\x1b[31mred"})
        chat.request("delete", {"id": 7}, "b")
        chat.reject("b", "no", by="ann")
        chat.add_message("assistant", "[bold]done[/]")
        chat.request("delete", {"id": 8}, "c")
        opened.conversation("other").add_message("user", "hello")
        yield opened


def messages(path: Path, count: int) -> Path:
    """A file of many messages, one a line."""
    with path.open("w") as file:
        for n in range(count):
            call = {"id": f"c{n}", "type": "function"}
            call |= {"function": {"name": "f", "arguments": f'{{"n": {n}}}'}}
            for message in (
                {"role": "user", "content": f"question {n}"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{n}", "content": f"result {n}"},
            ):
                file.write(json.dumps(message) + "\n")
    return path


def until(holds: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


# the whole


def test_every_command_says_what_it_does(run: Command) -> None:
    """In the overview and by itself; without a command the overview is shown."""
    overview = run("--help").stdout
    assert run.here().stdout == overview
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", overview, re.MULTILINE)
        own = run.here(command, "--help").stdout
        assert ("--url" in own) is (command != "check")  # which reads a file alone
        assert "--json" in own


def test_it_runs_where_typer_is_not_installed(run: Command, tmp_path: Path) -> None:
    """One line says what to install."""
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(name='typer')")
    run.environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{ROOT}"
    assert "pip install 'toolledger[cli]'" in run("show", status=2).stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["show", "--nonsense"], "No such option"),
        (["import"], "Missing argument 'FILE...'"),
        (["prompt"], "Missing argument 'ID'"),
        (["show", "--url", "nonsense"], "is not a database URL"),
        (["show", "--url", "oracle://x"], "not supported"),
        (["prompt", "chat", "--provider", "nobody"], "pass one of anthropic, "),
        (["prompt", "chat", "--collapse", "some"], "pass one of failed, all, none"),
        (["prompt", "chat", "--open-calls", "x"], "pass one of answer, raise, drop"),
        (["prompt", "chat", "--last-turns", "0"], "--last-turns"),
        (["tools", "--status", "lost"], "pass one of pending, approved"),
        (["replay", "chat", "--until", "-1"], "--until"),
        (["replay", "chat", "--prompt", "nobody"], "pass one of anthropic, "),
        (["tail", "--every", "0"], "--every"),
        (["migrate", "--down", "9999"], "pass one of base"),
        (["import", "x.json", "--provider", "nobody"], "pass one of anthropic, claude-code"),
        (["import", "x.json", "--id", ""], "--id: '': pass a name that is not empty"),
        (["demo", "--keep", "x.db", "--url", "sqlite:///y.db"], "give one of"),
    ],
)
def test_wrong_usage_is_refused_in_one_line(
    run: Command, arguments: list[str], complaint: str
) -> None:
    """With status 2, before anything is touched."""
    assert complaint in run.refused(*arguments, status=2)
    assert list(run.folder.iterdir()) == []


READERS: tuple[Sequence[str], ...] = (
    ["show"], ["show", "x"], ["prompt", "x"], ["tools"], ["stats"], ["replay", "x"], ["tail"],
    ["tail", "--follow"], ["verify"], ["migrate"], ["migrate", "--down", "base"], ["approvals"],
    ["approve", "x", "y"], ["reject", "x", "y"],
)  # fmt: skip


@pytest.mark.parametrize("arguments", READERS)
def test_a_store_that_is_not_there_is_not_made(run: Command, arguments: Sequence[str]) -> None:
    """A typing error must not look like an empty log."""
    assert "there is no store" in run.refused(*arguments)
    assert list(run.folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [given for given in READERS if given != ["migrate"]])
def test_a_database_of_others_is_left_alone(run: Command, arguments: Sequence[str]) -> None:
    """No table is added to it, but by `migrate`."""
    path = run.folder / "toolledger.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    before = path.read_bytes()
    assert str(path) in run.refused(*arguments)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments", [["show", "x"], ["prompt", "x"], ["tools", "x"], ["stats", "x"], ["replay", "x"]]
)
def test_an_unknown_conversation_is_refused(
    run: Command, store: EventStore, arguments: list[str]
) -> None:
    """And the line says how to find those that are there."""
    line = run.refused(*arguments, "--url", run.url)
    assert "there is no conversation 'x': `toolledger show` lists them" in line


@pytest.mark.parametrize("command", ["show", "prompt", "tools", "stats", "replay"])
def test_an_empty_id_is_refused(run: Command, store: EventStore, command: str) -> None:
    """It is a variable of the shell that is not set, and never means all."""
    line = run.refused(command, "", "--url", run.url)
    assert "a conversation id is text and not empty, got '': pass for example" in line


def test_the_environment_names_the_store(run: Command, store: EventStore) -> None:
    """TOOLLEDGER_URL, where --url is not given."""
    run.environment["TOOLLEDGER_URL"] = run.url
    assert "chat" in run("show").stdout
    assert "there is no store" in run("show", "--url", "sqlite:///no.db", status=1).stderr


@pytest.mark.parametrize(
    "arguments",
    [["show"], ["show", "chat"], ["prompt", "chat", "--repairs"], ["tools"], ["stats"],
     ["replay", "chat", "--prompt", "openai"], ["tail"], ["verify"], ["migrate"]],
)  # fmt: skip
def test_what_is_no_terminal_gets_whole_lines_and_no_control_codes(
    run: Command, store: EventStore, arguments: list[str]
) -> None:
    """Nothing is cut to 80 columns, and nothing that the log holds is taken for a code."""
    out = run.here(*arguments, "--url", run.url).stdout
    assert CONTROL.search(out) is None
    assert "…" not in out
    if arguments[0] in ("tools", "replay", "tail") or arguments[1:] == ["chat"]:
        assert "wide " * 99 in out


def test_a_terminal_gets_colours_and_loses_nothing(
    run: Command, store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns are folded, long lines marked as shortened, and no code of the log comes through."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    out = run.here("tools", "--url", run.url, terminal=True).stdout
    assert "\x1b[1m" in out
    assert "\x1b[31mred" not in run.here("show", "chat", "--url", run.url, terminal=True).stdout
    assert "..." in run.here("replay", "chat", "--url", run.url, terminal=True).stdout
    path = messages(run.folder / "[red].jsonl", 200)
    done = run.here("import", path, "--url", run.url, terminal=True)
    assert "600 messages" in done.stderr
    assert "[red].jsonl" in done.stderr


def test_markup_in_the_log_is_only_text(run: Command, store: EventStore) -> None:
    """What somebody said is shown as it was said."""
    assert "[bold]done[/]" in run.here("show", "chat", "--url", run.url).stdout
    assert "[bold]done[/]" in run.here("prompt", "chat", "--url", run.url).stdout


def test_output_that_the_terminal_cannot_show_is_escaped(run: Command, store: EventStore) -> None:
    """An old locale is no reason to fail."""
    store.conversation("naïve ☃").add_message("user", "¡olé!")
    run.environment |= {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    assert "\\u2603" in run("show", "--url", run.url).stdout
    assert "\\xa1ol\\xe9!" in run("prompt", "naïve ☃", "--url", run.url).stdout


def test_a_closed_pipe_ends_it_in_silence(run: Command, store: EventStore) -> None:
    """`toolledger show chat | head -1`."""
    chat = store.conversation("long")
    for n in range(50):
        chat.add_message("user", f"{n} " * 20_000)
    process = run.start("show", "long", "--url", run.url)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(PATIENCE) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


# import


def test_an_import_reports_and_can_be_repeated(run: Command) -> None:
    """The second time everything is there already."""
    path = messages(run.folder / "chat.jsonl", 10)
    first = run.here("import", path, "--url", run.url).stdout
    assert re.search(r"chat\.jsonl\s+1\s+30\s+0\s+40\s+0", first)
    second = run.json("import", path, "--url", run.url)
    assert [(r["conversations"], r["skipped"]) for r in second] == [(1, 30)]
    assert second[0]["added"] == 0
    assert run.lines("show", "--url", run.url) == [{"conversation_id": "chat", "version": 40}]


def test_an_import_says_what_was_wrong(run: Command) -> None:
    """With its place, in both outputs; what is right is imported."""
    path = run.folder / "chat.jsonl"
    path.write_text(
        '{"role": "user", "content": "one"}\nnoise\n{"x": 1}\n'
        '{"role": "tool", "tool_call_id": "nobody", "content": "x"}\n'
    )
    out = run.here("import", path, "--url", run.url).stdout
    assert "line 2: not JSON (noise)" in out
    assert "line 3: not a message: it has no role" in out
    assert "1 times  the result answers no call: kept as text" in out
    (report,) = run.json("import", path, "--url", run.url)
    assert report["problems"] == [
        "line 2: not JSON (noise)",
        "line 3: not a message: it has no role",
    ]


def test_a_file_that_cannot_be_imported_does_not_hold_up_the_others(run: Command) -> None:
    """Each is reported with its reason, and the status says that not all went well."""
    good = messages(run.folder / "good.jsonl", 1)
    files = {
        "missing.json": None, "empty.json": b"", "binary.json": b"\x00\x01", "text.json": b"hello",
        "latin.jsonl": "é\n".encode("latin-1"), "none.json": b"{}", "number.json": b"7",
    }  # fmt: skip
    for name, data in files.items():
        if data is not None:
            (run.folder / name).write_bytes(data)
    done = run.here("import", *files, good, run.folder, "--url", run.url, status=1)
    complaints = done.stderr.splitlines()
    assert len(complaints) == len(files) + 1
    for name, line in zip(files, complaints, strict=False):
        assert line.startswith("toolledger: ")
        assert name in line
    assert [line["conversation_id"] for line in run.lines("show", "--url", run.url)] == ["good"]


def test_another_history_under_the_same_name_is_refused(run: Command) -> None:
    """Nothing of it is written; under another name it is imported."""
    path = messages(run.folder / "chat.jsonl", 2)
    run.here("import", path, "--url", run.url)
    changed = path.read_text().replace("result 1", "something else")
    path.write_text(changed)
    done = run.here("import", path, "--url", run.url, status=1)
    assert "conversation 'chat' is there already and differs from message 6 on" in done.stderr
    assert run.lines("show", "--url", run.url) == [{"conversation_id": "chat", "version": 8}]
    run.here("import", path, "--id", "chat-2", "--url", run.url)
    assert len(run.lines("show", "--url", run.url)) == 2


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f"}]},
         "has tool_use, which openai does not: pass --provider anthropic"),
        ({"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
         ("has functionCall, which openai does not: in Python, import_messages(messages, 'gemini') "
          "takes them")),
    ],
)  # fmt: skip
def test_import_names_a_provider_that_it_takes(
    run: Command, call: dict[str, Any], remedy: str
) -> None:
    """Or who else reads the messages; nothing is stored."""
    path = run.folder / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "hi"}, call]))
    done = run.here("import", path, "--provider", "openai", "--url", run.url, status=1)
    assert done.stderr == f"toolledger: {path}: messages[1] {remedy}\n"
    assert run.here("show", "--json", "--url", run.url).stdout == ""


def test_ctrl_c_in_an_import_leaves_nothing_half_written(run: Command) -> None:
    """Status 130, no traceback; the log is sound, and the same command goes on."""
    path = messages(run.folder / "long.jsonl", 20_000)
    process = run.start("import", path, "--url", run.url)

    def begun() -> bool:
        if not (run.folder / "log.db").exists():
            return False
        with EventStore.open(run.url) as store:
            return any(store.conversations())

    until(begun)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err.splitlines()[-1].startswith("toolledger: interrupted")
    assert "Traceback" not in err
    run("verify", "--url", run.url)
    (before,) = run.lines("show", "--url", run.url)
    assert 0 < before["version"] < 80_000
    (report,) = run.json("import", path, "--url", run.url)
    assert report["added"] + report["skipped"] == 60_000
    assert report["skipped"] == before["version"] * 3 / 4
    assert run.lines("show", "--url", run.url) == [{"conversation_id": "long", "version": 80_000}]


def test_an_import_killed_with_minus_nine_goes_on(run: Command) -> None:
    """What was committed stands, whole."""
    path = messages(run.folder / "long.jsonl", 5000)
    with run.start("import", path, "--url", run.url) as process:
        until((run.folder / "log.db").exists)
        time.sleep(0.3)
        process.kill()
    run("import", path, "--url", run.url)
    run("verify", "--url", run.url)
    assert run.lines("show", "--url", run.url) == [{"conversation_id": "long", "version": 20_000}]


def test_two_imports_at_once_double_nothing(run: Command) -> None:
    """Both succeed, and the log is that of one."""
    path = messages(run.folder / "chat.jsonl", 2000)
    with EventStore.open(run.url):
        pass
    both = [run.start("import", path, "--url", run.url) for _ in range(2)]
    for process in both:
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    assert run.lines("show", "--url", run.url) == [{"conversation_id": "chat", "version": 8000}]
    run("verify", "--url", run.url)


def test_a_long_import_shows_that_it_goes_on(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines on stderr where there is no terminal, so that stdout stays clean."""
    path = messages(run.folder / "long.jsonl", 2000)
    monkeypatch.setattr("projections.cli.importing.EVERY", 0)
    done = run.here("import", path, "--url", run.url, "--json")
    assert re.search(r"long\.jsonl: [\d,]+ messages, \d+% read", done.stderr)
    json.loads(done.stdout)


# reading


def test_show_gives_each_event_to_programs(run: Command, store: EventStore) -> None:
    """One JSON object a line, with its place."""
    lines = run.lines("show", "chat", "--url", run.url)
    assert [line["version"] for line in lines] == list(
        range(1, store.conversation("chat").version + 1)
    )
    assert {"lane", "position", "event_id", "recorded_at", "tag", "event"} <= lines[0].keys()
    assert lines[1]["tag"] == "pending"
    assert lines[1]["event"]["call"]["name"] == "find"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_prompt_is_ready_to_be_sent(run: Command, store: EventStore, provider: str) -> None:
    """The keyword arguments of the SDK call, valid, and on request what was repaired."""
    arguments = run.json("prompt", "chat", "--provider", provider, "--url", run.url)
    assert validate(arguments["messages"], provider) == []
    both = run.json("prompt", "chat", "--provider", provider, "--repairs", "--url", run.url)
    assert both["arguments"] == arguments
    assert [(r["what"], r["call_id"]) for r in both["repairs"]] == [("answered", "c")]


def test_prompt_takes_the_options_of_the_history(run: Command, store: EventStore) -> None:
    """Which calls stay, and how much."""
    dropped = run.json("prompt", "chat", "--open-calls", "drop", "--url", run.url)
    assert '"c"' not in json.dumps(dropped)
    last = run.json("prompt", "chat", "--last-turns", "1", "--url", run.url)
    assert "find it" not in json.dumps(last)
    line = run.refused("prompt", "chat", "--open-calls", "raise", "--url", run.url)
    assert "id=c, state=Pending" in line
    late = run.json("prompt", "chat", "--since", "8", "--summary", "Before: a.", "--url", run.url)
    assert late["messages"][0] == {"role": "user", "content": "Before: a."}
    assert "find it" not in json.dumps(late)
    done = run.here("prompt", "chat", "--since", "11", "--url", run.url, status=2)
    assert "--since: 11: pass a version of the conversation, which is at 10" in done.stderr


def test_prompt_explains_itself(run: Command, store: EventStore) -> None:
    """Turn by turn, with each change where it was made."""
    text = run.here("prompt", "chat", "--explain", "--url", run.url).stdout
    assert "4 turns, 3 calls: 1 change" in text
    assert "- answered [open-call]: [Awaiting approval" in text
    assert "\x1b" not in text
    both = run.json("prompt", "chat", "--explain", "--provider", "anthropic", "--url", run.url)
    assert both.keys() == {"arguments", "repairs", "explanation"}
    assert both["explanation"].startswith("4 turns, 3 calls: ")


BROKEN = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "nonsense"}}]},
]  # fmt: skip


def test_check_tells_every_violation_and_how_to_mend_it(run: Command) -> None:
    """Status 1 where the provider would refuse the request; the others' rules do not."""
    (run.folder / "broken.json").write_text(json.dumps(BROKEN))
    done = run.here("check", "broken.json", "--provider", "openai", status=1)
    assert done.stdout.splitlines()[0].startswith("messages[1]: OA01 hard: An assistant message")
    assert done.stdout.splitlines()[1].startswith("    to mend it: put one tool message")
    assert "OA09 strict" in done.stdout
    assert "1 request by the rules of openai: 1 hard and 1 strict violations" in done.stdout
    assert done.stderr == "toolledger: broken.json: 1 hard violation: the provider refuses that\n"
    told = run.json("check", "broken.json", status=1)
    assert (told["ok"], told["hard"], told["strict"]) == (False, 1, 1)
    (checked,) = told["checked"]
    assert (checked["id"], checked["provider"], checked["messages"]) == ("broken", "openai", 2)
    assert [found["code"] for found in checked["violations"]] == ["OA01", "OA09"]
    assert checked["violations"][0].keys() == {"code", "level", "place", "message", "remedy"}


def test_check_passes_what_only_some_refuse(run: Command) -> None:
    """A strict violation is told, and no error."""
    arguments = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "x"}}
    mild = [{"role": "assistant", "content": None, "tool_calls": [arguments]},
            {"role": "tool", "tool_call_id": "c", "content": "1"}]  # fmt: skip
    lines = [
        {"messages": mild, "id": "mild"},
        {"contents": [{"role": "user", "parts": [{"text": "x"}]}]},
    ]
    (run.folder / "two.jsonl").write_text("\n".join(map(json.dumps, lines)))
    text = run.here("check", "two.jsonl").stdout
    assert "mild: messages[0].tool_calls[0].function.arguments: OA09 strict" in text
    assert "2 requests by the rules of gemini, openai: 0 hard and 1 strict violations" in text


def test_check_says_what_it_could_not_read(run: Command) -> None:
    """What was not judged is not passed."""
    (run.folder / "half.jsonl").write_text('{"messages": [{"role": "user", "content": "x"}]}\n{')
    done = run.here("check", "half.jsonl", status=1)
    assert "all is well" in done.stdout
    assert "1 part could not be read: line 2: not JSON" in done.stderr
    assert run.json("check", "half.jsonl", status=1)["ok"] is False
    assert "no file" in run.refused("check", "nowhere.json")
    assert "pass one of" in run.refused("check", "half.jsonl", "--provider", "x", status=2)


def test_check_reads_standard_input(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a program pipes it; where there is nothing in it, that is said."""
    process = run.start("check", "-", "--provider", "openai", stdin=subprocess.PIPE)
    out, err = process.communicate(json.dumps(BROKEN), timeout=PATIENCE)
    assert process.returncode == 1
    assert "messages[1]: OA01 hard" in out
    assert err == "toolledger: -: 1 hard violation: the provider refuses that\n"
    for text, told in (("[]", "standard input holds no messages"), ("", "standard input is empty")):
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text.encode())))
        assert told in run.refused("check", "-")


def test_check_takes_results_of_calls_that_the_server_holds(run: Command) -> None:
    """A request that goes on with a former response has them in it."""
    output = {"type": "function_call_output", "call_id": "c", "output": "12"}
    for more, hard in (
        ({}, 1),
        ({"previous_response_id": "resp_1"}, 0),
        ({"conversation": "c"}, 0),
    ):
        (run.folder / "next.json").write_text(json.dumps({"input": [output], **more}))
        assert run.json("check", "next.json", status=hard)["hard"] == hard


def test_tools_lists_each_call_as_it_stands(run: Command, store: EventStore) -> None:
    """Of one conversation or of all, and of one status where that is asked."""
    calls = run.json("tools", "--url", run.url)
    assert {call["id"]: call["status"]["state"] for call in calls} == {
        "a": "Completed", "b": "Rejected", "c": "Pending",
    }  # fmt: skip
    assert run.json("tools", "other", "--url", run.url) == []
    (pending,) = run.json("tools", "chat", "--status", "pending", "--url", run.url)
    assert pending["id"] == "c"
    assert (
        "3 calls, 1 completed, 1 pending, 1 rejected" in run.here("tools", "--url", run.url).stdout
    )


def test_stats_counts(run: Command, store: EventStore) -> None:
    """As a table, and as data."""
    assert "transient" in run.here("stats", "--url", run.url).stdout
    numbers = run.json("stats", "chat", "--url", run.url)["overall"]
    assert (numbers["calls"], numbers["failures"], numbers["recovered"]) == (3, 1, 1)


def test_stats_are_read_from_tables_and_over_time(run: Command, store: EventStore) -> None:
    """What they say is what the log says, also of what came since."""
    tables = ("--tables", f"sqlite:///{run.folder}/tables.db", "--url", run.url)
    for _ in range(2):
        found = run.json("stats", *tables)
        direct = run.json("stats", "--url", run.url)
        assert (found["events"], found["by_kind"]) == (direct["events"], direct["by_kind"])
        store.conversation("later").request("find", {})
    assert "find" in run.here("stats", *tables, terminal=True).stdout
    (bucket,) = run.json("stats", "--every", "365000d", *tables)
    assert bucket["overall"]["calls"] == 5
    assert run.json("stats", "--to", "2001-01-01", *tables) == []
    assert len(run.json("stats", "--from", "2001-01-01T12:00+01:00", *tables)) >= 1
    head, row, foot = run.here("stats", "--every", "24h", *tables).stdout.splitlines()
    assert head.split()[:3] == ["from", "calls", "done"]
    assert "failed" not in head  # of what never happened there is no column
    assert row.split()[2:4] == ["5", "1"]
    assert foot == "5 calls of that time"
    assert run.here("stats", "--to", "2001-01-01", *tables).stdout == "0 calls of that time\n"


def test_stats_builds_tables_of_another_version_anew(run: Command, store: EventStore) -> None:
    """When asked to; also where nothing is wrong. Those of a newer one it leaves alone."""
    place = f"sqlite:///{run.folder}/tables.db"
    tables = ("--tables", place, "--url", run.url)
    before = run.json("stats", *tables, "--rebuild")
    for made, remedy in ((1, "stats --tables URL --rebuild`"), (3, "upgrade toolledger")):
        with sqlite3.connect(run.folder / "tables.db") as connection:
            connection.execute("UPDATE toolledger_projections SET format = ?", (made,))
        connection.close()
        for command in ("stats", "approvals"):
            told = run.refused(command, *tables, status=1)
            assert told.startswith(f"toolledger: {place}: a")
            assert remedy in told
        if made == 1:
            assert run.json("stats", *tables, "--rebuild") == before
    assert "upgrade toolledger" in run.refused("stats", *tables, "--rebuild", status=1)


@pytest.mark.parametrize(
    ("given", "complaint", "status"),
    [
        (["--every", "1h"], "numbers over time are read from --tables", 2),
        (["chat", "--tables", "sqlite://"], "leave out ID", 2),
        (["--tables", "sqlite://", "--every", "soon"], "pass for example 30m, 1h or 7d", 2),
        (["--tables", "sqlite://", "--every", "1"], "pass for example 30m, 1h or 7d", 2),
        (["--tables", "sqlite://", "--from", "soon"], "pass a time, for example 2026", 2),
        (["--tables", "sqlite://", "--every", "1m"], "pass a multiple of the buckets", 1),
        (["--tables", "nonsense"], "--tables: 'nonsense' is not a database URL", 2),
        (["--tables", "sqlite:////no/x.db"], "/no/x.db: the folder /no does not exist: make it", 1),
        (["--rebuild"], "only --tables are built anew: pass a database's URL with it", 2),
    ],
)
def test_stats_refuses_what_it_cannot_count(
    run: Command, store: EventStore, given: list[str], complaint: str, status: int
) -> None:
    """In a line that says what to pass."""
    assert complaint in run.refused("stats", *given, "--url", run.url, status=status)


def test_replay_shows_what_each_event_changed(run: Command, store: EventStore) -> None:
    """Up to a version, and what the model would have seen then."""
    out = run.here("replay", "chat", "--until", 4, "--prompt", "openai", "--url", run.url).stdout
    assert "[Running → Failed]" in out
    assert "what the model would have seen after version 4" in out
    *frames, last = run.lines(
        "replay", "chat", "--until", "3", "--prompt", "openai", "--url", run.url
    )
    assert [frame["version"] for frame in frames] == [1, 2, 3]
    assert (frames[2]["before"]["status"]["state"], frames[2]["after"]["status"]["state"]) == (
        "Pending", "Running",
    )  # fmt: skip
    assert validate(last["prompt"]["messages"], "openai") == []
    assert run.here("replay", "chat", "--until", "0", "--url", run.url).stdout == ""


def test_tail_shows_the_last_events_of_all(run: Command, store: EventStore) -> None:
    """And by a cursor those after it."""
    lines = run.lines("tail", "-n", "2", "--url", run.url)
    assert [(line["conversation_id"], line["tag"]) for line in lines] == [
        ("chat", "pending"), ("other", "message"),
    ]  # fmt: skip
    later = run.lines("tail", "--after", lines[0]["cursor"], "--url", run.url)
    assert [line["event_id"] for line in later] == [lines[1]["event_id"]]
    assert run.lines("tail", "-n", "0", "--url", run.url) == []
    assert "is no cursor" in run.refused("tail", "--after", "x", "--url", run.url)


@pytest.mark.parametrize("command", ["show", "tail", "tools", "replay"])
def test_an_event_takes_one_line_whatever_stands_in_it(run: Command, command: str) -> None:
    """Ids and names come from models and providers: none makes a line that reads like another."""
    name = "chat\nx"
    with EventStore.open(run.url) as store:
        chat = store.conversation(name)
        chat.add_message("user", "one\ntwo\r\x85three\u2028four")
        chat.request("f\n     3  2026", {"a": "b\nc"}, "a\r\nb")
        chat.fail("a\r\nb", RuntimeError("one\ntwo"))
    given = [name] if command in ("show", "replay") else []
    lines = run.here(command, *given, "--url", run.url).stdout.splitlines()
    assert len(lines) == 3


def test_a_tenants_log_is_named_before_the_command(run: Command, store: EventStore) -> None:
    """Or by TOOLLEDGER_TENANT; what others have is not seen, nor decided on."""
    with EventStore.open(run.url, tenant="acme") as theirs:
        chat = theirs.conversation("chat")
        for number in range(3):
            chat.request("pay", {"n": number}, f"call{number}")
        store.conversation("later").add_message("user", "x" * 10)
        for _ in range(30):
            store.conversation("later").add_message("user", "more")
        acme = ("--tenant", "acme")
        found = run.json(*acme, "approvals", "--url", run.url)
        assert [one["call_id"] for one in found] == ["call0", "call1", "call2"]
        assert "call0" not in run.here("approvals", "--url", run.url).stdout
        for lines in ("2", "9"):
            told = run.lines(*acme, "tail", "-n", lines, "--url", run.url)
            assert [one["version"] for one in told] == [1, 2, 3][-int(lines) :]
        tables = ("--tables", f"sqlite:///{run.folder}/tables.db", "--url", run.url)
        assert run.json(*acme, "stats", *tables)["events"] == 3
        assert run.json("stats", *tables)["events"] == 42
        run.environment["TOOLLEDGER_TENANT"] = "acme"
        assert "approved: pay" in run("approve", "chat", "call1", "--url", run.url).stdout
        assert not chat.tools["call1"].is_pending
        assert "has no call 'a'" in run("approve", "chat", "a", "--url", run.url, status=1).stderr
    assert run.lines("tail", "-n", "1", "--url", run.url)[0]["conversation_id"] == "later"


def test_tail_follows_until_ctrl_c(run: Command, store: EventStore) -> None:
    """What others append is shown as it comes."""
    process = run.start(
        "tail", "-n", "1", "--follow", "--every", "0.05", "--json", "--url", run.url
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    store.conversation("other").add_message("user", "news")
    second = json.loads(process.stdout.readline())
    assert second["position"] == first["position"] + 1
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, "")


# verify


def tamper(run: Command, statement: str) -> None:
    """Change the file behind the store's back."""
    with sqlite3.connect(run.folder / "log.db") as database:
        assert database.execute(statement).rowcount > 0
    database.close()


def test_verify_finds_nothing_wrong_with_a_sound_log(run: Command, store: EventStore) -> None:
    """And says how much it looked at."""
    found = run.json("verify", "--url", run.url)
    assert (found["ok"], found["found"], found["first"]) == (True, [], None)
    assert found["events"] == 11
    assert found["conversations"] == 2


@pytest.mark.parametrize(
    ("statement", "version", "problem"),
    [
        ("UPDATE toolledger_events SET payload = payload || ' ' WHERE position = 1", 1,
         "does not match its digest"),
        ("UPDATE toolledger_events SET payload = cast(x'7bff7d' AS TEXT) WHERE position = 5", 5,
         "does not match its digest"),
        ("UPDATE toolledger_events SET digest = x'00' WHERE position = 3", 3, "digest"),
        ("DELETE FROM toolledger_events WHERE position = 3", 4, "positions 3 to 3 are missing"),
        ("UPDATE toolledger_events SET version = 99 WHERE position = 11", 99, "follows version 0"),
        ("UPDATE toolledger_events SET tag = 'message' WHERE position = 4", 4, "cannot be read"),
        ("UPDATE toolledger_events SET fingerprint = zeroblob(16) WHERE position = 2", 2,
         "the fingerprint is not that of the call"),
        ("UPDATE toolledger_lanes SET position = 15", None, "4 events are missing"),
        ("UPDATE toolledger_lanes SET position = 9", None, "is behind its events"),
        ("DELETE FROM toolledger_lanes", None, "head is missing"),
        ("DELETE FROM toolledger_conversations WHERE conversation_id = 'chat'", 1,
         "is not listed"),
    ],
)  # fmt: skip
def test_verify_names_the_first_bad_event(
    run: Command, store: EventStore, statement: str, version: int | None, problem: str
) -> None:
    """With status 1 and a last line that says it, and all findings as data."""
    tamper(run, statement)
    done = run.here("verify", "--url", run.url, status=1)
    assert done.stderr.count("\n") == 1
    assert "the first bad event" in done.stderr
    assert problem in done.stderr
    found = run.json("verify", "--url", run.url, status=1)
    assert found["ok"] is False
    assert found["first"]["version"] == version
    assert problem in found["first"]["problem"]
    if version is not None and "listed" not in problem:
        assert f"version {version}, lane 0 position" in done.stderr


def test_verify_checks_the_transitions(run: Command) -> None:
    """A log that the table does not allow, however it came about."""
    with EventStore.open(run.url) as store:
        chat = store.conversation("chat")
        chat.request("f", {}, "a")
        chat.reject("a")
        chat.request("f", {}, "b")
        chat.complete("b", "x")
    tamper(
        run,
        'UPDATE toolledger_events SET tag = \'running\', payload = \'{"call_id":"a","attempt":9}\','
        " digest = x'6c1dcd1d5a7bbc5c9c1a4b6d4ea1ac7b' WHERE position = 2",
    )
    found = run.json("verify", "--url", run.url, status=1)
    assert any("attempt 9 cannot start" in item["problem"] for item in found["found"])


def test_verify_tells_newer_events_from_damaged_ones(run: Command) -> None:
    """What a newer version wrote is no damage, nor is what follows from it."""
    with EventStore.open(run.url) as store:
        chat = store.conversation("chat")
        chat.request("f", {}, "a")
        chat.append(UnknownEvent("completed", 2, '{"call_id":"a","answer":1}'))
        chat.start("a")
        chat.append(UnknownEvent("pending", 2, "{}"), UnknownEvent("hologram", 1, "{}"))
        assert list(store.verify()) == []
    found = run.json("verify", "--url", run.url)
    assert (found["ok"], found["events"]) == (True, 5)
    note = found["notes"][0]
    assert note.startswith("2 events of 1 conversation are of a newer version of toolledger; what")
    assert f"note: {note}" in run.here("verify", "--url", run.url).stdout
    with EventStore.open(run.url) as store:
        store.conversation("old").add_message("user", "hello")
    tamper(run, "UPDATE toolledger_events SET tag = 'failed' WHERE tag = 'message'")
    found = run.json("verify", "--url", run.url, status=1)
    assert found["first"]["problem"] == "failed (schema 1) cannot be read: it is damaged"
    assert found["notes"][0] == note


def test_verify_goes_on_where_a_row_cannot_be_read(run: Command, store: EventStore) -> None:
    """The bad event is named before what else that broke."""
    tamper(run, "UPDATE toolledger_events SET payload = cast(x'ff' AS TEXT) WHERE position = 2")
    found = run.json("verify", "--url", run.url, status=1)
    assert (found["first"]["conversation_id"], found["first"]["version"]) == ("chat", 2)


def test_verify_of_a_file_that_sqlite_cannot_read(run: Command, store: EventStore) -> None:
    """Overwritten pages are a finding, not a traceback."""
    store.close()
    path = run.folder / "log.db"
    data = bytearray(path.read_bytes())
    data[4096 : 4096 * 4] = b"\x5a" * 4096 * 3
    path.write_bytes(data)
    done = run.here("verify", "--url", run.url, status=1)
    assert done.stderr.startswith("toolledger: ")


# migrate


def test_migrate_shows_the_revision(run: Command, store: EventStore) -> None:
    """And says when there is nothing to do."""
    assert "revision 0001: nothing to do" in run.here("migrate", "--url", run.url).stdout
    told = run.json("migrate", "--url", run.url)
    assert (told["before"], told["revision"]) == ("0001", told["known"])


def test_migrate_makes_a_log_in_a_database_of_others(run: Command) -> None:
    """Their tables stay."""
    with sqlite3.connect(run.folder / "log.db") as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    assert run.json("migrate", "--url", run.url)["before"] is None
    run.here("import", messages(run.folder / "chat.jsonl", 1), "--url", run.url)
    tamper(run, "INSERT INTO theirs VALUES (1)")


def test_migrate_down_drops_a_log_only_when_told_twice(run: Command, store: EventStore) -> None:
    """The line says how many events would go."""
    line = run.refused("migrate", "--down", "base", "--url", run.url)
    assert "drops the log with its 11 events: pass --yes" in line
    assert len(run.lines("show", "--url", run.url)) == 2
    store.close()
    told = run.json("migrate", "--down", "base", "--yes", "--url", run.url)
    assert told["revision"] is None
    assert "holds no store" in run.refused("show", "--url", run.url)


def test_migrate_down_counts_the_events_of_all_tenants(run: Command) -> None:
    """They would all go."""
    with EventStore.open(run.url, tenant="acme") as theirs:
        theirs.conversation("chat").add_message("user", "hello")
    line = run.refused("migrate", "--down", "base", "--url", run.url)
    assert "drops the log with its 1 events" in line


def test_a_log_that_goes_takes_its_projections_along(run: Command, store: EventStore) -> None:
    """They hold the arguments of its calls; another log's stay, and so does what a host has."""
    other = f"sqlite:///{run.folder}/other.db"
    with EventStore.open(other) as there:
        there.conversation("theirs").request("f", {})
    with sqlite3.connect(run.folder / "log.db") as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    store.close()
    run.here("approvals", "--tables", run.url, "--url", run.url)
    run.here("approvals", "--tables", run.url, "--url", other)
    run.here("migrate", "--down", "base", "--yes", "--url", run.url)
    with sqlite3.connect(run.folder / "log.db") as database:
        calls = database.execute("SELECT conversation_id FROM toolledger_calls").fetchall()
    database.close()
    assert calls == [("theirs",)]
    run.here("migrate", "--url", run.url)
    with sqlite3.connect(run.folder / "log.db") as database:
        database.execute("DELETE FROM toolledger_projections")
    database.close()
    run.here("migrate", "--down", "base", "--url", run.url)
    with sqlite3.connect(run.folder / "log.db") as database:
        left = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    database.close()
    assert {name for name in left if "autoindex" not in name} == {"theirs", "toolledger_version"}


def test_migrate_refuses_a_schema_from_the_future(run: Command, store: EventStore) -> None:
    """Only a newer toolledger knows what to do with it."""
    tamper(run, "UPDATE toolledger_version SET version_num = '9999'")
    assert "upgrade toolledger" in run.refused("migrate", "--url", run.url)


# the demo


def test_the_demo_tells_the_whole_story(run: Command) -> None:
    """In some seconds of work, on one screen or two, and it leaves nothing behind."""
    before, out, after = os.times(), run("demo").stdout, os.times()
    assert after.children_user - before.children_user < 10
    for told in (
        "attempt 1 failed (TimeoutError", "(attempt 2)", "approved by ann with amount=49.0",
        "rejected by ann", "process killed", "attempt 1 has no recorded end", "not run twice",
        "The next prompt for openai (valid)", "The next prompt for anthropic (valid)",
        "Awaiting approval", "Error statistics", "transient", "What was repaired",
        "outcome unknown",
    ):  # fmt: skip
        assert told in out
    assert len(out.splitlines()) < 90
    assert CONTROL.search(out) is None
    assert list(run.folder.iterdir()) == []


def test_the_demos_facts_are_data(run: Command) -> None:
    """The prompts are valid, the numbers add up, every repair has a reason."""
    facts = run.json("demo")
    for provider in ("openai", "anthropic"):
        assert facts["violations"][provider] == []
        assert validate(facts["prompts"][provider]["messages"], provider) == []
    numbers = facts["statistics"]["overall"]
    assert (numbers["calls"], numbers["completions"], numbers["rejections"]) == (6, 4, 1)
    assert (numbers["retries"], numbers["recovered"], numbers["open"]) == (1, 1, 1)
    assert all(item["repair"]["why"] for item in facts["repairs"])
    assert len(facts["repairs"]) >= 3


def test_the_demos_log_can_be_kept(run: Command) -> None:
    """Each run is a conversation of its own, and the log is as good as any."""
    run.here("demo", "--keep", "kept.db")
    run.here("demo", "--url", "sqlite:///kept.db")
    url = "sqlite:///kept.db"
    assert [line["conversation_id"] for line in run.lines("show", "--url", url)] == [
        "demo", "demo-2",
    ]  # fmt: skip
    assert "all is well" in run.here("verify", "--url", url).stdout
    assert [path.name for path in run.folder.iterdir()] == ["kept.db"]
