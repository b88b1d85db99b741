"""The work of the torture tests' processes; each process opens a store of its own."""

from __future__ import annotations

import multiprocessing
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any
from uuid import uuid4

from eventstore import Conversation, Event, EventStore, Recorded
from eventstore.append.conversation_state import ConversationState
from eventstore.errors import EventStoreError, IllegalTransition, StoreFull
from eventstore.testing import (
    Acknowledgement,
    Guarantee,
    Place,
    Reading,
    acknowledged,
    check_history,
    message,
    places,
    refused,
    unknown,
)
from eventstore.testing.appending import text_of

_context = multiprocessing.get_context("forkserver")
# What is loaded before the fork takes no time in each child.
_context.set_forkserver_preload(
    [
        "alembic.command",
        "alembic.config",
        "eventstore.migrate",
        "eventstore.storage.mysql.backend",
        "eventstore.storage.postgresql.backend",
        "eventstore.storage.sqlite.backend",
        "eventstore.testing",
        "projections",
        "projections.projector",
        "psycopg",
        "pymysql",
    ]
)


def spawn(job: Callable[..., object], *args: Any) -> tuple[Any, Connection]:
    """Start a process that runs `job(*args, pipe)`; return it and our end of its pipe."""
    ours, theirs = _context.Pipe()
    process = _context.Process(target=_untraced, args=(job, *args, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _untraced(job: Callable[..., object], *args: Any) -> None:
    """Run a job without the tracer of coverage, whose lock a Ctrl-C leaves locked."""
    sys.settrace(None)
    threading.settrace(None)
    job(*args)


@contextmanager
def children(jobs: list[Callable[..., object]]) -> Iterator[list[tuple[Any, Connection]]]:
    """Start processes, and end all of them on exit."""
    spawned = [spawn(job) for job in jobs]
    try:
        yield spawned
    finally:
        for process, pipe in spawned:
            process.kill()
            process.join()
            pipe.close()


def at_once(jobs: list[Callable[..., object]]) -> list[Any]:
    """Run jobs in processes that begin at the same moment; return what each sent last."""
    with children([partial(after_signal, job) for job in jobs]) as spawned:
        for _, pipe in spawned:
            assert pipe.recv() == "ready"
        for _, pipe in spawned:
            pipe.send("go")
        return [pipe.recv() for _, pipe in spawned]


def after_signal(job: Callable[..., Any], pipe: Connection) -> None:
    """Run a job when a word comes through the pipe; send back its result or error."""
    pipe.send("ready")
    pipe.recv()
    try:
        pipe.send(job())
    except Exception as error:  # noqa: BLE001 - the test looks at it
        pipe.send(error)


def received(pipe: Connection) -> Iterator[Any]:
    """Yield what comes out of the pipe until its other end is closed."""
    while True:
        try:
            yield pipe.recv()
        except (EOFError, ConnectionResetError):
            return


# jobs


def append_without_end(url: str, seed: int, pipe: Connection) -> None:
    """Append, and note each append before it begins and after it has returned."""
    chance = random.Random(seed)
    writer = str(seed)
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        number = 0
        while True:
            texts = [f"{seed}.{number + n}" for n in range(chance.choice([1, 1, 1, 3, 20]))]
            number += len(texts)
            padding = "x" * chance.choice([0, 100, 3000])
            append_noting(pipe.send, writer, chat, *(message(f"{one} {padding}") for one in texts))


def run_calls(url: str, worker: str, calls: int) -> int:
    """Run calls from request to result; return their number."""
    with EventStore.open(url) as store:
        live(store, worker, calls)
    return calls


def live(store: EventStore, worker: str, calls: int) -> None:
    """Run some calls of one worker, from request to result, in the one conversation."""
    chat = store.conversation("chat")
    for n in range(calls):
        tool = chat.request("work", {"worker": worker, "n": n})
        chat.start(tool.id)
        chat.complete(tool.id, [worker, n])


def start_all(url: str, attempt: int, call_ids: list[str]) -> list[str]:
    """Try to start the attempt of every call; return the ids of the started ones."""
    got = []
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        for call_id in call_ids:
            try:
                chat.start(call_id, attempt=attempt)
            except IllegalTransition:
                continue
            got.append(call_id)
    return got


def open_and_append(url: str, worker: int) -> str:
    """Open a store that may not exist yet, and append; return its epoch."""
    with EventStore.open(url) as store:
        store.conversation(f"chat-{worker}").append(message(), message())
        return store.read().cursor.epoch


def append_noted(url: str, writer: str, count: int) -> list[Acknowledgement]:
    """Append messages to the one conversation and to an own one; return what was told."""
    notes: list[Acknowledgement] = []
    with EventStore.open(url) as store:
        note_appends(store, notes, writer, count)
    return notes


def note_appends(store: EventStore, notes: list[Acknowledgement], writer: str, count: int) -> None:
    """Append messages of one writer, one or three at a time, and note each append."""
    for number in range(count):
        chat = store.conversation("chat" if number % 2 else writer)
        texts = [f"{writer}.{number}.{n}" for n in range(1 + 2 * (number % 3 == 0))]
        noted(notes, writer, chat, *texts)


def append_interrupted(url: str, rounds: int, longest: float = 0.004) -> int:
    """Append with Ctrl-C at random moments, at most `longest` seconds apart.

    Return how many appends returned.
    """
    chance = random.Random(11)
    notes: list[Acknowledgement] = []

    def append_on(number: int) -> None:
        for n in range(100):  # Python may swallow the Ctrl-C, in a callback of its own
            noted(notes, "main", chat, f"{number}.{n}")

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        for number in range(rounds):
            if not any(note.places for note in notes):  # a slow machine
                longest *= 1.1
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, longest))
                append_on(number)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
            check_what_is_remembered(store)
        check_messages(store, notes)
        check_nothing_is_locked(store)
    return sum(1 for note in notes if note.places)


