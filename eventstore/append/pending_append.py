"""`Task`: one append, from what is to be decided to what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from eventstore.errors import VersionConflict
from eventstore.event_id import event_ids
from eventstore.events import Event, Recorded, ToolEvent
from eventstore.fingerprint import render
from eventstore.state import ConversationState, Identified, Staged, apart, apart_event
from eventstore.storage import Appended, Draft
from eventstore.tool import Tool

if TYPE_CHECKING:
    from eventstore.appending import Appender

Decide = Callable[[ConversationState], Sequence[Event]]
"""Makes of a conversation's state what is to be appended to it."""

_UNREAD = ConversationState(0)


class Task(msgspec.Struct, eq=False):
    """One append: decided on a state, and again on a newer one; then what it wrote, and where."""

    appender: Appender
    conversation_id: str
    decide: Decide
    expected_version: int | None
    ids: Sequence[bytes]
    alone: bool
    """It looks things up in the log, so that no other may share its transaction."""
    state: ConversationState = _UNREAD
    stored: AbstractSet[bytes] = frozenset()
    events: Sequence[Event] = ()
    staged: Staged | None = None
    done: Appended | None = None
    ended: bool = False
    error: BaseException | None = None
    turn: Any = None
    """The lock that whoever waits with it waits for."""
    leads: bool = False
    asked: float = inf
    """When it was asked for, by a clock that never jumps."""

    def wake(self) -> None:
        """Let its thread go on."""
        if self.turn is not None:
            with suppress(RuntimeError):  # it is up already
                self.turn.release()

    def end(self, outcome: Appended | Exception) -> None:
        """Note what became of it."""
        if isinstance(outcome, Appended):
            self.done = outcome
            self.state.as_of = max(self.state.as_of, outcome.position)
        else:
            self.error = outcome
        self.ended = True
        self.wake()

    @property
    def recorded(self) -> list[Recorded]:
        """What was written, with its place in the log."""
        if self.done is None or self.staged is None:
            return []
        return _recorded(self.conversation_id, self.staged, self.done)

    def tool(self) -> Tool:
        """The call that it was about, as it then stands."""
        if self.staged is not None:
            for tool, _ in self.staged.tools.values():
                return apart(tool)
        return self.tools()[0]

    def tools(self) -> list[Tool]:
        """Each call that its events name, as it then stands."""
        names = dict.fromkeys(e.call_id for e in self.events if isinstance(e, ToolEvent))
        changed = self.staged.tools if self.staged else {}
        tools = {name: tool for name, (tool, _) in changed.items()}
        # Those that were so already are as they were.
        tools.update((n, e[0]) for n in names if n not in tools and (e := self.state.open.get(n)))
        if missing := set(names) - set(tools):
            tools |= self._settled(missing)
        return [apart(tools[name]) for name in names]

    def stage(self) -> Sequence[Draft]:
        """Decide on the state as it is."""
        state, ids = self.state, self.ids
        if ids and self.stored >= set(ids):
            self.events, self.staged = (), None
            return ()
        if self.expected_version is not None and self.expected_version != state.version:
            raise VersionConflict(self.expected_version, state.version)
        events = self.events = self.decide(state)
        at = self.appender.clock()
        if isinstance(events, Identified):
            ids = events.ids
        elif not ids:
            ids = event_ids(len(events), at)
        elif self.stored:
            pairs = [(e, i) for e, i in zip(events, ids, strict=True) if i not in self.stored]
            events, ids = [e for e, _ in pairs], [i for _, i in pairs]
        staged = self.staged = state.stage(events, ids, at, self._settled)
        return staged.drafts

    def rebase(self, tail: Sequence[Recorded]) -> Sequence[Draft]:
        """Decide again, behind what others have appended."""
        self.take_in(tail)
        return self.stage()

    def join(self, tail: Sequence[Recorded]) -> Sequence[Draft]:
        """Decide behind others of the same transaction; the state is as if it were committed."""
        drafts = self.rebase(tail)
        if self.staged is not None:
            self.state.foresee(self.staged)
        return drafts

    def take_in(self, tail: Iterable[Recorded]) -> bool:
        """Learn what others have appended; whether that was anything."""
        before, stored = self.state.version, set(self.stored)
        for recorded in tail:
            self.state.extend((recorded,))
            if self.ids:
                stored.add(bytes.fromhex(recorded.event_id))
        self.stored = stored
        return self.state.version != before

    def _settled(self, names: set[str]) -> dict[str, Tool]:
        return self.appender.settled(self.conversation_id, names)


def _recorded(conversation_id: str, staged: Staged, done: Appended) -> list[Recorded]:
    recorded: list[Recorded] = []
    drafts = staged.drafts
    position, version = done.position - len(drafts), done.version - len(drafts)
    for event, draft in zip(staged.events, drafts, strict=True):
        position += 1
        version += 1
        fingerprint = None
        if draft.fingerprint is not None:
            fingerprint = render(draft.fingerprint)
            event = apart_event(event, draft, staged.tools)  # noqa: PLW2901
        recorded.append(Recorded(
            done.lane, position, conversation_id, version, draft.event_id.hex(),
            draft.recorded_at, getattr(event, "call_id", None), fingerprint, event,
        ))  # fmt: skip
    return recorded
