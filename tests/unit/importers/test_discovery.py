"""Sessions are found at their programs' places, listed without being read, and imported by name."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support import homes
from support.tiers import rounds

from eventstore import EventStore
from eventstore.importers import (
    Discovered,
    ImportCounts,
    Session,
    UnknownSession,
    described,
    discover,
    discovery,
    import_file,
    import_files,
    import_sessions,
)
from eventstore.importers.formats import about_formats
from eventstore.importers.frameworks.openai_agents_sessions import AgentSessions
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.session_files import MAX_COUNTED_BYTES, calls_in


def names(found: Discovered) -> list[str]:
    """Return the names of what was found, in its order."""
    return [each.name for each in found.sessions]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home folder with sessions of five programs."""
    return homes.home_with_sessions(tmp_path / "home")


def test_the_sessions_of_a_home_are_listed_newest_first(home: Path) -> None:
    """Each with its id, time, project, calls and size; a sub-agent's file is part of it."""
    found = discover(home)
    assert (names(found), found.problems) == (homes.NAMES, [])
    shown = [described(each) for each in found.sessions]
    assert [each.calls for each in shown] == homes.CALLS
    assert [each.project for each in shown] == ["", "", "shop", "/srv/shop", "/home/dev/shop"]
    times = [each.time // 1_000_000 - homes.AT for each in shown]
    assert times == [240, 180, 120, 60, 0]
    for each in shown:
        files = [Path(file) for file in each.files]
        parts = [part for file in files for part in ([file] if file.is_file() else file.iterdir())]
        assert each.size == sum(part.stat().st_size for part in parts)
    assert [len(each.files) for each in shown] == [1, 1, 1, 2, 2]


def test_the_count_of_calls_is_that_of_the_import(home: Path, store: EventStore) -> None:
    """The calls counted in the bytes of a file are those that an import finds in it."""
    for session in discover(home).sessions:
        done = list(import_sessions(store, [session]))
        ids = [name for each in done for name in each.ids]
        tools = {id_ for name in ids for id_ in store.conversation(name).tools}
        assert len(tools) == described(session).calls
        assert session.id in ids


def test_an_import_again_adds_what_a_session_has_grown_by(home: Path, store: EventStore) -> None:
    """Its sub-agents come with it, each once."""
    session = discover(home).named("claude-code:latest")
    first = list(import_sessions(store, [session]))
    assert [(len(each.ids), each.added) for each in first] == [(1, 5), (1, 3)]
    assert [each.refused for each in first] == [[], []]
    assert [each.added for each in import_sessions(store, [session])] == [0, 0]
    with Path(session.files[0]).open("a") as file:
        file.write(json.dumps(homes.claude_record("user", "9", "5", "Go on.")) + "\n")
    again = list(import_sessions(store, [discover(home).named("latest")]))
    assert [each.added for each in again] == [1, 0]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("latest", 0),
        ("codex:latest", 3),
        (homes.CODEX, 3),
        (f"codex:{homes.CODEX}", 3),
        ("codex:0199", 3),
        ("02d5", 4),
        (f"gemini-cli:{homes.GEMINI}", 2),
        ("openhands:5f0c", 1),
    ],
)
def test_a_session_is_named_by_its_program_and_the_beginning_of_its_id(
    home: Path, name: str, number: int
) -> None:
    """The program may be left out where the id alone is enough."""
    assert discover(home).named(name).name == homes.NAMES[number]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nothing", "there is no session 'nothing': `toolledger sessions` lists them"),
        ("codex:02d5", "there is no session 'codex:02d5' of codex: `toolledger sessions` lists"),
        ("", "there is no session ''"),
        ("codex:", "there is no session 'codex:' of codex"),
        (
            "0",
            "2 sessions begin with '0': pass more of the id: " + ", ".join(homes.NAMES[3:]),
        ),
    ],
)
def test_a_name_of_none_or_of_several_is_refused(home: Path, name: str, complaint: str) -> None:
    """One line names the candidates."""
    with pytest.raises(UnknownSession) as refused:
        discover(home).named(name)
    assert str(refused.value).startswith(complaint)


