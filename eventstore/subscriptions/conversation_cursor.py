"""`ConversationCursor`: a position in one conversation."""

from __future__ import annotations

import re
from typing import Self

from eventstore.domain.arguments import check_version

_WRITTEN = re.compile("([0-9]{1,30})(?:-([0-9a-f]{32}(?:@-?[0-9]+)?))?")


class ConversationCursor(int):
    """A version of a conversation, and the anchor of the event there; `str()` to keep both.

    A number alone is a cursor, too. It gets the anchor of the event that is there when it is first
    read from, so it cannot tell whether another one was there before.
    """

    anchor: str | None

    def __new__(cls, version: int, anchor: str | None = None) -> Self:
        """Return a version with the anchor of its event."""
        self = super().__new__(cls, version)
        self.anchor = anchor
        return self

    def __str__(self) -> str:
        version = int.__repr__(self)
        return version if self.anchor is None else f"{version}-{self.anchor}"

    @classmethod
    def of(cls, after: int | str) -> ConversationCursor:
        """Return the cursor that `str()` wrote, or the one of a version.

        Raises:
            ValueError: it is neither.
        """
        if isinstance(after, ConversationCursor):
            check_version("after", int(after))
            return after
        if not isinstance(after, str):
            check_version("after", after)
            return cls(after)
        written = _WRITTEN.fullmatch(after)
        if written is None:
            raise ValueError(
                f"{after!r} is not a cursor: pass what str(follow.cursor) returned, or a version"
            )
        version = int(written[1])
        check_version("after", version)
        return cls(version, written[2])
