"""What the fold over a log keeps: entries with their calls, and the repairs it made."""

from __future__ import annotations

import msgspec

from eventstore import MessageAdded, Part, Tool, ToolCompleted, ToolFailed, ToolRejected
from projections.formatting import NotebookText, quoted_name


class Repair(NotebookText, msgspec.Struct, frozen=True, gc=False):
    """One change that was made to show a valid history.

    `what` is answered, moved, merged, collapsed, shortened, re-keyed, dropped, wrapped or added.
    `rule` is the code of the rule that asked for the change, `why` says it in words. `versions`
    are those of the events concerned.
    """

    what: str
    rule: str
    why: str
    call_id: str | None = None
    versions: tuple[int, ...] = ()

    def __str__(self) -> str:
        of = f" {quoted_name(self.call_id)}" if self.call_id else ""
        events = f" (events {', '.join(map(str, self.versions))})" if self.versions else ""
        return f"{self.what}{of} [{self.rule}]: {self.why}{events}"


class LoggedCall(msgspec.Struct, gc=False):
    """A call of the log: its state, the versions of its events, and the event that answered it."""

    tool: Tool
    versions: list[int]
    imported: bool
    answer: ToolCompleted | ToolFailed | ToolRejected | None = None


class Entry(msgspec.Struct, gc=False):
    """A message, or an assistant turn with its calls, in the order of the log.

    `misplaced_result` are the parts of a result that the lifecycle has no place for.
    `results_message` is the message in which the results of the calls came. `may_be_server_call`
    marks the result of a call that the provider's server may keep, `is_continued` one in a request
    which says that it does. `place` is its place among the entries. `last_piece` is the version of
    the last further piece of the message.
    """

    role: str
    message: MessageAdded | None
    version: int
    calls: list[LoggedCall] = []
    misplaced_result: tuple[Part, ...] = ()
    results_message: MessageAdded | None = None
    may_be_server_call: bool = False
    is_continued: bool = False
    place: int = 0
    last_piece: int = 0


class Entries(list[Entry]):
    """The entries of one log, and which of them were changed since they were added.

    `changes` are the places of the changed entries, one for each change. A view remembers how many
    of them it has seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[int] = []

    def add(self, entry: Entry) -> Entry:
        """Add an entry at the end, and return it."""
        entry.place = len(self)
        self.append(entry)
        return entry

    def note_change(self, entry: Entry) -> None:
        """Note that an entry is no longer what it was."""
        self.changes.append(entry.place)
