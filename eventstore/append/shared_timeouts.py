"""`InVain`: the waits for a database that ended in nothing, shared by all who waited.

Appends are carried out one after the other. Where each had to wait for a server that is gone, or
for a lock that another program keeps, the last of them would wait for as long as all together.
"""

from __future__ import annotations

from math import inf

from eventstore.errors import StorageError, StoreBusy

LONG = 1.0
"""Seconds behind which a failure was a wait; what fails sooner keeps nobody waiting."""


class InVain:
    """Remembers when the last wait for each lane began, and for the server, and how it ended."""

    def __init__(self) -> None:
        self._last = -inf
        self._ends: dict[int | None, tuple[float, StorageError]] = {}

    def note(self, error: StorageError, lane: int, began: float, ended: float) -> None:
        """Remember how an append to a lane ended, if that was a wait.

        A lock is a lane's; a server that does not answer is gone for all of them.
        """
        if type(error) in (StorageError, StoreBusy) and ended - began > LONG:
            self._ends[lane if isinstance(error, StoreBusy) else None] = began, error
            self._last = max(self._last, began)

    def concerns(self, asked: float) -> bool:
        """Whether one who asked at a time may have waited for as long as another, in vain."""
        return asked <= self._last

    def error(self, lane: int, asked: float) -> StorageError | None:
        """What he is to be told: the same, where he had asked before that wait began."""
        for key in (None, lane):
            began, error = self._ends.get(key, (-inf, None))
            if error is not None and asked <= began:
                told = type(error)(*error.args)
                told.__cause__ = error.__cause__
                return told
        return None
