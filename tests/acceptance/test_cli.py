"""The command line, as people and programs run it."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from decimal import Decimal
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from eventstore import EventStore, ModelResponded, SchemaTooNew, UnknownEvent, Usage, validate
from eventstore.migrate import REVISIONS, move
from eventstore.migrate import inspect as look
from eventstore.testing import FrozenClock, append, pending, running
from projections import Projector
from projections.cli import app
from projections.cli.command_groups import GROUPS
from projections.report import FIRST_LINE

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "demo",
    "import",
    "show",
    "search",
    "prompt",
    "check",
    "tools",
    "stats",
    "approvals",
    "approve",
    "reject",
    "doubts",
    "settle",
    "replay",
    "why",
    "what-if",
    "report",
    "diff",
    "fork",
    "pytest",
    "tail",
    "export",
    "restore",
    "serve",
    "verify",
    "migrate",
)
PATIENCE = 600
"""Seconds until a process that never ends is a failure, on a slow machine too."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

Done = subprocess.CompletedProcess[str]


class Terminal(StringIO):
    """An output that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def _hear_ctrl_c() -> None:
    """Restore Ctrl-C, which a shell ignores for background jobs and their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Command:
    """The `toolledger` command, run in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []
        self.url = f"sqlite:///{folder}/log.db"
        self.environment = {
            **{key: value for key, value in os.environ.items() if key != "TOOLLEDGER_URL"},
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(folder),
        }

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """Start the command in a process that may be interrupted.

        Its coverage is not measured: an interrupt within coverage leaves a lock of coverage held.
        """
        return self._start(arguments, {"COVERAGE_PROCESS_CONFIG": ""}, **options)

    def _start(
        self, arguments: Iterable[object], environment: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "projections.cli", *map(str, arguments)],
            cwd=self.folder,
            env={**self.environment, **environment},
            text=True,
            encoding="utf-8",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
            preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 - no thread has a lock here
        )
        self.processes.append(process)
        return process

    def end(self) -> None:
        """Kill the processes that a test has not seen end."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def __call__(self, *arguments: object, status: int = 0) -> Done:
        """Run the command to its end; check the status, and that there is no traceback."""
        process = self._start(arguments, {})
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == status, out + err
        assert "Traceback" not in err
        return subprocess.CompletedProcess(process.args, status, out, err)

    def here(self, *arguments: object, status: int = 0, terminal: bool = False) -> Done:
        """Run the command in this process, which is faster."""
        out, err = (Terminal(), Terminal()) if terminal else (StringIO(), StringIO())
        given = [str(argument) for argument in arguments]
        with chdir(self.folder), redirect_stdout(out), redirect_stderr(err):
            assert app.run(given) == status, out.getvalue() + err.getvalue()
        return subprocess.CompletedProcess(given, status, out.getvalue(), err.getvalue())

    def json(self, *arguments: object, status: int = 0) -> Any:
        """Return the JSON output."""
        return json.loads(self.here(*arguments, "--json", status=status).stdout)

    def lines(self, *arguments: object) -> list[Any]:
        """Return the JSON output, line by line."""
        return [json.loads(line) for line in self.here(*arguments, "--json").stdout.splitlines()]

    def refused(self, *arguments: object, status: int = 1) -> str:
        """Return the one line of the refusal."""
        done = self.here(*arguments, status=status)
        assert done.stdout == ""
        assert done.stderr.startswith("toolledger: ")
        assert done.stderr.count("\n") == 1
        return done.stderr


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Return the command, in an empty folder."""
    monkeypatch.delenv("TOOLLEDGER_URL", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    command = Command(folder)
    yield command
    command.end()


@pytest.fixture
def store(run: Command) -> Iterator[EventStore]:
    """Return the store that `--url` names, with two conversations."""
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
    """Return a file of many messages, one per line."""
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


def versions(run: Command) -> dict[str, int]:
    """Return the version of each conversation."""
    listed = run.lines("show", "--url", run.url)
    return {line["conversation_id"]: line["version"] for line in listed}


def until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


# the whole


def test_every_command_says_what_it_does(run: Command) -> None:
    """The overview and each command's help say so; without a command the overview is shown."""
    overview = run.here("--help").stdout
    assert run.here().stdout == overview
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", overview, re.MULTILINE)
        own = run.here(command, "--help").stdout
        assert ("--url" in own) is (command != "check")  # which reads a file alone
        assert "--json" in own


def test_every_command_has_a_group_and_an_example(run: Command) -> None:
    """The example stands in the command's help, and has options that the command knows."""
    overview = run.here("--help").stdout
    assert re.findall(r"^(\w+):$", overview, re.MULTILINE)[1:] == [*GROUPS]
    for listed in (listed for group in GROUPS.values() for listed in group):
        assert re.search(rf"^  {listed.name} +{re.escape(listed.summary)}$", overview, re.MULTILINE)
        own = " ".join(run.here(listed.name, "--help").stdout.split())
        assert f"Example: {listed.example}" in own
        assert listed.example.split()[:2] == ["toolledger", listed.name]
        for option in re.findall(r"--[a-z-]+", listed.example):
            assert f" {option} " in own.partition("Example:")[0]


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("toolledger sta", ["stats"]), ("toolledger stats --pri", ["--prices"]), ("toolledger x", [])],
)
def test_a_shell_completes_commands_and_options(
    run: Command, typed: str, completed: list[str]
) -> None:
    """The variables are those of the script that `toolledger --show-completion` prints for bash."""
    run.environment |= {
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
        "_TOOLLEDGER_COMPLETE": "complete_bash",
    }
    assert run().stdout.split() == completed


def test_a_missing_typer_is_reported_in_one_line(run: Command, tmp_path: Path) -> None:
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
        (["prompt", "chat", "--collapse", "some"], "pass one of earlier, failed, all, none"),
        (["prompt", "chat", "--open-calls", "x"], "pass one of answer, raise, drop"),
        (["prompt", "chat", "--last-turns", "0"], "--last-turns"),
        (["prompt", "chat", "--max-tokens", "30:10"], "--max-tokens"),
        (["tools", "--status", "lost"], "pass one of pending, approved"),
        (["replay", "chat", "--until", "-1"], "--until"),
        (["show", "chat", "--since", "noon"], "'noon': pass a version, or a time"),
        (["show", "chat", "--around", "3:"], "'3:': pass a version, or a version and a number"),
        (["tools", "--grep", "("], "is not a regular expression"),
        (["replay", "chat", "--prompt", "nobody"], "pass one of anthropic, "),
        *(
            ([*command, text], f"'{command[-1]}': {text!r}: pass seconds above 0")
            for command in (["tail", "--every"], ["approve", "chat", "a", "--expires"])
            for text in ("0", "-1", "inf", "-inf", "nan", "1e400", "1e300", "soon")
        ),
        (["migrate", "--down", "9999"], "pass one of base"),
        (["import", "x.json", "--provider", "nobody"], "pass one of agent-framework, ai-sdk"),
        (["import", "x.json", "--id", ""], "--id: '': pass a name that is not empty"),
        (
            ["demo", "--keep", "x.db", "--url", "sqlite:///y.db"],
            "--keep and --url exclude each other",
        ),
    ],
)
def test_wrong_usage_is_refused_in_one_line(
    run: Command, arguments: list[str], complaint: str
) -> None:
    """The status is 2, and nothing is touched."""
    assert complaint in run.refused(*arguments, status=2)
    assert list(run.folder.iterdir()) == []


def test_a_complaint_names_the_help_that_helps(run: Command, store: EventStore) -> None:
    """Wrong usage names the command's help, a missing store the option, swapped ids their order."""
    assert run.refused("show", "--nonsense", status=2).endswith("(see toolledger show --help)\n")
    assert run.here("show", "-h").stdout == run.here("show", "--help").stdout
    assert run.refused("show").endswith("name another file, with --url or TOOLLEDGER_URL\n")
    swapped = run.refused("approve", "call_2", "chat", "--url", run.url)
    assert swapped == "toolledger: 'chat' is the conversation: name it before the call\n"


