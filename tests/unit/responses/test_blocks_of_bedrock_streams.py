"""Each kind of block that ConverseStream sends, as botocore reads it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from support import more_streams, sse

from eventstore import Conversation, EventStore, MessageAdded, recording, validate
from eventstore.providers.streaming import streamed_response
from projections import model_history

STOP = {"messageStop": {"stopReason": "end_turn"}}
SEARCH = {"toolUseId": "s1", "name": "nova_grounding", "type": "server_tool_use"}
FOUND = {"toolUseId": "s1", "type": "nova_grounding_result", "status": "success"}
TABLE = {"rows": [1, 2]}


def begin(index: int, **what: Any) -> dict[str, Any]:
    """Return the start of a block."""
    return {"contentBlockStart": {"contentBlockIndex": index, "start": what}}


def delta(index: int, **what: Any) -> dict[str, Any]:
    """Return what a block goes on with."""
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": what}}


def end(index: int) -> dict[str, Any]:
    """Return the end of a block."""
    return {"contentBlockStop": {"contentBlockIndex": index}}


def events() -> list[dict[str, Any]]:
    """Return a response with words, and a call of the service's own tool with its result."""
    return [
        {"messageStart": {"role": "assistant"}},
        delta(0, text="Let me look."),
        end(0),
        begin(1, toolUse=SEARCH),
        delta(1, toolUse={"input": '{"q":'}),
        delta(1, toolUse={"input": '"rain"}'}),
        end(1),
        begin(2, toolResult=FOUND),
        delta(2, toolResult=[{"text": "It "}]),
        delta(2, toolResult=[{"text": "rains."}, {"json": TABLE}]),
        end(2),
        delta(3, text="Rain."),
        end(3),
        STOP,
    ]


WHOLE = [
    {"text": "Let me look."},
    {"toolUse": {**SEARCH, "input": {"q": "rain"}}},
    {"toolResult": {**FOUND, "content": [{"text": "It rains."}, {"json": TABLE}]}},
    {"text": "Rain."},
]


@pytest.fixture(autouse=True)
def sdk() -> None:
    """Have botocore, which reads the events."""
    pytest.importorskip("botocore")


def spoken(chat: Conversation, stream: Any) -> Any:
    """Record a stream after what the user said; return the next prompt's answer to it."""
    chat.add_message("user", "q")
    list(recording(stream, chat, "bedrock"))
    prompt = model_history(chat.events()).render("bedrock")["messages"]
    assert validate(prompt, "bedrock") == []
    return prompt[1]["content"]


def test_a_call_of_the_services_own_tool_has_its_result(chat: Conversation) -> None:
    """Both are blocks as they came, and no words; there is nothing to run."""
    assert spoken(chat, sse.open_stream("bedrock", events())) == WHOLE
    assert chat.tools == {}
    (said,) = (
        each.event
        for each in chat.events()
        if isinstance(each.event, MessageAdded) and each.event.role == "assistant"
    )
    assert [getattr(part, "text", None) for part in said.parts] == [
        "Let me look.",
        None,
        None,
        "Rain.",
    ]


def test_a_stream_with_a_server_tool_may_be_cut_at_any_byte(store: EventStore) -> None:
    """The pieces that came are kept, the prompt is valid, and no block of a tool becomes words."""
    body = b"".join(more_streams.encoded("bedrock", events()))
    kept: set[str] = set()
    for count in range(0, len(body), 23):
        chat = store.conversation(str(count))
        chat.add_message("user", "q")
        stream = more_streams.open_stream("bedrock", lambda count=count: iter([body[:count]]))
        with recording(stream, chat, "bedrock") as chunks:
            list(chunks)
        assert chunks.broken_off
        chat.add_message("user", "Go on.")
        history = model_history(chat.events())
        prompt = history.render("bedrock")["messages"]
        assert validate(prompt, "bedrock") == [], count
        blocks = [block for message in prompt for block in message["content"]]
        assert "toolU" not in str([block for block in blocks if "text" in block])
        named = "BE01" in {repair.rule for repair in history.repairs_for("bedrock")}
        said = [b for e in chat.events() for b in getattr(e.event, "parts", ())]
        open_calls = sum("toolUse'" in str(part) for part in said)
        open_calls -= sum("toolResult'" in str(part) for part in said)
        assert named is (open_calls > 0), count
        kept.add(str(prompt[1:2]))
    assert len(kept) > 4, kept


def test_an_image_comes_in_pieces() -> None:
    """Its bytes are joined, whether they are bytes or base64."""
    for form in (bytes, lambda raw: b64encode(raw).decode()):
        response = streamed_response("bedrock")
        for event in (
            begin(0, image={"format": "png"}),
            delta(0, image={"source": {"bytes": form(b"\x89P")}}),
            delta(0, image={"source": {"bytes": form(b"NG")}}),
            end(0),
            STOP,
        ):
            response.add(event)
        answer = response.response()
        assert answer is not None
        (block,) = answer["output"]["message"]["content"]
        assert block == {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}


def test_a_block_that_is_not_known_is_kept_as_a_block(chat: Conversation) -> None:
    """Its deltas are joined by their types."""
    said = spoken(
        chat,
        iter(
            [
                delta(0, future={"text": "a", "list": [1], "n": 1}),
                delta(0, future={"text": "b", "list": [2], "n": 2}),
                end(0),
                STOP,
            ]
        ),
    )
    assert said == [{"future": {"text": "ab", "list": [1, 2], "n": 2}}]


def test_a_block_that_botocore_cannot_read_does_not_go_back(chat: Conversation) -> None:
    """The client has its name alone, and would refuse to send it; the log keeps that."""
    new = begin(0, later={"a": 1}), delta(0, later={"a": 2}), end(0)
    answer = spoken(chat, sse.open_stream("bedrock", [*new, delta(1, text="So."), end(1), STOP]))
    assert answer == [{"text": "So."}]
    assert "SDK_UNKNOWN_MEMBER" in str([each.event for each in chat.events()])
    dropped = model_history(chat.events()).repairs_for("bedrock")
    assert ("dropped", "BE02") in [(each.what, each.rule) for each in dropped]
