"""`KnownStates`: the states of conversations in memory, and how an append is stored on one.

Its caller holds a lock: one append after the other.

1. An append is decided on the state that it really follows. What others have appended since the
   state was current is taken in, and the append is decided again.
2. A refusal counts only on what the log has now, and so does that there is nothing to store.
3. A state is out of the cache while it changes. An append that is interrupted, by Ctrl-C for
   example, so leaves no half-changed state: the next one reads the log.
4. Where the log was put back to an older state, all states are forgotten: `timeline` says so after
   the read that notices it, and a `StoreCorrupt` of an append. What a state says counts only if
   the log was read after it, and was the same.
5. An append that repeats what the log has is acknowledged as the first one was: `event_id_at`
   raises an error unless what was read is there for good.
6. One that was broken off may be stored all the same. Before it is stored again, the id of its last
   event is looked up at the version that it would have.
7. What is neither stored nor refused is reported with the ids of the append's own events, to be
   repeated with.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from eventstore.append.command import PendingAppend
from eventstore.append.conversation_state import ConversationState, StagedEvents
from eventstore.append.event_ids import minted_at
from eventstore.errors import EventStoreError, OutcomeUnknown, StorageError, StoreCorrupt
from eventstore.storage.interface import Append, Appended, AppendOutcome, Draft, Storage

MAX_CACHED_STATES = 1024
"""Conversations whose state is kept in memory."""


class KnownStates:
    """The states of the conversations that were used last, `limit` of them at most."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._timeline = 0  # of the log that the states were made of
        self._states: dict[str, ConversationState] = {}  # the last used comes last

    def current(self, conversation_id: str, storage: Storage) -> ConversationState:
        """Return the state as the log has it now."""
        state = self._take(conversation_id, storage)
        state.extend(storage.conversation(conversation_id, state.version))
        if storage.timeline != self._timeline:
            state = self._take(conversation_id, storage)
        self._keep(state)
        return state

    def copy_of(self, conversation_id: str, storage: Storage) -> ConversationState | None:
        """Return a copy of a state that is in memory."""
        if storage.timeline != self._timeline:
            self._begin_anew(storage)
        state = self._states.get(conversation_id)
        return None if state is None else state.copy()

    def forget(self) -> None:
        """Forget all states: they are read again."""
        self._states = {}

    def _take(self, conversation_id: str, storage: Storage) -> ConversationState:
        """Return the state, out of the cache while it changes."""
        if storage.timeline != self._timeline:
            self._begin_anew(storage)
        state = self._states.pop(conversation_id, None)
        if state is None:
            # The heads are read first: an event appended in between counts as new. Where lanes live
            # on several nodes, they would all be asked for it.
            heads = {} if storage.commits_by_lane else storage.heads()
            state = ConversationState(conversation_id, min(heads.values(), default=0))
            state.extend(storage.conversation(conversation_id))
        return state

    def _begin_anew(self, storage: Storage) -> None:
        """Forget the states: the log is not the one any more that they were made of."""
        self._timeline = storage.timeline
        self.forget()

    def _keep(self, state: ConversationState) -> None:
        states = self._states
        if state.redactions.is_stale:
            return  # it is read again
        states[state.conversation_id] = state
        if len(states) > self._limit:
            del states[next(iter(states))]

    # one append

    def store(self, pending: PendingAppend, storage: Storage) -> None:
        """Decide an append and store it by itself; then it is finished.

        Raises:
            EventStoreError: it was refused, or could not be stored.
        """
        command = pending.command
        name = command.conversation_id
        state = pending.state = self._take(name, storage)
        if pending.staged is not None and _was_stored(pending, pending.staged, storage):
            self._keep(state)
            return
        if command.event_ids:
            pending.stored_ids = _stored_ids(pending, storage)
        drafts = self._decided(pending, storage)
        state = pending.state
        if drafts:
            request = Append(
                name,
                state.version,
                state.as_of,
                drafts,
                pending.rebase,
                command.rewrites,
                command.tags,
            )
            (appended,) = self._append([request], storage)
            if isinstance(appended, Exception):
                raise appended
            pending.appended = appended
            if pending.staged is not None:  # otherwise the log had all of it already
                state.apply_committed(pending.staged, appended.version, appended.position)
        staged = pending.staged
        if staged is None or not staged.drafts:
            storage.event_id_at(name, state.version)
        pending.finished = True
        self._keep(state)

    def _decided(self, pending: PendingAppend, storage: Storage) -> Sequence[Draft]:
        """Return the drafts to store; a refusal, or none, counts only on what the log has now."""
        name, remembered = pending.command.conversation_id, pending.state
        while True:
            refusal: EventStoreError | None = None
            drafts: Sequence[Draft] = ()
            try:
                drafts = pending.stage()
            except EventStoreError as error:
                refusal = error
            if drafts:
                return drafts
            has_news = pending.take_in(storage.conversation(name, pending.state.version))
            if storage.timeline != self._timeline and pending.state is remembered:
                pending.state = self._take(name, storage)  # of another log, and read just now
                if pending.command.event_ids:
                    pending.stored_ids = _stored_ids(pending, storage)
            elif not has_news:
                if refusal is None:
                    return drafts
                self._keep(pending.state)
                raise refusal

    # several, in one transaction

    def store_together(self, group: Sequence[PendingAppend], storage: Storage) -> None:
        """Decide appends one after the other and store them in one transaction; finish them.

        Raises:
            OutcomeUnknown: those that were decided have it as their outcome; the others are not
                finished.
            Exception: the transaction failed as a whole; none of them is finished.
        """
        if not group:
            return
        states: dict[str, ConversationState] = {}
        for pending in group:
            name = pending.command.conversation_id
            if name not in states:
                states[name] = self._take(name, storage)
            pending.state = states[name]
        requests = [
            Append(
                p.command.conversation_id,
                p.state.version,
                p.state.as_of,
                (),
                p.join,
                tags=p.command.tags,
            )
            for p in group
        ]
        try:
            outcomes = self._append(requests, storage)
        except OutcomeUnknown as error:
            for pending in group:
                if pending.staged is not None:
                    pending.finish(unknown_outcome(error, pending))
            raise
        for pending, outcome in zip(group, outcomes, strict=True):
            pending.finish(_lasting(pending, outcome, storage))
        for state in states.values():
            state.settled_uncommitted.clear()
            self._keep(state)

    def _append(self, requests: Sequence[Append], storage: Storage) -> list[AppendOutcome]:
        try:
            return storage.append(requests)
        except StoreCorrupt:
            self.forget()
            raise


