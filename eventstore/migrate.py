"""Moving a database's schema to another revision, and its tables into partitions or over nodes."""

from __future__ import annotations

import msgspec

from eventstore.storage.migrations import (
    REVISIONS,
    STEPS,
    Progress,
    check,
    downgrade,
    epoch,
    events,
    is_under_way,
    refuse_archived,
    refuse_upwards,
    revision,
    upgrade,
)

__all__ = [
    "REVISIONS",
    "SchemaState",
    "distribute",
    "inspect",
    "move",
    "partition",
    "undistribute",
]


class SchemaState(msgspec.Struct, frozen=True):
    """What a database's schema is at, and what an upgrade would do."""

    database: str
    """Its URL, without secrets."""
    revision: str | None
    """Its revision; None where the database holds no store."""
    latest: str
    """The revision that this version of the library writes."""
    epoch: str | None
    """The mark of the store, which no other store has; None without a store."""
    events: int
    """How many events there are."""
    is_broken_off: bool
    """Whether a migration, or a move of the tables, runs or was broken off."""
    steps: tuple[str, ...]
    """What each step of the upgrade does, in order; empty where nothing is to be done."""

    @property
    def is_current(self) -> bool:
        """Whether nothing is to be done."""
        return self.revision == self.latest and not self.is_broken_off


def inspect(url: str) -> SchemaState:
    """Return what an upgrade of the database at a URL would do; nothing is changed.

    Raises:
        NotAStore, SchemaTooNew, StorageError: the database cannot be used.
    """
    from eventstore.storage.factory import backend_for  # loads SQLAlchemy
    from eventstore.storage.sql.backend import translated
    from eventstore.storage.sql.opening import read_schema
    from eventstore.storage.urls import shown

    backend = backend_for(url)
    found, mark, count, broken_off = read_schema(
        backend, lambda each: (revision(each), epoch(each), events(each), is_under_way(each))
    )
    with translated(backend):
        check(found)
    done = 0 if found is None else REVISIONS.index(found) + 1
    steps = tuple(f"{each}: {STEPS[each]}" for each in REVISIONS[done:])
    name = shown(backend.url)
    return SchemaState(name, found, REVISIONS[-1], mark, count, broken_off, steps)


def move(
    url: str,
    to: str | None = None,
    progress: Progress | None = None,
    *,
    lanes: int | None = None,
) -> tuple[str | None, str | None]:
    """Bring the schema at a URL up to date, or down to `to`; return the revisions before and after.

    "base" drops all tables of this library. Other tables in the database stay. `progress` is
    called, while events are migrated, with their number so far and the number of all. A new store
    gets `lanes`, which is 16 on servers if nothing is said, and 1 in a SQLite file.

    Raises:
        ValueError: `lanes` makes no sense, or the store has another number; or the schema is older
            than `to`.
        SchemaTooNew, StorageError: The schema is left as it was.
    """
    from eventstore.storage.factory import migrating  # loads SQLAlchemy
    from eventstore.storage.sql.distribution import refuse_distributed
    from eventstore.storage.sql.lane_count import check_lanes
    from eventstore.storage.sql.partitions import refuse_partitioned, tidy

    with migrating(url) as connection:
        before = revision(connection)
        check(before)
        if lanes is not None:
            check_lanes(connection, lanes, exists=before is not None)
        tidy(connection)
        if to is None:
            upgrade(connection, progress=progress, lanes=lanes)
        else:
            if to != "base":
                refuse_upwards(before, to)
                refuse_partitioned(connection)
                refuse_distributed(connection)
            refuse_archived(connection, to)
            downgrade(connection, to, progress)
        return before, revision(connection)


def partition(url: str, count: int, progress: Progress | None = None) -> int:
    """Put a server's events into `count` partitions by lane; return how many there were.

    With 1 they are in one table again. The schema is brought up to date first. Processes that have
    the store open go on reading and writing meanwhile, and wait for a moment at the end. `progress`
    is called as for `move`.

    Raises:
        ValueError: the store has fewer lanes, or is a SQLite file.
        SchemaTooNew, StorageError: the tables are left as they were.
    """
    from eventstore.storage.factory import migrating  # loads SQLAlchemy
    from eventstore.storage.sql.partitions import partition as divide
    from eventstore.storage.sql.partitions import partitions

    move(url)
    with migrating(url) as connection:
        before = partitions(connection)
        if before != count:
            divide(connection, count, progress)
        return before


def distribute(url: str, shards: int | None = None, progress: Progress | None = None) -> bool:
    """Spread a log over the nodes of a Citus cluster by lane; return whether anything was moved.

    The schema is brought up to date first. Processes that have the store open go on: they wait for
    a moment at the end. `shards` is by choice; without it the number is taken that gives the nodes
    the most equal shares. `progress` is called with the number of events that were copied, and with
    that of all.

    Raises:
        ValueError: it is no PostgreSQL with Citus, or `shards` makes no sense.
        StorageError: the tables are partitioned, or the URL names a worker.
        StoreBusy: long transactions were in the way; the tables are left as they were.
    """
    from eventstore.storage.factory import migrating  # loads SQLAlchemy
    from eventstore.storage.sql.distribution import distribute as spread
    from eventstore.storage.sql.distribution import prepare

    move(url)
    with migrating(url) as connection:
        needed = prepare(connection, shards)
    if needed:
        with migrating(url) as connection:
            spread(connection, shards, progress)
    return needed


def undistribute(url: str, progress: Progress | None = None) -> bool:
    """Bring a log that is distributed back to the coordinator; return whether it was anywhere else.

    Writers wait meanwhile, and then continue; readers do not wait. `progress` is called as for
    `distribute`.

    Raises:
        ValueError: it is no PostgreSQL with Citus.
        StorageError: the URL names a worker.
        StoreBusy: long transactions were in the way; the tables are left as they were.
    """
    from eventstore.storage.factory import migrating  # loads SQLAlchemy
    from eventstore.storage.sql.distribution import undistribute as gather

    move(url)
    with migrating(url) as connection:
        return gather(connection, progress)
