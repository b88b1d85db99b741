"""Checking a log: its stored rows, and whether its events fit together.

1. The storage checks its rows (see `Storage.verify`): digests, gaps, heads,
   fingerprints.
2. Then the events are read. Each must follow the table of transitions.
3. An event that this version cannot read is named, unless the rows' check has named it, a newer
   version wrote it, or its payload was redacted: these are not damage.
4. After an event that cannot be read, it is not known what the calls of its conversation went
   through: their transitions are not checked from there on.

Why here: the command line and the method give one judgement, because there is only this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from eventstore.domain.events import ToolEvent, UnknownEvent
from eventstore.domain.lifecycle import evolve
from eventstore.errors import EventStoreError, StoreCorrupt
from eventstore.storage.interface import Damage

if TYPE_CHECKING:
    from eventstore.domain.events import Recorded
    from eventstore.domain.tool import Tool
    from eventstore.storage.interface import Storage


def verify(storage: Storage) -> Iterator[Damage]:
    """Yield what is wrong with a log: first with its rows, then with what its events say.

    Raises:
        StorageError: the log could not be checked, for example because the server is gone.
    """
    yield from storage.verify()
    check = _EventCheck()
    try:
        for recorded in storage.feed({}):
            for problem in check.problems(recorded):
                yield Damage(
                    recorded.lane,
                    recorded.position,
                    recorded.conversation_id,
                    recorded.version,
                    problem,
                )
    except StoreCorrupt as error:
        yield Damage(-1, None, None, None, f"the check had to end here: {error}")


class _EventCheck:
    """What is known of each conversation's calls, as far as its events are read."""

    def __init__(self) -> None:
        self._tools: dict[str, dict[str, Tool]] = {}
        self._unreadable: set[str] = set()

    def problems(self, recorded: Recorded) -> Iterator[str]:
        """Yield what is wrong with the next event."""
        event, name = recorded.event, recorded.conversation_id
        if isinstance(event, UnknownEvent):
            if event.problem is not None:
                self._unreadable.add(name)
                if not (event.damage or event.is_newer or event.is_redacted):
                    yield event.problem
            return
        if not isinstance(event, ToolEvent):
            return
        if not event.call_id:
            yield "the call has no id"
        elif name not in self._unreadable:
            tools = self._tools.setdefault(name, {})
            tool = tools.get(event.call_id)
            try:
                tools[event.call_id] = evolve(tool, event, recorded.time, recorded.fingerprint)
            except (EventStoreError, ValueError) as error:
                yield str(error)
