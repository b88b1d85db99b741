"""Applies events of which some cannot be applied: these are found, and parked.

The rule:

1. When a projection raises, its state is of no use any more. It is made again: from what is stored,
   by the events since then that are known to be good.
2. Events are passed on in parts, and it is traced how far the projection looks (`TracedEvents`). It
   raised at the last one that it saw. That one is parked if those before it can be applied: a
   projection is a fold, so it depends on no later one.
3. If it cannot be so, as where a projection copies its events before it begins, they are passed on
   one by one.
4. What is good is stored whenever there is enough of it to be dear to make again.

So an event is applied once, and once again for each event that is parked while it is not stored
yet: `PIECE` events at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from eventstore import Recorded
from projections.projector.lane import AnyLane, Poisoned
from projections.projector.parked import Parked, park

PIECE = 500
"""Events that are stored rather than applied again and again.

More would be applied more often, and fewer stored in more transactions.
"""

NARROWEST = 8


def sift(state: AnyLane, events: Sequence[Recorded], piece: int = PIECE) -> Iterator[int]:
    """Apply events; yield how many are done, each time that the state is to be stored.

    It is yielded at the end in any case, and before after `piece` events.
    """
    poison: dict[str, Parked] = {}  # what is parked and not stored yet
    stored = good = 0
    step = widest = max(len(events), 1)
    while True:
        if good == len(events) or good - stored >= piece:
            yield good
            poison.clear()
            stored = good
            if good == len(events):
                return
        part = events[good : good + step]
        try:
            state.apply(part, traced=True)
        except Poisoned as fault:
            end = good + _index(part, fault.event)
            found = fault.event.conversation_id, park(fault.event, str(fault))
            suspect = dict([found] if fault.is_certain else [])
            try:
                _again(state, poison | suspect, events[stored : end + len(suspect)])
            except Poisoned:
                if step == 1:  # the projection is no fold: it raised on it all the same
                    poison |= suspect
                widest = step = 1
                good = stored
                _again(state, poison, ())
            else:
                poison |= suspect
                step = min(max(2 * (end - good), NARROWEST), widest) if suspect else 1
                good = end + len(suspect)
        else:
            good += len(part)
            step = min(2 * step, widest)


def _again(state: AnyLane, poison: Mapping[str, Parked], events: Sequence[Recorded]) -> None:
    """Apply to what is stored the events that are good."""
    state.reset()
    for item in poison.values():
        state.park(replace(item))
    if events:
        state.apply(events)


def _index(events: Sequence[Recorded], event: Recorded) -> int:
    return next(index for index, each in enumerate(events) if each is event)
