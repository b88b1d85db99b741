"""litellm's messages: what they hold for a provider reaches it, and their own members nobody."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from eventstore import Conversation, EventStore, recording, validate
from projections import model_history, repair_messages

SIGNATURE = "c2ln" * 12
LONG_ID = f"call_c42a36854957476d9e8359155b7f__thought__{SIGNATURE}"
ASKED = {"role": "user", "content": "Refund order 7."}
THINKING = {"type": "thinking", "thinking": "Lost.", "signature": SIGNATURE}
REDACTED = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
FIELDS = {"provider_specific_fields": {"thought_signature": SIGNATURE}}
OWN = ("thinking_blocks", "provider_specific_fields", "reasoning_content", "images", "index")


def call(call_id: str, **more: Any) -> dict[str, Any]:
    """Return a call as litellm has it."""
    function = {"name": "refund", "arguments": '{"order": 7}'}
    return {"index": 0, "id": call_id, "type": "function", "function": function, **more}


def exchange(made: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Return a question, a response of litellm with a call, and its result."""
    said = {"role": "assistant", "content": None, "tool_calls": [made], "function_call": None}
    result = {"role": "tool", "tool_call_id": made["id"], "content": "paid"}
    return [ASKED, {**said, **more}, result]


ANTHROPIC = exchange(
    call("toolu_1"), reasoning_content="Lost.", thinking_blocks=[THINKING, REDACTED]
)
BEDROCK = exchange(call("tooluse_1"), reasoning_content="Lost.", thinking_blocks=[THINKING])
GEMINI = exchange(
    call(LONG_ID, **FIELDS),
    images=[],
    thinking_blocks=[],
    provider_specific_fields={"thought_signatures": [SIGNATURE]},
)

Render = Callable[[list[dict[str, Any]], str, str], Any]


@pytest.fixture
def chat() -> Iterator[Conversation]:
    """Return an empty conversation."""
    with EventStore.open("sqlite://") as store:
        yield store.conversation("c")


@pytest.fixture(params=["a log", "a list"])
def rendered(request: pytest.FixtureRequest, store: EventStore) -> Render:
    """Return what makes a request for one provider of messages in the form of another."""
    numbers = count()

    def from_log(messages: list[dict[str, Any]], provider: Any, target: Any) -> Any:
        chat = store.conversation(f"chat {next(numbers)}")
        chat.record_messages(messages, provider)
        return model_history(chat.events()).render(target)

    def from_list(messages: list[dict[str, Any]], provider: Any, target: Any) -> Any:
        key = "contents" if target == "gemini" else "messages"
        return {key: repair_messages(messages, provider, target).messages}

    return from_log if request.param == "a log" else from_list


@pytest.mark.parametrize("provider", ["openai", "litellm"])
def test_thinking_that_anthropic_signed_goes_back_to_it(rendered: Render, provider: str) -> None:
    """The blocks stand before the call, as they were."""
    made = rendered(ANTHROPIC, provider, "anthropic")["messages"]
    assert made[1]["content"][:2] == [THINKING, REDACTED]
    assert made[1]["content"][2]["type"] == "tool_use"
    assert validate(made, "anthropic") == []


@pytest.mark.parametrize("provider", ["openai", "litellm"])
def test_thinking_that_bedrock_signed_goes_back_to_it(rendered: Render, provider: str) -> None:
    """The ids of the calls say that it was Bedrock; Anthropic does not get it."""
    made = rendered(BEDROCK, provider, "bedrock")["messages"]
    said = {"reasoningText": {"text": "Lost.", "signature": SIGNATURE}}
    assert made[1]["content"][0] == {"reasoningContent": said}
    assert validate(made, "bedrock") == []


@pytest.mark.parametrize("provider", ["openai", "litellm"])
@pytest.mark.parametrize(
    "made",
    [
        call(LONG_ID),
        call("call_1", **FIELDS),
        call("call_1", function={"name": "refund", "arguments": "{}", **FIELDS}),
    ],
    ids=["in the id", "in the call", "in the function"],
)
def test_a_signature_of_gemini_goes_back_to_it(
    rendered: Render, provider: str, made: dict[str, Any]
) -> None:
    """The signature stands with its call, wherever litellm has it."""
    contents = rendered(exchange(made), provider, "gemini")["contents"]
    (part,) = contents[1]["parts"]
    assert part["functionCall"]["name"] == "refund"
    assert part["thoughtSignature"] == SIGNATURE
    assert validate(contents, "gemini") == []


def test_a_signed_thought_of_gemini_is_one_again(rendered: Render) -> None:
    """Where Gemini signed a call, the thinking is Gemini's, too."""
    given = exchange(call("call_1", **FIELDS), thinking_blocks=[THINKING])
    thought, made = rendered(given, "litellm", "gemini")["contents"][1]["parts"]
    assert thought == {"text": "Lost.", "thought": True, "thoughtSignature": SIGNATURE}
    assert made["thoughtSignature"] == SIGNATURE
    assert "signature" not in str(repair_messages(given, "litellm", "anthropic").messages)


def test_a_call_that_was_edited_has_no_signature(chat: Conversation) -> None:
    """A signature is for what the model asked for."""
    chat.record_messages(GEMINI[:2], "litellm")
    (tool,) = chat.tools.values()
    chat.approve(tool.id, {"order": 8}, by="ann")
    assert SIGNATURE not in json.dumps(model_history(chat.events()).render("gemini")).replace(
        LONG_ID, ""
    )