def test_a_command_is_printed_for_the_same_store(
    run: Command, store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that was named on the command line is named in the commands to go on with."""
    command = "toolledger approve CONVERSATION CALL --shown REVISION"
    assert f"({command} --url {run.url})" in run.here("approvals", "--url", run.url).stdout
    monkeypatch.setenv("TOOLLEDGER_URL", run.url)
    assert f"({command})" in run.here("approvals").stdout
    named = command.replace("toolledger", "toolledger --tenant acme")
    assert f"({named})" in run.here("--tenant", "acme", "approvals").stdout


READERS: tuple[Sequence[str], ...] = (
    ["show"],
    ["show", "x"],
    ["search", "x"],
    ["prompt", "x"],
    ["tools"],
    ["stats"],
    ["replay", "x"],
    ["why", "x"],
    ["diff", "x", "y"],
    ["fork", "x", "y", "--at", "1"],
    ["tail"],
    ["tail", "--follow"],
    ["verify"],
    ["migrate"],
    ["migrate", "--down", "base"],
    ["approvals"],
    ["approve", "x", "y"],
    ["reject", "x", "y"],
    ["doubts"],
    ["settle", "x", "y", "--run-again"],
)


@pytest.mark.parametrize("arguments", READERS)
def test_a_store_that_is_not_there_is_not_made(run: Command, arguments: Sequence[str]) -> None:
    """A typing error must not look like an empty log."""
    assert "there is no store" in run.refused(*arguments)
    assert list(run.folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [given for given in READERS if given != ["migrate"]])
def test_a_database_of_others_is_left_alone(run: Command, arguments: Sequence[str]) -> None:
    """Only `migrate` adds tables to it."""
    path = run.folder / "toolledger.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    before = path.read_bytes()
    assert str(path) in run.refused(*arguments)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [["show", "x"], ["prompt", "x"], ["tools", "x"], ["stats", "x"], ["replay", "x"], ["why", "x"]],
)
def test_an_unknown_conversation_is_refused(
    run: Command, store: EventStore, arguments: list[str]
) -> None:
    """The line says how to list the existing ones."""
    line = run.refused(*arguments, "--url", run.url)
    assert "there is no conversation 'x': `toolledger show` lists them" in line


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///missing.db", "sqlite:///missing.db"),
        ("postgresql://user:marked@host/db", "postgresql://user:***@host/db"),
        ("postgresql://user@host/db?password=marked", "postgresql://user@host/db?password=***"),
        ("x://user:p@marked@host", "x://…"),
    ],
)
def test_a_store_in_place_of_a_conversation_is_refused(
    run: Command, store: EventStore, url: str, shown: str
) -> None:
    """The line says where a store is named, and holds no password."""
    line = run.refused("show", url, "--url", run.url)
    assert f"{shown} is a store, and a conversation's id is wanted: name the store with" in line
    assert "marked" not in line


@pytest.mark.parametrize(
    "arguments",
    [["import"], ["restore"], ["backup"], ["check"], ["export", "--out"], ["report", "x", "--out"]],
)
def test_an_empty_name_of_a_file_is_refused(run: Command, arguments: list[str]) -> None:
    """The name comes from an unset shell variable, and never means the folder."""
    messages(run.folder / "chat.jsonl", 1)
    assert "'': pass the name of a file" in run.refused(*arguments, "", status=2)


def test_an_output_that_is_closed_or_full_raises_no_traceback(run: Command) -> None:
    """A shell closes it with `>&-`; a device that is full is told in one line with a remedy."""
    messages(run.folder / "chat.jsonl", 1)
    run.here("import", "chat.jsonl")
    command = f"{sys.executable} -m projections.cli show"
    closed, full = (
        subprocess.run(
            ["/bin/sh", "-c", f"{command} {redirection}"],
            cwd=run.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        for redirection in (">&-", "> /dev/full")
    )
    assert (closed.returncode, closed.stderr) == (0, "")
    said = "toolledger: No space left on device: mend that, and run the command again\n"
    assert (full.returncode, full.stderr) == (1, said)


@pytest.mark.parametrize("command", ["show", "prompt", "tools", "stats", "replay", "why"])
def test_an_empty_id_is_refused(run: Command, store: EventStore, command: str) -> None:
    """The id comes from an unset shell variable, and never means all."""
    line = run.refused(command, "", "--url", run.url)
    assert "a conversation id is text and not empty, got '': pass for example" in line


def test_the_environment_names_the_store(
    run: Command, store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOOLLEDGER_URL is used if --url is not given."""
    monkeypatch.setenv("TOOLLEDGER_URL", run.url)
    assert "chat" in run.here("show").stdout
    assert "there is no store" in run.refused("show", "--url", "sqlite:///no.db")


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["show", "chat"],
        ["prompt", "chat", "--repairs"],
        ["tools"],
        ["stats"],
        ["replay", "chat", "--prompt", "openai"],
        ["tail"],
        ["verify"],
        ["migrate"],
    ],
)
def test_output_to_a_file_has_whole_lines_and_no_control_codes(
    run: Command, store: EventStore, arguments: list[str]
) -> None:
    """Lines are not cut to 80 columns, and text of the log is escaped."""
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
    """Text of a message is shown as it was written."""
    assert "[bold]done[/]" in run.here("show", "chat", "--url", run.url).stdout
    assert "[bold]done[/]" in run.here("prompt", "chat", "--url", run.url).stdout


@pytest.mark.slow
def test_output_that_the_terminal_cannot_show_is_escaped(run: Command, store: EventStore) -> None:
    """An old locale does not make the command fail."""
    store.conversation("naïve ☃").add_message("user", "¡olé!")
    run.environment |= {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    assert "\\xa1ol\\xe9!" in run("prompt", "naïve ☃", "--url", run.url).stdout
    for arguments, expected in (
        (["show"], "\\u2603"),
        (["prompt", "naïve ☃", "--json"], "\\u00a1ol\\u00e9!"),
    ):
        with redirect_stdout(TextIOWrapper(BytesIO(), "ascii")) as out:
            assert app.run([*arguments, "--url", run.url]) == 0
            out.seek(0)
            assert expected in out.read()


@pytest.mark.slow
def test_a_closed_pipe_ends_the_command_in_silence(run: Command, store: EventStore) -> None:
    """An example is `toolledger show chat | head -1`."""
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
    """The second import adds nothing."""
    path = messages(run.folder / "chat.jsonl", 10)
    first = run.here("import", path, "--url", run.url).stdout
    assert re.search(r"chat\.jsonl\s+1\s+10\s+30\s+0\s+40\s+0", first)
    second = run.json("import", path, "--url", run.url)
    assert [(r["conversations"], r["skipped"], r["calls"]) for r in second] == [(1, 30, 10)]
    assert second[0]["added"] == 0
    (listed,) = run.lines("show", "--url", run.url)
    assert (listed["conversation_id"], listed["version"], listed["calls"]) == ("chat", 40, 10)


def test_an_import_says_what_was_wrong(run: Command) -> None:
    """Both outputs give the place of each problem; valid messages are imported."""
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
    """Each is reported with its reason, and the status says that not all were imported."""
    good = messages(run.folder / "good.jsonl", 1)
    files = {
        "missing.json": None,
        "empty.json": b"",
        "binary.json": b"\x00\x01",
        "text.json": b"hello",
        "latin.jsonl": "é\n".encode("latin-1"),
        "none.json": b"{}",
        "number.json": b"7",
    }
    for name, data in files.items():
        if data is not None:
            (run.folder / name).write_bytes(data)
    empty = run.folder / "empty"
    empty.mkdir()
    done = run.here("import", *files, good, empty, "--url", run.url, status=1)
    complaints = done.stderr.splitlines()
    assert len(complaints) == len(files) + 1
    for name, line in zip(files, complaints, strict=False):
        assert line.startswith("toolledger: ")
        assert name in line
    assert "good.jsonl" in done.stdout
    assert "missing.json" not in done.stdout
    assert [line["conversation_id"] for line in run.lines("show", "--url", run.url)] == ["good"]
    assert "missing.json" in run.refused("import", "missing.json", "--url", run.url)


def test_another_history_under_the_same_name_is_refused(run: Command) -> None:
    """No event is written; under another name it is imported."""
    path = messages(run.folder / "chat.jsonl", 2)
    run.here("import", path, "--url", run.url)
    changed = path.read_text().replace("result 1", "something else")
    path.write_text(changed)
    done = run.here("import", path, "--url", run.url, status=1)
    assert "conversation 'chat' exists already and differs from message 6 on" in done.stderr
    (listed,) = run.lines("show", "--url", run.url)
    assert (listed["conversation_id"], listed["version"]) == ("chat", 8)
    run.here("import", path, "--id", "chat-2", "--url", run.url)
    assert len(run.lines("show", "--url", run.url)) == 2


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f"}]},
            "has tool_use, which openai does not: pass --provider anthropic",
        ),
        (
            {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
            "has functionCall, which openai does not: pass --provider gemini",
        ),
    ],
)
def test_import_names_a_provider_that_it_takes(
    run: Command, call: dict[str, Any], remedy: str
) -> None:
    """The error lists providers and file formats, and nothing is stored."""
    path = run.folder / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "hi"}, call]))
    done = run.here("import", path, "--provider", "openai", "--url", run.url, status=1)
    assert done.stderr == f"toolledger: {path}: messages[1] {remedy}\n"
    assert run.here("show", "--json", "--url", run.url).stdout == ""


