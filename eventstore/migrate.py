"""Moving a database's schema to a newer or an older revision."""

from __future__ import annotations

from eventstore.storage.migrations import (
    REVISIONS,
    Progress,
    check,
    downgrade,
    revision,
    upgrade,
)

__all__ = ["REVISIONS", "move"]


def move(
    url: str, to: str | None = None, progress: Progress | None = None
) -> tuple[str | None, str | None]:
    """Bring the schema at a URL up to date, or down to `to`; return the revisions before and after.

    "base" drops all tables of this library. Other tables in the database stay. `progress` is
    called, while events are migrated, with their number so far and with that of all.

    Raises:
        SchemaTooNew, StorageError: The schema is left as it was.
    """
    from eventstore.storage.factory import migrating  # loads SQLAlchemy

    with migrating(url) as connection:
        before = revision(connection)
        check(before)
        if to is None:
            upgrade(connection, progress=progress)
        else:
            downgrade(connection, to, progress)
        return before, revision(connection)