@pytest.mark.parametrize("messages", [ANTHROPIC, BEDROCK, GEMINI])
@pytest.mark.parametrize("provider", ["openai", "litellm"])
@pytest.mark.parametrize(
    "target", ["anthropic", "bedrock", "cohere", "gemini", "mistral", "ollama", "openai"]
)
def test_its_own_members_reach_no_provider(
    rendered: Render, messages: list[dict[str, Any]], provider: str, target: str
) -> None:
    """No request has a member with one of their names."""
    made = json.dumps(rendered(messages, provider, target))
    assert not [name for name in OWN if f'"{name}"' in made]


@pytest.mark.parametrize("messages", [ANTHROPIC, BEDROCK, GEMINI])
def test_litellm_gets_its_messages_back(rendered: Render, messages: list[dict[str, Any]]) -> None:
    """The messages are the same byte for byte, with the signatures in their ids."""
    assert validate(messages, "litellm") == []
    made = rendered(messages, "litellm", "litellm")["messages"]
    assert json.dumps(made) == json.dumps(messages)


@pytest.mark.parametrize("messages", [ANTHROPIC, BEDROCK, GEMINI])
def test_each_member_that_is_taken_out_is_named(messages: list[dict[str, Any]]) -> None:
    """`validate` says that OpenAI refuses it, and the repair what it was."""
    assert "OA21" in {found.code for found in validate(messages, "openai")}
    repaired = repair_messages(messages, "openai")
    (named,) = (repair for repair in repaired.repairs if repair.rule == "litellm")
    assert "thinking_blocks" in named.why
    assert validate(repaired.messages, "openai") == []
    again = repair_messages(repaired.messages, "openai")
    assert (again.messages, again.repairs) == (repaired.messages, [])


def test_members_of_other_servers_stay() -> None:
    """`reasoning_content` alone is DeepSeek's."""
    said = {"role": "assistant", "content": "Lost.", "reasoning_content": "hm"}
    messages = [ASKED, said, {"role": "user", "content": "And now?"}]
    assert repair_messages(messages, "openai").messages == messages


def test_images_that_a_model_made_are_images(chat: Conversation) -> None:
    """The message has them beside its content; Gemini gets them again."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    said = {"role": "assistant", "content": "A dot.", "images": [image], "thinking_blocks": []}
    chat.record_messages([ASKED, said, {"role": "user", "content": "Again."}], "litellm")
    contents = model_history(chat.events()).render("gemini")["contents"]
    assert contents[1]["parts"][1] == {"inlineData": {"mimeType": "image/png", "data": "aGk="}}


@pytest.mark.parametrize("provider", ["openai", "litellm"])
def test_streamed_thinking_is_joined(chat: Conversation, provider: Any) -> None:
    """The pieces of a block end with its signature."""
    pieces = (
        {"type": "thinking", "thinking": "Lo"},
        {"type": "thinking", "thinking": "st."},
        {"type": "thinking", "thinking": "", "signature": SIGNATURE},
        REDACTED,
    )
    deltas: list[dict[str, Any]] = [
        {
            "thinking_blocks": [piece],
            "provider_specific_fields": {"thinking_blocks": [piece]},
        }
        for piece in pieces
    ]
    deltas.append({"tool_calls": [call("toolu_1")]})
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks[-1]["choices"][0]["finish_reason"] = "tool_calls"
    chat.add_message("user", "Refund order 7.")
    with recording(iter(chunks), chat, provider) as stream:
        for _ in stream:
            pass
    chat.complete("toolu_1", "paid")
    made = model_history(chat.events()).render("anthropic")["messages"]
    assert made[1]["content"][:2] == [THINKING, REDACTED]


@pytest.fixture
def litellm_types(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return litellm's own classes, without its look at the prices on the internet."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    return pytest.importorskip("litellm.types.utils", reason="litellm is not installed")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["response", "message", "dumped response", "dumped message"])
@pytest.mark.parametrize("provider", ["openai", "litellm"])
def test_its_objects_are_read_as_their_json(
    litellm_types: Any, chat: Conversation, form: str, provider: Any
) -> None:
    """A whole response and its message are recorded with calls, signatures, model and usage."""
    message = litellm_types.Message(**GEMINI[1])
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    choice = litellm_types.Choices(finish_reason="tool_calls", index=0, message=message)
    response = litellm_types.ModelResponse(choices=[choice], model="gemini-3-pro", usage=usage)
    given = message if "message" in form else response
    chat.add_message("user", "Refund order 7.")
    (tool,) = chat.record(given.model_dump() if "dumped" in form else given, provider)
    assert tool.provider_call_id == LONG_ID
    chat.complete(tool.id, "paid")
    history = model_history(chat.events())
    assert history.render("gemini")["contents"][1]["parts"][0]["thoughtSignature"] == SIGNATURE
    sent = json.dumps(history.render("openai"))
    assert not [name for name in OWN if f'"{name}"' in sent]
    if provider == "litellm":
        back = history.render("litellm")["messages"][1]
        assert back["tool_calls"][0]["provider_specific_fields"] == {"thought_signature": SIGNATURE}
        assert back["tool_calls"][0]["id"] == LONG_ID
