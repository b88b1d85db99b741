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
5. An exclusive append (one that looks things up in the log) has a transaction of its own.

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
- *State.* A conversation's state is out of the cache while it changes. An interrupted append leaves
  no half-changed state: the next one reads the log.
- *Stored or not.* If a group is broken off, one of its appends may be stored all the same. Before
  it is committed again, its event ids are looked up.
- *Nothing to store.* An append that repeats what the log has is acknowledged as the first one was:
  `event_id_at` raises an error unless what was read is there for good.
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
from collections.abc import Set as AbstractSet
from contextlib import suppress
from threading import Lock, RLock, get_ident
from time import monotonic
from typing import TypeVar

from eventstore.append.commands import Command
from eventstore.append.conversation_state import ConversationState, detached_copy
from eventstore.append.event_ids import minted_at
from eventstore.append.pending_append import PendingAppend
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
    StoreCorrupt,
    UnknownCall,
)
from eventstore.notifications.local import notifier_for
from eventstore.storage.interface import Append, Appended, AppendOutcome, Storage

MAX_CACHED_STATES = 1024
"""Conversations whose state is kept in memory."""

MAX_GROUP_APPENDS = 256
"""Appends that a leader commits together at most."""

RECHECK_SECONDS = 1.0
"""Time after which a waiting append checks by itself whether there is a leader."""

T = TypeVar("T")


