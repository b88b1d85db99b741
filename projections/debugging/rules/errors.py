"""Rules about errors: what failed, limits that end in giving up, and servers that died."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from eventstore.domain.closing_codes import FORKED
from projections.debugging.call_facts import CallError, CallFacts
from projections.debugging.command_output import command_of
from projections.debugging.error_groups import ErrorGroup
from projections.debugging.error_line import error_line, same_error_key
from projections.debugging.rules.commands import (
    changes_nothing,
    runs_tests,
    same_question,
    searches,
    work_of,
)
from projections.debugging.rules.evidence import Cause, Evidence, cause, shown
from projections.debugging.rules.missing import brief, path_of
from projections.formatting import arguments_text

_SAYS_NOTHING = re.compile(
    r"(?:command |process )?(?:failed with |exited with )?exit(?:ed)?(?: with)?[ -]?"
    r"(?:code|status)?:? ?-?\d+\W*$|error\W*$",
    re.IGNORECASE,
)
_OF_KIND = {"context": 36, "auth": 24, "quota": 23, "resource": 20, "json": 18, "interrupted": 10}
"""What a kind of error adds: the less the model can mend it, the more."""

_FOUND_NOTHING = re.compile(
    r"(?:exit code:? 1 ?)?(?:wall time: [\d.]+ seconds ?)?(?:output:)?\Z", re.IGNORECASE
)
"""What is left of the output of a search that found nothing, or of a test that was not met."""

_SEVERAL, _FEW, _SOON, _SHORT = 2, 5, 20, 120

_BROKEN = re.compile(
    r"connection (?:was |is )?(?:refused|reset|closed|aborted|lost|error)|(?:dis|not )connected\b|"
    r"ECONN(?:REFUSED|RESET|ABORTED)|EPIPE|broken pipe|socket hang up|fetch failed|"
    r"connect\b[^\n]{0,100} timed out|connection to \S{1,200} closed|"
    r"(?:failed|couldn't|could not|unable) to connect|connect(?:ion)? (?:call )?failed|"
    r"unexpected EOF|\bEOF\b|(?:server|transport|session|channel|stream|target|page|browser|worker|"
    r"process|kernel|container|daemon)(?: has| is| was)?(?: been)? (?:closed|"
    r"terminated|exited|gone|not running|died|crashed|disconnected)|"
    r"empty reply from server|remote end closed|no route to host|"
    r"Max retries exceeded|-32000\b",
    re.IGNORECASE,
)
"""How a client says that the other side is not there."""
_OF_SERVERS = (
    *("onnect", "CONN", "EPIPE", "pipe", "hang up", "fetch failed", "EOF", "closed", "terminated"),
    *("exited", "gone", "not running", "died", "crashed", "eply", "oute to", "etries", "-32000"),
)
"""What a text with such words holds: others need not be searched."""
_PORT = re.compile(r"(?<=[\w\]]):(\d{4,5}|80|443)\b|\bport (\d{2,5})\b")
_FAMILY = re.compile(
    r"mcp__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*?__|"
    r"(?!(?:get|set|read|write|list|create|update|delete|search|find|run|exec|send|fetch|add|remove|"
    r"open|edit|query|check|make|call|do|show|load|save)[_.-])[A-Za-z][A-Za-z0-9]*[_.-](?![_.-])"
)
"""The names of an MCP server's tools, or of tools that share their first word, if it is no verb."""
_NEVER = {"quota": "the limit was met", "auth": "access was refused"}
"""What the model cannot mend, and its words."""


def full_context(
    e: Evidence, version: int, line: str, versions: tuple[int, ...], weight: int
) -> Cause:
    """Return the cause of a context that was full: with the largest result, where there is one."""
    size, at = e.facts.largest
    text = f"the context is full: {line}"
    if size:
        share = 100 * size // max(e.facts.characters, 1)
        text += f"; the largest result is version {at}, {size:,} characters, {share}% of all"
        versions = (*versions, at)
    return cause("context", version, text, weight, versions=versions)


