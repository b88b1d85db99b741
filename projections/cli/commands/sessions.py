"""`sessions`, and the choice of `import --discover`: what programs have left on this machine."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict, replace

from eventstore.importers import (
    Discovered,
    ImportCounts,
    ImportedFile,
    NoMessages,
    Session,
    described,
    discover,
)
from eventstore.importers.discovery import files_of, programs
from projections.cli.event_filters import time_of
from projections.cli.options import Json, file_name
from projections.cli.output import (
    clean,
    complain,
    console,
    is_terminal,
    print_json_line,
    say,
    show_table,
)
from projections.formatting import byte_size, did_you_mean, plural, utc_text

LISTED = 20
"""Sessions that are listed unless the caller asks for more."""

MAX_PROBLEMS = 10
"""Places that cannot be looked into, and that are named."""

_LEAST_ID, _SHORT_ID = 8, 16
"""Characters of an id that are shown of a longer one; how long one is that is not cut."""

_LEAST_PROJECT, _OTHER_COLUMNS = 10, 16 + 5 + 7 + 14
"""Characters of a project in a terminal, and of the columns beside it and the name."""

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only sessions that changed since: 7d, 12h, a time (UTC)."
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="DIR",
        parser=file_name,
        help="Look there and not in the home folder: a copy of one.",
    ),
]
Program = Annotated[
    str | None,
    typer.Option("--program", metavar="NAME", help=f"Only sessions of {', '.join(programs())}."),
]
Limit = Annotated[
    int, typer.Option("--limit", min=1, metavar="N", help="At most N of them, the newest.")
]


def sessions(
    limit: Limit = LISTED,
    since: Since = None,
    program: Program = None,
    root: Root = None,
    *,
    as_json: Json = False,
) -> None:
    """List the sessions that coding agents have left in their usual folders, newest first.

    Nothing is imported, and nothing is written. `toolledger why SESSION` imports one on the way,
    and `toolledger import --discover` several.
    """
    show_sessions(looked_for(since, program, root), limit, as_json=as_json)


def looked_for(
    since: str | None, program: str | None, root: Path | None, option: str = "--program"
) -> Discovered:
    """Return the sessions in the usual folders, those of one program or since a time alone.

    Raises:
        typer.BadParameter: an option is wrong.
    """
    if program is not None and program not in programs():
        near = did_you_mean(program, programs())
        raise typer.BadParameter(
            f"{program!r}: pass one of {', '.join(programs())}{near}", param_hint=option
        )
    if root is not None and not root.is_dir():
        raise typer.BadParameter(f"{str(root)!r} is not a folder", param_hint="--root")
    earliest = _earliest(since)
    found = discover(root)
    chosen = [
        each for each in found.sessions if program in (None, each.program) and each.time >= earliest
    ]
    return replace(found, sessions=chosen)


def _earliest(since: str | None) -> float:
    """Return the time of `--since`, in microseconds since 1970 UTC."""
    if since is None:
        return 0
    if match := re.fullmatch(r"([0-9]{1,5})([mhdw])", since):
        ago = timedelta(**{_UNITS[match[2]]: int(match[1])})
        return (time.time() - ago.total_seconds()) * 1_000_000
    then = time_of(since, "--since", "for example 30m, 12h, 7d or 2026-01-31")
    return then.timestamp() * 1_000_000


def show_sessions(found: Discovered, limit: int, *, as_json: bool) -> None:
    """Print the newest sessions, and on standard error what is left out or cannot be read."""
    shown = [described(each) for each in found.sessions[:limit]]
    if as_json:
        for each in shown:
            print_json_line({"session": each.name, **asdict(each)})
    elif shown:
        names = short_names(shown, found.sessions) if is_terminal() else [s.name for s in shown]
        room = max(console().width - max(map(len, names)) - _OTHER_COLUMNS, _LEAST_PROJECT)
        show_table(
            ("session", "changed (UTC)", "calls", "size", "project"),
            [
                (
                    name,
                    utc_text(each.time)[:16],
                    _calls(each),
                    byte_size(each.size),
                    _end(each.project, room),
                )
                for name, each in zip(names, shown, strict=True)
            ],
            right=("calls", "size"),
        )
    if not shown:
        complain("no session was found in the usual folders: name others with --root or by file")
    if more := len(found.sessions) - len(shown):
        complain(f"{plural(more, 'session')} more: pass --limit {len(found.sessions)}, or --since")
    for problem in found.problems[:MAX_PROBLEMS]:
        complain(problem)
    if found.problem_count > MAX_PROBLEMS:
        complain(f"and {found.problem_count - MAX_PROBLEMS:,} more problems like these")
    if shown and is_terminal() and not as_json:
        say("toolledger why SESSION says what went wrong; why latest takes the newest")


def _end(text: str, width: int) -> str:
    """Return the end of a folder's path, which tells it from others of the same home."""
    text = clean(text, kept="")
    if len(text) <= width:
        return text
    end = text[1 - width :]
    return f"…{end[max(end.find('/'), 0) :]}"


