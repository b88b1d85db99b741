"""The messages of Chat Completions: parsed and rendered."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import Conversation, validate
from eventstore.providers import list_key
from projections import model_history, repair_messages

OURS = "openai"
PNG = "iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
SHEET = {"type": "file", "file": {"filename": "a.csv", "file_data": "data:text/csv;base64,YSxi"}}
USER = {"role": "user", "content": "hello"}
PATCH = "*** Begin Patch"


def call(call_id: str = "c1", name: str = "get", arguments: str = "{}") -> dict[str, Any]:
    """Return a call of a function."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def custom(text: Any = PATCH) -> dict[str, Any]:
    """Return a call of a custom tool."""
    return {"id": "c1", "type": "custom", "custom": {"name": "apply", "input": text}}


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    """Return an assistant message with these calls."""
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(content: Any = "R", call_id: str = "c1") -> dict[str, Any]:
    """Return a tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def text(said: str) -> dict[str, Any]:
    """Return a part of text."""
    return {"type": "text", "text": said}


@pytest.mark.parametrize("shown", [IMAGE, SOUND, SHEET], ids=["image", "sound", "file"])
def test_images_sounds_and_files_of_a_result_follow_the_results(
    chat: Conversation, shown: dict[str, Any]
) -> None:
    """A tool message holds only text: after all results of the turn the user shows the rest."""
    messages = [USER, calling(call(), call("c2")), result([text("SHOT"), shown]), result("B", "c2")]
    repaired = repair_messages(messages, OURS)
    first, second, last = repaired.messages[2:]
    assert first["content"].startswith("SHOT\n[")
    assert (second, last["role"]) == (result("B", "c2"), "user")
    assert last["content"] == [text("[Shown by get:]"), shown]
    assert validate(repaired.messages, OURS) == []
    assert [(repair.what, repair.rule) for repair in repaired.repairs] == [
        ("rewritten", "form"),
        ("moved", "foreign-part"),
    ]
    again = repair_messages(repaired.messages, OURS)
    assert (again.messages, again.repairs) == (repaired.messages, [])
    chat.record_messages(messages, OURS)
    assert model_history(chat.events()).render(OURS)["messages"] == repaired.messages


@pytest.mark.parametrize("target", ["anthropic", "bedrock", "openai-responses"])
def test_an_image_in_a_result_stays_in_it_where_results_show_images(target: Any) -> None:
    """No user's message is added, and the image is beside the text."""
    messages = [USER, calling(call()), result([text("SHOT"), IMAGE])]
    made = repair_messages(messages, OURS, target).messages
    assert PNG in str(made) or r"\x89PNG" in str(made)
    assert "Shown by" not in str(made)
    assert validate(made, target) == []


@pytest.mark.parametrize("target", ["cohere", "gemini", "mistral", "ollama"])
def test_an_image_in_a_result_follows_it_where_results_are_text(target: Any) -> None:
    """The bytes of the image arrive."""
    messages = [USER, calling(call()), result([text("SHOT"), IMAGE])]
    made = repair_messages(messages, OURS, target).messages
    assert PNG in str(made)
    assert validate(made, target) == []


def test_an_image_in_a_result_without_a_call_is_kept() -> None:
    """Such a result becomes the user's text, with the image in it."""
    made = repair_messages([USER, result([text("SHOT"), IMAGE])], OURS).messages
    assert made[1]["role"] == "user"
    assert IMAGE in made[1]["content"]
    assert validate(made, OURS) == []


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param([{"role": "user", "content": []}], id="no parts"),
        pytest.param([{"role": "system", "content": []}], id="a system message without parts"),
    ],
)
def test_a_message_without_parts_is_left_out(broken: list[Any]) -> None:
    """The reference asks for one part at least."""
    repaired = repair_messages([*broken, USER], OURS)
    assert repaired.messages == [USER]
    assert [repair.rule for repair in repaired.repairs] == ["empty"]


def test_a_call_gets_its_type() -> None:
    """Some clients leave it out, and Azure refuses the request."""
    messages = [USER, calling({"id": "c1", "function": call()["function"]}), result()]
    assert repair_messages(messages, OURS).messages == [USER, calling(call()), result()]


def test_another_apis_thinking_leaves_the_content() -> None:
    """The text beside it stays."""
    thinking = {"type": "thinking", "thinking": "HM", "signature": "s"}
    said = {"role": "assistant", "content": [thinking, text("SAID")]}
    made = repair_messages([USER, said, USER], OURS).messages
    assert made == [USER, {"role": "assistant", "content": [text("SAID")]}, USER]


def test_a_message_makes_at_most_128_calls() -> None:
    """The others are made by a message of their own, each with its results."""
    messages = [
        USER,
        {**calling(*(call(f"c{i}") for i in range(300))), "content": "SAID"},
        *(result(f"R{i}", f"c{i}") for i in range(300)),
    ]
    repaired = repair_messages(messages, OURS)
    made = [message for message in repaired.messages if message["role"] == "assistant"]
    assert [len(message["tool_calls"]) for message in made] == [128, 128, 44]
    assert [message["content"] for message in made] == ["SAID", None, None]
    assert [m["content"] for m in repaired.messages if m["role"] == "tool"] == [
        f"R{i}" for i in range(300)
    ]
    assert validate(repaired.messages, OURS) == []
    assert [(repair.what, repair.rule) for repair in repaired.repairs] == [("moved", "OA04")]


@pytest.mark.parametrize(("given", "kept"), [(PATCH, PATCH), (5, "5"), ('{"a": 1}', '{"a": 1}')])
def test_a_custom_call_stays_one(given: Any, kept: str) -> None:
    """Its input is any text; without a result it is not said to be wrong."""
    repaired = repair_messages([USER, calling(custom(given)), USER], OURS)
    assert repaired.messages[1] == calling(custom(kept))
    assert "parsed" not in str(repaired.messages)
    assert validate(repaired.messages, OURS) == []


@pytest.mark.parametrize(
    "target", ["anthropic", "bedrock", "cohere", "gemini", "mistral", "ollama"]
)
def test_a_custom_call_is_a_functions_elsewhere(target: Any) -> None:
    """Its text is the member `input` of the arguments."""
    repaired = repair_messages([USER, calling(custom()), result()], OURS, target)
    assert PATCH in str(repaired.messages)
    assert "raw_arguments" not in str(repaired.messages)
    assert validate(repaired.messages, target) == []
    assert list_key(target) in ("messages", "contents")
    assert [repair.what for repair in repaired.repairs if repair.rule == "arguments"] == ["wrapped"]
