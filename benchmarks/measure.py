"""The code that the scripts share: imports from this checkout, turns, figures and limits."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # measure this checkout, installed or not

from eventstore.storage.sqlite.driver import driver  # noqa: E402 - needs the path

MEMORY = Path("/dev/shm")  # noqa: S108 - Linux's file system in memory, where there is one

Clock = Callable[[], float]
Work = Callable[[], object]


class Figure(NamedTuple):
    """One measured value; `limit` is the most it may be, or the least (`floor=True`).

    `excused` means that another figure meets its limit instead.
    """

    name: str
    value: float
    unit: str = ""
    limit: float | None = None
    floor: bool = False
    excused: bool = False

    @property
    def verdict(self) -> str:
        """The word for the limit: ok or over; empty without a limit."""
        if self.limit is None:
            return ""
        holds = self.value >= self.limit if self.floor else self.value <= self.limit
        return "ok" if holds or self.excused else "over"


def arguments(doc: str | None, *, data: Path | None = None, **sizes: int) -> argparse.Namespace:
    """Return the options that every script has, and its `sizes` with their defaults.

    `data` is the default of a script that reads a folder of transcripts.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="less of everything, less exact")
    if data is not None:
        parser.add_argument("--data", type=Path, default=data, help="a folder of transcripts")
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=None, help=f"default {size:,}")
    return parser.parse_args()


def folder(*, memory: bool = False) -> tempfile.TemporaryDirectory[str]:
    """Return a scratch folder: on disk, or in memory where the system offers that."""
    return tempfile.TemporaryDirectory(dir=MEMORY if memory and MEMORY.is_dir() else None)


def clock(*, memory: bool) -> Clock:
    """Return the clock: CPU time in memory, where it repeats best; on disk elapsed time."""
    return time.process_time if memory else time.perf_counter


def timed(now: Clock, work: Work) -> float:
    """Return the seconds that `work` takes by the clock `now`."""
    began = now()
    work()
    return now() - began


def in_turn(now: Clock, *works: Work, first: int) -> tuple[float, ...]:
    """Return the seconds of each work, one right after the other; number `first` begins."""
    turns = [(first + turn) % len(works) for turn in range(len(works))]
    took = {index: timed(now, works[index]) for index in turns}
    return tuple(took[index] for index in sorted(took))


class Elapsed(NamedTuple):
    """The time that an event took, in seconds."""

    seconds: float
    cpu_seconds: float


def elapsed(work: Callable[[], object], events: int) -> Elapsed:
    """Do the work; return the time of each of its events."""
    began = time.perf_counter(), time.process_time()
    work()
    took = time.perf_counter() - began[0], time.process_time() - began[1]
    return Elapsed(took[0] / events, took[1] / events)


def in_subprocess(expression: str) -> float:
    """Return the value of a call, `script.function(...)`, in a process of its own."""
    script = f"import {expression.partition('.')[0]}; print({expression})"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def report(script: str, options: argparse.Namespace, figures: list[Figure]) -> None:
    """Print the figures: a table, or one JSON object."""
    facts = {
        "benchmark": Path(script).stem,
        "quick": options.quick,
        "python": platform.python_version(),
        "sqlite": driver().sqlite_version,
    }
    if options.json:
        print(json.dumps(facts | {"figures": [_as_dict(figure) for figure in figures]}))
        return
    print(f"{facts['benchmark']}: Python {facts['python']}, SQLite {facts['sqlite']}")
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        limit = ""
        if figure.limit is not None:
            limit = f"{'at least' if figure.floor else 'at most'} {figure.limit:,g}"
        line = f"  {figure.name:<{width}}  {_short(figure.value):>10} {figure.unit:<12}"
        print(f"{line} {limit:<18} {figure.verdict}".rstrip())


def _as_dict(figure: Figure) -> dict[str, object]:
    return {
        "name": figure.name,
        "value": figure.value,
        "unit": figure.unit,
        "limit": figure.limit,
        "limit_is": None if figure.limit is None else "least" if figure.floor else "most",
        "verdict": figure.verdict or None,
    }


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


__all__ = [
    "MEMORY",
    "ROOT",
    "Clock",
    "Elapsed",
    "Figure",
    "arguments",
    "clock",
    "driver",
    "elapsed",
    "folder",
    "in_subprocess",
    "in_turn",
    "median",
    "report",
    "timed",
]
