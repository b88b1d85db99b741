"""The error line: of an error text of any length, the line that says the error.

1. A JSON text says the message of its error; markup and terminal colours are left out.
2. Each line has the rank of the first rule that it matches. The line of the highest rank is the
   error line. Of equals it is the first, because compilers continue after their first error. Of
   exceptions it is the last, because a chain of tracebacks ends with the one that was raised.
3. Stack frames, warnings, progress and the words of a package manager about its own log have no
   rank. "Command exited with code 1" has the lowest one: it is shown if there is nothing better.
4. Two errors are the same if their error lines are, numbers left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from eventstore.domain.json_types import JsonValue, is_json_list, is_json_object
from eventstore.domain.one_line import one_line

SHOWN_CHARACTERS = 160
"""Characters of an error line."""

_HEAD_CHARACTERS, _TAIL_CHARACTERS = 40_000, 80_000  # of a longer text the middle is not read
_LAST_CHARACTERS = 4_000
_MAX_JSON_CHARACTERS = 1_000_000
_MAX_JSON_DEPTH = 4
_MESSAGE_KEYS = (
    "error",
    "errors",
    "message",
    "error_message",
    "errorMessage",
    "error_description",
    "detail",
    "details",
    "reason",
    "title",
    "msg",
    "stderr",
    "content",
    "text",
    "output",
    "body",
)


class _Rule(NamedTuple):
    rank: int
    pattern: re.Pattern[str]
    is_last: bool = False


def _rule(rank: int, pattern: str, *, is_last: bool = False, flags: int = re.IGNORECASE) -> _Rule:
    return _Rule(rank, re.compile(pattern, flags), is_last)


_EXCEPTION = (
    r"^\s*(?:E\s+)?(?:Uncaught |Unhandled |exception: |\[)?(?:[\w$]+[.:]+)*"
    r"(?:[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|Failure|Fault|Warning|Expired|Exceeded|"
    r"Refused|Denied|Unavailable|NotFound|DoesNotExist|Exit|Overflow)|(?:Runtime)?Error)"
    r"(?: \[[\w.]+\])?(?:: \S|\]?$)"
)

_RULES = (
    # what says nothing
    _rule(
        0,
        r"^\s*+(?:$|\w+(?: \w+)*+: \(none\)|at .+[:)]\d*|"
        r"File \".+\", line \d+|[\^~|][\^~|\s]*+$|[=_─━*#.-]{4,}|> |"
        r"npm warn|warning:|\[notice\]|note: |hint: |Traceback \(most|During handling of|"
        r"The above exception was|Debugger attached|Waiting for the debugger|"
        r"npm (?:error|ERR!)(?:\s*+$|\s{2,}+/|\s++(?:A complete log|path|command|errno|syscall|"
        r"workspace|location|signal|cwd|dest|Lifecycle script|This is probably not|Failed at the|"
        r"Log files|If you|For a full|node -v|npm -v|See )))",
    ),
    _rule(
        0, r"\b(?:0|no|without(?: any)?) (?:errors?|failures?|failed)\b|\b(?:errors?|failed): 0\b"
    ),
    # what came of it
    _rule(1, r"exit(?:ed)?(?: with)?(?: non-zero)? (?:code|status):?\s*-?[1-9]"),
    _rule(
        2,
        r"^make(?:\[\d+\])?: \*\*\*|CalledProcessError|subprocess-exited-with-error|"
        r"^\s*error Command failed|ELIFECYCLE|^error: process didn't exit|aborting due to|"
        r"could not compile|Failed to build installable|^npm (?:error|ERR!) code \d|Error \d+$",
    ),
    # what says it
    _rule(9, r"^\s*Caused by: \S", is_last=True),
    _rule(9, r"^(?:FAILED|ERROR) (?>\S+?(?:::|\.py)).* - \S", flags=0),
    _rule(8, r"^E\s{2,}\S", flags=0),
    _rule(7, _EXCEPTION, is_last=True, flags=0),
    _rule(
        6,
        r"\berror(?:\[\w+\]| [A-Z]+\d+)?: \S|^(?:fatal|panic|abort)(?: error)?:|\bfatal error\b|"
        r"panicked at|^\s*\d+:\d+\s+error\s|Exception in thread|^error\b.{0,40}: \S",
    ),
    _rule(
        5,
        r"^npm (?:error|ERR!) (?!code )|\b(?:HTTP\S{0,20}|status(?: code)?:?)\s+[45]\d\d\b|"
        r"\b(?:401|402|403|404|408|409|413|429|50[0-4])\s+[A-Z][a-z]+|"
        r"\b(?:unauthori[sz]ed|forbidden|(?:permission|access) (?:was )?denied|"
        r"invalid (?:api.?key|token|credentials)|expired|quota|rate.?limit|too many requests|"
        r"timed? ?out|connection (?:refused|reset|aborted|closed)|no such (?:file|table|column)|"
        r"command not found|out of memory|segmentation fault|ENOENT|EACCES|ECONN\w+|ETIMEDOUT|"
        r"does not exist|context.?length|too long|unexpected (?:end|token|EOF))\b|^\s*Killed",
    ),
    _rule(4, r"^npm (?:error|ERR!) code "),
    _rule(
        3,
        r"\b(?:errors?|err|exceptions?|fail(?:ed|ure|s)?|cannot|can't|could not|couldn't|unable|"
        r"invalid|denied|refused|aborted|rejected|interrupted|cancell?ed|crash(?:ed)?|missing|"
        r"not (?:found|allowed|supported|permitted)|undefined|unknown|mismatch)\b|✗|✖|✘",
    ),
)
_HINTS = re.compile(
    r"err|exce|fail|fatal|panic|abort|caused|time|interrupt|fault|expir|refus|den[iy]|unavail|"
    r"not|exit|overflow|unauth|forbid|invalid|quota|limit|too |reset|closed|no such|memory|segment|"
    r"enoent|eacces|econn|unexpect|kill|cannot|can't|could|unable|reject|cancel|crash|miss|"
    r"undefined|unknown|mismatch|http|status|\*\*\*|elifecycle|compile|[45]\d\d\b|^e  |✗|✖|✘",
    re.MULTILINE,
)
"""What a line with a rank holds in lower case; other lines need not be looked at."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*+[A-Za-z]|\x1b\][^\x07\x1b]*+(?:\x07|\x1b\\)")
_TAGS = re.compile(r"</?[A-Za-z][\w:-]*(?:\s[^<>]*)?/?>")
_SCRIPTS = [
    (re.compile(rf"<{name}\b", re.IGNORECASE), re.compile(f"</{name}>", re.IGNORECASE))
    for name in ("style", "script")
]
"""How an element begins and ends of which nothing is read."""
_MARKUP = re.compile(
    r"\s*<(?:!doctype|\?xml|html|[a-z_:-]*(?:error|response|result|output)\b)", re.IGNORECASE
)
_DIGITS = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{7,}\b|\d+", re.IGNORECASE)


