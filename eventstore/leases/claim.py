"""`Claim`: what the start of an attempt claims."""

from __future__ import annotations

import msgspec

from eventstore.leases.keeper import Hold
from eventstore.leases.worker import this_worker


class Claim(msgspec.Struct, frozen=True, eq=False):
    """What the start of an attempt claims: a lease in microseconds, which a hold may renew.

    As a context manager it releases the hold if the block raises: the attempt was not started here.
    `takes_over`: a person says that the call may start during an attempt that is under way.
    """

    lease: int | None = None
    hold: Hold | None = None
    takes_over: bool = False

    def worker_of(self, attempt: int) -> str | None:
        """Return the worker of the attempt that is about to be stored, if its hold is renewed."""
        if self.hold is None:
            return None
        self.hold.attempt = attempt
        return this_worker()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self.release()

    def release(self) -> None:
        """Release the hold."""
        if self.hold is not None:
            self.hold.release()


NO_CLAIM = Claim()
"""The claim of a start without a lease."""
