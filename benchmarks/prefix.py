"""Prompt caches: how often the next request does not begin with the one before it.

Every transcript in the folder `--data` (OpenAI Chat messages as `*.messages.json`, conversations
as `*.jsonl`; the repository's own by default) is imported. A request is rendered before each turn
of the model and at the end, once with each `collapse`. A turn is rewritten if its request does
not begin with the bytes of the one before; the bytes of that one from there on are lost to the
cache. Longest first, `--conversations` of each file are measured.

There is no clock: the figures are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import get_args

from measure import ROOT, Figure, arguments, report

from eventstore import EventStore, Recorded
from eventstore.importers import SourceError, import_file
from projections import cache_breaks, model_history
from projections.history.options import Collapse

MAX_REWRITTEN = 0.5
"""Percent of turns that the default may rewrite."""


def files(folder: Path) -> Iterator[Path]:
    """Yield the files of transcripts in a folder."""
    for pattern in ("*.messages.json", "*.jsonl"):
        yield from sorted(folder.rglob(pattern))


def logs(path: Path, most: int) -> list[list[Recorded]]:
    """Return the events of the longest conversations of a file."""
    found: list[list[Recorded]] = []
    # Other files, such as whole requests and traces, hold no transcripts.
    with EventStore.open("sqlite://") as store, suppress(SourceError):
        names = import_file(store, path).ids
        found += [list(store.conversation(name).events()) for name in names]
    return sorted(found, key=len, reverse=True)[:most]


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, data=ROOT / "tests" / "data", conversations=100)
    most = options.conversations or (5 if options.quick else 100)
    found = [log for path in files(options.data) for log in logs(path, most)]
    turns = sum(
        turn.role == "assistant"
        for log in found
        for turn in model_history(log, collapse="none").turns
    )
    figures = [Figure("conversations", len(found)), Figure("turns of the model", turns)]
    for collapse in get_args(Collapse):
        breaks = [each for log in found for each in cache_breaks(log, "openai", collapse=collapse)]
        share = 100 * len(breaks) / max(turns, 1)
        lost = sum(each.lost for each in breaks)
        limit = MAX_REWRITTEN if collapse == get_args(Collapse)[0] else None
        figures += [
            Figure(f"{collapse}: turns rewritten", share, "%", limit),
            Figure(f"{collapse}: lost", lost / 1_000, "KB"),
        ]
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
