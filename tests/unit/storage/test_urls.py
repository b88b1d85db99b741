"""Database URLs: several servers, services, options; and no secret of one is ever shown."""

from __future__ import annotations

import logging
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from eventstore import EventStore, StorageError, SubjectSecret
from eventstore.domain.credentials import may_be_address
from eventstore.engines import backend_for, open_engine, shown_url
from eventstore.storage.postgresql.backend import Postgresql
from eventstore.storage.urls import parsed, shown, shown_address
from projections.cli.app import run
from projections.cli.command_groups import GROUPS
from projections.cli.options import file_name
from projections.projector import Projector

MARK = "mArKed"
"""The password in every URL."""


MISTYPED = [
    f"postgresql:/u:{MARK}@h/d",
    f"postgresql//u:{MARK}@h/d",
    f"postgresql:u:{MARK}@h/d",
    f"u:{MARK}@h/d",
    f"postgresql://u:{MARK}",
    f"postgresql://u:{MARK}/d",
    f"postgresql://u:{MARK}@h:12x/d",
    f"postgresql://u:a@{MARK}@h/d",
    f"postgresql://u:a@{MARK}/b@h/d",
    f"postgresql://u:{MARK}@h1:1,h2:2x/d",
    f"postgresql://u:{MARK}@h",
    f"mysql://u:{MARK}@h",
    f"postgresql://u:{MARK}@h/d?passwort={MARK}",
    f"postgresql://u@h/d?host=h1:1&host=h2&port=3&password={MARK}",
    f"mysql://u:{MARK}@h/d?passwort={MARK}",
    f"mysql://u:{MARK}@h/d?connect_timeout=soon",
    f"sqlite:///a.db?key={MARK}",
    f"sqlite://u:{MARK}@h/a.db",
    f"oracle://u:{MARK}@h/d?password={MARK}",
    f"host=h password={MARK}",
    f"password={MARK}",
    f"Server=h;Database=d;Uid=u;Pwd={MARK};",
    f"jdbc:postgresql://h/d?user=u&password={MARK}",
    f"postgres:://u:{MARK}@h/d",
    f"postgresql ://u:{MARK}@h/d",
    f"postgresql://u;password={MARK}@h/d",
    f"postgresql://u,{MARK}@h/d",
    f"postgresql://u%3A{MARK}@h/d",
    f"postgresql://h;password={MARK}/d",
    f"postgresql://h/d;password={MARK}",
    f"postgresql://h/d&password={MARK}",
    f"postgresql://h/d#password={MARK}",
    f"postgresql://u:{MARK}\udc80@h/d",
    f"postgresql://u@h/d?password={MARK}\udc80",
    f"mysql://u:{MARK}\udc80@h/d",
    f"sqlite:///postgresql://u:{MARK}@h/d",
    f"sqlite:///u:{MARK}@h/d",
]


MISTYPED_FILES = [
    *(url for url in MISTYPED if MARK in url),
    f"postgresql://u:{MARK}@127.0.0.1:1/d",
    f"postgresql://u:{MARK}\nx'@127.0.0.1:1/d",
    f"mysql://u:{MARK} x@h/d",
    f"sqlite:///a.db?key={MARK}\x1b",
]
"""An address in place of a file's name."""

COMMANDS = [
    "accept-loss",
    "approvals",
    "approve chat call --by ann",
    "backup copy.db",
    "bundle audit chat",
    "diff chat other",
    "doubts",
    "erase ann --by mia --secret subjects.secret",
    "export",
    "fork chat other --at 1",
    "import chat.json",
    "migrate",
    "prompt chat --provider openai",
    "prove chat 1",
    "pytest chat",
    "redact chat --version 1 --by mia",
    "reject chat call --by ann --reason no",
    "replay chat",
    "report chat",
    "restore chat.jsonl",
    "retain --keep 1d",
    "seal --key seal.key --anchor notes",
    "search text",
    "serve --port 0",
    "settle chat call --run-again",
    "show",
    "stats",
    "tail",
    "tools",
    "verify",
    "what-if chat --attempts 1",
    "why chat",
]
"""Every command that opens a store."""

FILES = [
    ["import"],
    ["restore"],
    ["backup"],
    ["check", "--provider", "openai"],
    ["export", "--out"],
    ["report", "chat", "--out"],
    ["pytest", "chat", "--out"],
    ["demo", "--keep"],
    ["erase", "ann", "--by", "mia", "--secret"],
    ["show"],
    ["show", "chat", "--around"],
    ["approve", "chat", "--by", "ann"],
    ["verify"],
    [],
]
"""Commands that take a file's name, or another text, as their last argument."""


