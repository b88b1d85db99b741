"""A model of the log, searched through: each order in which writers, a reader and a projector act.

It has the parts that order and acknowledgement rest on: a lane's counter under its lock, groups of
appends in one COMMIT whose answer may be lost, the feed with the anchor of its cursor, and a
projector that keeps its checkpoint, with an anchor, beside its rows. An older copy is restored
once: the projector stops until it is rebuilt, and a writer that misses what it knew stores nothing
until the loss is accepted. A `Bug` leaves one of these rules out.
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
    ID_ALONE = "an anchor is an event's id, without the time at which it was recorded"
    PASSED_OVER = "a projector goes on at its position of a log that was restored"
    NOT_ACCEPTED = "a writer that misses events goes on without a person's word"


class Follower(Enum):
    """What follows the log; one at a time is enough, as neither changes what the other sees."""

    READER = "a reader with a cursor"
    PROJECTOR = "a projector with rows and a checkpoint"


class Size(NamedTuple):
    """How much the model does: which events a writer has for which lanes, in groups."""

    groups: tuple[tuple[tuple[int, int], ...], ...]
    """For each writer the (event, lane) pairs that it commits together."""
    lanes: int = 2


Recording = tuple[int, int]
"""An event, and whether it was recorded after the restore: then an event has another time."""
Place = tuple[int, Recording]
"""The position and the anchor that one saw last in a lane."""
Lane = tuple[Place, ...]
"""What is stored in a lane, in the order of the commits."""

START: Place = (0, (-1, 0))
"""The place before the first event."""


class Writer(NamedTuple):
    """A writer: what it does next, and where the lanes ended that it read last."""

    doing: str = "begin"
    read: tuple[Place, ...] = ()


class State(NamedTuple):
    """All that is stored, and all that is known."""

    lanes: tuple[Lane, ...]
    locked: tuple[int, ...]
    """For each lane the writer that has its lock, or -1."""
    writers: tuple[Writer, ...]
    acknowledged: frozenset[int] = frozenset()
    """What was acknowledged and not taken back by the restore."""
    copy: tuple[Lane, ...] | None = None
    """The copy that a restore brings back: taken, and not yet used."""
    restored: bool = False
    accepted: bool = False
    """Whether a person said, after a writer had refused, that what is lost is known."""
    overwritten: bool = False
    """Whether a writer stored events over a loss that nobody had accepted."""
    cursor: tuple[Place, ...] = ()
    """The reader's place in each lane."""
    seen: tuple[tuple[Recording, ...], ...] = ()
    """For each lane the events that the reader saw since it last began anew."""
    rows: tuple[tuple[Recording, ...], ...] = ()
    """For each lane the events that the projector applied and committed since it was built."""
    checkpoint: tuple[Place, ...] = ()
    """For each lane the place up to which the projector believes to have applied."""
    applying: tuple[int, int, Recording] | None = None
    """The (lane, position, event) that the projector has read and not yet finished."""


def first(size: Size) -> State:
    """Return the state in which nothing has been done."""
    return State(
        lanes=((),) * size.lanes,
        locked=(-1,) * size.lanes,
        writers=(Writer(),) * len(size.groups),
        cursor=(START,) * size.lanes,
        seen=((),) * size.lanes,
        rows=((),) * size.lanes,
        checkpoint=(START,) * size.lanes,
    )


def search(
    size: Size, follower: Follower, bug: Bug | None = None
) -> tuple[int, list[str], str | None]:
    """Visit all states; return their number, and the shortest way to a broken rule, with the rule.

    The way is empty and the rule None where every state keeps all of them.
    """
    start = first(size)
    came: dict[State, tuple[State, str] | None] = {start: None}
    waiting = deque([start])
    stuck: State | None = None
    while waiting:
        state = waiting.popleft()
        broken = violated(state, size)
        if broken is not None:
            return len(came), _way(came, state), broken
        actions = list(successors(state, size, follower, bug))
        if not actions and not _is_at_the_end(state, follower):
            stuck = stuck or state
        for action, after in actions:
            if after not in came:
                came[after] = state, action
                waiting.append(after)
    if stuck is not None:
        return len(came), _way(came, stuck), "writers and followers come to their end"
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
    events = [event for lane in state.lanes for _, (event, _) in lane]
    stored = set(events)
    if len(stored) < len(events):
        return "an event is stored once"
    for lane in state.lanes:
        if [position for position, _ in lane] != list(range(1, len(lane) + 1)):
            return "positions have no gaps"
    for group in size.groups:
        if 0 < len({event for event, _ in group} & stored) < len(group):
            return "a group is stored whole"
    if not state.acknowledged <= stored:
        return "what was acknowledged is stored"
    if state.overwritten:
        return "nobody writes over a loss that is not accepted"
    return _follower_violated(state)


def _follower_violated(state: State) -> str | None:
    for lane, stored in enumerate(state.lanes):
        if not _is_reported(state.seen[lane], state.cursor[lane], stored):
            return "a reader sees each event of a lane, once and in order"
        is_applying = state.applying is not None
        if not is_applying and not _is_reported(state.rows[lane], state.checkpoint[lane], stored):
            return "each event is applied exactly once"
    return None


def _is_reported(events: tuple[Recording, ...], place: Place, stored: Lane) -> bool:
    """Return whether events are those of a lane up to a place, or the next read finds a loss."""
    before = tuple(event for _, event in stored[: place[0]])
    return events == before or _is_lost(place, stored)


def _is_lost(place: Place, stored: Lane) -> bool:
    """Return whether another event, or none, is where one was seen last."""
    at, event = place
    return at > len(stored) or (at > 0 and stored[at - 1][1] != event)


