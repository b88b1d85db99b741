"""What the tests cost, in CPU seconds by folder and kind: `pytest -n auto -p support.cpu_profile`.

In process: the test's own process. Subprocess: what it started and waited for. Server: what it
started and what still runs, and the servers of the whole run. Waiting: time by the clock without
any of the worker's own CPU. Start: interpreters, imports and collection. CPU needs Linux's `/proc`.
"""

from __future__ import annotations

import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

PROPERTY = "cpu_profile"
TICKS = os.sysconf("SC_CLK_TCK")
SHORT_SECONDS = 0.05
LONGEST = 40
"""How many tests the second table lists."""


class Spent(NamedTuple):
    """Seconds of each kind that a process has spent so far."""

    inside: float
    subprocess: float
    server: float
    wall: float

    @classmethod
    def until_now(cls, last: Spent | None = None) -> Spent:
        """Return what this process and all below it have spent.

        All processes are read for it, so what still runs is not asked for after a short test.
        """
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        if last is None or time.perf_counter() - last.wall > SHORT_SECONDS:
            living = sum(seconds for _, seconds in _below(os.getpid()))
        else:
            living = last.server
        ended = children.ru_utime + children.ru_stime
        return cls(time.process_time(), ended, living, time.perf_counter())

    def since(self, before: Spent) -> Spent:
        """Return what was spent between two of them."""
        return Spent(*(max(now - then, 0.0) for now, then in zip(self, before, strict=True)))


def _below(ancestor: int) -> Iterator[tuple[str, float]]:
    """Yield the name and the CPU of each process below one that still runs.

    The CPU includes that of its own children that have ended.
    """
    parents: dict[int, int] = {}
    found: dict[int, tuple[str, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().rpartition(")")
        except OSError:  # it has ended
            continue
        fields = rest.split()
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        found[pid] = name.partition("(")[2], sum(map(int, fields[11:15])) / TICKS
    for pid, figures in found.items():
        above = parents[pid]
        while above in parents and above != ancestor:
            above = parents[above]
        if above == ancestor:
            yield figures


class Worker:
    """Measures each test in the process that runs it, and sends the figures with its report."""

    def __init__(self) -> None:
        self._before = Spent.until_now()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Take the figures after a test; what lies between two tests counts for the second."""
        if call.when == "teardown":
            now = Spent.until_now(self._before)
            item.user_properties.append((PROPERTY, [*now.since(self._before)]))
            self._before = now

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_finish(self, session: pytest.Session) -> Iterator[None]:
        """Keep what it took to start and to collect."""
        started = self._before = Spent.until_now()
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["cpu_profile_start"] = started.inside + started.subprocess
        return (yield)


class Table:
    """Adds up the figures, and prints them at the end."""

    def __init__(self) -> None:
        self._spent: defaultdict[str, list[Spent]] = defaultdict(list)
        self._by_test: defaultdict[str, float] = defaultdict(float)
        self._by_file: defaultdict[str, float] = defaultdict(float)
        self._start: list[float] = []
        self._began = time.perf_counter()
        self._servers: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker spent before its first test."""
        self._start.append(getattr(node, "workeroutput", {}).get("cpu_profile_start", 0.0))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Read what still runs before it is stopped: the servers of the run."""
        for name, seconds in _below(os.getpid()):
            if not name.startswith(("python", "pytest")):
                self._servers[name] += seconds

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a test's figures."""
        if report.when != "teardown":
            return
        for name, figures in report.user_properties:
            if name == PROPERTY:
                spent = Spent(*cast("list[float]", figures))
                file = report.nodeid.partition("::")[0]
                folder = "/".join(Path(file).parts[1:-1][:2]) or "."
                self._spent[folder].append(spent)
                self._by_test[report.nodeid] += spent.inside + spent.subprocess + spent.server
                self._by_file[file] += spent.inside + spent.subprocess + spent.server

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the tables."""
        write = terminalreporter.write_line
        heads = ("folder", "tests", "in process", "subprocess", "server", "waiting")
        write("")
        write("CPU seconds ".ljust(78, "="))
        write("{:34}{:>7}{:>11}{:>11}{:>9}{:>9}".format(*heads))
        row = "{:34}{:7}{:11.1f}{:11.1f}{:9.1f}{:9.1f}"
        rows = []
        for folder, spent in self._spent.items():
            inside, subprocess, server, _ = map(sum, zip(*spent, strict=True))
            waiting = sum(max(one.wall - one.inside, 0) for one in spent)
            rows.append((folder, len(spent), inside, subprocess, server, waiting))
        for one in sorted(rows, key=lambda one: -sum(one[2:5])):
            write(row.format(*one))
        columns = list(zip(*rows, strict=True))[1:] or [(0,)] * 5
        write(row.format("all tests", *map(sum, columns)))
        write(f"start of {len(self._start)} workers (imports, collection): {sum(self._start):.1f}")
        for name, seconds in _most(self._servers):
            write(f"server of the run, {name}: {seconds:.1f}")
        write(f"by the clock: {time.perf_counter() - self._began:.1f}")
        for title, costs in (("file", self._by_file), ("test", self._by_test)):
            write(f"costliest by {title}:")
            for name, seconds in _most(costs)[:LONGEST]:
                write(f"{seconds:9.1f}  {name}")


def _most(costs: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(costs.items(), key=lambda cost: -cost[1])


def pytest_configure(config: pytest.Config) -> None:
    """Measure in each worker, and add up where results are shown."""
    is_worker = hasattr(config, "workerinput")
    if is_worker or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Worker())
    if not is_worker:
        config.pluginmanager.register(Table())
