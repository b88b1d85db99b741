"""A storm: writers, followers and a projector on one log, whatever happens to its server."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
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
MAX_EVENTS_PER_WRITER = 20_000


class Storm:
    """Threads that use a log until the end of the `with`, and what they were told.

    The writers share a store, and therefore commits. An append that raises is repeated with its
    event ids until it returns; `busy_timeout` bounds each try.
    """

    def __init__(self, url: str, busy_timeout: float = 60.0) -> None:
        self.errors: Counter[str] = Counter()
        """How often an append, a follower or the projector met which error."""
        self.longest_stall_seconds = 0.0
        """The longest time that one append took, with its repeats."""
        self._url = url
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
            *((self._write, (f"writer-{number}",)) for number in range(WRITERS)),
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
        return EventStore.open(self._url, busy_timeout=self._busy_timeout)

    def _write(self, writer: str) -> None:
        number = 0
        while not self._calm.is_set() and number < MAX_EVENTS_PER_WRITER:
            call_id = f"{writer}.{number}"
            chat = self._store.conversation(f"chat-{number % CONVERSATIONS}")
            self._append(writer, chat, message(call_id), pending(call_id, "tool0", n=number))
            self._append(writer, chat, running(call_id))
            self._append(writer, chat, completed(call_id))
            number += 4

    def _append(self, writer: str, chat: Conversation, *events: Event) -> None:
        ids = [uuid4().hex for _ in events]
        began = time.monotonic()
        while True:
            self._notes.append(unknown(writer, ids))
            try:
                recorded = chat.append(*events, event_ids=ids)
            except StorageError as error:
                self.errors[f"append: {type(error).__name__}"] += 1
                if self._given_up.wait(0.1):
                    return
                continue
            self._notes.append(acknowledged(writer, recorded))
            break
        self.longest_stall_seconds = max(self.longest_stall_seconds, time.monotonic() - began)

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
