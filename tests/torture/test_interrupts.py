"""Ctrl-C at any moment: each append happened or did not, and nothing lies afterwards."""

from __future__ import annotations

import linecache
import random
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest
import workers

import eventstore
from eventstore import EventStore, appending
from eventstore.errors import IllegalTransition
from eventstore.testing import message

if TYPE_CHECKING:
    from servers import Server

HOME = str(Path(eventstore.__file__).parent)
# Signals come at calls and at jumps back, and in between no line of these is.
SAFE = ("with ", "try:", "finally:", "self._leader = 0")


@pytest.fixture(params=["memory", "file"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EventStore]:
    """A store."""
    monkeypatch.setattr(appending, "PATIENCE", 0.005)  # as often as it is needed here
    place = "" if request.param == "memory" else f"/{tmp_path / 'agent.db'}"
    with EventStore.open(f"sqlite://{place}") as store:
        yield store


def interrupt(job: Callable[[], object], *lines: int) -> bool:
    """Run the job, Ctrl-C pressed at the n-th line of ours, and m lines later again.

    Whether it was so long that it came to that.
    """
    left = list(lines)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if event == "line" and left:
            left[0] -= 1
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            if left[0] <= 0 and not line.startswith(SAFE):
                left.pop(0)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        job()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return len(left) < len(lines)


def append_and_check(store: EventStore, append: Callable[[], object], *lines: int) -> bool:
    """One interrupted append, with everything that has to hold behind it."""
    chat = store.conversation("chat")
    before = chat.version
    interrupted = interrupt(append, *lines)
    workers.check_what_is_remembered(store)
    stored = len(list(chat.events()))
    assert stored in (before, before + 2)
    assert chat.version == stored
    chat.append(message("sound"), expected_version=stored)
    appender = store.appender
    assert (appender._leader, appender._led, len(appender._waiting)) == (0, False, 0)
    return interrupted


@pytest.mark.parametrize("known", [True, False])
def test_an_append_interrupted_at_any_line_is_whole_or_nothing(
    store: EventStore, known: bool
) -> None:
    """Line by line through the whole of it, its conversation in memory or not."""
    chat = store.conversation("chat")
    number = 0
    interrupted = True
    while interrupted:
        number += 1
        if not known:
            store.appender._states.clear()
        interrupted = append_and_check(
            store, lambda: chat.append(message("a"), message("b")), number
        )
    assert number > 50
    workers.check_nothing_is_locked(store)
    assert list(store.verify()) == []


def test_an_append_interrupted_twice_is_whole_or_nothing(store: EventStore) -> None:
    """Ctrl-C again, while the first is being cleaned up."""
    chat = store.conversation("chat")
    chance = random.Random(3)
    for _ in range(150 * workers.LONG):
        lines = chance.randint(1, 120), chance.randint(1, 25)
        append_and_check(store, lambda: chat.append(message("a"), message("b")), *lines)
    workers.check_nothing_is_locked(store)
    assert list(store.verify()) == []


def test_a_call_interrupted_at_any_line_starts_once(store: EventStore) -> None:
    """Whoever was interrupted can ask what became of it, and each attempt has one start."""
    chat = store.conversation("chat")
    number = 0
    interrupted = True
    while interrupted:
        number += 1
        tool = chat.request("pay", {"n": number})
        interrupted = interrupt(lambda t=tool: chat.start(t.id), number)  # type: ignore[misc]
        workers.check_what_is_remembered(store)
        if chat.tools[tool.id].attempts:
            with pytest.raises(IllegalTransition):
                chat.start(tool.id)
        else:
            chat.start(tool.id)
        chat.complete(tool.id, "paid")
    assert {tool.attempts for tool in chat.tools.values()} == {1}


timers = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no signals by timer here")


@timers
@pytest.mark.parametrize("place", ["sqlite://", "file"])
def test_real_signals_at_random_moments(tmp_path: Path, place: str) -> None:
    """Wherever Python delivers them; in a process without a tracer of tests, which they upset."""
    url = place if place == "sqlite://" else f"sqlite:///{tmp_path / 'agent.db'}"
    (sure,) = workers.at_once([partial(workers.append_interrupted, url, 200 * workers.LONG)])
    assert isinstance(sure, int), sure
    assert sure > 0


@timers
def test_real_signals_while_a_server_is_waited_for(server: Server) -> None:
    """What was sent then may be stored, or not; it is looked at again, and nothing is doubled."""
    url = server.database(migrated=True)
    job = partial(workers.append_interrupted, url, 60 * workers.LONG, longest=0.03)
    (sure,) = workers.at_once([job])
    assert isinstance(sure, int), sure
    assert sure > 0


@timers
@pytest.mark.parametrize("place", ["sqlite://", "file"])
def test_a_signal_handler_that_appends_is_refused_or_comes_in_between(
    tmp_path: Path, place: str
) -> None:
    """It never writes into the transaction that it interrupts."""
    url = place if place == "sqlite://" else f"sqlite:///{tmp_path / 'agent.db'}"
    (outcomes,) = workers.at_once([partial(workers.append_in_handler, url, 100 * workers.LONG)])
    assert set(outcomes) <= {"refused", "stored"}
    assert len(outcomes) == 100 * workers.LONG
