"""Parts of one provider as text for another."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eventstore import Opaque
from eventstore.providers import Answer, Call, answer_text
from eventstore.providers.model import Change
from eventstore.providers.parts_as_text import foreign_text
from eventstore.providers.registry import PROVIDERS, adapter_of
from projections import repair_messages

DOCUMENT = {"type": "document", "source": {"type": "text", "data": "the whole text"}}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"type": "input_text", "text": "hello"}, "hello"),
        ({"text": "hm", "thought": True}, None),
        ({"thoughtSignature": "c2ln"}, None),
        ({"type": "reasoning", "summary": []}, None),
        ({"type": "item_reference", "id": "fc_1"}, None),
        ({"type": "refusal", "refusal": "I will not"}, "I will not"),
        ({"type": "refusal"}, "[refusal of them, not shown here]"),
        ({"thoughtSignature": "s", "code": {"code": "1+1"}}, "[code of them]\n1+1"),
        ({"codeExecutionResult": {"output": "2"}}, "[codeExecutionResult of them]\n2"),
        ({"codeExecutionResult": {"output": ""}}, "[codeExecutionResult of them, not shown here]"),
        ({"fileData": {"fileUri": "gs://b/f"}}, "[fileData of them: gs://b/f]"),
        ({"type": "input_file", "filename": "a.pdf"}, "[input_file of them: a.pdf]"),
        ({"type": "input_file", "file_url": "data:,x"}, "[input_file of them, not shown here]"),
        (DOCUMENT, "[document of them]\nthe whole text"),
        (
            {"type": "document", "source": {"type": "content", "content": [{"text": "a"}]}},
            "[document of them]\na",
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://a.b"}},
            "[document of them: https://a.b]",
        ),
        (
            {"type": "search_result", "source": "https://a.b", "content": [{"text": "found"}]},
            "[search_result of them]\nfound",
        ),
        (
            {"type": "web_search_call", "action": {"type": "search", "query": "who"}},
            "[web_search_call of them]\nwho",
        ),
        (
            {"type": "code_interpreter_call", "code": "1+1", "outputs": [{"logs": "2"}]},
            "[code_interpreter_call of them]\n1+1\n2",
        ),
        (
            {"type": "server_tool_use", "name": "fetch", "input": {"url": "a"}},
            '[server_tool_use of them]\nfetch\n{"url":"a"}',
        ),
        (
            {"type": "web_fetch_tool_result", "content": {"url": "data:,x", "content": DOCUMENT}},
            "[web_fetch_tool_result of them]\nthe whole text",
        ),
        (
            {"toolResult": {"content": [{"text": "a"}, "b", {"json": " "}, 5]}},
            "[toolResult of them]\na\nb",
        ),
        (
            {"type": "image_generation_call", "result": "AAEC"},
            "[image_generation_call of them, not shown here]",
        ),
        ({"type": "compaction", "content": "a summary"}, "[compaction of them]\na summary"),
        ({"type": "compaction", "content": None}, None),
        ({"type": "tool_addition", "tool": {"name": "g"}}, None),
        ({"type": "citationsContent"}, "[citationsContent of them, not shown here]"),
        ({"type": ["x"], "inlineData": 5}, "[type of them, not shown here]"),
        ({}, "[part of them, not shown here]"),
        ("junk", "[part of them, not shown here]"),
    ],
)
def test_a_foreign_part_becomes_its_text_or_address(data: Any, said: str | None) -> None:
    """Parts that only their provider reads are left out; every loss is listed."""
    changes: list[Change] = []
    assert foreign_text(Opaque("them", data), changes) == said
    assert len(changes) == (said not in ("hello", "I will not"))


@pytest.mark.parametrize(
    ("data", "lost"),
    [
        ({"type": "text", "text": "t", "citations": [{"url": "a"}]}, "citations"),
        ({"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}, "cache_control"),
        ({"citationsContent": {"content": [{"text": "t"}], "citations": [{}]}}, "citations"),
    ],
)
def test_dropped_members_of_a_text_are_listed(data: Any, lost: str) -> None:
    """The text is kept; members that only its provider reads are listed."""
    changes: list[Change] = []
    assert foreign_text(Opaque("them", data), changes) == "t"
    assert [change.why for change in changes] == [f"{lost} of a text is only for them"]


WITH_SYSTEM_KEY = [name for name in sorted(PROVIDERS) if adapter_of(name).system_key is not None]
"""Providers whose system text stands outside the messages."""

MARKED = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize("target", WITH_SYSTEM_KEY)
def test_a_system_prompt_with_a_mark_is_not_lost(target: str) -> None:
    """A cache mark makes the text an opaque part, which is still rendered."""
    chat = [{"role": "system", "content": [MARKED]}, {"role": "user", "content": "q"}]
    assert repair_messages(chat, "openai", target).system == "Be brief."


@pytest.mark.parametrize("target", ["anthropic", "bedrock", "gemini", "mistral"])
def test_a_later_system_message_keeps_its_text(target: str) -> None:
    """The message becomes a user's text; without text, no message."""
    picture = {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}
    data = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}}
    chat = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "system", "content": [MARKED, picture, data]},
        {"role": "user", "content": "go on"},
    ]
    repaired = repair_messages(chat, "openai", target)
    said = "[system] Be brief.\\n[image https://a.b/c.png]\\n[image]"
    assert said in json.dumps(repaired.messages)
    changes = [{"role": "system", "content": [{"type": "tool_addition", "tool": {}}]}]
    chat = [*chat[:2], *changes, {"role": "user", "content": "go on"}]
    shown = repair_messages(chat, "anthropic", target).messages
    if target != "anthropic":
        assert "[system]" not in json.dumps(shown)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer("paid"), "paid"),
        (Answer("the line is lost", is_error=True), '{"error":"the line is lost"}'),
        (Answer("paid", note="[shortened]"), "paid\n[shortened]"),
        (Answer("no", is_error=True, note="[shortened]"), '{"error":"no"}\n[shortened]'),
    ],
)
def test_an_answer_is_one_text_for_a_framework(answer: Answer, text: str) -> None:
    """Without an error flag the text itself says that it is an error."""
    assert answer_text(answer) == text
    call = Call("c", "look", {}, answer)
    assert answer_text(call) == text
