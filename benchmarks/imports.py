"""The time of `import eventstore`, against a bare interpreter.

Library: `python -c "import eventstore"`, with compiled files in place. Driver's side: the same
interpreter with the same options and `-c pass`. Both are started in turn; the figure is the median
of the differences. The limit is on elapsed time. CPU time is printed beside it, because a busy
machine changes it less.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

from measure import ROOT, Figure, arguments, folder, median, report


def run(code: str, cache: str) -> tuple[float, float]:
    """Return the milliseconds and CPU milliseconds that an interpreter takes for `code`.

    Its compiled files are in `cache`.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    used = _used()
    began = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environment)
    return (time.perf_counter() - began) * 1e3, (_used() - used) * 1e3


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, rounds=41)
    rounds = options.rounds or (7 if options.quick else 41)
    with folder() as cache:
        run("import eventstore", cache)  # compiles
        pairs = [(run("pass", cache), run("import eventstore", cache)) for _ in range(rounds)]
    report(
        __file__,
        options,
        [
            Figure("import eventstore", median(b[0] - a[0] for a, b in pairs), "ms", 60),
            Figure("import eventstore, CPU", median(b[1] - a[1] for a, b in pairs), "ms"),
            Figure("bare interpreter", median(a[0] for a, _ in pairs), "ms"),
        ],
    )


if __name__ == "__main__":
    main()
