"""One durable commit per event, against the bare driver.

Library: `Conversation.request`, `start` and `complete`, one call after the other, each with its
decision, validation, fingerprint, encoding, digest, event id, commit, and the `Tool` it returns.

Driver: the same rows into the same schema with the same pragmas through the same module, with the
statements that any program would use: BEGIN IMMEDIATE, the counter's UPDATE, INSERT, for a pending
call the INSERT into the fingerprint index, COMMIT. The rows were built beforehand, and are those
that the library wrote in a run before: the same bytes in every column.

Its statement: the driver with the one statement that the library uses in place of these five (see
`eventstore.storage.sqlite.single_statement`).

All work in turn, round for round. Each round has its own conversation, which is begun before the
clock starts. A ratio is the driver's time divided by the library's, the median over the rounds. On
disk the clock is the wall's; in memory it is CPU time.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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


def appends(connection: Any, rows: list[tuple[str, bare.Row]]) -> None:
    """Do it with the library's statement; see `bare.appended`."""
    execute = connection.cursor().execute
    for statement, row in rows:
        execute(statement, row)


class Times(NamedTuple):
    """The seconds of one round."""

    library: float
    driver: float
    statement: float


def measure(*, memory: bool, rounds: int, calls: int) -> list[Times]:
    """Return the times of each round."""
    events = 3 * calls + 1
    with folder(memory=memory) as name:
        model = Path(name) / "model.db"
        with EventStore.open(f"sqlite:///{model}", durability="normal") as store:
            for number in range(rounds):
                lifecycles(begin(store, number), calls)
        rows = bare.rows(model)
        assert len(rows) == rounds * events
        connection = bare.empty(Path(name) / "driver.db")
        prepared = bare.empty(Path(name) / "statement.db")
        for definition in bare.DEFINITIONS:
            prepared.execute(definition)
        times = []
        with EventStore.open(f"sqlite:///{Path(name) / 'library.db'}") as store:
            for number in range(rounds):
                first, *rest = rows[number * events : (number + 1) * events]
                chat = begin(store, number)
                commits(connection, [first])
                appends(prepared, [bare.appended(first)])
                works = (
                    partial(lifecycles, chat, calls),
                    partial(commits, connection, rest),
                    partial(appends, prepared, list(map(bare.appended, rest))),
                )
                times.append(Times(*in_turn(clock(memory=memory), *works, first=number)))
        connection.close()
        prepared.close()
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
                f"{place}: driver / library",
                median(one.driver / one.library for one in times),
                "",
                least,
                floor=True,
            ),
            Figure(
                f"{place}: its statement / library",
                median(one.statement / one.library for one in times),
            ),
            Figure(f"{place}: library", median(one.library for one in times) * us, "µs/event"),
            Figure(f"{place}: driver", median(one.driver for one in times) * us, "µs/event"),
        ]
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
