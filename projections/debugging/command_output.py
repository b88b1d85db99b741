"""Failures that a program printed, in the output of a command that a tool ran.

A shell's tool often gives back what was printed, and no exit code. The output says a failure if one
of its last lines has a form that programs keep for it: the shell's own messages, a compiler's or a
test runner's summary, a refused push. The output of a command that only shows text (`cat`, `grep`)
is a failure only where the command itself complains: the text may be about anything.
"""

from __future__ import annotations

import re
from functools import lru_cache

from eventstore import FunctionCall
from eventstore.domain.json_types import is_json_list, is_json_object

_TAIL_CHARACTERS = 4_000
_LAST_LINES = 12
_TOOL = re.compile(
    r"(?:^|[_.-])(?:bash|shell|sh|terminal|console|powershell|cmd|exec\w*|run|command|process)"
    r"(?:$|[_.-])",
    re.IGNORECASE,
)
_ARGUMENTS = ("command", "cmd", "script", "commands")
_SHOWS_TEXT = re.compile(
    r"(?:awk|cat|cut|diff|echo|egrep|fgrep|find|grep|head|journalctl|jq|less|ls|more|nl|printf|rg|"
    r"sed|sort|tail|tee|tree|type|uniq|wc|git (?:-\S+ )*(?:diff|log|show|blame|grep|status))\b"
)

_PARTS = re.compile(r"&&|;|\n")
_OTHERS = re.compile(r"&&|\|\||;|\n")

_FAILED = re.compile(
    r"^(?:/\S*/)?(?:ba|da|k|z)?sh: (?:line )?(?:\d+: )?.{1,120}: (?:command )?not found\b"
    r"|^.{1,80}: command not found\b"
    r"|^[\w./-]{1,40}: .{1,300}: (?:No such file or directory|Permission denied|Is a directory|"
    r"Not a directory|Operation not permitted|No space left on device|"
    r"Connection (?:refused|timed out|reset by peer)|"
    r"No route to host|Network is unreachable|Name or service not known)$"
    r"|^Connection to \S{1,200} closed by remote host"
    r"|^curl: \(\d+\) |^make(?:\[\d+\])?: \*\*\* | ! \[(?:remote )?rejected\]"
    r"|^(?:error|fatal|panic|abort): \S|^ERROR:? {1,}\S|\bfatal error: \S"
    r"|\berror [A-Z]{2,8}\d{2,6}: \S|^[A-Z][a-z]{1,20}-[A-Z]\w{1,40}: (?:Cannot|Could not|Access)"
    r"|No space left on device"
    r"|^thread '[^']*' panicked at|^panic: |^(?:=+ )?[1-9]\d* failed\b|\bTests: +[1-9]\d* failed\b"
    r"|^FAILED \((?:failures|errors)=|^FAILED \S+::|^--- FAIL: |^FAIL\b|\bBuild FAILED\b"
    r"|^BUILD FAILED|^(?:Segmentation fault|Killed|Bus error|Aborted|Illegal instruction)\b"
    r"|^npm (?:ERR!|error) (?!code)|^Traceback \(most recent call last\)",
    re.MULTILINE,
)
_SOUND_END = re.compile(
    r"\b(?:0 (?:errors?|failed)|no errors|succe(?:ss\w*|eded)|all (?:tests |checks )?pass(?:ed)?|"
    r"done|finished|completed)\b",
    re.IGNORECASE,
)


def says_failure(output: str, call: FunctionCall) -> bool:
    """Return whether the output of a call that ran a command ends with a failure."""
    command = command_of(call)
    if command is None:
        return False
    lines = [line for line in output[-_TAIL_CHARACTERS:].splitlines() if line.strip()]
    if not lines:
        return False
    if _shows_text(command):
        word = command.split()[0]
        return len(lines) == 1 and lines[0].startswith(f"{word}: ")
    if _SOUND_END.search(lines[-1]) and not _FAILED.search(lines[-1]):
        return False
    return _FAILED.search("\n".join(lines[-_LAST_LINES:])) is not None


def command_of(call: FunctionCall) -> str | None:
    """Return the command that a call runs; empty if it is not known, None if it runs none."""
    arguments = call.arguments
    given = arguments if is_json_object(arguments) else {}
    for name in _ARGUMENTS:
        value = given.get(name)
        if isinstance(value, str):
            if "path" in given and value.isidentifier():
                return None  # an editor's own command, such as `view`
            return value.strip()
        if is_json_list(value):
            words = [str(word) for word in value]
            inner = words[2:] if words[1:2] in (["-c"], ["-lc"]) else words
            return " ".join(inner).strip()
    return "" if _TOOL.search(call.name) else None


def _shows_text(command: str) -> bool:
    """Return whether the last command of a line only shows text."""
    return _SHOWS_TEXT.match(_PARTS.split(command)[-1].strip()) is not None


@lru_cache(4_096)
def parts_of(command: str) -> tuple[str, ...]:
    """Return the commands of a line, one after the other; a pipe is one command."""
    return tuple(part.strip() for part in _OTHERS.split(command) if part.strip())
