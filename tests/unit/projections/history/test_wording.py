"""The next prompt has what a framework told the model of a call, and the log why it failed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from eventstore import EventStore, FunctionCall, Redact, ToolFailed
from eventstore.append.commands import attempts
from eventstore.domain.wording import Wording, later_words
from projections import model_history

HIDDEN = "the vault is open"
SHOWN = "An error occurred."
NATIVE = {"type": "function_call_output", "call_id": "call_1", "output": SHOWN}


def prompts(chat: Any) -> tuple[str, str]:
    """Return the next prompt of a view that is kept, and of one that is made anew."""
    kept = model_history(chat).render("openai-responses")
    new = model_history(chat.events()).render("openai-responses")
    assert kept == new
    return str(kept), str(model_history(chat.events()).render("anthropic"))


@pytest.mark.parametrize("later", [False, True])
def test_an_error_has_the_words_of_the_framework(later: bool) -> None:
    """The exception is in the log alone, whether the words were known at its end or later."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.add_message("user", "hi")
        chat.turn("", [FunctionCall("f", {}, "call_1")])
        wording = None if later else Wording(SHOWN, "openai-responses", NATIVE)
        chat.begin("call_1").fail(RuntimeError(HIDDEN), wording=wording)
        if later:
            assert HIDDEN in prompts(chat)[0]
            chat.append(later_words("call_1", SHOWN))
        own, other = prompts(chat)
        assert (HIDDEN in own, SHOWN in own) == (False, True)
        assert (HIDDEN in other, SHOWN in other) == (False, True)
        assert ('{"error"' in own.replace("'", '"')) == later  # its own form is kept
        assert chat.tools["call_1"].status.error == HIDDEN  # type: ignore[union-attr]


def test_a_result_has_the_words_that_a_guardrail_left() -> None:
    """The log has what the tool returned."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.add_message("user", "hi")
        chat.turn("", [FunctionCall("f", {}, "call_1")])
        chat.start("call_1")
        tool = chat.complete("call_1", {"pin": HIDDEN})
        chat.append(later_words("call_1", SHOWN))
        assert HIDDEN not in "".join(prompts(chat))
        assert SHOWN in prompts(chat)[0]
        assert tool.response is not None
        assert tool.response.result == {"pin": HIDDEN}


def test_a_redaction_and_a_rule_reach_the_words_of_a_framework() -> None:
    """The words are texts of the log as all others."""
    rule = Redact("vault", re.compile("vault"))
    with EventStore.open("sqlite://", redact=[rule]) as store:
        chat = store.conversation("c")
        chat.turn("", [FunctionCall("f", {}, "call_1")])
        chat.start("call_1")
        native = {**NATIVE, "output": HIDDEN}
        command = attempts.fail("c", "call_1", "why")
        wording = Wording(HIDDEN, "openai-responses", native)
        chat.session.run(command.worded(wording))
        event = list(chat.events())[-1].event
        assert isinstance(event, ToolFailed)
        assert event.native is None
        assert event.failure.model_message == "the [redacted: vault] is open"
        chat.append(later_words("call_1", "the door is open"))
        store.redact("c", by="ann", text="door")
        assert "door" not in "".join(prompts(chat))
