"""`toolledger sessions`, `import --discover`, and sessions as arguments of commands that read."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from support import homes
from support.program_databases import OPENCODE, database, opencode_session

from eventstore import EventStore
from eventstore.importers import ImportedFile, Session
from eventstore.importers.formats import programs_read
from projections.cli import app
from projections.cli.commands.sessions import by_session, outcome, short_names

README = Path(__file__).resolve().parents[2] / "README.md"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Terminal(StringIO):
    """An output that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


class Said:
    """Runs commands, and keeps what each says."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = ""

    def __call__(self, *arguments: object, status: int = 0) -> str:
        """Run a command; check its status, and return its output."""
        assert app.run([str(each) for each in arguments]) == status
        said = self._capsys.readouterr()
        self.err = said.err
        assert "Traceback" not in said.err
        return said.out

    def lines(self, *arguments: object) -> list[Any]:
        """Return the JSON output, line by line."""
        return [json.loads(line) for line in self(*arguments, "--json").splitlines()]

    def refused(self, *arguments: object, status: int = 1) -> str:
        """Return the one line of the refusal."""
        assert self(*arguments, status=status) == ""
        assert self.err.startswith("toolledger: ")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("toolledger: ").removesuffix("\n")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home folder, with sessions; the command runs in an empty folder beside it."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "TOOLLEDGER_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "MSWEA_GLOBAL_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return homes.home_with_sessions(tmp_path / "home")


@pytest.fixture
def say(home: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """Return what runs commands in that home."""
    return Said(capsys)


@pytest.fixture
def log(home: Path) -> Iterator[EventStore]:
    """Return the store that commands use by default."""
    with EventStore.open("sqlite:///toolledger.db") as store:
        yield store


def test_sessions_are_listed_and_nothing_is_written(say: Said) -> None:
    """Program, id, time, calls, size and project of each stand in a line, the newest first."""
    head, *rows = say("sessions").splitlines()
    assert head.split() == ["session", "changed", "(UTC)", "calls", "size", "project"]
    assert [row.split()[0] for row in rows] == homes.NAMES
    assert rows[-1].split()[1:] == ["2023-11-14", "22:13", "3", "2.65", "kB", "/home/dev/shop"]
    assert say.err == ""
    assert list(Path().iterdir()) == []
    assert say("import", "--discover") == "\n".join((head, *rows, ""))
    assert list(Path().iterdir()) == []


def test_programs_get_json_of_each_session(say: Said) -> None:
    """A line for each."""
    listed = say.lines("sessions")
    assert [each["session"] for each in listed] == homes.NAMES
    assert [each["calls"] for each in listed] == homes.CALLS
    assert listed[3] == {
        "session": homes.NAMES[3],
        "program": "codex",
        "id": homes.CODEX,
        "files": listed[3]["files"],
        "time": (homes.AT + 60) * 1_000_000,
        "size": sum(Path(file).stat().st_size for file in listed[3]["files"]),
        "project": "/srv/shop",
        "calls": 1,
        "has_more_calls": False,
        "is_stored": False,
    }


def test_the_list_can_be_narrowed(say: Said, home: Path, tmp_path: Path) -> None:
    """By number, program, time, and the folder that stands for the home."""
    assert [each["session"] for each in say.lines("sessions", "--limit", 2)] == homes.NAMES[:2]
    assert say.err == "toolledger: 3 sessions more: pass --limit 5, or --since\n"
    assert [each["program"] for each in say.lines("sessions", "--program", "codex")] == ["codex"]
    since = say.lines("sessions", "--since", "2023-11-14T22:15")
    assert [each["session"] for each in since] == homes.NAMES[:3]
    recent = time.time() - 3_600
    os.utime(home / ".codex" / "sessions", (recent, recent))
    rollout = next((home / ".codex").rglob(f"*-{homes.CODEX}.jsonl"))
    os.utime(rollout, (recent, recent))
    for span in ("2h", "90m", "7d", "1w"):
        assert [each["program"] for each in say.lines("sessions", "--since", span)] == ["codex"]
    assert say("sessions", "--since", "30m") == ""
    copy = tmp_path / "copy"
    homes.codex(copy / ".codex")
    for root in (copy, "../copy"):
        assert [each["program"] for each in say.lines("sessions", "--root", root)] == ["codex"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["sessions", "--since", "soon"], "'soon': pass for example 30m, 12h, 7d or 2026-01-31"),
        (["sessions", "--program", "claud"], "did you mean 'claude-code'?"),
        (["sessions", "--root", "nowhere"], "'nowhere' is not a folder"),
        (["sessions", "--limit", "0"], "--limit"),
        (["import", "--all"], "--all, --since and --root choose sessions: pass --discover, too"),
        (["import", "x.json", "--since", "7d"], "choose sessions: pass --discover, too"),
        (["import", "--discover", "--all", "--id", "x"], "a session has its own: leave it out"),
        (["import", "--discover", "--provider", "openai"], "--provider: 'openai': pass one of"),
    ],
)
def test_wrong_usage_is_refused_in_one_line(
    say: Said, arguments: Sequence[str], complaint: str
) -> None:
    """The status is 2, and nothing is written."""
    assert complaint in say.refused(*arguments, status=2)
    assert list(Path().iterdir()) == []


def test_all_sessions_are_imported_and_again_only_what_grew(say: Said, home: Path) -> None:
    """The last line counts those that are new, grew, or are unchanged."""
    out = say("import", "--discover", "--all")
    assert out.splitlines()[-1] == "5 sessions: 5 new"
    assert [row.split()[0] for row in out.splitlines()[1:-1]] == homes.NAMES
    assert say("import", "--discover", "--all") == "5 sessions: 5 unchanged\n"
    session = next((home / ".claude").rglob(f"{homes.CLAUDE}.jsonl"))
    with session.open("a") as file:
        file.write(json.dumps(homes.claude_record("user", "9", "5", "Go on.")) + "\n")
    _head, row, last = say("import", "--discover", "--all").splitlines()
    assert row.split() == [homes.NAMES[4], "2", "1", "8", "1", "0"]
    assert last == "5 sessions: 1 grew, 4 unchanged"
    with EventStore.open("sqlite:///toolledger.db") as store:
        assert len([*store.conversations()]) == 7  # two of sub-agents
    assert set(Path().iterdir()) == {Path("toolledger.db")}


def test_chosen_sessions_are_imported(say: Said) -> None:
    """By names, by program and time; one that is named twice is imported once."""
    done = json.loads(say("import", "--discover", "latest", "last_m", "codex:0199", "--json"))
    assert [each["path"] for each in done] == [homes.NAMES[0], homes.NAMES[3]]
    assert [each["added"] for each in done] == [3, 6]
    out = say("import", "--discover", "--since", "2023-11-14T22:14", "--provider", "gemini-cli")
    assert out.splitlines()[-1] == "1 session: 1 new"


def test_a_session_that_cannot_be_imported_holds_up_no_other(say: Said, home: Path) -> None:
    """A session that is refused is named, and the status is 1; an empty one is no error."""
    project = home / ".claude" / "projects" / "-home-dev-shop"
    homes.write(project / "broken.jsonl", "no session\n")
    homes.write_lines(project / "quiet.jsonl", {"type": "summary", "leafUuid": "x", "summary": "s"})
    out = say("import", "--discover", "--all", status=1)
    assert out.splitlines()[-1] == "7 sessions: 5 new, 1 without messages, 1 refused"
    (line,) = say.err.splitlines()
    assert f"claude-code:broken: {project}/broken.jsonl holds no messages" in line


def test_wrong_names_of_sessions_are_refused_in_one_line(say: Said) -> None:
    """Nothing is imported, and no store is made."""
    begins = f"2 sessions begin with '0': pass more of the id: codex:{homes.CODEX}, claude-code:"
    assert say.refused("import", "--discover", "latest", "0").startswith(begins)
    assert "there is no session 'x'" in say.refused("import", "--discover", "x")
    assert "of codex: `toolledger sessions` lists them" in say.refused("why", "codex:02d5")
    assert list(Path().iterdir()) == []


def test_why_imports_the_latest_session_on_the_way(say: Said) -> None:
    """The command says so on standard error, and the second time that nothing is new."""
    assert say("why", "claude-code:latest").splitlines()[1].startswith("cause      version 7: Bash")
    name = homes.NAMES[4]
    assert say.err == (
        f"toolledger: imported {name} (8 messages) into sqlite:///{Path().absolute()}/toolledger.db\n"
    )
    say("why", name)
    assert say.err == f"toolledger: {name}: nothing new since it was imported\n"
    say("why", "latest")
    assert say.err.startswith(f"toolledger: imported {homes.NAMES[0]} (3 messages)")


def test_a_session_in_which_nothing_was_said_is_not_the_latest(say: Said, home: Path) -> None:
    """Programs write the beginning of a file, or a row, before the first question."""
    header = {"type": "session_meta", "payload": {"id": "fresh", "cwd": "/"}}
    folder = home / ".codex/sessions/2030/01/01"
    folder.mkdir(parents=True)
    (folder / "rollout-fresh.jsonl").write_text(json.dumps(header) + "\n")
    place = home / ".local/share/opencode/opencode.db"
    place.parent.mkdir(parents=True, exist_ok=True)
    with database(place, OPENCODE) as connection:
        opencode_session(connection, "asked", [("user", [{"type": "text", "text": "go"}])])
        opencode_session(connection, "empty", [])
        connection.execute("UPDATE session SET time_updated = 4e12 WHERE id = 'empty'")
    assert say("why", "latest").startswith("ended ")
    assert "toolledger: opencode:empty: nothing was said in it yet\n" in say.err
    assert "toolledger: codex:fresh: nothing was said in it yet\n" in say.err
    assert "imported opencode:asked (1 message)" in say.err
    assert say.refused("why", "opencode:empty") == "opencode:empty holds no messages"
    assert "holds no messages" in say.refused("why", "codex:fresh")
    assert "without messages" in say("import", "--discover", "codex:fresh")


def test_the_beginning_of_an_id_means_the_session_and_not_its_sub_agents(
    say: Said, log: EventStore
) -> None:
    """Their ids begin with its id; of two sessions more is wanted."""
    for name in ("abc", "abc/sidechain-1", "abc/rewound-1"):
        log.conversation(name).add_message("user", f"I am {name}.")
    assert "I am abc." in say("show", "ab")
    log.conversation("abd").add_message("user", "I am another.")
    assert "pass more of the id" in say.refused("show", "ab")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["show", "--limit", "1"], "user: Do the work"),
        (["report", "-o", "page.html"], "page.html ("),
        (["prompt"], "no rule"),
        (["tools"], "toolu_2"),
        (["stats"], "Bash"),
        (["replay"], "toolu_2"),
        (["what-if", "--attempts", "1"], ""),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_every_command_that_reads_takes_a_session(say: Said, command: list[str], said: str) -> None:
    """As `why` does."""
    name, *options = command
    assert said in say(name, "claude-code:02d5", *options)
    assert f"imported {homes.NAMES[4]} (8 messages)" in say.err


def test_a_conversation_of_the_log_comes_before_a_session(say: Said, log: EventStore) -> None:
    """By its whole id; the beginning of one counts where there is no such session."""
    for name in ("latest", "codex:0199", "codex:of-mine"):
        log.conversation(name).add_message("user", f"I am {name}")
    for name in ("latest", "codex:0199", "codex:of-mine", "codex:of"):
        assert "I am " in say("show", name)
        assert say.err == ""
    assert "Run it." in say("show", f"codex:{homes.CODEX}", "--limit", "1")


def test_another_conversation_under_the_id_of_a_session_is_not_shown(
    say: Said, log: EventStore
) -> None:
    """A command about a session shows that session, or refuses."""
    log.conversation("last_mini_run").add_message("user", "Another run.")
    line = say.refused("why", "latest")
    assert "last_mini_run" in line
    assert "Another run." in say("show", "last_mini_run")


def test_a_store_that_may_only_be_read_is_not_written(say: Said, log: EventStore) -> None:
    """A session that is in the log is shown as the log has it."""
    log.conversation("chat").add_message("user", "Hi.")
    assert "there is no conversation" in say.refused("show", "claude-code:02d5", "--read-only")
    say("show", "claude-code:02d5", "--limit", "1")
    assert "Do the work" in say("show", "claude-code:02d5", "--read-only", "--limit", "1")
    assert next(log.conversations())[0] == "chat"


def test_a_database_of_others_is_left_alone(say: Said) -> None:
    """A session is not imported into it."""
    with sqlite3.connect("toolledger.db") as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    before = Path("toolledger.db").read_bytes()
    assert "is the database of another program" in say.refused("why", "latest")
    assert Path("toolledger.db").read_bytes() == before


def test_names_of_folders_cannot_move_the_cursor(say: Said, home: Path) -> None:
    """Control codes of ids, folders and paths are shown as escapes; JSON has its own."""
    folder = home / ".claude" / "projects" / "-\x1b[2J"
    record = homes.claude_record("user", "1", None, "Hi", "a\x1b[31m", cwd="/srv/\x1b]0;x\x07\x9b")
    homes.write_lines(folder / "a\x1b[31m.jsonl", record)
    (folder / "b\x1b[31m.jsonl").symlink_to("/etc/hostname")
    out = say("sessions")
    assert "claude-code:a\\x1b[31m" in out
    assert "/srv/\\x1b]0;x\\x07\\x9b" in out
    assert not CONTROL.search(out + say.err)
    assert "b\\x1b[31m.jsonl is a link that leads out of" in say.err
    assert "\x1b" not in say("sessions", "--json")


def test_a_terminal_of_80_columns_gets_short_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row is folded; each name is enough for a command."""
    out, err = Terminal(), Terminal()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    assert app.run(["sessions"]) == 0
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in out.getvalue().splitlines()]
    rows = [line.split() for line in lines if "2023-11-14" in line]
    assert [row[0] for row in rows] == [
        "mini-swe-agent:last_mini_run",
        "openhands:5f0c2f4e",
        "gemini-cli:43ce8be0",
        "codex:01990000",
        "claude-code:02d5bd7b",
    ]
    assert all(len(line) <= 80 for line in lines)
    assert "why latest" in lines[-1]


