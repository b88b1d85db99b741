"""Streams of the SDKs: chunks pass through, and the whole message is recorded at the end."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest
from support import more_streams, sse

from eventstore import (
    AsyncEventStore,
    Conversation,
    EventStore,
    Failed,
    MessageAdded,
    ModelResponded,
    Pending,
    ToolPending,
    recording,
    validate,
)
from eventstore.providers import list_key, register, registry
from eventstore.providers.openai import rules
from eventstore.providers.openai.adapter import OpenAIAdapter
from projections import model_history, resume_plan

PROVIDERS = sorted(sse.EVENTS)
ARGUMENTS = {"number": 7}


@pytest.fixture(autouse=True)
def sdks() -> None:
    """Load the SDKs whose streams are read, which takes seconds."""
    pytest.importorskip("openai")
    pytest.importorskip("anthropic")


def messages(chat: Conversation) -> list[MessageAdded]:
    """Return the messages of the log."""
    return [r.event for r in chat.events() if isinstance(r.event, MessageAdded)]


def valid(chat: Conversation, provider: Any) -> bool:
    """Return whether the next prompt is valid, with a user's message before the answer."""
    prompt = model_history(chat.events()).render(provider)
    return validate(prompt[list_key(provider)], provider) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_whole_stream_is_recorded_like_its_response(chat: Conversation, provider: Any) -> None:
    """Every chunk is handed through as it came, and the calls are pending at the end."""
    chat.add_message("user", "Order 7?")
    seen = []
    with recording(sse.open_stream(provider, sse.EVENTS[provider]()), chat, provider) as chunks:
        seen.extend(chunks)
    assert len(seen) >= len(sse.EVENTS[provider]()) - 1  # a ping is the SDK's affair
    assert all(hasattr(chunk, "model_dump") == (provider != "bedrock") for chunk in seen)
    assert [(t.call.name, t.call.arguments, type(t.status)) for t in chunks.tools] == [
        ("find_order", ARGUMENTS, Pending),
        ("refund", ARGUMENTS, Pending),
    ]
    assert not chunks.broken_off
    assert not any(message.broken_off for message in messages(chat))
    assert valid(chat, provider)


@pytest.mark.parametrize("provider", sse.HELPERS)
def test_the_streams_of_helpers_are_recorded(chat: Conversation, provider: Any) -> None:
    """The `stream(...)` of an SDK is opened, and its own final message adds nothing."""
    chat.add_message("user", "Order 7?")
    manager = sse.stream_manager(provider, sse.EVENTS[provider]())
    with recording(manager, chat, provider) as chunks:
        assert list(chunks)
    assert [tool.call.name for tool in chunks.tools] == ["find_order", "refund"]
    with sse.stream_manager(provider, sse.EVENTS[provider]()) as stream:
        whole = final(stream)
    before = chat.version
    assert [tool.id for tool in chat.record(whole, provider)] == [t.id for t in chunks.tools]
    assert chat.version == before


def final(stream: Any) -> Any:
    """Return what an SDK's stream helper gives as the whole response."""
    for name in ("get_final_message", "get_final_completion", "get_final_response"):
        if hasattr(stream, name):
            return getattr(stream, name)()
    raise AssertionError(stream)


def latencies(chat: Conversation) -> list[int | None]:
    """Return the latencies of the responses in the log."""
    return [r.event.latency for r in chat.events() if isinstance(r.event, ModelResponded)]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_whole_stream_has_a_latency(store: EventStore, provider: Any) -> None:
    """The time is counted from the request; a stream that breaks off has none."""
    events = sse.EVENTS[provider]()
    whole, cut = store.conversation("whole"), store.conversation("cut")
    requested_at = time.monotonic() - 100
    for chat, given in ((whole, events), (cut, events[:2])):
        stream = sse.open_stream(provider, given)
        list(recording(stream, chat, provider, requested_at=requested_at))
    (latency,) = latencies(whole)
    assert latency is not None
    assert latency // 1_000_000 >= 100
    assert set(latencies(cut)) <= {None}


def test_a_time_of_another_clock_is_refused_before_the_stream_is_read(chat: Conversation) -> None:
    """The response would be lost if this was found out at its end."""
    for wrong in (time.monotonic() + 1000, math.nan):
        with pytest.raises(ValueError, match=r"requested_at is .*: pass time.monotonic\(\)"):
            recording(iter(()), chat, requested_at=wrong)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("lost", [True, False], ids=["lost", "ended early"])
def test_a_stream_that_breaks_off_is_kept_and_marked(
    store: EventStore, provider: Any, lost: bool
) -> None:
    """Wherever it is lost, what came is kept, no call of it runs, and the prompt is valid."""
    events = sse.EVENTS[provider]()
    whole = next(n for n, event in enumerate(events) if is_end(event))
    most = 0
    for count in range(whole + 1):
        chat = store.conversation(f"{provider} {lost} {count}")
        chat.add_message("user", "Order 7?")
        stream = recording(sse.open_stream(provider, events[:count], lost=lost), chat, provider)
        if lost:
            with pytest.raises(Exception, match="reset by peer"):
                list(stream)
        else:
            list(stream)
        assert stream.broken_off
        answers = messages(chat)[1:]
        assert all(message.broken_off for message in answers)
        for tool in stream.tools:
            assert isinstance(tool.status, Failed)
            assert tool.status.failure.code == "broken_off"
        assert not resume_plan(chat.events()).safe
        assert valid(chat, provider)
        most = max(most, len(stream.tools))
    assert most == 2
    assert "Let me look." in str(messages(chat)[-1].parts + messages(chat)[1].parts)


