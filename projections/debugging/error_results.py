"""Results that say an error, in logs where no one marked them as failures.

A wire such as OpenAI's has no error flag: what failed there is stored as a completed call. A
result says an error if its form does: an error object, a text that begins as errors begin, one that
ends with an exit code, a command's output that ends with a failure, or the page that asks to sign
in. An error somewhere in a text is no sign: files hold such words. So the text of a file that a
tool read says an error only if it begins as a tool's own complaint does.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from eventstore import FunctionCall, Text
from eventstore.domain.json_types import is_json_list, is_json_object
from projections.debugging.command_output import says_failure
from projections.debugging.error_line import message_of

_HEAD_CHARACTERS, _TAIL_CHARACTERS = 240, 240

_BEGINS = re.compile(
    r"\s*(?:<tool_use_error>|<error>|(?:\w+ )?errors?\b"
    r"(?! (?:handling|logs?|of|that|are|codes|messages|rates?|counts?|reports?)\b)[:\s(-]|"
    r"(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)\b|traceback \(most|fatal:|panic:|exception\b|"
    r"HTTP\S* [45]\d\d|[45]\d\d (?:client|server|unauthorized|forbidden|not found|bad|internal|"
    r"too many|service|gateway|payment|conflict)|permission (?:denied|prompt was aborted)|"
    r"(?:command|request|operation|tool|execution|process|build|query|connection|call)\b[^.\n]{0,60}"
    r"\b(?:failed|timed out|aborted|refused|not found|denied|rejected|cancell?ed|interrupted)|"
    r"(?:failed|unable) to\b|(?:could not|couldn't|cannot|can't)\b|unauthori[sz]ed|forbidden|"
    r"access denied|invalid\b|time(?:d )?out\b|unknown tool|no such\b|not found|"
    r"(?:bash|sh|zsh|\(eval\)):.{0,80}(?:not found|no such|denied)|\[?(?:request|tool use) "
    r"(?:interrupted|aborted)|the user doesn't want|(?:the )?user (?:has )?(?:rejected|denied)|"
    r"prompt is too long|[^.\n]{0,30}\b(?:session|token|credentials?|api.?key|certificate|login)\b"
    r"[^.\n]{0,30}\b(?:expired|revoked|invalid)|\{\s*\"(?:error|errors|fault)\"\s*:(?!\s*(?:null|false|\"\"|\[\]|\{\}))|"
    r"\{.{0,200}?\"(?:is_?error\"\s*:\s*true|(?:success|ok)\"\s*:\s*false|"
    r"status\"\s*:\s*\"(?:error|failed|failure)\"|(?:status_?code|http_?status)\"\s*:\s*[45]\d\d|"
    r"(?:exit_?code|returncode)\"\s*:\s*-?[1-9]))",
    re.IGNORECASE | re.DOTALL,
)
_ENDS = re.compile(
    r"exit(?:ed)?(?: with)?(?: code| status):?\s*-?[1-9]\d*\W*$|command (?:aborted|timed out)\W*$|"
    r"(?:^|\n)(?:\w+\.)*\w+(?:Error|Exception): [^\n]+\s*$|npm (?:error|ERR!) [^\n]+\s*$",
    re.IGNORECASE,
)
_COMPLAINS = re.compile(
    r"\s*(?:<tool_use_error>|<error>|(?:\w+ )?error(?: \w+){0,3}: |traceback \(most|"
    r"(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception): |E(?:NOENT|ACCES|ISDIR|PERM)\b|"
    r"(?:bash|sh|zsh|cat|ls|head|tail): |permission denied|no such file|access denied|"
    r"(?:file|directory|path|folder)\b[^\n]{0,200}\b(?:not found|does ?n.t exist|does not exist|"
    r"denied)|(?:failed|unable) to (?:read|open|access|find|load)|"
    r"(?:could not|couldn't|cannot|can't) (?:read|open|access|find|load)|"
    r"\[?(?:request|tool use) (?:interrupted|aborted)|the user doesn't want|"
    r"(?:the )?user rejected|permission prompt was aborted)",
    re.IGNORECASE,
)
_READS = re.compile(r"(?:^|[_.-])(?:read|view|cat|open|load)|(?:Read|View)", re.IGNORECASE)
_PATHS = ("path", "file", "file_path", "filename", "filepath", "absolute_path")
_PAGE_CHARACTERS = 4_000
_PAGE = re.compile(r"\s*<(?:!doctype html|html)\b", re.IGNORECASE)
_SIGN_IN = re.compile(
    r"<title>\s*(?:sign in|log ?in|[45]\d\d\b|unauthori[sz]ed|forbidden|access denied|error\b)|"
    r"\bsession (?:has |is )?expired",
    re.IGNORECASE,
)
_END_WORDS = ("exit", "Exit", "ommand", "rror", "xception", "npm ERR")
_FLAGS = {"is_error": True, "isError": True, "success": False, "ok": False}
_EXIT_CODES = ("exit_code", "exitCode", "returncode", "return_code")
_STATUSES = ("status", "status_code", "statusCode", "http_status")
_MARKS = frozenset({"error", "errors", *_FLAGS, *_EXIT_CODES, *_STATUSES})
_ERROR_STATUSES = range(400, 600)


def error_text(result: object, call: FunctionCall) -> str | None:
    """Return the text of a call's result that says an error, or None for any other result."""
    if isinstance(result, str):
        if _reads_file(call):
            return result if _COMPLAINS.match(result[:_HEAD_CHARACTERS]) else None
        says = _text_says_error(result) or _asks_to_sign_in(result) or says_failure(result, call)
        return result if says else None
    if is_json_object(result):
        return _error_of_object(result)
    if is_json_list(result) or isinstance(result, tuple):
        return _error_of_parts(result)
    return None


def _reads_file(call: FunctionCall) -> bool:
    arguments = call.arguments
    names_file = is_json_object(arguments) and any(name in arguments for name in _PATHS)
    return names_file and _READS.search(call.name) is not None


def _asks_to_sign_in(text: str) -> bool:
    head = text[:_PAGE_CHARACTERS]
    return _PAGE.match(head) is not None and _SIGN_IN.search(head) is not None


def _text_says_error(text: str) -> bool:
    if _BEGINS.match(text[:_HEAD_CHARACTERS]) is not None:
        return True
    tail = text[-_TAIL_CHARACTERS:]
    return any(word in tail for word in _END_WORDS) and _ENDS.search(tail) is not None


def _error_of_object(result: dict[str, Any]) -> str | None:
    if not _MARKS.isdisjoint(result) and _has_error_mark(result):
        return message_of(result) or _json(result)
    content = result.get("content")  # the result of an MCP server
    return _error_of_parts(content) if isinstance(content, list) else None


def _has_error_mark(result: dict[str, Any]) -> bool:
    return (
        bool(result.get("error") or result.get("errors"))
        or any(result.get(key) is flag for key, flag in _FLAGS.items())
        or any(result.get(key) not in (None, 0) for key in _EXIT_CODES)
        or any(_is_error_status(result.get(key)) for key in _STATUSES)
    )


def _is_error_status(status: object) -> bool:
    if isinstance(status, str):
        return status.lower() in ("error", "failed", "failure")
    return isinstance(status, int) and status in _ERROR_STATUSES


def _error_of_parts(parts: Any) -> str | None:
    if len(parts) == 0:
        return None
    part = parts[0]
    text = part.text if isinstance(part, Text) else None
    if is_json_object(part):
        text = part.get("text")
    return text if isinstance(text, str) and _text_says_error(text) else None


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
