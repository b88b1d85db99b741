"""Collapse: which repeated calls the model does not see, and the note on them.

1. Calls are compared by fingerprint: the same tool with the same arguments.
2. "failed": between two user messages, a failed call that a later one repeats is left out.
   "earlier": the same, before the user's last message alone. What a tool loop has shown the
   model stays as it is while the loop continues, so that the provider's cache of it fits.
3. "all": over the whole history one call of each fingerprint stays: its first completion,
   otherwise its last failure. This is the rule of `repair_history`.
4. "none": every call stays.
5. A call is left out together with its result. The call that stays keeps its own turn, and its
   answer has a note of how many attempts failed and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from eventstore import Completed, Failed
from projections.history.entries import Entry, LoggedCall, Repair
from projections.history.options import Collapse

MAX_REASONS = 3
"""Different reasons that a note on failed attempts gives."""

MAX_REASON_CHARACTERS = 200
"""Characters of each reason."""

Notes = dict[str, str | None]
"""By call id: None for a call that is left out, the note for the call that stands for it."""


def collapsed_calls(entries: Sequence[Entry], collapse: Collapse, repairs: list[Repair]) -> Notes:
    """Return which calls are left out and the notes on them; what is done is added to `repairs`."""
    notes: Notes = {}
    if collapse == "none":
        return notes
    for group in _repeated_calls(entries, collapse):
        if collapse == "all":
            _keep_one(group, notes, repairs)
        else:
            _keep_later(group, notes, repairs)
    return notes


def _repeated_calls(entries: Sequence[Entry], collapse: Collapse) -> Iterator[list[LoggedCall]]:
    """Yield the calls of each repeated fingerprint: over all, or between two user messages."""
    calls: list[LoggedCall] = []
    for entry in entries:
        if entry.role == "user" and not entry.misplaced_result and collapse != "all":
            if any(type(call.tool.status) is Failed for call in calls):
                yield from _repeated(calls)
            calls = []
        calls += entry.calls
    if collapse != "earlier":
        yield from _repeated(calls)


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
