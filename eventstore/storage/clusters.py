"""Servers of MariaDB or MySQL that are one database: Galera, and group replication.

1. Each server of such a cluster may take writes, and they are put in one order. Of two transactions
   that change the same row on two servers the later one is refused, at its COMMIT or before.
2. So a lane's counter, which each append moves, keeps positions without gaps, though a row that is
   locked on one server is not on the others.
3. A server may be behind with what the others have committed. Sessions ask each read, and each
   BEGIN, to wait until the server has all of it (`settings`): what was seen on one server is there
   on the next one.
4. A server that joins, or was cut off from most of the others, is not to be used (`Standing`). One
   that has started, and is in no group yet, would even take writes that no other gets.
5. A COMMIT without an answer may take place later, from a server that was frozen, as no lock keeps
   it from that. It is refused if a change of the same lane comes before it: see `FENCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from enum import IntEnum
from typing import Any, NamedTuple

NOT_READY = 1047
"""The error of a server that is not part of its cluster, or not yet."""

NOT_IN_GROUP = frozenset({3781, 3782, 3783, 3796, 3797, 3799})
"""What group replication refuses a transaction with that begins on such a server."""

LOCKS, SCHEMA = "toolledger_locks", "schema"
"""The table of the locks of a cluster, see `mysql.leases`; the lock of changes of the schema."""

FENCE = (
    "UPDATE toolledger_lanes SET position = position + 1 WHERE lane = %s",
    "UPDATE toolledger_lanes SET position = position - 1 WHERE lane = %s",
)
"""What changes a lane in the cluster's order of commits, and leaves it as it is."""

_VARIABLES = """\
SHOW GLOBAL VARIABLES WHERE Variable_name IN (
    'wsrep_on', 'wsrep_provider', 'wsrep_reject_queries', 'group_replication_group_name',
    'read_only', 'offline_mode'
)"""
_STATUS = """\
SHOW GLOBAL STATUS WHERE Variable_name IN (
    'wsrep_ready', 'wsrep_cluster_status', 'wsrep_local_state', 'wsrep_local_state_comment'
)"""
_ASK_GROUP = "SELECT group_replication_get_communication_protocol()"
"""What only a member that is online, and sees most of the others, answers; it takes no rights."""
_SYNCED, _DONOR = "4", "2"
_NOT_INITIALIZED, _UNKNOWN_FUNCTION = 1123, 1305

Run = Callable[[str], Sequence[Any]]
"""Runs a statement, and returns its rows, or raises the driver's error."""


def runner(connection: Any) -> Run:
    """Return what runs statements on a connection of the driver."""

    def run(statement: str) -> Sequence[Any]:
        with closing(connection.cursor()) as cursor:
            cursor.execute(statement)
            rows: Sequence[Any] = cursor.fetchall()
            return rows

    return run


class Cluster(NamedTuple):
    """A kind of cluster."""

    settings: Mapping[str, str]
    """Session settings by which what is read has all that was committed before, on any server."""
    in_doubt: frozenset[int]
    """Errors of a COMMIT after which the other servers may have the transaction."""


GALERA = Cluster(
    {"wsrep_sync_wait": "@@SESSION.wsrep_sync_wait | 1", "wsrep_dirty_reads": "OFF"},
    # Not 1213: all servers judge alike whether a transaction comes too late.
    frozenset({1180, 1317}),
)
GROUP_REPLICATION = Cluster(
    {
        "group_replication_consistency": (
            "IF(RIGHT(@@SESSION.group_replication_consistency, 5) = 'AFTER', "
            "'BEFORE_AND_AFTER', 'BEFORE')"
        )
    },
    # The last one also comes to a server that leaves its group, while the others go on.
    frozenset({1180, 1317, 3100, 3101}),
)


class Use(IntEnum):
    """What a server is good for."""

    FULL = 0
    SPARE = 1
    """It is behind, as one that gives a copy to another is: only where no other server answers."""
    NONE = 2


class Standing(NamedTuple):
    """What a server says of itself."""

    cluster: Cluster | None
    use: Use
    words: str


def standing(run: Run, *, reads_only: bool = False) -> Standing:
    """Ask a server what cluster it is part of, and whether it can be used now."""
    variables = _named(run(_VARIABLES))
    if is_galera(variables.get("wsrep_on"), variables.get("wsrep_provider")):
        if variables.get("wsrep_reject_queries", "NONE") != "NONE":  # it says so, and no more
            return Standing(GALERA, Use.NONE, "the node rejects queries")
        return _galera(_named(run(_STATUS)))
    cluster = GROUP_REPLICATION if variables.get("group_replication_group_name") else None
    if variables.get("offline_mode") == "ON":
        return Standing(cluster, Use.NONE, "the server is offline")
    if cluster is not None and not _is_in_group(run):
        return Standing(cluster, Use.NONE, "the server is not in its group, or with few others")
    if variables.get("read_only", "OFF") != "OFF" and not reads_only:
        return Standing(cluster, Use.NONE, "the server takes no writes")
    return Standing(cluster, Use.FULL, "the server takes writes")


def is_galera(on: object, provider: object) -> bool:
    """Return whether a server is part of a Galera cluster, by its variables `wsrep_…`."""
    return on in ("ON", 1) and provider not in (None, "", "none")


def risk_of_split(options: str) -> tuple[str, str] | None:
    """Return what lets two halves of a cluster write apart, as `weak_durability` does.

    One half loses what it wrote when they meet again. `options` are those of the provider.
    """
    pairs = (option.strip().partition(" = ") for option in options.split(";"))
    found = {name: value for name, _, value in pairs}
    for name in ("pc.ignore_sb", "pc.ignore_quorum"):
        if found.get(name, "").lower() in ("true", "yes", "on", "1"):
            return f"{name} is {found[name]}", "false"
    return None


def _galera(status: Mapping[str, str]) -> Standing:
    part, state = status.get("wsrep_cluster_status", ""), status.get("wsrep_local_state", "")
    words = f"the node is {status.get('wsrep_local_state_comment')!r} in the component {part!r}"
    if status.get("wsrep_ready") != "ON" or part != "Primary":
        return Standing(GALERA, Use.NONE, words)
    return Standing(GALERA, {_SYNCED: Use.FULL, _DONOR: Use.SPARE}.get(state, Use.NONE), words)


def _is_in_group(run: Run) -> bool:
    try:
        run(_ASK_GROUP)
    except Exception as error:
        if _NOT_INITIALIZED in error.args:
            return False
        if _UNKNOWN_FUNCTION not in error.args:  # MySQL before 8.0.16
            raise
    return True


def _named(rows: Sequence[Any]) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in rows}
