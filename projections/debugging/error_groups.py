"""The errors of one conversation: of which kind each is, which are the same, which recovered."""

from __future__ import annotations

import re

import msgspec

from projections.debugging.call_facts import CallError, LogFacts
from projections.debugging.error_line import error_line, same_error_key

_STATUS = r"(?<!\.\w:)(?<!\.\w\w:)(?<!\.\w\w\w:)(?<!\d:)(?<!\bline )\b"
"""What is before a status, and not before the number of a line."""

_KINDS = (
    (
        "context",
        (
            r"context.?(?:length|window|size|limit|overflow)|maximum context|"
            r"(?:prompt|input) is too long|"
            r"too many (?:input )?tokens|token limit|maximum (?:number of )?(?:input )?tokens|"
            r"request too large|tokens? > \d|exceeds? .{0,40}\btokens?\b"
        ),
    ),
    (
        "interrupted",
        (
            r"permission prompt was aborted|(?:request|tool use) (?:was )?interrupted|"
            r"(?:rejected|denied|cancell?ed|aborted|interrupted) by (?:the )?user|"
            r"user (?:rejected|denied|aborted|cancell?ed|doesn't want)|command aborted|"
            r"(?:approval|confirmation) .{0,30}(?:aborted|cancell?ed|denied|timed out|expired)"
        ),
    ),
    (
        "quota",
        (
            r"\bquota(?![\w/-]{0,80}[./]\w)|\wquota|"
            r"billing[ _](?:hard|limit|details|not|is|has|account)|"
            r"(?:requires?|enable|check) (?:\w+ ){0,3}billing|insufficient.?(?:funds|credit)|"
            rf"{_STATUS}402\b(?!,\d)|payment required|credit balance|rate.?limit|"
            rf"{_STATUS}429\b(?!,\d)|too many requests|overloaded"
        ),
    ),
    (
        "resource",
        (
            r"no space left|ENOSPC|out of memory|cannot allocate memory|\bOOM\b|disk (?:is )?full|"
            r"too many open files|EMFILE|heap limit|^\s*Killed\b|exit(?:ed)?(?: with)? code:? 137\b"
        ),
    ),
    (
        "auth",
        (
            rf"{_STATUS}(?:401|403)\b(?!,\d)|"
            r"unauthori[sz]ed|forbidden|authenticat(?:e|ion)\b.{0,40}"
            r"(?:fail|requir|error|expired|invalid|must)|(?:invalid|incorrect|missing|no).{0,12}(?:api.?key|password)|"
            r"(?:token|session|credentials?|certificate|key|login|password|cookie|signature)s?\b.{0,30}"
            r"\b(?:expired|revoked|invalid)|expired.{0,12}(?:token|session|credential|key|login|cert)|"
            r"not logged in|please log ?in|(?<![\w.])/login\b(?![/.\w-])|"
            r"\bE401\b|\bE403\b|invalid_grant|invalid.token|"
            r"ENEEDAUTH"
        ),
    ),
    (
        "json",
        (
            r"unexpected end of (?:json|input|data)|unterminated string|json ?decode|"
            r"(?:invalid|malformed|truncated|incomplete|unparsable).{0,12}json|in JSON at position|"
            r"EOF while parsing|input data was truncated|not (?:a |valid )+json|"
            r"expecting (?:value|property name|',' delimiter)"
        ),
    ),
)
_KIND_OF = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _KINDS), re.IGNORECASE)
_OF_PROVIDERS = re.compile(
    r"context.?length.?exceeded|maximum context length|(?:prompt|input) is too long|"
    r"input token count.{0,60}exceeds|exceeds the (?:context|maximum number of (?:input )?tokens)|"
    r"context.?window.{0,40}exceed|exceed.{0,40}context.?window|too many tokens",
    re.IGNORECASE,
)
"""How providers say that a context is full: a tool that hands on their words was told so."""
_CODE = re.compile(
    r"^npm (?:error|ERR!) code (?:(?P<auth>E401|E403|ENEEDAUTH)|(?P<quota>E429))", re.MULTILINE
)
_MAX_CODE_CHARACTERS = 20_000

_SHORT_CHARACTERS = 500
_MAX_LONG_ERRORS = 300
"""Long errors of a log that are read line by line: the first third of them, and the last two."""


class ErrorGroup(msgspec.Struct, gc=False):
    """Errors with the same error line, in the order of the log."""

    line: str
    kind: str
    errors: list[CallError] = []
    recovered: list[CallError] = []

    @property
    def first(self) -> CallError:
        """The first of them."""
        return self.errors[0]

    @property
    def last(self) -> CallError:
        """The last of them."""
        return self.errors[-1]

    def line_of(self, error: CallError) -> str:
        """Return the error line of one of them, with its own numbers."""
        return self.line if error is self.last else error_line(error.text)


def group_errors(facts: LogFacts) -> list[ErrorGroup]:
    """Return the errors of a log by their error lines, in the order of the last of each group."""
    completed = _last_completions(facts)
    long = [error for error in facts.errors if len(error.text) > _SHORT_CHARACTERS]
    left_out = long[_MAX_LONG_ERRORS // 3 : -2 * _MAX_LONG_ERRORS // 3]
    unread = {error.version for error in left_out}
    groups: dict[str, ErrorGroup] = {}
    for error in facts.errors:
        if error.version in unread:
            continue
        line = error_line(error.text)
        key = same_error_key(line)
        group = groups.get(key)
        if group is None:
            group = groups[key] = ErrorGroup(line, error_kind(error, line), [], [])
        group.line = line
        group.errors.append(error)
        if _is_recovered(error, completed):
            group.recovered.append(error)
    return sorted(groups.values(), key=lambda group: group.last.version)


def _last_completions(facts: LogFacts) -> dict[str, int]:
    """Return for each fingerprint the version of its last completion that says no error."""
    completed: dict[str, int] = {}
    for call in facts.calls.values():
        if call.status == "completed" and not call.is_error and call.fingerprint:
            completed[call.fingerprint] = max(completed.get(call.fingerprint, 0), call.ended)
    return completed


def _is_recovered(error: CallError, completed: dict[str, int]) -> bool:
    call = error.call
    if call is None or call.fingerprint is None:
        return False
    return completed.get(call.fingerprint, 0) > error.version


def error_kind(error: CallError, line: str) -> str:
    """Return an error's kind: context, interrupted, quota, resource, auth, json or error."""
    if error.kind in ("auth", "quota"):
        return error.kind
    if error.kind == "rate_limit":
        return "quota"
    match = _KIND_OF.search(line) or _CODE.search(error.text, 0, _MAX_CODE_CHARACTERS)
    kind = match.lastgroup or "error" if match is not None else "error"
    if kind == "context" and error.call is not None and not _OF_PROVIDERS.search(line):
        return "error"  # a limit of one tool
    return kind
