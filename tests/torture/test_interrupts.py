"""Ctrl-C at any moment: each append is stored or not, and the log is right afterwards."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import workers
from support.interrupts import interrupt
from support.tiers import repeated

import eventstore
from eventstore import EventStore
from eventstore.errors import IllegalTransition
from eventstore.session import SessionSettings
from eventstore.storage.factory import open_storage
from eventstore.testing import Acknowledgement

if TYPE_CHECKING:
    from support.servers import Server

PACKAGE = Path(eventstore.__file__).parent
# Signals come at calls and at jumps back, and in between no line of these is.
SAFE = ("with ", "try:", "finally:", "self._leader_thread = 0")


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    """Return a store."""
    place = "" if request.param == "memory" else f"/{tmp_path / 'agent.db'}"
    storage = open_storage(f"sqlite://{place}", "", "full", 30.0)
    settings = SessionSettings(recheck_interval=0.005)  # as often as it is needed here
    with EventStore(storage, settings=settings) as store:
        yield store


def append_and_check(store: EventStore, notes: list[Acknowledgement], *lines: int) -> int:
    """Make one interrupted append, and assert everything that has to hold after it.

    Return how many interrupts came.
    """
    chat = store.conversation("chat")
    before = chat.version
    texts = f"a {len(notes)}", f"b {len(notes)}"
    append = partial(workers.noted, notes, "main", chat, *texts)
    interrupts = interrupt(append, *lines, within=PACKAGE, safe=SAFE)
    workers.check_what_is_remembered(store)
    stored = len(list(chat.events()))
    assert stored in (before, before + 2)
    assert chat.version == stored
    workers.noted(notes, "main", chat, f"sound {len(notes)}", expected_version=stored)
    assert store.session.committer.idle
    return interrupts


@pytest.mark.parametrize("known", [True, False])
def test_an_append_interrupted_at_any_line_is_whole_or_nothing(
    store: EventStore, known: bool
) -> None:
    """This holds whether its conversation is in memory or not."""
    notes: list[Acknowledgement] = []
    number = 0
    interrupts = 1
    while interrupts:
        number += 1
        if not known:
            store.session.committer.reset_after_fork()  # it forgets all
        interrupts = append_and_check(store, notes, number)
    assert number > 50
    workers.check_messages(store, notes)
    workers.check_nothing_is_locked(store)


def test_an_append_interrupted_twice_is_whole_or_nothing(store: EventStore) -> None:
    """The second Ctrl-C comes while the first one is handled."""
    notes: list[Acknowledgement] = []
    chance = random.Random(3)
    twice = 0
    for _ in range(repeated(150)):
        lines = chance.randint(1, 120), chance.randint(1, 25)
        twice += append_and_check(store, notes, *lines) == len(lines)
    assert twice > 0
    workers.check_messages(store, notes)
    workers.check_nothing_is_locked(store)


def test_a_call_interrupted_at_any_line_starts_once(store: EventStore) -> None:
    """The caller can ask what became of it, and each attempt has one start."""
    chat = store.conversation("chat")
    number = 0
    interrupts = 1
    while interrupts:
        number += 1
        tool = chat.request("pay", {"n": number})
        start = partial(chat.start, tool.id)
        interrupts = interrupt(start, number, within=PACKAGE, safe=SAFE)
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
    """Signals come wherever Python delivers them, without the tests' tracer."""
    url = place if place == "sqlite://" else f"sqlite:///{tmp_path / 'agent.db'}"
    (sure,) = workers.at_once([partial(workers.append_interrupted, url, repeated(200))])
    assert isinstance(sure, int), sure
    assert sure > 0


@timers
def test_real_signals_while_a_server_is_waited_for(server: Server) -> None:
    """An event that was being sent may be stored or not.

    The log is read again, and no event is doubled.
    """
    url = server.database(migrated=True)
    job = partial(workers.append_interrupted, url, repeated(60), longest=0.03)
    (sure,) = workers.at_once([job])
    assert isinstance(sure, int), sure
    assert sure > 0


@timers
@pytest.mark.parametrize("place", ["sqlite://", "file"])
def test_a_signal_handler_that_appends_is_refused_or_comes_in_between(
    tmp_path: Path, place: str
) -> None:
    """The handler never writes into the transaction that it interrupts."""
    url = place if place == "sqlite://" else f"sqlite:///{tmp_path / 'agent.db'}"
    (outcomes,) = workers.at_once([partial(workers.append_in_handler, url, repeated(100))])
    assert set(outcomes) <= {"refused", "stored"}
    assert len(outcomes) == repeated(100)
