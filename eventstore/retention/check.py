"""`check_archives`: whether the files are there that hold what was archived, and are as written."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from eventstore.retention.archive_file import JSON_LINES, ArchiveForm
from eventstore.retention.matching import matching

if TYPE_CHECKING:
    from eventstore.storage.interface import Archived, Storage


class ArchiveProblem(msgspec.Struct, frozen=True):
    """What is wrong with a file: it `is_missing` where it was written, or is not as it was."""

    place: str
    problem: str
    is_missing: bool = False


def check_archives(
    storage: Storage, forms: Sequence[ArchiveForm] = (), *, whole: bool = True
) -> Iterator[ArchiveProblem]:
    """Yield what is wrong with the archives of a tenant; see `EventStore.verify_archives`."""
    archives = storage.archives
    if archives is None:
        return
    by_place: defaultdict[str, dict[str, Archived]] = defaultdict(dict)
    for each in archives.list():
        by_place[each.place][each.conversation_id] = each
    for place, expected in by_place.items():
        if not Path(place).is_file():
            said = f"the archive of {len(expected):,} conversations is not there"
            yield ArchiveProblem(place, said, is_missing=True)
        elif whole:
            problem = _problem(storage, place, expected, (*forms, JSON_LINES))
            if problem is not None:
                yield ArchiveProblem(place, problem)


def _problem(
    storage: Storage, place: str, expected: dict[str, Archived], forms: Sequence[ArchiveForm]
) -> str | None:
    form = next((form for form in forms if place.endswith(form.suffix)), None)
    archives = storage.archives
    if form is None or archives is None:
        return "its form is not known: pass the form that it was written with"
    left = dict(expected)
    try:
        for name, lines in groupby(form.read(Path(place)), lambda line: line.conversation_id):
            there = left.pop(name, None)
            if there is not None:
                deque(matching(storage, archives, there, lines), maxlen=0)
    except (OSError, ValueError) as error:
        return str(error)
    return f"conversation {next(iter(left))!r} is missing" if left else None
