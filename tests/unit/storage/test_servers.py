"""The servers' own behaviour: settings, errors in the library's words, ids, connections."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pymysql
import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError
from support import servers

from eventstore.domain.events import UnknownEvent
from eventstore.errors import (
    NotAStore,
    StorageError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
)
from eventstore.storage.factory import backend_for, open_storage
from eventstore.storage.interface import Append
from eventstore.storage.mysql.backend import Mysql
from eventstore.storage.postgresql.backend import Postgresql
from eventstore.storage.sql import server as server_backend
from eventstore.storage.sql.storage import SqlStorage
from eventstore.testing import append, draft, forbid_rebase, message

if TYPE_CHECKING:
    from support.servers import MariaDB, MySQL, PostgreSQL, Server

Open = Callable[..., SqlStorage]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Return a function that opens storages."""
    storages: list[SqlStorage] = []

    def opened(
        url: str, tenant: str = "", durability: str = "full", timeout: float = 30.0
    ) -> SqlStorage:
        storages.append(open_storage(url, tenant, durability, timeout))
        return storages[-1]

    yield opened
    for storage in storages:
        storage.close()


@pytest.fixture
def url(server: Server) -> str:
    """Return the URL of a database with a store."""
    return server.database(migrated=True)


def setting(storage: SqlStorage, statement: str) -> Any:
    """Return a setting of the connection that writes."""
    cursor = storage.connections.connection().cursor()
    cursor.execute(statement)
    return cursor.fetchone()[0]


# URLs


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgresql://h/d", "postgresql+psycopg"),
        ("postgres://h/d", "postgresql+psycopg"),
        ("postgresql+psycopg://h/d", "postgresql+psycopg"),
        ("mysql://h/d", "mysql+pymysql"),
        ("mariadb://h/d", "mysql+pymysql"),
        ("mariadb+pymysql://h/d", "mysql+pymysql"),
        ("sqlite://", "sqlite"),
    ],
)
def test_a_url_names_the_engine(url: str, driver: str) -> None:
    """The library chooses the driver, whatever SQLAlchemy's default is."""
    assert backend_for(url).url.drivername == driver


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        ("nonsense", "'nonsense' is not a database URL"),
        ("oracle://h/d", "oracle is not supported: use a URL that begins with sqlite:///"),
        ("postgresql+psycopg2://h/d", r"postgresql\+psycopg2 is not supported"),
        ("postgresql://u:secret@h", r"u:\*\*\*@h names no database: append /NAME"),
    ],
)
def test_a_url_that_makes_no_sense_is_refused(url: str, reported: str) -> None:
    """The error says what to write instead, and never shows the password."""
    with pytest.raises(ValueError, match=reported) as caught:
        open_storage(url, "", "full", 30.0)
    assert "secret" not in str(caught.value)


def test_an_unknown_durability_is_refused() -> None:
    """The error is raised before a connection is opened."""
    with pytest.raises(ValueError, match="durability is 'none': pass 'full' or 'normal'"):
        open_storage("postgresql://h/d", "", "none", 30.0)


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [("postgresql://h/d", "psycopg", "postgresql"), ("mysql://h/d", "pymysql", "mysql")],
)
def test_a_driver_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, url: str, driver: str, extra: str
) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(StorageError, match=rf"pip install 'toolledger\[{extra}\]'"):
        open_storage(url, "", "full", 30.0)


# connections


def test_postgresql_is_durable_and_read_committed_whatever_its_default(
    postgresql: PostgreSQL, opened: Open
) -> None:
    """A commit is asynchronous only if less durability was requested."""
    url = postgresql.database(migrated=True)
    name = make_url(url).database
    postgresql.execute(
        f"ALTER DATABASE {name} SET synchronous_commit = off",
        f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'",
    )
    storage = opened(url)
    assert setting(storage, "SHOW synchronous_commit") == "on"
    assert setting(storage, "SHOW transaction_isolation") == "read committed"
    assert setting(storage, "SHOW lock_timeout") == "30s"
    assert setting(storage, "SHOW idle_in_transaction_session_timeout") == "15s"
    assert setting(opened(url, durability="normal"), "SHOW synchronous_commit") == "off"
    postgresql.execute(f"ALTER DATABASE {name} SET synchronous_commit = local")
    assert setting(opened(url), "SHOW synchronous_commit") == "on"


