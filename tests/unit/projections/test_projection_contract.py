"""The library's own projections keep the contract that is shipped for those of users."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from eventstore import Recorded, ToolCompleted, ToolPending
from eventstore.testing import ProjectionContract
from eventstore.testing.projection_contract import _damaged, sample_log
from projections import CurrentTools, ErrorStatistics, Projection, Repeats, ResumePlan
from projections.statistics.usage import UsageStatistics


class TestCurrentTools(ProjectionContract):
    """The state of each call."""

    def projection(self) -> CurrentTools:
        """Return a new one."""
        return CurrentTools()

    def answer(self, projection: CurrentTools) -> object:
        """Return the calls, by conversation."""
        return sorted(projection.calls(), key=lambda call: (call[0], call[1].id))


class TestErrorStatistics(ProjectionContract):
    """The counts of calls, attempts and failures."""

    def projection(self) -> ErrorStatistics:
        """Return a new one."""
        return ErrorStatistics()

    def answer(self, projection: ErrorStatistics) -> object:
        """Return the numbers; anomalies come in the order of their events."""
        return msgspec.structs.replace(projection.result(), anomalies=())


class TestUsage(ProjectionContract):
    """The tokens of responses."""

    def projection(self) -> UsageStatistics:
        """Return a new one."""
        return UsageStatistics()

    def answer(self, projection: UsageStatistics) -> object:
        """Return the numbers."""
        return projection.result()


class TestRepeats(ProjectionContract):
    """Calls that come again and again."""

    def projection(self) -> Repeats:
        """Return a new one."""
        return Repeats(2)

    def answer(self, projection: Repeats) -> object:
        """Return what was found."""
        return sorted(map(repr, projection.findings))


class TestResumePlan(ProjectionContract):
    """What to do with each call after a crash."""

    def projection(self) -> ResumePlan:
        """Return a new one."""
        return ResumePlan()

    def answer(self, projection: ResumePlan) -> object:
        """Return the steps."""
        return sorted(map(repr, projection.steps))


class _Counts(Projection):
    """A projection that keeps the contract, for others that break one guarantee each."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def apply(self, recorded: Recorded) -> None:
        self.seen[type(recorded.event).__name__] += 1

    def answer(self) -> object:
        return dict(self.seen)


class _CountsAnswers(_Counts):
    def answer(self) -> object:
        self.seen["answers"] += 1
        return dict(self.seen)


class _SkipsInBulk(_Counts):
    def extend(self, events: Any) -> _Counts:
        return super().extend(list(events)[1:])


class _Changes(_Counts):
    def apply(self, recorded: Recorded) -> None:
        super().apply(recorded)
        if type(recorded.event) is ToolPending and isinstance(recorded.event.call.arguments, dict):
            recorded.event.call.arguments["seen"] = True


class _KnowsTheLast(_Counts):
    def answer(self) -> object:
        return list(self.seen)


class _KnowsIdsAlone(_Counts):
    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str | None, str] = {}

    def apply(self, recorded: Recorded) -> None:
        if type(recorded.event) is ToolPending:
            self.names[recorded.call_id] = recorded.event.call.name
        elif type(recorded.event) is ToolCompleted:
            self.seen[self.names.get(recorded.call_id, "")] += 1


class _Raises(_Counts):
    def apply(self, recorded: Recorded) -> None:
        super().apply(recorded)
        if type(recorded.event) is ToolCompleted:
            assert recorded.event.attempt >= 0


class _KnowsAllTags(_Counts):
    def apply(self, recorded: Recorded) -> None:
        super().apply(recorded)
        assert type(recorded.event).__name__ != "UnknownEvent"


_SHARED: list[str] = []


class _Shares(_Counts):
    def apply(self, recorded: Recorded) -> None:
        _SHARED.append(recorded.event_id)

    def answer(self) -> object:
        return len(_SHARED)


@pytest.mark.parametrize(
    ("broken", "noticed_by"),
    [
        (_CountsAnswers, "test_a_prefix_and_then_the_rest_is_the_whole"),
        (_CountsAnswers, "test_the_answer_depends_on_the_events_alone"),
        (_SkipsInBulk, "test_events_one_by_one_are_events_at_once"),
        (_Changes, "test_no_event_is_changed"),
        (_KnowsTheLast, "test_conversations_come_in_any_interleaving"),
        (_KnowsIdsAlone, "test_conversations_come_in_any_interleaving"),
        (_KnowsAllTags, "test_events_that_it_does_not_know_are_taken"),
        (_Raises, "test_no_log_raises"),
        (_Shares, "test_the_answer_depends_on_the_events_alone"),
    ],
)
def test_a_projection_that_breaks_a_guarantee_is_noticed(
    broken: type[_Counts], noticed_by: str
) -> None:
    """Each test of the contract fails for a projection that lacks what it is for."""

    class Broken(ProjectionContract):
        def projection(self) -> _Counts:
            return broken()

        def answer(self, projection: _Counts) -> object:
            return projection.answer()

    assert any(_fails(Broken(), noticed_by, seed) for seed in range(6))


def _fails(contract: ProjectionContract, test: str, seed: int) -> bool:
    log = sample_log(seed)
    if test == "test_no_log_raises":
        log = _damaged(log, random.Random(seed))
    try:
        getattr(contract, test)(log)
    except AssertionError:
        return True
    return False
