"""Appending where the tables are spread over nodes by lane, as Citus does.

1. A statement that names one lane by value is sent to one node. A transaction of such statements is
   committed by that node alone. COPY, and a statement that writes to two tables, would be prepared
   on the node first, and committed in a second step.
2. A single event goes in two messages: one locks and moves the lane's counter, and reads the event
   that was seen of the lane; the other inserts the event, and commits.
3. Several events go as rows of one INSERT.

What `single_statement` says of versions, other writers and older copies holds here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError

from eventstore.storage.chain import event_digest
from eventstore.storage.interface import Append, Appended
from eventstore.storage.postgresql.answers import CancelledAt
from eventstore.storage.sql.counter_clauses import BLOCK_EVENTS
from eventstore.storage.sql.log_writer import rows_by_statement
from eventstore.storage.sql.placement import asked_on, check_coordinator
from eventstore.storage.sql.rows import event_row, index_row
from eventstore.storage.sql.transaction_notes import anchor_of

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.postgresql.standby_proof import StandbyProof
    from eventstore.storage.sql.log import Log
    from eventstore.storage.sql.rows import Batch
    from eventstore.storage.sql.statements import Statements
    from eventstore.storage.sql.transaction_notes import TransactionNotes

ROWS = 256
"""Rows that one statement inserts at most."""

CATALOG = "to_regclass('pg_catalog.pg_dist_partition')"
"""What the server knows the catalog of distributed tables as; NULL without the extension."""

IS_CLUSTER = (
    "SELECT count(*) > 1 AND bool_or(groupid = 0) FROM pg_dist_node WHERE noderole = 'primary'"
)
"""Whether there are other nodes than the coordinator, which is one of them."""

COMMIT_FAILED = "could not commit transaction for shard"
"""How an error begins that a node has not answered a COMMIT that was passed on to it."""

LOST_NODE = (COMMIT_FAILED, "postmaster was shut down")
"""How errors of Citus begin that say, as an internal error (XX000), that a node is gone."""

FENCE = "UPDATE toolledger_lanes SET position = position WHERE lane = %s"
"""Is committed by a lane's node: what it has committed before, its standbys have then, too."""

NODE_SETTINGS = (
    "SELECT nodename || ':' || nodeport, result FROM pg_dist_node JOIN "
    "run_command_on_all_nodes('SELECT current_setting(''fsync'') || '' '' || "
    "current_setting(''synchronous_commit'')') USING (nodeid) WHERE success ORDER BY 1"
)
"""The address of each node that answers, and what its commits wait for."""

ONE_ARCHIVES = "SELECT 1 FROM toolledger_store WHERE id = 1 FOR UPDATE"
"""Locks what all nodes have, and no append writes: advisory locks are of one node alone."""

ARCHIVING_WAIT = "2s"
"""How long the lock of the process that archives is waited for, as no node takes NOWAIT."""

MOVE = (
    f"UPDATE toolledger_lanes SET position = position + 1, block = (position + 1) / {BLOCK_EVENTS} "
    "WHERE lane = %s AND block >= %s AND position >= %s RETURNING position"
)
SEEN = (
    "SELECT 1 FROM toolledger_events "
    "WHERE lane = %s AND position = %s AND event_id = %s AND recorded_at = %s"
)


def is_spread(connection: Connection) -> bool:
    """Return whether the lanes' table is distributed; the server has the catalog for it."""
    found = connection.exec_driver_sql(
        "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_dist_partition WHERE partmethod = 'h' "
        "AND logicalrelid = to_regclass('toolledger_lanes'))"
    )
    return bool(found.scalar())


def take_archiving_lock(connection: Connection) -> bool:
    """Take the lock of the process that archives, in a transaction; return whether it was free."""
    connection.exec_driver_sql("BEGIN")
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{ARCHIVING_WAIT}'")
    try:
        connection.exec_driver_sql(ONE_ARCHIVES).fetchall()
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in ("57014", "55P03"):
            return False
        raise
    return True


def weak_node(connection: Connection) -> tuple[str, str] | None:
    """Return the setting by which a node answers COMMIT too early, and its right value."""
    for node, settings in connection.exec_driver_sql(NODE_SETTINGS):
        fsync, commit = settings.split()
        if fsync == "off":
            return f"fsync is off on {node}", "on"
        if commit not in ("on", "remote_apply"):
            return f"synchronous_commit is {commit} on {node}", "on, for this database or role"
    return None


