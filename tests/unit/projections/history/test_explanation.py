"""`explain`: what the model sees, and why it differs from the log."""

from __future__ import annotations

import pytest

from eventstore import Conversation
from eventstore.providers import PROVIDERS
from projections import model_history


def test_a_history_that_needed_nothing_says_so(chat: Conversation) -> None:
    """The turns are listed all the same."""
    chat.add_message("user", "hello")
    assert model_history(chat.events()).explain().splitlines() == [
        "1 turn, 0 calls: nothing had to be changed",
        "   1  user       hello",
    ]


def test_each_repair_stands_under_its_call(chat: Conversation) -> None:
    """The line says what was answered, why, and from which events."""
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


def test_a_collapsed_call_is_explained_apart_from_the_shown_calls(chat: Conversation) -> None:
    """The survivor carries the note; the call that is not shown stands at the end."""
    for number in range(2):
        chat.request("f", {"a": 1}, call_id=f"call_{number}")
        chat.start(f"call_{number}")
        chat.add_message("assistant", "again")
    chat.fail("call_0", ValueError("busy"))
    chat.complete("call_1", "")
    text = model_history(chat.events(), collapse="failed").explain()
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


def test_changes_for_a_providers_form_are_explained_on_request(chat: Conversation) -> None:
    """Each change for the provider comes with the rule that asks for it."""
    chat.add_message("system", "Be brief.")
    chat.add_message("user", [])
    history = model_history(chat.events())
    assert "AN10" not in history.explain()
    assert "moved [AN10]: system text is a parameter" in history.explain("anthropic")
    assert "(no text)" in history.explain()


def test_an_explanation_names_few_events_and_escapes_control_codes(chat: Conversation) -> None:
    """At most some events are named, and text of the log is escaped."""
    for number in range(8):
        chat.add_message("user", f"\x1b[2J{number}\n")
        chat.add_message("assistant", "ok")
    text = model_history(chat.events(), last_turns=1).explain()
    assert "(events 1, 2, 3, 4, 5, ...)" in text
    assert "\x1b" not in text
    assert "\\x1b[2J7" in text


@pytest.mark.parametrize("provider", sorted({*PROVIDERS} - {"anthropic"}))
def test_content_that_a_provider_refuses_is_explained_under_its_turn(
    chat: Conversation, provider: str
) -> None:
    """The line names the event that holds the part or member."""
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    marked = {"type": "image", "source": source, "cache_control": {"type": "ephemeral"}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    chat.record_messages(
        [
            {"role": "user", "content": [{"type": "text", "text": "look"}, marked]},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "a bird"}]},
        ],
        "anthropic",
    )
    history = model_history(chat.events())
    dropped = [(r.rule, r.versions) for r in history.repairs_for(provider) if r.what == "dropped"]
    assert sorted(dropped) == [("foreign-part", (1,)), ("reasoning", (2,))]
    lines = history.explain(provider).splitlines()
    assert [line[:30] for line in lines[1:5]] == [
        "   1  user       look",
        "      - dropped [foreign-part]",
        "   2  assistant  a bird",
        "      - dropped [reasoning]: t",
    ]
    assert lines[2].endswith("cache_control of an image has no place here (events 1)")
