"""One durable commit per event, against the bare driver.

Library: `Conversation.request`, `start` and `complete`, one call after the other, each with its
decision, validation, fingerprint, encoding, digest, event id, commit, and the `Tool` it returns.

Driver: the same statements on the same schema with the same pragmas through the same module, with
rows that were built beforehand: BEGIN IMMEDIATE, the counter's UPDATE, INSERT, for a pending call
the INSERT into the fingerprint index, COMMIT. The rows are those that the library wrote in a run
before: the same bytes in every column.

Both work in turn, round for round. Each round has its own conversation, which is begun before the
clock starts. A ratio is the driver's time divided by the library's, the median over the rounds. On
disk the clock is the wall's; in memory it is CPU time.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import bare
from measure import Figure, arguments, clock, folder, in_turn, median, report

from eventstore import Conversation, EventStore

RESULT = {
    "orders": [
        {"id": "A-10293", "status": "shipped", "total": 129.9, "items": 3},
        {"id": "A-10411", "status": "open", "total": 18.5, "items": 1},
    ],
    "next": None,
}


def call(number: int) -> dict[str, Any]:
    """Return the arguments of a call."""
    return {"customer": f"c-{number:05}", "status": ["open", "shipped"], "limit": 20, "page": 1}


def begin(store: EventStore, number: int) -> Conversation:
    """Return a conversation with its first event."""
    chat = store.conversation(f"conversation-{number}")
    chat.add_message("user", "Where are my orders?")
    return chat


def lifecycles(chat: Conversation, calls: int) -> None:
    """Do the library's side: three appends a call."""
    for number in range(calls):
        tool = chat.request("search_orders", call(number))
        chat.start(tool.id)
        chat.complete(tool.id, RESULT)


def commits(connection: Any, rows: list[bare.Row]) -> None:
    """Do the driver's side: one transaction a row."""
    cursor = connection.cursor()
    execute = cursor.execute
    for row in rows:
        execute("BEGIN IMMEDIATE")
        execute(bare.ADVANCE, (row[1], 0, row[1] - 1))
        execute(bare.INSERT, row)
        if row[bare.TAG] == "pending":
            execute(bare.INDEX, bare.index_row(row))
        execute("COMMIT")


def measure(*, memory: bool, rounds: int, calls: int) -> list[tuple[float, float]]:
    """Return the seconds that each round took the library and the driver."""
    events = 3 * calls + 1
    with folder(memory=memory) as name:
        model = Path(name) / "model.db"
        with EventStore.open(f"sqlite:///{model}", durability="normal") as store:
            for number in range(rounds):
                lifecycles(begin(store, number), calls)
        rows = bare.rows(model)
        assert len(rows) == rounds * events
        connection = bare.empty(Path(name) / "driver.db")
        times = []
        with EventStore.open(f"sqlite:///{Path(name) / 'library.db'}") as store:
            for number in range(rounds):
                first, *rest = rows[number * events : (number + 1) * events]
                chat = begin(store, number)
                commits(connection, [first])
                times.append(
                    in_turn(
                        clock(memory=memory),
                        partial(lifecycles, chat, calls),
                        partial(commits, connection, rest),
                        first=number,
                    )
                )
        connection.close()
    return times


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, calls=25, rounds=201)
    calls = options.calls or 25
    rounds = options.rounds or (21 if options.quick else 201)
    figures = []
    for place, least in (("disk", 0.75), ("memory", 0.55)):
        times = measure(memory=place == "memory", rounds=rounds, calls=calls)
        us = 1e6 / (3 * calls)
        figures += [
            Figure(
                f"{place}: driver / library", median(b / a for a, b in times), "", least, floor=True
            ),
            Figure(f"{place}: library", median(a for a, _ in times) * us, "µs/event"),
            Figure(f"{place}: driver", median(b for _, b in times) * us, "µs/event"),
        ]
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