def share(connection: Connection, names: Sequence[str]) -> None:
    """Let all nodes know tables that the coordinator has: they read and write its rows there.

    Raises:
        StorageError: they are not known yet, and this is another node.
    """
    run = connection.exec_driver_sql
    if run(f"SELECT {CATALOG}").scalar() is None or not run(IS_CLUSTER).scalar():
        return
    known = {name for (name,) in run("SELECT logicalrelid::text FROM pg_dist_partition")}
    unknown = [name for name in names if name not in known]
    if unknown:
        check_coordinator(asked_on(connection))
    for name in unknown:
        run(f"SELECT citus_add_local_table_to_metadata('{name}', true)").fetchall()


class LaneTransaction:
    """Stores one event in a transaction of one node; see `parts.SingleStatement`."""

    def __init__(self, log: Log, proof: StandbyProof) -> None:
        self._connections = log.connections
        self._backend = log.backend
        self._sql = log.sql
        self._keys = log.keys
        self._written = log.written
        self._seen = log.seen
        self._proof = proof

    def store(self, request: Append, notes: TransactionNotes) -> Appended | None:
        """Store the event of a request, and note it; return None where more steps are needed."""
        name, written, connections = request.conversation_id, self._written, self._connections
        key = self._keys.known.get(name)
        version, previous = written.digests.get(name, (-1, b""))
        if (
            key is None
            or len(request.drafts) != 1
            or version != request.version
            or name in written.contested
            or request.drafts[0].id_given
            or request.rewrites
            or request.tags
        ):
            return None
        lane, conversation = key
        seen = self._seen.furthest.get(lane)
        if seen is None or seen[0] < max(request.as_of, conversation):
            return None
        draft, version = request.drafts[0], version + 1
        digest = event_digest(previous, version, draft)
        connection = connections.ready_connection()
        connections.in_transaction = True
        try:
            position = self._moved(connection, lane, *seen)
        except BaseException as error:
            connections.roll_back(lost=self._backend.is_connection_lost(error))
            raise
        if position is None:
            connections.roll_back()
            return None
        row = event_row(lane, conversation, position, version, draft, digest)
        mark = index_row(lane, conversation, version, draft) if draft.begins else None
        notes.ends[lane] = position
        try:
            self._insert(connection, row, mark)
        except connections.driver.errors.UniqueViolation:
            written.note_contested(name)
            raise
        connections.in_transaction = False
        written.note_end(lane, position - 1)
        notes.anchors[lane] = anchor_of(position, draft)
        notes.digests[name] = version, digest
        return Appended(lane, version, position)

    def _moved(
        self, connection: Any, lane: int, place: int, event_id: bytearray, recorded_at: int
    ) -> int | None:
        """Lock and move a lane's counter; return None where the lane has not what was seen."""
        waits = self._backend.bounded_wait(connection.cursor())
        with waits, connection.pipeline():
            for statement in self._backend.begin.split("; "):
                connection.execute(statement)
            moved = connection.execute(MOVE, (lane, place // BLOCK_EVENTS, place))
            there = connection.execute(SEEN, (lane, place, event_id, recorded_at))
        row = moved.fetchone()
        return int(row[0]) if row and there.fetchone() else None

    def _insert(self, connection: Any, row: Sequence[Any], mark: Sequence[Any] | None) -> None:
        with CancelledAt(connection, self._proof.watch()), connection.pipeline():
            connection.execute(self._sql.insert, row)
            if mark is not None:
                connection.execute(self._sql.index, mark)
            connection.execute("COMMIT")


def insert_together(cursor: DBAPICursor, sql: Statements, batches: Sequence[Batch]) -> None:
    """Insert the rows of batches, many by each statement, by lane; see `Insert`."""
    lanes: dict[int, list[Batch]] = {}
    for batch in batches:
        lanes.setdefault(batch.key[0], []).append(batch)
    for some in lanes.values():
        for statement, rows in rows_by_statement(sql, some):
            for chunk in _chunks(rows):
                cursor.execute(for_rows(statement, len(chunk)), list(chain.from_iterable(chunk)))


def _chunks(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    left = iter(rows)
    while chunk := list(islice(left, ROWS)):
        yield chunk


def for_rows(statement: str, count: int) -> str:
    """Return the statement that inserts so many rows, from the one that inserts one."""
    head, values, row = statement.partition(" VALUES ")
    return head + values + ", ".join([row] * count)
