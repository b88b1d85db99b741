"""`SharedTimeouts`: one timeout, reported to every caller that waited through it.

Appends run one after the other. If a database does not answer, or another program keeps a lock,
each append would wait for the full `busy_timeout`, and N queued callers would wait
N x `busy_timeout`. So a caller that was queued already when a failed wait began gets the same
error at once.
"""

from __future__ import annotations

from math import inf

from eventstore.errors import OutcomeUnknown, StorageError, StoreBusy

MIN_WAIT_SECONDS = 1.0
"""A failure that took longer than this was a wait; a faster one delays no other caller."""


class SharedTimeouts:
    """The last failed wait for each lane, and for the whole server: its start and its error.

    Only failures that took longer than `min_wait` seconds were waits.
    """

    def __init__(self, min_wait: float = MIN_WAIT_SECONDS) -> None:
        self._min_wait = min_wait
        self.last_began = -inf
        """When the last failed wait began: what was queued by then has waited through it."""
        self._failures: dict[int | None, tuple[float, StorageError]] = {}

    def record(self, error: StorageError, lane: int, began: float, ended: float) -> None:
        """Remember how an append to a lane failed, if it had waited (times in seconds).

        A lock belongs to one lane. A server that does not answer is down for all lanes.
        """
        if isinstance(error, OutcomeUnknown):  # that of one append; others were not begun
            error = StorageError(f"{error.reason}: nothing was written, try again")
        if type(error) in (StorageError, StoreBusy) and ended - began > self._min_wait:
            self._failures[lane if isinstance(error, StoreBusy) else None] = began, error
            self.last_began = max(self.last_began, began)

    def error(self, lane: int, enqueued_at: float) -> StorageError | None:
        """Return the shared error for an append queued before the failed wait began, else None."""
        for key in (None, lane):
            began, error = self._failures.get(key, (-inf, None))
            if error is not None and enqueued_at <= began:
                shared = type(error)(*error.args)
                shared.__cause__ = error.__cause__
                return shared
        return None
