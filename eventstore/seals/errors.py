"""The errors of seals. Each names what is wrong; none holds a secret, nor a text that may be one.

SealError
├── BadKey         a key's text has not the form of a key
├── BadNote        a text is no signed note, no checkpoint or no proof
├── NotSigned      a note has no valid signature of the keys that are trusted
├── NotSealed      the event comes after the last seal, or is not in the log
├── SealMismatch   the log is not what was sealed
├── AnchorFailed   a seal is stored, and an anchor outside did not take it
└── StampRefused   a time stamp is not one of the note by the authority
"""

from __future__ import annotations

from eventstore.errors import EventStoreError


class SealError(EventStoreError):
    """A log could not be sealed, or a seal could not be checked."""


class BadKey(SealError, ValueError):
    """The text of a key has not its form; the text itself is not repeated."""


class BadNote(SealError, ValueError):
    """A text has not the form of a signed note, of a checkpoint or of a proof."""


class NotSigned(SealError):
    """A note has no valid signature of the keys that are trusted."""


class NotSealed(SealError, LookupError):
    """An event, or a lane, is not covered by a seal."""


class SealMismatch(SealError):
    """What is in the log, or in a proof, is not what was sealed."""


class AnchorFailed(SealError):
    """A seal is stored, and an anchor did not take its note; the next seal offers it again."""


class StampRefused(SealError):
    """A time stamp is not one of this note by the authority."""
