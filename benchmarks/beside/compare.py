"""This library beside what a user would pick instead: the same work, the same durability.

    python benchmarks/beside/compare.py [--json] [--chart FILE] [--markdown] [--only NAME,…]

- step: CPU of one tool call, stored step by step, at the end of a run of 100 and of 1,000 calls;
  and the bytes that it adds.
- prompt: CPU of the messages for the next request, of a run of 50 calls.
- callers: CPU and time of a tool call, 16 runs at once.
- repair: CPU of a broken list of 200 turns, for OpenAI and for Anthropic.

Each measurement is a process of its own in a fresh folder. A round measures all of them one after
the other, each round in another order. A figure is the peer's divided by ours of the same round:
the median over the rounds, with the least and the most. More than 1 is slower than this library.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from chart import chart
from peers import PEERS, Peer
from repairs import REPAIRS

HERE = Path(__file__).resolve().parent
OURS = "toolledger"
STEPS = 1_000
LAST = 50
"""Steps at the end of a run that are measured."""
PROMPT_STEPS, PROMPTS = 50, 30
CALLERS = 16
TURNS = 200

Measured = dict[str, float]
"""Name of a figure to seconds or bytes."""


class Figure(NamedTuple):
    """What a peer takes of one measure, as a multiple of what this library takes."""

    measure: str
    peer: str
    times: float
    least: float
    most: float
    value: float
    unit: str


def steps(peer: Peer, count: int) -> Measured:
    """Return the CPU and bytes of a step, at 100 steps and at the end."""
    marks = {50: 0.0, 100: 0.0, count - LAST: 0.0, count: 0.0}
    sizes = dict.fromkeys(marks, 0)

    def at(number: int) -> None:
        if number in marks:
            marks[number], sizes[number] = peer.seconds(), peer.size()

    peer.run(count, at)
    return {
        "step, of 100": (marks[100] - marks[50]) / 50,
        f"step, of {count:,}": (marks[count] - marks[count - LAST]) / LAST,
        f"bytes a step, of {count:,}": (sizes[count] - sizes[count - LAST]) / LAST,
    }


def prompts(peer: Peer) -> Measured:
    """Return the CPU of the next prompt."""
    peer.run(PROMPT_STEPS, lambda _: None)
    messages = peer.prompt()
    if messages is None:
        return {}
    assert len(messages) >= 2 * PROMPT_STEPS, len(messages)
    begun = peer.seconds()
    for _ in range(PROMPTS):
        peer.prompt()
    return {"prompt": (peer.seconds() - begun) / PROMPTS}


def callers(peer: Peer, count: int) -> Measured:
    """Return the CPU and the time of a step, where several runs go on at once."""
    each = max(count // CALLERS, 2)
    cpu, wall = peer.seconds(), time.perf_counter()
    if not peer.callers(CALLERS, each):
        return {}
    done = CALLERS * each
    return {
        f"step, {CALLERS} at once": (peer.seconds() - cpu) / done,
        f"step, {CALLERS} at once (time)": (time.perf_counter() - wall) / done,
    }


def repair(name: str, provider: str) -> Measured:
    """Return the CPU of one repair."""
    work = REPAIRS[name](provider, TURNS)
    work()
    begun = time.process_time()
    for _ in range(10):
        work()
    return {f"repair, {provider}": (time.process_time() - begun) / 10}


def worker(name: str, measure: str, count: int, url: str) -> Measured:
    """Measure one peer, in this process."""
    if measure.startswith("repair:"):
        return repair(name, measure.partition(":")[2])
    made = next(each for each in PEERS if each.name == name)
    with tempfile.TemporaryDirectory(prefix="beside-") as folder:
        peer = made(Path(folder), url)
        try:
            if measure == "step":
                return steps(peer, count)
            return prompts(peer) if measure == "prompt" else callers(peer, count)
        finally:
            peer.close()


class Comparison:
    """Rounds of measurements, and those that could not be made."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._rounds: list[dict[str, Measured]] = []
        self.missing: dict[str, str] = {}

    def round(self, number: int) -> None:
        """Measure everything once, beginning with another peer than the last round."""
        found: dict[str, Measured] = {}
        jobs = self._jobs()
        turn = number * 3 % len(jobs)
        for name, measure in (*jobs[turn:], *jobs[:turn]):
            if name not in self.missing:
                found.setdefault(name, {}).update(self._measured(name, measure))
        self._rounds.append(found)

    def _jobs(self) -> list[tuple[str, str]]:
        chosen = self._options.only.split(",") if self._options.only else None
        peers = [each for each in PEERS if self._options.postgresql or not each.server]
        jobs = [(each.name, measure) for each in peers for measure in each.measures]
        jobs += [(name, f"repair:{form}") for form in ("openai", "anthropic") for name in REPAIRS]
        return [job for job in jobs if chosen is None or job[0] in (*chosen, OURS)]

    def _measured(self, name: str, measure: str) -> Measured:
        options = self._options
        command = [sys.executable, __file__, "--worker", name, measure, "--steps", options.steps]
        done = subprocess.run(
            [*map(str, command), "--postgresql", options.postgresql],
            check=False,
            capture_output=True,
            text=True,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("measured ")]
        if not lines:
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            self.missing[name] = f"{measure}: {said}"
            return {}
        measured: Measured = json.loads(lines[-1].removeprefix("measured "))
        return measured

    def figures(self) -> list[Figure]:
        """Return the figures, ours first in each measure."""
        measures = dict.fromkeys(
            measure for found in self._rounds for each in found.values() for measure in each
        )
        return [figure for measure in sorted(measures) for figure in self._of(measure)]

    def _of(self, measure: str) -> list[Figure]:
        rounds = [
            {name: each[measure] for name, each in found.items() if measure in each}
            for found in self._rounds
        ]
        rounds = [found for found in rounds if found.get(OURS)]
        figures: list[Figure] = []
        for name in dict.fromkeys(name for found in rounds for name in found):
            values = [found[name] for found in rounds if name in found]
            ratios = [found[name] / found[OURS] for found in rounds if name in found]
            unit = "B" if measure.startswith("bytes") else "µs"
            value = median(values) * (1 if unit == "B" else 1e6)
            if value:
                times = (round(median(ratios), 2), round(min(ratios), 2), round(max(ratios), 2))
                figures.append(Figure(measure, name, *times, round(value, 1), unit))
        return sorted(figures, key=lambda figure: (figure.peer != OURS, figure.times))