def test_where_nothing_is_nothing_is_found(tmp_path: Path) -> None:
    """`latest` is refused as the name of a session is."""
    found = discover(tmp_path)
    assert (found.sessions, found.problems) == ([], [])
    with pytest.raises(UnknownSession, match="there is no session: none was found at all"):
        found.named("latest")


def test_the_environment_moves_the_folders_of_programs(tmp_path: Path) -> None:
    """The usual place is looked at as well, and a folder that two names have is looked at once."""
    homes.claude_code(tmp_path / "elsewhere")
    homes.codex(tmp_path / ".codex")
    homes.gemini_cli(tmp_path / "gemini" / ".gemini")
    homes.mini_swe_agent(tmp_path / "xdg" / "mini-swe-agent")
    environment = {
        "CLAUDE_CONFIG_DIR": f"{tmp_path}/elsewhere",
        "CODEX_HOME": f"{tmp_path}/.codex",
        "GEMINI_CLI_HOME": f"{tmp_path}/gemini",
        "XDG_CONFIG_HOME": f"{tmp_path}/xdg",
        "XDG_DATA_HOME": "not/absolute",
    }
    found = discover(tmp_path, environment=environment)
    assert names(found) == [homes.NAMES[0], *homes.NAMES[2:]]
    assert names(discover(tmp_path)) == [homes.NAMES[3]]  # a copy of a home has no environment


def test_the_environment_is_that_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home folder is that of the process, too, where none is given."""
    homes.claude_code(tmp_path / "config")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    assert names(discover()) == [homes.NAMES[4]]


def test_macos_keeps_files_of_programs_in_its_library(tmp_path: Path) -> None:
    """A folder of the configuration stands there, and not in `~/.config`."""
    homes.mini_swe_agent(tmp_path / "Library" / "Application Support" / "mini-swe-agent")
    assert names(discover(tmp_path)) == [homes.NAMES[0]]


def test_links_are_followed_as_far_as_they_stay_in_the_folder(home: Path, tmp_path: Path) -> None:
    """Others are named, those to nothing and in a circle, too."""
    project = home / ".claude" / "projects" / "-home-dev-shop"
    (home / ".claude" / "projects" / "-linked").symlink_to(project)
    outside = homes.write_lines(tmp_path / "outside" / "secret.jsonl", *homes.claude_lines("s"))
    (project / "secret.jsonl").symlink_to(outside)
    (project / "nothing.jsonl").symlink_to("gone.jsonl")
    (project / "circle.jsonl").symlink_to("circle.jsonl")
    (home / ".claude" / "projects" / "-outside").symlink_to(outside.parent)
    found = discover(home)
    assert sorted(names(found)) == sorted(homes.NAMES)
    places = home / ".claude" / "projects"
    assert {problem.removeprefix(f"{places}/") for problem in found.problems} == {
        f"-outside is a link that leads out of {home}",
        f"-home-dev-shop/secret.jsonl is a link that leads out of {home}",
        f"-linked/secret.jsonl is a link that leads out of {home}",
        "-home-dev-shop/nothing.jsonl is a link to nothing",
        "-linked/nothing.jsonl is a link to nothing",
        "-home-dev-shop/circle.jsonl is a link to nothing",
        "-linked/circle.jsonl is a link to nothing",
    }
    assert len(found.named("claude-code:latest").files) == 1


def test_a_folder_of_a_program_may_be_a_link_in_ones_own_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program follows it; in a copy of a home it may lead to what was not given."""
    homes.claude_code(tmp_path / "disk")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".claude").symlink_to(tmp_path / "disk")
    monkeypatch.setenv("HOME", str(home))
    assert names(discover(environment={})) == [homes.NAMES[4]]
    found = discover(home)
    assert found.sessions == []
    assert found.problems == [
        f"{home}/.claude/projects is a link that leads out of {home}",
    ]