def _ends(lanes: tuple[Lane, ...]) -> tuple[Place, ...]:
    return tuple(lane[-1] if lane else START for lane in lanes)


def _is_at_the_end(state: State, follower: Follower) -> bool:
    """Return whether all is written and followed."""
    place = state.cursor if follower is Follower.READER else state.checkpoint
    return place == _ends(state.lanes) and all(one.doing == "done" for one in state.writers)


# what may happen


def successors(
    state: State, size: Size, follower: Follower, bug: Bug | None
) -> Iterator[tuple[str, State]]:
    """Yield each action that may come next, with the state after it."""
    for number in range(len(state.writers)):
        yield from _write(state, number, size.groups[number], bug)
    if follower is Follower.READER:
        yield from _read(state, bug)
    else:
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
        missing = any(map(_is_lost, writer.read, state.lanes))
        if missing and bug is not Bug.NOT_ACCEPTED:
            yield f"{name} misses events, and refuses", _with(state, number, Writer("refused"))
        elif bug is Bug.NO_LOCK or all(state.locked[lane] == -1 for lane in needed):
            holder = -1 if bug is Bug.NO_LOCK else number
            locked = tuple(
                holder if lane in needed else was for lane, was in enumerate(state.locked)
            )
            reading = state._replace(locked=locked, overwritten=missing and not state.accepted)
            after = Writer("commit", _ends(state.lanes))
            yield f"{name} reads the counters", _with(reading, number, after)
    elif writer.doing == "refused":
        if state.accepted:
            yield f"{name} trusts nothing that it knew", _with(state, number, Writer())
        else:
            yield "a person accepts the loss", state._replace(accepted=True)
    elif writer.doing == "commit":
        free = state._replace(locked=tuple(-1 if was == number else was for was in state.locked))
        settle = Writer("settle", writer.read)
        time = int(state.restored and bug is not Bug.ID_ALONE)
        done = free._replace(lanes=_stored(state.lanes, group, writer.read, time))
        reported = done._replace(acknowledged=done.acknowledged | events)
        yield f"{name} commits and is told", _with(reported, number, Writer("done"))
        yield f"{name} commits, the answer is lost", _with(done, number, settle)
        yield f"the COMMIT of {name} never arrives", _with(free, number, settle)
        warned = free._replace(
            acknowledged=free.acknowledged | (events if bug is Bug.WARNING else frozenset())
        )
        after = Writer("done") if bug is Bug.WARNING else settle
        yield f"{name} is warned, and a failover takes it back", _with(warned, number, after)
    elif writer.doing == "settle":
        stored = {event for lane in state.lanes for _, (event, _) in lane}
        if bug is not Bug.BLIND_RETRY and events <= stored:
            reported = state._replace(acknowledged=state.acknowledged | events)
            yield f"{name} finds its events", _with(reported, number, Writer("done"))
        else:
            yield f"{name} begins again", _with(state, number, Writer("begin", writer.read))


def _stored(
    lanes: tuple[Lane, ...], group: tuple[tuple[int, int], ...], read: tuple[Place, ...], time: int
) -> tuple[Lane, ...]:
    heads_now = [at for at, _ in read]
    stored = list(lanes)
    for event, lane in group:
        heads_now[lane] += 1
        stored[lane] = (*stored[lane], (heads_now[lane], (event, time)))
    return tuple(stored)


def _with(state: State, number: int, writer: Writer) -> State:
    return state._replace(writers=_replaced(state.writers, number, writer))


def _read(state: State, bug: Bug | None) -> Iterator[tuple[str, State]]:
    for lane, stored in enumerate(state.lanes):
        at = state.cursor[lane][0]
        if _is_lost(state.cursor[lane], stored) and bug is not Bug.NO_ANCHOR:  # CursorLost
            anew = state._replace(
                cursor=_replaced(state.cursor, lane, START), seen=_replaced(state.seen, lane, ())
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
    if state.applying is not None:
        lane, position, event = state.applying
        yield "the projector is killed", state._replace(applying=None)
        # The anchor is looked for after the next event was read, as a restore may come between.
        if bug is Bug.PASSED_OVER or not _is_lost(state.checkpoint[lane], state.lanes[lane]):
            rows = _replaced(state.rows, lane, (*state.rows[lane], event))
            done = state._replace(applying=None, rows=rows)
            yield "the projector commits", _checkpointed(done, lane, (position, event))
        return
    for lane, stored in enumerate(state.lanes):
        at = state.checkpoint[lane][0]
        if _is_lost(state.checkpoint[lane], stored) and bug is not Bug.PASSED_OVER:
            anew = first(Size((), len(state.lanes)))
            rebuilt = state._replace(rows=anew.rows, checkpoint=anew.checkpoint)
            yield f"the projector lost its place in lane {lane}, and is rebuilt", rebuilt
        elif at < len(stored):
            reading = state._replace(applying=(lane, *stored[at]))
            if bug is Bug.EARLY_CHECKPOINT:
                reading = _checkpointed(reading, lane, stored[at])
            yield f"the projector reads lane {lane}", reading


def _checkpointed(state: State, lane: int, place: Place) -> State:
    return state._replace(checkpoint=_replaced(state.checkpoint, lane, place))


def _restore(state: State) -> Iterator[tuple[str, State]]:
    if state.restored:
        return
    if state.copy is None:
        yield "a copy is made", state._replace(copy=state.lanes)
    elif all(holder == -1 for holder in state.locked) and state.copy != state.lanes:
        kept = {event for lane in state.copy for _, (event, _) in lane}
        acknowledged = state.acknowledged & kept
        restored = state._replace(
            lanes=state.copy, acknowledged=acknowledged, copy=None, restored=True
        )
        yield "the copy is restored", restored
