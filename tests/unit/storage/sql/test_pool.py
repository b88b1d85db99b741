"""The pool that a storage takes its connections from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Engine, create_engine, event
from support.interrupts import interrupt

from eventstore.storage.sql.pool import IdlePool

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Return an engine of a file."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    made = create_engine(url, poolclass=IdlePool, connect_args={"check_same_thread": False})
    opened: list[DBAPIConnection] = []
    event.listen(made, "connect", lambda connection, _: opened.append(connection))
    yield made
    for connection in opened:  # an interrupt may have lost some
        connection.close()


def pool_of(engine: Engine) -> IdlePool:
    """Return the engine's pool."""
    assert isinstance(engine.pool, IdlePool)
    return engine.pool


def test_two_idle_connections_are_kept_and_used_again(engine: Engine) -> None:
    """Any number may be in use; those above two are closed when they are given back."""
    taken = [engine.raw_connection() for _ in range(5)]
    first = [connection.dbapi_connection for connection in taken]
    assert (pool_of(engine).checkedin(), pool_of(engine).checkedout()) == (0, 5)
    for connection in taken:
        connection.close()
    assert (pool_of(engine).checkedin(), pool_of(engine).checkedout()) == (2, 0)
    assert pool_of(engine).status() == "IdlePool: 2 idle, 0 in use"
    again = [engine.raw_connection() for _ in range(2)]
    assert [connection.dbapi_connection for connection in again] == first[:2]
    for connection in again:
        connection.close()


def test_a_connection_is_in_use_until_it_is_closed(engine: Engine) -> None:
    """A fork waits for connections in use: the driver holds locks while it closes one."""
    in_use: list[int] = []
    event.listen(engine, "close", lambda *_: in_use.append(pool_of(engine).checkedout()))
    taken = [engine.raw_connection() for _ in range(4)]
    for connection in taken:
        connection.close()
    assert in_use == [2, 1]
    assert pool_of(engine).checkedout() == 0


def test_a_pool_that_is_disposed_of_is_replaced_by_an_empty_one(engine: Engine) -> None:
    """The new one keeps as many connections as the old one did."""
    engine.raw_connection().close()
    before = pool_of(engine)
    engine.dispose()
    assert pool_of(engine) is not before
    assert (before.checkedin(), pool_of(engine).checkedin()) == (0, 0)
    for connection in [engine.raw_connection() for _ in range(3)]:
        connection.close()
    assert pool_of(engine).checkedin() == 2


def test_a_connection_that_is_invalid_is_replaced(engine: Engine) -> None:
    """Its place in the pool is used for the next one."""
    connection = engine.raw_connection()
    lost = connection.dbapi_connection
    connection.invalidate()
    connection.close()
    assert pool_of(engine).checkedout() == 0
    again = engine.raw_connection()
    assert again.dbapi_connection is not lost
    again.close()


def test_an_interrupt_at_any_call_leaves_the_pool_free_for_other_threads(engine: Engine) -> None:
    """Ctrl-C comes where Python starts a function, or is about to return from it."""

    def use() -> None:
        engine.raw_connection().close()

    use()
    moment = 1
    while interrupt(use, moment, events=("call", "return")):
        other = Thread(target=use, daemon=True)
        other.start()
        other.join(60)
        assert not other.is_alive(), f"moment {moment}"
        moment += 1
    assert moment > 20