def _calls(session: Session) -> str:
    if session.calls is None:
        return ""
    return f"{session.calls:,}{'+' if session.has_more_calls else ''}"


def short_names(shown: Sequence[Session], known: Iterable[Session]) -> list[str]:
    """Return names of sessions with as much of each id as tells it from those of its program."""
    ids: dict[str, list[str]] = {}
    for each in known:
        ids.setdefault(each.program, []).append(each.id)
    least: dict[tuple[str, str], int] = {}
    for program, own in ids.items():
        own.sort()
        for pair in pairwise(own):
            equal = takewhile(lambda two: two[0] == two[1], zip(*pair, strict=False))
            needed = sum(1 for _ in equal) + 1
            for each_id in pair:
                least[program, each_id] = max(needed, least.get((program, each_id), 0))
    return [
        each.name
        if len(each.id) <= _SHORT_ID
        else f"{each.program}:{each.id[: max(least.get((each.program, each.id), 0), _LEAST_ID)]}"
        for each in shown
    ]


def chosen(found: Discovered, names: Iterable[str] | None) -> list[Session]:
    """Return the sessions to import, each once: those with the names, without any all.

    Raises:
        UnknownSession: a name is that of none, or of several.
    """
    if not names:
        return found.sessions
    return list({each.name: each for each in map(found.named, names)}.values())


def by_session(
    sessions: Sequence[Session], done: Iterable[ImportedFile]
) -> tuple[list[ImportedFile], list[ImportedFile]]:
    """Return what was done with each session under its name, and with what else was imported.

    A session may have several files, and a database several sessions. The second list has the
    sub-agents in databases, and what could not be read there.
    """
    reports = {each.path: each for each in done}
    joined = [_sum(each.name, _reports_of(each, reports)) for each in sessions]
    for session in sessions:
        for path in session.files if session.is_stored else ():
            _take(reports[path], session.id)
    stored = {path for each in sessions if each.is_stored for path in each.files}
    rest = [reports[path] for path in sorted(stored)]
    return joined, [each for each in rest if each.added or each.refused or each.problem_count]


def _reports_of(session: Session, reports: Mapping[str, ImportedFile]) -> list[ImportedFile]:
    own = [reports[path] for path in files_of(session) if path in reports]
    if not session.is_stored:
        return own
    found = [each.by_id[session.id] for each in own if session.id in each.by_id]
    return [ImportedFile("", 1, **asdict(counts), ids=[session.id]) for counts in found]


def _take(report: ImportedFile, conversation_id: str) -> None:
    """Take what was done with one conversation out of a report on its file."""
    counts = report.by_id.pop(conversation_id, ImportCounts())
    report.conversations -= conversation_id in report.ids
    report.ids = [each for each in report.ids if each != conversation_id]
    report.added -= counts.added
    report.skipped -= counts.skipped
    report.events -= counts.events
    report.calls -= counts.calls


def _sum(name: str, reports: Sequence[ImportedFile]) -> ImportedFile:
    total = ImportedFile(name)
    for each in reports:
        total.conversations += each.conversations
        total.added += each.added
        total.skipped += each.skipped
        total.events += each.events
        total.calls += each.calls
        total.ids = [*total.ids, *each.ids]
        total.by_id |= each.by_id
        total.problem_count += each.problem_count
        total.problems = [*total.problems, *each.problems]
        total.findings = {
            problem: total.findings.get(problem, 0) + each.findings.get(problem, 0)
            for problem in (*total.findings, *each.findings)
        }
        refused = [error for error in each.refused if not isinstance(error, NoMessages)]
        total.refused = [*total.refused, *refused]
    return total


def changed(reports: Iterable[ImportedFile]) -> list[ImportedFile]:
    """Return what was done with the sessions that added something, or could not be read."""
    return [each for each in reports if each.added or each.refused]


def outcome(reports: Sequence[ImportedFile]) -> str:
    """Return in a line how many sessions are new, grew, or are as they were."""
    counts = {
        "new": sum(1 for each in reports if each.added and not each.skipped),
        "grew": sum(1 for each in reports if each.added and each.skipped),
        "unchanged": sum(1 for each in reports if each.skipped and not each.added),
        "without messages": sum(
            1 for each in reports if not (each.added or each.skipped or each.refused)
        ),
        "refused": sum(1 for each in reports if each.refused and not (each.added or each.skipped)),
    }
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return f"{plural(len(reports), 'session')}: {said}"
