"""The library's own texts in a prompt, and how they are known again when they come back.

A framework keeps what it was shown, and may hand it back as if a tool or a person had said it.
Nothing that `is_own_text` knows is recorded as a result, or as words of a person or the model. A
text that older versions wrote stays in the list, because checkpoints keep it.

Where a provider has no mark for an error, its text is written as `{"error":"..."}`, and read again
as an error. So a call that has failed is not completed by what the model was shown of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from eventstore.domain.doubt import MAY_HAVE_TAKEN_EFFECT

OPENING: Final = "[The conversation begins here.]"
"""What a user's message says where a request would begin with something else."""

STOPPED: Final = "[The conversation stopped here: nothing was said after the message above.]"
"""What a user's message says where a request would end with the assistant's words."""

RECEIVED: Final = "[The results were received.]"
"""What the assistant says between results and a user's words, where it said nothing."""

DONE: Final = "[Note, not said by the assistant: tools of {} did this while it answered.]"
CALLED: Final = "[Note, not said by the assistant: it made this call, which has no output.]"
THOUGHT: Final = "[Note, not said by the assistant: it thought this before it went on.]"

# what stands in the place of a result

NOT_STARTED: Final = "[Not started: this call has not run.]"
AWAITING_APPROVAL: Final = "[Awaiting approval: this call has not run.]"
APPROVED: Final = "[Approved, but not started: this call has not run.]"
APPROVED_AFTER_PAUSE: Final = "[Approved, but not continued: this call has not run to its end.]"
DEFERRED: Final = "[Deferred until {}: this call has not run.]"
PAUSED: Final = "[Paused until {}: this call has not run to its end.]"
UNKNOWN_OUTCOME: Final = (
    "[Started (attempt {}), outcome unknown: this call may have taken effect. Check before "
    "running it again.]"
)
UNREADABLE_START: Final = (
    "[Outcome unknown: this call may have taken effect. Check before running it again.]"
)
"""What is said of a call whose start cannot be read."""

UNPARSED: Final = "[Not executed: its arguments could not be parsed as a JSON object.]"
NOT_KNOWN_TO_HAVE_RUN: Final = (
    "[No result was recorded for this call: whether it ran is not known.]"
)
ORPHAN: Final = "[Result of call {} that is not open in this history]"
NAMELESS_ORPHAN: Final = "[Result of a call that is not open in this history]"

_OWN: Final = (
    OPENING,
    STOPPED,
    RECEIVED,
    DONE,
    CALLED,
    THOUGHT,
    NOT_STARTED,
    AWAITING_APPROVAL,
    APPROVED,
    APPROVED_AFTER_PAUSE,
    DEFERRED,
    PAUSED,
    UNKNOWN_OUTCOME,
    UNREADABLE_START,
    UNPARSED,
    NOT_KNOWN_TO_HAVE_RUN,
    ORPHAN,
    NAMELESS_ORPHAN,
)

_FIRST_LINE: Final = re.compile(
    "|".join(re.escape(text).replace(r"\{\}", "[^\n]*") for text in _OWN)
)

_BEGINNING: Final = re.compile("|".join({re.escape(text.partition("{}")[0]) for text in _OWN}))
"""Also in JSON, which escapes nothing in it."""


class _Error(msgspec.Struct, forbid_unknown_fields=True):
    error: str


_encode: Final = msgspec.json.Encoder().encode
_decode_error: Final = msgspec.json.Decoder(_Error).decode

_WRAPPERS: Final = ('"', "{", "[")
_LONGEST_WRAPPED: Final = 16_384
"""Characters of a JSON text that is looked into: the library's own texts are short."""

_DEEPEST: Final = 4
"""How often frameworks put a text into JSON at most, as far as is known."""


def error_as_text(said: str) -> str:
    """Return the text of an error, for a tool message without a mark for it."""
    return _encode(_Error(said)).decode()


def error_of_text(text: str) -> str | None:
    """Return what the error says that `error_as_text` wrote, or None.

    A line of the library's own may follow it, and is kept.
    """
    written, line, note = text.partition("\n")
    if not written.startswith('{"error":') or (line and not _is_note(note)):
        return None
    try:
        said = _decode_error(written).error
    except msgspec.DecodeError:  # it goes on, or is cut
        return None
    return f"{said}{line}{note}" if error_as_text(said) == written else None


def without_note(text: str) -> str:
    """Return an answer without the line that the library adds below it."""
    said, _, note = text.rpartition("\n")
    return said if _is_note(note) else text


def _is_note(line: str) -> bool:
    return line.startswith("[") and line.endswith("]")


def is_own_text(text: str) -> bool:
    """Return whether the library wrote a text; a note of its own may follow the first line.

    It may stand in JSON, as where a provider has no mark for an error, or in the parts of a result.
    """
    if MAY_HAVE_TAKEN_EFFECT not in text and not _may_be_own(text):
        return False
    said = _unwrapped(text)
    return _FIRST_LINE.fullmatch(said.partition("\n")[0]) is not None or _tells_of_doubt(said)


def _may_be_own(text: str) -> bool:
    """Return whether a text may begin with a text of the library's own, or may hold one as JSON."""
    begin = text.lstrip()
    find = _BEGINNING.search if begin.startswith(_WRAPPERS) else _BEGINNING.match
    return find(begin) is not None


def tells_of_doubt(text: str) -> bool:
    """Return whether a text is what the model reads of a call in doubt."""
    return MAY_HAVE_TAKEN_EFFECT in text and _tells_of_doubt(_unwrapped(text))


def _tells_of_doubt(said: str) -> bool:
    return without_note(said).rstrip().endswith(MAY_HAVE_TAKEN_EFFECT)


def _unwrapped(text: str) -> str:
    """Return the only text in a JSON value; any other text as it is, without space around it."""
    text = text.strip()
    for _ in range(_DEEPEST):
        written, line, note = text.partition("\n")
        if line and not _is_note(note):
            written, line, note = text, "", ""
        if not written.startswith(_WRAPPERS) or len(written) > _LONGEST_WRAPPED:
            break
        try:
            said = _only_text(msgspec.json.decode(written))
        except (msgspec.DecodeError, RecursionError):
            break
        if said is None:
            break
        text = f"{said.strip()}{line}{note}"
    return text


def _only_text(value: Any) -> str | None:
    """Return the only text in a value, which may be a part with its type; None if there is more."""
    for _ in range(2 * _DEEPEST):
        if isinstance(value, str):
            return value
        inner: Sequence[Any] = ()
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            inner = [each for name, each in members.items() if name != "type"]
        elif isinstance(value, list):
            inner = cast("Sequence[Any]", value)
        else:
            return None
        texts: list[Any] = [each for each in inner if each and type(each) in (str, list, dict)]
        if len(texts) != 1:
            return None
        value = texts[0]
    return None
