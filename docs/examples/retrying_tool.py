"""A tool that is tried again, and what the model sees of it.

    python retrying_tool.py

Each attempt is in the log with its error. The model reads one call and one result.
"""

from __future__ import annotations

from itertools import count

from eventstore import Dispatcher, EventStore, FunctionTool, RetryPolicy
from projections import error_statistics, model_history

silences = count(-2)


def ask_carrier(number: int) -> str:
    """Ask the carrier where a parcel is: twice nobody answers."""
    if next(silences) < 0:
        raise ConnectionError("the carrier does not answer")
    return f"parcel {number} is in Lyon"


def main() -> None:
    """Run the tool until the carrier answers."""
    retry = RetryPolicy(max_attempts=3, initial_backoff=0.01)
    tool = FunctionTool(ask_carrier, effect="read_only", retry=retry)
    with EventStore.open("sqlite:///retrying_tool.db") as store:
        chat = store.conversation("parcels")
        chat.add_message("user", "Where is parcel 9?")
        Dispatcher(chat, [tool]).dispatch([chat.request("ask_carrier", {"number": 9})])
        for recorded in chat.events():
            print(recorded.version, recorded.event.tag)
        overall = error_statistics(chat.events()).overall
        print("calls:", overall.calls, "attempts:", overall.attempts)
        prompt = model_history(chat.events()).render("openai")["messages"]
        print("the model reads:", prompt[-1]["content"])


if __name__ == "__main__":
    main()
