"""Real requests go into a log and come out of it as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventstore import EventStore, validate
from eventstore.wire import list_key
from projections import model_history

PATH = Path(__file__).resolve().parents[2].parent / "shared/data/pydantic-ai/wire_requests.jsonl"
SPOKEN = {
    "gemini": "gemini",
    "openai_responses": "openai-responses",
    "openai_responses_compatible": "openai-responses",
}

pytestmark = pytest.mark.skipif(not PATH.exists(), reason=f"{PATH.name} is not there")


def accepted() -> list[Any]:
    """The recorded requests that were answered, but for Gemini's that are not signed.

    Those are signed with the documented word when the log renders them.
    """
    lines = PATH.read_text(encoding="utf-8").splitlines() if PATH.exists() else []
    found = []
    for request in map(json.loads, lines):
        provider = SPOKEN.get(request["provider"])
        if provider is not None and request["status"] == 200:
            given = request[list_key(provider)]
            if not validate(given, provider):
                short = request["source"].removeprefix("tests__cassettes__test_")
                found.append(pytest.param(provider, given, id=short))
    return found


@pytest.mark.parametrize("way", ["record_messages", "import_messages"])
@pytest.mark.parametrize(("provider", "given"), accepted())
def test_a_recorded_request_is_rendered_as_it_was_sent(
    provider: str, given: list[Any], way: str
) -> None:
    """Signatures, reasoning, ids and spelling."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        getattr(chat, way)(given, provider)
        history = model_history(chat.events(), collapse="none")
        assert history.render(provider)[list_key(provider)] == given
        assert history.repairs_for(provider) == []


def test_there_are_enough_requests_to_mean_something() -> None:
    """Of both forms."""
    providers = [case.values[0] for case in accepted()]
    assert (providers.count("gemini"), providers.count("openai-responses")) == (47, 20)
