"""Large results of Claude Code, which it keeps in `tool-results/` beside a session.

The model was shown the beginning, and so it is in the next prompt; the log keeps the whole. Only
regular files of the session's own folder are read, up to a size, whatever path the result names.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.regular_files import fault_of

MAX_BYTES: Final = 1_000_000
"""The size of a result that is read."""

_MARK: Final = "<persisted-output>\n"
_SAVED: Final = "Full output saved to: "
_FOLDER: Final = "tool-results"
_SUB_AGENTS: Final = "subagents"
_NAME: Final = re.compile(r"\w[\w.-]{0,200}\.txt")


class PersistedOutputs:
    """The large results of a session, asked for by what stands in their place."""

    def __init__(self, session: Path | None, problems: Problems) -> None:
        self._folder = None if session is None else session / _FOLDER
        self._problems = problems

    def __call__(self, said: str) -> str | None:
        """Return the whole of a result; None where what is said is the whole, or cannot be read."""
        if self._folder is None or not said.startswith(_MARK):
            return None
        saved = said[len(_MARK) :].partition("\n")[0].partition(_SAVED)[2]
        name = saved.replace("\\", "/").rpartition("/")[2].strip()
        if not _NAME.fullmatch(name):
            return None
        file = self._folder / name
        if not file.is_symlink() and not file.exists():
            self._problems.add(f"{_FOLDER}/{name} is not there: only its beginning was imported")
            return None
        if fault := fault_of(file, self._folder.parent, MAX_BYTES):
            self._problems.add(f"{_FOLDER}/{name} {fault}: only its beginning was imported")
            return None
        return file.read_bytes().decode("utf-8", "replace")


def session_folder(file: Path | None) -> Path | None:
    """Return the folder of a session, which has its name; a sub-agent's file is inside of it."""
    if file is None:
        return None
    folder = file.resolve().parent
    return folder.parent if folder.name == _SUB_AGENTS else folder / file.stem