@pytest.mark.slow
def test_ctrl_c_in_an_import_leaves_nothing_half_written(run: Command) -> None:
    """The status is 130, the log is sound, and the same command continues the import."""
    path = messages(run.folder / "long.jsonl", 4000)
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
    run.here("verify", "--url", run.url)
    (before,) = run.lines("show", "--url", run.url)
    assert 0 < before["version"] < 16_000
    (report,) = run.json("import", path, "--url", run.url)
    assert report["added"] + report["skipped"] == 12_000
    assert report["skipped"] == before["version"] * 3 / 4
    assert versions(run) == {"long": 16_000}


@pytest.mark.usefixtures("interruptible")
def test_an_import_ends_after_a_ctrl_c_that_python_drops(
    run: Command,
) -> None:
    """Python drops exceptions that come while the garbage collector runs."""
    path = messages(run.folder / "long.jsonl", 1000)
    phases: list[str] = []

    def interrupt(phase: str, info: object) -> None:
        if not phases and (run.folder / "log.db").exists():
            phases.append(phase)
            signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(interrupt)
    try:
        done = run.here("import", path, "--url", run.url, status=130)
    finally:
        gc.callbacks.remove(interrupt)
    assert phases
    assert done.stderr.startswith("toolledger: interrupted")
    (report,) = run.json("import", path, "--url", run.url)
    assert report["added"] + report["skipped"] == 3000


@pytest.mark.slow
def test_an_import_killed_with_minus_nine_goes_on(run: Command) -> None:
    """Committed batches stay, each whole."""
    path = messages(run.folder / "long.jsonl", 2000)
    with run.start("import", path, "--url", run.url) as process:
        until((run.folder / "log.db").exists)
        time.sleep(0.3)
        process.kill()
    run.here("import", path, "--url", run.url)
    run.here("verify", "--url", run.url)
    assert versions(run) == {"long": 8000}


@pytest.mark.slow
def test_two_imports_at_once_double_nothing(run: Command) -> None:
    """Both succeed, and the log is that of one import."""
    path = messages(run.folder / "chat.jsonl", 1000)
    with EventStore.open(run.url):
        pass
    both = [run.start("import", path, "--url", run.url) for _ in range(2)]
    for process in both:
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    assert versions(run) == {"chat": 4000}
    run.here("verify", "--url", run.url)


def test_a_long_import_shows_that_it_goes_on(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal, progress goes to stderr as lines, so stdout stays clean."""
    path = messages(run.folder / "long.jsonl", 2000)
    monkeypatch.setattr("projections.cli.import_progress.PROGRESS_SECONDS", 0)
    done = run.here("import", path, "--url", run.url, "--json")
    lines = done.stderr.splitlines()
    progress = re.compile(
        r".*long\.jsonl: 0\.\d of 0\.\d MB read; 0 of 1 files, ([\d,]+) messages, ([\d,]+) calls"
    )
    counts = [tuple(map(_number, progress.fullmatch(line).groups())) for line in lines]
    assert counts == sorted(counts)
    assert counts[0] == (0, 0)
    assert counts[-1][0] > counts[-1][1] > 1000  # before the end
    (report,) = json.loads(done.stdout)
    assert (report["added"], report["calls"]) == (6000, 2000)


def test_a_terminal_shows_how_far_an_import_is(run: Command) -> None:
    """A bar shows the bytes of each file, and one those of all, with messages and calls."""
    paths = [messages(run.folder / f"long{number}.jsonl", 1000) for number in (1, 2)]
    environment = {**run.environment, "COLUMNS": "260", "TERM": "xterm"}
    command = [sys.executable, "-W", "error", "-m", "projections.cli", "import"]
    command += [*map(str, paths), "--url", run.url, "--jobs", "1"]
    ours, theirs = os.openpty()
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b"".join(iter(lambda: _read(ours), b"")).decode()
    os.close(ours)
    assert process.returncode == 0
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown)  # colours, and moves of the cursor
    assert re.search(r"long1\.jsonl .*/[\d.]+ kB", shown)
    assert re.search(r"all files .*1 of 2 files, 3,000 messages, 1,000 calls", shown)
    assert re.search(r"long2\.jsonl.* 1 +1,000 +3,000 +0 +4,000 +0", shown)


def _read(terminal: int) -> bytes:
    """Return what a program has shown; nothing once it has ended."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


def _number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_the_name_of_a_file_without_control_codes(
    run: Command, monkeypatch: pytest.MonkeyPatch, *, terminal: bool
) -> None:
    """A name may hold what sets the title of a terminal."""
    path = messages(run.folder / "a\x1b]0;x\x07.jsonl", 2000)
    monkeypatch.setattr("projections.cli.import_progress.PROGRESS_SECONDS", 0)
    done = run.here("import", path, "--url", run.url, terminal=terminal)
    assert "a\\x1b]0;x\\x07.jsonl" in done.stderr
    assert "\x1b]" not in done.stderr
    assert "\x07" not in done.stderr


# reading


def test_show_gives_each_event_to_programs(run: Command, store: EventStore) -> None:
    """`show --json` prints one JSON object per line, with the event's place."""
    lines = run.lines("show", "chat", "--url", run.url)
    assert [line["version"] for line in lines] == list(
        range(1, store.conversation("chat").version + 1)
    )
    assert {"lane", "position", "event_id", "recorded_at", "tag", "event"} <= lines[0].keys()
    assert lines[1]["tag"] == "pending"
    assert lines[1]["event"]["call"]["name"] == "find"


def test_show_marks_a_time_that_goes_back(run: Command, tmp_path: Path) -> None:
    """Two machines wrote, whose clocks differ by an hour."""
    url, clock = f"sqlite:///{tmp_path / 'clocks.db'}", FrozenClock()
    with EventStore.open(url, clock=clock) as store:
        for seconds in (0, 3600, -3600, 10):
            clock.advance(seconds)
            store.conversation("chat").add_message("user", "hello")
    shown = run("show", "chat", "--url", url)
    lines = shown.stdout.splitlines()
    assert [line[31:].startswith("< message") for line in lines] == [False, False, True, True]
    assert "< is earlier than an event before it: the clocks of its writers differ" in shown.stderr
    assert "<" not in run("show", "chat", "--limit", "2", "--url", url).stderr


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_prompt_is_ready_to_be_sent(run: Command, store: EventStore, provider: str) -> None:
    """The command prints valid keyword arguments for the SDK, and the repairs on request."""
    arguments = run.json("prompt", "chat", "--provider", provider, "--url", run.url)
    assert validate(arguments["messages"], provider) == []
    both = run.json("prompt", "chat", "--provider", provider, "--repairs", "--url", run.url)
    assert both["arguments"] == arguments
    assert [(r["what"], r["call_id"]) for r in both["repairs"]] == [("answered", "c")]


def test_prompt_takes_the_options_of_the_history(run: Command, store: EventStore) -> None:
    """Options select the calls and the number of turns."""
    dropped = run.json("prompt", "chat", "--open-calls", "drop", "--url", run.url)
    assert '"c"' not in json.dumps(dropped)
    last = run.json("prompt", "chat", "--last-turns", "1", "--url", run.url)
    assert run.json("prompt", "chat", "--last-turns", "1:1", "--url", run.url) == last
    assert "find it" not in json.dumps(last)
    line = run.refused("prompt", "chat", "--open-calls", "raise", "--url", run.url)
    assert "id=c, state=Pending" in line
    named = run.json("prompt", "chat", "--model", "mistralai/mistral-small-4", "--url", run.url)
    assert validate(named["messages"], "mistral") == []
    late = run.json("prompt", "chat", "--since", "8", "--summary", "Before: a.", "--url", run.url)
    assert late["messages"][0] == {"role": "user", "content": "Before: a."}
    assert "find it" not in json.dumps(late)
    done = run.here("prompt", "chat", "--since", "11", "--url", run.url, status=2)
    assert "--since: 11: pass a version of the conversation, which is at 10" in done.stderr


def test_events_are_chosen_in_the_same_way_everywhere(run: Command, store: EventStore) -> None:
    """The options are those of `EventFilter`, and a page says where the next one begins."""
    url = "--url", run.url
    assert [e["version"] for e in run.lines("show", "chat", "--around", "5:1", *url)] == [4, 5, 6]
    assert [e["version"] for e in run.lines("show", "chat", "--failed", *url)] == [2, 3, 4, 5, 6]
    frames = run.lines("replay", "chat", "--tool", "delete", "--from", "8", *url)
    assert [frame["version"] for frame in frames] == [8, 10]
    assert frames[0]["after"]["status"]["state"] == "Rejected"
    assert [tool["id"] for tool in run.json("tools", "--open", *url)] == ["c"]
    assert run.json("stats", "chat", "--call", "a", *url)["overall"]["calls"] == 1
    page = run.here("show", "chat", "--limit", "4", "--until", "9", *url)
    assert len(page.stdout.splitlines()) == 4
    assert page.stderr == "toolledger: there are more: continue with --since 5\n"
    assert run.here("show", "chat", "--since", "5", "--limit", "6", *url).stderr == ""
    assert "did you mean 'delete'?" in run.refused("tools", "--tool", "delet", *url)
    assert "pass the ID" in run.refused("show", "--failed", *url, status=2)


def test_the_beginning_of_an_id_names_a_conversation(run: Command, store: EventStore) -> None:
    """A beginning of several ids is refused, and a wrong id says which may be meant."""
    url = "--url", run.url
    assert len(run.lines("show", "ch", *url)) == 10
    store.conversation("chat-2").add_message("user", "hello")
    assert len(run.lines("show", "chat", *url)) == 10
    line = run.refused("show", "cha", *url)
    assert "2 conversations begin with 'cha', among them 'chat' and 'chat-2'" in line
    assert "`toolledger show` lists them, did you mean 'other'?" in run.refused(
        "show", "othr", *url
    )


def test_conversations_are_listed_with_their_calls(run: Command, store: EventStore) -> None:
    """Each line has the calls, the failures, the open calls and the end."""
    head, chat, other = run.here("show", "--url", run.url).stdout.splitlines()
    assert head.split() == [
        "conversation",
        "events",
        "last",
        "calls",
        "failed",
        "open",
        "tokens",
        "ends",
        "with",
    ]
    assert re.fullmatch(r"chat +10 .* +3 +0 +1 +0 +waiting", chat)
    assert other.endswith("under way")


def test_the_list_counts_failures_as_the_statistics_do(run: Command) -> None:
    """A completed call whose result says an error stands in a column of its own."""
    asked = {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    said = [
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "a", "content": "no such lamp\nexited with code 2"},
    ]
    path = run.folder / "lamp.json"
    path.write_text(json.dumps(said))
    run.here("import", path, "--url", run.url)
    head, line = run.here("show", "--url", run.url).stdout.splitlines()
    assert "  failed  said an error  open  " in head
    assert re.fullmatch(r"lamp +4 .* +1 +0 +1 +0 +0 +under way", line)
    assert "0 failed" in run.here("stats", "--url", run.url).stdout
    failure = run.here("why", "lamp", "--url", run.url).stdout.splitlines()[3]
    assert failure == "failure    version 4, find, answered with an error: no such lamp"


def test_stats_of_an_import_do_not_count_attempts(run: Command) -> None:
    """An imported history says nothing of attempts, so no rate is made of them."""
    run.here("import", messages(run.folder / "chat.jsonl", 3), "--url", run.url)
    out = run.here("stats", "--url", run.url).stdout
    assert "attempts are not recorded" in out
    assert "first try" not in out


def test_prompt_explains_itself(run: Command, store: EventStore) -> None:
    """`--explain` prints each turn in place of the prompt, with the changes."""
    text = run.here("prompt", "chat", "--explain", "--url", run.url).stdout
    assert "──" not in text
    assert "4 turns, 3 calls: 1 change" in text
    assert "- answered [open-call]: [Not started" in text
    assert "\x1b" not in text
    both = run.json("prompt", "chat", "--explain", "--provider", "anthropic", "--url", run.url)
    assert both.keys() == {"arguments", "repairs", "explanation"}
    assert both["explanation"].startswith("4 turns, 3 calls: ")


BROKEN = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "nonsense"}}
        ],
    },
]


