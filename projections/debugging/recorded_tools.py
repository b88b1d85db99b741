"""Recorded tools: a log that answers an agent's calls in place of the tools.

1. A call is answered by its fingerprint (the tool with these arguments) and its occurrence: the
   second call with the same fingerprint gets the second recorded outcome.
2. A recorded failure is raised as an exception that is recorded as the same failure.
3. What the log cannot answer is a divergence. In strict mode it is raised. In lenient mode the
   nearest recorded call of the tool answers, in live mode the real tool; both warn, and the
   divergence is kept.
4. An agent may catch the exception, as a dispatcher does. Therefore the end of the `with` block,
   and `check`, raise the first divergence of strict mode again.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock
from types import TracebackType
from typing import Any, Literal, Self, get_args

from eventstore import Failure, FunctionCall, Recorded, ToolPending, fingerprint
from projections.debugging.json_diff import JsonChange, json_diff
from projections.debugging.recorded_calls import RecordedCall, recorded_calls
from projections.formatting import arguments_text

Mode = Literal["strict", "lenient", "live"]

_MAX_SHOWN_CHANGES = 5


class RecordedToolsWarning(UserWarning):
    """A call that the log could not answer was answered otherwise."""


class RecordedFailure(Exception):
    """A failure of the log, raised again; `failure` is what was recorded.

    Its attributes are those that `Failure.from_exception` reads, and its class has the recorded
    name, so that it is recorded as the same failure.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.error_kind = failure.kind
        self.code = failure.code
        self.status_code = failure.http_status
        self.retry_after = failure.retry_after
        self.model_message = failure.model_message
        self.in_doubt = failure.leaves_doubt


