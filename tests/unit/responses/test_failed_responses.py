"""A response that failed is recorded as that, is nobody's words, and is raised."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support import more_streams, sse

from eventstore import (
    AgentError,
    AsyncEventStore,
    Conversation,
    EventStore,
    MessageAdded,
    ModelResponded,
    ProviderErrorKind,
    ResponseFailed,
    UsageBudget,
    UsageLimits,
    recording,
)
from eventstore.integrations.recorded_calls import record_response
from projections import model_history, repair_messages, usage_statistics, why

RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "created_at": 1,
    "model": "m",
    "object": "response",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [],
}
MESSAGE: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
COMPLETION = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": None}}
TEXT = "The server is not well."
GATEWAY = {"error": {"message": TEXT, "code": 502, "metadata": {"provider_name": "p"}}}

FAILED: list[tuple[str, dict[str, Any], str, bool]] = [
    (
        "openai-responses",
        {**RESPONSE, "status": "failed", "error": {"code": "server_error", "message": TEXT}},
        "failed: server_error",
        True,
    ),
    ("openai-responses", {**RESPONSE, "status": "cancelled"}, "cancelled", False),
    (
        "openai-responses",
        {
            **RESPONSE,
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [{"type": "reasoning", "id": "rs_1", "summary": [], "status": "incomplete"}],
        },
        "max_output_tokens",
        False,
    ),
    ("openai-responses", GATEWAY, "error: 502", True),
    ("openai-responses", {**RESPONSE, "output": None}, "empty", True),
    (
        "openai",
        {"error": {"message": TEXT, "type": "server_error", "code": None, "param": None}},
        "error: server_error",
        True,
    ),
    ("openai", {**COMPLETION, "choices": None, **GATEWAY}, "error: 502", True),
    ("openai", {**COMPLETION, "choices": [], "provider": "A text of theirs"}, "empty", True),
    ("openai", {**COMPLETION, "choices": None}, "empty", True),
    ("openai", COMPLETION, "empty", True),
    (
        "openai",
        {**COMPLETION, "choices": [{**CHOICE, "finish_reason": "content_filter"}]},
        "content_filter",
        False,
    ),
    (
        "openai",
        {**COMPLETION, "choices": [{**CHOICE, "finish_reason": "error", **GATEWAY}]},
        "error: 502",
        True,
    ),
    (
        "mistral",
        {
            "object": "error",
            "message": TEXT,
            "type": "rate_limited",
            "param": None,
            "code": "1300",
        },
        "error: rate_limited",
        True,
    ),
    ("mistral", {"detail": "Unauthorized"}, "error", False),
    (
        "mistral",
        {"detail": [{"loc": ["body"], "msg": TEXT, "type": "missing"}]},
        "error: missing",
        False,
    ),
    (
        "mistral",
        {
            "object": "error",
            "message": {"detail": [{"loc": ["body"], "msg": TEXT, "type": "missing"}]},
            "type": "invalid_request_error",
            "raw_status_code": 422,
        },
        "error: invalid_request_error",
        False,
    ),
    ("cohere", {"message": "invalid api token"}, "error", False),
    ("cohere", {"id": "c", "message": "too many tokens"}, "error", False),
    (
        "cohere",
        {"id": "c", "finish_reason": "ERROR", "message": {"role": "assistant"}},
        "ERROR",
        True,
    ),
    ("ollama", {"error": "model 'x' not found"}, "error", False),
    ("bedrock", {"message": TEXT}, "error", False),
    ("bedrock", {"Message": TEXT}, "error", False),
    (
        "bedrock",
        {"__type": "com.amazon.coral#ThrottlingException:http://x", "message": TEXT},
        "error: ThrottlingException",
        True,
    ),
    (
        "bedrock",
        {
            "Error": {"Code": "ServiceUnavailableException", "Message": TEXT},
            "ResponseMetadata": {"RequestId": "r1", "HTTPStatusCode": 200},
        },
        "error: ServiceUnavailableException",
        False,
    ),
    (
        "bedrock",
        {
            "output": {"message": {"role": "assistant", "content": []}},
            "stopReason": "guardrail_intervened",
        },
        "guardrail_intervened",
        False,
    ),
    (
        "gemini",
        {"error": {"code": 503, "status": "UNAVAILABLE", "message": TEXT}},
        "error: UNAVAILABLE",
        True,
    ),
    (
        "gemini",
        {
            "promptFeedback": {
                "blockReason": "SAFETY",
                "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH"}],
            },
            "usageMetadata": {"promptTokenCount": 7},
            "modelVersion": "m",
            "responseId": "g1",
        },
        "SAFETY",
        False,
    ),
    ("gemini", {"candidates": [{"finishReason": "RECITATION", "index": 0}]}, "RECITATION", False),
    ("gemini", {"candidates": [], "usageMetadata": {"promptTokenCount": 7}}, "empty", True),
    ("gemini", {"usageMetadata": {"promptTokenCount": 7}, "modelVersion": "m"}, "empty", True),
    (
        "gemini",
        {"promptFeedback": {"blockReason": "BLOCKED_REASON_UNSPECIFIED"}},
        "empty",
        True,
    ),
    (
        "anthropic",
        {
            "type": "error",
            "error": {"type": "overloaded_error", "message": TEXT},
            "request_id": "req_1",
        },
        "error: overloaded_error",
        True,
    ),
    ("anthropic", {**MESSAGE, "content": [], "stop_reason": "refusal"}, "refusal", False),
    ("anthropic", {**MESSAGE, "content": None, "stop_reason": None}, "empty", True),
]


@pytest.fixture
def asked(chat: Conversation) -> Conversation:
    """Return a conversation in which the user has asked."""
    chat.add_message("user", "Hello.")
    return chat


def prompt(chat: Conversation, provider: Any) -> str:
    """Return the next prompt as text."""
    return json.dumps(model_history(chat).render(provider))


def assert_failed(chat: Conversation, provider: Any, reason: str, before: str) -> ModelResponded:
    """Check that only the failure is recorded, and that the next prompt is the one before."""
    (event,) = [each.event for each in list(chat.events())[1:]]
    assert isinstance(event, ModelResponded)
    assert (event.provider, event.finish_reason, event.failed) == (provider, reason, True)
    assert prompt(chat, provider) == before
    assert reason in str(why(chat.events()))
    return event


@pytest.mark.parametrize(("provider", "body", "reason", "retryable"), FAILED)
def test_a_response_that_failed_is_recorded_and_raised(
    asked: Conversation, provider: Any, body: dict[str, Any], reason: str, retryable: bool
) -> None:
    """Told again it is the same one; the user's turn stays the last."""
    before = prompt(asked, provider)
    for _ in range(2):
        with pytest.raises(ResponseFailed) as raised:
            asked.record(body, provider)
        error = raised.value
        assert (error.reason, error.retryable) == (reason, retryable)
        assert AgentError.from_exception(error) is error
        assert_failed(asked, provider, reason, before)
    assert reason in str(error)
    if TEXT in json.dumps(body):
        assert error.message == TEXT


