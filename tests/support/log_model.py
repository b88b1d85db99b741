"""A model of the log, searched through: each order in which writers, a reader and a projector act.

It has the parts that order and acknowledgement rest on: a lane's counter under its lock, groups of
appends in one COMMIT whose answer may be lost, the feed with the anchor of its cursor, a projector
that keeps its checkpoint beside its rows, and one restore of an older copy. A `Bug` leaves one of
its rules out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Bug(Enum):
    """A rule that is left out."""

    NO_LOCK = "a writer reads the counter of a lane without its lock"
    WARNING = "a COMMIT that is answered with a warning is acknowledged"
    BLIND_RETRY = "an append whose answer was lost is repeated without a look at what is stored"
    EARLY_CHECKPOINT = "a projector commits its checkpoint before its rows"
    NO_ANCHOR = "a cursor is a bare position, and is not compared after a restore"


class Size(NamedTuple):
    """How much the model does: which events a writer has for which lanes, in groups."""

    groups: tuple[tuple[tuple[int, int], ...], ...]
    """For each writer the (event, lane) pairs that it commits together."""
    lanes: int = 2


class Writer(NamedTuple):
    """A writer: what it does next, the counters that it read, and what it was told."""

    doing: str = "begin"
    read: tuple[int, ...] = ()


class State(NamedTuple):
    """All that is stored, and all that is known."""

    lanes: tuple[tuple[tuple[int, int], ...], ...]
    """For each lane the stored (position, event) pairs, in the order of their commits."""
    locked: tuple[int, ...]
    """For each lane the writer that has its lock, or -1."""
    writers: tuple[Writer, ...]
    acknowledged: frozenset[int] = frozenset()
    copy: tuple[tuple[tuple[int, int], ...], ...] | None = None
    """The copy that a restore brings back: taken, and not yet used."""
    restored: bool = False
    cursor: tuple[tuple[int, int], ...] = ()
    """For each lane the position and event that the reader saw last; (0, -1) before the first."""
    seen: tuple[tuple[int, ...], ...] = ()
    """For each lane the events that the reader saw since it last began anew."""
    rows: tuple[int, ...] = ()
    """The events that the projector applied and committed, sorted."""
    checkpoint: tuple[int, ...] = ()
    """For each lane the position up to which the projector believes to have applied."""
    applying: tuple[int, int, int] | None = None
    """The (lane, position, event) that the projector has read and not yet finished."""


def first(size: Size) -> State:
    """Return the state in which nothing has been done."""
    return State(
        lanes=((),) * size.lanes,
        locked=(-1,) * size.lanes,
        writers=(Writer(),) * len(size.groups),
        cursor=((0, -1),) * size.lanes,
        seen=((),) * size.lanes,
        checkpoint=(0,) * size.lanes,
    )


def search(size: Size, bug: Bug | None = None) -> tuple[int, list[str], str | None]:
    """Visit all states; return their number, and the shortest way to a broken rule, with the rule.

    The way is empty and the rule None where every state keeps all of them.
    """
    start = first(size)
    came: dict[State, tuple[State, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        broken = violated(state, size)
        if broken is not None:
            return len(came), _way(came, state), broken
        for action, after in successors(state, size, bug):
            if after not in came:
                came[after] = state, action
                waiting.append(after)
    return len(came), [], None


def _way(came: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    actions: list[str] = []
    step = came[state]
    while step is not None:
        state, action = step
        actions.append(action)
        step = came[state]
    return actions[::-1]


# what must hold


def violated(state: State, size: Size) -> str | None:
    """Return a rule that does not hold in a state."""
    stored = [event for lane in state.lanes for _, event in lane]
    if len(set(stored)) < len(stored):
        return "an event is stored once"
    for lane in state.lanes:
        if [position for position, _ in lane] != list(range(1, len(lane) + 1)):
            return "positions have no gaps"
    for group in size.groups:
        if not state.restored and 0 < len({event for event, _ in group} & set(stored)) < len(group):
            return "a group is stored whole"
    if not state.restored and not state.acknowledged <= set(stored):
        return "what was acknowledged is stored"
    return _reader_violated(state) or _projector_violated(state)


def _reader_violated(state: State) -> str | None:
    for lane, stored in enumerate(state.lanes):
        at, event = state.cursor[lane]
        is_known_lost = at > len(stored) or (at > 0 and stored[at - 1][1] != event)
        # What was taken back is found out by the next read: it is judged where the anchor stands.
        if not is_known_lost and state.seen[lane] != tuple(event for _, event in stored[:at]):
            return "a reader sees each event of a lane, once and in order"
    return None


def _projector_violated(state: State) -> str | None:
    if state.restored or state.applying is not None:
        return None
    below = [
        event
        for lane, stored in enumerate(state.lanes)
        for position, event in stored
        if position <= state.checkpoint[lane]
    ]
    return None if sorted(below) == list(state.rows) else "each event is applied exactly once"


# what may happen


def successors(state: State, size: Size, bug: Bug | None) -> Iterator[tuple[str, State]]:
    """Yield each action that may come next, with the state after it."""
    for number in range(len(state.writers)):
        yield from _write(state, number, size.groups[number], bug)
    yield from _read(state, bug)
    yield from _project(state, bug)
    yield from _restore(state)


def _write(
    state: State, number: int, group: tuple[tuple[int, int], ...], bug: Bug | None
) -> Iterator[tuple[str, State]]:
    writer = state.writers[number]
    needed = sorted({lane for _, lane in group})
    events = frozenset(event for event, _ in group)
    name = f"writer {number}"
    if writer.doing == "begin":
        if bug is Bug.NO_LOCK or all(state.locked[lane] == -1 for lane in needed):
            holder = -1 if bug is Bug.NO_LOCK else number
            locked = tuple(
                holder if lane in needed else was for lane, was in enumerate(state.locked)
            )
            heads = tuple(len(lane) for lane in state.lanes)
            reading = state._replace(locked=locked)
            yield f"{name} reads the counters", _with(reading, number, Writer("commit", heads))
    elif writer.doing == "commit":
        free = state._replace(locked=tuple(-1 if was == number else was for was in state.locked))
        done = free._replace(lanes=_stored(state.lanes, group, writer.read))
        told = done._replace(acknowledged=done.acknowledged | events)
        yield f"{name} commits and is told", _with(told, number, Writer("done"))
        yield f"{name} commits, the answer is lost", _with(done, number, Writer("settle"))
        yield f"the COMMIT of {name} never arrives", _with(free, number, Writer("settle"))
        warned = free._replace(
            acknowledged=free.acknowledged | (events if bug is Bug.WARNING else frozenset())
        )
        after = Writer("done" if bug is Bug.WARNING else "settle")
        yield f"{name} is warned, and a failover takes it back", _with(warned, number, after)
    elif writer.doing == "settle":
        stored = {event for lane in state.lanes for _, event in lane}
        if bug is not Bug.BLIND_RETRY and events <= stored:
            told = state._replace(acknowledged=state.acknowledged | events)
            yield f"{name} finds its events", _with(told, number, Writer("done"))
        else:
            yield f"{name} begins again", _with(state, number, Writer())


def _stored(
    lanes: tuple[tuple[tuple[int, int], ...], ...],
    group: tuple[tuple[int, int], ...],
    heads: tuple[int, ...],
) -> tuple[tuple[tuple[int, int], ...], ...]:
    heads_now = list(heads)
    stored = list(lanes)
    for event, lane in group:
        heads_now[lane] += 1
        stored[lane] = (*stored[lane], (heads_now[lane], event))
    return tuple(stored)


def _with(state: State, number: int, writer: Writer) -> State:
    return state._replace(writers=_replaced(state.writers, number, writer))


def _read(state: State, bug: Bug | None) -> Iterator[tuple[str, State]]:
    for lane, stored in enumerate(state.lanes):
        at, event = state.cursor[lane]
        lost = at > len(stored) or (at > 0 and stored[at - 1][1] != event)
        if lost and bug is not Bug.NO_ANCHOR:  # CursorLost: the reader begins anew
            anew = state._replace(
                cursor=_replaced(state.cursor, lane, (0, -1)), seen=_replaced(state.seen, lane, ())
            )
            yield f"the reader lost its place in lane {lane}", anew
        elif at < len(stored):
            seen = (*state.seen[lane], stored[at][1])
            further = state._replace(
                cursor=_replaced(state.cursor, lane, stored[at]),
                seen=_replaced(state.seen, lane, seen),
            )
            yield f"the reader reads lane {lane}", further


def _replaced(parts: tuple[T, ...], number: int, new: T) -> tuple[T, ...]:
    return (*parts[:number], new, *parts[number + 1 :])


def _project(state: State, bug: Bug | None) -> Iterator[tuple[str, State]]:
    if state.restored:
        return
    if state.applying is None:
        for lane, stored in enumerate(state.lanes):
            at = state.checkpoint[lane]
            if at < len(stored):
                reading = state._replace(applying=(lane, *stored[at]))
                if bug is Bug.EARLY_CHECKPOINT:
                    reading = _checkpointed(reading, lane, stored[at][0])
                yield f"the projector reads lane {lane}", reading
    else:
        lane, position, event = state.applying
        done = state._replace(applying=None, rows=tuple(sorted((*state.rows, event))))
        yield "the projector commits", _checkpointed(done, lane, position)
        yield "the projector is killed", state._replace(applying=None)


def _checkpointed(state: State, lane: int, position: int) -> State:
    return state._replace(checkpoint=_replaced(state.checkpoint, lane, position))


def _restore(state: State) -> Iterator[tuple[str, State]]:
    if state.restored:
        return
    if state.copy is None:
        yield "a copy is made", state._replace(copy=state.lanes)
    elif all(holder == -1 for holder in state.locked) and state.copy != state.lanes:
        restored = state._replace(lanes=state.copy, copy=None, restored=True)
        yield "the copy is restored", restored
