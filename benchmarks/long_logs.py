"""An import of a long session log: its memory, and its CPU beside what nobody can leave out.

Library: `import_file` into a new store in memory's file system: reading, detection, parsing,
pairing of calls and results, validation, ids, the commits. Its peak of memory is counted over that
of an interpreter with the library loaded and the store open.

Floor: `json.loads` of every line, and the driver's `executemany` of the rows that the library has
written, with the same schema and pragmas, a thousand rows a transaction.

Each import has a process of its own. They take turns with the floor; a ratio is the library's CPU
divided by the floor's, the median over the rounds. The logs are written by `session_logs.py`: of
Claude Code, Codex CLI, and messages of OpenAI's form.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import bare
import session_logs
from batch import commit
from measure import Figure, arguments, folder, in_subprocess, median, report
from rebuild import memory_mb

from eventstore import EventStore
from eventstore.importers import import_file

ROWS = 1000
"""Rows of one transaction of the floor."""

MEGABYTE = 1_000_000
MOST_MEMORY = 250
"""Megabytes over an interpreter with the library loaded, whatever the log's size."""

MOST_TIMES = {"claude-code": 3, "codex": 3, "openai": 4}
"""The library's CPU divided by the floor's."""


def imported(log: str, store: str) -> float:
    """Import a log; return the seconds of CPU."""
    return _import(log, store)[0]


def peak(log: str, store: str) -> float:
    """Import a log; return the megabytes of memory that it took at most."""
    return _import(log, store)[1]


def _import(log: str, store: str) -> tuple[float, float]:
    with EventStore.open(f"sqlite:///{store}") as opened:
        opened.conversation("first").import_messages([{"role": "user", "content": "loads it all"}])
        before, began = memory_mb("VmRSS"), time.process_time()
        done = import_file(opened, log)
        took, most = time.process_time() - began, memory_mb("VmHWM")
    assert done.calls > 0
    assert done.refused == []
    return took, most - before


def floor(log: Path, rows: list[bare.Row], path: Path) -> float:
    """Return the seconds of CPU that the floor takes."""
    connection = bare.empty(path)
    began = time.process_time()
    with log.open("rb") as file:
        for line in file:
            json.loads(line)
    for start in range(0, len(rows), ROWS):
        commit(connection, rows[start : start + ROWS])
    took = time.process_time() - began
    connection.close()
    return took


def measure(scratch: Path, form: str, size: int, rounds: int) -> list[Figure]:
    """Return the figures of one form."""
    log = scratch / f"{form}.jsonl"
    session_logs.write(log, form, size)
    model = scratch / "model.db"
    memory = in_subprocess(f"long_logs.peak({str(log)!r}, {str(model)!r})")
    rows = bare.rows(model)
    pairs: list[tuple[float, float]] = []
    for number in range(rounds):
        store, plain = scratch / f"{number}.db", scratch / f"{number}-floor.db"
        ours = in_subprocess(f"long_logs.imported({str(log)!r}, {str(store)!r})")
        pairs.append((ours, floor(log, rows, plain)))
        for each in (store, plain):
            each.unlink()
    for each in (log, model):
        each.unlink()
    times = median(ours / least for ours, least in pairs)
    return [
        Figure(f"{form}: memory over the library's", memory, "MB", MOST_MEMORY),
        Figure(f"{form}: import / JSON and driver", times, "times", MOST_TIMES[form]),
        Figure(f"{form}: import", median(ours for ours, _ in pairs) * MEGABYTE / size, "s/MB"),
    ]


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, megabytes=300, rounds=3)
    megabytes = options.megabytes or (30 if options.quick else 300)
    rounds = options.rounds or (1 if options.quick else 3)
    found: list[Figure] = []
    with folder(memory=True) as name:
        for form in session_logs.FORMS:
            found += measure(Path(name), form, megabytes * MEGABYTE, rounds)
    report(__file__, options, found)


if __name__ == "__main__":
    main()