def test_pipes_and_links_are_named_and_not_opened(home: Path) -> None:
    """A pipe would wait for ever; a file in place of a folder holds nothing."""
    project = home / ".claude" / "projects" / "-home-dev-shop"
    os.mkfifo(project / "pipe.jsonl")
    (project / "folder.jsonl").mkdir()
    (home / ".claude" / "projects" / "-a-file").write_text("x")
    (project / "empty.jsonl").write_text("")
    found = discover(home)
    assert names(found) == homes.NAMES
    assert sorted(found.problems) == [
        f"{project}/{name} is not a regular file" for name in ("folder.jsonl", "pipe.jsonl")
    ]


def test_a_file_and_a_folder_that_cannot_be_read_hold_up_no_other(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are named; root may read everything, so that the refusal is played."""
    denied = home / ".claude" / "projects"
    rollout = next((home / ".codex").rglob(f"*{homes.CODEX}.jsonl"))
    scan, real_open = os.scandir, Path.open

    def scandir(path: Path) -> Iterator[os.DirEntry[str]]:
        if Path(path) == denied:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    def opened(path: Path, *given: str) -> object:
        if path == rollout:
            raise PermissionError(13, "Permission denied", str(path))
        return real_open(path, *given)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(Path, "open", opened)
    found = discover(home)
    assert names(found) == [*homes.NAMES[:3], f"codex:{homes.CODEX_CHILD}"]
    assert found.problems == [
        f"{denied} cannot be read (Permission denied)",
        f"{rollout} cannot be read (Permission denied)",
    ]


def test_a_session_that_is_gone_is_described_without_its_calls(home: Path) -> None:
    """The file was there when the folder was looked at."""
    session = discover(home).named("gemini-cli:latest")
    Path(session.files[0]).unlink()
    assert described(session).calls is None
    assert described(session).project == "shop"


def test_a_secret_in_the_name_of_a_folder_is_not_shown(tmp_path: Path) -> None:
    """A folder may be named for an address that was cloned."""
    folder = "/home/dev/https://ann:hidden-word@host/shop"
    path = tmp_path / ".claude" / "projects" / "-x" / "a.jsonl"
    homes.write_lines(path, homes.claude_record("user", "1", None, "Hi", "a", cwd=folder))
    assert "hidden-word" not in described(discover(tmp_path).sessions[0]).project


def test_sub_agents_of_old_versions_stand_beside_their_session(
    tmp_path: Path, store: EventStore
) -> None:
    """Claude Code 2.0 wrote `agent-ID.jsonl` there; one whose session is gone is a session."""
    project = tmp_path / ".claude" / "projects" / "-x"
    homes.write_lines(project / f"{homes.CLAUDE}.jsonl", *homes.claude_lines())
    for agent, session in (("b1", homes.CLAUDE), ("b2", "gone")):
        side = homes.claude_record("user", agent, None, "Count", session, side=True, agentId=agent)
        homes.write_lines(project / f"agent-{agent}.jsonl", side)
    found = discover(tmp_path)
    assert sorted(names(found)) == [f"claude-code:{homes.CLAUDE}", "claude-code:agent-b2"]
    done = list(import_sessions(store, [found.named(homes.CLAUDE)]))
    ids = [name for each in done for name in each.ids]
    assert ids == [homes.CLAUDE, f"{homes.CLAUDE}/sidechain-b1"]


def test_files_of_one_id_are_one_session(tmp_path: Path) -> None:
    """Gemini CLI begins another file where a session is resumed."""
    folder = tmp_path / ".gemini"
    first = homes.gemini_cli(folder, at=homes.AT)
    second = first.with_name(first.name.replace("04-13", "05-00"))
    homes.write(second, first.read_text(), homes.AT + 9)
    (session,) = discover(tmp_path).sessions
    assert session.files == (str(first), str(second))
    assert session.time == (homes.AT + 9) * 1_000_000
    assert session.size == 2 * first.stat().st_size
    assert described(session).calls == 1


def test_calls_are_counted_across_the_chunks_of_a_file(tmp_path: Path) -> None:
    """A call that a chunk ends in counts once, whether it has an id or not."""
    call, filler = b'{"type": "tool_use", "id": "toolu_%d"}', b"x" * 997
    path = tmp_path / "session.jsonl"
    data = b"".join(call % number + filler for number in range(3_000))
    path.write_bytes(data)
    by_id = r'"type": ?"tool_use"(?:, ?"id": ?"([^"\\]{1,200})")?'
    assert calls_in([path], by_id) == (3_000, True)
    assert calls_in([path], r'"type": ?"tool_use"') == (3_000, True)
    assert calls_in([path, path], by_id) == (3_000, True)
    part = data[:1_500_000].count(b'"tool_use"')
    assert calls_in([path], by_id, most=1_500_000) == (part, False)


def test_only_the_beginning_of_a_large_session_is_counted(home: Path) -> None:
    """That there are more is told."""
    session = discover(home).named("claude-code:latest")
    with Path(session.files[0]).open("r+b") as file:
        file.truncate(MAX_COUNTED_BYTES + 1)  # a hole
    shown = described(session)
    assert (shown.calls, shown.has_more_calls) == (2, True)


def test_thousands_of_sessions_take_time_in_proportion_to_their_names(tmp_path: Path) -> None:
    """Ten times as many take not much more than ten times as long, whatever they hold."""
    few, many = rounds(300, 1_000), rounds(3_000, 10_000)

    def seconds(count: int) -> float:
        home = tmp_path / str(count)
        folder = home / ".claude" / "projects" / "-x"
        folder.mkdir(parents=True)
        for number in range(count):
            with (folder / f"{number:06}.jsonl").open("w") as file:
                file.write('{"type": "summary", "leafUuid": "x"}\n')
                file.truncate(5_000_000)  # a hole: what is not read takes no time
        begun = time.process_time()
        assert len(discover(home).sessions) == count
        return time.process_time() - begun

    assert seconds(many) < 30 * seconds(few) + 0.1


class Stored(AgentSessions):
    """Sessions of a program that keeps them in one database."""

    name = "shop-agent-sessions"
    about = About(
        program="Shop agent",
        files="",
        failures="",
        places=("{data}/shop/shop.db",),
        listing=Listing(
            program="shop-agent",
            rows="SELECT session_id, at, '/srv/' || session_id FROM agent_sessions",
            row_calls="SELECT COUNT(*) FROM agent_messages WHERE session_id = ? "
            "AND json_extract(message_data, '$.type') = 'function_call'",
        ),
    )


def stored_sessions(home: Path) -> Path:
    """Write a database with two sessions, and return its file."""
    path = home / ".local" / "share" / "shop" / "shop.db"
    path.parent.mkdir(parents=True)
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    said = {"role": "user", "content": "Go."}
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE agent_sessions (session_id, at, created_at)")
        database.execute(
            "CREATE TABLE agent_messages "
            "(id INTEGER PRIMARY KEY, session_id, message_data, created_at)"
        )
        for at, name in enumerate(("old", "new"), 1_700_000_001):
            database.execute("INSERT INTO agent_sessions VALUES (?, ?, '2026-11-27')", (name, at))
            for value in (said, call):
                database.execute(
                    "INSERT INTO agent_messages (session_id, message_data, created_at) "
                    "VALUES (?, ?, '2026-11-27')",
                    (name, json.dumps(value)),
                )
    return path


def test_the_sessions_of_a_database_are_listed_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: EventStore
) -> None:
    """One of them is imported by its name: the others in the file are left."""
    path = stored_sessions(tmp_path)
    monkeypatch.setattr(discovery, "_FORMATS", (Stored(),))
    found = discover(tmp_path)
    assert names(found) == ["shop-agent:new", "shop-agent:old"]
    new = described(found.sessions[0])
    assert (new.project, new.calls, new.size) == ("/srv/new", 1, None)
    assert new.time == 1_700_000_002_000_000
    (done,) = import_sessions(store, [new])
    assert (done.path, done.ids, done.added) == (str(path), ["new"], 2)
    assert done.by_id == {"new": ImportCounts(2, 0, done.events, 1)}
    assert [name for name, _ in store.conversations()] == ["new"]
    (done,) = import_sessions(store, found.sessions)
    assert (sorted(done.ids), done.added, done.skipped) == (["new", "old"], 2, 2)


def test_a_database_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with other tables, and one that is damaged."""
    path = tmp_path / ".local" / "share" / "shop" / "shop.db"
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(discovery, "_FORMATS", (Stored(),))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE others (x)")
    (problem,) = discover(tmp_path).problems
    assert problem.startswith(f"{path} is a SQLite database that cannot be read (no such table")
    path.write_bytes(b"no database at all" * 100)
    (problem,) = discover(tmp_path).problems
    assert problem.startswith(f"{path} is a SQLite database that cannot be read")


def test_only_the_named_conversations_of_a_file_are_imported(
    tmp_path: Path, store: EventStore
) -> None:
    """With those of their sub-agents, and theirs."""
    path = tmp_path / "spans.jsonl"
    conversations = [
        {"id": name, "messages": [{"role": "user", "content": name}]} for name in ("a", "b", "c")
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in conversations))
    (done,) = import_files(store, [path], only={str(path): ["b"]})
    assert done.ids == ["b"]