def error_line(text: str, width: int = SHOWN_CHARACTERS) -> str:
    """Return the line of an error text that says the error, of at most `width` characters."""
    text = _message_of_json(text) or text
    if len(text) <= width and "\n" not in text and "<" not in text and "\x1b" not in text:
        return one_line(text, width)
    if len(text) > _HEAD_CHARACTERS + _TAIL_CHARACTERS:
        text = f"{text[:_HEAD_CHARACTERS]}\n{text[-_TAIL_CHARACTERS:]}"
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if _MARKUP.match(text):
        text = _TAGS.sub("", _without_scripts(text))
    line, start = _best(text)
    return one_line(_with_message(line, start, width), width)


def _without_scripts(text: str) -> str:
    for begins, ends in _SCRIPTS:
        kept: list[str] = []
        at = 0
        while (begin := begins.search(text, at)) and (end := ends.search(text, begin.end())):
            kept.append(text[at : begin.start()])
            at = end.end()
        text = "".join([*kept, text[at:]])
    return text


def same_error_key(line: str) -> str:
    """Return what two error lines of the same error share: the line without its numbers."""
    return _DIGITS.sub("#", line)


def _best(text: str) -> tuple[str, int]:
    """Return the error line, and where in it the rule matched."""
    best, found, start = 0, "", 0
    for line in _hinted_lines(text):
        rank, at, is_last = _rank(line)
        if rank > best or (is_last and rank == best):
            best, found, start = rank, line, at
    if best > 1:
        return _continued(text, found), start
    fallback = _last_words(text)
    if found and (not fallback or fallback.startswith("(no ")):
        return found, start
    return fallback or found or text.strip(), start