def test_check_tells_every_violation_and_how_to_mend_it(run: Command) -> None:
    """The status is 1 if the given provider would refuse the request."""
    (run.folder / "broken.json").write_text(json.dumps(BROKEN))
    done = run.here("check", "broken.json", "--provider", "openai", status=1)
    assert done.stdout.splitlines()[0].startswith("messages[1]: OA01 hard: An assistant message")
    assert done.stdout.splitlines()[1].startswith("    to mend it: put one tool message")
    assert "OA09 strict" in done.stdout
    assert "1 request by the rules of openai: 1 hard and 1 strict violations" in done.stdout
    assert done.stderr == "toolledger: broken.json: 1 hard violation: the provider refuses that\n"
    reported = run.json("check", "broken.json", status=1)
    assert (reported["ok"], reported["hard"], reported["strict"]) == (False, 1, 1)
    (checked,) = reported["checked"]
    assert (checked["id"], checked["provider"], checked["messages"]) == ("broken", "openai", 2)
    assert [found["code"] for found in checked["violations"]] == ["OA01", "OA09"]
    assert checked["violations"][0].keys() == {"code", "level", "place", "message", "remedy"}


def test_check_passes_strict_violations(run: Command) -> None:
    """A strict violation is printed, and the status is 0."""
    arguments = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "x"}}
    mild = [
        {"role": "assistant", "content": None, "tool_calls": [arguments]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    ]
    lines = [
        {"messages": mild, "id": "mild"},
        {"contents": [{"role": "user", "parts": [{"text": "x"}]}]},
    ]
    (run.folder / "two.jsonl").write_text("\n".join(map(json.dumps, lines)))
    text = run.here("check", "two.jsonl").stdout
    assert "mild: messages[0].tool_calls[0].function.arguments: OA09 strict" in text
    assert "2 requests by the rules of gemini, openai: 0 hard and 1 strict violations" in text


def test_check_keeps_to_the_rules_of_a_model(run: Command) -> None:
    """One model of a provider refuses what another answers."""
    ended = [{"role": "user", "content": "Name one."}, {"role": "assistant", "content": "One is"}]
    (run.folder / "ended.json").write_text(json.dumps(ended))
    asked = ("check", "ended.json", "--provider", "anthropic", "--model")
    assert "AN18 hard" in run.here(*asked, "claude-opus-4-8", status=1).stdout
    assert "all is well" in run.here(*asked, "claude-sonnet-4-5").stdout


def test_check_says_what_it_could_not_read(run: Command) -> None:
    """A request that was not checked does not pass."""
    (run.folder / "half.jsonl").write_text('{"messages": [{"role": "user", "content": "x"}]}\n{')
    done = run.here("check", "half.jsonl", status=1)
    assert "all is well" in done.stdout
    assert "1 part could not be read: line 2: not JSON" in done.stderr
    assert run.json("check", "half.jsonl", status=1)["ok"] is False
    assert "no file" in run.refused("check", "nowhere.json")
    assert "pass one of" in run.refused("check", "half.jsonl", "--provider", "x", status=2)


def test_check_reads_standard_input(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests may be piped in; empty input is reported."""

    def pipe(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text.encode())))

    pipe(json.dumps(BROKEN))
    done = run.here("check", "-", "--provider", "openai", status=1)
    assert "messages[1]: OA01 hard" in done.stdout
    assert done.stderr == "toolledger: -: 1 hard violation: the provider refuses that\n"
    for text, reported in (
        ("[]", "standard input holds no messages"),
        ("", "standard input is empty"),
    ):
        pipe(text)
        assert reported in run.refused("check", "-")


def test_check_takes_results_of_calls_that_the_server_holds(run: Command) -> None:
    """A request that continues an earlier response has such results."""
    output = {"type": "function_call_output", "call_id": "c", "output": "12"}
    for more, hard in (
        ({}, 1),
        ({"previous_response_id": "resp_1"}, 0),
        ({"conversation": "c"}, 0),
    ):
        (run.folder / "next.json").write_text(json.dumps({"input": [output], **more}))
        assert run.json("check", "next.json", status=hard)["hard"] == hard


def test_tools_lists_each_call_as_it_stands(run: Command, store: EventStore) -> None:
    """The command lists the calls of one conversation or of all, on request of one status."""
    calls = run.json("tools", "--url", run.url)
    assert {call["id"]: call["status"]["state"] for call in calls} == {
        "a": "Completed",
        "b": "Rejected",
        "c": "Pending",
    }
    assert run.json("tools", "other", "--url", run.url) == []
    (pending,) = run.json("tools", "chat", "--status", "pending", "--url", run.url)
    assert pending["id"] == "c"
    assert (
        "3 calls, 1 completed, 1 pending, 1 rejected" in run.here("tools", "--url", run.url).stdout
    )


def test_stats_counts(run: Command, store: EventStore) -> None:
    """The command prints a table or JSON."""
    assert "transient" in run.here("stats", "--url", run.url).stdout
    numbers = run.json("stats", "chat", "--url", run.url)["overall"]
    assert (numbers["calls"], numbers["failures"], numbers["recovered"]) == (3, 1, 1)


def test_stats_and_show_tell_the_usage(run: Command, store: EventStore) -> None:
    """A log without responses says nothing of them."""
    assert "usage" not in run.json("stats", "--url", run.url)
    responded = ModelResponded("openai", "gpt-5", "r1", "stop", Usage(1_000, 200))
    store.conversation("chat").append(responded)
    assert run.json("stats", "--url", run.url)["usage"]["by_model"]["gpt-5"]["responses"] == 1
    assert "1,200 tokens (1,000 in; 200 out)" in run.here("stats", "--url", run.url).stdout
    listed = run.here("show", "--url", run.url).stdout
    assert "tokens" in listed
    assert "1,200" in listed
    assert "gpt-5: 1,200 tokens" in run.here("show", "chat", "--url", run.url).stdout


def test_stats_count_what_was_copied_once(run: Command, store: EventStore) -> None:
    """One conversation by itself shows everything; tables say what the log does."""
    chat = store.conversation("chat")
    chat.append(ModelResponded("openai", "gpt-5", "r1", "stop", Usage(1_000, 200)))
    before = run.json("stats", "--url", run.url)
    run.here("fork", "chat", "copy", "--at", str(chat.version), "--url", run.url)
    found = run.json("stats", "--url", run.url)
    assert (found["overall"], found["usage"]) == (before["overall"], before["usage"])
    assert found["copied_calls"] == before["overall"]["calls"] == 3
    alone = run.json("stats", "copy", "--url", run.url)
    assert (alone["overall"]["calls"], alone["copied_calls"]) == (3, 0)
    assert alone["usage"]["overall"]["responses"] == 1
    tables = f"sqlite:///{run.folder}/tables.db"
    for more in ((), ("--rebuild",)):
        kept = run.json("stats", "--tables", tables, *more, "--url", run.url)
        assert (kept["usage"], kept["copied_calls"]) == (found["usage"], 3)
        counts = ("calls", "open", "attempts", "failures", "completions", "terminal_failures")
        assert [kept["overall"][of] for of in counts] == [found["overall"][of] for of in counts]


def test_stats_prices_the_usage(run: Command, store: EventStore) -> None:
    """The table is a file; one that cannot be read is refused by its name, with a remedy."""
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000)
    store.conversation("chat").append(ModelResponded("openai", "gpt-5", "r1", usage=usage))
    prices = run.folder / "prices.json"
    prices.write_text(json.dumps({"gpt-5": {"input": "1.25", "output": "10"}}))
    found = run.json("stats", "--prices", prices, "--url", run.url)
    assert Decimal(found["usage"]["overall"]["usage"]["cost"]) == Decimal("6.25")
    refused = run.refused("stats", "--prices", "nothing.json", "--url", run.url)
    assert "nothing.json: No such file or directory: mend that, or name another" in refused
    prices.write_text("[1]")
    assert "is no price table" in run.refused("stats", "--prices", prices, status=2)


def test_stats_from_a_version_on(run: Command, store: EventStore) -> None:
    """Without tables `--from` is `--since`."""
    since = run.json("stats", "chat", "--since", "7", "--url", run.url)
    assert run.json("stats", "chat", "--from", "7", "--url", run.url) == since
    assert (
        since["overall"]["calls"] < run.json("stats", "chat", "--url", run.url)["overall"]["calls"]
    )


def test_the_prompt_after_an_earlier_version(run: Command, store: EventStore) -> None:
    """Only what was said by then is in it; a version that is not there is refused."""
    then = run.json("prompt", "chat", "--at", "1", "--url", run.url)
    assert len(then["messages"]) == 1
    refused = run.refused("prompt", "chat", "--at", "999", "--url", run.url, status=2)
    assert "999: pass a version of the conversation, which is at " in refused


def test_stats_are_read_from_tables_and_over_time(run: Command, store: EventStore) -> None:
    """The tables give the same numbers as the log, with events that came since."""
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
    assert "failed" not in head  # a count of zero has no column
    assert row.split()[2:4] == ["5", "1"]
    assert foot == "5 calls of that time"
    assert run.here("stats", "--to", "2001-01-01", *tables).stdout == "0 calls of that time\n"


def test_stats_tell_the_same_usage_from_tables(run: Command, store: EventStore) -> None:
    """Text and JSON are those of the log; times and prices have no usage."""
    tables = ("--tables", f"sqlite:///{run.folder}/tables.db", "--url", run.url)
    assert "usage" not in run.json("stats", *tables)
    for number, usage in enumerate((Usage(1_000, 200, cost=Decimal("0.5")), None)):
        store.conversation("chat").append(
            ModelResponded("openai", "gpt-5", f"r{number}", "stop", usage, 1_234_567)
        )
        direct = run.json("stats", "--url", run.url)["usage"]
        assert run.json("stats", *tables)["usage"] == direct
        text = run.here("stats", "--url", run.url).stdout
        part = text[text.index("responses of models" if number else "response of models") :]
        assert run.here("stats", *tables).stdout.endswith(part)
    assert "usage" not in run.here("stats", "--every", "24h", *tables).stdout
    refused = run.refused("stats", "--prices", "prices.json", *tables, status=2)
    assert "as they were recorded: leave out --prices, or --tables" in refused


def test_stats_rebuilds_tables_without_usage(run: Command, store: EventStore) -> None:
    """A former version made them; their times are read as before."""
    place = f"sqlite:///{run.folder}/tables.db"
    tables = ("--tables", place, "--url", run.url)
    store.conversation("chat").append(ModelResponded("openai", usage=Usage(1, 2)))
    with Projector(store, place, views=["statistics", "tools"]) as former:
        former.catch_up()
    refused = run.refused("stats", *tables, status=1)
    assert "the tables hold no usage, only statistics, tools: rebuild them" in refused
    assert "`toolledger stats --tables URL --rebuild`" in refused
    assert run.json("stats", "--every", "365000d", *tables)[0]["overall"]["calls"] > 0
    assert run.json("stats", *tables, "--rebuild")["usage"]["overall"]["responses"] == 1
    assert run.json("stats", *tables)["usage"]["overall"]["responses"] == 1


def test_stats_rebuilds_tables_of_another_version(run: Command, store: EventStore) -> None:
    """The command needs `--rebuild` for that, and leaves tables of a newer version alone."""
    place = f"sqlite:///{run.folder}/tables.db"
    tables = ("--tables", place, "--url", run.url)
    before = run.json("stats", *tables, "--rebuild")
    for made, remedy in ((1, "stats --tables URL --rebuild`"), (4, "upgrade toolledger")):
        with sqlite3.connect(run.folder / "tables.db") as connection:
            connection.execute("UPDATE toolledger_projections SET format = ?", (made,))
        connection.close()
        for command in ("stats", "approvals"):
            reported = run.refused(command, *tables, status=1)
            assert reported.startswith(f"toolledger: {place}: a")
            assert remedy in reported
        if made == 1:
            assert run.json("stats", *tables, "--rebuild") == before
    assert "upgrade toolledger" in run.refused("stats", *tables, "--rebuild", status=1)


@pytest.mark.parametrize(
    ("given", "complaint", "status"),
    [
        (["--every", "1h"], "--every and --to need --tables: pass a database's URL", 2),
        (["chat", "--tables", "sqlite://"], "leave out ID", 2),
        (["--tables", "sqlite://", "--every", "soon"], "pass for example 30m, 1h or 7d", 2),
        (["--tables", "sqlite://", "--every", "1"], "pass for example 30m, 1h or 7d", 2),
        (["--tables", "sqlite://", "--from", "soon"], "pass a time, for example 2026", 2),
        (["--tables", "sqlite://", "--every", "1m"], "pass a multiple of the buckets", 1),
        (["--tables", "nonsense"], "--tables: 'nonsense' is not a database URL", 2),
        (["--tables", "sqlite:////no/x.db"], "/no/x.db: the folder /no does not exist: make it", 1),
        (["--rebuild"], "--rebuild needs --tables: pass a database's URL", 2),
    ],
)
def test_stats_refuses_invalid_options(
    run: Command, store: EventStore, given: list[str], complaint: str, status: int
) -> None:
    """One line says what to pass."""
    assert complaint in run.refused("stats", *given, "--url", run.url, status=status)


def test_replay_shows_what_each_event_changed(run: Command, store: EventStore) -> None:
    """The output stops at a version, and shows what the model would have seen then."""
    out = run.here("replay", "chat", "--until", 4, "--prompt", "openai", "--url", run.url).stdout
    assert "[Running → Failed]" in out
    assert "what the model would have seen after version 4" in out
    *frames, last = run.lines(
        "replay", "chat", "--until", "3", "--prompt", "openai", "--url", run.url
    )
    assert [frame["version"] for frame in frames] == [1, 2, 3]
    assert (frames[2]["before"]["status"]["state"], frames[2]["after"]["status"]["state"]) == (
        "Pending",
        "Running",
    )
    assert validate(last["prompt"]["messages"], "openai") == []
    assert run.here("replay", "chat", "--until", "0", "--url", run.url).stdout == ""


def test_why_says_how_it_ended_and_where_to_look(
    run: Command, store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten lines for people, a list for an issue, and every field for programs."""
    lines = run.here("why", "chat", "--url", run.url).stdout.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("ended      waiting at version 10 for delete, with 1 call")
    assert lines[1].startswith('cause      version 10: delete {"id":8} was never answered')
    assert lines[8].endswith("find at version 2, failed at 4")
    shown = "look at    version 10: toolledger show chat --around 10"
    assert lines[9].startswith(f"{shown} --url ")
    monkeypatch.setenv("TOOLLEDGER_URL", run.url)
    assert run.here("why", "chat").stdout.splitlines()[9] == shown
    out = run.here("why", "chat", "--markdown", "--url", run.url).stdout
    assert out.startswith("### Why chat failed\n\n- **ended**: ")
    data = run.json("why", "chat", "--url", run.url)
    assert (data["look_at"], data["causes"][0]["kind"]) == (10, "open")
    assert [place["reason"] for place in data["refused"]] == ["no"]


def test_tail_shows_the_last_events_of_all(run: Command, store: EventStore) -> None:
    """With a cursor it shows the events after it."""
    lines = run.lines("tail", "-n", "2", "--url", run.url)
    assert [(line["conversation_id"], line["tag"]) for line in lines] == [
        ("chat", "pending"),
        ("other", "message"),
    ]
    later = run.lines("tail", "--after", lines[0]["cursor"], "--url", run.url)
    assert [line["event_id"] for line in later] == [lines[1]["event_id"]]
    assert run.lines("tail", "-n", "0", "--url", run.url) == []
    assert "is not a cursor" in run.refused("tail", "--after", "x", "--url", run.url)


@pytest.mark.parametrize("command", ["show", "tail", "tools", "replay"])
def test_an_event_takes_one_line_whatever_stands_in_it(run: Command, command: str) -> None:
    """Ids and names come from models, and none can make a line that looks like another."""
    name = "chat\nx"
    with EventStore.open(run.url) as store:
        chat = store.conversation(name)
        chat.add_message("user", "one\ntwo\r\x85three\u2028four")
        chat.request("f\n     3  2026", {"a": "b\nc"}, "a\r\nb")
        chat.fail("a\r\nb", RuntimeError("one\ntwo"))
    given = [name] if command in ("show", "replay") else []
    lines = run.here(command, *given, "--url", run.url).stdout.splitlines()
    assert len(lines) == 3


def test_a_tenants_log_is_named_before_the_command(
    run: Command, store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option or TOOLLEDGER_TENANT names it; other tenants' calls are not shown or decided."""
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
            reported = run.lines(*acme, "tail", "-n", lines, "--url", run.url)
            assert [one["version"] for one in reported] == [1, 2, 3][-int(lines) :]
        tables = ("--tables", f"sqlite:///{run.folder}/tables.db", "--url", run.url)
        assert run.json(*acme, "stats", *tables)["events"] == 3
        assert run.json("stats", *tables)["events"] == 42
        with monkeypatch.context() as environment:
            environment.setenv("TOOLLEDGER_TENANT", "acme")
            done = run.here("approve", "chat", "call1", "--url", run.url)
            assert "approved: pay" in done.stdout
            assert not chat.tools["call1"].is_pending
            assert "has no call 'a'" in run.refused("approve", "chat", "a", "--url", run.url)
    assert run.lines("tail", "-n", "1", "--url", run.url)[0]["conversation_id"] == "later"


def test_tail_follows_until_ctrl_c(run: Command, store: EventStore) -> None:
    """Events of other processes are shown as they come."""
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
    """Change the file without the library."""
    with sqlite3.connect(run.folder / "log.db") as database:
        assert database.execute(statement).rowcount > 0
    database.close()


def test_verify_finds_nothing_wrong_with_a_sound_log(run: Command, store: EventStore) -> None:
    """The output prints how many events it has checked."""
    found = run.json("verify", "--url", run.url)
    assert (found["ok"], found["found"], found["first"]) == (True, [], None)
    assert found["events"] == 11
    assert found["conversations"] == 2


@pytest.mark.parametrize(
    ("statement", "version", "problem"),
    [
        (
            "UPDATE toolledger_events SET payload = payload || ' ' WHERE position = 1",
            1,
            "does not match its digest",
        ),
        (
            "UPDATE toolledger_events SET payload = cast(x'7bff7d' AS TEXT) WHERE position = 5",
            5,
            "does not match its digest",
        ),
        ("UPDATE toolledger_events SET chain = x'00' WHERE position = 3", 3, "digest"),
        ("DELETE FROM toolledger_events WHERE position = 3", 4, "positions 3 to 3 are missing"),
        ("UPDATE toolledger_events SET version = 99 WHERE position = 11", 99, "follows version 0"),
        ("UPDATE toolledger_events SET tag = 'message' WHERE position = 4", 4, "its digest"),
        (
            "UPDATE toolledger_events SET fingerprint = zeroblob(16) WHERE position = 2",
            2,
            "does not match its digest",
        ),
        ("UPDATE toolledger_lanes SET position = 15", None, "4 events are missing"),
        ("UPDATE toolledger_lanes SET position = 9", None, "is behind its events"),
        ("DELETE FROM toolledger_lanes", None, "head is missing"),
        ("DELETE FROM toolledger_conversations WHERE conversation_id = 'chat'", 1, "is not listed"),
    ],
)
def test_verify_names_the_first_bad_event(
    run: Command, store: EventStore, statement: str, version: int | None, problem: str
) -> None:
    """The status is 1, the last line says so, and JSON has all findings."""
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


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE toolledger_events SET tag = 'rujning' WHERE tag = 'running'",
        "UPDATE toolledger_events SET payload = cast(x'7bff7d' AS TEXT) WHERE position = 5",
        "UPDATE toolledger_events SET version = 99 WHERE position = 11",
        "DELETE FROM toolledger_events WHERE position = 3",
        "UPDATE toolledger_lanes SET position = 15",
        "DELETE FROM toolledger_fingerprints",
        "UPDATE toolledger_conversations SET tenant = cast(x'ff' AS TEXT) WHERE conversation = 1",
        None,
    ],
)
def test_verify_says_what_the_method_says(
    run: Command, store: EventStore, statement: str | None
) -> None:
    """The command line and `EventStore.verify` give one judgement, of rows and of transitions."""
    if statement is None:
        append(store.session.storage, "odd", pending("1"), running("1", 7))
    else:
        tamper(run, statement)
    reported = run.json("verify", "--url", run.url, status=1)["found"]
    with EventStore.open(run.url) as again:
        found = [(d.problem, d.conversation_id, d.version, d.position) for d in again.verify()]
    keys = ("problem", "conversation_id", "version", "position")
    assert sorted(map(str, found)) == sorted(str(tuple(map(one.get, keys))) for one in reported)


def test_verify_checks_the_transitions(run: Command) -> None:
    """A log with an illegal transition is reported, however it was written."""
    with EventStore.open(run.url) as store:
        chat = store.conversation("chat")
        chat.request("f", {}, "a")
        chat.reject("a")
        chat.request("f", {}, "b")
        chat.complete("b", "x")
    tamper(
        run,
        'UPDATE toolledger_events SET tag = \'running\', payload = \'{"call_id":"a","attempt":9}\','
        " chain = x'6c1dcd1d5a7bbc5c9c1a4b6d4ea1ac7b' WHERE position = 2",
    )
    found = run.json("verify", "--url", run.url, status=1)
    assert any("attempt 9 cannot start" in item["problem"] for item in found["found"])


def test_verify_tells_newer_events_from_damaged_ones(run: Command) -> None:
    """Events of a newer version are not damage, nor are the events after them."""
    with EventStore.open(run.url) as store:
        chat = store.conversation("chat")
        chat.request("f", {}, "a")
        chat.append(UnknownEvent("completed", 2, '{"call_id":"a","answer":1}'))
        with pytest.raises(SchemaTooNew, match="nothing was started: upgrade toolledger"):
            chat.start("a")
        chat.complete("a", 1)
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
    problems = [item["problem"] for item in found["found"]]
    assert problems == ["the event does not match its digest"]
    assert found["notes"][0] == note


def test_verify_goes_on_where_a_row_cannot_be_read(run: Command, store: EventStore) -> None:
    """The bad event is named before other findings."""
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
    """The command says so if there is nothing to do."""
    shown = run.here("migrate", "--url", run.url).stdout
    assert f"revision {REVISIONS[-1]}: nothing to do" in shown
    reported = run.json("migrate", "--url", run.url)
    assert (reported["before"], reported["revision"]) == (REVISIONS[-1], reported["known"])


def test_migrate_check_changes_nothing(run: Command, store: EventStore) -> None:
    """Its status says whether an upgrade is to be made; it says what that would do, to how much."""
    assert "nothing to do" in run.here("migrate", "--check", "--url", run.url).stdout
    store.close()
    move(run.url, "0001")
    for _ in range(2):
        said = run.here("migrate", "--check", "--url", run.url, status=3).stdout
        assert f"is at revision 0001 and {REVISIONS[-1]} is needed, with 11 events" in said
        assert "0002: copies all events" in said
    reported = json.loads(
        run.here("migrate", "--check", "--json", "--url", run.url, status=3).stdout
    )
    assert (reported["revision"], reported["current"], reported["events"]) == ("0001", False, 11)
    both = run.here("migrate", "--check", "--down", "0001", "--url", run.url, status=2)
    assert "pass it without --check" in both.stderr
    both = run.here("migrate", "--check", "--undistribute", "--url", run.url, status=2)
    assert "--undistribute: pass it without --check" in both.stderr
    other = f"sqlite:///{run.folder / 'none.db'}"
    assert "no store" in run.refused("migrate", "--check", "--url", other)
    assert not (run.folder / "none.db").exists()


def test_migrate_makes_a_log_in_a_database_of_others(run: Command) -> None:
    """Their tables stay unchanged."""
    with sqlite3.connect(run.folder / "log.db") as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    assert run.json("migrate", "--url", run.url)["before"] is None
    run.here("import", messages(run.folder / "chat.jsonl", 1), "--url", run.url)
    tamper(run, "INSERT INTO theirs VALUES (1)")


def test_migrate_down_drops_a_log_only_when_confirmed_twice(
    run: Command, store: EventStore
) -> None:
    """Without the option it prints how many events would be deleted."""
    line = run.refused("migrate", "--down", "base", "--url", run.url)
    assert "deletes the log with its 11 events: pass --yes" in line
    assert len(run.lines("show", "--url", run.url)) == 2
    store.close()
    reported = run.json("migrate", "--down", "base", "--yes", "--url", run.url)
    assert reported["revision"] is None
    assert "holds no store" in run.refused("show", "--url", run.url)


def test_migrate_down_counts_the_events_of_all_tenants(run: Command) -> None:
    """A downgrade would delete all of them."""
    with EventStore.open(run.url, tenant="acme") as theirs:
        theirs.conversation("chat").add_message("user", "hello")
    line = run.refused("migrate", "--down", "base", "--url", run.url)
    assert "deletes the log with its 1 event:" in line


def test_migrate_down_does_not_lead_upwards(run: Command, store: EventStore) -> None:
    """A log of an older revision is not upgraded on the way; it can be dropped as it is."""
    store.close()
    move(run.url, "0001")
    line = run.refused("migrate", "--down", "0003", "--url", run.url)
    assert "is at revision 0001, and 0003 is no way back from there" in line
    assert "deletes the log with its 11 events" in run.refused(
        "migrate", "--down", "base", "--url", run.url
    )
    assert look(run.url).revision == "0001"
    reported = run.json("migrate", "--down", "base", "--yes", "--url", run.url)
    assert (reported["before"], reported["revision"]) == ("0001", None)
    assert "holds no store" in run.refused("migrate", "--down", "base", "--url", run.url)


def test_dropping_a_log_drops_its_projections(run: Command, store: EventStore) -> None:
    """Another log's projections and a host's tables stay."""
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


# what other policies would have done, and what the scanners find


def test_other_policies_are_judged_on_the_log(run: Command, store: EventStore) -> None:
    """The retried time-out would not have been retried, and would have ended the run."""
    options = ("what-if", "chat", "--url", run.url)
    before = store.conversation("chat").version
    found = run.json(*options, "--attempts", "1", "--end-on", "transient", "--hide", "delete")
    assert [call["tool"] for call in found["not_retried"]] == ["find"]
    assert [call["tool"] for call in found["ended"]] == ["find"]
    assert [call["tool"] for call in found["hidden"]] == ["delete", "delete"]
    reported = run.here(*options, "--last-turns", "1").stdout
    assert "would have been retried: no call" in reported
    assert "pass one of earlier" in run.refused(*options, "--collapse", "x", status=2)
    assert store.conversation("chat").version == before


def test_why_scans(run: Command, store: EventStore) -> None:
    """The findings follow the ten lines."""
    assert len(run.here("why", "chat", "--url", run.url).stdout.splitlines()) == 10
    lines = run.here("why", "chat", "--scan", "--url", run.url).stdout.splitlines()
    assert lines[10].startswith("open_calls: version ")
    found = run.json("why", "chat", "--scan", "--url", run.url)
    assert [each["rule"] for each in found["findings"]] == ["open_calls"]
    assert found["why"]["open"]
    marked = run.here("why", "chat", "--scan", "--markdown", "--url", run.url).stdout
    assert "- open\\_calls" in marked


# the demo


def test_the_demo_tells_the_whole_story(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo works for some seconds, prints one or two screens, and leaves its report behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(run.folder))
    before, out, after = os.times(), run.here("demo").stdout, os.times()
    spent = after.user + after.children_user - before.user - before.children_user
    assert spent < 10
    for reported in (
        "attempt 1 failed (ConnectionRefusedError",
        "(attempt 2)",
        "approved by ann with amount=49.0",
        "rejected by ann",
        "process killed",
        "attempt 1 has no recorded end",
        "not run twice",
        "The next prompt for openai (valid)",
        "The next prompt for anthropic (valid)",
        "Awaiting approval",
        "Error statistics",
        "transient",
        "What was repaired",
        "outcome unknown",
    ):
        assert reported in out
    assert len(out.splitlines()) < 90
    assert CONTROL.search(out) is None
    (page,) = run.folder.iterdir()
    assert out.splitlines()[-1] == f"Open its report: python -m webbrowser -t {page.as_uri()}"
    assert page.read_text("utf-8").startswith(FIRST_LINE)


@pytest.mark.slow
def test_the_demos_facts_are_data(run: Command) -> None:
    """The prompts are valid, the numbers add up, every repair has a reason; of a tenant, too."""
    facts = run.json("--tenant", "acme", "demo")
    for provider in ("openai", "anthropic"):
        assert facts["violations"][provider] == []
        assert validate(facts["prompts"][provider]["messages"], provider) == []
    numbers = facts["statistics"]["overall"]
    assert (numbers["calls"], numbers["completions"], numbers["rejections"]) == (6, 4, 1)
    assert (numbers["retries"], numbers["recovered"], numbers["open"]) == (1, 1, 1)
    assert all(item["repair"]["why"] for item in facts["repairs"])
    assert len(facts["repairs"]) >= 3


@pytest.mark.slow
def test_the_demos_log_can_be_kept(run: Command) -> None:
    """Each run is a conversation of its own, and the log is valid."""
    run.here("demo", "--keep", "kept.db")
    run.here("demo", "--url", "sqlite:///kept.db")
    url = "sqlite:///kept.db"
    assert [line["conversation_id"] for line in run.lines("show", "--url", url)] == [
        "demo",
        "demo-2",
    ]
    assert "all is well" in run.here("verify", "--url", url).stdout
    assert [path.name for path in run.folder.iterdir()] == ["kept.db"]


def test_a_run_becomes_a_test_that_passes(run: Command, store: EventStore) -> None:
    """The test and its fixture are written once, and pytest runs them."""
    out = run.here("pytest", "chat", "--out", "tests", "--url", run.url).stdout
    assert "test_chat.py" in out
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_chat.py"],
        cwd=run.folder,
        # Plugins take a second, and options of the outer run may be theirs.
        env=run.environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    line = run.refused("pytest", "chat", "--out", "tests", "--url", run.url)
    assert "chat.jsonl exists: pass --force" in line
    again = run.json("pytest", "chat", "--out", "tests", "--force", "--url", run.url)
    assert again["events"] == 10


def test_diff_says_what_another_run_did_otherwise(run: Command, store: EventStore) -> None:
    """The status is 1 if the runs differ, and 0 if they do not."""
    again = store.conversation("again")
    again.request("find", {"query": "wide " * 100}, "a")
    again.complete("a", {"found": "blue"})
    done = run.here("diff", "chat", "again", "--url", run.url, status=1)
    assert "$result.found: " in done.stdout
    assert 'removed delete {"id":7} (version 7)' in done.stdout
    assert "0 equal calls, 3 differences" in done.stdout
    data = run.json("diff", "chat", "again", "--url", run.url, status=1)
    assert [found["kind"] for found in data["differences"]] == ["changed", "removed", "removed"]
    assert run.here("diff", "chat", "chat", "--url", run.url).stdout.startswith("3 equal calls, 0")


def test_diff_compares_two_prompts(run: Command, store: EventStore) -> None:
    """Two versions of one conversation, or of two; a version that is not there is refused."""
    last = store.conversation("chat").version
    done = run.here("diff", "chat", "--prompts", f"1:{last}", "--url", run.url, status=1)
    assert "added message 1: " in done.stdout
    assert "1 equal message at the beginning, " in done.stdout
    same = run.here("diff", "chat", "--prompts", "2:2", "--provider", "anthropic", "--url", run.url)
    assert "0 differences" in same.stdout
    refused = run.refused("diff", "chat", "--prompts", "1:999", "--url", run.url, status=2)
    assert f"version 999: pass one from 1 to {last}" in refused
    assert "pass two versions" in run.refused(
        "diff", "a", "--prompts", "9", "--url", run.url, status=2
    )
    assert "pass OTHER, or --prompts" in run.refused("diff", "chat", "--url", run.url, status=2)


def test_a_choice_of_nothing_is_reported(run: Command, store: EventStore) -> None:
    """The versions that are there, the tool that was meant, the name that is taken."""
    last = store.conversation("chat").version
    for command in ("show", "replay"):
        done = run.here(command, "chat", "--around", "9999", "--url", run.url)
        assert done.stdout == ""
        assert f"no event was chosen; the conversation has versions 1 to {last}" in done.stderr
    refused = run.refused("what-if", "chat", "--hide", "fnd", "--url", run.url, status=2)
    assert "there is no call of a tool 'fnd', did you mean 'find'?" in refused
    refused = run.refused("fork", "chat", "chat", "--at", "1", "--url", run.url)
    assert f"the conversation 'chat' exists already, at version {last}" in refused
    refused = run.refused("fork", "cha", "new", "--at", "1", "--url", run.url)
    assert "did you mean 'chat'?" in refused
    refused = run.refused("report", "chat", "-o", "nowhere/x.html", "--url", run.url)
    assert "the folder of nowhere/x.html does not exist: make it" in refused


def test_search_finds_a_text_in_all_conversations(run: Command, store: EventStore) -> None:
    """The text is not a pattern, the case does not count, and nothing found is status 1."""
    found = run.lines("search", "HELLO", "--url", run.url)
    assert [(line["conversation_id"], line["version"]) for line in found] == [("other", 1)]
    done = run.here("search", "id", "--limit", "1", "--url", run.url)
    assert done.stdout.startswith("chat  ")
    assert "there are more than 1: pass a longer text, or --limit" in done.stderr
    nothing = run.here("search", "hel.o", "--url", run.url, status=1)
    assert nothing.stdout == ""
    assert "no event has 'hel.o': pass a shorter text" in nothing.stderr
    assert "pass a text that is not empty" in run.refused("search", "", "--url", run.url, status=2)


def test_search_finds_the_same_in_tables(run: Command, store: EventStore) -> None:
    """The index takes in what has come since; without it, the log is read."""
    tables = ("--tables", f"sqlite:///{run.folder}/tables.db", "--url", run.url)
    for number in range(2):
        store.conversation(f"said-{number}").add_message("user", f"Hello number {number}")
        found = run.lines("search", "HELLO num", *tables)
        by_reading = run.lines("search", "HELLO num", "--url", run.url)
        assert len(found) == len(by_reading) == number + 1
        assert all(line in by_reading for line in found)
    assert run.lines("search", "hello NUM", "--rebuild", *tables) == found
    assert run.here("search", "hel.o", *tables, status=1).stdout == ""
    assert "--limit" in run.here("search", "hello", "--limit", "1", *tables).stderr
    refused = run.refused("search", "hello", "--rebuild", "--url", run.url, status=2)
    assert "--rebuild needs --tables" in refused


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(
    ("before", "after"), [(0, 0), (0, 9000), (100, 0), (150, 9000), (9000, 0), (9000, 9000)]
)
def test_search_shows_the_text_in_a_long_event(
    run: Command, store: EventStore, before: int, after: int, terminal: bool
) -> None:
    """The line has the beginning of the event and what stands around the text, and is short."""
    store.conversation("long").add_message("user", f"{'b' * before} Needle {'a' * after}")
    done = run.here("search", "needle", "--url", run.url, terminal=terminal)
    line = "".join(done.stdout.splitlines())
    assert line.startswith("long  ")
    assert "message" in line
    assert "Needle" in line
    assert len(line) < 320


def test_fork_copies_a_conversation_up_to_a_version(run: Command, store: EventStore) -> None:
    """The prompt of the copy is printed for a provider, and the origin is as it was."""
    url = "--url", run.url
    before = run.lines("show", "chat", *url)
    done = json.loads(
        run.here("fork", "chat", "copy", "--at", "3", "--prompt", "openai", *url).stdout
    )
    assert validate(done["messages"], "openai") == []
    assert run.lines("show", "chat", *url) == before
    assert "a copy of chat up to version 3" in run.here("show", "copy", *url).stdout
    assert "at is 11: pass a version of" in run.refused("fork", "chat", "c2", "--at", "11", *url)
    assert "fork to another id" in run.refused("fork", "chat", "copy", "--at", "3", *url)
    assert run.json("fork", "chat", "c3", "--at", "1", *url)["version"] == 2


def test_the_command_line_starts_without_the_database_library() -> None:
    """SQLAlchemy takes half of the time of a start; it is loaded where a store is opened."""
    program = "import sys, projections.cli.app; print('sqlalchemy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout == b"False\n"
