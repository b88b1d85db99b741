"""The table of finish reasons: the SDKs' own values, other servers' words, and what is unknown."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, get_args

import pytest

from eventstore.domain.finish_reasons import FINISH_REASONS, ending_of
from eventstore.providers import register_finish_reason


def _literals(hint: Any) -> set[str]:
    """Return the texts that a type allows."""
    inner = get_args(hint)
    return {hint} if isinstance(hint, str) else {text for each in inner for text in _literals(each)}


def _field(module: str, cls: str, name: str) -> set[str]:
    """Return the texts that a field of an SDK's model allows."""
    model = getattr(pytest.importorskip(module), cls)
    return _literals(model.model_fields[name].annotation)


def _bedrock() -> set[str]:
    botocore = pytest.importorskip("botocore")
    path = Path(botocore.__file__).parent / "data/bedrock-runtime/2023-09-30/service-2.json.gz"
    return {*json.loads(gzip.decompress(path.read_bytes()))["shapes"]["StopReason"]["enum"]}


SDK_VALUES = {
    "anthropic": lambda: (
        _literals(pytest.importorskip("anthropic.types.beta").BetaStopReason)
        | _literals(pytest.importorskip("anthropic.types").StopReason)
    ),
    "bedrock": _bedrock,
    "cohere": lambda: (
        _literals(pytest.importorskip("cohere.types").ChatFinishReason)
        | _literals(pytest.importorskip("cohere.types").FinishReason)
    ),
    "gemini": lambda: {
        each.value
        for name in ("FinishReason", "BlockedReason")
        for each in getattr(pytest.importorskip("google.genai.types"), name)
    },
    "mistral": lambda: _literals(
        pytest.importorskip("mistralai.client.models").ChatCompletionChoiceFinishReason
    ),
    "openai": lambda: _field("openai.types.chat.chat_completion", "Choice", "finish_reason"),
    "openai-responses": lambda: (
        _literals(pytest.importorskip("openai.types.responses").ResponseStatus)
        | _field("openai.types.responses.response", "IncompleteDetails", "reason")
    ),
}


@pytest.mark.parametrize("provider", SDK_VALUES)
def test_every_value_of_the_installed_sdk_is_listed(provider: str) -> None:
    """A value that an SDK adds is to be read about, and listed."""
    values = SDK_VALUES[provider]()
    assert values
    assert values <= FINISH_REASONS[provider].keys()


def test_a_reason_is_its_providers_own_first_and_then_anybodys() -> None:
    """Servers with another's API hand on their own words; what no list has is unknown."""
    assert ending_of("openai", "stop") == "whole"
    assert ending_of("openai", "MAX_TOKENS") == ending_of(None, "max_tokens") == "truncated"
    assert ending_of("gemini", "ERROR") == "broken"
    assert ending_of("openai", None) == ending_of("acme", "") == "whole"
    assert ending_of("acme", "parley") == "unknown"
    register_finish_reason("acme", "parley", whole=True)
    assert (ending_of("acme", "parley"), ending_of("openai", "parley")) == ("whole", "unknown")
    with pytest.raises(ValueError, match="reason is ''"):
        register_finish_reason("acme", "", whole=True)