def test_mariadb_is_strict_and_read_committed_whatever_its_default(
    mariadb: MariaDB, opened: Open
) -> None:
    """REPEATABLE READ would hide other commits, and a lax mode would cut texts off."""
    storage = opened(mariadb.database(migrated=True), timeout=7.5)
    assert setting(storage, "SELECT @@tx_isolation") == "READ-COMMITTED"
    assert setting(storage, "SELECT @@innodb_lock_wait_timeout") == 8
    assert setting(storage, "SELECT @@idle_transaction_timeout") == 4
    assert setting(storage, "SELECT @@autocommit") == 1
    assert "STRICT_ALL_TABLES" in setting(storage, "SELECT @@sql_mode")


def test_mysql_is_strict_and_read_committed_whatever_its_default(
    mysql: MySQL, opened: Open
) -> None:
    """MySQL has no time limit for an idle transaction, only one for a connection."""
    storage = opened(mysql.database(migrated=True), timeout=7.5)
    assert setting(storage, "SELECT @@transaction_isolation") == "READ-COMMITTED"
    assert setting(storage, "SELECT @@innodb_lock_wait_timeout") == 8
    assert setting(storage, "SELECT @@wait_timeout") == 4
    assert setting(storage, "SELECT @@autocommit") == 1
    assert "STRICT_ALL_TABLES" in setting(storage, "SELECT @@sql_mode")


@pytest.mark.alone
@pytest.mark.parametrize(
    ("name", "settings", "reported"),
    [
        (
            "mariadb",
            ["innodb_flush_log_at_trx_commit = 2"],
            "innodb_flush_log_at_trx_commit is 2: .*; set it to 1, or",
        ),
        (
            "mysql",
            ["innodb_flush_log_at_trx_commit = 0"],
            "innodb_flush_log_at_trx_commit is 0: .*; set it to 1, or",
        ),
        ("mysql", ["sync_binlog = 100"], "sync_binlog is 100: .*; set it to 1, or"),
        ("mariadb", ["innodb_flush_log_at_trx_commit = 3", "sync_binlog = 0"], None),
        ("mariadb", ["sync_binlog = 0"], None),  # it has no binary log
    ],
)
def test_a_mysql_that_answers_commits_too_early_gives_a_warning(
    request: pytest.FixtureRequest,
    opened: Open,
    name: str,
    settings: list[str],
    reported: str | None,
) -> None:
    """No session can change the setting; a store with less than "full" gets no warning."""
    server = request.getfixturevalue(name)
    url = server.database(migrated=True)
    server.execute(*(f"SET GLOBAL {setting}" for setting in settings))
    try:
        with pytest.warns(RuntimeWarning, match=reported) if reported else nullcontext():
            opened(url)
        opened(url, durability="normal")
    finally:
        default = "1" if name == "mysql" else "0"
        server.execute(
            "SET GLOBAL innodb_flush_log_at_trx_commit = 1", f"SET GLOBAL sync_binlog = {default}"
        )
    opened(url)


class StatementsLogged(servers.MariaDB):
    """MariaDB with a binary log of statements."""

    def command(self) -> list[str]:
        """Return the command with the settings that nobody can change while it runs."""
        return [*super().command(), "--log-bin", "--sync-binlog=1", "--binlog-format=STATEMENT"]


