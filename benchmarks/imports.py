"""The CPU time of `import eventstore`, and of opening a store, against what must be loaded anyway.

Import: `import eventstore`, against an interpreter that imports msgspec and xxhash, without which
no event can be written. Open: an existing SQLite store is opened and closed, where nothing is to
be migrated, against `import eventstore` and against `import sqlalchemy`.

Each is a whole interpreter, with compiled files in place. They are started in turn; a ratio is the
median over the rounds.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import logs
from measure import ROOT, Figure, arguments, folder, median, report

LOADED_ANYWAY = "import msgspec, xxhash"
IMPORT = "import eventstore"
SQLALCHEMY = "import sqlalchemy"


def opening(path: Path) -> str:
    """Return the code that opens the store at `path`, and closes it."""
    return f"import eventstore; eventstore.EventStore.open({logs.url(path)!r}).close()"


def run(code: str, cache: str) -> float:
    """Return the CPU milliseconds that an interpreter takes for `code`.

    Its compiled files are in `cache`.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = _used()
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environment)
    return (_used() - before) * 1e3


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, rounds=41)
    rounds = options.rounds or (7 if options.quick else 41)
    with folder() as cache:
        works = (LOADED_ANYWAY, IMPORT, SQLALCHEMY, opening(Path(cache) / "log.db"))
        for code in works:
            run(code, cache)  # compiles, and makes the store
        times = [tuple(run(code, cache) for code in works) for _ in range(rounds)]
    floor, imported, sqlalchemy, opened = zip(*times, strict=True)
    found = [
        Figure("import / msgspec and xxhash", _ratio(imported, floor), "times", 1.4),
        Figure("open / import", _ratio(opened, imported), "times", 2),
        Figure("open / SQLAlchemy alone", _ratio(opened, sqlalchemy), "times"),
        Figure("msgspec and xxhash", median(floor), "ms"),
        Figure("import eventstore", median(imported), "ms"),
        Figure("SQLAlchemy alone", median(sqlalchemy), "ms"),
        Figure("open", median(opened), "ms"),
    ]
    report(__file__, options, found)


def _ratio(ours: tuple[float, ...], theirs: tuple[float, ...]) -> float:
    return median(a / b for a, b in zip(ours, theirs, strict=True))


if __name__ == "__main__":
    main()
