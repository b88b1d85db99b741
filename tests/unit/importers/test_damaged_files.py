"""Damaged files: whatever stands where, it is read, reported or refused, and never raises."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support import foreign_logs as logs
from support.tiers import rounds

from eventstore import EventStore
from eventstore.importers import SourceError, import_file

JUNK: tuple[Any, ...] = (
    *(None, True, -1, 1.5, 10**30, "", "x", "2025", "\ud800", [], {}, [None], {"a": None}, [[]]),
)
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


def damaged(value: Any, chance: random.Random) -> Any:
    """Return a value in which some members have become something else."""
    if chance.random() < 0.04:
        return chance.choice(JUNK)
    if isinstance(value, dict):
        return {key: damaged(each, chance) for key, each in value.items()}
    return [damaged(each, chance) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("form", FILES)
def test_no_damage_raises_an_error_of_python(form: str, tmp_path: Path) -> None:
    """A file that holds nothing any more is refused as one."""
    chance = random.Random(form)
    path = tmp_path / "file.jsonl"
    with EventStore.open("sqlite://") as store:
        for number in range(rounds(25, 1000)):
            lines = [damaged(value, chance) for value in FILES[form]]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            with suppress(SourceError):
                assert import_file(store, path, name=str(number)).refused == []
