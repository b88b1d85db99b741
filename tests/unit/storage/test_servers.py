"""What the servers do in their own way: settings, errors in our words, ids, connections."""

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

from eventstore.errors import (
    NotAStore,
    StorageError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
)
from eventstore.events import UnknownEvent
from eventstore.storage import Append
from eventstore.storage import server as rooms
from eventstore.storage.mysql import Mysql
from eventstore.storage.opening import open_storage, parse
from eventstore.storage.postgresql import Postgresql
from eventstore.storage.sql import SqlStorage
from eventstore.testing import append, draft, message, refuse

if TYPE_CHECKING:
    from servers import MariaDB, MySQL, PostgreSQL, Server

Open = Callable[..., SqlStorage]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens storages."""
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
    """A database with a store."""
    return server.database(migrated=True)


def setting(storage: SqlStorage, statement: str) -> Any:
    """What the connection that writes says."""
    cursor = storage._connection().cursor()
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
    """And we choose the driver, whatever SQLAlchemy's default is."""
    assert parse(url).drivername == driver


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nonsense", "'nonsense' is not a database URL"),
        ("oracle://h/d", "oracle is not supported: use a URL that begins with sqlite:///"),
        ("postgresql+psycopg2://h/d", r"postgresql\+psycopg2 is not supported"),
        ("postgresql://u:secret@h", r"u:\*\*\*@h names no database: append /NAME"),
    ],
)
def test_a_url_that_makes_no_sense_is_refused(url: str, told: str) -> None:
    """With what to write instead, and never with the password."""
    with pytest.raises(ValueError, match=told) as caught:
        open_storage(url, "", "full", 30.0)
    assert "secret" not in str(caught.value)


def test_a_durability_that_there_is_not_is_refused() -> None:
    """Before anything is connected."""
    with pytest.raises(ValueError, match="durability is 'none': pass 'full' or 'normal'"):
        open_storage("postgresql://h/d", "", "none", 30.0)


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [("postgresql://h/d", "psycopg", "postgresql"), ("mysql://h/d", "pymysql", "mysql")],
)
def test_a_driver_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, url: str, driver: str, extra: str
) -> None:
    """With what to install."""
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(StorageError, match=rf"pip install 'toolledger\[{extra}\]'"):
        open_storage(url, "", "full", 30.0)


# connections


def test_postgresql_is_durable_and_read_committed_whatever_its_default(
    postgresql: PostgreSQL, opened: Open
) -> None:
    """Unless less durability is asked for."""
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
    assert setting(opened(url), "SHOW synchronous_commit") == "local"


def test_mariadb_is_strict_and_read_committed_whatever_its_default(
    mariadb: MariaDB, opened: Open
) -> None:
    """REPEATABLE READ would hide what others committed, and a lax mode cut texts off."""
    storage = opened(mariadb.database(migrated=True), timeout=7.5)
    assert setting(storage, "SELECT @@tx_isolation") == "READ-COMMITTED"
    assert setting(storage, "SELECT @@innodb_lock_wait_timeout") == 8
    assert setting(storage, "SELECT @@idle_transaction_timeout") == 4
    assert setting(storage, "SELECT @@autocommit") == 1
    assert "STRICT_ALL_TABLES" in setting(storage, "SELECT @@sql_mode")