@pytest.mark.parametrize(("provider", "body", "reason", "_"), FAILED)
def test_the_same_holds_in_a_list_in_an_import_and_under_an_id(
    store: EventStore, provider: Any, body: dict[str, Any], reason: str, _: bool
) -> None:
    """An import goes on; a list raises if the failure is its last message."""
    user = model_history(_said(store, "u")).render(provider)
    (said,) = user[next(key for key in ("messages", "contents", "input") if key in user)]
    listed = store.conversation("list")
    with pytest.raises(ResponseFailed):
        listed.record_messages([said, body], provider)
    assert_failed(listed, provider, reason, prompt(_said(store, "v"), provider))
    imported = store.conversation("import")
    for _ in range(2):
        imported.import_messages([said, body], provider)
        assert_failed(imported, provider, reason, prompt(_said(store, "w"), provider))
    imported.import_messages([said, body, said], provider)
    store.conversation("goes on").record_messages([said, body, said], provider)
    assert [type(r.event) for r in imported.events()] == [
        MessageAdded,
        ModelResponded,
        MessageAdded,
    ]
    named = _said(store, "named")
    ids = [bytes(range(16))]
    for _ in range(2):
        with pytest.raises(ResponseFailed):
            named.record(body, provider, event_ids=ids)
    with pytest.raises(ResponseFailed):
        named.record(body, provider, step="s1")
    with pytest.raises(ResponseFailed):
        named.record(body, provider, step="s1")
    assert {r.event_id for r in named.events()} >= {ids[0].hex()}


