"""Made-up runs with a known cause: `why` names it in its first three lines, and invents none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.made_up_runs import Run, events_of, runs_in, versions_of_cause

from projections import why


@pytest.mark.parametrize("run", runs_in("failed.txt"), ids=str)
def test_the_cause_is_in_the_first_three_lines(run: Run, tmp_path: Path) -> None:
    """The version of the call, or of its end, is named there."""
    events = events_of(run, tmp_path)
    lines = why(events).lines[:3]
    named = {int(number) for number in re.findall(r"\bversions? (\d+)", "\n".join(lines[1:]))}
    assert named & versions_of_cause(events, run), "\n".join(lines)


@pytest.mark.parametrize("run", runs_in("sound.txt"), ids=str)
def test_nothing_is_invented_of_a_run_that_did_not_fail(run: Run, tmp_path: Path) -> None:
    """A run that ended with an answer, or is under way, has no cause."""
    diagnosis = why(events_of(run, tmp_path))
    assert diagnosis.causes == ()
    assert diagnosis.lines[1] == "cause      nothing in the log says that it failed"
    under_way = run.name.startswith("under way")
    assert diagnosis.ended.startswith("under way" if under_way else "the assistant ")
