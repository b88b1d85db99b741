"""The difference of two runs: what the second one did otherwise, the first divergence first.

1. Calls are aligned by tool and fingerprint, in their order. Between calls that agree, calls of one
   tool are paired in their order: these have other arguments.
2. Paired calls may differ in their arguments, their status and their outcome. Ids, times and
   attempts are not differences, because no two runs share them.
3. A call without a partner was added or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

import msgspec

from eventstore import FunctionCall, Recorded, ToolCompleted, ToolFailed
from projections.debugging.call_facts import CallFacts, LogFacts
from projections.debugging.error_line import error_line
from projections.debugging.json_diff import JsonChange, json_diff
from projections.formatting import NotebookText, arguments_text, duration, plural

_ARGUMENTS_CHARACTERS = 80


class CallDifference(msgspec.Struct, frozen=True, gc=False):
    """One call that differs.

    `kind` is added, removed, or changed. `before` and `after` are the versions of the requests,
    None where there is no call. The paths of `changes` begin with `$arguments`, `$status`,
    `$result` or `$failure`.
    """

    kind: Literal["added", "removed", "changed"]
    tool: str
    arguments: str
    before: int | None
    after: int | None
    changes: tuple[JsonChange, ...] = ()

    def __str__(self) -> str:
        if self.kind != "changed":
            version = self.after if self.before is None else self.before
            return f"{self.kind} {self.tool} {self.arguments} (version {version})"
        head = f"changed {self.tool} {self.arguments} (versions {self.before} and {self.after})"
        return "\n".join([head, *(f"    {change}" for change in self.changes)])


class LogDiff(NotebookText, msgspec.Struct, frozen=True, gc=False):
    """How two runs differ: `differences` in the order of the runs; `equal` calls do not differ.

    `running` are the times that the attempts of each run took, in microseconds, as far as they were
    measured; None where none was.
    """

    differences: tuple[CallDifference, ...]
    equal: int
    running: tuple[int | None, int | None]

    def __bool__(self) -> bool:
        """Return whether the runs differ."""
        return bool(self.differences)

    def __str__(self) -> str:
        times = " and ".join(map(duration, self.running))
        same = f"{plural(self.equal, 'equal call')}, {plural(len(self.differences), 'difference')}"
        tail = f"{same}; running {times}" if any(self.running) else same
        return "\n".join([*map(str, self.differences), tail])


def diff(before: Iterable[Recorded], after: Iterable[Recorded]) -> LogDiff:
    """Return how the calls of two conversations differ; the result is true if they do.

    The events of each are those of one conversation, or of a part of it.
    """
    before, after = list(before), list(after)
    one, other = (list(LogFacts().extend(log).calls.values()) for log in (before, after))
    pairs = list(_aligned(one, other))
    differences = tuple(found for pair in pairs if (found := _difference(*pair)) is not None)
    return LogDiff(differences, len(pairs) - len(differences), (_running(before), _running(after)))


Pair = tuple[CallFacts | None, CallFacts | None]


def _aligned(one: Sequence[CallFacts], other: Sequence[CallFacts]) -> Iterator[Pair]:
    keys, other_keys = ([(call.name, call.fingerprint) for call in calls] for calls in (one, other))
    matcher = SequenceMatcher(None, keys, other_keys, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(one[start:end], other[other_start:other_end], strict=True)
        else:
            yield from _paired(one[start:end], other[other_start:other_end])


def _paired(one: Sequence[CallFacts], other: Sequence[CallFacts]) -> Iterator[Pair]:
    """Yield the calls of a stretch that differs, those of one tool in pairs, in their order."""
    waiting = list(other)
    for call in one:
        at = next((n for n, each in enumerate(waiting) if each.name == call.name), None)
        if at is None:
            yield call, None
            continue
        yield from ((None, each) for each in waiting[:at])
        yield call, waiting[at]
        del waiting[: at + 1]
    yield from ((None, each) for each in waiting)


def _difference(before: CallFacts | None, after: CallFacts | None) -> CallDifference | None:
    call = before or after
    if call is None:
        return None
    changes: tuple[JsonChange, ...] = ()
    kind: Literal["added", "removed", "changed"] = "added" if before is None else "removed"
    if before is not None and after is not None:
        changes, kind = tuple(_changes(before, after)), "changed"
        if not changes:
            return None
    return CallDifference(
        kind,
        call.name,
        arguments_text(_in_force(call), _ARGUMENTS_CHARACTERS),
        before.version if before is not None else None,
        after.version if after is not None else None,
        changes,
    )


def _changes(before: CallFacts, after: CallFacts) -> Iterator[JsonChange]:
    yield from _at("$arguments", _arguments(before), _arguments(after))
    yield from _at("$status", before.status, after.status)
    if before.status == after.status == "completed":
        yield from _at("$result", before.result, after.result)
    yield from _at("$failure", _failure(before), _failure(after))


def _at(root: str, before: object, after: object) -> Iterator[JsonChange]:
    for change in json_diff(before, after):
        yield msgspec.structs.replace(change, path=root + change.path.removeprefix("$"))


def _in_force(call: CallFacts) -> FunctionCall:
    return call.edit or call.call


def _arguments(call: CallFacts) -> Any:
    in_force = _in_force(call)
    return in_force.arguments if in_force.raw is None else in_force.raw


def _failure(call: CallFacts) -> str | None:
    """Return the error line of a call that failed in the end, also after retries; or None."""
    return error_line(call.errors[-1].text) if call.status == "failed" and call.errors else None


def _running(events: Iterable[Recorded]) -> int | None:
    durations = [
        recorded.event.duration
        for recorded in events
        if isinstance(recorded.event, ToolCompleted | ToolFailed)
        and recorded.event.duration is not None
    ]
    return sum(durations) if durations else None