def test_mysql_is_strict_and_read_committed_whatever_its_default(
    mysql: MySQL, opened: Open
) -> None:
    """It has no time limit for a transaction that stands still, only one for a connection."""
    storage = opened(mysql.database(migrated=True), timeout=7.5)
    assert setting(storage, "SELECT @@transaction_isolation") == "READ-COMMITTED"
    assert setting(storage, "SELECT @@innodb_lock_wait_timeout") == 8
    assert setting(storage, "SELECT @@wait_timeout") == 4
    assert setting(storage, "SELECT @@autocommit") == 1
    assert "STRICT_ALL_TABLES" in setting(storage, "SELECT @@sql_mode")


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("mariadb", ["innodb_flush_log_at_trx_commit = 2"],
         "innodb_flush_log_at_trx_commit is 2: .*; set it to 1, or"),
        ("mysql", ["innodb_flush_log_at_trx_commit = 0"],
         "innodb_flush_log_at_trx_commit is 0: .*; set it to 1, or"),
        ("mysql", ["sync_binlog = 100"], "sync_binlog is 100: .*; set it to 1, or"),
        ("mariadb", ["innodb_flush_log_at_trx_commit = 3", "sync_binlog = 0"], None),
        ("mariadb", ["sync_binlog = 0"], None),  # it has no binary log
    ],
)  # fmt: skip
def test_a_server_of_mysqls_family_that_answers_a_commit_too_early_is_told_of(
    request: pytest.FixtureRequest, opened: Open, name: str, settings: list[str], told: str | None
) -> None:
    """No session can change it; who asked for less than "full" is told nothing."""
    server = request.getfixturevalue(name)
    url = server.database(migrated=True)
    server.execute(*(f"SET GLOBAL {setting}" for setting in settings))
    try:
        with pytest.warns(RuntimeWarning, match=told) if told else nullcontext():
            opened(url)
        opened(url, durability="normal")
    finally:
        default = "1" if name == "mysql" else "0"
        server.execute(
            "SET GLOBAL innodb_flush_log_at_trx_commit = 1", f"SET GLOBAL sync_binlog = {default}"
        )
    opened(url)


def test_a_postgresql_that_never_waits_for_the_disk_is_told_of(
    postgresql: PostgreSQL, opened: Open
) -> None:
    """Whatever `synchronous_commit` is."""
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
    """Once the server has read its settings again."""
    server.execute(f"ALTER SYSTEM SET fsync = {value}", "SELECT pg_reload_conf()")
    until = time.monotonic() + 30
    while server.execute("SHOW fsync") != [(value,)] and time.monotonic() < until:
        time.sleep(0.01)


