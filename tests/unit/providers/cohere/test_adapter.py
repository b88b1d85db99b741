"""Cohere's messages, parsed and rendered: plans, documents, citations, the SDK's own objects."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import Conversation, Image, Opaque, Text, validate
from eventstore.providers import adapter_of, parse
from projections import model_history, repair_messages

Message = dict[str, Any]
THINKING = {"type": "thinking", "thinking": "hm"}
DOCUMENT = {"type": "document", "document": {"data": {"temperature": "20C"}, "id": "doc:1"}}
CITATION = {"start": 0, "end": 4, "text": "cited", "sources": []}


def user(content: Any = "q") -> Message:
    """Return a user's message."""
    return {"role": "user", "content": content}


def calling(*ids: str, arguments: str = "{}", **more: Any) -> Message:
    """Return an assistant's message with a call for each id."""
    calls = [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": arguments}}
        for i in ids
    ]
    return {"role": "assistant", **more, "tool_calls": calls}


def result(call_id: str = "f_1", content: Any = "R", **more: Any) -> Message:
    """Return a tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([user(), calling("f_1", tool_plan="I will look."), result()], id="a plan"),
        pytest.param([user(), calling("f_1"), result(content=[DOCUMENT])], id="a document"),
        pytest.param(
            [
                user(),
                calling("f_1", content=[THINKING]),
                result(content=[{"type": "text", "text": "R"}]),
            ],
            id="thinking",
        ),
        pytest.param(
            [user(), calling("a", "b"), result("b"), result("a", "S")], id="results out of order"
        ),
        pytest.param(
            [user(), {"role": "assistant", "content": "cited", "citations": [CITATION]}],
            id="citations",
        ),
        pytest.param(
            [user([{"type": "image_url", "image_url": {"url": "https://a.b/c", "detail": "low"}}])],
            id="an image",
        ),
        pytest.param([{"role": "system", "content": [{"type": "text", "text": "s"}]}], id="system"),
    ],
)
def test_a_valid_list_goes_back_byte_for_byte(messages: list[Any]) -> None:
    """A list comes back in any order of results, a log with results in call order."""
    assert validate(messages, "cohere") == []
    repaired = repair_messages(messages, "cohere")
    assert (repaired.messages, repaired.repairs) == (messages, [])


def test_a_message_of_empty_text_alone_is_left_out() -> None:
    """The API refuses an assistant's message without calls whose only part is empty text."""
    empty = {"role": "assistant", "content": [{"type": "text", "text": ""}]}
    repaired = repair_messages([user(), empty, user("again")], "cohere")
    assert repaired.messages == [user(), user("again")]


def test_a_log_gives_a_valid_list_back(chat: Conversation) -> None:
    """The list has its plan, its documents and its citations."""
    messages = [
        user(),
        calling("f_1", tool_plan="I will look."),
        result(content=[DOCUMENT]),
        {"role": "assistant", "content": "cited", "citations": [CITATION]},
    ]
    chat.record_messages(messages, "cohere")
    history = model_history(chat.events())
    assert history.render("cohere") == {"messages": messages}
    assert history.repairs_for("cohere") == []


def test_text_beside_calls_becomes_the_tool_plan() -> None:
    """Text of another provider becomes the plan, and the plan becomes text for others."""
    blocks = [{"type": "text", "text": "Let me look."}, {"type": "text", "text": "Now."}]
    asked = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "t", "content": "R"}
    given = [
        user(),
        {"role": "assistant", "content": [*blocks, asked]},
        {"role": "user", "content": [answer]},
    ]
    moved = repair_messages(given, "anthropic", "cohere")
    assert moved.messages[1] == calling("t", tool_plan="Let me look.\nNow.")
    assert [(repair.what, repair.rule) for repair in moved.repairs] == [("merged", "text")]
    back = repair_messages(moved.messages, "cohere", "anthropic").messages
    assert back[1]["content"][0] == {"type": "text", "text": "Let me look.\nNow."}


def test_documents_are_their_data_to_others() -> None:
    """Other providers get the data as JSON text; the id, which only citations use, is listed."""
    text = {"type": "document", "document": {"data": '{"temperature": "21C"}'}}
    given = [user(), calling("f_1"), result(content=[DOCUMENT, text])]
    moved = repair_messages(given, "cohere", "openai")
    assert moved.messages[2]["content"] == '{"temperature":"20C"}\n{"temperature": "21C"}'
    assert [(each.rule, each.why) for each in moved.repairs] == [
        ("foreign-member", "id: only for cohere")
    ]


def test_members_that_the_api_does_not_know_are_left_out() -> None:
    """The API refuses an unknown field, and the message means the same without it."""
    given = [
        {**user(), "name": "Ann"},
        {**calling("f_1", tool_plan="p"), "refusal": None},
        result(name="f"),
    ]
    assert {each.code for each in validate(given, "cohere")} == {"CO02"}
    repaired = repair_messages(given, "cohere").messages
    assert repaired == [user(), calling("f_1", tool_plan="p"), result()]
    assert validate(repaired, "cohere") == []


