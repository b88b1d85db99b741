"""The work of the servers' torture tests: writers that block each other, and readers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

from eventstore import EventStore, Recorded
from eventstore.errors import VersionConflict
from eventstore.storage.factory import open_storage
from eventstore.storage.interface import Append, Appended, Draft
from eventstore.testing import (
    Place,
    Reading,
    acknowledged,
    draft,
    message,
    places,
    refused,
    unknown,
)

CONVERSATIONS = 40


def write_in_the_way(url: str, writer: str, count: int, pipe: Connection) -> None:
    """Append with delays inside the transaction; some are rolled back at its end."""
    chance = random.Random(writer)
    # Long enough: a writer stops while the pipe is full, and MySQL drops clients after this time.
    storage = open_storage(url, "", "full", 600.0)
    for number in range(count):
        text = f"{writer}.{number}"
        events = [draft(message(f"{text}.{n}")) for n in range(chance.choice([1, 1, 2, 5]))]
        ids = [one.event_id.hex() for one in events]
        delay = chance.choice([0, 0, 0.0005, 0.003])
        conflicts = chance.random() < 0.15

        def rebase(tail: Sequence[Recorded]) -> Sequence[Draft]:
            time.sleep(delay)  # noqa: B023
            if conflicts:  # noqa: B023
                raise VersionConflict(0, len(tail))
            return events  # noqa: B023

        name = f"chat-{chance.randrange(CONVERSATIONS)}"
        # Of a state before the lane began: all that is there has to be looked at, ours, too.
        pipe.send(unknown(writer, ids))
        outcome = storage.append([Append(name, 0, -1, (), rebase)])[0]
        if isinstance(outcome, Exception):
            pipe.send(refused(writer, ids))
        else:
            pipe.send(acknowledged(writer, placed(name, outcome, ids)))
    storage.close()
    pipe.close()


def placed(conversation_id: str, outcome: Appended, event_ids: Sequence[str]) -> list[Place]:
    """Return the places of the events of an append."""
    version, position = outcome.version - len(event_ids), outcome.position - len(event_ids)
    return [
        Place(outcome.lane, position + n, conversation_id, version + n, event_id)
        for n, event_id in enumerate(event_ids, 1)
    ]


def write_together(url: str, writer: str, count: int, pipe: Connection) -> None:
    """Append from threads that share a store, and therefore commits."""
    reported = threading.Lock()
    with EventStore.open(url, busy_timeout=60.0) as store:

        def write(thread: int) -> None:
            chance = random.Random(f"{writer}-{thread}")
            for number in range(count):
                text = f"{writer}.{thread}.{number}"
                chat = store.conversation(f"chat-{chance.randrange(CONVERSATIONS)}")
                note = acknowledged(f"{writer}.{thread}", chat.append(message(text)))
                with reported:
                    pipe.send(note)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    pipe.close()


def follow(url: str, pipe: Connection) -> None:
    """Read the feed after the last positions, again and again, until a message says stop."""
    heads: dict[int, int] = {}
    seen: list[Place] = []
    storage = open_storage(url, "", "full", 60.0)
    pipe.send("follows")
    while True:
        last = pipe.poll()
        for place in places(storage.feed(heads)):
            heads[place.lane] = place.position
            seen.append(place)
        if last:
            break
    storage.close()
    pipe.send(Reading("follower", seen))


def append_until_done(url: str, writer: str, count: int, pipe: Connection) -> None:
    """Append one event after the other, whatever happens to the server."""
    with EventStore.open(url, busy_timeout=60.0) as store:
        for number in range(count):
            chat = store.conversation(f"chat-{number % 5}")
            pipe.send(acknowledged(writer, chat.append(message(f"{writer}.{number}"))))
    pipe.close()