def test_a_short_name_tells_a_session_from_those_of_its_program() -> None:
    """Ids that share more of their beginning are shown longer."""
    sessions = [
        Session(program=program, id=own, files=(), time=1, size=1)
        for program, own in (
            ("a", "0123456789-aaaaaaaa"),
            ("a", "0123456780-aaaaaaaa"),
            ("b", "0123456789-aaaaaaaa"),
            ("b", "xxxxxxxxxxxxxxxx"),
            ("b", "0"),
        )
    ]
    assert short_names(sessions[:4], sessions) == [
        "a:0123456789",
        "a:0123456780",
        "b:01234567",
        "b:xxxxxxxxxxxxxxxx",
    ]


def test_a_home_without_sessions_is_no_error(tmp_path: Path, say: Said) -> None:
    """The command says so on standard error; the status is 0."""
    (tmp_path / "empty").mkdir()
    assert say("sessions", "--root", tmp_path / "empty") == ""
    assert say.err.startswith("toolledger: no session was found in the usual folders")
    assert say("import", "--discover", "--all", "--root", tmp_path / "empty") == ""
    assert list(Path().iterdir()) == []


def test_many_places_that_cannot_be_read_are_counted(say: Said, home: Path) -> None:
    """The first ten are named."""
    for number in range(15):
        (home / ".claude" / "projects" / f"-x{number}").symlink_to("/etc")
    say("sessions")
    assert say.err.count("is a link that leads out of") == 10
    assert "and 5 more problems like these" in say.err


