"""A storm: writers, followers and a projector on one log, whatever happens to its servers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import cycle
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from support import projected_logs as projecting
from support import workers

from eventstore import Conversation, Event, EventsArchived, EventStore, Recorded
from eventstore.errors import StorageError
from eventstore.testing import (
    Acknowledgement,
    Place,
    Reading,
    acknowledged,
    completed,
    message,
    pending,
    places,
    running,
    unknown,
)

WRITERS = 8
CONVERSATIONS = 20
EVENTS_OF_AN_OPENING = 100
"""After how many events the second follower opens its store again, with the cursor it kept."""
WAIT_SECONDS = 90
PAUSE_SECONDS = 0.1
"""How long a writer waits after an error."""
MAX_EVENTS_PER_WRITER = 20_000

Said = Acknowledgement | str | float
"""What a writer tells: what it was told of an append, an error, or how long an append took."""


class Storm:
    """What uses a log until the end of the `with`, and what it was told.

    The writers are threads that share a store, and therefore commits. Where the log is on `nodes`,
    they are processes, each at the next node, and so is each opening of a follower. An append that
    raises is repeated with its event ids until it returns; `busy_timeout` bounds each try.
    """

    def __init__(self, url: str, busy_timeout: float = 60.0, nodes: Sequence[str] = ()) -> None:
        self.errors: Counter[str] = Counter()
        """How often an append, a follower or the projector met which error."""
        self.longest_stall_seconds = 0.0
        """The longest time that one append took, with its repeats."""
        self._url = url
        self._nodes = nodes
        self._next_url = cycle(nodes or [url])
        self._busy_timeout = busy_timeout
        self._notes: list[Acknowledgement] = []
        self._readings: dict[str, list[Place]] = {"steady": [], "re-opened": []}
        self._archived: dict[str, dict[str, int]] = {name: {} for name in self._readings}
        self._calm, self._written = threading.Event(), threading.Event()
        self._given_up = threading.Event()
        self._pool = ThreadPoolExecutor(WRITERS + 3)
        self._jobs: list[Future[None]] = []
        self._store = self._open()

    @property
    def appended(self) -> int:
        """How many appends returned."""
        return sum(1 for note in list(self._notes) if note.places)

    def __enter__(self) -> Self:
        jobs: list[tuple[Callable[..., None], Sequence[Any]]] = [
            *(self._writer(f"writer-{number}") for number in range(WRITERS)),
            (self._follow, ("steady", None)),
            (self._follow, ("re-opened", EVENTS_OF_AN_OPENING)),
            (self._project, ()),
        ]
        self._jobs = [self._pool.submit(job, *arguments) for job, arguments in jobs]
        self.wait_for_appends()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._calm.set()
        if kind is not None:
            self._given_up.set()
        try:
            for job in self._jobs[:WRITERS]:
                job.result()
            self._written.set()
            for job in self._jobs[WRITERS:]:
                job.result()
        finally:
            self._given_up.set()
            self._written.set()
            self._pool.shutdown()
            self._store.close()

    def _writer(self, name: str) -> tuple[Callable[..., None], Sequence[Any]]:
        if self._nodes:
            return self._hear_process, (name, next(self._next_url))
        is_calm, is_given_up = self._calm.is_set, partial(self._given_up.wait, PAUSE_SECONDS)
        return write, (self._store, name, self._hear, is_calm, is_given_up)

    def wait_for_appends(
        self, count: int = 100, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Wait until so many more appends have returned: the log takes writes."""
        goal = self.appended + count
        self._wait(lambda: self.appended >= goal, meanwhile)

    def wait_for_error(self, kind: str, unless: Callable[[], bool] = lambda: False) -> None:
        """Wait until an error is met once more, or `unless` holds."""
        before = self.errors[kind]
        self._wait(lambda: self.errors[kind] > before or unless())

    def _wait(
        self, condition: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while not condition():
            meanwhile()
            for job in self._jobs:
                if job.done():
                    job.result()
            assert time.monotonic() < until, dict(self.errors)
            time.sleep(0.05)

    def check(self, others: Callable[[Recorded], bool] = lambda _: False) -> str:
        """Assert that every guarantee was kept; return in a line what the storm was like.

        `others` says which events were appended by processes beside the storm.
        """
        with EventStore.open(self._url) as store:
            beside = [each.event_id for each in store.read() if others(each)]
            self._notes += [unknown("beside", [event_id]) for event_id in beside]
            readings = [Reading(name, seen) for name, seen in self._readings.items()]
            events = workers.check_log(store, self._notes, readings, self._archived)
            with projecting.open_projector(store) as projector:
                behind = projector.lag().events, projector.parked()
                assert behind == (0, []), behind
                projecting.check(projector, store)
                projecting.check_costs(projector, store)
        stall = f"the longest stall was {self.longest_stall_seconds:.1f} s"
        return f"{events} events, {stall}; errors: {dict(self.errors)}"

    def _open(self) -> EventStore:
        return EventStore.open(next(self._next_url), busy_timeout=self._busy_timeout)

    def _hear(self, said: Said) -> None:
        match said:
            case str():
                self.errors[f"append: {said}"] += 1
            case float():
                self.longest_stall_seconds = max(self.longest_stall_seconds, said)
            case _:
                self._notes.append(said)

    def _hear_process(self, writer: str, url: str) -> None:
        job = partial(write_apart, url, writer, self._busy_timeout)
        with workers.children([job]) as ((process, pipe),):
            was_stopped = False
            while not self._given_up.is_set():
                if self._calm.is_set() and not was_stopped:
                    pipe.send("stop")
                    was_stopped = True
                if pipe.poll(PAUSE_SECONDS):
                    try:
                        self._hear(pipe.recv())
                    except EOFError:
                        break
            else:
                return  # the process is killed
            process.join()
            assert process.exitcode == 0, f"{writer} has ended with {process.exitcode}"

    def _follow(self, name: str, limit: int | None) -> None:
        cursor: str | None = None
        last = False
        while not last:
            last = self._written.is_set()  # this reading reaches the end of all that was written
            try:
                with self._open() as store:
                    cursor = self._read(store, name, cursor, limit, last=last)
            except StorageError as error:
                self.errors[f"{name} follower: {type(error).__name__}"] += 1
                last = self._given_up.is_set()

    def _read(
        self, store: EventStore, name: str, cursor: str | None, limit: int | None, *, last: bool
    ) -> str:
        feed = store.follow(cursor, stop=None if last else self._written, timeout=1.0)
        seen = []
        with suppress(StorageError):  # the next opening goes on behind what was seen
            for recorded in feed:
                seen.append(recorded)
                if len(seen) == limit and not last:
                    break
        self._readings[name].extend(places(seen))
        for recorded in seen:
            if isinstance(recorded.event, EventsArchived):
                self._archived[name][recorded.conversation_id] = recorded.event.version
        return str(feed.cursor)

    def _project(self) -> None:
        last = False
        with self._open() as store, projecting.open_projector(store) as projector:
            while not last:
                last = self._written.is_set()
                try:
                    projector.catch_up()
                except StorageError as error:
                    self.errors[f"projector: {type(error).__name__}"] += 1
                    last = self._given_up.is_set()
                self._written.wait(0.2)


def write(
    store: EventStore,
    writer: str,
    say: Callable[[Said], None],
    is_calm: Callable[[], bool],
    is_given_up: Callable[[], bool],
) -> None:
    """Run calls until `is_calm`; an append that fails is repeated until `is_given_up`."""

    def append(chat: Conversation, *events: Event) -> None:
        ids = [uuid4().hex for _ in events]
        began = time.monotonic()
        while True:
            say(unknown(writer, ids))
            try:
                recorded = chat.append(*events, event_ids=ids)
            except StorageError as error:
                say(type(error).__name__)
                if is_given_up():
                    return
            else:
                say(acknowledged(writer, recorded))
                say(time.monotonic() - began)
                return

    number = 0
    while not is_calm() and number < MAX_EVENTS_PER_WRITER:
        call_id = f"{writer}.{number}"
        chat = store.conversation(f"chat-{number % CONVERSATIONS}")
        append(chat, message(call_id), pending(call_id, "tool0", n=number))
        append(chat, running(call_id))
        append(chat, completed(call_id))
        number += 4


def write_apart(url: str, writer: str, busy_timeout: float, pipe: Connection) -> None:
    """Run calls in a process of its own, until a word comes through the pipe."""

    def is_given_up() -> bool:
        time.sleep(PAUSE_SECONDS)
        return False  # the process is killed then

    with opened(url, busy_timeout, pipe.send) as store:
        write(store, writer, pipe.send, pipe.poll, is_given_up)
    pipe.poll() and pipe.recv()  # or what was said may be lost with it


@contextmanager
def opened(url: str, busy_timeout: float, say: Callable[[Said], None]) -> Iterator[EventStore]:
    """Open a store as soon as its server takes it."""
    while True:
        try:
            store = EventStore.open(url, busy_timeout=busy_timeout)
        except StorageError as error:
            say(type(error).__name__)
            time.sleep(PAUSE_SECONDS)
        else:
            break
    with store:
        yield store
