"""An application that opens its store and projector before its server forks the workers."""

from __future__ import annotations

import os

from eventstore import EventStore
from projections import Projector

store = EventStore.open(os.environ["PLAY_FORKED_URL"])
projector = Projector(store)
store.conversation("of-the-parent").request("f", {})
projector.catch_up()
opened_by = os.getpid()


def work(name: str) -> tuple[int, int]:
    """Ask for a call of a conversation, keep up with it; return the process, and how many it has.

    Raises:
        RuntimeError: an answer is another's.
    """
    store.conversation(name).request("f", {"of": name})
    projector.catch_up()
    calls = list(projector.tools(name))
    if any(conversation != name for conversation, _ in calls):
        raise RuntimeError(f"asked for {name}, and got {calls}")
    return os.getpid(), len(calls)
