"""Mistral's messages: parsed and rendered."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from eventstore import Conversation, Image, Opaque, Text, validate
from eventstore.domain.own_texts import RECEIVED
from eventstore.providers import parse
from eventstore.providers.identifiers import nine_characters
from eventstore.providers.mistral.shapes import (
    CALL_MEMBERS,
    CHUNK_MEMBERS,
    FUNCTION_MEMBERS,
    IMAGE_MEMBERS,
    MEMBERS,
)
from eventstore.providers.registry import model_rules
from projections import model_history, repair_messages

ID = "abcDEF123"
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}


def user(content: Any = "q") -> dict[str, Any]:
    """Return a user message."""
    return {"role": "user", "content": content}


def calling(*ids: Any, content: Any = "", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    """Return an assistant message with a call for each id."""
    calls = [{"id": i, "function": {"name": "f", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls, **more}


def result(call_id: Any = ID, content: Any = "R", **more: Any) -> dict[str, Any]:
    """Return a tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(
            [user(), calling(ID, content=[THINKING, {"type": "text", "text": "so"}]), result()],
            id="thinking",
        ),
        pytest.param(
            [user(), calling(ID, content=[], prefix=False), result()],
            id="no chunks, and a prefix that is false",
        ),
        pytest.param(
            [user(), calling("call_12345-x"), result("call_12345-x")],
            id="an id of any characters",
        ),
        pytest.param(
            [user(), calling(ID, arguments={"a": 1}), result(content=[])],
            id="arguments that are an object",
        ),
        pytest.param(
            [user(), calling(ID, arguments="cut off"), result(name="f")],
            id="arguments that are no JSON",
        ),
        pytest.param(
            [user([{"type": "document_url", "document_url": "https://a.b/c.pdf"}])], id="a document"
        ),
        pytest.param(
            [
                user([{"type": "image_url", "image_url": "https://a.b/c.png"}]),
                {"role": "assistant", "content": "It is", "prefix": True},
            ],
            id="an image and a prefix",
        ),
        pytest.param(
            [{"role": "system", "content": [{"type": "text", "text": "be brief"}]}, user()],
            id="system chunks",
        ),
        pytest.param(
            [
                user(),
                calling(ID),
                result(
                    content=[
                        {
                            "type": "image_url",
                            "image_url": {"url": "https://a.b/c.png", "detail": "low"},
                        }
                    ]
                ),
            ],
            id="a result that shows something",
        ),
    ],
)
def test_a_turn_that_nothing_changed_goes_back_as_it_came(
    chat: Conversation, messages: list[Any]
) -> None:
    """The log and the list give back every byte."""
    assert validate(messages, "mistral") == []
    chat.record_messages(messages, "mistral")
    history = model_history(chat.events())
    assert history.render("mistral") == {"messages": messages}
    assert history.repairs_for("mistral") == []
    assert repair_messages(messages, "mistral").messages == messages


