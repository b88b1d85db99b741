"""`LaneCommitters`: group commits that go on at the same time, where lanes live on several nodes.

1. Each lane belongs to one group committer, and so does each conversation: all that a
   `GroupCommitter` says of order, states and outcomes holds for it.
2. Each committer appends through a storage of its own, made when its first append comes. So the
   nodes' disks work at the same time, and a node that is away makes only its own lanes wait.
3. There are `MAX_COMMITTERS` at most. One that has several lanes commits them one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, TypeVar

from eventstore.append.command import Command, PendingAppend
from eventstore.append.group_commit import GroupCommitter

if TYPE_CHECKING:
    from eventstore.append.conversation_state import ConversationState
    from eventstore.domain.tool import Tool
    from eventstore.notifications.local import LocalNotifier
    from eventstore.storage.interface import Storage

MAX_COMMITTERS = 16
"""Commits of a process that are under way at the same time at most; each has a connection."""

T = TypeVar("T")


class LaneCommitters:
    """Group committers for the lanes of a storage, used as one of them is.

    `first` commits nothing: it reads what is of no conversation, and says when all is closed. `new`
    makes a committer for a storage.
    """

    def __init__(self, first: GroupCommitter, new: Callable[[Storage], GroupCommitter]) -> None:
        self._first = first
        self._new = new
        self._committers: dict[int, GroupCommitter] = {}
        self._making = Lock()
        self.clock = first.clock
        self.door = first.door
        self.storage = first.storage
        self.opened = first.opened
        self.keep_time = first.keep_time
        self.events = first.events

    def reset_after_fork(self) -> None:
        """Start again: a forked child has no thread that held a lock or changed a state."""
        self._making = Lock()
        self._first.reset_after_fork()
        for committer in self._committers.values():
            committer.reset_after_fork()

    def __len__(self) -> int:
        """Return how many appends wait for those that are being committed."""
        return sum(map(len, self._all()))

    @property
    def idle(self) -> bool:
        """Whether no append is being committed, and none waits."""
        return all(committer.idle for committer in self._all())

    @property
    def notifier(self) -> LocalNotifier:
        """What is told of all appends."""
        return self._first.notifier

    @property
    def closed(self) -> bool:
        """Whether the store was closed."""
        return self._first.closed

    @closed.setter
    def closed(self, closed: bool) -> None:
        with self._making:
            for committer in (self._first, *self._all()):
                committer.closed = closed

    def _all(self) -> Sequence[GroupCommitter]:
        return list(self._committers.values())

    def _of(self, conversation_id: str) -> GroupCommitter:
        """Return the committer of a conversation."""
        number = self.storage.lane_of(conversation_id) % MAX_COMMITTERS
        committer = self._committers.get(number)
        if committer is None:
            with self._making:
                committer = self._committers.get(number)
                if committer is None:
                    committer = self._committers[number] = self._new(self.opened().beside())
        return committer

    # appending

    def run(self, command: Command[T]) -> T:
        """Append what the command decides, and return its result; see `GroupCommitter.run`."""
        return self._of(command.conversation_id).run(command)

    def commit_together(self, group: Sequence[PendingAppend]) -> None:
        """Commit appends for which no thread waits, the lanes at the same time."""
        shares: dict[GroupCommitter, list[PendingAppend]] = {}
        try:
            for pending in group:
                shares.setdefault(self._of(pending.command.conversation_id), []).append(pending)
        except BaseException as error:  # noqa: BLE001 - it is the outcome of all of them
            for pending in group:
                pending.finish(error)
            return
        *others, (own, share) = shares.items()
        started = [_started(committer, share) for committer, share in others]
        own.commit_together(share)
        for thread, (committer, share) in zip(started, others, strict=True):
            if thread is None:
                committer.commit_together(share)
            else:
                thread.join()

    # the states of conversations

    def forget_states(self) -> None:
        """Forget the states of all conversations: they are read again."""
        for committer in self._all():
            committer.forget_states()

    def remembered_state(self, conversation_id: str) -> ConversationState:
        """Return a copy of the cached state, or an empty one if none can be had now."""
        return self._of(conversation_id).remembered_state(conversation_id)

    def version(self, conversation_id: str) -> int:
        """Return the version of a conversation now."""
        return self._of(conversation_id).version(conversation_id)

    def tool_now(self, conversation_id: str, call_id: str) -> tuple[int, Tool]:
        """Return the version of a conversation, and one of its calls as it stands in the log now.

        Raises:
            UnknownCall: the conversation has no such call.
        """
        return self._of(conversation_id).tool_now(conversation_id, call_id)

    def open_tools(self, conversation_id: str, call_ids: Iterable[str]) -> dict[str, Tool]:
        """Return the calls, among these, that have no end in the log now."""
        return self._of(conversation_id).open_tools(conversation_id, call_ids)


Committer = GroupCommitter | LaneCommitters
"""What commits the appends of a store."""


def _started(committer: GroupCommitter, group: Sequence[PendingAppend]) -> Thread | None:
    """Start to commit in a thread; return None where none can be started, as at the end."""
    work = partial(committer.commit_together, group)
    thread = Thread(target=work, name="toolledger-lane", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread
