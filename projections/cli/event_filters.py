"""The options that choose events: the same in `show`, `replay`, `tools` and `stats`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Annotated, Any

import typer

from eventstore import Recorded
from projections.cli.output import complain
from projections.debugging.event_filter import EventFilter, Place

Failed = Annotated[bool, typer.Option("--failed", help="Only calls that failed.")]
Open = Annotated[bool, typer.Option("--open", help="Only calls without an end.")]
ToolName = Annotated[
    str | None, typer.Option("--tool", metavar="NAME", help="Only calls of this tool (* and ?).")
]
CallId = Annotated[
    str | None,
    typer.Option("--call", metavar="ID", help="Only this call: its id, or how that begins."),
]
Grep = Annotated[
    str | None,
    typer.Option("--grep", metavar="REGEX", help="Only events that say this, in any case."),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="PLACE", help="Only from this version or time (UTC) on."),
]
SinceOrFrom = Annotated[
    str | None,
    typer.Option(
        "--since", "--from", metavar="PLACE", help="Only from this version or time (UTC) on."
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="PLACE", help="Only up to this version or time (UTC)."),
]
Around = Annotated[
    str | None,
    typer.Option(
        "--around", metavar="V[:N]", help="Only version V and N events on both sides (3)."
    ),
]
Turn = Annotated[
    int | None, typer.Option("--turn", min=1, metavar="N", help="Only turn N of the model.")
]

Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="At most N of them: a page.")
]

_OPTIONS: dict[str, Any] = {
    "failed": Failed,
    "open_": Open,
    "tool": ToolName,
    "call": CallId,
    "grep": Grep,
    "since": SinceOrFrom,
    "until": Until,
    "around": Around,
    "turn": Turn,
}


class Page:
    """The first `limit` events of those chosen; `close` says how to see more, or that none was."""

    def __init__(self, limit: int | None) -> None:
        self._room = limit
        self._next: int | None = None
        self._is_empty = True

    def takes(self, recorded: Recorded) -> bool:
        """Return whether the event is on the page."""
        self._is_empty = False
        if self._room is None:
            return True
        if self._room == 0:
            self._next = recorded.version if self._next is None else self._next
            return False
        self._room -= 1
        return True

    def close(self, last_version: int) -> None:
        """Say where the next page begins, on standard error; nothing after the last page.

        If no event was chosen of a conversation up to `last_version`, say that.
        """
        if self._is_empty:
            complain(f"no event was chosen; the conversation has versions 1 to {last_version:,}")
        if self._next is not None:
            complain(f"there are more: continue with --since {self._next}")


def filtered(*, has_from: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command the options; they reach it as `chosen`.

    Without `has_from` the option `--from` is left to the command.
    """
    options = _OPTIONS if has_from else {**_OPTIONS, "since": Since}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.name != "chosen"]
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if name in ("failed", "open_") else None,
                annotation=annotation,
            )
            for name, annotation in options.items()
        ]

        @wraps(command)
        def with_options(**given: Any) -> None:
            chosen = _filter({name: given.pop(name) for name in options})
            command(**given, chosen=chosen)

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        replaced = signature.replace(parameters=[*parameters, *added])
        with_options.__dict__["__signature__"] = replaced
        with_options.__annotations__ = {
            each.name: each.annotation for each in replaced.parameters.values()
        }
        return with_options

    return decorate


def _filter(given: dict[str, Any]) -> EventFilter:
    try:
        return EventFilter(
            failed=given["failed"],
            open=given["open_"],
            tool=given["tool"],
            call=given["call"],
            grep=given["grep"],
            since=place_of(given["since"], "--since"),
            until=place_of(given["until"], "--until"),
            around=_around(given["around"]),
            turn=given["turn"],
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def place_of(text: str | None, option: str) -> Place | None:
    """Return the version or the time of an option, None if it is not given."""
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    return time_of(text, option, "a version, or a time, for example 12 or 2026-01-31T12:00")


def time_of(text: str, option: str, wanted: str) -> datetime:
    """Return the time of an option, which is UTC if it says nothing else."""
    try:
        then = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: pass {wanted}", param_hint=option) from error
    return then if then.tzinfo else then.replace(tzinfo=UTC)


def _around(text: str | None) -> int | tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,18})(?::([0-9]{1,9}))?", text)
    if match is None:
        raise typer.BadParameter(
            f"{text!r}: pass a version, or a version and a number of events, for example 12:5",
            param_hint="--around",
        )
    return int(match[1]) if match[2] is None else (int(match[1]), int(match[2]))