def test_the_help_of_import_names_the_programs(say: Said) -> None:
    """From the table of formats."""
    said = " ".join(say("import", "--help").split()).replace("- ", "-")
    assert all(program in said for program in programs_read())


def test_the_first_commands_of_the_readme_run(say: Said) -> None:
    """In a home with sessions, as they are written."""
    found = re.search(r"```bash\n(toolledger sessions\n.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    for line in found[1].splitlines():
        assert say(*line.split()[1:])


def test_an_import_of_a_database_is_reported_for_each_session() -> None:
    """The rest of the database are sub-agents, and rows that could not be read."""
    sessions = [
        Session(program="p", id=own, files=("x.db",), time=1, size=None, is_stored=True)
        for own in ("a", "b", "c")
    ]
    counts = {"a": (2, 0, 4), "b": (0, 5, 0), "a/sub": (1, 0, 2)}
    refused: list[Exception] = [ValueError("no JSON")]
    done = ImportedFile("x.db", 3, 3, 5, 6, [*counts], by_id=counts, refused=refused)
    imported, rest = by_session(sessions, [done])
    assert [(each.path, each.added, each.skipped, each.events) for each in imported] == [
        ("p:a", 2, 0, 4),
        ("p:b", 0, 5, 0),
        ("p:c", 0, 0, 0),
    ]
    assert [(each.path, each.added, each.ids, each.refused) for each in rest] == [
        ("x.db", 1, ["a/sub"], refused)
    ]
    assert outcome(imported) == "3 sessions: 1 new, 1 unchanged, 1 without messages"
