"""A storage over any SQL database that SQLAlchemy knows.

Statements are built with SQLAlchemy Core and compiled once; the text then goes straight to the
driver on a connection held from SQLAlchemy's pool, which keeps the driver's own speed.

A storage is made of parts, and only joins them. Each has its rules at the top of its file:

- `connections`: the pool, forks, and connections that are lost;
- `reader`: conversations and the feed, a chunk at a time; `conversation_keys`: what is looked up;
- `log_writer`, over `lane_counters`: what a transaction writes;
- `transaction_notes`: what it will have done, known only after its COMMIT;
- `seen_anchors`: an older copy of the database is noticed, and refused;
- `unanswered_commits`: a lost COMMIT.

An append goes these ways:

1. A single event goes in one statement, where the database's `SingleStatement` takes it.
2. All else goes in one transaction: where the connection is new, what was seen is looked up; then
   the requests are written, and noted; then comes the COMMIT, and what was noted is known.
3. After any error nothing is trusted that was known of the lanes. If only the answer to the COMMIT
   was lost, and everything is found stored, the append has succeeded.
4. A single request is tried again, in a transaction, where it failed through no fault of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from os import getpid
from typing import TYPE_CHECKING, TypeVar

from eventstore.errors import OutcomeUnknown
from eventstore.storage.chain import store_digest
from eventstore.storage.interface import Append, Appended, AppendOutcome, Damage
from eventstore.storage.sql.archives import SqlArchives
from eventstore.storage.sql.backend import translated
from eventstore.storage.sql.connections import backoff_delays
from eventstore.storage.sql.host_commits import tell_afterwards
from eventstore.storage.sql.integrity import lanes_behind, verify
from eventstore.storage.sql.log import Log
from eventstore.storage.sql.log_writer import LogWriter, RebaseFailed
from eventstore.storage.sql.parts import MakeParts, Parts, plain_parts
from eventstore.storage.sql.subject_index import SqlSubjectIndex
from eventstore.storage.sql.transaction_notes import TransactionNotes
from eventstore.storage.sql.unanswered_commits import UnansweredCommits, ids_of

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.sealable_log import SealableLog
    from eventstore.storage.sql.backend import Backend
    from eventstore.subjects.vault import Vault

T = TypeVar("T")


class SqlStorage:
    """The events of one tenant in a SQL database; safe to share between threads and over a fork."""

    def __init__(
        self,
        backend: Backend,
        tenant: str,
        make_parts: MakeParts = plain_parts,
        log: Log | None = None,
    ) -> None:
        self.backend = backend
        self.log = log = log or Log(backend, tenant)
        self._make_parts = make_parts
        self._beside: list[SqlStorage] = []
        self.connections = log.connections
        self._written = log.written
        parts = make_parts(log)
        self.reader = reader = parts.reader
        self._seen = log.seen
        self._losses = log.seen.losses  # up to which nothing is known of own writes any more
        self._single = parts.single
        self._proof = parts.proof
        self._hints = parts.hints
        self._erase = parts.erase
        self._writer = LogWriter(log, reader, parts.insert)
        self.archives = SqlArchives(parts)
        self._wait = parts.proof.wait_until_lasting if parts.proof else reader.wait_until_durable
        self.unanswered = UnansweredCommits(log, self._wait)
        self._is_unanswered = False  # the append under way may be stored, and cannot be looked up
        self.tenant = tenant
        self.epoch = log.epoch
        # What is read is the parts' own business: these are their methods, without a frame between.
        self.lane_of = log.keys.lane_of
        self.conversation = reader.conversation
        self.feed = reader.feed
        self.headers = reader.headers
        self.as_stored = reader.as_stored
        self.payloads = reader.payloads
        self.by_fingerprint = reader.by_fingerprint
        self.conversations = reader.conversations
        self.versions = reader.versions
        self.heads = reader.heads
        self.anchors_at = reader.anchors_at
        self.known_ids = self.unanswered.known_ids
        self.event_id_at = self.unanswered.event_id_at
        self.forget = log.seen.forget

    @property
    def url(self) -> str:
        """The database; see `Storage.url`."""
        return self.backend.url.render_as_string(hide_password=False)

    @property
    def server_time(self) -> Callable[[], int] | None:
        """What asks the server for its time; see `Storage.server_time`. It asks once."""
        query = self.backend.time_query
        return None if query is None else partial(self._server_time, query)

    @property
    def commits_by_lane(self) -> bool:
        """Whether lanes commit at the same time; see `Storage.commits_by_lane`."""
        return self.backend.commits_by_lane

    def beside(self) -> SqlStorage:
        """Return one that appends at the same time; see `Storage.beside`."""

        def parts(log: Log) -> Parts:
            return self._make_parts(log)._replace(hints=self._hints)

        other = SqlStorage(self.backend, self.tenant, parts, self.log.beside())
        self.unanswered.others.append(other.unanswered)
        self._beside.append(other)
        return other

    @property
    def timeline(self) -> int:
        """A number that changes where the log was found to be another; see `Storage.timeline`."""
        return self._seen.timeline

    def _server_time(self, query: str) -> int:
        with translated(self.backend), self.connections.cursor() as cursor:
            cursor.execute(query)
            ((now,),) = cursor.fetchall()
            return int(now)

    @property
    def sealable_log(self) -> SealableLog:
        """The log as it is sealed; see `Storage.sealable_log`."""
        return self._sealable_log

    @cached_property
    def _sealable_log(self) -> SealableLog:
        from eventstore.storage.sql.seals import SqlSealableLog  # few need it

        return SqlSealableLog(self.reader, self._proof, self._wait)

    def hints(
        self, heard: Callable[[], object], /
    ) -> AbstractContextManager[Callable[[], bool] | None]:
        """Call `heard` when other processes have appended; see `Storage.hints`."""
        return nullcontext() if self._hints is None else self._hints.listen(heard)

    def tell_after(self, connection: Connection) -> None:
        """Tell the waiters of what a host's transaction stores, once it has ended."""
        if self._hints is not None:
            tell_afterwards(connection, self._hints.send_to_all)

    def verify(self) -> Iterator[Damage]:
        """Report what is wrong with the stored rows; see `Storage.verify`."""
        return verify(self.reader)

    def erase(self) -> tuple[str, ...]:
        """Clear what is left of redacted payloads; see `Storage.erase`."""
        with self.connections.lock, translated(self.backend):
            return self._erase(self.reader)

    def unlock(self, vault: Vault) -> None:
        """Read from now on what is encrypted; see `Storage.unlock`."""
        for storage in (self, *self._beside):
            storage.log.vault = vault

    @property
    def subjects(self) -> SqlSubjectIndex:
        """The index of the persons that events are about; see `Storage.subjects`."""
        return self._subjects

    @cached_property
    def _subjects(self) -> SqlSubjectIndex:
        return SqlSubjectIndex(self.reader, self._write_beside)  # it takes some ms: few need it

    def close(self) -> None:
        """Give up the connections, after the last hint. A second call does nothing."""
        connections = self.connections
        is_first = connections.beside is None
        if is_first and self._hints and not connections.closed and connections.pid == getpid():
            self._hints.close()
        for other in self._beside:
            other.close()
        connections.close()

    # appending

    def append(self, requests: Sequence[Append]) -> list[AppendOutcome]:
        """Store the drafts of the requests; see `Storage.append`."""
        connections = self.connections
        outcomes: list[AppendOutcome]
        if connections.pid != getpid():
            connections.check()
        with connections.lock:
            self._is_unanswered = False
            try:
                if connections.closed:
                    connections.check()
                self.backend.check_in_place()
                if self._losses != self._seen.losses:
                    self._pass_loss()
                if len(requests) == 1 and requests[0].drafts:
                    outcomes = [self._append_one(requests[0])]
                else:
                    outcomes = list(self._in_one_transaction(requests))
            except RebaseFailed as failed:
                outcomes = [failed.reason] * len(requests)
            except Exception as error:
                if self._is_unanswered and not isinstance(error, OutcomeUnknown):
                    reason = str(self.backend.translate(error))
                    raise OutcomeUnknown(reason, ids_of(requests)) from error
                connections.raise_ours(error)
        if self._hints is not None:
            self._hints.send()
        return outcomes

    def _pass_loss(self) -> None:
        """Trust nothing that was known before a loss; refuse to write until it is accepted."""
        losses = self._seen.losses
        self._seen.check_accepted()
        self._written.forget()
        self._losses = losses

    def _append_one(self, request: Append) -> AppendOutcome:
        """Store one request that has drafts."""
        began = time.monotonic()
        try:
            return self._in_one_statement(request) or self._in_one_transaction([request])[0]
        except Exception as error:  # noqa: BLE001 - judged there
            return self._retry(request, error, began + self.backend.busy_timeout)

    def _retry(self, request: Append, error: Exception, until: float) -> AppendOutcome:
        """Try again where an append failed through no fault of its own."""
        contradicted = False
        delays = backoff_delays(until)
        while True:
            if isinstance(error, self.connections.driver.IntegrityError) and not contradicted:
                # The state was older than `as_of` said: decide on what stands there.
                contradicted = True
            elif self.unanswered.lanes or not (
                self.backend.is_transient(error) or self.backend.is_connection_lost(error)
            ):
                raise error
            else:
                self.backend.check_sizes(request.drafts)
                delay = next(delays, None)
                if delay is None:
                    raise error
                time.sleep(delay)
            try:
                return self._in_one_transaction([request])[0]
            except Exception as failed:  # noqa: BLE001 - judged above
                error = failed

    def _in_one_statement(self, request: Append) -> AppendOutcome | None:
        """Store one event in one statement; return None where a transaction must do it."""
        if self._single is None:
            return None
        notes = TransactionNotes()
        try:
            done = self._single.store(request, notes)
        except BaseException as error:
            if not notes.ends:  # nothing was sent
                raise
            ((lane, before),) = notes.ends.items()
            expected = [Appended(lane, request.version + 1, before)]
            if not self._is_done(error, [request], expected, notes):
                raise
            found = next(self.conversation(request.conversation_id, request.version))
            return Appended(lane, found.version, found.position)
        if done is not None:
            self._know(notes, [request])
        return done

    def _in_one_transaction(self, requests: Sequence[Append]) -> Sequence[AppendOutcome]:
        connections = self.connections
        cursor = connections.writer()
        notes = TransactionNotes()
        outcomes: Sequence[AppendOutcome] = ()
        connections.in_transaction = True
        try:
            # Where lanes live apart, each is proven when it is locked: another's node may be away.
            if connections.opened != connections.proven and not self.backend.commits_by_lane:
                self._seen.prove(cursor)
                connections.proven = connections.opened
            if not self.log.sql.compound:
                cursor.execute(self.backend.begin)
            outcomes = self._writer.write(cursor, requests, notes)
            self._commit(cursor, notes.commit)
        except BaseException as error:
            if not self._is_done(error, requests, outcomes, notes):
                raise
            return outcomes
        connections.in_transaction = False
        self._know(notes, requests)
        return outcomes

    def _commit(self, cursor: DBAPICursor, statement: str) -> None:
        """End the transaction under way."""
        if self._proof is None:
            cursor.execute(statement)
        else:
            self._proof.commit(cursor, statement)

    def _know(self, notes: TransactionNotes, requests: Sequence[Append]) -> None:
        """Know from now on what a transaction has done whose COMMIT was answered."""
        if self._proof is not None:  # before: what may be taken back replaces nothing that was seen
            self._proof.require(requests)
        written = self._written
        self._seen.furthest |= notes.anchors
        written.ends |= notes.ends
        written.digests |= notes.digests  # last: a single statement takes the rest for known then
        if notes.keys:
            self.log.keys.remember(notes.keys)

    def _is_done(
        self,
        error: BaseException,
        requests: Sequence[Append],
        outcomes: Sequence[AppendOutcome],
        notes: TransactionNotes,
    ) -> bool:
        """Clean up after a transaction; return whether only the answer to its COMMIT was lost."""
        # Whatever happened (a refusal, a full disk, Ctrl-C): trust nothing known before.
        lost = self.backend.is_connection_lost(error)
        is_refused = isinstance(error, self.connections.driver.IntegrityError)
        if outcomes and self.backend.commits_by_lane and not is_refused:
            lost = True  # the COMMIT was passed on to a node, which may have done it all the same
        if lost and outcomes:
            self.unanswered.lanes.update(notes.ends)
        self._written.forget()
        self.connections.roll_back(lost=lost)
        is_drivers = isinstance(error, self.connections.driver.Error)
        if outcomes and is_drivers and self.unanswered.are_stored(requests, outcomes):
            return True
        unresolved = bool(self.unanswered.lanes) and lost
        self._is_unanswered = bool(outcomes) and (
            unresolved or self.backend.is_commit_in_doubt(error)
        )
        return False

    def accept_loss(self) -> None:
        """Record that the loss of events is known; see `Storage.accept_loss`."""
        lanes, behind = len(self.log.lanes), lanes_behind(self.reader)
        mark, now = os.urandom(8).hex(), time.time_ns() // 1000
        digest = store_digest(mark.encode(), lanes, now)

        def write(cursor: DBAPICursor) -> None:
            self.log.counters.lock(cursor, 0)  # so that two do not take the same number
            cursor.execute("SELECT MAX(id) FROM toolledger_store")
            last = cursor.fetchall()[0][0]
            row = (last + 1, mark, lanes, now, bytearray(digest))
            cursor.execute(self.log.sql.insert_store, row)
            for lane, end in behind.items():
                head = self.log.counters.lock(cursor, lane)
                cursor.execute(self.log.sql.advance, (max(head, end), lane, head))

        self._write_beside(write)

    def _write_beside(self, write: Callable[[DBAPICursor], T]) -> T:
        """Write what is no event, in a transaction; `write` may be called again."""
        connections = self.connections

        def attempt() -> T:
            with connections.transaction() as cursor:
                result = write(cursor)
                self._commit(cursor, "COMMIT")
                return result

        with connections.lock:
            try:
                return connections.retrying(attempt)
            finally:
                self._written.forget()
