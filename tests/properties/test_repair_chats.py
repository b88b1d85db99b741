"""Broken histories to and from Mistral, Bedrock and Ollama; the providers' own checkers agree."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import broken_histories
import broken_items
import broken_wires
import pytest

from eventstore import EventStore, validate
from eventstore.wire import list_key
from projections import History, model_history, repair_messages

ROUNDS = 20_000 if os.environ.get("TOOLLEDGER_LONG") else 150
OURS = ("bedrock", "mistral", "ollama")
EVERY = ("anthropic", "bedrock", "gemini", "mistral", "ollama", "openai", "openai-responses")
GENERATORS: dict[str, Callable[[random.Random], list[Any]]] = {
    "anthropic": broken_histories.anthropic,
    "bedrock": broken_wires.bedrock,
    "gemini": broken_items.gemini,
    "mistral": broken_wires.mistral,
    "ollama": broken_wires.ollama,
    "openai": broken_histories.openai,
    "openai-responses": broken_items.openai_responses,
}


def histories(provider: str, count: int, salt: str = "") -> Iterator[list[Any]]:
    """`count` broken histories, the same in every run."""
    for seed in range(count):
        yield GENERATORS[provider](random.Random(f"{salt}{provider}{seed}"))


def pairs() -> list[tuple[str, str]]:
    """Every way that begins or ends at one of the three."""
    return [(p, t) for p in GENERATORS for t in EVERY if p in OURS or t in OURS]


@pytest.fixture(scope="module")
def store() -> Iterator[EventStore]:
    """A store in memory for all conversations."""
    with EventStore.open("sqlite://") as opened:
        yield opened


@pytest.mark.parametrize(("provider", "target"), pairs())
def test_every_repaired_history_is_valid_and_stays_as_it_is(provider: str, target: str) -> None:
    """No rule is broken, hard or strict, a second repair changes nothing, the input is whole."""
    for messages in histories(provider, ROUNDS):
        before = repr(messages)
        once = repair_messages(messages, provider, target)
        assert validate(once.messages, target) == []
        twice = repair_messages(once.messages, target)
        assert repr(twice.messages) == repr(once.messages)
        assert twice.repairs == []
        assert repr(messages) == before


@pytest.mark.parametrize("provider", OURS)
def test_valid_input_comes_back_equal(provider: str) -> None:
    """In objects of its own, without a repair; of each there are enough to mean something."""
    valid = 0
    for messages in histories(provider, ROUNDS, "equal"):
        if not validate(messages, provider):
            valid += 1
            repaired = repair_messages(messages, provider)
            assert repr(repaired.messages) == repr(messages)
            assert repaired.repairs == []
    assert valid >= ROUNDS // 50


def result_texts(messages: list[Any]) -> Iterator[str]:
    """The texts of the well-formed results, in any of the three forms."""
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str) and message.get("role") == "tool":
            yield content
        for block in content if isinstance(content, list) else ():
            inner = block.get("toolResult") if isinstance(block, dict) else None
            said = inner.get("content") if isinstance(inner, dict) else None
            if isinstance(said, list) and inner.get("status") != "error":
                yield from (
                    each["text"]
                    for each in said
                    if isinstance(each, dict) and isinstance(each.get("text"), str)
                )


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


@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("provider", OURS)
def test_no_real_result_is_lost(provider: str, target: str) -> None:
    """Each result's text is in the repaired history, as a result or as text."""
    for messages in histories(provider, ROUNDS, "whole"):
        shown = "\n".join(strings(repair_messages(messages, provider, target).messages))
        for text in result_texts(messages):
            if text.strip():
                assert text in shown or text.replace('"', '\\"') in shown or "\x00" in text