def failed(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the errors that no later success mended, each error line once."""
    ended = e.facts.ended
    failure = getattr(ended.event, "failure", None) if ended is not None else None
    end_key = same_error_key(error_line(failure.message)) if failure is not None else None
    latest = next((group for group in reversed(e.groups) if not group.recovered), None)
    for group in e.groups:
        if group.last in group.recovered or _is_in_passing(e, group):
            continue
        if group.last.kind == FORKED:
            continue  # the call is the origin's: it was closed, and did not fail
        heavy = _weight(e, group, weight, is_latest=group is latest)
        if end_key == same_error_key(group.line):
            heavy = 99
        yield _error(e, group, heavy)


def failed_in_passing(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the errors that belong to ordinary work: a look that failed, an edit made anew."""
    for group in e.groups:
        if group.last not in group.recovered and _is_in_passing(e, group):
            yield _error(e, group, _weight(e, group, weight, is_latest=False))


def _is_in_passing(e: Evidence, group: ErrorGroup) -> bool:
    """Return whether the work went on in spite of every error of a group."""
    return (
        _kind(e, group) == "error"
        and len(group.errors) <= _FEW
        and all(error.call is not None and _went_on(e, error, error.call) for error in group.errors)
    )


def _went_on(e: Evidence, error: CallError, call: CallFacts) -> bool:
    """Return whether a search found nothing, or later work did without what a call wanted."""
    if searches(call) and _says_nothing(error.text):
        return True
    after = e.next_calls(error.version, _SOON)
    later = [each for each in after if each.status == "completed" and not each.is_error]
    if any(same_question(call, each) for each in later):
        return True
    if command_of(call.call):
        looked = changes_nothing(call) and not runs_tests(call)
        return looked and any(not changes_nothing(each) or runs_tests(each) for each in later)
    path = path_of(call)
    again = [each for each in later if each.name == call.name and path_of(each) == path]
    return path is not None and again[:1] == after[:1]


def _kind(e: Evidence, group: ErrorGroup) -> str:
    """Return the kind of an error; a context that was full is no more, if the run went on."""
    last = group.last
    went_on = last.call is not None and e.facts.last_progress > last.version
    return "error" if group.kind == "context" and went_on else group.kind


def _weight(e: Evidence, group: ErrorGroup, weight: int, *, is_latest: bool) -> int:
    last = group.last
    weight += _OF_KIND.get(_kind(e, group), 0)
    if not last.is_marked:
        weight -= 4
    if _SAYS_NOTHING.match(group.line):
        weight -= 26
    if last.version > e.facts.last_progress:
        return e.stood_last(last.version, weight)
    if last.call is not None and e.successes.get(last.call.name, 0) > last.version:
        weight -= 18 if _kind(e, group) == "error" else 8
    return weight + e.recency(last.version) + 6 * is_latest


def _error(e: Evidence, group: ErrorGroup, weight: int) -> Cause:
    first, last, kind = group.first, group.last, _kind(e, group)
    at = first if kind in ("auth", "quota", "resource", "context") else last
    line = group.line_of(at)
    versions = tuple(error.version for error in group.errors)
    if kind == "context":
        return full_context(e, at.version, line, versions, weight)
    call, text = at.call, line
    if call is not None:
        verb = "failed" if at.is_marked else "answered with an error"
        text = f"{shown(call)} {verb}: {line} (asked for at version {call.version})"
        versions = (*versions, call.version)
    if len(group.errors) > 1:
        other = (
            f"again at version {last.version}"
            if at is first
            else f"first at version {first.version}"
        )
        text += f"; {len(group.errors):,} times, {other}"
    return cause(kind, at.version, text, weight, versions=versions, call=call)


def _says_nothing(text: str) -> bool:
    words = " ".join(text[:_SHORT].split())
    return len(text) < _SHORT and _FOUND_NOTHING.match(words) is not None


def never_gave_way(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield a limit, or credentials, that were refused in several words up to the end."""
    for kind, words in _NEVER.items():
        groups = [g for g in e.groups if g.kind == kind and g.last not in g.recovered]
        errors = sorted((each for g in groups for each in g.errors), key=lambda each: each.version)
        if len(groups) < _SEVERAL or _answers_after(e, errors):
            continue
        first, last = errors[0], errors[-1]
        text = f"{error_line(brief(first))}; {words} {len(errors):,} times up to version "
        text += f"{last.version}, and never gave way"
        if (call := first.call) is not None:
            text = f"{shown(call)} failed (asked for at version {call.version}): {text}"
        heavy = e.stood_last(last.version, weight)
        versions = _versions(errors)
        yield cause(kind, first.version, text, heavy, versions=versions, call=call)


def _answers_after(e: Evidence, errors: list[CallError]) -> bool:
    """Return whether the same work was done after the last of some errors."""
    works = {work_of(error.call) for error in errors if error.call is not None}
    later = e.asked_between(errors[-1].version, e.end_of_log)
    return any(
        call.status == "completed" and not call.is_error and work_of(call) in works
        for call in later
    )


def server_died(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the servers, ports and tools of which every call fails from some version on."""
    broken: dict[str, list[CallError]] = {}
    for error in e.standing_errors:
        text = e.line_of(error)
        is_broken = any(word in text for word in _OF_SERVERS) and _BROKEN.search(text) is not None
        if is_broken and (server := _server_of(error)) is not None:
            broken.setdefault(server, []).append(error)
    for server, errors in broken.items():
        first, last = errors[0], errors[-1]
        call = first.call
        answers = [each.ended for each in e.calls if _answers_for(each, server)]
        if call is None or len(errors) < _SEVERAL or max(answers, default=0) > last.version:
            continue
        before = max((version for version in answers if version < first.version), default=0)
        what = f"after it had answered up to version {before}" if before else "from the first on"
        text = f"{shown(call)} failed: {error_line(brief(first))} (asked for at version "
        text += f"{call.version}); {server} does not answer any more, {what}: {len(errors):,} calls"
        heavy = e.stood_last(last.version, weight)
        versions = {*_versions(errors), before or first.version}
        yield cause("server", first.version, text, heavy, versions=versions, call=call)


def _server_of(error: CallError) -> str | None:
    """Return what does not answer: a port, a family of tools or a tool; None of a shell."""
    if (port := _PORT.search(brief(error))) is not None:
        return f"port {port[1] or port[2]}"
    call = error.call
    if call is None or command_of(call.call):
        return None
    family = _FAMILY.match(call.name)
    return call.name if family is None else f"{family[0]}*"


def _answers_for(call: CallFacts, server: str) -> bool:
    """Return whether a call of a server succeeded."""
    if call.status != "completed" or call.is_error:
        return False
    if server.startswith("port "):
        return server[5:] in (command_of(call.call) or arguments_text(call.call, 2_000))
    return call.name.startswith(server[:-1]) if server.endswith("*") else call.name == server


def _versions(errors: Iterable[CallError]) -> set[int]:
    found = {error.version for error in errors}
    return found | {error.call.version for error in errors if error.call is not None}
