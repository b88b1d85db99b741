"""`LeaseKeeper`: renews the leases of attempts that take long.

1. A worker that starts an attempt with a lease has a `Hold` on it, until the end of the attempt is
   recorded, or no code is left that could record it.
2. A hold that is older than a third of its lease is renewed, by an event. Most attempts end before,
   and add none.
3. One daemon thread for a store renews. It begins with the first hold, and ends when there is none.
4. A lease ends by the time of the store. When a renewal is due, the keeper's monotonic clock says.
5. A renewal that is refused is not tried again: the attempt is over, or others have taken it over.
   One that the store could not take is tried again soon.
6. Where the worker of an attempt is this very process, the holds say whether a thread is still at
   it. So an attempt that was left is known at once.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from math import inf

from eventstore.domain.leases import RENEWALS_PER_LEASE
from eventstore.errors import EventStoreError, StorageError, StoreClosed
from eventstore.latch import Latch

_TRIES_PER_LEASE = 4 * RENEWALS_PER_LEASE
"""How often a renewal that failed is tried while a lease lasts."""

_LONGEST_SLEEP_SECONDS = 60.0

_keepers: weakref.WeakSet[LeaseKeeper] = weakref.WeakSet()


class Hold:
    """A worker at an attempt: as long as the object is there, the lease is renewed.

    `lease` is in microseconds. `attempt` is 0 until the attempt is about to be stored.
    """

    __slots__ = ("__weakref__", "_keeper", "attempt", "call_id", "conversation_id", "due", "lease")

    def __init__(self, keeper: LeaseKeeper, conversation_id: str, call_id: str, lease: int) -> None:
        self._keeper = keeper
        self.conversation_id = conversation_id
        self.call_id = call_id
        self.lease = lease
        self.attempt = 0
        self.due = inf
        """When to renew it, by the monotonic clock in seconds."""

    def began(self) -> None:
        """Let the lease be renewed from now on: the start of the attempt is stored."""
        self._keeper.renew_later(self)

    def release(self) -> None:
        """End the hold: the end of the attempt is recorded, or never will be."""
        self._keeper.forget(self)


class LeaseKeeper:
    """The holds of the attempts of one store; `renew` stores the renewal of one.

    `monotonic` gives seconds.
    """

    def __init__(
        self, renew: Callable[[Hold], object], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._renew = renew
        self._monotonic = monotonic
        self._holds: dict[int, weakref.ref[Hold]] = {}
        self._lock = threading.Lock()
        self._wake = Latch()  # ends the sleep of the thread
        self._sleeps_until = inf  # while the thread looks at the holds, too
        self._is_kept = False  # there is a thread
        _keepers.add(self)

    def hold(self, conversation_id: str, call_id: str, lease: int) -> Hold:
        """Return a hold on the attempt that is about to start."""
        hold = Hold(self, conversation_id, call_id, lease)
        self._holds[id(hold)] = weakref.ref(hold)
        return hold

    def forget(self, hold: Hold) -> None:
        """Renew a hold no more."""
        self._holds.pop(id(hold), None)

    def is_held(self, conversation_id: str, call_id: str, attempt: int) -> bool:
        """Return whether a thread of this process is at an attempt."""
        return any(
            (hold.conversation_id, hold.call_id, hold.attempt)
            == (conversation_id, call_id, attempt)
            for hold in self._alive()
        )

    def renew_later(self, hold: Hold) -> None:
        """Renew a hold when it is due."""
        hold.due = self._monotonic() + hold.lease / (1_000_000 * RENEWALS_PER_LEASE)
        if not self._is_kept:
            self._start_thread()
        elif hold.due < self._sleeps_until:
            self._wake.set()

    def renew_due(self, now: float | None = None) -> float | None:
        """Renew the holds that are due; return the seconds until the next one is, None for none.

        `now` is in seconds, by the monotonic clock.
        """
        now = self._monotonic() if now is None else now
        due = inf
        for hold in self._alive():
            if hold.due <= now:
                hold.due = now + self._renewed(hold) * hold.lease / 1_000_000
            due = min(due, hold.due)
        if not self._holds:
            return None
        return max(due - now, 0.0)

    def _renewed(self, hold: Hold) -> float:
        """Renew a hold; return the part of its lease after which that is due again."""
        try:
            self._renew(hold)
        except Exception as error:  # noqa: BLE001 - the other leases are still to be renewed
            is_final = isinstance(error, EventStoreError) and not isinstance(error, StorageError)
            return inf if is_final or isinstance(error, StoreClosed) else 1 / _TRIES_PER_LEASE
        return 1 / RENEWALS_PER_LEASE

    def _alive(self) -> list[Hold]:
        alive: list[Hold] = []
        for key, ref in list(self._holds.items()):
            hold = ref()
            if hold is not None:
                alive.append(hold)
            elif self._holds.get(key) is ref:
                del self._holds[key]
        return alive

    def _start_thread(self) -> None:
        with self._lock:
            if not self._is_kept:
                self._is_kept = True
                mine = (weakref.ref(self),)
                threading.Thread(target=_keep, args=mine, name="leases", daemon=True).start()

    def tick(self) -> tuple[Latch, float] | None:
        """Renew what is due; return what ends the sleep after it, and how long that is at most.

        None is returned where the thread ends, because there are no holds.
        """
        wake = self._wake = Latch()
        self._sleeps_until = inf
        seconds = self.renew_due()
        if seconds is None and self._has_ended():
            return None
        seconds = min(seconds or 0.0, _LONGEST_SLEEP_SECONDS)
        self._sleeps_until = self._monotonic() + seconds
        return wake, seconds

    def _has_ended(self) -> bool:
        """Return whether the thread may end. A hold is there before it asks for a thread."""
        with self._lock:
            self._is_kept = False
            self._is_kept = bool(self._holds)
            return not self._is_kept


def _keep(keeper_ref: weakref.ref[LeaseKeeper]) -> None:
    """Renew leases until there are none; the thread keeps no store alive while it sleeps."""
    while (keeper := keeper_ref()) is not None:
        sleep = keeper.tick()
        del keeper
        if sleep is None:
            return
        wake, seconds = sleep
        wake.wait(seconds)


def is_held_here(conversation_id: str, call_id: str, attempt: int) -> bool:
    """Return whether a thread of this process is at an attempt, in any store."""
    return any(keeper.is_held(conversation_id, call_id, attempt) for keeper in list(_keepers))