class GroupCommitter:
    """Appends to a storage, for many threads, and remembers the conversations' states.

    Each append is decided on the state that it really follows, and has its own outcome.
    `recheck_interval` and `min_shared_wait` (see `SharedTimeouts`) are in seconds.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Callable[[], int],
        *,
        max_cached_states: int = MAX_CACHED_STATES,
        recheck_interval: float = RECHECK_SECONDS,
        min_shared_wait: float = MIN_WAIT_SECONDS,
    ) -> None:
        self.clock = clock
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
        self._states: dict[str, ConversationState] = {}  # the last used comes last
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
        pending = PendingAppend(
            self.clock,
            self.events,
            command.conversation_id,
            command.decide,
            command.expected_version,
            command.event_ids,
            command.exclusive,
            monotonic(),
        )
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
                    pending.error, pending.finished = error, True

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

    def _commit(self, own: PendingAppend, beside: Sequence[PendingAppend] = ()) -> None:
        """Commit `own`, those `beside` it, and every append that waits by now."""
        thread = get_ident()
        if self._leader_thread == thread:
            raise _nested_append()
        storage = self.opened()
        group = [own]
        self._leader_thread = thread
        try:
            if beside or self._waiting:
                group += [*beside, *self._take_waiting(own)]
                self._commit_group(group, storage)
            else:
                self._commit_one(own, storage)
            self.keep_time()
        finally:
            self._leader_thread = 0
            if self.notifier.listeners:
                self.notifier.notify({pending.conversation_id for pending in group})

    def _take_waiting(self, own: PendingAppend) -> list[PendingAppend]:
        taken: list[PendingAppend] = []
        with suppress(IndexError):
            while len(taken) < MAX_GROUP_APPENDS:
                taken.append(self._waiting.popleft())
        return [pending for pending in taken if pending is not own and not pending.finished]

    def _commit_group(self, group: list[PendingAppend], storage: Storage) -> None:
        """Commit all in one transaction, each with its own outcome; one by one if that fails."""
        states: dict[str, ConversationState] = {}
        sharing = self._may_share(group)
        try:
            requests = self._requests(sharing, states)
            outcomes = self._append(requests, storage) if requests else []
        except OutcomeUnknown as error:
            states.clear()
            _finish_unknown(error, sharing)
        except Exception:  # noqa: BLE001 - which append caused it comes out below
            states.clear()
        else:
            for pending, outcome in zip(sharing, outcomes, strict=True):
                pending.finish(_lasting(pending, outcome, storage))
        for name, state in states.items():
            state.settled_uncommitted.clear()
            self._keep_state(name, state)
        for pending in group:
            if not pending.finished:
                try:
                    self._commit_one(pending, storage)
                except Exception as error:  # noqa: BLE001 - it is the outcome of this one
                    pending.finish(error)
                pending.wake()

    def _append(self, requests: Sequence[Append], storage: Storage) -> list[AppendOutcome]:
        """Store what is asked for; forget all states where the log may have been put back."""
        try:
            return storage.append(requests)
        except StoreCorrupt:
            self.forget_states()
            raise

    def forget_states(self) -> None:
        """Forget the states of all conversations: they are read again."""
        self._states = {}

    def _requests(
        self, group: Sequence[PendingAppend], states: dict[str, ConversationState]
    ) -> list[Append]:
        """Return what a storage is asked for, and put the states into `states`."""
        for pending in group:
            name = pending.conversation_id
            if name not in states:
                states[name] = self._take_state(name)
            pending.state = states[name]
        return [
            Append(p.conversation_id, p.state.version, p.state.as_of, (), p.join) for p in group
        ]

    def _may_share(self, group: Sequence[PendingAppend]) -> list[PendingAppend]:
        """Return the appends that may share a transaction."""
        if any(self._timeouts.applies_to(pending.enqueued_at) for pending in group):
            return []  # one by one, so that their order stays
        # One that was staged in a group that was broken off may be stored: see `_was_stored`.
        return [pending for pending in group if not pending.exclusive and pending.staged is None]

    def _commit_one(self, pending: PendingAppend, storage: Storage) -> None:
        """Commit one append by itself, unless a wait that failed was its wait, too."""
        timeouts, name, began = self._timeouts, pending.conversation_id, monotonic()
        if timeouts.applies_to(pending.enqueued_at):
            error = timeouts.error(storage.lane_of(name), pending.enqueued_at)
            if error is not None:
                raise error
        try:
            self._decide_and_store(pending, storage)
        except StorageError as error:
            timeouts.record(error, storage.lane_of(name), began, monotonic())
            if isinstance(error, OutcomeUnknown):
                raise _unknown_outcome(error, pending) from error
            raise

    def _decide_and_store(self, pending: PendingAppend, storage: Storage) -> None:
        name = pending.conversation_id
        state = pending.state = self._take_state(name)
        if pending.staged is not None and self._was_stored(pending, storage):
            self._keep_state(name, state)
            return
        if pending.event_ids:
            pending.stored_ids = _stored_ids(pending, storage)
        self._store_on(state, pending, storage)
        if not pending.stores_events:
            storage.event_id_at(name, state.version)
        pending.finished = True
        self._keep_state(name, state)

    def _store_on(self, state: ConversationState, pending: PendingAppend, storage: Storage) -> None:
        """Store what is decided on a state; decide again on what others have appended."""
        name = pending.conversation_id
        while True:
            try:
                drafts = pending.stage()
            except EventStoreError:
                # It may be legal after what others have appended.
                if pending.take_in(storage.conversation(name, state.version)):
                    continue
                self._keep_state(name, state)
                raise
            if drafts:
                request = Append(name, state.version, state.as_of, drafts, pending.rebase)
                (appended,) = self._append([request], storage)
                if isinstance(appended, Exception):
                    raise appended
                if pending.staged is not None:  # otherwise the log had all of it already
                    state.apply_committed(pending.staged, appended.version, appended.position)
                pending.appended = appended
                return
            if not pending.take_in(storage.conversation(name, state.version)):
                return

    def _was_stored(self, pending: PendingAppend, storage: Storage) -> bool:
        """Return whether the append was stored by a group commit that was broken off."""
        name = pending.conversation_id
        drafts = pending.staged.drafts if pending.staged else []
        version = (pending.staged.follows if pending.staged else 0) + len(drafts)
        if not drafts or storage.event_id_at(name, version) != drafts[-1].event_id:
            return False
        last = next(storage.conversation(name, version - 1))
        pending.finish(Appended(last.lane, version, last.position))
        return True

    # the states of conversations

    def _take_state(self, conversation_id: str) -> ConversationState:
        """Return the state, out of the cache while it changes.

        An append that is interrupted, by Ctrl-C for example, so leaves no half-changed state.
        """
        state = self._states.pop(conversation_id, None)
        if state is None:
            storage = self.storage
            # The heads are read first: an event appended in between counts as new.
            state = ConversationState(conversation_id, min(storage.heads().values(), default=0))
            state.extend(storage.conversation(conversation_id))
        return state

    def _keep_state(self, conversation_id: str, state: ConversationState) -> None:
        self._states[conversation_id] = state
        if len(self._states) > self._max_cached_states:
            del self._states[next(iter(self._states))]

    def _current_state(self, conversation_id: str) -> ConversationState:
        """Return the cached state, brought up to date. The caller holds the lock."""
        storage = self.opened()
        state = self._take_state(conversation_id)
        state.extend(storage.conversation(conversation_id, state.version))
        self._keep_state(conversation_id, state)
        return state

    def remembered_state(self, conversation_id: str) -> ConversationState:
        """Return a copy of the cached state, or an empty one if none can be had now."""
        state = None
        # Do not block here: the lock's holder may be waiting for this caller's transaction
        # (deadlock).
        if self._lock.acquire(blocking=False):
            try:
                state = self._states.get(conversation_id)
                state = state and state.copy()
            finally:
                self._lock.release()
        return state or ConversationState(conversation_id, 0)

    # reading

    def version(self, conversation_id: str) -> int:
        """Return the version of a conversation now."""
        with self._lock:
            return self._current_state(conversation_id).version

    def tool_now(self, conversation_id: str, call_id: str) -> tuple[int, Tool]:
        """Return the version of a conversation, and one of its calls as it stands in the log now.

        Raises:
            UnknownCall: the conversation has no such call.
        """
        with self._lock:
            state = self._current_state(conversation_id)
            version, entry = state.version, state.open.get(call_id)
            if entry is not None:
                return version, detached_copy(entry.tool)
            if call_id not in state.known:
                raise UnknownCall(call_id, conversation_id)
        return version, fold_tools(self.events(conversation_id), {call_id})[call_id]

    def open_tools(self, conversation_id: str, call_ids: Iterable[str]) -> dict[str, Tool]:
        """Return those of the calls that have no end in the log now."""
        with self._lock:
            entries = self._current_state(conversation_id).open
            return {name: detached_copy(entries[name].tool) for name in call_ids if name in entries}

    def events(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """Return the events of a conversation after a version, in order."""
        return self.opened().conversation(conversation_id, after)


def _lasting(pending: PendingAppend, outcome: AppendOutcome, storage: Storage) -> AppendOutcome:
    """Return the outcome in a group; an error if it rests on what may not be there for good."""
    if isinstance(outcome, Appended) and not pending.stores_events:
        try:
            storage.event_id_at(pending.conversation_id, outcome.version)
        except OutcomeUnknown as error:
            return _unknown_outcome(error, pending)
        except StorageError as error:
            return error
    return outcome


def _stored_ids(pending: PendingAppend, storage: Storage) -> AbstractSet[bytes]:
    """Return which of the ids given for an append its conversation has.

    Those that the library made are in no index: they are looked for among all events. Each has its
    time of recording, so that one that is newer than all events needs no look.
    """
    name, newest = pending.conversation_id, pending.state.newest
    stored = storage.known_ids(name, pending.event_ids).keys()
    times = {event_id: minted_at(event_id) for event_id in set(pending.event_ids) - stored}
    sought = {event_id for event_id, at in times.items() if at is not None and at <= newest}
    if not sought:
        return stored
    there = (bytes.fromhex(recorded.event_id) for recorded in storage.conversation(name))
    return stored | sought.intersection(there)


def _finish_unknown(error: OutcomeUnknown, group: Sequence[PendingAppend]) -> None:
    """Finish the appends of a group that were staged; the others are tried one by one."""
    for pending in group:
        if pending.staged is not None:
            pending.finish(_unknown_outcome(error, pending))


def _unknown_outcome(error: OutcomeUnknown, pending: PendingAppend) -> OutcomeUnknown:
    """Return the error of one append, with the ids of its own events."""
    drafts = pending.staged.drafts if pending.staged is not None else ()
    own = tuple(draft.event_id.hex() for draft in drafts)
    own = own or tuple(event_id.hex() for event_id in pending.event_ids)
    unknown = OutcomeUnknown(error.reason, own)
    unknown.__cause__ = error.__cause__
    return unknown


def _nested_append() -> EventStoreError:
    return EventStoreError(
        "this thread is in the middle of an append already (this one comes from a signal handler, "
        "a finalizer or the clock): append when that is done"
    )
