"""Broken histories to and from Mistral, Bedrock, Cohere and Ollama, checked by their own SDKs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest
from support.broken import GENERATORS, histories, recordable
from support.broken_chats import WHOLE
from support.tiers import rounds

from eventstore import EventStore, validate
from eventstore.providers import list_key
from projections import History, model_history, repair_messages

ROUNDS = rounds(75, 20_000)
EVERY = sorted(GENERATORS)


@pytest.fixture(scope="module")
def store() -> Iterator[EventStore]:
    """Return a store in memory for all conversations."""
    with EventStore.open("sqlite://") as opened:
        yield opened


@pytest.mark.parametrize("provider", WHOLE)
def test_every_prefix_of_a_recorded_log_renders_validly(provider: str, store: EventStore) -> None:
    """Every provider accepts the rendering of a log that is cut anywhere."""
    for number, messages in enumerate(recordable(provider, rounds(20, 1_000), "log")):
        chat = store.conversation(f"{provider}{number}")
        chat.record_messages(messages, provider)
        events = list(chat.events())
        fold = History()
        for recorded in events:
            fold.apply(recorded)
            for target in WHOLE:
                assert validate(fold.view().render(target)["messages"], target) == []
        for target in EVERY:
            shown = model_history(events).render(target)
            assert shown == fold.view().render(target)
            assert validate(shown[list_key(target)], target) == []


@pytest.mark.parametrize("provider", WHOLE)
def test_a_recorded_history_renders_as_it_was(provider: str, store: EventStore) -> None:
    """A valid history goes through the log and comes back as it was, byte for byte."""
    make, seen = WHOLE[provider], 0
    for number in range(ROUNDS):
        messages = make(random.Random(f"back{provider}{number}"))
        if provider == "ollama":  # the client writes bytes as base64, as the library does
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
    """Yield for each call of Bedrock whether its id was used before: some models refuse that."""
    seen: set[str] = set()
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if "toolUse" in block:
                yield block["toolUse"]["toolUseId"] in seen
                seen.add(block["toolUse"]["toolUseId"])


@pytest.mark.parametrize("provider", ["anthropic", "ollama", "openai"])
def test_mistrals_own_checker_accepts_what_is_rendered(provider: str) -> None:
    """The versions are those that accept text beside calls, in the mode for serving."""
    pytest.importorskip("mistral_common", reason="mistral-common is not installed")
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.protocol.instruct.validator import (
        ValidationMode,
        get_validator,
    )
    from mistral_common.tokens.tokenizers.base import TokenizerVersion

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
    from botocore.validate import ParamValidator

    model = session.get_session().get_service_model("bedrock-runtime")
    shape = model.operation_model("Converse").input_shape
    for messages in histories(provider, ROUNDS, "bedrock"):
        shown = repair_messages(messages, provider, "bedrock").messages
        report = ParamValidator().validate({"modelId": "m", "messages": shown}, shape)
        assert report.generate_report() == ""


@pytest.mark.parametrize("provider", GENERATORS)
def test_ollamas_own_client_accepts_what_is_rendered(provider: str) -> None:
    """Each message can be parsed by the client, with its images as the client encodes them."""
    ollama = pytest.importorskip("ollama", reason="ollama is not installed")
    for messages in histories(provider, ROUNDS, "ollama"):
        for message in repair_messages(messages, provider, "ollama").messages:
            images = [ollama.Image(value=image) for image in message.get("images") or ()]
            ollama.Message.model_validate({**message, "images": images})


@pytest.mark.parametrize("provider", EVERY)
def test_coheres_own_types_accept_what_is_rendered(provider: str) -> None:
    """The SDK sends every member that its types require, and no other."""
    types = pytest.importorskip("cohere", reason="cohere is not installed")
    adapter = pydantic.TypeAdapter(list[types.ChatMessageV2])
    for messages in histories(provider, ROUNDS, "cohere"):
        shown = repair_messages(messages, provider, "cohere").messages
        read = adapter.validate_python(shown)
        assert [each.model_dump(exclude_unset=True) for each in read] == shown
