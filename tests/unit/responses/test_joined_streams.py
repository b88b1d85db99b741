"""The message that the pieces of a stream add up to, for what only one provider sends."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from support import more_streams, sse

from eventstore import Conversation, EventStore, recording, validate
from eventstore.providers import list_key
from eventstore.providers.streaming import streamed_response
from projections import model_history

CALL = {"name": "find_order", "arguments": '{"number": 7}'}
SAID = {
    "bedrock": [
        {"reasoningContent": {"reasoningText": {"text": "An order.", "signature": "c2ln"}}},
        {"text": "Let me look."},
    ],
    "cohere": [{"type": "text", "text": "Let me look."}],
    "gemini": [{"text": "An order.", "thought": True}, {"text": "Let me look."}],
    "mistral": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "An order."}]},
        {"type": "text", "text": "Let me look."},
    ],
    "ollama": "Let me look.",
}
"""What the streams of the test support say besides calls, as the provider takes it back."""
SDKS = {"bedrock": "botocore", "gemini": "google.genai", "mistral": "mistralai"}
"""What is imported, where it is not the provider's name."""


@pytest.mark.parametrize("provider", sorted(more_streams.EVENTS))
def test_pieces_are_joined_to_the_parts_that_the_provider_takes(
    chat: Conversation, provider: Any
) -> None:
    """A text that came in pieces is one part again, and thoughts keep their signature."""
    pytest.importorskip(SDKS.get(provider, provider))
    chat.add_message("user", "Order 7?")
    list(recording(sse.open_stream(provider, sse.EVENTS[provider]()), chat, provider))
    answer = model_history(chat.events()).render(provider)[list_key(provider)][1]
    said = answer.get("parts") or answer["content"]
    whole = SAID[provider]
    assert said[: len(whole)] == whole