def test_a_binary_log_of_statements_is_refused_when_the_store_is_opened(
    own_server: Callable[..., Server], opened: Open
) -> None:
    """The server would refuse each append (its error 1665), which names the same remedy."""
    server = own_server(StatementsLogged)
    url = server.database()
    remedy = "nothing was written; set the server's binlog_format to MIXED"
    with pytest.raises(StorageError, match="binlog_format is STATEMENT; nothing was written: set"):
        opened(url)
    server.execute("SET GLOBAL binlog_format = MIXED")
    storage = opened(url)
    append(storage, "chat", message())
    server.execute("SET GLOBAL binlog_format = STATEMENT")
    other = backend_for(url).storage("")  # without a look at the settings
    with pytest.raises(StorageError, match=f"BINLOG_FORMAT = STATEMENT.*: {remedy}"):
        append(other, "chat", message(), version=1)
    other.close()
    assert len(list(storage.feed({}))) == 1


@pytest.mark.alone
def test_a_postgresql_that_never_waits_for_the_disk_gives_a_warning(
    postgresql: PostgreSQL, opened: Open
) -> None:
    """The warning does not depend on `synchronous_commit`."""
    url = postgresql.database(migrated=True)
    set_fsync(postgresql, "off")
    try:
        with pytest.warns(RuntimeWarning, match="fsync is off: .*; set it to on, or"):
            opened(url)
        opened(url, durability="normal")
    finally:
        set_fsync(postgresql, "on")
    opened(url)


def set_fsync(server: Server, value: str) -> None:
    """Change the setting and wait until the server has read it."""
    server.execute(f"ALTER SYSTEM SET fsync = {value}", "SELECT pg_reload_conf()")
    until = time.monotonic() + 30
    while server.execute("SHOW fsync") != [(value,)] and time.monotonic() < until:
        time.sleep(0.01)


def test_a_pooled_connection_that_died_is_replaced(server: Server, url: str, opened: Open) -> None:
    """The next use gets a new connection."""
    storage = opened(url)
    assert isinstance(storage.backend, server_backend.Server)
    storage.backend.ping_after_seconds = 0.0
    append(storage, "chat", message())
    kill_connections(server, url)
    assert len(list(storage.conversation("chat"))) == 1


def test_an_idle_writer_goes_on_where_the_server_hung_up(mysql: MySQL, opened: Open) -> None:
    """MySQL disconnects a client that may hold a lane; appends and reads reconnect."""
    url = mysql.database(migrated=True)
    storage = opened(url, timeout=2.0)
    append(storage, "chat", message())
    left = f"SELECT 1 FROM information_schema.processlist WHERE db = '{make_url(url).database}'"  # noqa: S608
    until = time.monotonic() + 30
    while mysql.execute(left) and time.monotonic() < until:
        time.sleep(0.02)
    assert not mysql.execute(left)
    append(storage, "chat", message(), version=1)
    assert len(list(storage.conversation("chat"))) == 2


def kill_connections(server: Server, url: str) -> None:
    """End every connection to the database, as an administrator does."""
    name = make_url(url).database
    if server.first == "postgres":
        server.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608
        )
        return
    for (number,) in server.execute(
        f"SELECT id FROM information_schema.processlist WHERE db = '{name}'"  # noqa: S608
    ):
        server.execute(f"KILL {number}")


# ids


def test_ids_have_a_limit_on_servers(url: str, opened: Open) -> None:
    """The error names the limit of the keys, and nothing is written."""
    storage = opened(url, "t" * 128)
    longest = "\U0001f600" * 512
    append(storage, longest, message())
    assert [name for name, _ in storage.conversations()] == [longest]
    with pytest.raises(ValueError, match="has 513 characters, a database server takes 512"):
        append(storage, "x" * 513, message())
    assert list(storage.conversation("x" * 513)) == []
    assert list(storage.verify()) == []
    with pytest.raises(ValueError, match=r"the tenant 't+'… has 129 characters"):
        opened(url, "t" * 129)