@pytest.mark.parametrize("provider", OURS)
def test_every_prefix_of_a_recorded_log_renders_validly(provider: str, store: EventStore) -> None:
    """Wherever a log is cut, every provider accepts what is shown."""
    for number, messages in enumerate(histories(provider, max(ROUNDS // 20, 20), "log")):
        chat = store.conversation(f"{provider}{number}")
        chat.record_messages(messages, provider)
        events = list(chat.events())
        fold = History()
        for recorded in events:
            fold.apply(recorded)
            for target in OURS:
                assert validate(fold.view().render(target)["messages"], target) == []
        for target in EVERY:
            shown = model_history(events).render(target)
            assert shown == fold.view().render(target)
            assert validate(shown[list_key(target)], target) == []


@pytest.mark.parametrize("provider", OURS)
def test_what_a_log_shows_is_what_was_recorded(provider: str, store: EventStore) -> None:
    """A valid history goes through the log and comes back as it was, byte for byte."""
    make, seen = getattr(broken_wires, f"whole_{provider}"), 0
    for number in range(ROUNDS):
        messages = make(random.Random(f"back{provider}{number}"))
        if provider == "ollama":  # the client writes bytes as base64, and so do we
            messages = [message for message in messages if "images" not in message]
        if validate(messages, provider) or any(used_again(messages)):
            continue
        chat = store.conversation(f"{provider} back {number}")
        chat.record_messages(messages, provider)
        history = model_history(chat.events(), collapse="none")
        assert history.render(provider) == {"messages": messages}
        assert history.repairs_for(provider) == []
        seen += 1
    assert seen >= ROUNDS // 50


def used_again(messages: list[Any]) -> Iterator[bool]:
    """Whether an id of Bedrock's was used before: some models want them to differ everywhere."""
    seen: set[str] = set()
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if "toolUse" in block:
                yield block["toolUse"]["toolUseId"] in seen
                seen.add(block["toolUse"]["toolUseId"])


@pytest.mark.parametrize("provider", ["anthropic", "ollama", "openai"])
def test_mistrals_own_checker_accepts_what_is_rendered(provider: str) -> None:
    """Of each version that takes text beside calls, as it is used to serve."""
    pytest.importorskip("mistral_common", reason="mistral-common is not installed")
    from mistral_common.protocol.instruct.request import ChatCompletionRequest  # noqa: PLC0415
    from mistral_common.protocol.instruct.validator import (  # noqa: PLC0415
        ValidationMode,
        get_validator,
    )
    from mistral_common.tokens.tokenizers.base import TokenizerVersion  # noqa: PLC0415

    versions = [version for version in TokenizerVersion if version.value not in ("v1", "v2", "v3")]
    validators = [get_validator(version, ValidationMode.serving) for version in versions]
    assert len(validators) >= 4
    for messages in histories(provider, ROUNDS, "mistral"):
        shown = repair_messages(messages, provider, "mistral").messages
        if not shown:
            continue
        request: Any = ChatCompletionRequest(messages=shown, model="m")
        for validator in validators:
            validator.validate_request(request)


@pytest.mark.parametrize("provider", ["anthropic", "mistral", "ollama", "openai"])
def test_the_clients_own_model_accepts_what_is_rendered_for_bedrock(provider: str) -> None:
    """Types, unions and required members are those of the service model that botocore ships."""
    session = pytest.importorskip("botocore.session", reason="botocore is not installed")
    from botocore.validate import ParamValidator  # noqa: PLC0415

    model = session.get_session().get_service_model("bedrock-runtime")
    shape = model.operation_model("Converse").input_shape
    for messages in histories(provider, ROUNDS, "bedrock"):
        shown = repair_messages(messages, provider, "bedrock").messages
        report = ParamValidator().validate({"modelId": "m", "messages": shown}, shape)
        assert report.generate_report() == ""


@pytest.mark.parametrize("provider", GENERATORS)
def test_ollamas_own_client_accepts_what_is_rendered(provider: str) -> None:
    """Each message is one of its own, once its images are, as the client makes them."""
    ollama = pytest.importorskip("ollama", reason="ollama is not installed")
    for messages in histories(provider, ROUNDS, "ollama"):
        for message in repair_messages(messages, provider, "ollama").messages:
            images = [ollama.Image(value=image) for image in message.get("images") or ()]
            ollama.Message.model_validate({**message, "images": images})


def many(provider: str, count: int) -> list[Any]:
    """A turn of `count` parallel calls, answered from the last to the first."""
    names = [f"tool_{n}" for n in range(count)]
    if provider == "bedrock":
        return [
            {"role": "user", "content": [{"text": "q"}]},
            {"role": "assistant", "content": [
                {"toolUse": {"toolUseId": "same", "name": name, "input": {}}} for name in names]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "same", "content": [{"text": name}]}}
                for name in reversed(names)]},
        ]  # fmt: skip
    arguments: Any = {} if provider == "ollama" else "{}"
    function = [{"name": name, "arguments": arguments} for name in names]
    key = {} if provider == "ollama" else {"id": "same"}
    answer = {} if provider == "ollama" else {"tool_call_id": "same"}
    return [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": [{**key, "function": f} for f in
                                                            function]},
        *({"role": "tool", "content": name, "tool_name": name, **answer} for name in
          reversed(names)),
    ]  # fmt: skip


@pytest.mark.parametrize("provider", OURS)
def test_a_turn_of_thousands_of_parallel_calls_is_repaired_in_linear_time(provider: str) -> None:
    """Twice the calls take about twice the lines: the work is counted, not timed."""

    def steps(count: int) -> int:
        messages = many(provider, count)
        seen = 0

        def count_lines(_frame: Any, _event: str, _arg: Any) -> Any:
            nonlocal seen
            seen += 1
            return count_lines

        traced = sys.gettrace()
        sys.settrace(count_lines)
        try:
            repair_messages(messages, provider)
        finally:
            sys.settrace(traced)
        return seen

    steps(10)  # what is made once
    assert steps(1_000) < 2.3 * steps(500)
    assert validate(repair_messages(many(provider, 5_000), provider).messages, provider) == []