def _hinted_lines(text: str) -> Iterator[str]:
    """Yield the lines that may have a rank."""
    lower = text.lower()
    if len(lower) != len(text):  # a few letters have a longer lower case
        yield from text.splitlines()
        return
    end = -1
    while (hint := _HINTS.search(lower, end + 1)) is not None:
        begin = text.rfind("\n", 0, hint.start()) + 1
        end = text.find("\n", hint.start())
        if end < 0:
            yield text[begin:]
            return
        yield text[begin:end]


def _last_words(text: str) -> str:
    """Return the last line that says something, where no line says an error."""
    for line in reversed(text[-_LAST_CHARACTERS:].splitlines()):
        if _rank(line)[0] != 1 and line.strip() and not _RULES[0].pattern.match(line):
            return line.strip()
    return ""


def _continued(text: str, found: str) -> str:
    """Return the line with the next one, where it only announces what follows (Rust's panics)."""
    if not found.rstrip().endswith(":"):
        return found
    rest = text[text.index(found) + len(found) :].lstrip()
    return f"{found.strip()} {rest.partition(chr(10))[0].strip()}"


def _rank(line: str) -> tuple[int, int, bool]:
    shown = line if len(line) <= 2 * SHOWN_CHARACTERS else _clipped(line)
    for rule in _RULES:
        match = rule.pattern.search(shown)
        if match is not None:
            return rule.rank, match.start(), rule.is_last
    return 0, 0, False


def _clipped(line: str) -> str:
    """Return the beginning of a long line: what is behind that (minified code) says nothing."""
    return line[: 8 * SHOWN_CHARACTERS]


def _with_message(line: str, start: int, width: int) -> str:
    """Return a long line as it is read best: with the message of its JSON, or around the match."""
    line = line.strip()
    if len(line) <= width:
        return line
    brace = line.find("{")
    if brace >= 0 and (message := _message_of_json(line[brace:])):
        return f"{line[:brace]}{message}"
    return f"...{line[start - 20 :]}" if start > width // 2 else line


def _message_of_json(text: str) -> str | None:
    """Return the message of a JSON text that says an error; None for any other text."""
    if len(text) > _MAX_JSON_CHARACTERS or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value: JsonValue = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return message_of(value)


def message_of(value: JsonValue, depth: int = 0) -> str | None:
    """Return the message in a JSON value that says an error, or None."""
    if isinstance(value, str):
        return value if value.strip() else None
    if depth > _MAX_JSON_DEPTH:
        return None
    if is_json_list(value):
        return _first(message_of(item, depth + 1) for item in value)
    if not is_json_object(value):
        return None
    message = _first(message_of(value[key], depth + 1) for key in _MESSAGE_KEYS if key in value)
    code = next((value[key] for key in ("code", "type", "status") if key in value), None)
    if message and isinstance(code, str | int) and not isinstance(code, bool):
        code_text = str(code)
        if code_text not in message and code_text not in ("error", "text"):
            return f"{code_text}: {message}"
    return message


def _first(messages: Iterable[str | None]) -> str | None:
    return next((message for message in messages if message), None)
