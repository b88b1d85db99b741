"""Folders in which OpenHands keeps a conversation: a file for each event, in `events/`.

`<conversation>/events/0.json` is V0's, `<conversation>/events/event-00000-<id>.json` is V1's. What
else is in `<conversation>` is the program's own state. An event that is no regular file inside the
folder is a problem, and is not opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from eventstore.domain.json_types import JsonValue
from eventstore.importers.programs.openhands import is_event
from eventstore.importers.reading.json_lines import decode, decode_noting
from eventstore.importers.reading.problems import Problems, SourceError
from eventstore.importers.reading.regular_files import fault_of

_FOLDER: Final = "events"
_EVENT_FILE: Final = re.compile(r"(?:event-)?(\d+)(?:-[\w-]+)?\.json")


class EventFolder:
    """The events of one conversation, in their order; `position` of `size` bytes have been read."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path = path
        self._files = _event_files(path)
        self.size = sum(file.lstat().st_size for file in self._files)
        self.position = 0
        self._problems = problems

    def values(self) -> Iterator[tuple[int, JsonValue]]:
        """Yield each event with its number from 1; one that cannot be read becomes a problem.

        Raises:
            SourceError: a file cannot be opened.
        """
        for number, file in enumerate(self._files, 1):
            if (fault := fault_of(file, self.path)) is not None:
                self._problems.add(f"{file.name} {fault}")
                continue
            try:
                data = file.read_bytes()
                yield number, decode_noting(data, self._problems, where=file.name)
            except ValueError:
                self._problems.add(f"{file.name} is not JSON")
                continue
            except OSError as error:
                raise SourceError(
                    f"{file} cannot be read: {error.strerror}: mend its rights"
                ) from error
            self.position += len(data)


def is_event_folder(path: Path) -> bool:
    """Return whether a folder holds the events of a conversation, judged by the first."""
    if path.name != _FOLDER or not path.is_dir():
        return False
    try:
        for file in _event_files(path):
            if fault_of(file, path) is None:
                return is_event(decode(file.read_bytes()))
    except (OSError, ValueError):
        pass
    return False


def with_event_folders(files: Iterable[Path]) -> list[Path]:
    """Return files in order; the folder of a conversation's events stands for all of its files."""
    given = list(files)
    parents = {file.parent for file in given if file.parent.name == _FOLDER}
    folders = {each for each in parents if is_event_folder(each)}
    own = {folder.parent for folder in folders}
    others = [file for file in given if own.isdisjoint(file.parents)]
    return sorted([*others, *folders])


def _event_files(path: Path) -> list[Path]:
    numbered = ((_EVENT_FILE.fullmatch(file.name), file) for file in path.iterdir())
    return [file for _, file in sorted((int(found[1]), file) for found, file in numbered if found)]
