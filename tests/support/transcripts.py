"""The places of the example histories and real transcripts.

`tests/data` holds the example histories and a choice of real transcripts, each folder with its
licence. More transcripts are used where a folder `shared/data` stands beside the repository.
"""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
MORE = DATA.parents[2] / "shared" / "data"

HISTORIES = DATA / "histories.json"
HISTORIES_OF_REPORTS = DATA / "histories2.json"
REQUESTS = DATA / "pydantic-ai" / "wire_requests.jsonl"
REPEATS = DATA / "letta" / "repeat-loop.messages.json"


def find(name: str) -> Path | None:
    """Return the file of a transcript (`letta/repeat-loop.messages.json`) if it is present."""
    return next((path for path in (DATA / name, MORE / name) if path.exists()), None)


def present(*names: str) -> list[str]:
    """Return those of the transcripts that are present."""
    return [name for name in names if find(name) is not None]
