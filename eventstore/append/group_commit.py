"""`GroupCommitter`: appends that wait at the same time are committed together.

The rule:

1. The first thread to append becomes the leader. Every other thread queues its append and blocks.
2. The leader commits its own append together with every append queued so far (at most
   `MAX_GROUP_APPENDS`), in one transaction. Each append keeps its own outcome: a conflict in one
   fails that one alone.
3. Then it hands leadership to the oldest append still waiting, and returns. It never waits for
   more appends to come.
4. If the transaction fails as a whole, the appends of the group are committed one by one, so that
   the error reaches the append that caused it.
5. Where lanes live on several nodes, the appends of each lane have a transaction of their own.
6. An exclusive append (one that looks things up in the log) has a transaction of its own.

      thread A   lead ── commit [A] ──────── hand over to B ── return
      thread B      queue ─ block ············· lead ── commit [B C D] ── hand over to E ── return
      thread C        queue ─ block ·································· woken: return
      thread D           queue ─ block ······························· woken: return
      thread E                                  queue ─ block ············· lead ── …

What holds at each step:

- *Serial.* Every commit runs under `_lock`. Two leaders at a time are harmless: one waits for the
  other. Leadership only saves threads from queueing for the lock, it does not protect anything.
- *Taken once.* An append leaves the queue in one atomic step (`popleft`, `remove`), and one that
  is `finished` is never committed again.
- *No lost wakeup.* A thread first queues its append, then reads `_leading`. A leader first clears
  `_leading` if the queue is empty, then reads the queue again. The second of the two sees the
  other: either the thread leads by itself, or the leader finds its append and wakes it.
- *Hand-over.* `leads` is set on the successor before it is woken. A successor that was taken along
  by another leader meanwhile is finished, and passes leadership on without committing.
- *Interrupts.* An exception (Ctrl-C) may come between any two steps. `finally` hands over and takes
  an unfinished append out of the queue. If the interrupt comes within the hand-over itself, the
  waiting threads look for themselves after `RECHECK_SECONDS`, and one leads.
- *State.* What an append is decided on, and what is known of one that was broken off, are in
  `known_states`.
- *Time.* The time of an append is that of the database. A server is asked for it again after a
  commit, and only where its last answer is old: see `DatabaseClock`. Before it, a server that does
  not answer would be waited for twice.
- *Nesting.* A thread in the middle of an append cannot append again (from a signal handler, a
  finalizer or the clock): it would wait for itself. It is refused.

Why: a commit costs as much for 256 appends as for one (it waits for the disk), so throughput grows
with the number of callers, and a single caller pays nothing for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from threading import Lock, RLock, get_ident
from time import monotonic
from typing import TypeVar

from eventstore.append.command import Command, PendingAppend
from eventstore.append.conversation_state import ConversationState, detached_copy
from eventstore.append.door import Door
from eventstore.append.known_states import MAX_CACHED_STATES, KnownStates, unknown_outcome
from eventstore.append.shared_timeouts import MIN_WAIT_SECONDS, SharedTimeouts
from eventstore.append.tool_fold import fold_tools
from eventstore.clock import DatabaseClock
from eventstore.domain.events import Recorded
from eventstore.domain.tool import Tool
from eventstore.errors import (
    EventStoreError,
    OutcomeUnknown,
    StorageError,
    StoreClosed,
    UnknownCall,
)
from eventstore.notifications.local import notifier_for
from eventstore.storage.interface import Storage

MAX_GROUP_APPENDS = 256
"""Appends that a leader commits together at most."""

RECHECK_SECONDS = 1.0
"""Time after which a waiting append checks by itself whether there is a leader."""

T = TypeVar("T")


class GroupCommitter:
    """Appends to a storage, for many threads, and remembers the conversations' states.

    Each append is decided on the state that it really follows, and has its own outcome.
    `recheck_interval` and `min_shared_wait` (see `SharedTimeouts`) are in seconds. `door` has the
    rules for what is stored.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Callable[[], int],
        *,
        max_cached_states: int = MAX_CACHED_STATES,
        recheck_interval: float = RECHECK_SECONDS,
        min_shared_wait: float = MIN_WAIT_SECONDS,
        door: Door | None = None,
    ) -> None:
        self.clock = clock
        self.door = door
        self._server_clock = clock if isinstance(clock, DatabaseClock) else None
        self.closed = False
        self.storage = storage
        self._max_cached_states = max_cached_states
        self._recheck_interval = recheck_interval
        self._min_shared_wait = min_shared_wait
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        """Start again: a forked child has no thread that held a lock or changed a state."""
        self.notifier = notifier_for(self.storage.epoch)
        self._lock = RLock()
        self._states = KnownStates(self._max_cached_states)
        self._leading = False  # there is a leader: other threads queue their appends
        self._waiting: deque[PendingAppend] = deque()
        self._leader_thread = 0  # the thread that commits, 0 if no thread does
        self._timeouts = SharedTimeouts(self._min_shared_wait)

    def __len__(self) -> int:
        """Return how many appends wait for the one that is being committed."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether no append is being committed, and none waits."""
        return not (self._leading or self._leader_thread or self._waiting)

    def keep_time(self) -> None:
        """Ask a server for its time if its last answer is old."""
        if self._server_clock is not None:
            self._server_clock.keep()

    def opened(self) -> Storage:
        """Return the storage.

        Raises:
            StoreClosed: the store was closed.
        """
        if self.closed:
            raise StoreClosed("the store is closed: open it again with EventStore.open()")
        return self.storage

    def run(self, command: Command[T]) -> T:
        """Append what the command decides, and return its result.

        Raises:
            StoreClosed, StorageError: nothing was appended.
            EventStoreError: the decision was refused; nothing was appended.
        """
        pending = PendingAppend(self.clock, self.events, command, monotonic(), door=self.door)
        leads = False
        try:
            if self._leading:
                leads = self._wait(pending)
            if not pending.finished:
                # Several threads may do so at once: then they lead one after the other.
                self._leading = leads = True
                with self._lock:
                    if not pending.finished:
                        self._commit(pending)
        finally:
            if leads or not pending.finished:
                self._hand_over(pending)
        if pending.error is not None:
            raise pending.error
        return command.result(pending)

    def commit_together(self, group: Sequence[PendingAppend]) -> None:
        """Commit appends for which no thread waits; each holds its outcome then."""
        try:
            with self._lock:
                self._commit(group[0], group[1:])
        except BaseException as error:  # noqa: BLE001 - it is the outcome of all of them
            for pending in group:
                if not pending.finished:
                    pending.finish(error)

    # leading and waiting

    def _wait(self, pending: PendingAppend) -> bool:
        """Block until the append is finished or its turn to lead comes; return whether it leads."""
        if self._leader_thread == get_ident():
            raise _nested_append()
        wakeup = pending.wakeup = Lock()
        wakeup.acquire()
        self._waiting.append(pending)
        # A leader may have been interrupted just as it was to hand over, hence the time limit.
        # If it was not, there are two leaders for a while, and one waits for the other.
        if self._leading and wakeup.acquire(timeout=self._recheck_interval):
            return pending.leads
        return True

    def _hand_over(self, pending: PendingAppend) -> None:
        """Let another append lead; take this one out of the queue if it is still there."""
        waiting = self._waiting
        if not pending.finished:
            with suppress(ValueError):
                waiting.remove(pending)
        if not waiting:
            self._leading = False
        # Only now: an append that was queued just before has seen `_leading`, or is seen here.
        if waiting:
            with suppress(IndexError):  # another leader has taken them along
                successor = waiting[0]
                self._leading = successor.leads = True
                successor.wake()

    # committing

    def _commit(self, own: PendingAppend, others: Sequence[PendingAppend] = ()) -> None:
        """Commit `own`, the `others`, and every append that waits by now."""
        thread = get_ident()
        if self._leader_thread == thread:
            raise _nested_append()
        storage = self.opened()
        group = [own]
        self._leader_thread = thread
        try:
            if others or self._waiting:
                group += [*others, *self._take_waiting(own)]
                self._commit_group(group, storage)
            else:
                self._commit_one(own, storage)
            self.keep_time()
        finally:
            self._leader_thread = 0
            if self.notifier.listeners:
                self.notifier.notify({pending.command.conversation_id for pending in group})

    def _take_waiting(self, own: PendingAppend) -> list[PendingAppend]:
        taken: list[PendingAppend] = []
        with suppress(IndexError):
            while len(taken) < MAX_GROUP_APPENDS:
                taken.append(self._waiting.popleft())
        return [pending for pending in taken if pending is not own and not pending.finished]

    def _commit_group(self, group: list[PendingAppend], storage: Storage) -> None:
        """Commit all in one transaction, each with its own outcome; one by one if that fails."""
        for some in self._transactions(group, storage):
            with suppress(Exception):  # which append caused it comes out below
                self._states.store_together(some, storage)
        for pending in group:
            if not pending.finished:
                try:
                    self._commit_one(pending, storage)
                except Exception as error:  # noqa: BLE001 - it is the outcome of this one
                    pending.finish(error)
                pending.wake()

    def _transactions(
        self, group: Sequence[PendingAppend], storage: Storage
    ) -> Iterable[list[PendingAppend]]:
        """Return the appends that share a transaction: of one lane, where lanes live apart."""
        appends = self._may_share(group)
        if not storage.commits_by_lane:
            return [appends]
        lanes: dict[int, list[PendingAppend]] = {}
        for pending in appends:
            lane = storage.lane_of(pending.command.conversation_id)
            lanes.setdefault(lane, []).append(pending)
        return [some for some in lanes.values() if len(some) > 1]

    def _may_share(self, group: Sequence[PendingAppend]) -> list[PendingAppend]:
        """Return the appends that may share a transaction."""
        if any(pending.enqueued_at <= self._timeouts.last_began for pending in group):
            return []  # one by one, so that their order stays
        # One that was staged in a group that was broken off may be stored: see `known_states`.
        return [p for p in group if not p.command.exclusive and p.staged is None]

    def _commit_one(self, pending: PendingAppend, storage: Storage) -> None:
        """Commit one append by itself, unless a wait that failed was its wait, too."""
        timeouts, name, began = self._timeouts, pending.command.conversation_id, monotonic()
        if pending.enqueued_at <= timeouts.last_began:
            error = timeouts.error(storage.lane_of(name), pending.enqueued_at)
            if error is not None:
                raise error
        try:
            self._states.store(pending, storage)
        except StorageError as error:
            timeouts.record(error, storage.lane_of(name), began, monotonic())
            if isinstance(error, OutcomeUnknown):
                raise unknown_outcome(error, pending) from error
            raise

    # the states of conversations

    def forget_states(self) -> None:
        """Forget the states of all conversations: they are read again."""
        self._states.forget()

    def remembered_state(self, conversation_id: str) -> ConversationState:
        """Return a copy of the cached state, or an empty one if none can be had now."""
        state = None
        # Do not block here: the lock's holder may be waiting for this caller's transaction
        # (deadlock).
        if self._lock.acquire(blocking=False):
            try:
                state = self._states.copy_of(conversation_id, self.storage)
            finally:
                self._lock.release()
        return state or ConversationState(conversation_id, 0)

    # reading

    def version(self, conversation_id: str) -> int:
        """Return the version of a conversation now."""
        with self._lock:
            return self._states.current(conversation_id, self.opened()).version

    def tool_now(self, conversation_id: str, call_id: str) -> tuple[int, Tool]:
        """Return the version of a conversation, and one of its calls as it stands in the log now.

        Raises:
            UnknownCall: the conversation has no such call.
        """
        with self._lock:
            state = self._states.current(conversation_id, self.opened())
            version, entry = state.version, state.open.get(call_id)
            if entry is not None:
                return version, detached_copy(entry.tool)
            if call_id not in state.known:
                raise UnknownCall(call_id, conversation_id)
        return version, fold_tools(self.events(conversation_id), {call_id})[call_id]

    def open_tools(self, conversation_id: str, call_ids: Iterable[str]) -> dict[str, Tool]:
        """Return the calls, among these, that have no end in the log now."""
        with self._lock:
            entries = self._states.current(conversation_id, self.opened()).open
            return {name: detached_copy(entries[name].tool) for name in call_ids if name in entries}

    def events(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """Return the events of a conversation after a version, in order."""
        return self.opened().conversation(conversation_id, after)


def _nested_append() -> EventStoreError:
    return EventStoreError(
        "this thread is in the middle of an append already (this one comes from a signal handler, "
        "a finalizer or the clock): append when that is done"
    )
