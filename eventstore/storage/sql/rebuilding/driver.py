"""The steps of making tables anew: beside others in batches, or all at once."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from eventstore.errors import StorageError, StoreBusy
from eventstore.storage.brief_locks import (
    is_not_now,
    lanes_held,
    prepare_changes,
    tried_briefly,
)
from eventstore.storage.migrations import REBUILDING, is_being_made
from eventstore.storage.sql.rebuilding import notes
from eventstore.storage.sql.rebuilding.dependents import refuse_dependents
from eventstore.storage.sql.rebuilding.remains import beside, swept
from eventstore.storage.sql.rebuilding.rights import rights
from eventstore.storage.sql.rebuilding.table import Span, TableAnew, keys, lanes_behind

if TYPE_CHECKING:
    from eventstore.storage.migrations import Progress

BATCH_ROWS = 2000
FEW_ROWS = 500
"""How many rows may be left for the last step, while others wait."""
MOST_ROUNDS = 1000
BATCH_TRIES = 10
VACUUM_SECONDS = 2

_IDLE_LIMIT = "idle_in_transaction_session_timeout"


def rebuild(
    connection: sa.Connection,
    tables: Sequence[TableAnew],
    *,
    locking: Iterable[str] = (),
    progress: Progress | None = None,
) -> None:
    """Make tables anew, and put them in the place of the old ones.

    On PostgreSQL the connection is in the transaction that holds the lock of the schema, and has
    no lock of the tables; the switch is part of it. It locks the tables `locking`, too, for what
    follows in the same transaction. `progress` is called for the last of the tables.

    Raises:
        StoreBusy: the tables are in use by a long transaction; they are as they were.
        StorageError: the transaction is not under READ COMMITTED, or others have built upon the
            tables; nothing was changed.
    """
    if connection.dialect.name not in ("postgresql", "mysql", "mariadb"):
        for table in tables:
            _replace(connection, table, progress)
        return
    if connection.dialect.name == "postgresql":
        level = connection.exec_driver_sql("SHOW transaction_isolation").scalar()
        if level != "read committed":  # it would not see what others have written since
            raise StorageError(f"the transaction is {level}: begin it under READ COMMITTED")
    refuse_dependents(connection, [table.name for table in tables])
    run = _Run(connection, tables, tuple(locking), progress)
    if _is_alone(connection, tables):
        run.all_at_once()
    else:
        run.beside_others()


Batch: TypeAlias = Callable[[], AbstractContextManager[object]]
"""Makes what a batch runs in: a transaction, or nothing where one is under way."""


class _Run:
    """One run: what it has copied so far, and what it does next."""

    def __init__(
        self,
        connection: sa.Connection,
        tables: Sequence[TableAnew],
        locking: tuple[str, ...],
        progress: Progress | None,
    ) -> None:
        self.connection = connection
        self.tables = tables
        self.locking = locking
        self.progress = progress or _untold
        self.own = connection
        """The connection whose transactions are batches."""
        self.token = secrets.token_hex(16)
        self.lanes: list[int] = []
        self.ends: dict[str, dict[int, Any]] = {table.name: {} for table in tables}
        """Up to where the lanes of each table are copied."""
        self.counts = (0, 0)
        self.holds_lanes = False
        self.is_postgresql = connection.dialect.name == "postgresql"

    def all_at_once(self) -> None:
        """Copy while no other process can write: in a transaction, or of empty tables."""
        self._look_at_lanes()
        if self.is_postgresql:
            self._copy_at_once()
            return
        tried_briefly(self.connection, self._copy_with_lanes, locks=self._locked())
        for table in self.tables:
            self.connection.exec_driver_sql(f"DROP TABLE {table.old}")

    def _copy_with_lanes(self) -> None:
        own = self.connection
        with nullcontext() if is_being_made(own) else lanes_held(own, briefly=True):
            for table in self.tables:
                added = (f"{each.name}_new" for each in table.beside)
                for left in (table.new, table.old, *added):
                    self.connection.exec_driver_sql(f"DROP TABLE IF EXISTS {left}")
                self.ends[table.name] = {}
            self._copy_at_once()

    def _copy_at_once(self) -> None:
        for table in self.tables:
            table.create(self.connection, "_new")
        for table in self.tables:
            self._copy_rest(table, table.name, table.new, nullcontext)
            self._complete(table)
            self._look_at(table)
        if self.is_postgresql:
            tried_briefly(self.connection, self._change_places, locks=self._locked())
        else:
            self._change_places()

    def beside_others(self) -> None:
        """Copy in batches, and let the tables change places in one short step."""
        names = [each.name for table in self.tables for each in (table.table, *table.beside)]
        with ExitStack() as stack:
            self.own = stack.enter_context(beside(self.connection))
            if self.is_postgresql:
                stack.enter_context(_idle_for_long(self.connection))
            swept(self.own, names)
            try:
                stack.enter_context(self._begun())
                self._copy_in_rounds()
                tried_briefly(self.connection, self._switch, locks=self._locked())
            except BaseException:
                with suppress(Exception):
                    self._give_up(names)
                raise
            if not self.is_postgresql:
                swept(self.own, names)

    def _give_up(self, names: Iterable[str]) -> None:
        """Remove what there is of this run, while the lock of the schema is held.

        The connection of the batches may be unusable: Ctrl-C in a statement ends it.
        """
        self.connection.exec_driver_sql("SELECT 1")  # raises where that with the lock is lost
        with beside(self.connection) as other:
            swept(other, names)

    @contextmanager
    def _begun(self) -> Generator[None]:
        """Create the new tables, and have changes of the old ones noted, or keep writers waiting.

        The row with the token is there before anything else is.
        """
        run = self.own.exec_driver_sql
        with self._in_transaction():
            columns = "token VARCHAR(32) PRIMARY KEY, batches INTEGER NOT NULL"
            run(f"CREATE TABLE {REBUILDING} ({columns})")
            run(f"INSERT INTO {REBUILDING} (token, batches) VALUES ('{self.token}', 0)")
            self._look_at_lanes()
        noted = True
        for table in self.tables:
            with self._in_transaction():
                noted = notes.begin(self.own, table) and noted
            with self._in_transaction():
                table.create(self.own, "_new")
        if noted:
            yield
            return
        warnings.warn(
            "the user may not create triggers, so writers wait until the tables are copied: "
            "grant the right TRIGGER, or set log_bin_trust_function_creators = 1, to avoid that",
            RuntimeWarning,
            stacklevel=2,
        )
        with lanes_held(self.connection):
            self.holds_lanes = True
            yield

    def _copy_in_rounds(self) -> None:
        for table in self.tables:
            self._copy_rest(table, table.name, table.new, self._batch)
            with self._in_transaction():
                self._complete(table)
            with self._in_transaction():
                self._look_at(table)
        for _ in range(MOST_ROUNDS):
            found = [self._catch_up(table, table.name, table.new) for table in self.tables]
            if sum(found) < FEW_ROWS:
                return

    def _look_at_lanes(self) -> None:
        run, last = self.own.exec_driver_sql, self.tables[-1].name
        found = run(f"SELECT lane, COUNT(*) FROM {last} GROUP BY lane").fetchall()
        known = run("SELECT lane FROM toolledger_lanes").fetchall()
        self.lanes = sorted({row[0] for row in (*found, *known)})
        self.counts = (0, sum(count for _, count in found))

    # copying

    def _copy_rest(
        self, table: TableAnew, source: str, target: str, batch: Batch, *, caught_up: bool = False
    ) -> int:
        """Copy the rows behind those that are copied already, and return how many these are."""
        copied, rows = 0, BATCH_ROWS

        def copy() -> int:
            ends = dict(self.ends[table.name])
            # Before all are copied, none is looked at again: the new table may have no keys yet.
            lanes = [lane for lane in self.lanes if caught_up or lane >= max(ends, default=0)]
            rows = 0
            with batch():
                for lane in lanes_behind(self.own, source, table, lanes, ends):
                    while rows < BATCH_ROWS:
                        found = _next(self.own, source, table, lane, ends.get(lane))
                        if found is None:
                            break
                        span, count = found
                        table.copy(self.own, source, target, span)
                        ends[lane] = span.upto
                        rows += count
                        if count < BATCH_ROWS:  # these were the last ones of the lane
                            break
            self.ends[table.name] = ends
            return rows

        while rows >= BATCH_ROWS:
            rows = _repeated(copy)
            copied += rows
            if table is self.tables[-1]:
                done, total = self.counts
                self.counts = (done + rows, max(total, done + rows))
                self.progress(*self.counts)
        return copied

    def _complete(self, table: TableAnew) -> None:
        """Give a table that is filled what it has besides its rows."""
        table.add_keys(self.own)
        if self.is_postgresql:
            for each in (table.table, *table.beside):
                for right in list(rights(self.own, table.name, f"{each.name}_new")):
                    self.own.exec_driver_sql(right)

    def _look_at(self, table: TableAnew) -> None:
        """Let PostgreSQL count what is in a table, so that it chooses the right indexes."""
        for each in (table.table, *table.beside) if self.is_postgresql else ():
            self.own.exec_driver_sql(f"ANALYZE {each.name}_new")

    def _catch_up(
        self, table: TableAnew, source: str, target: str, batch: Batch | None = None
    ) -> int:
        """Copy what was added and changed; return how many rows and notes these were."""
        batch = batch or self._batch

        def copy() -> int:
            with batch():
                some = notes.some(self.own, table, FEW_ROWS)
                if some:
                    ends = self.ends[table.name]
                    table.copy_again(self.own, source, target, some, ends)
                    notes.forget(self.own, table, some)
            return len(some)

        copied = 0
        if table.grows:
            copied = self._copy_rest(table, source, target, batch, caught_up=True)
        found = FEW_ROWS
        while found == FEW_ROWS:
            found = _repeated(copy)
            copied += found
        return copied

    @contextmanager
    def _batch(self) -> Generator[None]:
        """Begin and commit a transaction, if this is the run that is under way."""
        if self.own is not self.connection:
            self.connection.exec_driver_sql("SELECT 1")  # raises if the schema's lock is lost
        with self._in_transaction():
            moved = self.own.exec_driver_sql(
                f"UPDATE {REBUILDING} SET batches = batches + 1 WHERE token = '{self.token}'"
            )
            if moved.rowcount != 1:
                raise StoreBusy(
                    "another process changes the schema since this one lost its lock; nothing was "
                    "changed: try again when it is done"
                )
            yield

    @contextmanager
    def _in_transaction(self) -> Generator[None]:
        run = self.own.exec_driver_sql
        run("BEGIN ISOLATION LEVEL READ COMMITTED" if self.is_postgresql else "BEGIN")
        try:
            if self.is_postgresql:
                prepare_changes(self.own)
                run(f"SET LOCAL {_IDLE_LIMIT} = '60s'")
            yield
        except BaseException:
            with suppress(Exception):
                run("ROLLBACK")
            raise
        run("COMMIT")

    # the switch

    def _locked(self) -> tuple[str, ...]:
        """Return the tables to lock, first that which each append locks first."""
        names = ("toolledger_lanes", *self.locking, *(table.name for table in self.tables))
        return tuple(dict.fromkeys(names))

    def _switch(self) -> None:
        """Copy the rest while others wait, and let the tables change places."""
        if not self.is_postgresql:
            with nullcontext() if self.holds_lanes else lanes_held(self.connection, briefly=True):
                for table in self.tables:
                    self._catch_up(table, table.name, table.new)
                self._change_places()
                for table in self.tables:  # what does not heed the lanes may have come between
                    self._catch_up(table, table.old, table.name)
            return
        self._end_vacuum()
        for name in self._locked():
            self.connection.exec_driver_sql(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
        ends = {name: dict(lanes) for name, lanes in self.ends.items()}
        own, self.own = self.own, self.connection
        try:
            for table in self.tables:
                self._catch_up(table, table.name, table.new, nullcontext)
            self._change_places()
            self.connection.exec_driver_sql(f"DROP TABLE {REBUILDING}")
        except BaseException:
            self.ends = ends
            raise
        finally:
            self.own = own

    def _end_vacuum(self) -> None:
        """Let PostgreSQL end an autovacuum that is in the way, while no others wait.

        It does so after its `deadlock_timeout`, which is as long as the others' waits may be.
        """
        run = self.connection.exec_driver_sql
        (before,) = run("SHOW lock_timeout").one()
        run(f"SET LOCAL lock_timeout = '{VACUUM_SECONDS}s'")
        run(f"LOCK TABLE {', '.join(self._locked())} IN SHARE UPDATE EXCLUSIVE MODE")
        run(f"SET LOCAL lock_timeout = '{before}'")

    def _change_places(self) -> None:
        run = self.connection.exec_driver_sql
        added = [each.name for table in self.tables for each in table.beside]
        if not self.is_postgresql:
            renames = [
                *(f"{each.name} TO {each.old}, {each.new} TO {each.name}" for each in self.tables),
                *(f"{name}_new TO {name}" for name in added),
            ]
            run(f"RENAME TABLE {', '.join(renames)}")
            return
        for table in self.tables:
            run(f"DROP FUNCTION IF EXISTS {table.noted}() CASCADE")
            run(f"DROP TABLE IF EXISTS {table.noted}")
            run(f"DROP TABLE {table.name}")
            for each in (table.table, *table.beside):
                run(f"ALTER TABLE {each.name}_new RENAME TO {each.name}")
                for name, _, _ in keys(each):  # by its index: Citus renames no constraint
                    run(f"ALTER INDEX {name}_new RENAME TO {name}")


def _untold(_done: int, _total: int) -> None:
    """Keep to itself how far it is."""


def _repeated(batch: Callable[[], int]) -> int:
    """Return what a batch gives; it is run again where the database gave it up for another one."""
    for _ in range(BATCH_TRIES - 1):
        try:
            return batch()
        except DBAPIError as error:
            if not is_not_now(error):
                raise
    return batch()


def _next(
    connection: sa.Connection, source: str, table: TableAnew, lane: int, after: Any
) -> tuple[Span, int] | None:
    """Return the span of the next rows of a lane that are not copied, and about how many."""
    values = {"lane": lane} if after is None else {"lane": lane, "after": after}
    behind = "" if after is None else f"AND {table.order} > :after "
    order = table.order
    asked = f"SELECT {order} FROM {source} WHERE {table.lane} = :lane {behind}ORDER BY {order}"
    upto = connection.execute(sa.text(f"{asked} LIMIT 1 OFFSET {BATCH_ROWS - 1}"), values).scalar()
    if upto is not None:
        return Span(lane, after, upto), BATCH_ROWS
    rest = connection.execute(sa.text(f"{asked} LIMIT {BATCH_ROWS}"), values).scalars().all()
    return (Span(lane, after, rest[-1]), len(rest)) if rest else None


def _is_alone(connection: sa.Connection, tables: Sequence[TableAnew]) -> bool:
    """Return whether the transaction under way keeps others from writing, or there are no rows."""
    if connection.dialect.name != "postgresql":
        asked = (f"SELECT 1 FROM {table.name} LIMIT 1" for table in tables)
        return all(connection.exec_driver_sql(each).scalar() is None for each in asked)
    locked = connection.exec_driver_sql(
        "SELECT 1 FROM pg_locks WHERE pid = pg_backend_pid() AND granted "
        f"AND relation = to_regclass('{tables[-1].name}') "
        "AND mode IN ('ExclusiveLock', 'AccessExclusiveLock')"
    ).scalar()
    return locked is not None


def _replace(connection: sa.Connection, table: TableAnew, progress: Progress | None) -> None:
    """Make a table of a database anew that one process at a time writes to."""
    run = connection.exec_driver_sql
    run(f"ALTER TABLE {table.name} RENAME TO {table.old}")
    table.create(connection, "")
    lanes = run(f"SELECT lane, COUNT(*) FROM {table.old} GROUP BY lane ORDER BY lane").fetchall()
    done, total = 0, sum(count for _, count in lanes)
    for lane, _ in lanes:
        after = None
        while (found := _next(connection, table.old, table, lane, after)) is not None:
            span, rows = found
            table.copy(connection, table.old, table.name, span)
            after = span.upto
            done += rows
            if progress is not None:
                progress(done, total)
    run(f"DROP TABLE {table.old}")


@contextmanager
def _idle_for_long(connection: sa.Connection) -> Generator[None]:
    """Let the transaction that holds the lock of the schema stand still: it locks nothing else."""
    run = connection.exec_driver_sql
    (before,) = run(f"SHOW {_IDLE_LIMIT}").one()
    run(f"SET LOCAL {_IDLE_LIMIT} = 0")
    yield
    run(f"SET LOCAL {_IDLE_LIMIT} = '{before}'")
