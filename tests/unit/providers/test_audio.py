"""Sounds in messages and results, from one provider to another."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import validate
from eventstore.providers import list_key
from projections import repair_messages

WAV = "UklGRiQAAABXQVZF"
OF_OPENAI = {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}
OF_MISTRAL = {"type": "input_audio", "input_audio": WAV}
OF_GEMINI = {"inlineData": {"mimeType": "audio/wav", "data": WAV}}
PARTS = {"gemini": OF_GEMINI, "mistral": OF_MISTRAL, "openai": OF_OPENAI}


def said(provider: str, part: Any) -> Any:
    """Return a user's message with a sound, in a provider's form."""
    return {"role": "user", "parts" if provider == "gemini" else "content": [part]}


@pytest.mark.parametrize("source", sorted(PARTS))
@pytest.mark.parametrize("target", sorted(PARTS))
def test_a_sound_of_the_user_crosses_between_providers_that_play_it(
    source: Any, target: Any
) -> None:
    """The part is made anew in the form of the target."""
    messages = [said(source, PARTS[source])]
    repaired = repair_messages(messages, source, target)
    assert repaired.messages == [said(target, PARTS[target])]
    assert validate(repaired.messages, target) == []


@pytest.mark.parametrize("target", sorted(PARTS))
def test_a_sound_in_a_result_follows_it(target: Any) -> None:
    """The result itself names it, and the user plays it."""
    messages = [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [OF_OPENAI]},
    ]
    made = repair_messages(messages, "openai", target).messages
    last = made[-1]
    assert last["role"] == "user"
    assert PARTS[target] in last[next(key for key in ("parts", "content") if key in last)]
    assert "[input_audio]" in str(made[2])
    assert validate(made, target) == []


def test_a_sound_in_a_response_of_gemini_crosses() -> None:
    """Its parts hold it beside the response."""
    messages = [
        {"role": "user", "parts": [{"text": "hello"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "get", "args": {}}}]},
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "get",
                        "response": {"output": "R"},
                        "parts": [OF_GEMINI],
                    }
                }
            ],
        },
    ]
    made = repair_messages(messages, "gemini", "openai").messages
    assert OF_OPENAI in made[-1]["content"]
    assert validate(made, "openai") == []


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("gemini", {"inlineData": {"mimeType": "audio/flac", "data": "ZkxhQw=="}}),
        ("mistral", {"type": "input_audio", "input_audio": "https://a.b/c.wav"}),
        ("openai", {"type": "input_audio", "input_audio": {"format": "wav"}}),
        ("gemini", {"inlineData": {"mimeType": "audio/wav"}}),
    ],
)
def test_a_sound_that_the_target_cannot_play_is_reported(source: Any, part: Any) -> None:
    """OpenAI takes WAV and MP3, and no address."""
    target: Any = "openai" if source != "openai" else "gemini"
    made = repair_messages([said(source, part)], source, target)
    assert "[" in str(made.messages[0][next(iter({"parts", "content"} & made.messages[0].keys()))])
    assert "input_audio" not in made.messages[0]
    assert validate(made.messages, target) == []
    assert {repair.what for repair in made.repairs} - {"rewritten"} == {"wrapped"}


@pytest.mark.parametrize("target", ["anthropic", "bedrock", "cohere", "ollama", "openai-responses"])
def test_a_sound_becomes_words_where_none_is_played(target: Any) -> None:
    """The others have no place for a sound, and say so."""
    made = repair_messages([said("openai", OF_OPENAI)], "openai", target)
    assert WAV not in str(made.messages)
    assert "input_audio" in str(made.messages)
    assert validate(made.messages, target) == []
    assert list_key(target)