def test_the_first_example_of_the_page_ends_well(tmp_path: Path, store: EventStore) -> None:
    """The files of Claude Code that hold no conversation are passed over."""
    homes.claude_code(tmp_path / ".claude")
    done = list(import_files(store, [tmp_path / ".claude" / "projects"]))
    assert [each.refused for each in done] == [[], []]
    ids = {name for each in done for name in each.ids}
    assert ids == {homes.CLAUDE, f"{homes.CLAUDE}/sidechain-a9dd2b92"}


def test_files_beside_no_session_are_refused_as_before(tmp_path: Path, store: EventStore) -> None:
    """The same names in a folder of one's own mean nothing; a file that is named is read."""
    homes.write(tmp_path / "own" / "tool-results" / "big.json", "[1, 2")
    homes.write(tmp_path / "own" / "logs.json", '[{"role": "user", "content": "Hi."}]')
    done = list(import_files(store, [tmp_path / "own"]))
    assert [(Path(each.path).name, len(each.refused)) for each in done] == [
        ("logs.json", 0),
        ("big.json", 1),
    ]
    session = homes.claude_code(tmp_path / ".claude")
    with pytest.raises(ValueError, match="is not JSON"):
        import_file(store, session.with_suffix("") / "tool-results" / "big.json")


@pytest.mark.parametrize("name", [*about_formats()])
def test_the_places_of_a_format_can_be_looked_at(name: str) -> None:
    """Places begin with the home folder, a variable or a folder of programs, and are absolute."""
    about = about_formats()[name]
    for place in about.places:
        first, *parts = place.split("/")
        assert first[0] == "$" or first in ("~", ".", "{config}", "{data}", "{state}")
        assert parts
        assert all("**" not in part and not {*part} & {*"?[]"} for part in parts)
    if not about.places:
        assert about.listing == Listing()


def test_a_name_shows_the_program_and_the_id() -> None:
    """A command takes such a name."""
    session = Session(program="codex", id="a", files=("x",), time=1, size=1)
    assert session.name == "codex:a"
    found = Discovered([session], [])
    assert found.named(session.name) is session
