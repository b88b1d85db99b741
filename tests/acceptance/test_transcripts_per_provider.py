"""Real transcripts over every wire: valid, whole, and with the same calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventstore import EventStore, validate
from eventstore.wire import PROVIDERS, list_key
from projections import History
from projections.sources import is_refusal, read

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
FOLDERS = ("tau-bench", "livemcpbench", "letta", "pi-sessions", "claude-code")
FILES = sorted(path for folder in FOLDERS for path in (DATA / folder).glob("*.json*"))

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the real transcripts (../shared/data) are not here"
)


def strings(value: Any) -> Iterator[str]:
    """All text in a JSON value, and in errors, which stand in text as JSON where need be."""
    if isinstance(value, str):
        yield value
        if value.startswith('{"error":'):
            yield from strings(json.loads(value.split("}\n[", maxsplit=1)[0]))
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_provider_is_shown_a_valid_and_whole_history(path: Path) -> None:
    """Each prompt breaks no rule, and says every result, and the name of every tool called."""
    for transcript in read(path).transcripts():
        with EventStore.open("sqlite://") as store:
            chat = store.conversation(transcript.id)
            chat.import_messages(transcript.messages, transcript.provider, is_rejection=is_refusal)
            history = History()
            for recorded in chat.events():
                history.apply(recorded)
            tools = list(chat.tools.values())
        view = history.view(collapse="none")
        for provider in PROVIDERS:
            shown = view.render(provider)[list_key(provider)]
            assert validate(shown, provider) == [], (transcript.id, provider)
            said = "\n".join(strings(shown))
            for tool in tools:
                result = getattr(getattr(tool.status, "response", None), "result", None)
                if isinstance(result, str) and result.strip():
                    assert result in said, (transcript.id, provider, tool.id)
