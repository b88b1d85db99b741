"""Deep and large values in files: they are imported as text, or refused as ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from support import foreign_logs as logs

from eventstore import EventStore
from eventstore.importers import SourceError, import_file
from eventstore.importers.reading.json_lines import MAX_VALUES, decode

FILES: dict[str, list[Any]] = {
    "gemini": [{"sessionId": "s", "projectHash": "h", "messages": logs.GEMINI}],
    "openhands": [{"instance_id": "i", "history": logs.V0}],
    "pydantic-ai": logs.PYDANTIC,
    "inspect": [{"eval": {}, "samples": [logs.sample()]}],
    "langfuse": [{"trace": {"id": "t"}, "observations": logs.OBSERVATIONS}],
    "otlp": [logs.export(logs.chat(0, 1, [logs.WORDS], logs.CALLS), logs.span("f", 1, 2))],
    "codex": [
        logs.codex("session_meta", 0, id="s"),
        logs.item("function_call", 1, name="f", arguments="{}", call_id="a"),
        logs.item("function_call_output", 2, call_id="a", output={"content": "x"}),
    ],
}
DEEP: dict[str, Any] = {}
for _ in range(450):
    DEEP = {"a": DEEP}


def with_deep_values(value: Any) -> Iterator[Any]:
    """Yield a value with each of its members in turn nested 450 levels deep."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in items:
        found = [DEEP] if not isinstance(member, dict | list) else with_deep_values(member)
        for deep in chain([DEEP], found):
            copied = copy(value)
            copied[key] = deep
            yield copied


@pytest.mark.parametrize("form", FILES)
def test_no_depth_of_a_value_is_refused(form: str, tmp_path: Path) -> None:
    """The arguments of a model that nest too deeply are imported as their text."""
    path = tmp_path / "file.jsonl"
    with EventStore.open("sqlite://") as store:
        for number, lines in enumerate(with_deep_values(FILES[form])):
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            with suppress(SourceError):
                assert import_file(store, path, name=str(number)).refused == []


def test_a_text_of_very_many_values_is_not_read() -> None:
    """Small values take much more memory than their text."""
    with pytest.raises(ValueError, match="more than 20,000,000 values"):
        decode(b"[" + b"," * MAX_VALUES)
