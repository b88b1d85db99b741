"""Logs that a list of random steps makes: messages, responses, and calls in every state."""

from __future__ import annotations

from hypothesis import strategies as st

from eventstore import (
    Conversation,
    EventStore,
    HistoryCompacted,
    MessageAdded,
    ModelResponded,
    Recorded,
    RunEnded,
    Text,
    Usage,
)

Step = tuple[str, int]

KINDS = (
    "user",
    "assistant",
    "request",
    "request",
    "start",
    "complete",
    "fail",
    "reject",
    "response",
    "end",
    "compact",
)
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 3)), max_size=25
)


def play(chat: Conversation, steps: list[Step]) -> None:
    """Record the steps; one that has no call to act on does nothing."""
    for kind, number in steps:
        waiting = [tool.id for tool in chat.tools.values() if tool.is_pending]
        running = [tool.id for tool in chat.tools.values() if tool.is_executing]
        if kind in ("user", "assistant"):
            chat.add_message(kind, f"{kind} says {number}")
        elif kind == "request":
            chat.request("find", {"number": number})
        elif kind == "response":
            chat.append(ModelResponded("openai", "gpt", usage=Usage(10 * number, number)))
        elif kind == "end":
            chat.append(RunEnded("completed"))
        elif kind == "compact" and chat.version > 2 * number:
            said = MessageAdded("user", (Text(f"summary {number}"),))
            chat.append(HistoryCompacted(chat.version - number, (said,), number // 2))
        elif kind == "start" and waiting:
            chat.start(waiting[0])
        elif kind == "reject" and waiting:
            chat.reject(waiting[-1], f"no, says {number}", by="ann")
        elif kind == "complete" and running:
            chat.complete(running[0], {"found": number})
        elif kind == "fail" and running:
            chat.fail(running[-1], ValueError(f"broken {number}"))


def played(steps: list[Step]) -> list[Recorded]:
    """Return the log of the steps, and one message at its beginning."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("played")
        chat.add_message("user", "begin")
        play(chat, steps)
        return list(chat.events())
