"""Made-up runs with a known cause: `why` names it in its first three lines, and invents none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.made_up_runs import Run, events_of, runs_in, versions_of_cause

from eventstore import EventStore
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


def test_a_call_that_a_fork_closes_is_no_cause() -> None:
    """A call that waits, and one under way, belong to the origin: nobody refused or failed them."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("origin")
        chat.add_message("user", "Pay both.")
        chat.start(chat.request("pay", {"order": 1}).id)
        chat.request("pay", {"order": 2})
        copy = chat.fork(chat.version, "copy")
        assert why(copy.events()).causes == ()
        bad = copy.request("pay", {"order": 3})
        copy.start(bad.id)
        copy.fail(bad.id, "the card was declined")
        assert [cause.call_id for cause in why(copy.events()).causes] == [bad.id]