def append_in_handler(url: str, rounds: int) -> list[str]:
    """Append from a signal handler at random moments of other appends; return each outcome."""
    chance = random.Random(5)
    outcomes: list[str] = []
    notes: list[Acknowledgement] = []

    def handler(*_: object) -> None:
        text = f"handler {len(outcomes)}"
        try:
            noted(notes, "handler", chat, text)
        except EventStoreError:
            notes.append(refused("handler", [text]))
            outcomes.append("refused")
        else:
            outcomes.append("stored")

    signal.signal(signal.SIGALRM, handler)
    appended = 0
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        for number in range(rounds):
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.002))
            while len(outcomes) == number:
                noted(notes, "main", chat, f"main {appended}")
                appended += 1
        assert chat.version == appended + outcomes.count("stored")
        check_what_is_remembered(store)
        check_messages(store, notes)
        check_nothing_is_locked(store)
    return outcomes


# notes of appends


def append_noting(
    note: Callable[[Acknowledgement], object], writer: str, chat: Conversation, *events: Event
) -> None:
    """Append events, and note it before and after.

    Raises:
        StoreFull: the append was refused, and is noted as such.
    """
    ids = [uuid4().hex for _ in events]
    note(unknown(writer, ids))
    try:
        recorded = chat.append(*events, event_ids=ids)
    except StoreFull:  # "nothing was written"
        note(refused(writer, ids))
        raise
    note(acknowledged(writer, recorded))


def notes_of(writer: str, *chats: Conversation, after: int = 0) -> list[Acknowledgement]:
    """Return the notes of a writer that is alone in its conversations, and whose calls returned.

    The verbs of tools return no events: the writer looks at the log for their places.
    """
    events = (recorded for chat in chats for recorded in chat.events(after=after))
    in_order = sorted(places(events))  # by lanes and positions
    return [acknowledged(writer, [place]) for place in in_order]


