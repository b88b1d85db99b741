"""The work of the servers' torture tests: writers that block each other, and readers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from eventstore import EventStore, Recorded
from eventstore.errors import VersionConflict
from eventstore.storage.factory import open_storage
from eventstore.storage.interface import Append, Draft
from eventstore.testing import draft, message

CONVERSATIONS = 40


class Followed(NamedTuple):
    """The texts that a reader saw, and the faults that it found."""

    texts: list[str]
    faults: list[str]


def write_in_the_way(url: str, writer: str, count: int, pipe: Connection) -> None:
    """Append with delays inside the transaction; some are rolled back at its end."""
    chance = random.Random(writer)
    # Long enough: a writer stops while the pipe is full, and MySQL drops clients after this time.
    storage = open_storage(url, "", "full", 600.0)
    for number in range(count):
        text = f"{writer}.{number}"
        events = [draft(message(f"{text}.{n}")) for n in range(chance.choice([1, 1, 2, 5]))]
        delay = chance.choice([0, 0, 0.0005, 0.003])
        refused = chance.random() < 0.15

        def rebase(tail: Sequence[Recorded]) -> Sequence[Draft]:
            time.sleep(delay)  # noqa: B023
            if refused:  # noqa: B023
                raise VersionConflict(0, len(tail))
            return events  # noqa: B023

        name = f"chat-{chance.randrange(CONVERSATIONS)}"
        # Of a state before the lane began: all that is there has to be looked at, ours, too.
        outcome = storage.append([Append(name, 0, -1, (), rebase)])[0]
        if not isinstance(outcome, Exception):
            pipe.send([f"{text}.{n}" for n in range(len(events))])
    storage.close()
    pipe.close()


def write_together(url: str, writer: str, count: int, pipe: Connection) -> None:
    """Append from threads that share a store, and therefore commits."""
    told = threading.Lock()
    with EventStore.open(url, busy_timeout=60.0) as store:

        def write(thread: int) -> None:
            chance = random.Random(f"{writer}-{thread}")
            for number in range(count):
                text = f"{writer}.{thread}.{number}"
                chat = store.conversation(f"chat-{chance.randrange(CONVERSATIONS)}")
                chat.append(message(text))
                with told:
                    pipe.send([text])

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    pipe.close()


def follow(url: str, pipe: Connection) -> None:
    """Read the feed after the last positions, again and again, until a message says stop."""
    places: dict[int, int] = {}
    versions: dict[str, int] = {}
    texts: list[str] = []
    faults: list[str] = []
    storage = open_storage(url, "", "full", 60.0)
    pipe.send("follows")
    while True:
        last = pipe.poll()
        for recorded in storage.feed(places):
            before = places.get(recorded.lane, 0)
            if recorded.position != before + 1:
                faults.append(f"lane {recorded.lane}: {recorded.position} behind {before}")
            version = versions.get(recorded.conversation_id, 0)
            if recorded.version != version + 1:
                faults.append(f"{recorded.conversation_id}: {recorded.version} behind {version}")
            places[recorded.lane] = recorded.position
            versions[recorded.conversation_id] = recorded.version
            event: Any = recorded.event
            texts.append(event.parts[0].text)
        if last:
            break
    storage.close()
    pipe.send(Followed(texts, faults))


def append_until_done(url: str, writer: str, count: int, pipe: Connection) -> None:
    """Append one event after the other, whatever happens to the server."""
    with EventStore.open(url, busy_timeout=60.0) as store:
        for number in range(count):
            text = f"{writer}.{number}"
            store.conversation(f"chat-{number % 5}").append(message(text))
            pipe.send([text])
    pipe.close()