def test_texts_come_back_as_they_were(url: str, opened: Open) -> None:
    """Backslashes, too, which a driver or a server may interpret, are unchanged."""
    storage = opened(url, "te\\nant%s")
    name = "100%s of \\x41 'q' \"d\" `b` \\"
    event = UnknownEvent("tool\\_paused%", 7, '{"a":"\\\\x41 \\u0000 %s %(x)s \\\\ \' ` ? : {}"}')
    append(storage, name, event)
    assert [r.event for r in storage.conversation(name)] == [event]
    assert list(storage.conversations()) == [(name, 1)]
    assert list(storage.verify()) == []


# errors


def test_a_server_that_is_not_there_is_named() -> None:
    """The error does not show the password."""
    for scheme in ("postgresql", "mysql"):
        with pytest.raises(StorageError, match="check that the server runs") as caught:
            open_storage(f"{scheme}://u:secret@127.0.0.1:1/db", "", "full", 0.0)
        assert "secret" not in str(caught.value)
        assert "u:***@127.0.0.1:1/db" in str(caught.value)


def test_a_database_that_is_not_there_is_named(server: Server) -> None:
    """The error says what to do."""
    with pytest.raises(NotAStore, match="create the database, or name another"):
        open_storage(server.url("nobody"), "", "full", 30.0)


@pytest.mark.alone
def test_a_wrong_password_is_reported(mariadb: MariaDB) -> None:
    """The error refers to the password in the URL, and does not show it."""
    mariadb.execute("CREATE USER careful IDENTIFIED BY 'right'")
    url = make_url(mariadb.url("mysql")).set(username="careful", password="wrong")  # noqa: S106
    with pytest.raises(StorageError, match="check the user and the password in the URL"):
        open_storage(url.render_as_string(hide_password=False), "", "full", 30.0)
    mariadb.execute("DROP USER careful")


@pytest.mark.alone
@pytest.mark.parametrize("query", [{}, {"ssl_disabled": "true"}])
def test_a_password_opens_mysql(mysql: MySQL, opened: Open, query: dict[str, str]) -> None:
    """The default plugin `caching_sha2_password` works over TLS and with the server's RSA key."""
    url = make_url(mysql.database(migrated=True)).set(username="careful", password="right")  # noqa: S106
    mysql.execute(
        "CREATE USER careful IDENTIFIED BY 'right'", f"GRANT ALL ON {url.database}.* TO careful"
    )
    storage = opened(url.set(query=query).render_as_string(hide_password=False))
    append(storage, "chat", message())
    mysql.execute("DROP USER careful")


@pytest.mark.alone
@pytest.mark.parametrize("whose", ["ROLE crowded", "DATABASE {name}"])
def test_a_limit_of_connections_is_not_a_wrong_password(postgresql: PostgreSQL, whose: str) -> None:
    """The limit of a role or a database is a reason to wait."""
    url = make_url(postgresql.database(migrated=True)).set(username="crowded")
    postgresql.execute("DROP ROLE IF EXISTS crowded", "CREATE ROLE crowded LOGIN")
    limited = whose.format(name=url.database)
    postgresql.execute(f"ALTER {limited} CONNECTION LIMIT 0")
    with pytest.raises(StoreBusy, match="the server is at its limit") as reported:
        open_storage(url.render_as_string(), "", "full", 0.0)
    error = reported.value.__cause__
    assert error is not None
    assert Postgresql(url, "full", 0.0).is_connection_lost(error)
    postgresql.execute("DROP ROLE crowded")


def test_a_fatal_error_means_a_lost_connection(postgresql: PostgreSQL) -> None:
    """The error may have come in the middle of a COMMIT, whatever its reason is."""
    if int(postgresql.execute("SHOW server_version_num")[0][0]) < 170_000:
        pytest.skip("PostgreSQL has a transaction_timeout from 17 on")
    url = postgresql.database()
    with postgresql.connected(url) as connection:
        connection.exec_driver_sql("SET transaction_timeout = '1ms'")
        with pytest.raises(DBAPIError) as reported:
            connection.exec_driver_sql("BEGIN; SELECT pg_sleep(10)")
    database = Postgresql(make_url(url), "full", 0.0)
    assert database.is_connection_lost(reported.value)
    assert isinstance(database.translate(reported.value), StoreBusy)


