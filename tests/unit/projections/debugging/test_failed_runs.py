"""Made-up runs with a known cause: `why` names it in its first three lines, and invents none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.failed_runs import FAILED, SOUND
from support.made_up_runs import Run, events_of, versions_of_call

from projections import why


def by_name(run: Run) -> str:
    """Return the name of a run, for the test's."""
    return f"{run.name} ({run.form})"


@pytest.mark.parametrize("run", FAILED, ids=by_name)
def test_the_cause_is_in_the_first_three_lines(run: Run, tmp_path: Path) -> None:
    """The version of the call, or of its end, is named there."""
    events = events_of(run, tmp_path)
    lines = why(events).lines[:3]
    named = {int(number) for number in re.findall(r"\bversions? (\d+)", "\n".join(lines[1:]))}
    assert named & versions_of_call(events, run.cause), "\n".join(lines)


@pytest.mark.parametrize("run", SOUND, ids=by_name)
def test_nothing_is_invented_of_a_run_that_did_not_fail(run: Run, tmp_path: Path) -> None:
    """It ended with an answer, or is under way: there is no cause."""
    diagnosis = why(events_of(run, tmp_path))
    assert diagnosis.causes == ()
    assert "just stops" not in diagnosis.ended
    expected = "under way" if run.name.startswith("under way") else "the assistant answered"
    assert diagnosis.ended.startswith(expected)
