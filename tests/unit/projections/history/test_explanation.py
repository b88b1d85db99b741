"""Explaining: what the model sees, and why it is not what was said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eventstore import Conversation, EventStore
from projections import model_history


@pytest.fixture
def chat() -> Iterator[Conversation]:
    """A fresh conversation."""
    with EventStore.open("sqlite://") as store:
        yield store.conversation("c")


def test_a_history_that_needed_nothing_says_so(chat: Conversation) -> None:
    """The turns are listed all the same."""
    chat.add_message("user", "hello")
    assert model_history(chat.events()).explain().splitlines() == [
        "1 turn, 0 calls: nothing had to be changed",
        "   1  user       hello",
    ]


def test_each_repair_stands_under_its_call(chat: Conversation) -> None:
    """What was answered, why and from which events."""
    chat.add_message("user", "go")
    chat.request("refund", {"order": 7}, call_id="call_1")
    chat.start("call_1")
    lines = model_history(chat.events()).explain().splitlines()
    assert lines[0] == "2 turns, 1 call: 1 change"
    assert lines[3] == '      call_1: refund({"order":7})'
    assert lines[4].startswith("        failed: [Started (attempt 1), outcome unknown")
    assert lines[5].startswith("        - answered [open-call]: [Started")
    assert lines[5].endswith("(events 2, 3)")
    assert len(lines) == 6


def test_a_collapsed_call_is_told_apart_from_what_is_shown(chat: Conversation) -> None:
    """The survivor carries the note; the call that is not shown stands at the end."""
    for number in range(2):
        chat.request("f", {"a": 1}, call_id=f"call_{number}")
        chat.start(f"call_{number}")
        chat.add_message("assistant", "again")
    chat.fail("call_0", ValueError("busy"))
    chat.complete("call_1", "")
    text = model_history(chat.events()).explain()
    assert "        (no text)\n        [1 other attempt failed: busy]" in text
    assert "  collapsed call_0 [repeat]: call call_1 repeats it (events" in text
    assert "call_0: f(" not in text


def test_a_call_that_is_left_out_is_not_listed(chat: Conversation) -> None:
    """The turn stays for what it says."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat.record({"role": "assistant", "content": "Let me look.", "tool_calls": [call]})
    lines = model_history(chat.events(), open_calls="drop").explain().splitlines()
    assert lines[:2] == ["1 turn, 0 calls: 1 change", "   1  assistant  Let me look."]
    assert lines[3].startswith("  dropped call_1 [open-call]")


def test_the_form_of_a_provider_is_explained_on_request(chat: Conversation) -> None:
    """Its changes come with the rule that asks for them."""
    chat.add_message("system", "Be brief.")
    chat.add_message("user", [])
    history = model_history(chat.events())
    assert "AN10" not in history.explain()
    assert "moved [AN10]: system text is a parameter" in history.explain("anthropic")
    assert "(no text)" in history.explain()


def test_many_events_are_not_all_named_and_control_codes_do_nothing(chat: Conversation) -> None:
    """Some events are enough; what the log holds is shown as escapes."""
    for number in range(8):
        chat.add_message("user", f"\x1b[2J{number}\n")
        chat.add_message("assistant", "ok")
    text = model_history(chat.events(), last_turns=1).explain()
    assert "(events 1, 2, 3, 4, 5, ...)" in text
    assert "\x1b" not in text
    assert "\\x1b[2J7" in text


@pytest.mark.parametrize("provider", ["openai", "gemini", "bedrock", "ollama", "mistral"])
def test_what_a_provider_does_not_take_stands_under_its_turn(
    chat: Conversation, provider: str
) -> None:
    """With the event that holds it, of whatever part or member of the message it is."""
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    marked = {"type": "image", "source": source, "cache_control": {"type": "ephemeral"}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    chat.record_messages(
        [{"role": "user", "content": [{"type": "text", "text": "look"}, marked]},
         {"role": "assistant", "content": [thought, {"type": "text", "text": "a bird"}]}],
        "anthropic",
    )  # fmt: skip
    history = model_history(chat.events())
    told = [(r.rule, r.versions) for r in history.repairs_for(provider) if r.what == "dropped"]
    assert sorted(told) == [("foreign-part", (1,)), ("reasoning", (2,))]
    lines = history.explain(provider).splitlines()
    assert [line[:30] for line in lines[1:5]] == [
        "   1  user       look",
        "      - dropped [foreign-part]",
        "   2  assistant  a bird",
        "      - dropped [reasoning]: t",
    ]
    assert lines[2].endswith("cache_control of an image has no place here (events 1)")
