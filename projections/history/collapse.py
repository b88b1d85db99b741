"""Collapse: which repeated calls the model does not see, and the note on them.

1. Calls are compared by fingerprint: the same tool with the same arguments.
2. "failed": between two user messages, a failed call that a later one repeats is left out.
   "earlier": the same, before the user's last message alone. What a tool loop has shown the
   model stays as it is while the loop continues, so that the provider's cache of it fits.
3. "all": over the whole history one call of each fingerprint stays: its first completion,
   otherwise its last failure. This is the rule of `repair_history`.
4. "none": every call stays.
5. Calls that the model sees no more (`compaction`) stand for none, and none for them.
6. A call is left out together with its result. The call that stays keeps its own turn, and its
   answer has a note of how many attempts failed and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from eventstore import Completed, Failed
from projections.history.entries import Entries, Entry, LoggedCall, Repair
from projections.history.options import Collapse

MAX_REASONS = 3
"""Different reasons that a note on failed attempts gives."""

MAX_REASON_CHARACTERS = 200
"""Characters of each reason."""

Notes = dict[str, str | None]
"""By call id: None for a call that is left out, the note for the call that stands for it."""


class _Settled(msgspec.Struct, frozen=True):
    """What was collapsed in the entries before `start`, which the user's next words ended."""

    collapse: Collapse | None = None
    changes: int = 0
    """How many changes of the entries it has seen."""
    end: int = 0
    """How many entries it has seen."""
    start: int = 0
    notes: Notes = {}
    repairs: Sequence[Repair] = ()
    hidden: AbstractSet[int] = frozenset()


class CollapsedCalls:
    """The calls that are left out of one growing list of entries. Threads may share it."""

    def __init__(self) -> None:
        self._last = _Settled()  # replaced as one

    def of(
        self,
        entries: Entries,
        collapse: Collapse,
        repairs: list[Repair],
        hidden: AbstractSet[int],
    ) -> Notes:
        """Return which calls are left out, and the notes; what is done is added to `repairs`.

        No call stands for another where one of both is in an entry that is `hidden`, by its place.
        """
        if collapse == "none":
            return {}
        if collapse == "all":
            notes: Notes = {}
            for group in _repeated(_calls(entries, hidden)):
                _keep_one(group, notes, repairs)
            return notes
        settled = self._last = self._settled(entries, collapse, hidden)
        repairs += settled.repairs
        if collapse == "earlier":
            return settled.notes
        notes = {**settled.notes}
        _collapse(entries[settled.start :], notes, repairs, hidden)
        return notes

    def _settled(self, entries: Entries, collapse: Collapse, hidden: AbstractSet[int]) -> _Settled:
        """Return what is collapsed before the user's last words."""
        last = self._last
        changes = len(entries.changes)
        is_same = all(place >= last.start for place in entries.changes[last.changes :])
        if last.collapse != collapse or last.hidden != hidden or not is_same:
            last = _Settled(collapse, hidden=hidden)
        said = [place for place in range(last.end, len(entries)) if _is_said(entries[place])]
        if not said:
            return msgspec.structs.replace(last, changes=changes, end=len(entries))
        notes, repairs, start = {**last.notes}, [*last.repairs], last.start
        for end in said:
            _collapse(entries[start:end], notes, repairs, hidden)
            start = end
        return _Settled(collapse, changes, len(entries), start, notes, repairs, hidden)


def _is_said(entry: Entry) -> bool:
    """Return whether an entry has the user's words."""
    return entry.role == "user" and not entry.misplaced_result


def _calls(entries: Iterable[Entry], hidden: AbstractSet[int]) -> list[LoggedCall]:
    if hidden:
        entries = [entry for entry in entries if entry.place not in hidden]
    return [call for entry in entries for call in entry.calls]


def _collapse(
    entries: Iterable[Entry], notes: Notes, repairs: list[Repair], hidden: AbstractSet[int]
) -> None:
    """Leave out the failed calls that a later one of these entries repeats."""
    calls = _calls(entries, hidden)
    if any(type(call.tool.status) is Failed for call in calls):
        for group in _repeated(calls):
            _keep_later(group, notes, repairs)


def _repeated(calls: Iterable[LoggedCall]) -> Iterator[list[LoggedCall]]:
    groups: dict[str, list[LoggedCall]] = {}
    for call in calls:
        if call.tool.fingerprint is not None:
            groups.setdefault(call.tool.fingerprint, []).append(call)
    return (group for group in groups.values() if len(group) > 1)


def _keep_later(group: list[LoggedCall], notes: Notes, repairs: list[Repair]) -> None:
    failed: list[LoggedCall] = []
    last = group[-1]
    for call in group:
        if type(call.tool.status) is Failed and call is not last:
            failed.append(call)
        elif failed:
            _leave_out(failed, call, notes, repairs)
            failed = []


def _keep_one(group: list[LoggedCall], notes: Notes, repairs: list[Repair]) -> None:
    ended = [call for call in group if type(call.tool.status) in (Completed, Failed)]
    completed = [call for call in ended if type(call.tool.status) is Completed]
    if len(ended) > 1:
        kept = completed[0] if completed else ended[-1]
        _leave_out([call for call in ended if call is not kept], kept, notes, repairs)


def _leave_out(
    left_out: list[LoggedCall], kept: LoggedCall, notes: Notes, repairs: list[Repair]
) -> None:
    for call in left_out:
        notes[call.tool.id] = None
        why = f"call {kept.tool.id} repeats it"
        repairs.append(Repair("collapsed", "repeat", why, call.tool.id, tuple(call.versions)))
    failures = [c.tool.status.failure for c in left_out if isinstance(c.tool.status, Failed)]
    if failures:
        reasons = list(dict.fromkeys(failure.model_text for failure in failures))
        shown = "; ".join(_short(reason) for reason in reasons[:MAX_REASONS])
        attempts = "attempt" if len(failures) == 1 else "attempts"
        notes[kept.tool.id] = f"[{len(failures)} other {attempts} failed: {shown}]"


def _short(reason: str) -> str:
    line = " ".join(reason.split())
    if len(line) <= MAX_REASON_CHARACTERS:
        return line
    return f"{line[: MAX_REASON_CHARACTERS - 1]}…"