def unknown_outcome(error: OutcomeUnknown, pending: PendingAppend) -> OutcomeUnknown:
    """Return the error of one append, with the ids of its own events."""
    drafts = pending.staged.drafts if pending.staged is not None else ()
    own = tuple(draft.event_id.hex() for draft in drafts)
    own = own or tuple(event_id.hex() for event_id in pending.command.event_ids)
    unknown = OutcomeUnknown(error.reason, own)
    unknown.__cause__ = error.__cause__
    return unknown


def _was_stored(pending: PendingAppend, staged: StagedEvents, storage: Storage) -> bool:
    """Return whether an append was stored when it was broken off; then it is finished."""
    name = pending.command.conversation_id
    drafts, version = staged.drafts, staged.follows + len(staged.drafts)
    if not drafts or storage.event_id_at(name, version) != drafts[-1].event_id:
        return False
    last = next(storage.conversation(name, version - 1))
    pending.finish(Appended(last.lane, version, last.position))
    return True


def _stored_ids(pending: PendingAppend, storage: Storage) -> AbstractSet[bytes]:
    """Return which of the ids given for an append its conversation has.

    Those that the library made are in no index: they are looked for among all events. Each has its
    time of recording, so that one that is newer than all events needs no look.
    """
    given, newest = pending.command.event_ids, pending.state.newest
    name = pending.command.conversation_id
    stored = storage.known_ids(name, given).keys()
    times = {event_id: minted_at(event_id) for event_id in set(given) - stored}
    sought = {event_id for event_id, at in times.items() if at is not None and at <= newest}
    if not sought:
        return stored
    there = (bytes.fromhex(recorded.event_id) for recorded in storage.conversation(name))
    return stored | sought.intersection(there)


def _lasting(pending: PendingAppend, outcome: AppendOutcome, storage: Storage) -> AppendOutcome:
    """Return the outcome in a group; an error if it rests on what may not be there for good."""
    if isinstance(outcome, Appended) and not pending.stores_events:
        try:
            storage.event_id_at(pending.command.conversation_id, outcome.version)
        except OutcomeUnknown as error:
            return unknown_outcome(error, pending)
        except StorageError as error:
            return error
    return outcome
