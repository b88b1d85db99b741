"""`Revision`: what a person saw of a call, as a value that a command line and a form can carry.

1. It names the starts and the pauses of the call, and the digest of the call in force: its id, its
   tool and its arguments. They are what a person is shown.
2. It changes when the call is edited, started, paused or deferred, and not when it is decided on.
   So the same decision may come twice, and one on an earlier question never answers a later one.
3. The digest is SHA-256, because a decision is bound to it; a fingerprint only groups calls.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from eventstore.domain.calls import FunctionCall

_DIGITS = 32
_canonical = msgspec.json.Encoder(order="deterministic").encode


class Revision(NamedTuple):
    """What was seen of a call; as text `starts.pauses.digest`."""

    attempts: int
    pauses: int
    digest: str

    def __str__(self) -> str:
        return f"{self.attempts}.{self.pauses}.{self.digest}"

    @classmethod
    def of(cls, call: FunctionCall, attempts: int, pauses: int) -> Revision:
        """Return the revision of a call in force that was started and paused that often."""
        return cls(attempts, pauses, sha256(_canonical(call)).hexdigest()[:_DIGITS])

    @classmethod
    def parse(cls, text: str) -> Revision:
        """Return the revision that a text names.

        Raises:
            ValueError: it is no revision.
        """
        attempts, _, rest = text.partition(".")
        pauses, _, digest = rest.partition(".")
        if not (_is_number(attempts) and _is_number(pauses) and len(digest) == _DIGITS):
            raise ValueError(
                f"seen is {text!r}, which is no revision of a call: pass the Tool that was shown, "
                "or its `revision`"
            )
        return cls(int(attempts), int(pauses), digest)

    def same_question(self, other: Revision) -> bool:
        """Return whether no attempt began or paused between the two."""
        return self[:2] == other[:2]

    def difference(self, now: Revision) -> str:
        """Return what has changed since, in words, and never the arguments: they may be secret."""
        found = ["it has other arguments"] if self.digest != now.digest else []
        if self.attempts != now.attempts:
            found.append(f"it was started {now.attempts} times, not {self.attempts}")
        if self.pauses != now.pauses:
            found.append(f"it has waited again {now.pauses} times, not {self.pauses}")
        return ", and ".join(found)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < _DIGITS
