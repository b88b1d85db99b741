"""Broken histories of Gemini and OpenAI Responses: their logs, and the SDKs' types."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from typing import Any

import pytest
from support.broken import GENERATORS, histories, recordable
from support.tiers import rounds

from eventstore import EventStore, validate
from eventstore.providers import list_key
from projections import History, model_history, repair_messages

OURS = ("gemini", "openai-responses")
EVERY = sorted(GENERATORS)


@pytest.mark.parametrize("provider", OURS)
def test_every_prefix_of_a_recorded_log_renders_validly(provider: str) -> None:
    """Every provider accepts the rendering of a log that is cut or damaged anywhere."""
    with EventStore.open("sqlite://") as store:
        for number, messages in enumerate(recordable(provider, rounds(30, 2_000), "log")):
            chat = store.conversation(f"c{number}")
            chat.record_messages(messages, provider)
            events = list(chat.events())
            fold = History()
            for recorded in events:
                fold.apply(recorded)
                for target in OURS:
                    shown = fold.view().render(target)[list_key(target)]
                    assert validate(shown, target) == []
            damaged = [e for e in events if random.Random(e.event_id).random() < 0.7]
            for target in EVERY:
                assert model_history(events).render(target) == fold.view().render(target)
                shown = model_history(damaged).render(target)[list_key(target)]
                assert validate(shown, target) == []


@pytest.mark.parametrize("provider", OURS)
def test_a_log_shows_what_repairing_the_list_shows(provider: str) -> None:
    """Recording a history, importing it in pieces and repairing it give the same messages."""
    with EventStore.open("sqlite://") as store:
        for number, messages in enumerate(recordable(provider, rounds(60, 5_000), "same")):
            chat, grown = (store.conversation(f"{name}{number}") for name in "cg")
            chat.record_messages(messages, provider)
            for count in range(len(messages) + 1):
                with suppress(ValueError):  # a piece whose only calls are in another's form
                    grown.import_messages(messages[:count], provider)
            for target in ("anthropic", "openai"):
                crossed = _unminted(repair_messages(messages, provider, target).messages)
                # An import in pieces cannot know of a call that comes after its result.
                for each in (chat, grown) if not validate(messages, provider) else (chat,):
                    view = model_history(each.events(), collapse="none").render(target)
                    assert _unminted(view["messages"]) == crossed


def _unminted(messages: list[Any]) -> str:
    """Return the history with minted ids made equal, because they differ between conversations."""
    return re.sub(r"call_[0-9a-f]{24}", "call_minted", repr(messages))


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai", "openai-responses"])
def test_the_sdks_own_types_accept_rendered_items(provider: str) -> None:
    """The types that the providers publish judge the form independently."""
    google = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    items = pytest.importorskip("openai.types.responses", reason="openai is not installed")
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
    an_item = pydantic.TypeAdapter(items.ResponseInputItemParam)
    takes = {"gemini": google.Content.model_validate, "openai-responses": an_item.validate_python}
    for messages in histories(provider, 60, "types"):
        for target in OURS:
            if target != provider:
                for made in repair_messages(messages, provider, target).messages:
                    takes[target](made)


@pytest.mark.parametrize("provider", OURS)
def test_every_option_of_the_view_gives_a_valid_history(provider: str) -> None:
    """The history is valid when calls are left out or collapsed, or turns are cut off."""
    options: list[dict[str, Any]] = [
        {"open_calls": "drop"},
        {"collapse": "all"},
        {"collapse": "failed", "last_turns": 1},
        {"open_calls": "drop", "collapse": "all", "last_turns": 2},
        {"max_tokens": 60, "count_tokens": len},
    ]
    with EventStore.open("sqlite://") as store:
        for number, messages in enumerate(recordable(provider, rounds(100, 10_000), "view")):
            chat = store.conversation(f"c{number}")
            chat.record_messages(messages, provider, is_error=lambda result: "12C" in str(result))
            fold = History().extend(chat.events())
            for chosen in options:
                for target in OURS:
                    shown = fold.view(**chosen).render(target)[list_key(target)]
                    assert validate(shown, target) == []
