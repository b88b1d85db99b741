"""Compactions: a summary that stands for what came before, in place of it."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import Conversation, validate
from eventstore.providers import PROVIDERS, AnyProvider
from projections import model_history, repair_messages

OF_ANTHROPIC = {"type": "compaction", "content": "The user asked for the weather in Rome."}
ENCRYPTED = {"type": "compaction", "content": None, "encrypted_content": "gAAAA"}
ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}


def of_anthropic(block: dict[str, Any]) -> list[Any]:
    """Return a history of Anthropic that begins with a compaction."""
    said = {"role": "assistant", "content": [block, {"type": "text", "text": "Go on?"}]}
    return [{"role": "user", "content": "hi"}, said, {"role": "user", "content": "go on"}]


HISTORIES: list[tuple[AnyProvider, list[Any]]] = [
    ("anthropic", of_anthropic(OF_ANTHROPIC)),
    ("anthropic", of_anthropic(ENCRYPTED)),
    ("openai-responses", [ITEM, {"role": "user", "content": "go on"}]),
]


@pytest.mark.parametrize(("provider", "messages"), HISTORIES)
def test_its_own_provider_gets_a_compaction_back(
    provider: AnyProvider, messages: list[Any], chat: Conversation
) -> None:
    """Through a list and through a log it comes back as it was."""
    repaired = repair_messages(messages, provider)
    assert (repaired.messages, repaired.repairs) == (messages, [])
    chat.import_messages(messages, provider)
    arguments = model_history(chat).render(provider)
    assert messages in arguments.values()


@pytest.mark.parametrize("target", sorted(PROVIDERS))
@pytest.mark.parametrize(("provider", "messages"), HISTORIES)
def test_another_provider_reads_the_summary_or_that_there_is_one(
    provider: AnyProvider, messages: list[Any], target: AnyProvider
) -> None:
    """The model must not think that the conversation has no beginning."""
    if target == provider:
        return
    crossed = repair_messages(messages, provider, target)
    assert validate(crossed.messages, target) == []
    reported = str(crossed.messages)
    if messages == of_anthropic(OF_ANTHROPIC):
        assert OF_ANTHROPIC["content"] in reported
    else:
        assert f"Only {provider} can read it" in reported
        assert "gAAAA" not in reported
    assert [repair.what for repair in crossed.repairs if repair.rule == "foreign-part"] != []


@pytest.mark.parametrize("target", sorted({*PROVIDERS} - {"anthropic"}))
def test_another_provider_gets_nothing_that_the_summary_stands_for(
    target: AnyProvider, chat: Conversation
) -> None:
    """Anthropic ignores what is before it, and so the others do not see it. The system's stays."""
    chat.add_message("system", "be brief")
    messages = of_anthropic(OF_ANTHROPIC)
    chat.record_messages(messages, "anthropic")
    history = model_history(chat)
    rendered = str(history.render(target))
    assert "be brief" in rendered
    assert "'hi'" not in rendered
    assert OF_ANTHROPIC["content"] in rendered
    assert [r.what for r in history.repairs_for(target) if r.rule == "compaction"] == ["dropped"]
    assert "'hi'" in str(history.render("anthropic"))


def test_a_summary_that_nobody_else_can_read_hides_nothing(chat: Conversation) -> None:
    """The log has the past, and so another provider gets it."""
    chat.record_messages(of_anthropic(ENCRYPTED), "anthropic")
    assert "'hi'" in str(model_history(chat).render("openai"))
