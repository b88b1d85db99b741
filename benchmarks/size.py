"""Bytes of disk per event, for a realistic mix of lifecycles.

Library: conversations of messages and calls (most complete, one in ten is refused, one in five
approved by a person, one in eight tried again), written by `Conversation.append`; the size is that
of the database file after a checkpoint of its WAL, with every index in it, divided by its events.

Against: the payloads alone, as the library encodes them.
"""

from __future__ import annotations

from pathlib import Path

import bare
import logs
from measure import Figure, arguments, folder, report


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, events=100_000)
    events = options.events or (10_000 if options.quick else 100_000)
    with folder() as name:
        path = Path(name) / "log.db"
        events = logs.grow(path, -(-events // 1000), 1000)
        connection = bare.connect(path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        count, payload = connection.execute(
            "SELECT count(*), sum(length(CAST(payload AS BLOB))) FROM toolledger_events"
        ).fetchone()
        connection.close()
        assert count == events
        size = path.stat().st_size
    report(
        __file__,
        options,
        [
            Figure("on disk / payload alone", size / payload, "times", 1.8),
            Figure("on disk", size / events, "B/event"),
            Figure("payload alone", payload / events, "B/event"),
            Figure("all that stands beside it", (size - payload) / events, "B/event"),
        ],
    )


if __name__ == "__main__":
    main()