def test_thinking_goes_back_with_its_whole_turn_or_not_at_all(chat: Conversation) -> None:
    """Thinking is dropped with a call that is left out."""
    chat.record_messages([user(), calling("a", "b", content=[THINKING]), result("a")], "cohere")
    dropped = model_history(chat.events(), open_calls="drop")
    assert dropped.render("cohere")["messages"][1] == calling("a")
    assert "reasoning" in {repair.rule for repair in dropped.repairs_for("cohere")}
    answered = model_history(chat.events()).render("cohere")["messages"]
    assert answered[1] == calling("a", "b", content=[THINKING])


def test_a_message_that_is_mended_keeps_its_thinking() -> None:
    """The other parts of the message become the plan for its calls."""
    said = [THINKING, {"type": "text", "text": "I look."}]
    repaired = repair_messages([user(), calling("a", arguments="no", content=said)], "cohere")
    assert repaired.messages[1]["content"] == [THINKING]
    assert repaired.messages[1]["tool_plan"] == "I look."
    assert validate(repaired.messages, "cohere") == []


def test_only_the_user_shows_images(chat: Conversation) -> None:
    """Elsewhere the image's address stands as text, and documents always do."""
    chat.add_message("developer", [Text("be brief"), Image("https://a.b/c.png")])
    chat.add_message(
        "user", [Image("https://a.b/d.png"), Opaque("anthropic", {"type": "document"})]
    )
    chat.add_message("user", [])
    system, asked = model_history(chat.events()).render("cohere")["messages"]
    assert [part["text"] for part in system["content"]] == [
        "be brief",
        "[image https://a.b/c.png]",
    ]
    assert asked["content"][0] == {"type": "image_url", "image_url": {"url": "https://a.b/d.png"}}
    assert validate([system, asked], "cohere") == []


@pytest.mark.parametrize(
    ("message", "owned"),
    [
        (calling("a", tool_plan="p"), True),
        (result(content=[DOCUMENT]), True),
        (calling("a"), False),
        (user([DOCUMENT["document"], "x"]), False),
    ],
)
def test_a_plan_and_documents_identify_the_provider(message: Message, owned: bool) -> None:
    """No other provider has these members."""
    assert adapter_of("cohere").is_own_message(message) is owned


def test_anything_is_read_for_what_it_says(chat: Conversation) -> None:
    """Parts of a wrong type, results of no type and documents without data are read."""
    chat.record_messages(
        [
            user([{"type": "text", "text": 5}, "a", {}, {"b": 1}, {"type": "image_url"}]),
            "text",
            calling("x", tool_plan=7, content=5),
            result(
                "x", [{"type": "document", "document": {"found": 1}}, {"type": "document"}, "y"]
            ),
            {"role": "assistant", "content": [], "tool_calls": {}},
            result("unknown", None),
        ],
        "cohere",
    )
    shown = model_history(chat.events()).render("cohere")["messages"]
    assert validate(shown, "cohere") == []
    assert all(text in str(shown) for text in ("5", "'a'", '{"b":1}', "7", '{"found":1}', "y"))


def test_a_whole_response_is_recorded(chat: Conversation) -> None:
    """The SDK's object is recorded, and the SDK accepts the answer to it."""
    cohere = pytest.importorskip("cohere", reason="cohere is not installed")
    function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    response = cohere.V2ChatResponse.model_validate(
        {
            "id": "r",
            "finish_reason": "TOOL_CALL",
            "message": {
                "role": "assistant",
                "tool_plan": "I will look.",
                "tool_calls": [{"id": "get_weather_1", "type": "function", "function": function}],
            },
        }
    )
    chat.record(user(), "cohere")
    (made,) = chat.record(response, "cohere")
    assert (made.id, made.call.name, made.call.arguments) == (
        "get_weather_1",
        "get_weather",
        {"city": "Oslo"},
    )
    chat.record(cohere.ToolChatMessageV2(tool_call_id="get_weather_1", content="20C"), "cohere")
    shown = model_history(chat.events()).render("cohere")["messages"]
    assert validate(shown, "cohere") == []
    assert shown[1]["tool_plan"] == "I will look."
    assert cohere.AssistantChatMessageV2(**shown[1]).tool_calls == response.message.tool_calls
    assert cohere.ToolChatMessageV2(**shown[2]).content == "20C"


def test_a_text_response_is_recorded_and_goes_back(chat: Conversation) -> None:
    """Its content is a list of parts, with the citations beside it."""
    cohere = pytest.importorskip("cohere", reason="cohere is not installed")
    said = [THINKING, {"type": "text", "text": "It is 20C."}]
    response = cohere.V2ChatResponse.model_validate(
        {
            "id": "r",
            "finish_reason": "COMPLETE",
            "message": {"role": "assistant", "content": said, "citations": [CITATION]},
        }
    )
    chat.record(user(), "cohere")
    chat.record(response, "cohere")
    (_, shown) = model_history(chat.events()).render("cohere")["messages"]
    assert shown == {"role": "assistant", "content": said, "citations": [CITATION]}


def test_another_form_is_read_as_the_same_call() -> None:
    """Calls without a wrapper and results without a role are read."""
    call, answer = parse(
        [{"tool_calls": [{"id": "a", "name": "f", "arguments": {}}]}, {"tool_call_id": "a"}],
        "cohere",
    )
    assert getattr(call, "role", None) == "assistant"
    assert getattr(answer, "id", None) == "a"
