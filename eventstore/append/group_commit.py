"""`Appender`: all appends of a store go through it, and those that wait go together.

Who appends while nobody does leads: he carries out his own append and, in one commit with it, all
that wait by then. Behind it he passes on to one of those who have come since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Lock, RLock, get_ident
from time import monotonic
from typing import Any, TypeVar

from eventstore.bell import bell_of
from eventstore.errors import (
    EventStoreError,
    IllegalTransition,
    StorageError,
    StoreClosed,
    UnknownCall,
)
from eventstore.events import Recorded, ToolEvent
from eventstore.in_vain import InVain
from eventstore.state import ConversationState, apart
from eventstore.storage import Append, Appended, Storage
from eventstore.task import Decide, Task
from eventstore.tool import Tool, evolve

CACHED = 1024
"""Conversations whose state is kept in memory."""

PATIENCE = 1.0
"""Seconds after which a waiting append looks for itself whether somebody is at work."""

TOGETHER = 256
"""Appends at most that one commit takes along."""

T = TypeVar("T")


class Appender:
    """Appends to a storage, for many threads, and remembers the conversations' states.

    Each append is decided on the state that it really follows, and has its own outcome.
    """

    def __init__(self, storage: Storage, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.closed = False
        self._storage = storage
        self.forked()

    def forked(self) -> None:
        """Begin anew: in a forked child, nobody is here who held a lock or changed a state."""
        self.bell = bell_of(self._storage.epoch)
        self._lock = RLock()
        self._states: dict[str, ConversationState] = {}  # the last used comes last
        self._led = False  # somebody leads: who comes waits to be taken along
        self._waiting: deque[Task] = deque()
        self._leader = 0  # the thread that appends
        self._in_vain = InVain()

    def opened(self) -> Storage:
        """The storage.

        Raises:
            StoreClosed: the store was closed.
        """
        if self.closed:
            raise StoreClosed("the store is closed: EventStore.open() it again")
        return self._storage

    # what is asked for

    def append(
        self,
        conversation_id: str,
        decide: Decide,
        expected_version: int | None = None,
        ids: Sequence[bytes] = (),
        *,
        alone: bool = False,
    ) -> Task:
        """Append what `decide` makes of the conversation's state, under `ids` where given.

        `decide` is asked again when others have written meanwhile, so it must be pure.
        """
        alone = alone or bool(ids)
        task = Task(self, conversation_id, decide, expected_version, ids, alone, asked=monotonic())
        leads = False
        try:
            if self._led:
                leads = self._wait(task)
            if not task.ended:
                # Several may do so at once: then they lead one after the other.
                self._led = leads = True
                with self._lock:
                    if not task.ended:
                        self._lead(task)
        finally:
            if leads or not task.ended:
                self._pass_on(task)
        if task.error is not None:
            raise task.error
        return task

    def do(
        self,
        conversation_id: str,
        decide: Decide,
        then: Callable[[Task], T],
        expected_version: int | None = None,
        ids: Sequence[bytes] = (),
    ) -> T:
        """Append, and give what `then` makes of it."""
        return then(self.append(conversation_id, decide, expected_version, ids))

    def tool(self, conversation_id: str, decide: Decide) -> Tool:
        """Append one call's event, and give the call as it then stands."""
        return self.append(conversation_id, decide).tool()

    def tools(self, conversation_id: str, decide: Decide) -> list[Tool]:
        """Append, and give each call that the events name as it then stands."""
        return self.append(conversation_id, decide, alone=True).tools()

    def append_together(self, tasks: Sequence[Task]) -> None:
        """Carry out tasks that nobody waits for in a thread: the outcome of each is in it."""
        try:
            with self._lock:
                self._lead(tasks[0], tasks[1:])
        except BaseException as error:  # noqa: BLE001 - for those who asked
            for task in tasks:
                if not task.ended:
                    task.error, task.ended = error, True

    # who leads, and who waits

    def _wait(self, task: Task) -> bool:
        """Until another has carried out the task, or it is its turn to lead; whether it is."""
        self._forbid_nesting()
        turn = task.turn = Lock()
        turn.acquire()
        self._waiting.append(task)
        # A leader may have been interrupted just as it should have passed on. If not, there
        # are two for a while, and one waits for the other.
        return not (self._led and turn.acquire(timeout=PATIENCE)) or task.leads

    def _forbid_nesting(self) -> None:
        if self._leader == get_ident():
            raise EventStoreError(
                "this thread is in the middle of an append already (this one comes from a "
                "signal handler, a finalizer or the clock): append when that is done"
            )

    def _lead(self, own: Task, beside: Sequence[Task] = ()) -> None:
        """Carry out `own`, and together with it those `beside` it and all that were waiting."""
        self._forbid_nesting()
        storage = self.opened()
        tasks = [own]
        self._leader = get_ident()
        try:
            if beside or self._waiting:
                tasks += [*beside, *self._others(own)]
                self._carry_out_together(tasks, storage)
            else:
                self._carry_out(own, storage)
        finally:
            self._leader = 0
            if self.bell.listeners:
                self.bell.ring({task.conversation_id for task in tasks})

    def _others(self, own: Task) -> list[Task]:
        taken: list[Task] = []
        with suppress(IndexError):
            while len(taken) < TOGETHER:
                taken.append(self._waiting.popleft())
        return [task for task in taken if task is not own and not task.ended]

    def _pass_on(self, task: Task) -> None:
        """Let another lead; and take the task out of the queue, should it be there still."""
        waiting = self._waiting
        if not task.ended:
            with suppress(ValueError):
                waiting.remove(task)
        if not waiting:
            self._led = False
        # Behind that: who has just come to wait has seen it, or is seen here.
        if waiting:
            with suppress(IndexError):  # another leads, and has taken them along
                heir = waiting[0]
                self._led = heir.leads = True
                heir.wake()

    # carrying out

    def _carry_out_together(self, tasks: list[Task], storage: Storage) -> None:
        """All in one commit, each with its own outcome; one by one where that fails."""
        states: dict[str, ConversationState] = {}
        joined = self._joined(tasks)
        try:
            for task in joined:
                name = task.conversation_id
                if name not in states:
                    states[name] = self._take(name)
                task.state = states[name]
            requests = [
                Append(t.conversation_id, t.state.version, t.state.as_of, (), t.join)
                for t in joined
            ]
            done = storage.append_all(requests) if requests else []
        except Exception:  # noqa: BLE001 - whose fault it was comes out below
            states.clear()
        else:
            for task, outcome in zip(joined, done, strict=True):
                task.end(outcome)
        for name, state in states.items():
            state.settling.clear()
            self._keep(name, state)
        for task in tasks:
            if not task.ended:
                try:
                    self._carry_out(task, storage)
                except Exception as error:  # noqa: BLE001 - for the one who asked for it
                    task.end(error)
                task.wake()

    def _joined(self, tasks: Sequence[Task]) -> list[Task]:
        """Those that may share a commit."""
        if any(self._in_vain.concerns(task.asked) for task in tasks):
            return []  # their order stays
        # One of a group that was broken off may be stored: see `_was_stored`.
        return [task for task in tasks if not task.alone and task.staged is None]

    def _carry_out(self, task: Task, storage: Storage) -> None:
        """One by itself, unless it has waited for as long as another that waited in vain."""
        in_vain, name, began = self._in_vain, task.conversation_id, monotonic()
        if in_vain.concerns(task.asked):
            error = in_vain.error(storage.lane_of(name), task.asked)
            if error is not None:
                raise error
        try:
            self._append(task, storage)
        except StorageError as error:
            in_vain.note(error, storage.lane_of(name), began, monotonic())
            raise

    def _append(self, task: Task, storage: Storage) -> None:
        name = task.conversation_id
        state = task.state = self._take(name)
        if task.staged is not None and self._was_stored(task, storage):
            self._keep(name, state)
            return
        if task.ids:
            task.stored = storage.known_ids(name, task.ids).keys()
        while True:
            try:
                drafts = task.stage()
            except EventStoreError:
                # It may be legal after what others have written.
                if task.take_in(storage.conversation(name, state.version)):
                    continue
                self._keep(name, state)
                raise
            if drafts:
                done = storage.append(Append(name, state.version, state.as_of, drafts, task.rebase))
                if task.staged is not None:  # else others had stored all of it
                    state.commit(task.staged, done.version, done.position)
                task.done = done
                break
            if not task.take_in(storage.conversation(name, state.version)):
                break
        task.ended = True
        self._keep(name, state)

    def _was_stored(self, task: Task, storage: Storage) -> bool:
        """Whether an attempt to store it with others, broken off, had been successful."""
        name, drafts = task.conversation_id, task.staged.drafts if task.staged else []
        known = storage.known_ids(name, [draft.event_id for draft in drafts])
        if not drafts or len(known) < len(drafts):
            task.staged = None
            return False
        version = max(known.values())
        last = next(storage.conversation(name, version - 1))
        task.end(Appended(last.lane, version, last.position))
        return True

    # the states

    def _take(self, conversation_id: str) -> ConversationState:
        """The state, out of the cache while it changes.

        So who is interrupted, by Ctrl-C too, leaves nothing behind that is only half true.
        """
        state = self._states.pop(conversation_id, None)
        if state is None:
            storage = self._storage
            # The heads are read first: what is appended in between counts as news.
            state = ConversationState(min(storage.heads().values(), default=0))
            state.extend(storage.conversation(conversation_id))
        return state

    def _keep(self, conversation_id: str, state: ConversationState) -> None:
        self._states[conversation_id] = state
        if len(self._states) > CACHED:
            del self._states[next(iter(self._states))]

    def remembered(self, conversation_id: str) -> ConversationState:
        """A copy of the state in the cache; without one, or while another appends, the first."""
        state = None
        # Not to wait: who appends may himself wait for who asks, with a lane locked.
        if self._lock.acquire(blocking=False):
            try:
                state = self._states.get(conversation_id)
                state = state and state.copy()
            finally:
                self._lock.release()
        return state or ConversationState(0)

    # what the log says

    def version(self, conversation_id: str) -> int:
        """The version of a conversation now."""
        storage = self.opened()
        with self._lock:
            state = self._take(conversation_id)
            state.extend(storage.conversation(conversation_id, state.version))
            self._keep(conversation_id, state)
            return state.version

    def tool_now(self, conversation_id: str, call_id: str) -> tuple[int, Tool]:
        """The version of a conversation, and one of its calls as it stands in the log now."""
        storage = self.opened()
        with self._lock:
            state = self._take(conversation_id)
            state.extend(storage.conversation(conversation_id, state.version))
            self._keep(conversation_id, state)
            version, entry = state.version, state.open.get(call_id)
            if entry is not None:
                return version, apart(entry[0])
            if call_id not in state.known:
                raise UnknownCall(call_id, conversation_id)
        return version, self.settled(conversation_id, {call_id})[call_id]

    def settled(self, conversation_id: str, names: set[str]) -> dict[str, Tool]:
        """The calls named, from the log: settled ones are not kept in memory."""
        tools: dict[str, Tool] = {}
        for recorded in self.events(conversation_id):
            event: Any = recorded.event
            if recorded.call_id in names and isinstance(event, ToolEvent):
                with suppress(IllegalTransition):
                    tools[event.call_id] = evolve(
                        tools.get(event.call_id), event, recorded.recorded_at, recorded.fingerprint
                    )
        return tools

    def events(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """The events of a conversation after a version, in order."""
        return self.opened().conversation(conversation_id, after)
