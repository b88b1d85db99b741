"""The calls of a response that is not whole never run, however it reaches the log."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import (
    Conversation,
    Dispatcher,
    EventStore,
    Failed,
    IllegalTransition,
    ModelResponded,
    Tool,
    recording,
)
from eventstore.domain.calls import FunctionCall
from eventstore.domain.finish_reasons import FINISH_REASONS
from eventstore.history_import import record_turn
from eventstore.providers.model import ParsedCall
from projections import model_history, why


def response(provider: str, reason: str) -> dict[str, Any]:  # noqa: PLR0911 - one form each
    """Return a response that makes one call, c1, and ends with a reason."""
    function = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    asked: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [function]}
    item = {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"}
    is_status = reason in (
        "completed",
        "failed",
        "cancelled",
        "queued",
        "in_progress",
        "incomplete",
    )
    match provider:
        case "anthropic":
            block = {"type": "tool_use", "id": "c1", "name": "pay", "input": {}}
            return {"id": "1", "role": "assistant", "content": [block], "stop_reason": reason}
        case "bedrock":
            block = {"toolUse": {"toolUseId": "c1", "name": "pay", "input": {}}}
            message = {"role": "assistant", "content": [block]}
            return {"output": {"message": message}, "stopReason": reason}
        case "cohere":
            return {"id": "1", "finish_reason": reason, "message": asked}
        case "gemini":
            content = {"role": "model", "parts": [{"functionCall": {"name": "pay", "args": {}}}]}
            return {"candidates": [{"content": content, "finishReason": reason}]}
        case "ollama":
            message = {"role": "assistant", "content": "", "tool_calls": [{"function": item}]}
            message["tool_calls"] = [{"function": {"name": "pay", "arguments": {}}}]
            return {"model": "m", "done": True, "done_reason": reason, "message": message}
        case "openai-responses":
            ended = {"status": reason} if is_status else {"incomplete_details": {"reason": reason}}
            return {"id": "1", "status": "incomplete", "output": [item], **ended}
        case _:
            choice = {"index": 0, "finish_reason": reason, "message": asked}
            return {"id": "1", "choices": [choice]}


def assert_never_runs(chat: Conversation, reason: str) -> None:
    """Check that the only call has failed with the reason, everywhere, and does not start."""
    (tool,) = chat.tools.values()
    assert isinstance(tool.status, Failed)
    failure = tool.status.failure
    assert (failure.kind, failure.code, tool.attempts) == ("transient", "broken_off", 0)
    assert f"({reason}): the call was not run" in failure.message
    assert failure.message in str(model_history(chat).render("openai"))
    assert failure.message in str(why(chat.events()))
    for attempt in (None, 1):
        with pytest.raises(IllegalTransition, match="ask the model again"):
            chat.start(tool.id, attempt)
    with pytest.raises(IllegalTransition):
        chat.approve(tool.id)

    def pay() -> None:
        raise AssertionError("it ran")

    dispatcher = Dispatcher(chat, [pay])
    dispatcher.dispatch([tool])
    assert dispatcher.resume() == []


@pytest.mark.parametrize("provider", FINISH_REASONS)
def test_the_table_decides_whether_calls_may_run(store: EventStore, provider: Any) -> None:
    """By `record`, and in an import."""
    for reason, ending in FINISH_REASONS[provider].items():
        chat, other = store.conversation(reason), store.conversation(f"{reason}, imported")
        (tool,) = chat.record(response(provider, reason), provider)
        other.import_messages([response(provider, reason)], provider)
        (imported,) = other.tools.values()
        assert tool.is_pending == imported.is_pending == (ending == "whole"), reason


CUT_OFF = [
    ("anthropic", "refusal"),
    ("bedrock", "malformed_tool_use"),
    ("cohere", "MAX_TOKENS"),
    ("gemini", "MALFORMED_FUNCTION_CALL"),
    ("mistral", "length"),
    ("ollama", "length"),
    ("openai", "content_filter"),
    ("openai", "never_heard_of"),
    ("openai-responses", "max_output_tokens"),
]


@pytest.mark.parametrize(("provider", "reason"), CUT_OFF)
def test_a_call_of_a_cut_off_response_never_runs(
    chat: Conversation, provider: Any, reason: str
) -> None:
    """Neither by hand nor in a dispatcher; the model and `why` are told the reason."""
    chat.add_message("user", "Pay.")
    chat.record(response(provider, reason), provider)
    assert_never_runs(chat, reason)


def test_the_same_holds_for_a_stream_and_for_the_turn_of_a_framework(chat: Conversation) -> None:
    """A stream that came to its end may have been cut off all the same."""
    delta = response("openai", "length")["choices"][0]["message"]
    delta["tool_calls"][0]["index"] = 0
    chunks = [
        {"id": "1", "choices": [{"index": 0, "delta": delta}]},
        {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]},
    ]
    with recording(iter(chunks), chat, "openai") as stream:
        list(stream)
    assert not stream.broken_off
    assert_never_runs(chat, "length")
    made = [ParsedCall("c1", FunctionCall("pay", {}, "c1"))]
    other = Conversation(chat.session, "framework")
    said = ModelResponded("google-gla", finish_reason="content_filter")
    other.session.run(record_turn(other.id, (), made, "pydantic-ai", None, b"1", said))
    assert_never_runs(other, "content_filter")


def test_an_sdk_s_own_response_is_read_as_its_json_is(chat: Conversation) -> None:
    """The message is stored without its frame, which has the reason."""
    types = pytest.importorskip("openai.types.chat")
    frame = {"created": 1, "model": "m", "object": "chat.completion"}
    whole = types.ChatCompletion.model_validate(response("openai", "length") | frame)
    chat.record(whole)
    assert_never_runs(chat, "length")
    other = Conversation(chat.session, "imported")
    other.import_messages([whole], "openai")
    assert_never_runs(other, "length")


def test_a_prompt_that_was_blocked_beside_a_candidate_is_not_whole(store: EventStore) -> None:
    """One of two members that tells so is enough, unless it tells that nothing was blocked."""
    for reason, status in (("PROHIBITED_CONTENT", "Failed"), ("BLOCK_REASON_UNSPECIFIED", "Pending")):
        blocked = {"promptFeedback": {"blockReason": reason}}
        (tool,) = store.conversation(reason).record(response("gemini", "STOP") | blocked, "gemini")
        assert tool.status.name == status


def test_one_item_that_is_incomplete_cuts_off_its_response(chat: Conversation) -> None:
    """Items of OpenAI Responses have a status of their own, and may come without their response."""
    items = [
        {"type": "function_call", "call_id": name, "name": "pay", "arguments": "{}", "status": end}
        for name, end in (("c1", "completed"), ("c2", "incomplete"))
    ]
    tools: list[Tool] = chat.record({"id": "1", "output": items}, "openai-responses")
    assert [tool.status.name for tool in tools] == ["Failed", "Failed"]


def test_an_imported_call_that_has_a_result_did_run(chat: Conversation) -> None:
    """The transcript says so, whatever its response ended with."""
    result = {"role": "tool", "tool_call_id": "c1", "content": "paid"}
    chat.import_messages([response("openai", "length"), result], "openai")
    assert chat.tool("c1").status.name == "Completed"