class Divergence(AssertionError):
    """A call that the log does not answer.

    `nearest` is the recorded call that is most like it, or None; `changes` is how the arguments
    differ from that call's.
    """

    def __init__(
        self,
        name: str,
        arguments: dict[str, Any],
        problem: str,
        nearest: RecordedCall | None,
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.problem = problem
        self.nearest = nearest
        self.changes = changes_of(nearest, name, arguments)
        super().__init__("\n".join(self._lines()))

    def _lines(self) -> Iterator[str]:
        call = arguments_text(FunctionCall(self.name, self.arguments), 120)
        yield f"{self.name} {call}: {self.problem}"
        if self.nearest is None:
            return
        yield f"  the nearest recorded call: {self.nearest}"
        for change in self.changes[:_MAX_SHOWN_CHANGES]:
            yield f"    {change}"
        if len(self.changes) > _MAX_SHOWN_CHANGES:
            yield f"    and {len(self.changes) - _MAX_SHOWN_CHANGES:,} more differences"


def changes_of(
    nearest: RecordedCall | None, name: str, arguments: dict[str, Any]
) -> list[JsonChange]:
    """Return how a call differs from a recorded one; another tool is a change of `$name`."""
    if nearest is None:
        return []
    changes = json_diff(nearest.arguments, arguments)
    if nearest.name == name:
        return changes
    return [JsonChange("$name", "changed", nearest.name, name), *changes]


class RecordedTools(Mapping[str, Callable[..., Any]]):
    """The tools of a recorded run, by their names: each takes the arguments by name.

    `mode` is "strict", "lenient" or "live"; `live` are the real tools of live mode. Any name has a
    tool, so that a call of a tool which the log does not know is a divergence, too; `in` and
    iteration have the recorded ones. It may be used from several threads.

    Raises:
        ValueError: the mode is unknown, or live mode has no tools.
    """

    def __init__(
        self,
        events: Iterable[Recorded],
        mode: Mode = "strict",
        *,
        live: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode is {mode!r}: pass one of {', '.join(get_args(Mode))}")
        if (mode == "live") != (live is not None):
            raise ValueError('pass the real tools as live={...} with mode="live", and only then')
        log = list(events)
        self.calls = recorded_calls(log)
        self._redacted = {
            each.event.call.name
            for each in log
            if each.redacted is not None and isinstance(each.event, ToolPending)
        }
        self.divergences: list[Divergence] = []
        self._mode = mode
        self._live = live or {}
        self._lock = Lock()
        self._remaining: dict[str, list[RecordedCall]] = defaultdict(list)
        for call in self.calls:
            self._remaining[call.fingerprint].append(call)

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the recorded result of a call.

        Raises:
            RecordedFailure: the recorded call failed.
            Divergence: the log does not answer the call.
        """
        with self._lock:
            recorded = self._take(name, arguments)
        if recorded is None:
            return self._live[name](**arguments)
        if recorded.failure is not None:
            raise _exception(recorded.failure)
        return recorded.result

    def _take(self, name: str, arguments: dict[str, Any]) -> RecordedCall | None:
        """Return the call that answers; None means that the real tool does."""
        waiting = self._remaining.get(fingerprint(name, arguments))
        if waiting and waiting[0].has_end:
            return waiting.pop(0)
        if waiting:
            problem = "the log has no end of this attempt: the recorded run stopped in it"
            nearest: RecordedCall | None = waiting[0]
        else:
            nearest = self._nearest(name, arguments)
            again = nearest is not None and not changes_of(nearest, name, arguments)
            problem = "the log has no further call of it" if again else "the log has no such call"
            if name in self._redacted:
                problem += ", or its arguments were redacted"
        divergence = Divergence(name, arguments, problem, nearest)
        self.divergences.append(divergence)
        return self._instead(divergence)

    def _instead(self, divergence: Divergence) -> RecordedCall | None:
        """Return the call that answers in place of a missing one, and warn."""
        nearest = divergence.nearest
        if self._mode == "live" and divergence.name in self._live:
            _warn(f"{divergence}\n  the real tool was called")
            return None
        is_like_it = nearest is not None and nearest.name == divergence.name and nearest.has_end
        if self._mode == "lenient" and is_like_it:
            _warn(f"{divergence}\n  the nearest one answered")
            return nearest
        raise divergence

    def _nearest(self, name: str, arguments: dict[str, Any]) -> RecordedCall | None:
        """Return the recorded call with the fewest differences; of equals one not yet taken."""
        remaining = {id(call) for calls in self._remaining.values() for call in calls}
        return min(
            self.calls,
            key=lambda call: (
                call.name != name,
                len(json_diff(call.arguments, arguments)),
                id(call) not in remaining,
            ),
            default=None,
        )

    @property
    def unused(self) -> list[RecordedCall]:
        """The recorded calls for which the agent has not asked, in the order of the log."""
        remaining = {id(call) for calls in self._remaining.values() for call in calls}
        return [call for call in self.calls if id(call) in remaining]

    def check(self) -> None:
        """Raise the first divergence of strict mode, also if the agent has caught it.

        Raises:
            Divergence: the agent has asked for what the log does not answer.
        """
        if self._mode == "strict" and self.divergences:
            raise self.divergences[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.check()

    def __getitem__(self, name: str) -> Callable[..., Any]:
        def recorded_tool(**arguments: Any) -> Any:
            return self.call(name, arguments)

        recorded_tool.__name__ = recorded_tool.__qualname__ = name
        return recorded_tool

    def __contains__(self, name: object) -> bool:
        return any(call.name == name for call in self.calls)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(call.name for call in self.calls))

    def __len__(self) -> int:
        return len({call.name for call in self.calls})


def _exception(failure: Failure) -> RecordedFailure:
    """Return an exception that is recorded as the failure: its class has the recorded name."""
    module, _, name = (failure.exception or RecordedFailure.__name__).rpartition(".")
    cls: type[RecordedFailure] = type(
        name, (RecordedFailure,), {"__module__": module or "builtins", "__qualname__": name}
    )
    return cls(failure)


def _warn(text: str) -> None:
    warnings.warn(text, RecordedToolsWarning, stacklevel=4)
