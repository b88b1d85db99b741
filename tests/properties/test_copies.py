"""Totals over a store with forks, and forks of forks, are those of what happened once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.projected_logs import act
from support.tiers import examples

from eventstore import EventStore, Recorded, RunStarted, ToolFailed
from eventstore.domain.settlement import settled_as
from eventstore.testing import FrozenClock
from projections import error_statistics, usage_statistics

moves = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 11), st.integers(0, 11)),
    max_size=40,
)
forks = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=5)


def forked(store: EventStore, plan: list[tuple[int, int]]) -> list[str]:
    """Fork conversations, and forks of them; return the ids of the forks."""
    names = sorted({recorded.conversation_id for recorded in store.read()})
    made: list[str] = []
    for which, back in plan if names else ():
        origin = store.conversation(names[which % len(names)])
        copy = origin.fork(max(1, origin.version - back), f"fork{len(made)}")
        made.append(copy.id)
        names.append(copy.id)
    return made


@settings(max_examples=examples(60))
@given(walk=moves, plan=forks)
def test_forks_alone_add_nothing(walk: list[Any], plan: list[tuple[int, int]]) -> None:
    """All numbers are those of the conversations that were forked."""
    clock = FrozenClock()
    with EventStore.open("sqlite://", clock=clock) as store:
        for move in walk:
            clock.advance(move[3] ** 3 / 10)
            act(store, move)
        before = error_statistics(store.read()), usage_statistics(store.read())
        made = forked(store, plan)
        statistics, usage = error_statistics(store.read()), usage_statistics(store.read())
        copied = [r for name in made for r in store.conversation(name).events() if r.is_copy]
        assert statistics.overall == before[0].overall
        assert statistics.by_tool == before[0].by_tool
        assert statistics.by_kind == before[0].by_kind
        assert statistics.by_fingerprint == before[0].by_fingerprint
        assert statistics.anomaly_count == before[0].anomaly_count == 0
        assert statistics.copied_calls == sum(r.event.tag == "pending" for r in copied)
        assert usage == before[1]


@settings(max_examples=examples(60))
@given(walk=moves, plan=forks, more=moves)
def test_the_own_events_of_forks_are_counted(
    walk: list[Any], plan: list[tuple[int, int]], more: list[Any]
) -> None:
    """Each event that is no copy counts once, of new calls and of copied ones."""
    clock = FrozenClock()
    with EventStore.open("sqlite://", clock=clock) as store:
        for move in walk:
            act(store, move)
        made = forked(store, plan)
        names = {0: "chat0", **dict(enumerate(made, 1))}
        with_forks = _Renamed(store, names)
        for move in more:
            clock.advance(1)
            act(with_forks, move)  # type: ignore[arg-type]
        own = [recorded for recorded in store.read() if not recorded.is_copy]
        tags = Counter(recorded.event.tag for recorded in own)
        overall = error_statistics(store.read()).overall
        assert overall.calls == tags["pending"]
        assert overall.attempts == tags["running"]
        assert overall.completions == tags["completed"]
        assert overall.rejections == tags["rejected"]
        assert overall.failures <= sum(map(_is_failure, own))
        assert min(overall.outcome_unknown, overall.open, overall.terminal_failures) >= 0
        breaches = usage_statistics(store.read()).breaches
        assert sum(breaches.values()) == tags["usage_limit_breach"]


@settings(max_examples=examples(60))
@given(walk=moves, plan=forks)
def test_one_conversation_by_itself_has_all_its_calls(
    walk: list[Any], plan: list[tuple[int, int]]
) -> None:
    """With `copies`, a fork of everything counts what its origin does, but for what it closes."""
    with EventStore.open("sqlite://") as store:
        for move in walk:
            act(store, move)
        for name in forked(store, plan):
            events = list(store.conversation(name).events())
            overall = error_statistics(events, copies=True).overall
            assert overall.calls == sum(r.event.tag == "pending" for r in events)
            own = [r for r in events if not r.is_copy]
            assert [type(r.event) for r in own] == [RunStarted]
            assert own[0].event.forked_at == own[0].version - 1
            assert usage_statistics(events).overall.responses == 0


class _Renamed:
    """A store whose conversations `chat0`, `chat1` and so on are others."""

    def __init__(self, store: EventStore, names: dict[int, str]) -> None:
        self._store = store
        self._names = names

    def conversation(self, name: str) -> Any:
        """Return the conversation that stands for this one."""
        number = int(name.removeprefix("chat"))
        return self._store.conversation(self._names.get(number, name))


def _is_failure(recorded: Recorded) -> bool:
    event = recorded.event
    return type(event) is ToolFailed and settled_as(event, has_begun=True) is None
