"""Moving a database's schema to a newer or an older revision, and its events into partitions."""

from __future__ import annotations

from eventstore.storage.migrations import (
    REVISIONS,
    Progress,
    check,
    downgrade,
    revision,
    upgrade,
)

__all__ = ["REVISIONS", "move", "partition"]


def move(
    url: str, to: str | None = None, progress: Progress | None = None
) -> tuple[str | None, str | None]:
    """Bring the schema at a URL up to date, or down to `to`; return the revisions before and after.

    "base" drops all tables of this library. Other tables in the database stay. `progress` is
    called, while events are migrated, with their number so far and the number of all.

    Raises:
        SchemaTooNew, StorageError: The schema is left as it was.
    """
    from eventstore.storage.factory import migrating  # loads SQLAlchemy
    from eventstore.storage.sql.partitions import refuse_partitioned, tidy

    with migrating(url) as connection:
        before = revision(connection)
        check(before)
        tidy(connection)
        if to is None:
            upgrade(connection, progress=progress)
        else:
            if to != "base":
                refuse_partitioned(connection)
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