def _said(store: EventStore, name: str) -> Conversation:
    chat = store.conversation(name)
    if not chat.version:
        chat.add_message("user", "Hello.")
    return chat


WHOLE: list[tuple[str, dict[str, Any]]] = [
    ("openai", {**COMPLETION, "choices": [{**CHOICE, "finish_reason": "stop"}]}),
    ("anthropic", {**MESSAGE, "content": [], "stop_reason": "end_turn"}),
    ("openai-responses", {**RESPONSE, "status": "completed", "error": None}),
    ("gemini", {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]}),
    (
        "bedrock",
        {"output": {"message": {"role": "assistant", "content": []}}, "stopReason": "end_turn"},
    ),
    ("cohere", {"id": "c", "finish_reason": "COMPLETE", "message": {"role": "assistant"}}),
    ("ollama", {"model": "m", "done": True, "message": {"role": "assistant", "content": ""}}),
    ("mistral", {**COMPLETION, "choices": [{**CHOICE, "finish_reason": "stop"}]}),
]


@pytest.mark.parametrize(("provider", "body"), WHOLE)
def test_an_answer_without_words_is_no_failure(
    asked: Conversation, provider: Any, body: dict[str, Any]
) -> None:
    """The model has ended its turn; nothing is said in its name."""
    before = prompt(asked, provider)
    assert asked.record(body, provider) == []
    assert prompt(asked, provider) == before
    assert not any(getattr(r.event, "failed", False) for r in asked.events())


def test_an_sdk_s_answer_without_words_is_no_message_in_an_import(store: EventStore) -> None:
    """`record` adds no message for such an answer either."""
    from openai.types.chat import ChatCompletion

    silent = {"role": "assistant", "content": ""}
    choice = {"index": 0, "message": silent, "finish_reason": "stop"}
    answer = ChatCompletion.model_validate({**COMPLETION, "choices": [choice]})
    chat = store.conversation("c")
    for _ in range(2):
        chat.import_messages([{"role": "user", "content": "Hello."}, answer])
        assert chat.version == 1


