"""Broken histories to and from Gemini and OpenAI Responses come out valid, whole, and the same."""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import broken_histories
import broken_items
import pytest

from eventstore import EventStore, validate
from eventstore.wire import PROVIDERS, is_valid, list_key
from projections import History, model_history, repair_messages

ROUNDS = 20_000 if os.environ.get("TOOLLEDGER_LONG") else 200
OURS = ("gemini", "openai-responses")
EVERY = sorted(PROVIDERS)
GENERATORS: dict[str, Callable[[random.Random], list[Any]]] = {
    "anthropic": broken_histories.anthropic,
    "gemini": broken_items.gemini,
    "openai": broken_histories.openai,
    "openai-responses": broken_items.openai_responses,
}


def histories(provider: str, count: int, salt: str = "") -> Iterator[list[Any]]:
    """`count` broken histories, the same in every run."""
    for seed in range(count):
        yield GENERATORS[provider](random.Random(f"{salt}{provider}{seed}"))


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def result_texts(messages: list[Any]) -> Iterator[str]:
    """The texts of the well-formed results; failures may give way to a completion."""
    for message in messages:
        if not isinstance(message, dict):
            continue
        if message.get("type") == "function_call_output" and "role" not in message:
            output = message.get("output")
            for part in output if isinstance(output, list) else [{"text": output}]:
                if isinstance(part, dict) and isinstance(part.get("text"), str):
                    yield part["text"]
        parts = message.get("parts")
        for part in parts if isinstance(parts, list) else ():
            for key in ("functionResponse", "function_response"):
                body = part.get(key) if isinstance(part, dict) else None
                response = body.get("response") if isinstance(body, dict) else None
                if isinstance(response, dict) and "error" not in response:
                    yield from strings(response)


def pairs() -> list[tuple[str, str]]:
    """Every way that begins at one of the two, and those of the first two wires to them."""
    return [(p, t) for p in GENERATORS for t in EVERY if p in OURS or t in OURS]


@pytest.mark.parametrize(("provider", "target"), pairs())
def test_every_repaired_history_is_valid_and_stays_as_it_is(provider: str, target: str) -> None:
    """No rule is broken, hard or strict, but for what its own provider answers all the same."""
    for messages in histories(provider, ROUNDS):
        before = repr(messages)
        once = repair_messages(messages, provider, target)
        assert repr(messages) == before
        if target != provider or not is_valid(messages, provider):
            assert validate(once.messages, target) == []
        twice = repair_messages(once.messages, target)
        assert repr(twice.messages) == repr(once.messages)
        assert twice.repairs == []


@pytest.mark.parametrize("provider", OURS)
def test_valid_input_comes_back_equal(provider: str) -> None:
    """In objects of its own, without a repair; there are enough of it to mean something."""
    valid = 0
    for messages in histories(provider, ROUNDS, "equal"):
        if is_valid(messages, provider):
            valid += 1
            repaired = repair_messages(messages, provider)
            assert repr(repaired.messages) == repr(messages)
            assert repaired.repairs == []
    assert valid >= ROUNDS // 10


@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("provider", OURS)
def test_no_real_result_is_lost(provider: str, target: str) -> None:
    """Each result's text is in the repaired history, as a result or as text."""
    for messages in histories(provider, ROUNDS, "whole"):
        shown = "\n".join(strings(repair_messages(messages, provider, target).messages))
        for text in result_texts(messages):
            spellings = {text, *(json.dumps(text, ensure_ascii=a)[1:-1] for a in (True, False)),
                         text.encode("unicode_escape").decode()}  # fmt: skip
            assert not text.strip() or any(each in shown for each in spellings)


@pytest.mark.parametrize("provider", OURS)
def test_every_prefix_of_a_recorded_log_renders_validly(provider: str) -> None:
    """Wherever a log is cut or damaged, every provider accepts what is shown."""
    with EventStore.open("sqlite://") as store:
        for number, messages in enumerate(histories(provider, max(ROUNDS // 10, 30), "log")):
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
    """Recording a history and repairing it are one pipeline, and so is importing it in pieces."""
    with EventStore.open("sqlite://") as store:
        for number, messages in enumerate(histories(provider, max(ROUNDS // 4, 60), "same")):
            chat, grown = (store.conversation(f"{name}{number}") for name in "cg")
            chat.record_messages(messages, provider)
            for count in range(len(messages) + 1):
                grown.import_messages(messages[:count], provider)
            for target in ("anthropic", "openai"):
                crossed = _unminted(repair_messages(messages, provider, target).messages)
                # An import in pieces cannot know of a call that comes after its result.
                for each in (chat, grown) if not validate(messages, provider) else (chat,):
                    view = model_history(each.events(), collapse="none").render(target)
                    assert _unminted(view["messages"]) == crossed


def _unminted(messages: list[Any]) -> str:
    """Minted ids tell conversations apart, so they differ between the two."""
    return re.sub(r"call_[0-9a-f]{24}", "call_minted", repr(messages))


def many(provider: str, count: int) -> list[Any]:
    """A turn of many parallel calls, all of one name and one id, answered backwards."""
    if provider == "gemini":
        calls = [{"functionCall": {"name": "f", "id": "x", "args": {}}} for _ in range(count)]
        answers = [{"functionResponse": {"name": "f", "id": "x", "response": {"output": str(n)}}}
                   for n in reversed(range(count))]  # fmt: skip
        return [{"role": "user", "parts": [{"text": "q"}]}, {"role": "model", "parts": calls},
                {"role": "user", "parts": answers}]  # fmt: skip
    function = {"type": "function_call", "call_id": "x", "name": "f", "arguments": "{"}
    return [{"role": "user", "content": "q"}, *(dict(function) for _ in range(count)),
            *({"type": "function_call_output", "call_id": "x", "output": str(n)}
              for n in range(count)), {"role": "user", "content": None}]  # fmt: skip


@pytest.mark.parametrize("target", OURS)
@pytest.mark.parametrize("provider", OURS)
def test_a_turn_of_thousands_of_parallel_calls_is_repaired_in_linear_time(
    provider: str, target: str
) -> None:
    """Twice the calls take about twice the steps: the work is counted, not timed."""

    def steps(count: int) -> int:
        messages = many(provider, count)
        seen = 0

        def count_calls(*_: Any) -> None:
            nonlocal seen
            seen += 1

        sys.setprofile(count_calls)
        try:
            repaired = repair_messages(messages, provider, target)
        finally:
            sys.setprofile(None)
        assert validate(repaired.messages, target) == []
        return seen

    assert steps(5_000) < 2.5 * steps(2_500)


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai", "openai-responses"])
def test_what_is_written_is_what_the_sdks_own_types_take(provider: str) -> None:
    """An independent judge of the form: the types that the providers publish."""
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
    """Calls left out or collapsed, older turns cut off: what is left is whole."""
    options: list[dict[str, Any]] = [
        {"open_calls": "drop"}, {"collapse": "all"}, {"collapse": "failed", "last_turns": 1},
        {"open_calls": "drop", "collapse": "all", "last_turns": 2},
        {"max_tokens": 60, "count_tokens": len},
    ]  # fmt: skip
    with EventStore.open("sqlite://") as store:
        for number, messages in enumerate(histories(provider, max(ROUNDS // 2, 100), "view")):
            chat = store.conversation(f"c{number}")
            chat.record_messages(messages, provider, is_error=lambda result: "12C" in str(result))
            fold = History().extend(chat.events())
            for chosen in options:
                for target in OURS:
                    shown = fold.view(**chosen).render(target)[list_key(target)]
                    assert validate(shown, target) == []