UNREACHABLE = [
    f"postgresql://u:{MARK}@127.0.0.1:1/d",
    f"postgresql://u@127.0.0.1:1/d?password={MARK}&sslpassword={MARK}",
    f"postgresql://u:{MARK}@127.0.0.1:1,localhost:1/d",
    f"postgresql://u:{MARK}@127.0.0.1:1/d?connect_timeout=soon",
    f"postgresql://u:{MARK}@127.0.0.1:1/d?sslmode=perhaps",
    f"postgresql://u:{MARK}@/d?service=absent",
    f"mysql://u:{MARK}@127.0.0.1:1/d",
    f"mysql://u@127.0.0.1:1/d?password={MARK}",
    f"mysql://u@127.0.0.1:1/d?passwd={MARK}",
]
"""Servers that are not there."""


def with_projector(url: str, _: float) -> None:
    """Open a projector whose tables are at the URL."""
    with EventStore.open("sqlite://") as store:
        Projector(store, url)


def with_store(url: str, timeout: float) -> None:
    """Open a store at the URL."""
    EventStore.open(url, busy_timeout=timeout)


def with_engine(url: str, timeout: float) -> None:
    """Open an engine for tables at the URL, and connect."""
    open_engine(url, timeout).engine.connect()


OPENERS = (with_store, with_engine)


def everything_said(error: BaseException) -> str:
    """Return all texts of an error: its traceback with all causes and contexts, and their parts."""
    said = ["".join(traceback.format_exception(error))]
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        said += [str(one), repr(one), repr(one.args)]
        pending += [one.__cause__, one.__context__]
    return "\n".join(said)


def test_an_option_of_another_type_is_reported_with_its_url() -> None:
    """The error names the server, the value and what to mend."""
    with pytest.raises(ValueError, match=r"^mysql://h/d: .*'soon': mend the options of the URL$"):
        EventStore.open("mysql://h/d?connect_timeout=soon")