def test_words_that_came_before_an_error_are_kept(asked: Conversation) -> None:
    """Its words are in the log, and the loop is told all the same; its calls have failed."""
    words = {"type": "message", "role": "assistant", "content": "Let me look."}
    call = {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"}
    failed = {**RESPONSE, "status": "failed", "error": {"code": "server_error", "message": TEXT}}
    with pytest.raises(ResponseFailed, match="failed: server_error"):
        asked.record({**failed, "output": [words]}, "openai-responses")
    (tool,) = asked.record({**failed, "id": "2", "output": [words, call]}, "openai-responses")
    assert tool.status.name == "Failed"
    said = [r.event for r in asked.events() if isinstance(r.event, MessageAdded)]
    assert [each.role for each in said] == ["user", "assistant", "assistant"]


def test_an_sdk_s_own_objects_are_read_as_their_json_is(store: EventStore) -> None:
    """Members that the SDK does not declare, as gateways add them, are read, too."""
    from anthropic.types import Message
    from google.genai.types import GenerateContentResponse
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

    refused = {**MESSAGE, "content": [], "stop_reason": "refusal", "stop_sequence": None}
    usage = {"input_tokens": 3, "output_tokens": 0}
    failed = {**RESPONSE, "status": "failed", "error": {"code": "server_error", "message": TEXT}}
    objects: list[tuple[Any, Any, str]] = [
        ("openai", ChatCompletion.construct(**COMPLETION, choices=None, **GATEWAY), "error: 502"),
        ("openai", ChatCompletion.construct(**COMPLETION, choices=[]), "empty"),
        ("openai", ChatCompletion.construct(detail="Not Found"), "error"),
        ("anthropic", Message.construct(message="Internal server error"), "error"),
        (
            "anthropic",
            Message.construct(type="error", error={"type": "api_error"}),
            "error: api_error",
        ),
        ("openai-responses", Response.model_validate(failed), "failed: server_error"),
        ("openai-responses", Response.construct(**GATEWAY), "error: 502"),
        ("anthropic", Message.model_validate({**refused, "usage": usage}), "refusal"),
        (
            "gemini",
            GenerateContentResponse.model_validate({"promptFeedback": {"blockReason": "SAFETY"}}),
            "SAFETY",
        ),
    ]
    for number, (provider, whole, reason) in enumerate(objects):
        for form in (whole, whole.model_dump()):
            chat = _said(store, f"{number} {type(form).__name__}")
            before = prompt(chat, provider)
            with pytest.raises(ResponseFailed):
                chat.record(form, provider)
            assert_failed(chat, provider, reason, before)
            user = model_history(chat).render(provider)
            (said,) = user[next(key for key in ("messages", "contents", "input") if key in user)]
            repaired = repair_messages([said, form], provider)
            assert repaired.messages == [said]
            assert [repair.rule for repair in repaired.repairs] == ["empty"]


def test_the_tokens_of_a_failed_response_count_and_its_calls_are_no_other_one_s(
    asked: Conversation,
) -> None:
    """The answer to the next request is not taken for that of the one that failed."""
    usage = {"prompt_tokens": 30, "completion_tokens": 7}
    cut = {**COMPLETION, "choices": [{**CHOICE, "finish_reason": "length"}], "usage": usage}
    budget = UsageBudget(asked, UsageLimits(requests=9, total_tokens=99))
    budget.before_request()
    with pytest.raises(ResponseFailed):
        asked.record(cut)
    budget.after_response(cut, "openai")
    with pytest.raises(ResponseFailed):
        asked.record(GATEWAY)
    budget.before_request()
    assert (budget.used.requests, budget.used.usage.total_tokens) == (2, 37)
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    (tool,) = asked.record({"role": "assistant", "content": None, "tool_calls": [call]})
    assert tool.is_pending
    report = usage_statistics(list(asked.events()))
    assert (report.overall.responses, report.overall.unknown) == (2, 0)
    assert report.overall.finish_reasons == {"length": 1, "error: 502": 1}


def test_a_secret_in_an_error_is_not_shown(asked: Conversation) -> None:
    """Providers repeat the key that they refuse."""
    key = "sk-proj-1234567890abcdef"
    body = {"error": {"message": f"Incorrect API key: {key}", "code": "invalid_api_key"}}
    with pytest.raises(ResponseFailed) as raised:
        asked.record(body)
    error = raised.value
    assert key not in f"{error} {error.message} {error.encode()!r} {list(asked.events())}"
    assert (error.kind, error.provider_code) == (
        ProviderErrorKind.AUTHENTICATION,
        "invalid_api_key",
    )
    assert error.suggestion


# Streams

ERROR_EVENTS: list[tuple[str, dict[str, Any], str]] = [
    ("openai", {"error": {"message": TEXT, "code": 502}}, "error: 502"),
    (
        "openai",
        {**COMPLETION, "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], **GATEWAY},
        "error: 502",
    ),
    (
        "openai-responses",
        {"type": "error", "code": "server_error", "message": TEXT, "param": None},
        "error: server_error",
    ),
    (
        "openai-responses",
        {
            "type": "response.failed",
            "response": {
                **RESPONSE,
                "status": "failed",
                "error": {"code": "server_error", "message": TEXT},
            },
        },
        "failed: server_error",
    ),
    (
        "anthropic",
        {"type": "error", "error": {"type": "overloaded_error", "message": TEXT}},
        "error: overloaded_error",
    ),
    ("bedrock", {"throttlingException": {"message": TEXT}}, "error: throttlingException"),
    (
        "gemini",
        {"error": {"code": 503, "status": "UNAVAILABLE", "message": TEXT}},
        "error: UNAVAILABLE",
    ),
    ("mistral", {"object": "error", "message": TEXT, "type": "x_error"}, "error: x_error"),
    (
        "cohere",
        {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": TEXT}},
        "ERROR",
    ),
    ("ollama", {"error": TEXT}, "error"),
]


@pytest.mark.parametrize(("provider", "event", "reason"), ERROR_EVENTS)
def test_an_error_in_a_stream_is_recorded_and_raised(
    asked: Conversation, provider: Any, event: dict[str, Any], reason: str
) -> None:
    """As the first event; each event is handed on."""
    before = prompt(asked, provider)
    stream, came = recording(iter([event]), asked, provider), []
    with pytest.raises(ResponseFailed, match=TEXT) as raised, stream:
        came += list(stream)
    assert raised.value.reason == reason
    assert (came or [event]) == [event]
    assert_failed(asked, provider, reason, before)


@pytest.mark.parametrize(("provider", "event", "reason"), ERROR_EVENTS)
def test_the_words_before_an_error_in_a_stream_are_kept_and_marked(
    asked: Conversation, provider: Any, event: dict[str, Any], reason: str
) -> None:
    """Blocking and awaited, alike; calls that came have failed."""
    events = sse.EVENTS[provider]()
    cut = next(n for n, each in enumerate(events) if "look." in json.dumps(each)) + 1

    async def awaited() -> list[Any]:
        async def given() -> Any:
            for each in (*events[:cut], event):
                yield each

        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            with pytest.raises(ResponseFailed):
                [each async for each in recording(given(), chat, provider)]
            return [each.event async for each in chat.events()]

    with pytest.raises(ResponseFailed) as raised:
        list(recording(iter([*events[:cut], event]), asked, provider))
    assert raised.value.reason == reason
    _, *log = [each.event for each in asked.events()]
    for found in (log, asyncio.run(awaited())):
        message, facts = found
        assert isinstance(message, MessageAdded)
        assert message.broken_off or provider == "cohere"  # it says that the message ended
        assert "Let me look." in str(message.parts)
        assert (facts.finish_reason, facts.failed) == (reason, False)


EMPTY_STREAMS: list[tuple[str, list[dict[str, Any]], str]] = [
    ("gemini", [{"promptFeedback": {"blockReason": "SAFETY"}}], "SAFETY"),
    ("gemini", [{"candidates": [{"finishReason": "SAFETY"}]}], "SAFETY"),
    ("gemini", [{"candidates": [], "responseId": "g"}], "empty"),
    ("openai", [{**COMPLETION, "choices": []}], "empty"),
    ("mistral", [{**COMPLETION, "choices": None}], "empty"),
    (
        "openai",
        [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
            {"choices": [], "usage": {"prompt_tokens": 3}},
        ],
        "empty",
    ),
    (
        "openai",
        [{"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]}],
        "content_filter",
    ),
    (
        "openai-responses",
        [
            {
                "type": "response.incomplete",
                "response": {
                    **RESPONSE,
                    "status": "incomplete",
                    "incomplete_details": {"reason": "content_filter"},
                },
            }
        ],
        "content_filter",
    ),
    (
        "anthropic",
        [
            {"type": "message_start", "message": {**MESSAGE, "content": []}},
            {"type": "message_delta", "delta": {"stop_reason": "refusal"}},
        ],
        "refusal",
    ),
]


@pytest.mark.parametrize(("provider", "events", "reason"), EMPTY_STREAMS)
def test_a_stream_that_ended_without_a_word_has_failed(
    asked: Conversation, provider: Any, events: list[dict[str, Any]], reason: str
) -> None:
    """A filter, a limit, or no answer at all."""
    before = prompt(asked, provider)
    with pytest.raises(ResponseFailed):
        list(recording(iter(events), asked, provider))
    assert_failed(asked, provider, reason, before)


def test_an_error_may_come_after_an_empty_chunk(asked: Conversation) -> None:
    """Ollama says of each chunk but the last that it is not done."""
    before = prompt(asked, "ollama")
    empty = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": False}
    with pytest.raises(ResponseFailed, match=TEXT):
        list(recording(iter([empty, {"error": TEXT}]), asked, "ollama"))
    assert_failed(asked, "ollama", "error", before)


@pytest.mark.parametrize("status", ["queued", "in_progress", None])
def test_a_stream_that_broke_off_after_its_reasoning_has_not_failed(
    asked: Conversation, status: str | None
) -> None:
    """The status is of a response that goes on: no limit ended it."""
    begun = {"type": "response.created", "response": {"id": "resp_1", "status": status}}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": reasoning}
    with recording(iter([begun, done]), asked, "openai-responses") as stream:
        list(stream)
    assert stream.broken_off
    assert not any(
        isinstance(each.event, ModelResponded) and each.event.failed for each in asked.events()
    )


def test_a_loop_that_is_left_learns_of_the_failure(asked: Conversation) -> None:
    """The failure is raised once, and the SDK's own exception stands before it."""

    def leave() -> None:
        events = iter([{"error": TEXT}, {"done": True}])
        with recording(events, asked, "ollama") as stream:
            for _ in stream:
                break

    with pytest.raises(ResponseFailed):
        leave()

    def lost() -> Any:
        yield {"error": TEXT}
        raise ConnectionError("reset")

    with pytest.raises(ConnectionError), recording(lost(), asked, "ollama") as stream:
        list(stream)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "openai-responses", "gemini"])
def test_the_sdk_s_own_error_in_a_stream_is_the_one_exception(
    asked: Conversation, provider: Any
) -> None:
    """An SDK that raises at the event raises its own; the next prompt is as before."""
    before = prompt(asked, provider)
    event = next(each for name, each, _ in ERROR_EVENTS if name == provider)
    stream = recording(sse.open_stream(provider, [event]), asked, provider)
    with pytest.raises(Exception, match=TEXT):
        list(stream)
    assert prompt(asked, provider) == before


def test_an_sdk_s_own_events_with_an_error_are_read_as_their_json_is(store: EventStore) -> None:
    """Gateways add members that the SDK does not declare, to a chunk or to a choice of it."""
    from openai.types.chat import ChatCompletionChunk
    from openai.types.responses import ResponseErrorEvent, ResponseFailedEvent

    by_kind = {each.get("type"): each for name, each, _ in ERROR_EVENTS if "responses" in name}
    choice = {"index": 0, "delta": {}, "finish_reason": None, **GATEWAY}
    failed = {**by_kind["response.failed"], "sequence_number": 1}
    events: list[tuple[Any, Any, str]] = [
        ("openai", ChatCompletionChunk.construct(id="c", choices=[], **GATEWAY), "error: 502"),
        (
            "openai",
            ChatCompletionChunk.model_validate(
                {**COMPLETION, "object": "chat.completion.chunk", "choices": [choice]}
            ),
            "error: 502",
        ),
        (
            "openai-responses",
            ResponseErrorEvent.model_validate({**by_kind["error"], "sequence_number": 1}),
            "error: server_error",
        ),
        ("openai-responses", ResponseFailedEvent.model_validate(failed), "failed: server_error"),
    ]
    for number, (provider, event, reason) in enumerate(events):
        chat = _said(store, str(number))
        before = prompt(chat, provider)
        with pytest.raises(ResponseFailed, match=TEXT):
            list(recording(iter([event]), chat, provider))
        assert_failed(chat, provider, reason, before)


def test_all_streams_that_are_known_have_an_error_here() -> None:
    """A provider that is added has its own form."""
    assert {name for name, *_ in ERROR_EVENTS} == {*sse.EVENTS} >= {*more_streams.EVENTS}
    assert {name for name, *_ in FAILED} == {*sse.EVENTS}


def test_the_loop_of_the_readme_asks_again_with_the_same_prompt(asked: Conversation) -> None:
    """A failure is not taken for an answer, and nothing of it is in the next request."""
    words = {"index": 0, "delta": {"content": "Hello!"}, "finish_reason": "stop"}
    begun = {"index": 0, "delta": {"role": "assistant", "content": ""}}  # and then it just ends
    streams = [
        [GATEWAY],
        [{**COMPLETION, "choices": []}],
        [{**COMPLETION, "choices": [begun]}],
        [{**COMPLETION, "choices": [words]}],
    ]
    prompts, answered = [], False
    while not answered:
        prompts.append(prompt(asked, "openai"))
        try:
            with recording(iter(streams.pop(0)), asked, "openai") as response:
                list(response)
        except ResponseFailed as failed:
            answered = not failed.retryable
        else:
            answered = not (response.tools or response.broken_off)
    assert len(prompts) == 4
    assert len({*prompts}) == 1
    assert "Hello!" in prompt(asked, "openai")


def test_a_framework_tells_its_host_of_a_failure_itself() -> None:
    """An integration records the failure, and leaves the run to the framework."""

    async def main() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            assert await record_response(chat, GATEWAY, "openai", 1.5) == []
            (event,) = [each.event async for each in chat.events()]
            assert isinstance(event, ModelResponded)
            assert (event.failed, event.latency) == (True, 1_500_000)

    asyncio.run(main())


# Several answers


@pytest.mark.parametrize(
    ("provider", "body", "remedy"),
    [
        ("openai", {"choices": [CHOICE, {**CHOICE, "index": 1}]}, r"2 choices: .*choices\[n\]"),
        ("mistral", {"choices": [CHOICE, CHOICE, CHOICE]}, "3 choices"),
        ("gemini", {"candidates": [{}, {}]}, r"2 candidates: .*candidate_count"),
    ],
)
def test_several_answers_are_refused_with_the_remedy(
    asked: Conversation, provider: Any, body: dict[str, Any], remedy: str
) -> None:
    """Only the host knows with which of them the conversation goes on."""
    with pytest.raises(ValueError, match=remedy):
        asked.record(body, provider)
    with pytest.raises(ValueError, match=r"messages\[0\] has " + remedy):
        asked.record_messages([body], provider)
    assert asked.version == 1


def test_an_sdk_s_response_with_several_choices_is_refused(asked: Conversation) -> None:
    """One of them is recorded alone."""
    from openai.types.chat import ChatCompletion

    choices = [
        {"index": n, "finish_reason": "stop", "message": {"role": "assistant", "content": f"{n}"}}
        for n in range(2)
    ]
    whole = ChatCompletion.model_validate({**COMPLETION, "choices": choices})
    with pytest.raises(ValueError, match="2 choices"):
        asked.record(whole)
    asked.record(whole.choices[1].message)
    assert '"1"' in prompt(asked, "openai")
    imported = asked.import_messages
    with pytest.raises(Exception, match="differs"):
        imported([whole], "openai")


def test_an_import_takes_the_first_answer_and_says_so(chat: Conversation) -> None:
    """Nobody is there to choose."""
    answer = {"role": "assistant", "content": "Yes."}
    done = chat.import_messages([{"choices": [{"message": answer}, {"message": answer}]}])
    assert [(found.item, found.rule) for found in done.findings] == [(0, "several-answers")]


def test_further_answers_in_a_stream_are_refused(asked: Conversation) -> None:
    """At their first chunk."""
    chunks = [{"choices": [{"index": n, "delta": {"role": "assistant"}}]} for n in range(2)]
    with pytest.raises(ValueError, match="several choices, one with index 1: ask without `n`"):
        list(recording(iter(chunks), asked))
    candidates = [{"candidates": [{"index": n, "content": {"parts": []}}]} for n in range(2)]
    with pytest.raises(ValueError, match="several candidates"):
        list(recording(iter(candidates), asked, "gemini"))
    assert asked.version == 1
