"""What a person says of a call in doubt, bound to what the page showed of it."""

from __future__ import annotations

from typing import Any

import msgspec

from eventstore import CallChanged, EventStore, EventStoreError, Revision
from projections.doubts import result_of
from projections.formatting import quoted_name


class Settlement(msgspec.Struct, frozen=True):
    """The fields of the form; `shown` is the `revision` of the call that the page showed.

    `said` is the result of a call that took effect (see `result_of`), or why it took none.
    """

    conversation: str
    call: str
    shown: str
    outcome: str
    said: str
    by: str
    reason: str


def settle(store: EventStore, given: Settlement) -> str:
    """Settle a call, and return what became of it, in words.

    Nothing is settled if the call is not as it was shown, or is in doubt no more.
    """
    ways: dict[str, dict[str, Any]] = {
        "completed": {"completed": result_of(given.said)},
        "failed": {"failed": given.said.strip() or "it has not taken effect"},
        "again": {"run_again": True},
    }
    way = ways.get(given.outcome)
    if way is None:
        return "nothing was settled: press one of the three buttons"
    if not given.by.strip():
        return "nothing was settled: enter your name, which the log keeps with what you say"
    chat = store.conversation(given.conversation)
    by, reason = given.by.strip(), given.reason.strip() or None
    try:
        seen = Revision.parse(given.shown)
        done = chat.settle(given.call, seen=seen, by=by, reason=reason, **way)
    except (CallChanged, ValueError):
        return (
            "nothing was settled: the call is not as it was shown; the page shows it as it is now"
        )
    except EventStoreError as error:
        return f"nothing was settled: {error}"
    is_next = "may run again" if given.outcome == "again" else f"is {done.status.name.lower()}"
    return f"{quoted_name(done.call.name)} {is_next}"
