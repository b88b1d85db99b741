"""`history_entries`: a log as `repair_history` takes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    Conversation,
    EventStore,
    Failure,
    Recorded,
    RetryClass,
    ToolCompleted,
    ToolFailed,
    fingerprint,
)
from projections import HistoryEntry, history_entries, model_history, repair_history

steps = st.lists(
    st.tuples(
        st.integers(0, 4),  # the arguments: equal ones make equal calls
        st.lists(st.sampled_from(["transient", "validation"]), max_size=2),  # failed attempts
        st.sampled_from(["completed", "failed", "rejected", "open"]),
    ),
    max_size=8,
)
Steps = list[tuple[int, list[str], str]]


def record(chat: Conversation, plan: Steps) -> None:
    """Record a turn for each step, one after the other."""
    chat.add_message("user", "go")
    for number, (argument, failures, end) in enumerate(plan):
        chat.add_message("assistant", f"turn {number}")
        call = chat.request("search", {"q": argument})
        for kind in failures:
            chat.start(call.id)
            chat.fail(call.id, Failure(kind, f"{kind} {number}"))
        if end == "rejected" and not failures:
            chat.reject(call.id, reason=f"no {number}")
        elif end == "completed":
            chat.start(call.id)
            chat.complete(call.id, {"hits": number})
        elif end == "failed":
            chat.start(call.id)
            chat.fail(call.id, Failure("internal", f"odd {number}"))


def repaired_by_fingerprints(events: list[Recorded]) -> list[tuple[str, object]]:
    """Return each fingerprint with its first result, otherwise its last error, from the log."""
    ends: dict[str, tuple[bool, object]] = {}
    for recorded in events:
        event, key = recorded.event, recorded.fingerprint
        if key is None or (key in ends and ends[key][0]):
            continue
        if isinstance(event, ToolCompleted):
            ends[key] = (True, event.response.result)
        elif isinstance(event, ToolFailed):
            ends[key] = (False, event.failure.message)
        elif event.tag == "rejected":
            ends[key] = (False, f"User rejected this tool call: {event.reason}")  # type: ignore[union-attr]
    return [(key, end) for key, (_, end) in ends.items()]


def ends_of(entries: list[HistoryEntry]) -> list[tuple[str, object]]:
    """Return each entry's fingerprint with its result or its message."""
    return [
        (entry.fingerprint, entry.output if entry.is_completed else entry.message)
        for entry in entries
    ]


@given(steps)
def test_the_repaired_entries_are_the_repaired_log(plan: Steps) -> None:
    """Each fingerprint of the log has its first completion, otherwise its last failure."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        record(chat, plan)
        events = list(chat.events())
    repaired = repair_history(history_entries(events))
    assert ends_of(repaired) == repaired_by_fingerprints(events)
    assert repair_history(repaired) == repaired


@given(steps.map(lambda plan: [step for step in plan if step[2] in ("completed", "failed")]))
def test_the_model_is_shown_the_repaired_entries(plan: Steps) -> None:
    """`collapse="all"` and `repair_history` keep the same end of each distinct call."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        record(chat, plan)
        events = list(chat.events())
    messages = model_history(events, collapse="all").render("openai")["messages"]
    repaired = repair_history(history_entries(events))
    assert sum(len(message.get("tool_calls", ())) for message in messages) == len(repaired)
    answers = [message["content"] for message in messages if message["role"] == "tool"]
    for entry in repaired:
        shown = f'{{"hits":{entry.output["hits"]}}}' if entry.is_completed else str(entry.message)
        assert any(shown in answer for answer in answers)


def test_an_entry_has_the_class_and_the_call_in_force() -> None:
    """An edit replaces the arguments; a rejection is permanent; an open call has no entry."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        edited = chat.request("mail", {"to": "all"})
        chat.approve(edited.id, edited_arguments={"to": "ada"})
        chat.start(edited.id)
        chat.fail(edited.id, ConnectionError("reset"))
        chat.reject(chat.request("drop").id, reason="no")
        chat.request("wait")
        first, second = history_entries(chat.events())
    assert first.fingerprint == fingerprint("mail", {"to": "ada"})
    assert (first.retry_class, first.message) == (RetryClass.TRANSIENT, "reset")
    assert (second.retry_class, second.message) == (
        RetryClass.PERMANENT,
        "User rejected this tool call: no",
    )
    assert history_entries([]) == []