@pytest.mark.alone
def test_an_event_that_is_too_large_for_a_server_is_reported(
    mariadb: MariaDB, opened: Open
) -> None:
    """The server disconnects in the middle of it; this is not retried as a lost connection."""
    mariadb.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        storage = opened(mariadb.database(migrated=True))
        append(storage, "chat", message())
        large = draft(message("x" * 12_000_000))
        with pytest.raises(StorageError):  # a single event gets the reason
            storage.append([Append("chat", 1, 0, (), lambda _: [large])])
        with pytest.raises(StorageError, match="nothing was written; raise the server's max_allow"):
            storage.append([Append("chat", 1, 0, [large], forbid_rebase)])
        assert append(storage, "chat", message(), version=1).version == 2
        assert list(storage.verify()) == []
    finally:
        mariadb.execute("SET GLOBAL max_allowed_packet = 16777216")


def test_escapes_count_for_the_size_of_an_event(mariadb: MariaDB) -> None:
    """A JSON payload has many quotes, which the driver escapes."""
    database = Mysql(make_url(mariadb.database(migrated=True)), "full", 30.0)
    database.max_statement_bytes = 10_000
    database.check_sizes([draft(message("x" * 8_000)), draft(message('"' * 1_000))])
    for text in ("x" * 9_000, '"' * 4_000):
        with pytest.raises(StorageError, match="takes 10,000: nothing was written"):
            database.check_sizes([draft(message("a")), draft(message(text))])


@pytest.mark.alone
def test_a_user_with_read_access_only_gets_a_clear_error(
    postgresql: PostgreSQL, opened: Open
) -> None:
    """Reads succeed."""
    url = postgresql.database(migrated=True)
    append(opened(url), "chat", message())
    postgresql.execute(
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
        database=url,
    )
    reading = opened(make_url(url).set(username="reader").render_as_string())
    assert len(list(reading.conversation("chat"))) == 1
    with pytest.raises(StoreReadOnly, match="grant the user the rights"):
        append(reading, "chat", message(), version=1)
    postgresql.execute("DROP OWNED BY reader", "DROP ROLE reader", database=url)


@pytest.mark.alone
def test_a_read_only_server_gets_a_clear_error(server: Server, url: str, opened: Open) -> None:
    """A standby is such a server."""
    storage = opened(url)
    append(storage, "chat", message())
    name = make_url(url).database
    if server.first == "postgres":
        server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    else:
        server.execute(
            "SET GLOBAL read_only = 1", "CREATE USER plain", f"GRANT ALL ON {name}.* TO plain"
        )
        url = make_url(url).set(username="plain", password=None).render_as_string()
    try:
        with pytest.raises(StoreReadOnly, match="connect to the primary server"):
            append(opened(url, timeout=0.1), "chat", message(), version=1)
    finally:
        if server.first != "postgres":
            server.execute("SET GLOBAL read_only = 0", "DROP USER plain")


