"""`ProjectorSettings`: the sizes and times that a projector works with."""

from __future__ import annotations

import msgspec


class ProjectorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and times of a projector; the defaults suit any log.

    Attributes:
        page_events: whole events that are read and folded in one go.
        page_rows: rows of calls that are read in one go.
        rows_per_delete: rows that are deleted in one transaction.
        max_cached_rows: small rows of a lane that memory holds at most; above that, all are
            loaded when needed.
        max_lost_races: attempts after which a transaction that others always overtake is given up.
        create_attempts: attempts to create the tables, which other processes may be creating, too.
        busy_timeout: seconds for which another writer of a file is waited for, or a server that is
            away or takes no writes.
    """

    page_events: int = 1_000
    page_rows: int = 1_000
    rows_per_delete: int = 10_000
    max_cached_rows: int = 200_000
    max_lost_races: int = 1_000
    create_attempts: int = 50
    busy_timeout: float = 30.0


DEFAULT_SETTINGS = ProjectorSettings()
