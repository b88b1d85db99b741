"""Broken histories to and from Mistral, Bedrock and Ollama; the providers' own checkers agree."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import broken_wires
import pytest
from broken import GENERATORS, LONG, histories, recordable

from eventstore import EventStore, validate
from eventstore.wire import list_key
from projections import History, model_history, repair_messages

ROUNDS = 20_000 if LONG else 150
OURS = ("bedrock", "mistral", "ollama")
EVERY = sorted(GENERATORS)


@pytest.fixture(scope="module")
def store() -> Iterator[EventStore]:
    """A store in memory for all conversations."""
    with EventStore.open("sqlite://") as opened:
        yield opened


@pytest.mark.parametrize("provider", OURS)
def test_every_prefix_of_a_recorded_log_renders_validly(provider: str, store: EventStore) -> None:
    """Wherever a log is cut, every provider accepts what is shown."""
    for number, messages in enumerate(recordable(provider, max(ROUNDS // 20, 20), "log")):
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