def test_a_tag_that_is_too_long_is_refused(mariadb: MariaDB, opened: Open) -> None:
    """The tag is not cut off."""
    storage = opened(mariadb.database(migrated=True))
    with pytest.raises(StorageError, match="use a shorter"):
        append(storage, "chat", UnknownEvent("t" * 65, 1, "{}"))
    assert list(storage.feed({})) == []


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("08006", StorageError),
        ("22001", StorageError),
        ("23505", StoreCorrupt),
        ("25006", StoreReadOnly),
        ("25P03", StoreBusy),
        ("28P01", StorageError),
        ("3D000", NotAStore),
        ("40001", StoreBusy),
        ("40P01", StoreBusy),
        ("42501", StoreReadOnly),
        ("42P01", StoreCorrupt),
        ("53100", StoreFull),
        ("53300", StoreBusy),
        ("55P03", StoreBusy),
        ("57014", StoreBusy),
        ("57P01", StorageError),
        ("XX001", StoreCorrupt),
        ("0A000", StorageError),
    ],
)
def test_an_error_of_postgresql_becomes_the_librarys(state: str, kind: type[StorageError]) -> None:
    """The SQLSTATE decides; the error names the database and the server's text."""
    from psycopg import errors

    database = Postgresql(make_url("postgresql://ada:secret@h:5/d?sslmode=require"), "full", 1.0)
    error = errors.lookup(state)("bad\n  thing")
    translated = database.translate(error)
    assert type(translated) is kind
    assert str(translated).startswith("postgresql://ada:***@h:5/d: bad thing: ")
    assert database.is_transient(error) is (state in ("40001", "40P01"))
    assert database.is_connection_lost(error) is (
        state in ("08006", "25006", "57P01", "25P03", "53300")
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1020, StoreBusy),
        (1040, StoreBusy),
        (1044, StoreReadOnly),
        (1045, StorageError),
        (1049, NotAStore),
        (1062, StoreCorrupt),
        (1114, StoreFull),
        (1146, StoreCorrupt),
        (1153, StorageError),
        (1205, StoreBusy),
        (1213, StoreBusy),
        (1290, StoreReadOnly),
        (1273, NotAStore),
        (1406, StorageError),
        (2006, StorageError),
        (2013, StorageError),
        (3101, StoreBusy),
        (9999, StorageError),
    ],
)
def test_an_error_of_mariadb_becomes_the_librarys(code: int, kind: type[StorageError]) -> None:
    """The number decides; the error names the database and the server's text."""
    database = Mysql(make_url("mysql://ada:secret@h:5/d"), "full", 1.0)
    error = pymysql.err.OperationalError(code, "bad thing")
    translated = database.translate(error)
    assert type(translated) is kind
    assert str(translated).startswith("mysql://ada:***@h:5/d: bad thing: ")
    assert database.is_transient(error) is (code in (1020, 1205, 1213, 3101))
    assert database.is_connection_lost(error) is (code in (1040, 1290, 2006, 2013))


@pytest.mark.parametrize("kind", [Postgresql, Mysql])
def test_errors_of_others_than_the_driver_are_not_translated(kind: Any) -> None:
    """The library's own errors are translated only once."""
    database = kind(make_url("x://h/d"), "full", 1.0)
    other = KeyError("x")
    assert database.translate(other) is other
    closed = StoreClosed("closed")
    assert database.translate(closed) is closed
    named = database.translate(StoreCorrupt("a lane has no counter"))
    assert str(named) == "x://h/d: a lane has no counter"
    assert database.translate(named) is named
    assert not database.is_connection_lost(other)
    assert not database.is_transient(other)
    assert database.is_connection_lost(database.driver_module.InterfaceError("closed"))
    assert database.translate(database.driver_module.InterfaceError()).args


def test_verify_says_what_the_server_finds(mariadb: MariaDB, opened: Open) -> None:
    """The server checks each table."""
    storage = opened(mariadb.database(migrated=True))
    assert list(storage.verify()) == []
    found = Mysql(make_url("mysql://h/d"), "full", 1.0).damage(
        lambda text: [
            ("d.t", "check", "Error", "Table is broken"),
            ("d.t", "check", "status", "Corrupt" if "lanes" in text else "OK"),
        ]
    )
    assert [line for line in found if "lanes" in line] == [
        "toolledger_lanes: Table is broken",
        "toolledger_lanes: Corrupt",
    ]


def test_a_read_during_close_leaves_no_connection(opened: Open, url: str) -> None:
    """The read ends, and its connection is closed."""
    storage = opened(url)
    with storage.connections.cursor() as cursor:
        storage.close()
        cursor.execute("SELECT 1")
        assert cursor.fetchall()
        connection = cursor.connection
    assert not connection.open if hasattr(connection, "open") else connection.closed