def is_end(event: dict[str, Any]) -> bool:
    """Return whether an event says that the model ended the message."""
    choice = (event.get("choices") or event.get("candidates") or [{}])[0]
    return bool(
        choice.get("finish_reason")
        or choice.get("finishReason")
        or event.get("done")
        or "messageStop" in event
        or event.get("type") in ("message_delta", "message-end", "response.completed")
    )


@pytest.mark.parametrize("block", [True, False], ids=["with", "loop alone"])
def test_a_loop_that_is_left_is_recorded(chat: Conversation, block: bool) -> None:
    """The words that came are there when the block, or the loop alone, is left."""
    stream = recording(sse.open_stream("openai", sse.chat_chunks()), chat)
    if block:
        with stream:
            for chunk in stream:
                if chunk.choices[0].delta.content == "Let me ":
                    break
    else:
        for chunk in stream:
            if chunk.choices[0].delta.content == "Let me ":
                break
    (message,) = messages(chat)
    assert (message.parts[0].text, message.broken_off) == ("Let me ", True)  # type: ignore[union-attr]


def test_nothing_is_recorded_of_an_empty_stream(chat: Conversation) -> None:
    """A stream that broke off before the first word leaves no message."""
    with recording(sse.open_stream("openai", []), chat) as chunks:
        assert list(chunks) == []
    assert chat.version == 0


def test_an_unfinished_call_keeps_the_text_of_its_arguments(chat: Conversation) -> None:
    """The text is there for people; the model is told that the call was not run."""
    events = sse.chat_chunks()[:5]
    (call,) = (stream := recording(sse.open_stream("openai", events), chat)).tools or run(stream)
    assert call.call.raw == '{"number"'
    shown = model_history(chat.events()).render("openai")["messages"][-1]
    assert "broke off" in shown["content"]


def run(stream: Any) -> Any:
    """Iterate over a stream and return its calls."""
    list(stream)
    return stream.tools


@pytest.mark.parametrize("provider", [*sse.HELPERS, *more_streams.ASYNCHRONOUS])
def test_asynchronous_streams_are_recorded(provider: Any) -> None:
    """The twin for asyncio records whole streams, and what came of a lost one."""

    async def main() -> None:
        events = sse.EVENTS[provider]()
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("whole")
            async with recording(
                await sse.open_async_stream(provider, events),
                chat,
                provider,
                requested_at=time.monotonic() - 100,
            ) as chunks:
                assert [chunk async for chunk in chunks]
            log = [recorded.event async for recorded in chat.events()]
            assert isinstance(log[-1], ModelResponded)
            assert (log[-1].latency or 0) // 1_000_000 >= 100
            assert [tool.call.arguments for tool in chunks.tools] == [ARGUMENTS, ARGUMENTS]
            chat = store.conversation("lost")
            stream = await sse.open_async_stream(provider, events[:-3], lost=True)
            lost = recording(stream, chat, provider)
            with pytest.raises(Exception, match="reset by peer"):
                [chunk async for chunk in lost]
            assert lost.broken_off
            assert await chat.version > 0

    asyncio.run(main())


