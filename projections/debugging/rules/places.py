"""Rules about a place that changed: a directory, or a file that an earlier command took away."""

from __future__ import annotations

import re
from collections.abc import Iterator

from projections.debugging.call_facts import CallError, CallFacts
from projections.debugging.command_output import command_of
from projections.debugging.error_line import error_line
from projections.debugging.rules.commands import (
    directory_of,
    puts_aside,
    removed_by,
    switches_branch,
    takes_back,
)
from projections.debugging.rules.evidence import Cause, Evidence, cause, shown
from projections.debugging.rules.missing import brief, path_of
from projections.formatting import plural

_NO_CHANGE = re.compile(r"nothing (?:added )?to commit|no changes added to commit")
_WORD = re.compile(r"([\w@+~./\\-]++)([(:]\d)?")
_HEAD_CHARACTERS = 8_000
_SEVERAL, _SOON = 2, 5
_RESET = re.compile(r"cwd was reset", re.IGNORECASE)


def wrong_directory(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the changes of the directory after which the next calls miss their files."""
    missing = [error for error in e.missing if not _is_absolute(e, error)]
    if len(missing) < _SEVERAL:
        return
    moves = [call for call in e.calls if _moves(call)]
    ends = [*(move.version for move in moves[1:]), e.end_of_log + 1]
    for move, until in zip(moves, ends, strict=False):
        lost = [error for error in missing if move.ended < _asked(error) < until]
        if len(lost) < _SEVERAL or len(lost) <= sum(each.version < move.ended for each in missing):
            continue
        at_once = len(e.asked_between(move.ended, _asked(lost[0]))) <= _SOON
        if at_once and _found(e, move.ended, _asked(lost[-1])) < len(lost):
            yield _changed_directory(e, move, lost, weight)


def _moves(call: CallFacts) -> bool:
    """Return whether a call changed the directory, and left it so."""
    if call.status != "completed" or call.is_error or directory_of(call) is None:
        return False
    return not (isinstance(call.result, str) and _RESET.search(call.result[-400:]))


def _changed_directory(e: Evidence, move: CallFacts, lost: list[CallError], weight: int) -> Cause:
    name = (directory_of(move) or "").rstrip("/").rpartition("/")[2].strip(".")
    known = _known(e, move.version)
    is_proved = any(
        known & _paths(brief(error)) or (name and f"/{name}/" in brief(error)) for error in lost
    )
    text = f"{shown(move)} changed the directory (asked for at version {move.version}); "
    text += f"from version {_asked(lost[0])} on {len(lost):,} calls miss their files: "
    text += error_line(brief(lost[0]), 100)
    versions = {version for error in lost for version in (error.version, _asked(error))}
    heavy = weight if is_proved or len(lost) > _SEVERAL else weight - 14
    return cause(
        "place",
        move.ended,
        text,
        e.outlasted(lost[-1], heavy),
        versions={*versions, move.version, move.ended},
        call=move,
    )


def taken_away(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the commands that removed, or moved, what later calls miss."""
    missing = e.missing
    takers = {
        call.id: names
        for call in (e.calls if missing else ())
        if call.status == "completed" and not call.is_error and (names := removed_by(call))
    }
    missed: dict[str, list[CallError]] = {}
    for error in missing if takers else ():
        wanted = {part for path in _paths(e.line_of(error)) for part in path.split("/")}
        for call_id in reversed(takers):
            if e.facts.calls[call_id].ended < _asked(error) and wanted & takers[call_id]:
                missed.setdefault(call_id, []).append(error)
                break
    for call_id, errors in missed.items():
        yield _took(e, e.facts.calls[call_id], errors, weight)


def put_aside(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the commands that put changes aside before calls that want them."""
    missing = {error.version for error in e.missing}
    lost = [
        error
        for error in e.standing_errors
        if error.version in missing or _NO_CHANGE.search(brief(error))
    ]
    for call in e.calls if lost else ():
        if call.status != "completed" or call.is_error or not puts_aside(call):
            continue
        until = e.next_user(call.ended)
        errors = [error for error in lost if call.ended < _asked(error) < until]
        later = e.asked_between(call.ended, until)
        if errors and not any(map(takes_back, later)):
            yield _took(e, call, errors, weight)


def another_branch(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the changes of the branch after which calls miss their files."""
    moves = [
        call
        for call in (e.calls if len(e.missing) >= _SEVERAL else ())
        if call.status == "completed" and not call.is_error and switches_branch(call)
    ]
    ends = [*(move.version for move in moves[1:]), e.end_of_log + 1]
    for move, until in zip(moves, ends, strict=False):
        errors = [error for error in e.missing if move.ended < _asked(error) < until]
        before = any(error.version < move.ended for error in e.missing)
        if len(errors) >= _SEVERAL and not before:
            yield _took(e, move, errors, weight)


def _took(e: Evidence, taker: CallFacts, errors: list[CallError], weight: int) -> Cause:
    text = f"{shown(taker)} took away what {plural(len(errors), 'later call')} wanted (asked for "
    text += f"at version {taker.version}), from version {_asked(errors[0])} on: "
    text += error_line(brief(errors[0]), 100)
    versions = {version for error in errors for version in (error.version, _asked(error))}
    versions |= {taker.version, taker.ended}
    heavy = e.outlasted(errors[-1], weight)
    return cause("removed", taker.ended, text, heavy, versions=versions, call=taker)


def _asked(error: CallError) -> int:
    return error.call.version if error.call is not None else error.version


def _is_absolute(e: Evidence, error: CallError) -> bool:
    """Return whether a call missed a file that it named by its whole path."""
    line = e.line_of(error)
    asked = "" if error.call is None else command_of(error.call.call) or path_of(error.call) or ""
    return any(path[:1] in "/~" and path in asked for path in _paths(line) if "/" in path)


def _known(e: Evidence, version: int) -> set[str]:
    """Return the paths that calls before a version found."""
    found: set[str] = set()
    for call in e.asked_between(0, version - 1):
        if call.status == "completed" and not call.is_error:
            found |= _asked_paths(call)
    return found


def _found(e: Evidence, after: int, until: int) -> int:
    """Return how many calls between two versions named relative paths, and found them."""
    return sum(
        call.status == "completed"
        and not call.is_error
        and any(path[:1] not in "/~." for path in _asked_paths(call))
        for call in e.asked_between(after, until)
    )


def _asked_paths(call: CallFacts) -> set[str]:
    return _paths(f"{command_of(call.call) or ''} {path_of(call) or ''}")


def _paths(text: str) -> set[str]:
    """Return the words of a text that look like paths; not those that a line number follows."""
    return {
        word.removeprefix("./").rstrip(".")
        for word, place in _WORD.findall(text[:_HEAD_CHARACTERS])
        if not (place or word.startswith("-"))
        and ("/" in word.strip("/.") or "." in word.strip("./")[1:])
    }
