"""Real transcripts rendered for every provider: valid, complete, and with the same calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.transcripts import DATA, MORE

from eventstore import EventStore, validate
from eventstore.importers import import_file
from eventstore.providers import PROVIDERS, list_key
from projections import History

FOLDERS = ("tau-bench", "livemcpbench", "letta", "pi-sessions", "claude-code")
FILES = {
    f"{folder}/{path.name}": path
    for place in (MORE, DATA)
    for folder in FOLDERS
    for path in (place / folder).glob("*.json*")
}


def strings(value: Any) -> Iterator[str]:
    """Yield all text in a JSON value, and in errors, whose text may hold JSON."""
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


@pytest.mark.parametrize("path", [FILES[name] for name in sorted(FILES)], ids=sorted(FILES))
@pytest.mark.slow
def test_every_provider_is_shown_a_valid_and_whole_history(path: Path) -> None:
    """Each prompt breaks no rule, and has every result and the name of every tool called."""
    with EventStore.open("sqlite://") as store:
        for name in import_file(store, path).ids:
            chat = store.conversation(name)
            view = History().extend(chat.events()).view(collapse="none")
            tools = list(chat.tools.values())
            for provider in PROVIDERS:
                shown = view.render(provider)[list_key(provider)]
                assert validate(shown, provider) == [], (name, provider)
                said = "\n".join(strings(shown))
                for tool in tools:
                    result = getattr(getattr(tool.status, "response", None), "result", None)
                    if isinstance(result, str) and result.strip():
                        assert result in said, (name, provider, tool.id)