class Witness:
    """What became known of a log whose writers are killed: their notes, and what a follower saw."""

    def __init__(self) -> None:
        self.notes: list[Acknowledgement] = []
        self._seen: list[Place] = []
        self._cursor: str | None = None

    def hear(self, said: Iterable[object]) -> None:
        """Keep the lists of notes among what a process said."""
        self.notes += [note for notes in said if isinstance(notes, list) for note in notes]

    def look(self, store: EventStore) -> None:
        """Follow the log to its end, and assert that it is as writers and follower were told."""
        feed = store.follow(self._cursor, timeout=0)
        new = places(feed)
        self._seen += new
        self._cursor = str(feed.cursor)
        noted = {event_id for note in self.notes for event_id in note.event_ids}
        # The rest was stored by a process that could not tell any more, or by a test that resumed.
        self.notes += [unknown("", [one.event_id]) for one in new if one.event_id not in noted]
        check_log(store, self.notes, [Reading("witness", self._seen)])


# notes of appends of messages that are all different


def noted(
    notes: list[Acknowledgement], writer: str, chat: Conversation, *texts: str, **options: Any
) -> None:
    """Append messages, and note it before and after."""
    notes.append(unknown(writer, texts))
    recorded = chat.append(*map(message, texts), **options)
    notes.append(acknowledged(writer, by_text(recorded)))


def by_text(events: Iterable[Recorded]) -> tuple[Place, ...]:
    """Return the places of messages, named by their texts: what is known before they are stored."""
    return tuple(
        place._replace(event_id=text_of(recorded))
        for recorded in events
        for place in places([recorded])
    )


# checks


def check_log(
    store: EventStore,
    notes: Sequence[Acknowledgement],
    readings: Sequence[Reading] = (),
    archived: Mapping[str, Mapping[str, int]] | None = None,
) -> int:
    """Assert that the log is whole and as writers and readers were told; return its length.

    `archived` has the version up to which each reader was told that a conversation is archived: it
    may have missed events up to there.
    """
    assert list(store.verify()) == []  # SQLite's own integrity check, too
    rows = places(store.read())
    seen = {each.follower: {one.event_id for one in each.events} for each in readings}
    may_be_missed = {
        row.event_id
        for row in rows
        if archived
        and all(
            row.event_id in seen[name] or row.version <= archived[name].get(row.conversation_id, 0)
            for name in seen
        )
    }
    broken = [
        each
        for each in check_history(notes, readings, rows)
        if each.guarantee is not Guarantee.NOT_SKIPPED or each.event_id not in may_be_missed
    ]
    assert broken == []
    return len(rows)


def check_messages(
    store: EventStore, notes: Sequence[Acknowledgement], seen: Sequence[Recorded] = ()
) -> None:
    """Assert that a log of noted messages is whole, and that followers missed nothing of it."""
    assert list(store.verify()) == []
    rows = by_text(store.read())
    readings = [Reading("reader", rows)] + [Reading("follower", by_text(seen))] * bool(seen)
    assert check_history(notes, readings, rows) == []


def check_what_is_remembered(store: EventStore) -> None:
    """Assert that the state in memory is the state that the log gives."""
    for name, _ in store.conversations():
        state = store.session.committer.remembered_state(name)
        fresh = ConversationState(name, 0)
        if state.version:  # otherwise the conversation is not remembered
            fresh.extend(store.session.storage.conversation(name))
        assert (state.version, state.known, state.open) == (fresh.version, fresh.known, fresh.open)
        assert state.last_turn.next_call() == fresh.last_turn.next_call()


def check_nothing_is_locked(store: EventStore) -> None:
    """Assert that other threads can still append."""
    chat = store.conversation("chat")
    thread = threading.Thread(target=lambda: chat.append(message("thread")), daemon=True)
    before = chat.version
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert chat.version == before + 1