@pytest.mark.parametrize("opener", [*OPENERS, with_projector])
@pytest.mark.parametrize("number", range(len(MISTYPED)))
def test_no_error_of_a_mistyped_url_shows_its_password(
    number: int,
    opener: Callable[[str, float], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Refuse it in one error with a remedy; nothing in the chain of its causes has the secret."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, OSError)) as caught:
        opener(MISTYPED[number], 0.0)
    assert type(caught.value) is ValueError
    assert ": " in str(caught.value)
    assert MARK not in everything_said(caught.value)


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("number", range(len(UNREACHABLE)))
def test_no_error_of_a_server_shows_the_password(
    number: int, opener: Callable[[str, float], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Name the server in the error of one that is not there, and no secret in it or in a log."""
    caplog.set_level(logging.DEBUG)
    with (
        warnings.catch_warnings(record=True, action="always") as warned,
        pytest.raises((StorageError, DBAPIError)) as caught,
    ):
        opener(UNREACHABLE[number], 0.0)
    assert MARK not in everything_said(caught.value)
    assert MARK not in caplog.text
    assert MARK not in str([warning.message for warning in warned])


@pytest.mark.parametrize("url", [*MISTYPED, *UNREACHABLE])
def test_a_url_is_shown_without_its_secrets(url: str) -> None:
    """Show no secret of any text that is given as a URL."""
    assert MARK not in shown_url(url)
    try:
        backend = backend_for(url)
    except ValueError:
        return
    assert MARK not in repr(backend) + shown(backend.url) + shown_address(backend.url)


@pytest.mark.parametrize("url", MISTYPED)
def test_the_command_line_shows_no_password(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Print one line about a mistyped URL, without its secret."""
    assert run(["tools", "--url", url]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert MARK not in said.out + said.err


@pytest.mark.parametrize("url", [f"postgres:://u:{MARK}@h", f"postgresql://u;pwd={MARK}@h/d"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_shows_the_password_of_its_store(
    command: str,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Refuse the URL, whether an option or the environment gives it."""
    monkeypatch.chdir(tmp_path)
    with EventStore.open("sqlite:///toolledger.db") as store:
        store.conversation("chat").add_message("user", "hello")
    SubjectSecret.create("subjects.secret")
    assert run(["seal-key", "example.com/agents", "seal.key"]) == 0
    capsys.readouterr()
    assert run([*command.split(), "--url", url]) != 0
    monkeypatch.setenv("TOOLLEDGER_URL", url)
    assert run(command.split()) != 0
    said = capsys.readouterr()
    assert said.err.count("\n") == 2
    assert MARK not in said.out + said.err


def test_the_commands_are_all_there() -> None:
    """The list above has each one that takes a store's URL."""
    others = {"check", "demo", "seal-key", "sessions"}
    known = {listed.name for group in GROUPS.values() for listed in group}
    assert {command.split()[0] for command in COMMANDS} == known - others


@pytest.mark.parametrize("command", FILES, ids=" ".join)
def test_an_address_in_place_of_a_file_is_not_shown(
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Make no file of that name, and quote nothing that may be a password."""
    monkeypatch.chdir(tmp_path)
    with EventStore.open("sqlite:///toolledger.db") as store:
        store.conversation("chat").add_message("user", "hello")
    before = set(tmp_path.iterdir())
    for text in MISTYPED_FILES:
        assert run([*command, text]) in (1, 2)
        said = capsys.readouterr()
        assert said.err.count("\n") == 1
        assert MARK not in said.out + said.err
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "name", ["chat.json", "./a:b@c/chat.json", "/logs/x://y", "a=b;c.json", "C:\\a@b\\c", "ann@x:y"]
)
def test_the_name_of_a_file_is_no_address(name: str) -> None:
    """A path that begins with a slash or a period never is."""
    assert not may_be_address(name)
    assert file_name(name) == Path(name)


def test_a_store_is_shown_without_the_secrets_of_its_options(tmp_path: Path) -> None:
    """Show what tells one store from another, and no value of an unknown option."""

    class Renamed(EventStore):
        @property
        def url(self) -> str:
            return f"postgresql://u:{MARK}@h1:5,h2/d?password={MARK}&sslmode=require"

    with Renamed.open(f"sqlite:///{tmp_path}/a.db", tenant="acme") as store:
        expected = "<Renamed 'postgresql://u:***@h1:5,h2/d?password=***&sslmode=require' of 'acme'>"
        assert repr(store) == expected


@pytest.mark.parametrize(
    ("text", "servers", "ports", "address"),
    [
        ("postgresql://u:p@h1:1,h2:2/d", "h1,h2", "1,2", "postgresql://u:***@h1:1,h2:2/d"),
        ("postgresql://u@h1,h2/d", "h1,h2", None, "postgresql://u@h1,h2/d"),
        ("postgres://h1,h2:2/d", "h1,h2", ",2", "postgres://h1,h2:2/d"),
        ("postgresql://[::1]:5,h/d", "::1,h", "5,", "postgresql://[::1]:5,h/d"),
        ("postgresql://u:a,b@h1,h2/d?sslmode=x", "h1,h2", None, "postgresql://u:***@h1,h2/d"),
    ],
)
def test_several_servers_are_read_as_libpq_does(
    text: str, servers: str, ports: str | None, address: str
) -> None:
    """Read the servers of a URL, show them in their place, and open the same from its text."""
    url = parsed(text)
    assert url.query.get("host") == servers
    assert url.query.get("port") == ports
    assert shown_address(url) == address
    assert parsed(url.render_as_string(hide_password=False)) == url


@pytest.mark.parametrize(
    ("server", "port"),
    [
        ("h1:99999,h2/d", "99999"),
        ("h1,h2:0/d", "0"),
        ("h1:70000/d", "70000"),
        ("h1:0/d", "0"),
        ("/d?host=h1,h2&port=x", "x"),
        ("/d?host=h1,h2&port=1,65536", "65536"),
    ],
)
@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "mariadb+pymysql"])
def test_a_port_that_cannot_be_one_is_named(scheme: str, server: str, port: str) -> None:
    """A server that is never there would else be left for the next one, and never missed."""
    with pytest.raises(ValueError, match=f"'{port}' is not a port: write a number from") as caught:
        parsed(f"{scheme}://u:{MARK}@{server}")
    assert MARK not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://h1,h2/d", {"connect_timeout": 5, "target_session_attrs": "read-write"}),
        (
            "postgresql:///d?hostaddr=10.0.0.1,10.0.0.2",
            {"connect_timeout": 5, "target_session_attrs": "read-write"},
        ),
        ("postgresql://h1,h2,h3,h4,h5,h6/d", {"connect_timeout": 2}),
        ("postgresql://h1/d", {"connect_timeout": 10}),
    ],
)
def test_several_servers_mean_the_one_that_writes(url: str, expected: dict[str, object]) -> None:
    """Ask for the primary where several servers are named, and share the time among them."""
    backend = backend_for(url)
    assert isinstance(backend, Postgresql)
    assert backend.route_options() == {**backend.route_options(), **expected}
    assert ("target_session_attrs" in backend.route_options()) == ("," in url)


def test_a_service_may_name_the_database() -> None:
    """Take a URL without a database where libpq's service file may name it."""
    assert shown_address(backend_for("postgresql://?service=log").url).endswith("?service=log")