def test_a_pooled_connection_that_died_is_replaced(
    server: Server, url: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time it is used again."""
    monkeypatch.setattr(rooms, "IDLE", 0.0)
    storage = opened(url)
    append(storage, "chat", message())
    kill_connections(server, url)
    assert len(list(storage.conversation("chat"))) == 1


def test_an_idle_writer_goes_on_where_the_server_hung_up(mysql: MySQL, opened: Open) -> None:
    """As MySQL does with who may hold a lane; appends and reads notice nothing."""
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
    """Their keys do; the error says it, and nothing is written."""
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
    """Also where the driver or the server might take a backslash for its own."""
    storage = opened(url, "te\\nant%s")
    name = "100%s of \\x41 'q' \"d\" `b` \\"
    event = UnknownEvent("tool\\_paused%", 7, '{"a":"\\\\x41 \\u0000 %s %(x)s \\\\ \' ` ? : {}"}')
    append(storage, name, event)
    assert [r.event for r in storage.conversation(name)] == [event]
    assert list(storage.conversations()) == [(name, 1)]
    assert list(storage.verify()) == []


# errors


def test_a_server_that_is_not_there_is_named() -> None:
    """Without the password."""
    for scheme in ("postgresql", "mysql"):
        with pytest.raises(StorageError, match="check that the server runs") as caught:
            open_storage(f"{scheme}://u:secret@127.0.0.1:1/db", "", "full", 30.0)
        assert "secret" not in str(caught.value)
        assert "u:***@127.0.0.1:1/db" in str(caught.value)


def test_a_database_that_is_not_there_is_named(server: Server) -> None:
    """With what to do."""
    with pytest.raises(NotAStore, match="create the database, or name another"):
        open_storage(server.url("nobody"), "", "full", 30.0)


def test_a_wrong_password_is_told(mariadb: MariaDB) -> None:
    """The URL has it."""
    mariadb.execute("CREATE USER careful IDENTIFIED BY 'right'")
    url = make_url(mariadb.url("mysql")).set(username="careful", password="wrong")  # noqa: S106
    with pytest.raises(StorageError, match="check the user and the password in the URL"):
        open_storage(url.render_as_string(hide_password=False), "", "full", 30.0)
    mariadb.execute("DROP USER careful")


@pytest.mark.parametrize("query", [{}, {"ssl_disabled": "true"}])
def test_a_password_opens_mysql(mysql: MySQL, opened: Open, query: dict[str, str]) -> None:
    """By its default plugin, `caching_sha2_password`: over TLS, or with the server's RSA key."""
    url = make_url(mysql.database(migrated=True)).set(username="careful", password="right")  # noqa: S106
    mysql.execute(
        "CREATE USER careful IDENTIFIED BY 'right'", f"GRANT ALL ON {url.database}.* TO careful"
    )
    storage = opened(url.set(query=query).render_as_string(hide_password=False))
    append(storage, "chat", message())
    mysql.execute("DROP USER careful")


@pytest.mark.parametrize("whose", ["ROLE crowded", "DATABASE {name}"])
def test_a_limit_of_connections_is_told_apart(postgresql: PostgreSQL, whose: str) -> None:
    """Of a role or of a database: it is waited for, and no matter of passwords."""
    url = make_url(postgresql.database(migrated=True)).set(username="crowded")
    postgresql.execute("DROP ROLE IF EXISTS crowded", "CREATE ROLE crowded LOGIN")
    limited = whose.format(name=url.database)
    postgresql.execute(f"ALTER {limited} CONNECTION LIMIT 0")
    with pytest.raises(StoreBusy, match="the server is at its limit") as told:
        open_storage(url.render_as_string(), "", "full", 0.0)
    error = told.value.__cause__
    assert error is not None
    assert Postgresql(url, "full", 0.0).is_lost(error)
    postgresql.execute("DROP ROLE crowded")


def test_what_ended_the_connection_lost_it(postgresql: PostgreSQL) -> None:
    """Whatever its reason: it may have come in the middle of a COMMIT."""
    if int(postgresql.execute("SHOW server_version_num")[0][0]) < 170_000:
        pytest.skip("PostgreSQL has a transaction_timeout from 17 on")
    url = postgresql.database()
    with postgresql.connected(url) as connection:
        connection.exec_driver_sql("SET transaction_timeout = '1ms'")
        connection.exec_driver_sql("BEGIN")
        with pytest.raises(DBAPIError) as told:
            connection.exec_driver_sql("SELECT pg_sleep(10)")
    database = Postgresql(make_url(url), "full", 0.0)
    assert database.is_lost(told.value)
    assert isinstance(database.translate(told.value), StoreBusy)


def test_an_event_that_is_larger_than_a_server_takes_is_told(
    mariadb: MariaDB, opened: Open
) -> None:
    """It hangs up in the middle of it: that is no loss of a connection, and not waited for."""
    mariadb.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        storage = opened(mariadb.database(migrated=True))
        append(storage, "chat", message())
        large = draft(message("x" * 12_000_000))
        with pytest.raises(StorageError):  # by itself it is told why
            storage.append_all([Append("chat", 1, 0, (), lambda _: [large])])
        with pytest.raises(StorageError, match="nothing was written; raise the server's max_allow"):
            storage.append(Append("chat", 1, 0, [large], refuse))
        assert append(storage, "chat", message(), version=1).version == 2
        assert list(storage.verify()) == []
    finally:
        mariadb.execute("SET GLOBAL max_allowed_packet = 16777216")


def test_what_is_sent_counts_with_its_escapes(mariadb: MariaDB) -> None:
    """A payload of JSON is full of quotes."""
    database = Mysql(make_url(mariadb.database(migrated=True)), "full", 30.0)
    database.longest = 10_000
    database.check_sizes([draft(message("x" * 8_000)), draft(message('"' * 1_000))])
    for text in ("x" * 9_000, '"' * 4_000):
        with pytest.raises(StorageError, match="takes 10,000: nothing was written"):
            database.check_sizes([draft(message("a")), draft(message(text))])


def test_a_user_who_may_only_read_is_told_so(postgresql: PostgreSQL, opened: Open) -> None:
    """Reading goes on."""
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


def test_a_server_that_only_reads_is_told_apart(server: Server, url: str, opened: Open) -> None:
    """As a standby is."""
    storage = opened(url)
    append(storage, "chat", message())
    name = make_url(url).database
    if server.first == "postgres":
        server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    else:
        server.execute("SET GLOBAL read_only = 1", "CREATE USER plain",
                       f"GRANT ALL ON {name}.* TO plain")  # fmt: skip
        url = make_url(url).set(username="plain", password=None).render_as_string()
    try:
        with pytest.raises(StoreReadOnly, match="connect to the primary server"):
            append(opened(url), "chat", message(), version=1)
    finally:
        if server.first != "postgres":
            server.execute("SET GLOBAL read_only = 0", "DROP USER plain")


def test_a_tag_that_is_too_long_is_refused(mariadb: MariaDB, opened: Open) -> None:
    """Not cut off."""
    storage = opened(mariadb.database(migrated=True))
    with pytest.raises(StorageError, match="use a shorter"):
        append(storage, "chat", UnknownEvent("t" * 65, 1, "{}"))
    assert list(storage.feed({})) == []


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("08006", StorageError), ("22001", StorageError), ("23505", StoreCorrupt),
        ("25006", StoreReadOnly), ("25P03", StoreBusy), ("28P01", StorageError),
        ("3D000", NotAStore), ("40001", StoreBusy), ("40P01", StoreBusy),
        ("42501", StoreReadOnly), ("42P01", StoreCorrupt), ("53100", StoreFull),
        ("53300", StoreBusy), ("55P03", StoreBusy), ("57014", StoreBusy),
        ("57P01", StorageError), ("XX001", StoreCorrupt), ("0A000", StorageError),
    ],
)  # fmt: skip
def test_an_error_of_postgresql_becomes_the_librarys(state: str, kind: type[StorageError]) -> None:
    """By its SQLSTATE; it names the database and keeps what the server said."""
    from psycopg import errors  # noqa: PLC0415

    database = Postgresql(make_url("postgresql://ada:secret@h:5/d?sslmode=require"), "full", 1.0)
    error = errors.lookup(state)("bad\n  thing")
    translated = database.translate(error)
    assert type(translated) is kind
    assert str(translated).startswith("postgresql://ada:***@h:5/d: bad thing: ")
    assert database.is_passing(error) is (state in ("40001", "40P01"))
    assert database.is_lost(error) is (state in ("08006", "57P01", "25P03", "53300"))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1020, StoreBusy), (1040, StoreBusy), (1044, StoreReadOnly), (1045, StorageError),
        (1049, NotAStore), (1062, StoreCorrupt), (1114, StoreFull), (1146, StoreCorrupt),
        (1153, StorageError), (1205, StoreBusy), (1213, StoreBusy), (1290, StoreReadOnly),
        (1273, NotAStore), (1406, StorageError), (2006, StorageError), (2013, StorageError),
        (3101, StoreBusy), (9999, StorageError),
    ],
)  # fmt: skip
def test_an_error_of_mariadb_becomes_the_librarys(code: int, kind: type[StorageError]) -> None:
    """By its number; it names the database and keeps what the server said."""
    database = Mysql(make_url("mysql://ada:secret@h:5/d"), "full", 1.0)
    error = pymysql.err.OperationalError(code, "bad thing")
    translated = database.translate(error)
    assert type(translated) is kind
    assert str(translated).startswith("mysql://ada:***@h:5/d: bad thing: ")
    assert database.is_passing(error) is (code in (1020, 1205, 1213, 3101))
    assert database.is_lost(error) is (code in (1040, 2006, 2013))


@pytest.mark.parametrize("kind", [Postgresql, Mysql])
def test_what_is_not_the_drivers_stays_as_it_is(kind: Any) -> None:
    """And our own errors are named once."""
    database = kind(make_url("x://h/d"), "full", 1.0)
    other = KeyError("x")
    assert database.translate(other) is other
    closed = StoreClosed("closed")
    assert database.translate(closed) is closed
    named = database.translate(StoreCorrupt("a lane has no counter"))
    assert str(named) == "x://h/d: a lane has no counter"
    assert database.translate(named) is named
    assert not database.is_lost(other)
    assert not database.is_passing(other)
    assert database.is_lost(database.module.InterfaceError("closed"))
    assert database.translate(database.module.InterfaceError()).args


def test_verify_says_what_the_server_finds(mariadb: MariaDB, opened: Open) -> None:
    """In each table."""
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


def test_what_is_being_read_when_the_storage_is_closed_leaves_no_connection(
    opened: Open, url: str
) -> None:
    """It ends, and its connection with it."""
    storage = opened(url)
    with storage._reading() as cursor:
        storage.close()
        cursor.execute("SELECT 1")
        assert cursor.fetchall()
        connection = cursor.connection
    assert not connection.open if hasattr(connection, "open") else connection.closed