def table(figures: list[Figure]) -> str:
    """Return the figures as a table of Markdown."""
    lines = ["| measure | library | times ours | least to most | here |", "|---|---|---|---|---|"]
    lines += [
        f"| {each.measure} | {each.peer} | {each.times:,.2f} | {each.least:,.2f} to "
        f"{each.most:,.2f} | {each.value:,.0f} {each.unit} |"
        for each in figures
    ]
    return "\n".join(lines)


def versions() -> dict[str, str]:
    """Return the installed version of each distribution of requirements.txt."""
    found: dict[str, str] = {}
    for line in (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines():
        name = line.partition("==")[0].partition("[")[0]
        if name and not name.startswith("#"):
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = "not installed"
    return found


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--markdown", action="store_true", help="print a table of Markdown")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="write a chart (SVG)")
    parser.add_argument("--only", default="", metavar="NAME,…", help="these libraries and ours")
    parser.add_argument("--rounds", type=int, default=5, help="how often all is measured")
    parser.add_argument("--steps", type=int, default=STEPS, help="tool calls of a run")
    parser.add_argument("--postgresql", default="", metavar="URL", help="compare there, too")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.steps < 200:
        parser.error("--steps: pass 200 or more")
    if options.worker:
        measured = worker(*options.worker, options.steps, options.postgresql)
        print("measured " + json.dumps(measured), flush=True)
        return
    comparison = Comparison(options)
    for number in range(options.rounds):
        comparison.round(number)
    figures = comparison.figures()
    for name, why in comparison.missing.items():
        sys.stderr.write(f"{name} is left out: {why} (pip install -r {HERE}/requirements.txt)\n")
    if options.chart:
        options.chart.write_text(chart(figures, OURS), encoding="utf-8")
    if options.json:
        head: dict[str, Any] = {"benchmark": "beside", "python": platform.python_version()}
        head |= {"rounds": options.rounds, "versions": versions(), "missing": comparison.missing}
        print(json.dumps(head | {"figures": [figure._asdict() for figure in figures]}))
    else:
        print(table(figures))


if __name__ == "__main__":
    main()