def test_ids_become_nine_characters_the_same_on_both_halves() -> None:
    """Ids are stable and different, and legal ids do not change."""
    given = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}}
                for i in ("call_1", "call_2", "null", ID)
            ],
        },
        *(
            {"role": "tool", "tool_call_id": i, "content": i}
            for i in ("call_1", "call_2", "null", ID)
        ),
    ]
    repaired = repair_messages([user(), *given], "openai", "mistral")
    (_, asked, *results) = repaired.messages
    ids = [call["id"] for call in asked["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in results]
    assert len(set(ids)) == 4
    assert ids[3] == ID
    assert ids[0] == nine_characters("call_1")
    assert [repair.rule for repair in repaired.repairs] == ["id", "id", "id"]
    assert validate(repaired.messages, "mistral") == []


def test_the_spelling_of_an_id_stays() -> None:
    """The expected ids are written down, so that no release changes ids in caches."""
    assert nine_characters("call_1") == "Xg25RsGKd"
    assert nine_characters("abcdefghi") == "abcdefghi"
    assert nine_characters("") != nine_characters("\ud800")


def test_the_last_message_can_be_continued() -> None:
    """A last assistant message is marked as a prefix.

    The mark goes when another message follows.
    """
    said = {"role": "assistant", "content": "It is"}
    ended = repair_messages([user(), said], "openai", "mistral")
    assert ended.messages == [user(), {**said, "prefix": True}]
    assert [(repair.what, repair.rule) for repair in ended.repairs] == [("added", "MI03")]
    went_on = repair_messages([user(), {**said, "prefix": True}, user()], "mistral")
    assert went_on.messages == [user(), said, user()]
    assert [(repair.what, repair.rule) for repair in went_on.repairs] == [("dropped", "MI03")]
    alone = repair_messages([{"role": "system", "content": "be brief"}], "openai", "mistral")
    assert [message["role"] for message in alone.messages] == ["system", "user"]


def test_the_assistant_speaks_between_results_and_the_user(chat: Conversation) -> None:
    """Without it the API answers 400; the repair is named, and the user's words stay the last."""
    messages = [user(), calling(ID), result(), user("stop"), calling(ID), result()]
    bridge = {"role": "assistant", "content": "[The results were received.]"}
    expected = [*messages[:3], bridge, *messages[3:]]
    repaired = repair_messages(messages, "mistral")
    assert repaired.messages == expected
    assert [(repair.what, repair.rule) for repair in repaired.repairs] == [("added", "MI03")]
    assert validate(expected, "mistral") == []
    assert repair_messages(expected, "mistral").repairs == []
    chat.record_messages(messages[:3], "mistral")
    shown = model_history(chat.events()).render("mistral")["messages"]
    chat.record_messages(messages[3:], "mistral")
    grown = model_history(chat.events()).render("mistral")["messages"]
    assert grown == expected
    assert grown[: len(shown)] == shown


def test_an_image_of_a_result_comes_after_the_assistants_word() -> None:
    """An image of another provider's result is a user's message, which is bridged like any."""
    shot = {"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}
    given = [
        {"role": "user", "content": "look"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": [shot]}],
        },
    ]
    repaired = repair_messages(given, "anthropic", "mistral")
    assert [message["role"] for message in repaired.messages][1:] == [
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert validate(repaired.messages, "mistral") == []


def test_a_call_in_the_first_message_gets_a_message_before_it() -> None:
    """Without a message before it the API would not count its result."""
    repaired = repair_messages([calling(ID), result()], "mistral")
    assert [message["role"] for message in repaired.messages] == ["user", "assistant", "tool"]
    assert [(repair.what, repair.rule) for repair in repaired.repairs] == [("added", "MI02")]


def test_system_text_stands_before_the_assistants(chat: Conversation) -> None:
    """Later system messages become the user's text; images in them are named."""
    chat.add_message("system", [Text("be brief"), Image("https://a.b/c.png"), Image(data="AAE=")])
    chat.add_message("developer", "really")
    chat.add_message("user", "q")
    chat.add_message("assistant", "a")
    chat.add_message("system", "it rains")
    shown = model_history(chat.events()).render("mistral")["messages"]
    assert [message["role"] for message in shown] == [
        "system",
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert [chunk["text"] for chunk in shown[0]["content"]] == [
        "be brief",
        "[image https://a.b/c.png]",
        "[image]",
    ]
    assert shown[-1]["content"] == "[system] it rains"
    assert validate(shown, "mistral") == []


def test_images_and_foreign_parts_become_chunks(chat: Conversation) -> None:
    """An image becomes its address or data; another provider's document is named."""
    document = Opaque("anthropic", {"type": "document", "source": {}})
    chat.add_message("user", [Image("https://a.b/c.png"), Image(data="AAE="), Text(""), document])
    (shown,) = model_history(chat.events()).render("mistral")["messages"]
    assert shown["content"] == [
        {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAE="}},
        {"type": "text", "text": "[document of anthropic, not shown here]"},
    ]


@pytest.mark.parametrize(
    ("given", "image"),
    [
        ("https://a.b/c.png", Image("https://a.b/c.png")),
        ({"url": "https://a.b/c.png"}, Image("https://a.b/c.png")),
        ("data:image/gif;base64,AAE=", Image(None, "AAE=", "image/gif")),
        ({"url": "x", "detail": "low"}, None),
        (5, None),
    ],
)
def test_images_are_read_in_every_form(given: Any, image: Image | None) -> None:
    """An image has an address or data; one with more members is kept whole."""
    chunk = {"type": "image_url", "image_url": given}
    (item,) = parse([user([chunk])], "mistral")
    assert item.parts == (image or Opaque("mistral", chunk),)  # type: ignore[union-attr]


def test_thinking_goes_with_its_whole_turn_or_not_at_all(chat: Conversation) -> None:
    """Thinking is dropped with a call that is left out; another provider never gets it."""
    chat.record_messages(
        [user(), calling(ID, "zzzzzzzz9", content=[THINKING]), result()], "mistral"
    )
    dropped = model_history(chat.events(), open_calls="drop")
    assert "hm" not in str(dropped.render("mistral"))
    assert "reasoning" in {repair.rule for repair in dropped.repairs_for("mistral")}
    answered = model_history(chat.events())
    assert answered.render("mistral")["messages"][1]["content"] == [THINKING]
    assert "hm" not in str(answered.render("openai"))


def test_members_that_mistral_does_not_know_are_left_out(chat: Conversation) -> None:
    """Each is named, by the list and by the log, and everything else stays as it was."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}
    asked = calling(ID, content=[thought, {"type": "text", "text": "so", "index": 0}])
    asked["tool_calls"][0]["function"]["parsed_arguments"] = {}
    asked = {**asked, "reasoning_content": "hm", "refusal": None}
    given = [{**user(), "name": "a"}, asked, result(is_error=False), user("on")]
    repaired = repair_messages(given, "mistral")
    assert repaired.messages == [
        user(),
        calling(ID, content=[thought, {"type": "text", "text": "so"}]),
        result(),
        {"role": "assistant", "content": RECEIVED},
        user("on"),
    ]
    whys = [repair.why for repair in repaired.repairs if repair.rule == "MI04"]
    assert [why.partition(":")[0] for why in whys] == [
        "name of a message of the user",
        "reasoning_content, refusal of a message of the assistant",
        "parsed_arguments of a call",
        "index of a chunk (text)",
        "is_error of a message of the tool",
    ]
    assert validate(repaired.messages, "mistral") == []
    chat.record_messages(given, "mistral")
    history = model_history(chat.events())
    for _ in range(2):  # the second request takes up what the first has made
        made, repairs = history.rendered("mistral")
        assert made["messages"] == repaired.messages
        assert [repair.why for repair in repairs if repair.rule == "MI04"] == whys


def test_an_older_model_gets_ids_of_nine_characters() -> None:
    """Call and result have the same; where no model is named, an id of Mistral's stays."""
    given = [user(), calling("call_12345-x", "x"), result("call_12345-x"), result("x")]
    assert repair_messages(given, "mistral").messages == given
    for model in ("mistral-large-2512", "magistral-medium-2509", "mistral-large-latest"):
        assert validate(given, "mistral", model=model) == []
    for model in ("mistral-large-2407", "open-mistral-nemo", "mistralai/pixtral-12b"):
        assert {each.level for each in validate(given, "mistral", model=model)} == {"hard"}
        made = repair_messages(given, "mistral", model=model)
        one, two = (nine_characters(each) for each in ("call_12345-x", "x"))
        assert made.messages == [user(), calling(one, two), result(one), result(two)]
        assert {repair.rule for repair in made.repairs} == {"MI01"}
        assert validate(made.messages, "mistral", model=model) == []


def test_an_id_of_another_provider_becomes_nine_characters() -> None:
    """The service refused them; a model whose tokenizer takes any id gets them as they are."""
    given = [user(), calling("call_Abc123DefGhi"), result("call_Abc123DefGhi")]
    nine = nine_characters("call_Abc123DefGhi")
    assert repair_messages(given, "mistral").messages == [user(), calling(nine), result(nine)]
    assert repair_messages(given, "mistral", model="mistral-large-2512").messages == given


def test_the_models_whose_tokenizer_asks_for_nine_characters_are_known() -> None:
    """The table of mistral-common says the same of each model that it names."""
    pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.mistral import MODEL_NAME_TO_TOKENIZER_CLS

    table: dict[str, Any] = MODEL_NAME_TO_TOKENIZER_CLS
    for model, made in table.items():
        names = {made.__name__, *made.__code__.co_names}  # to call it needs sentencepiece
        asks = "MI01*" in model_rules("mistral", model).refuses
        assert asks is not names.isdisjoint(("v3", "v7", "v11")), model


def test_the_known_members_are_those_of_the_sdk() -> None:
    """A member that the SDK's types have is sent, and no other is."""
    models = pytest.importorskip("mistralai.client.models")
    chunks = import_module("mistralai.client.models.contentchunk")._CONTENT_CHUNK_VARIANTS
    named: list[tuple[Any, Any]] = [
        *((getattr(models, f"{role.title()}Message"), MEMBERS[role]) for role in MEMBERS),
        (models.ToolCall, CALL_MEMBERS),
        (models.FunctionCall, FUNCTION_MEMBERS),
        (models.ImageURL, IMAGE_MEMBERS),
        *((made, CHUNK_MEMBERS[kind]) for kind, made in chunks.items()),
    ]
    assert chunks.keys() == CHUNK_MEMBERS.keys()
    for model, known in named:
        sent = {field.alias or name for name, field in model.model_fields.items()}
        assert sent == known, model


def test_an_object_that_says_nothing_is_no_message() -> None:
    """Texts are the user's, and objects without a message are left out."""
    kept = repair_messages(
        [{**user(17), "metadata": 1}, "text", 5, None, {}, {"choices": [5]}, {"choices": 5}],
        "mistral",
    ).messages
    assert kept == [user("17"), user("text"), user("5")]


def test_errors_and_notes_are_part_of_the_text(chat: Conversation) -> None:
    """The API has no flag for errors."""
    for number in (1, 2):
        call = chat.request("f", {})
        attempt = chat.start(call.id)
        assert attempt is not None
        if number == 1:
            chat.fail(call.id, ValueError("no"))
        else:
            chat.complete(call.id, "R")
    shown = model_history(chat.events(), collapse="failed").render("mistral")["messages"]
    assert shown[-1]["content"].startswith("R\n[1 other attempt failed")
    every = model_history(chat.events(), collapse="none").render("mistral")["messages"]
    assert every[2]["content"] == '{"error":"no"}'
    other = repair_messages(
        [user(), calling(ID), result(content="no", is_error=True), calling(ID), result()],
        "mistral",
        collapse="failed",
    ).messages
    assert other[2]["content"].startswith("R\n[1 other attempt failed: no")


@pytest.mark.parametrize(
    ("message", "role"),
    [
        ({"tool_calls": [{"name": "f", "arguments": {}}]}, "assistant"),
        ({"tool_call_id": ID, "content": "R"}, "tool"),
        ({"content": "hi"}, "user"),
        ({"role": "model", "content": "hi"}, "assistant"),
    ],
)
def test_a_missing_role_is_detected_from_the_message(message: dict[str, Any], role: str) -> None:
    """An unknown role is replaced in the same way."""
    (item,) = parse([message], "mistral")
    assert getattr(item, "role", "tool") == role


def test_images_of_a_result_cross_where_they_can_be_shown() -> None:
    """Providers whose results hold images get them; older Mistral models take only text."""
    chunks = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": "https://a.b/c"}]
    given = [user(), calling(ID), result(content=chunks)]
    crossed = repair_messages(given, "mistral", "anthropic").messages
    (answer,) = crossed[2]["content"]
    assert [block["type"] for block in answer["content"]] == ["text", "image"]
    back = repair_messages(crossed, "anthropic", "mistral")
    assert back.messages[2]["content"] == "see\n[image]"
    assert "foreign-part" in {repair.rule for repair in back.repairs}


def test_mistrals_own_objects_are_recorded(chat: Conversation) -> None:
    """The SDK's objects are recorded and rendered unchanged."""
    models = pytest.importorskip("mistralai.client.models", reason="mistralai is not installed")
    function = models.FunctionCall(name="f", arguments={"a": 1})
    message = models.AssistantMessage(
        content=[models.ThinkChunk(thinking=[models.TextChunk(text="hm")])],
        tool_calls=[models.ToolCall(id=ID, function=function)],
    )
    chat.record(models.UserMessage(content="q"), "mistral")
    choice = models.ChatCompletionChoice(index=0, message=message, finish_reason="tool_calls")
    response = models.ChatCompletionResponse(
        id="r",
        object="chat.completion",
        model="m",
        usage=models.UsageInfo(),
        created=1,
        choices=[choice],
    )
    (call,) = chat.record(response, "mistral")
    chat.record(models.ToolMessage(content="R", tool_call_id=ID), "mistral")
    assert (call.id, call.call.arguments) == (ID, {"a": 1})
    shown = model_history(chat.events()).render("mistral")["messages"]
    assert validate(shown, "mistral") == []
    assert [
        models.UserMessage(**shown[0]),
        models.AssistantMessage(**shown[1]),
        models.ToolMessage(**shown[2]),
    ] == [
        models.UserMessage(content="q"),
        message,
        models.ToolMessage(content="R", tool_call_id=ID),
    ]


def test_a_call_that_the_sdk_gave_no_id_gets_one(chat: Conversation) -> None:
    """The SDK writes the word null as the missing id."""
    (call,) = chat.record(calling("null"), "mistral")
    assert call.provider_call_id is None
    chat.record(result("null"), "mistral")
    shown = model_history(chat.events()).render("mistral")["messages"]
    assert validate(shown, "mistral") == []
    assert shown[-1] == result(nine_characters(call.id))


def test_messages_in_another_form_are_parsed_for_their_content(chat: Conversation) -> None:
    """Calls without a wrapper, texts of a wrong type and unknown chunks are read."""
    thinking = {"type": "thinking"}
    chat.record_messages(
        [
            user([{"type": "text", "text": ""}, {"type": "text", "text": 5}, "a", None, {}, [1]]),
            user([{"type": "image_url", "image_url": 5}, {"type": "text", "text": "b", "x": 1}]),
            "",
            {"role": "assistant", "content": 5, "tool_calls": ["x", {"name": "g"}]},
            {"role": "assistant", "content": [thinking], "tool_calls": {}},
            {"role": "assistant", "content": [thinking]},
            {"role": "system", "content": ""},
            result(5, None),
            {**result(), "name": "no name"},
        ],
        "mistral",
    )
    history = model_history(chat.events())
    shown = history.render("mistral")["messages"]
    assert validate(shown, "mistral") == []
    said = str(shown)
    for text in ("'5'", "'a'", "'1'", "'b'", "'g'", "[Result of call abcDEF123"):
        assert text in said, text
    assert history.render("openai") == model_history(chat.events()).render("openai")


def test_parts_made_by_hand_are_sent_as_they_are(chat: Conversation) -> None:
    """Parts that are not valid chunks are sent unchanged, too."""
    chat.add_message("assistant", [Opaque("mistral", "x"), Text("a")])
    chat.add_message("system", [])
    chat.add_message("user", [])
    _, shown = model_history(chat.events()).render("mistral")["messages"]
    assert shown["content"][1] == {"type": "text", "text": "a"}