def test_a_cancelled_task_records_what_came() -> None:
    """A task that is cancelled while it waits for the next chunk keeps the words so far."""

    async def main() -> None:
        waiting = asyncio.Event()

        async def chunks() -> Any:
            for chunk in sse.chat_chunks()[:2]:
                yield chunk
            waiting.set()
            await asyncio.Event().wait()

        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            stream = recording(chunks(), chat, "openai")

            async def consume() -> None:
                async for _ in stream:
                    pass

            task = asyncio.create_task(consume())
            await asyncio.wait_for(waiting.wait(), 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            message, facts = [r.event async for r in chat.events()]
            assert isinstance(message, MessageAdded)
            assert message.broken_off
            assert isinstance(facts, ModelResponded)
            assert (facts.finish_reason, facts.usage) == (None, None)

    asyncio.run(main())


def test_fragments_are_refused_with_the_remedy(chat: Conversation) -> None:
    """Nothing that is not a whole message is stored, and each error says what to pass."""
    stream = sse.open_stream("openai", sse.chat_chunks())
    fragments: list[tuple[object, str]] = [
        (None, "None"),
        ("Let me look.", "add_message"),
        (b"Let me", "add_message"),
        (7, "7"),
        ([{"role": "user", "content": "x"}], "record_messages"),
        (sse.stream_manager("anthropic", sse.anthropic_events()), r"recording\("),
        (iter(sse.chat_chunks()), r"recording\("),
        *((chunk, r"recording\(") for chunk in stream),
        (stream, r"recording\("),
    ]
    for provider in sse.HELPERS:
        events = sse.EVENTS[provider]
        fragments += [(event, r"recording\(") for event in events() if event.get("type") != "ping"]
        fragments += [(e, r"recording\(") for e in sse.open_stream(provider, events())]
    for fragment, remedy in fragments:
        with pytest.raises(TypeError, match=remedy):
            chat.record(fragment)
    assert chat.version == 0


def test_a_forgotten_await_is_refused(chat: Conversation) -> None:
    """A coroutine is a forgotten `await`, in `record` and in `recording`."""

    async def create() -> None:
        """Return nothing."""

    for refuse in (chat.record, lambda given: recording(given, chat)):
        made = create()
        with pytest.raises(TypeError, match="await it first"):
            refuse(made)
        made.close()


def test_streams_of_other_providers_are_refused(
    chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the providers whose streams are read."""
    monkeypatch.setattr(registry, "_providers", dict(registry._providers))
    acme = register(AcmeAdapter(), rules)
    with pytest.raises(ValueError, match="'acme' are not read, only those of anthropic, bedrock"):
        recording(iter(()), chat, acme)
    with pytest.raises(TypeError, match=r"the stream is a dict: .* response\['stream'\]"):
        recording({"stream": iter(())}, chat, "bedrock")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="a stream with this Conversation"):
        recording(7, chat)  # type: ignore[call-overload]


class AcmeAdapter(OpenAIAdapter):
    """A provider of a program's own."""

    name = "acme"


def completion(name: str = "chatcmpl-7", text: str = "Done.") -> dict[str, Any]:
    """Return a whole completion with a call."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": text, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"id": name, "created": 7, "choices": [choice]}


def test_a_response_is_stored_once(store: EventStore, chat: Conversation) -> None:
    """Recorded again by any handle it adds nothing, and gives the calls as they stand now."""
    (call,) = chat.record(completion())
    chat.start(call.id)
    other = store.conversation("c")
    (again,) = other.record(completion())
    assert (again.id, again.attempts, chat.version) == (call.id, 1, 4)
    other.record(completion("chatcmpl-8"))
    other.record(completion(text="Other."))  # some servers give all responses one id
    assert len([r for r in chat.events() if isinstance(r.event, ToolPending)]) == 3


def test_a_response_that_says_nothing_is_recorded_without_a_message(chat: Conversation) -> None:
    """Claude ends a turn without a word at times, and the next prompt is valid all the same."""
    chat.add_message("user", "q")
    silent = {"id": "m", "role": "assistant", "content": [], "stop_reason": "end_turn"}
    for _ in range(2):
        assert chat.record(silent, "anthropic") == []
    _, facts = [recorded.event for recorded in chat.events()]
    assert facts == ModelResponded("anthropic", None, "m", "end_turn")
    assert validate(model_history(chat.events()).render("anthropic")["messages"], "anthropic") == []


def test_a_message_without_its_response_is_stored_each_time(chat: Conversation) -> None:
    """A message has no id of its own: the model may say the same twice."""
    for _ in range(2):
        chat.record(completion()["choices"][0]["message"])
    assert len(chat.tools) == 2


def test_event_ids_make_a_record_repeatable(chat: Conversation) -> None:
    """The ids stand for the message and each call; what the response says of itself needs none."""
    ids = [number.to_bytes(16, "big") for number in (1, 2)]
    first = chat.record(completion(), event_ids=ids)
    *said, facts = chat.events()
    assert [r.event_id for r in said] == [event_id.hex() for event_id in ids]
    assert isinstance(facts.event, ModelResponded)
    assert chat.record(completion(), event_ids=ids) == first
    with pytest.raises(ValueError, match="3 distinct event_ids for 2 events"):
        chat.record(completion("x"), event_ids=[*ids[:1], bytes(16), bytes([9] * 16)])
    assert chat.version == 3


def test_a_record_may_expect_a_version(chat: Conversation) -> None:
    """A conversation that has moved on refuses the message."""
    from eventstore import VersionConflict

    chat.record(completion(), expected_version=0)
    with pytest.raises(VersionConflict):
        chat.record(completion("chatcmpl-8"), expected_version=0)
    chat.record(completion(), expected_version=0)  # it is stored: nothing is left to do
    assert chat.version == 3


def test_members_that_the_client_parsed_are_left_out(chat: Conversation) -> None:
    """`parsed` and `parsed_arguments` are the client's, and a provider refuses them."""
    types = pytest.importorskip("openai.types.chat.parsed_chat_completion")
    parsed = types.ParsedChatCompletion.model_validate(
        {**completion(), "object": "chat.completion", "model": "m"}
    )
    parsed.choices[0].message.parsed = {"number": 7}
    parsed.choices[0].message.tool_calls[0].function.parsed_arguments = {"number": 7}
    chat.record(parsed)
    assert "parsed" not in str([r.event for r in chat.events()])
