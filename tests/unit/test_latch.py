"""A latch ends all waits, also after a Ctrl-C at any moment inside of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event, Thread

import pytest
from support.interrupts import interrupt

from eventstore.latch import Latch

GENEROUS_SECONDS = 60.0
MOMENTS = ("call", "line", "return")


def waiting(latch: Latch, count: int) -> list[Thread]:
    """Start threads that wait for a latch."""
    threads = [Thread(target=latch.wait, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def set_in_a_thread(latch: Latch | Event, seconds: float) -> bool:
    """Set a latch; return whether that came to an end."""
    thread = Thread(target=latch.set, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def test_all_waits_end_when_it_is_set() -> None:
    """Those before and those after; a second `set` does nothing."""
    latch = Latch()
    threads = waiting(latch, 5)
    assert not latch.is_set()
    latch.set()
    for thread in threads:
        thread.join(GENEROUS_SECONDS)
        assert not thread.is_alive()
    latch.set()
    assert latch.is_set()
    assert latch.wait()
    assert latch.wait(0)


@pytest.mark.parametrize("timeout", [0, 0.001, -1.0, -0.5])
def test_a_wait_ends_after_its_timeout(timeout: float) -> None:
    """A negative timeout does not block."""
    assert not Latch().wait(timeout)


def test_a_wait_may_be_longer_than_the_system_can_wait() -> None:
    """The time is cut to what a lock takes."""
    latch = Latch()
    latch.set()
    assert latch.wait(1e300)


def interrupted(moment: int, *, is_set: bool) -> bool:
    """Interrupt `set`, or a wait when it is set, at a moment; return whether it came to that.

    Whatever happened, the latch can be set, and that ends all waits.
    """
    latch = Latch()
    threads = waiting(latch, 2)
    job: Callable[[], object] = latch.set
    if is_set:
        latch.set()
        job = partial(latch.wait, 0)
    came = interrupt(job, moment, events=MOMENTS)
    assert set_in_a_thread(latch, GENEROUS_SECONDS)
    for thread in threads:
        thread.join(GENEROUS_SECONDS)
        assert not thread.is_alive()
    return bool(came)


@pytest.mark.parametrize("is_set", [True, False], ids=["wait", "set"])
def test_a_latch_can_be_set_after_an_interrupt_at_any_moment(is_set: bool) -> None:
    """The waits of other threads end, too."""
    moment = 1
    while interrupted(moment, is_set=is_set):
        moment += 1
    assert moment > 8


def test_an_event_of_the_standard_library_stays_locked_after_an_interrupt() -> None:
    """The test above would notice. Where this one fails, Python has no need of a latch any more."""

    def hangs(moment: int) -> bool:
        event = Event()
        interrupt(event.set, moment, events=MOMENTS)
        return not set_in_a_thread(event, 1.0)

    assert any(map(hangs, range(1, 40)))