def chunk(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """Return a chunk of a Gemini stream."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})]}


def pieces(*given: dict[str, Any], go_on: bool = True) -> dict[str, Any]:
    """Return a part that brings pieces of a call's arguments."""
    return {"functionCall": {"partialArgs": list(given), "willContinue": go_on}}


IN_PIECES = [
    chunk(
        {"functionCall": {"name": "f", "id": "a", "willContinue": True}, "thoughtSignature": "c2ln"}
    ),
    chunk(pieces({"jsonPath": "$.city", "stringValue": "Par", "willContinue": True})),
    chunk(pieces({"jsonPath": "$.city", "stringValue": "is"})),
    chunk(pieces({"jsonPath": "$.rows[0].n", "numberValue": 7})),
    chunk(pieces({"jsonPath": "$.rows[1].n", "numberValue": 8.5})),
    chunk(pieces({"jsonPath": "$['a b']", "nullValue": "NULL_VALUE"})),
    chunk(pieces({"jsonPath": "$.tags[0]", "stringValue": "x"})),
    chunk(pieces({"jsonPath": "$.tags[1]", "boolValue": True}, {"jsonPath": 5}, {"jsonPath": "$"})),
    chunk({"functionCall": {}}),
    chunk({"functionCall": {"name": "g", "args": {"n": 1}}}),
    chunk(finish="STOP"),
]


def test_arguments_of_gemini_may_come_in_pieces(chat: Conversation) -> None:
    """Each piece is put where its path says, and the signature stays with its call."""
    chat.add_message("user", "q")
    list(stream := recording(iter(IN_PIECES), chat, "gemini"))
    first, second = stream.tools
    assert first.call.arguments == {
        "city": "Paris",
        "rows": [{"n": 7}, {"n": 8.5}],
        "a b": None,
        "tags": ["x", True],
    }
    assert (second.call.name, second.call.arguments) == ("g", {"n": 1})
    shown = model_history(chat.events()).render("gemini")["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in shown] == ["c2ln", None]


def test_a_whole_number_of_gemini_is_one_number(chat: Conversation) -> None:
    """The SDK has floats alone in pieces: the fingerprint is that of a call which came whole."""
    types = pytest.importorskip("google.genai.types")
    numbers = {"n": 7, "half": 7.5, "far": 2.0**60, "below": -3}
    begun = {"functionCall": {"name": "f", "willContinue": True}}
    given = [{"jsonPath": f"$.{key}", "numberValue": value} for key, value in numbers.items()]
    whole = {"functionCall": {"name": "f", "args": numbers}}
    chunks = [chunk(begun), chunk(pieces(*given, go_on=False)), chunk(whole, finish="STOP")]
    read = [types.GenerateContentResponse.model_validate(each) for each in chunks]
    chat.add_message("user", "q")
    list(stream := recording(iter(read), chat, "gemini"))
    one, two = (tool.call for tool in stream.tools)
    assert str(one.arguments) == str(two.arguments) == str(numbers)
    assert one.fingerprint == two.fingerprint


@pytest.mark.parametrize("provider", ["cohere", "gemini", "mistral", "ollama"])
def test_a_stream_may_be_cut_at_any_byte(store: EventStore, provider: Any) -> None:
    """The pieces that came are kept, arguments in pieces too, and the next prompt is valid."""
    pytest.importorskip(SDKS.get(provider, provider))
    whole = more_streams.EVENTS[provider]()
    if provider == "gemini":  # without the piece that the SDK refuses
        whole = [each for each in IN_PIECES if "'jsonPath': 5" not in str(each)]
    body = b"".join(more_streams.encoded(provider, whole))
    most = 0
    for count in range(0, len(body) + 43, 43):
        chat = store.conversation(str(count))
        chat.add_message("user", "q")
        stream = more_streams.open_stream(provider, lambda count=count: iter([body[:count]]))
        with suppress(Exception):  # half a line, which the SDK cannot read
            list(recording(stream, chat, provider))
        chat.add_message("user", "Go on.")
        prompt = model_history(chat.events()).render(provider)[list_key(provider)]
        assert validate(prompt, provider) == [], count
        most = max(most, len(chat.tools))
    assert most == 2


def test_a_call_of_gemini_that_broke_off_says_how_far_it_came(chat: Conversation) -> None:
    """Its arguments are there for people, and it has failed without having run."""
    list(stream := recording(iter(IN_PIECES[:3]), chat, "gemini"))
    (tool,) = stream.tools
    assert tool.call.name == "f"
    assert "Paris" in str(tool.call)
    assert stream.broken_off
    assert tool.is_resolved


def test_odd_paths_of_arguments_are_passed_over() -> None:
    """A path that leads into a text, or to a far place of a list, breaks nothing."""
    response = streamed_response("gemini")
    odd = [
        {"jsonPath": "$.a", "stringValue": "x"},
        {"jsonPath": "$.a.b", "stringValue": "y"},
        {"jsonPath": "$.c[9].d", "numberValue": 1},
        {"jsonPath": "$.e[7]", "numberValue": 2},
        {"jsonPath": "$.c.f", "numberValue": 3},
        {"jsonPath": "$[0]", "numberValue": 4},
    ]
    response.add(
        chunk({"functionCall": {"name": "f", **pieces(*odd, go_on=False)["functionCall"]}})
    )
    answer = response.response()
    assert answer is not None
    (part,) = answer["candidates"][0]["content"]["parts"]
    assert part["functionCall"]["args"] == {"a": "x", "c": [{"d": 1}], "e": [2]}


@pytest.mark.parametrize("place", [{"index": 0}, {}], ids=["the same place", "no place"])
def test_whole_calls_of_one_chunk_stay_apart(chat: Conversation, place: dict[str, int]) -> None:
    """Mistral sends no place, and its SDK gives all calls the first one."""
    calls = [{"id": name, "function": CALL, **place} for name in ("aaaaaaaa1", "aaaaaaaa2")]
    choice = {"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}
    list(stream := recording(iter([{"data": {"choices": [choice]}}]), chat, "mistral"))
    assert [tool.id for tool in stream.tools] == ["aaaaaaaa1", "aaaaaaaa2"]
    assert [tool.call.arguments for tool in stream.tools] == [{"number": 7}] * 2


def test_a_call_whose_pieces_have_new_ids_is_one_call(chat: Conversation) -> None:
    """Some servers make an id for each piece; only the first piece names the function."""
    begin = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"n"'}}
    more = {"index": 0, "id": "b", "function": {"arguments": ":7}"}}
    chunks = [
        {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in (begin, more)
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    list(stream := recording(iter(chunks), chat))
    (tool,) = stream.tools
    assert (tool.id, tool.call.arguments) == ("a", {"n": 7})


def test_citations_and_redacted_reasoning_of_bedrock_are_kept(chat: Conversation) -> None:
    """A cited text keeps its sources; what the provider has hidden is handed back."""
    cited = {"title": "T", "location": {"web": {"url": "https://example.org"}}}

    def delta(index: int, **what: Any) -> dict[str, Any]:
        return {"contentBlockDelta": {"contentBlockIndex": index, "delta": what}}

    events = [
        delta(0, reasoningContent={"redactedContent": "c2Vj"}),
        {"contentBlockStop": {"contentBlockIndex": 0}},
        delta(1, text="As "),
        delta(1, text="said."),
        delta(1, citation=cited),
        {"contentBlockStop": {"contentBlockIndex": 1}},
        {"messageStop": {"stopReason": "end_turn"}},
    ]
    chat.add_message("user", "q")
    list(recording(iter(events), chat, "bedrock"))
    assert model_history(chat.events()).render("bedrock")["messages"][1]["content"] == [
        {"reasoningContent": {"redactedContent": "c2Vj"}},
        {"citationsContent": {"citations": [cited], "content": [{"text": "As said."}]}},
    ]


def test_the_citations_and_the_plan_of_cohere_are_kept(chat: Conversation) -> None:
    """The plan is said before the calls, and sources stay beside the text."""
    source = {"start": 0, "end": 2, "text": "As", "sources": [{"type": "document", "id": "d"}]}

    def event(kind: str, index: int, **message: Any) -> dict[str, Any]:
        return {"type": kind, "index": index, "delta": {"message": message}}

    events = [
        {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "Look "}}},
        {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "first."}}},
        event("content-start", 0, content={"type": "text", "text": ""}),
        event("content-delta", 0, content={"text": "As said."}),
        event("citation-start", 0, citations=source),
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
    ]
    response = streamed_response("cohere")
    for each in events:
        response.add(each)
    answer = response.response()
    assert answer is not None
    assert answer["message"]["tool_plan"] == "Look first."
    assert answer["message"]["citations"] == [source]
    assert answer["message"]["content"] == [{"type": "text", "text": "As said."}]
