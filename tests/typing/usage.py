"""How the library is used, held against its types by mypy and pyright; nothing here runs."""

from __future__ import annotations

from typing import Any, assert_type

from eventstore import (
    Attempt,
    Completed,
    Conversation,
    ErrorKind,
    EventStore,
    Failure,
    FunctionCall,
    FunctionResponse,
    IllegalTransition,
    Recorded,
    Tool,
    ToolCompleted,
    VersionConflict,
    Violation,
    fingerprint,
    validate,
)
from projections import (
    HistoryEntry,
    ModelHistory,
    Repair,
    current_tools,
    error_statistics,
    model_history,
    repair_history,
    repair_messages,
    repeats,
    replay,
    resume_plan,
)


def loop(store: EventStore, message: object, run: dict[str, Any]) -> dict[str, Any]:
    """A turn of an agent loop."""
    chat = store.conversation("support-42")
    assert_type(chat, Conversation)
    chat.add_message("user", "Where is my order?")
    for tool in chat.record(message, provider="openai"):
        assert_type(tool, Tool)
        with chat.running(tool.id) as attempt:
            assert_type(attempt, Attempt)
            attempt.complete(run[tool.call.name](**attempt.arguments))
    history = model_history(chat.events(), collapse="failed", open_calls="answer")
    assert_type(history, ModelHistory)
    assert_type(history.repairs, list[Repair])
    return history.render("openai")


def primitives(chat: Conversation) -> Tool:
    """The verbs, each with its answer."""
    tool = chat.request("refund", {"order": 7})
    tool = chat.approve(tool.id, edited_arguments={"order": 8}, by="ada")
    tool = chat.start(tool.id)
    try:
        tool = chat.fail(tool.id, Failure(ErrorKind.TRANSIENT, "timeout"), delay=0.5)
        tool = chat.complete(tool.id, {"ok": True})
    except IllegalTransition as error:
        assert_type(error.call_id, str)
    if isinstance(tool.status, Completed):
        assert_type(tool.status.response, FunctionResponse)
    assert_type(tool.effective_call, FunctionCall)
    return tool


def reading(store: EventStore, messages: list[dict[str, Any]]) -> None:
    """Projections over anything that gives events."""
    for recorded in store.read(limit=10):
        assert_type(recorded, Recorded)
        if isinstance(recorded.event, ToolCompleted):
            assert_type(recorded.event.attempt, int)
    chat = store.conversation("support-42")
    try:
        chat.append(expected_version=3)
    except VersionConflict as conflict:
        assert_type(conflict.actual, int)
    assert_type(current_tools(chat.events()), dict[str, Tool])
    print(error_statistics(store.read()), repeats(chat.events()), resume_plan(chat.events()))
    for frame in replay(chat.events(), until=4):
        print(frame)
    repaired = repair_messages(messages, "anthropic", "openai")
    assert_type(repaired.system, str | None)
    assert_type(validate(repaired.messages, "openai"), list[Violation])
    assert_type(fingerprint("refund", {"order": 7}), str)
    kept = repair_history([HistoryEntry.completed(FunctionCall("f", {}), 1)])
    assert_type(kept, list[HistoryEntry])
