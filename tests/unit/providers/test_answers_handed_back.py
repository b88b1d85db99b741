"""A prompt that comes back: what the model was shown of a call is no new answer to it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from eventstore import Conversation, EventStore, Failure, FunctionCall
from eventstore.domain.doubt import MAY_HAVE_TAKEN_EFFECT
from eventstore.domain.finish_reasons import why_not_whole
from eventstore.domain.own_texts import error_as_text, error_of_text
from eventstore.providers.registry import ProviderName, list_key
from projections import model_history

SECRET = Failure.from_exception(RuntimeError("at 10.0.0.7"))
ENDS: dict[str, str | Failure] = {
    "failed": "card declined",
    "failed with other words for the model": Failure(
        SECRET.kind, SECRET.message, model_message="try later"
    ),
    "cut off": why_not_whole("openai", "length") or "",
    "in doubt": Failure(SECRET.kind, "hung up", in_doubt=True),
}


def talk(chat: Conversation) -> None:
    """Let the model ask for a call."""
    chat.add_message("user", "refund order 7")
    chat.turn("", [FunctionCall.of("refund", {"order": 7}, "call12345")])


def prompt_of(chat: Conversation, provider: ProviderName) -> list[Any]:
    """Return the messages that the model reads."""
    messages: list[Any] = model_history(chat).render(provider)[list_key(provider)]
    return messages


@pytest.mark.parametrize("provider", get_args(ProviderName))
@pytest.mark.parametrize("end", [*ENDS, "rejected", "rejected with a reason"])
def test_a_failure_or_refusal_that_is_handed_back_changes_nothing(
    chat: Conversation, store: EventStore, provider: ProviderName, end: str
) -> None:
    """In the conversation itself it is known; in another one the call has not been completed.

    Ollama has no ids: there it is a result of no call, which is kept as text.
    """
    talk(chat)
    if end in ENDS:
        chat.start("call12345")
        chat.fail("call12345", ENDS[end])
    else:
        chat.reject("call12345", "not today" if "reason" in end else None)
    prompt, version = prompt_of(chat, provider), chat.version
    assert len(prompt) >= 3
    chat.record_messages(prompt[-1:], provider)
    assert chat.tools["call12345"].status.name in ("Failed", "Rejected")
    assert chat.version == version + (provider == "ollama")
    other = store.conversation("another")
    other.import_messages(prompt, provider)
    (tool,) = other.tools.values()
    assert tool.status.name == "Failed"
    assert tool.in_doubt is (end == "in doubt")
    assert prompt_of(other, provider) == prompt


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"error":"no"}', "no"),
        ('{"error":"a\\nb"}\n[1 other attempt failed]', "a\nb\n[1 other attempt failed]"),
        ('{"error": "written by others"}', None),
        ('{"error":"no","code":3}', None),
        ('{"error":"no"}\nmore', None),
        ('{"error":null}', None),
        ('{"error":"', None),
    ],
)
def test_only_an_error_as_it_is_written_here_is_read_as_one(text: str, said: str | None) -> None:
    """A result that programs of others wrote stays what it was, byte by byte."""
    assert error_of_text(text) == said
    if said is not None and "\n[" not in text:
        assert error_as_text(said) == text


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "cohere"])
def test_the_words_of_a_doubt_are_a_doubt_wherever_they_stand(
    chat: Conversation, provider: ProviderName
) -> None:
    """A framework may have put them into JSON, or taken the mark of an error away."""
    talk(chat)
    prompt = prompt_of(chat, provider)
    said = f"hung up. {MAY_HAVE_TAKEN_EFFECT}"
    key = "output" if provider == "openai-responses" else "content"
    chat.record_messages([{**prompt[-1], key: f'{{"result":"{said}"}}'}], provider)
    assert chat.tools["call12345"].in_doubt
    assert chat.tools["call12345"].status.name == "Failed"
