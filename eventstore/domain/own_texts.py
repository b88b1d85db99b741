"""The library's own texts in a prompt, and how they are known again when they come back.

A framework keeps what it was shown, and may hand it back as if a tool or a person had said it.
Nothing that `is_own_text` knows is recorded as a result, or as words of a person or the model. A
text that older versions wrote stays in the list, because checkpoints keep it.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

OPENING: Final = "[The conversation begins here.]"
"""What a user's message says where a request would begin with something else."""

STOPPED: Final = "[The conversation stopped here: nothing was said after the message above.]"
"""What a user's message says where a request would end with the assistant's words."""

RECEIVED: Final = "[The results were received.]"
"""What the assistant says between results and a user's words, where it said nothing."""

DONE: Final = "[Note, not said by the assistant: tools of {} did this while it answered.]"
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

_ERROR: Final = '{"error":'


class _Error(msgspec.Struct, forbid_unknown_fields=True):
    error: str


_FIRST_LINE: Final = re.compile(
    "|".join(re.escape(text).replace(r"\{\}", "[^\n]*") for text in _OWN)
)


def is_own_text(text: str) -> bool:
    """Return whether the library wrote a text; a note of its own may follow the first line.

    It may stand in the JSON of an error, as where a provider has no mark for one.
    """
    said = text.strip().partition("\n")[0]
    if said.startswith(_ERROR):
        try:
            said = msgspec.json.decode(said, type=_Error).error
        except msgspec.DecodeError:  # it goes on, or is cut
            return False
    return _FIRST_LINE.fullmatch(said) is not None
