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
    UsageBudget,
    UsageLimits,
    recording,
)
from eventstore.domain.calls import FunctionCall
from eventstore.domain.finish_reasons import FINISH_REASONS
from eventstore.provider_messages.record import record_turn
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
    for reason, status in (
        ("PROHIBITED_CONTENT", "Failed"),
        ("BLOCK_REASON_UNSPECIFIED", "Pending"),
    ):
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


def alone(chat: Conversation, message: dict[str, Any]) -> None:
    """Record the message alone."""
    chat.record(message, "anthropic")


def in_a_list(chat: Conversation, message: dict[str, Any]) -> None:
    """Record it in a list."""
    chat.record_messages([message], "anthropic", imported=False)


def as_a_turn(chat: Conversation, _: object) -> None:
    """Record it by hand."""
    chat.turn("", [FunctionCall("pay", {}, "c1")])


def as_a_request(chat: Conversation, _: object) -> None:
    """Record its words, and the call after them."""
    chat.add_message("assistant", "I pay.")
    chat.request("pay", {}, "c1")


def as_a_framework(chat: Conversation, _: object) -> None:
    """Record it as an integration does."""
    made = [ParsedCall("c1", FunctionCall("pay", {}, "c1"))]
    chat.session.run(record_turn(chat.id, (), made, "pydantic-ai", None, b"1"))


def tell_budget(chat: Conversation, reason: str) -> dict[str, Any]:
    """Tell a budget of a response that makes one call, c1; return its message alone."""
    budget = UsageBudget(chat, UsageLimits(requests=9))
    budget.before_request()
    whole = response("anthropic", reason)
    budget.after_response(whole, "anthropic")
    return {key: whole[key] for key in ("role", "content")}


WAYS = [alone, in_a_list, as_a_turn, as_a_request, as_a_framework]


@pytest.mark.parametrize("recorded", WAYS)
def test_the_finish_reason_in_a_budget_holds_for_the_message(
    chat: Conversation, recorded: Any
) -> None:
    """In either order; the message alone does not say how its response ended."""
    chat.add_message("user", "Pay.")
    recorded(chat, tell_budget(chat, "max_tokens"))
    assert_never_runs(chat, "max_tokens")
    other = Conversation(chat.session, "message first")
    other.add_message("user", "Pay.")
    recorded(other, {"role": "assistant", "content": response("anthropic", "")["content"]})
    tell_budget(other, "max_tokens")
    assert_never_runs(other, "max_tokens")


@pytest.mark.parametrize("order", ["first", "then", "after the call"])
def test_a_cut_off_response_fails_no_call_of_another_one(chat: Conversation, order: str) -> None:
    """Whenever the budget is told, and also where no message of the response is recorded."""
    chat.add_message("user", "Pay.")
    for number, reason in enumerate(["tool_use", "max_tokens", "tool_use"]):
        if order == "first":
            tell_budget(chat, reason)
        chat.turn("", [FunctionCall("pay", {"number": number}, str(number))])
        if order == "then":
            tell_budget(chat, reason)
        if chat.tool(str(number)).is_pending:
            chat.complete(str(number), "paid")
        if order == "after the call":
            tell_budget(chat, reason)
    ends = [tool.status.name for tool in chat.tools.values()]
    second = "Completed" if order == "after the call" else "Failed"
    assert ends == ["Completed", second, "Completed"]
    tell_budget(chat, "max_tokens")
    chat.add_message("user", "Again.")
    (tool,) = chat.turn("", [FunctionCall("pay", {}, "c9")])
    assert tool.is_pending


def test_a_call_that_waits_for_a_decision_fails_with_its_response(chat: Conversation) -> None:
    """A call that has begun stays as it is."""
    calls = [FunctionCall("pay", {"order": number}, f"c{number}") for number in (1, 2, 3)]
    chat.turn("", calls)
    chat.approve("c1")
    chat.start("c2")
    tell_budget(chat, "refusal")
    assert [t.status.name for t in chat.tools.values()] == ["Failed", "Running", "Failed"]
