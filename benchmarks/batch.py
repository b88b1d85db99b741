"""Appends of 1,000 events, against the bare driver's `executemany`.

Library: `Conversation.append(*events)` with events that the caller has made: validation of every
transition, fingerprints, encoding, digests, event ids, the commit, and the `Recorded` events that
come back.

Driver: the same statements on the same schema with the same pragmas through the same module, with
rows that were built beforehand: BEGIN IMMEDIATE, the counter's UPDATE, `executemany` of the INSERT,
`executemany` for the fingerprint index, COMMIT. The rows are those that the library wrote in a run
before: the same bytes in every column.

Both work in turn, append for append. Each append has its own conversation, which is begun before
the clock starts. A ratio is the driver's time divided by the library's, the median over the
appends. On disk the clock is the wall's; in memory it is CPU time.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import bare
from append import RESULT, begin, call
from measure import Figure, arguments, clock, folder, in_turn, median, report

from eventstore import (
    Event,
    EventStore,
    FunctionCall,
    FunctionResponse,
    ToolCompleted,
    ToolPending,
    ToolRunning,
)

NAME = "search_orders"


def lifecycles(count: int) -> list[Event]:
    """Return `count` events: calls that are requested, started and completed, in fresh objects."""
    events: list[Event] = []
    for number in range(-(-count // 3)):
        call_id = f"call_{number:024x}"
        arguments = call(number)
        events += (
            ToolPending(
                FunctionCall(NAME, arguments, call_id), call_id, 1 + number // 4, number % 4
            ),
            ToolRunning(call_id, 1, arguments),
            ToolCompleted(call_id, FunctionResponse(NAME, RESULT, call_id), 1, 48_211),
        )
    return events[:count]


def commit(connection: Any, rows: list[bare.Row]) -> None:
    """Do the driver's side: all rows in one transaction."""
    cursor = connection.cursor()
    cursor.execute("BEGIN IMMEDIATE")
    cursor.execute(bare.ADVANCE, (rows[-1][1], 0, rows[0][1] - 1))
    cursor.executemany(bare.INSERT, rows)
    cursor.executemany(bare.INDEX, [bare.index_row(row) for row in rows if bare.is_indexed(row)])
    cursor.execute("COMMIT")


def measure(*, memory: bool, rounds: int, events: int) -> list[tuple[float, float]]:
    """Return the seconds that each append took the library and the driver."""
    with folder(memory=memory) as name:
        model = Path(name) / "model.db"
        with EventStore.open(f"sqlite:///{model}", durability="normal") as store:
            for number in range(rounds):
                begin(store, number).append(*lifecycles(events))
        rows = bare.rows(model)
        assert len(rows) == rounds * (events + 1)
        connection = bare.empty(Path(name) / "driver.db")
        times = []
        with EventStore.open(f"sqlite:///{Path(name) / 'library.db'}") as store:
            for number in range(rounds):
                first, *rest = rows[number * (events + 1) : (number + 1) * (events + 1)]
                chat, made = begin(store, number), lifecycles(events)
                commit(connection, [first])
                times.append(
                    in_turn(
                        clock(memory=memory),
                        partial(chat.append, *made),
                        partial(commit, connection, rest),
                        first=number,
                    )
                )
        connection.close()
    return times


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, events=1000, rounds=41)
    events = options.events or 1000
    rounds = options.rounds or (5 if options.quick else 41)
    figures = []
    for place in ("disk", "memory"):
        times = measure(memory=place == "memory", rounds=rounds, events=events)
        us = 1e6 / events
        figures += [
            Figure(
                f"{place}: driver / library", median(b / a for a, b in times), "", 0.55, floor=True
            ),
            Figure(f"{place}: library", median(a for a, _ in times) * us, "µs/event"),
            Figure(f"{place}: driver", median(b for _, b in times) * us, "µs/event"),
        ]
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
