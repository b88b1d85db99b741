"""Valid histories of every provider, damaged in ways that have names, become valid again.

There are 20,000 for each provider with `TOOLLEDGER_LONG=1`, otherwise a sample. A failure names the
damages, so that the history can be made again.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
from support.broken import GENERATORS, lost
from support.damages import DAMAGES, SIGNATURES, foreign_damages, valid_histories
from support.tiers import rounds

from eventstore import validate
from eventstore.providers import AnyProvider, is_valid
from projections import repair_messages

ROUNDS = rounds(100, 20_000)
MOST_DAMAGES = (1, 1, 1, 2, 2, 3)

Accept = Callable[[list[Any]], object]


@pytest.mark.parametrize("provider", sorted(GENERATORS))
def test_a_damaged_history_is_mended(provider: AnyProvider) -> None:
    """The repaired list is valid, says what was said, and stays as it is when repaired again.

    The list that was given does not change, and comes back equal where it was valid all the same.
    """
    sources = sources_of(provider)
    damages = (*DAMAGES, *foreign_damages(provider))
    accept = accepts(provider)
    used: set[str] = set()
    for number in range(ROUNDS):
        rng = random.Random(f"{provider}{number}")
        messages = copy.deepcopy(rng.choice(sources))
        names = []
        others = rng.sample(damages, rng.choice(MOST_DAMAGES) - 1)
        for damage in (damages[number % len(damages)], *others):
            damage(rng, messages)
            names.append(damage.__name__)
        used.update(names)
        before = repr(messages)
        reported = f"{names}: {before}"
        once = repair_messages(messages, provider)
        assert repr(messages) == before, reported
        if is_valid(messages, provider):
            assert repr(once.messages) == before, reported
            assert once.repairs == [], reported
            continue
        assert once.repairs != [], reported
        assert is_valid(once.messages, provider), (validate(once.messages, provider), reported)
        assert lost(messages, [once.messages, once.system]) == [], reported
        twice = repair_messages(once.messages, provider)
        assert repr(twice.messages) == repr(once.messages), reported
        assert twice.repairs == [], reported
        assert is_accepted(accept, once.messages), reported
    assert len(used) == len(damages)


@pytest.mark.parametrize("provider", sorted(GENERATORS))
def test_an_undamaged_history_comes_back_equal(provider: AnyProvider) -> None:
    """The histories that are damaged here are valid, and nothing about them is repaired."""
    for messages in sources_of(provider):
        repaired = repair_messages(messages, provider)
        assert (repaired.messages, repaired.repairs) == (messages, [])


SDK_TYPES = {
    "anthropic": ("anthropic.types.beta", "BetaMessageParam"),
    "cohere": ("cohere", "ChatMessageV2"),
    "gemini": ("google.genai.types", "Content"),
    "litellm": ("openai.types.chat", "ChatCompletionMessageParam"),
    "mistral": ("mistralai.client.models", "ChatCompletionRequestMessage"),
    "openai": ("openai.types.chat", "ChatCompletionMessageParam"),
}
"""The module and the name of the type of a message, as the SDK sends it."""


@cache
def sources_of(provider: AnyProvider) -> list[list[Any]]:
    """Return valid histories that the provider's SDK takes."""
    return valid_histories(provider, partial(is_accepted, accepts(provider)))


def is_accepted(accept: Accept, messages: list[Any]) -> bool:
    """Return whether the SDK takes a list."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a word that was cut
        try:
            accept(messages)
        except (AssertionError, ValueError):
            return False
    return True


def accepts(provider: str) -> Accept:
    """Return what raises an error where the provider's own SDK does not take a list."""
    if provider == "bedrock":
        return bedrock_client()
    if provider == "ollama":
        return ollama_client()
    if provider == "openai-responses":
        return items_as_typed()
    module, name = SDK_TYPES[provider]
    pydantic, types = pytest.importorskip("pydantic"), pytest.importorskip(module)
    accept: Accept = pydantic.TypeAdapter(list[getattr(types, name)]).validate_python
    if provider == "cohere":
        return lambda shown: accept(with_parsed_data(shown))
    if provider in ("litellm", "openai"):
        return lambda shown: accept([*map(without_null, shown)])
    return accept if provider != "gemini" else lambda shown: accept(without_base64(shown))


def with_parsed_data(value: Any) -> Any:
    """Return messages whose documents hold an object: the guide sends the JSON text of one."""
    if isinstance(value, list):
        return [with_parsed_data(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {} if key == "data" and isinstance(inner, str) else with_parsed_data(inner)
        for key, inner in value.items()
    }


def without_base64(value: Any) -> Any:
    """Return messages without the text of signatures and files, which the SDK decodes."""
    if isinstance(value, list):
        return [without_base64(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: "" if key in SIGNATURES and isinstance(inner, str) else without_base64(inner)
        for key, inner in value.items()
    }


def without_null(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without the members that are null, which the API takes as left out."""
    return {key: value for key, value in message.items() if value is not None}


def items_as_typed() -> Accept:
    """Return the check of the items, with what the API takes and the types do not.

    The API gives an id, a status and a detail where there is none, and it takes the words of the
    assistant from all speakers.
    """
    pydantic = pytest.importorskip("pydantic")
    types = pytest.importorskip("openai.types.responses")
    item = pydantic.TypeAdapter(types.ResponseInputItemParam)

    def check(shown: list[Any]) -> None:
        for each in shown:
            item.validate_python(typed(each))

    return check


def typed(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with the members that the types ask for."""
    known = {key: value for key, value in item.items() if (key, value) != ("id", None)}
    said = item.get("type", "message") == "message"
    if not said or item["role"] == "assistant":
        known = {"id": "id", "type": "message"} | known | {"status": "completed"}
    held = "content" if said else "output"
    if isinstance(item.get(held), list):
        known[held] = [typed_part(part, item.get("role")) for part in item[held]]
    return known


def typed_part(part: dict[str, Any], role: str | None) -> dict[str, Any]:
    """Return a part with the detail of an image, and as a user's if a user says it."""
    if part["type"] == "input_image":
        return {**part, "detail": "auto"}
    if part["type"] in ("output_text", "refusal") and role != "assistant":
        return {"type": "input_text", "text": part.get("text", part.get("refusal"))}
    return part


def ollama_client() -> Accept:
    """Return the check of the client's own messages, with images as it encodes them."""
    ollama = pytest.importorskip("ollama")

    def check(shown: list[Any]) -> None:
        for message in shown:
            images = [ollama.Image(value=image) for image in message.get("images") or ()]
            ollama.Message.model_validate({**message, "images": images})

    return check


def bedrock_client() -> Accept:
    """Return the check of the service model that botocore ships."""
    session = pytest.importorskip("botocore.session")
    from botocore.validate import ParamValidator

    model = session.get_session().get_service_model("bedrock-runtime")
    shape = model.operation_model("Converse").input_shape

    def check(shown: list[Any]) -> None:
        report = ParamValidator().validate({"modelId": "m", "messages": shown}, shape)
        assert report.generate_report() == "", report.generate_report()

    return check
