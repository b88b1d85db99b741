"""Ctrl-C at any moment: each append happened or did not, and nothing lies afterwards."""

from __future__ import annotations

import linecache
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import workers

import eventstore
from eventstore import EventStore
from eventstore.conversation import Conversation
from eventstore.errors import IllegalTransition
from eventstore.state import ConversationState
from eventstore.testing import message, together

HOME = str(Path(eventstore.__file__).parent)
# Signals come at calls and at jumps back, and in between no line of these is.
SAFE = ("with ", "try:", "finally:", "self._appending = False")


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    """A store."""
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


def check_what_is_remembered(store: EventStore) -> None:
    """A state in memory is the state that the log gives."""
    for name, state in store._states.items():
        fresh = ConversationState(0)
        fresh.extend(store._storage.conversation(name))
        assert (state.version, state.known, state.open) == (fresh.version, fresh.known, fresh.open)
        assert state.next_turn() == fresh.next_turn()


def check_nothing_is_locked(store: EventStore) -> None:
    """Other threads can still append."""
    chat = store.conversation("chat")
    thread = threading.Thread(target=lambda: chat.append(message("thread")), daemon=True)
    before = chat.version
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert chat.version == before + 1


def append_and_check(store: EventStore, append: Callable[[], object], *lines: int) -> bool:
    """One interrupted append, with everything that has to hold behind it."""
    chat = store.conversation("chat")
    before = chat.version
    interrupted = interrupt(append, *lines)
    check_what_is_remembered(store)
    stored = len(list(chat.events()))
    assert stored in (before, before + 2)
    assert chat.version == stored
    chat.append(message("sound"), expected_version=stored)
    assert not store._appending
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
            store._states.clear()
        interrupted = append_and_check(
            store, lambda: chat.append(message("a"), message("b")), number
        )
    assert number > 50
    check_nothing_is_locked(store)
    assert list(store.verify()) == []


def test_an_append_interrupted_twice_is_whole_or_nothing(store: EventStore) -> None:
    """Ctrl-C again, while the first is being cleaned up."""
    chat = store.conversation("chat")
    chance = random.Random(3)
    for _ in range(150 * workers.LONG):
        lines = chance.randint(1, 120), chance.randint(1, 25)
        append_and_check(store, lambda: chat.append(message("a"), message("b")), *lines)
    check_nothing_is_locked(store)
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
        check_what_is_remembered(store)
        if chat.tools[tool.id].attempts:
            with pytest.raises(IllegalTransition):
                chat.start(tool.id)
        else:
            chat.start(tool.id)
        chat.complete(tool.id, "paid")
    assert {tool.attempts for tool in chat.tools.values()} == {1}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer signals")
def test_real_signals_at_random_moments(store: EventStore) -> None:
    """Wherever Python delivers them."""
    chat = store.conversation("chat")
    chance = random.Random(11)
    sure: list[str] = []
    maybe: set[str] = set()

    def append(number: int, chat: Conversation) -> None:
        n = 0
        while True:
            text = f"{number}.{n}"
            maybe.add(text)
            chat.append(message(text))
            sure.append(text)
            n += 1

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for number in range(200 * workers.LONG):
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.004))
                append(number, chat)
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
            check_what_is_remembered(store)
            stored = [r.event.parts[0].text for r in chat.events()]  # type: ignore[union-attr]
            assert len(set(stored)) == len(stored)
            assert set(sure) <= set(stored) <= maybe
    finally:
        signal.signal(signal.SIGALRM, before)
    assert sure
    check_nothing_is_locked(store)
    assert list(store.verify()) == []


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer signals")
def test_a_signal_handler_that_appends_is_refused_or_comes_in_between(store: EventStore) -> None:
    """It never writes into the transaction that it interrupts."""
    chat = store.conversation("chat")
    outcomes: list[str] = []

    def handler(*_: object) -> None:
        try:
            chat.append(message("handler"))
        except eventstore.EventStoreError:
            outcomes.append("refused")
        else:
            outcomes.append("stored")

    chance = random.Random(5)
    before = signal.signal(signal.SIGALRM, handler)
    count = 0
    try:
        for _ in range(100 * workers.LONG):
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.002))
            had = len(outcomes)
            while len(outcomes) == had:
                chat.append(message("main"))
                count += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert chat.version == count + outcomes.count("stored")
    check_what_is_remembered(store)
    together(lambda: chat.append(message()))
    assert list(store.verify()) == []
