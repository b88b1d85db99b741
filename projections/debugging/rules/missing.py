"""Errors that say that a file, or another thing of the work tree, is not in its place."""

from __future__ import annotations

import re

from eventstore.domain.json_types import is_json_object
from projections.debugging.call_facts import CallError, CallFacts
from projections.debugging.command_output import command_of

_END_CHARACTERS = 600  # of a long text, on both ends: its middle is not read
_PATHS = ("path", "file", "file_path", "filename", "filepath", "absolute_path", "directory", "dir")
_MISSING = re.compile(
    r"no such file|ENOENT|does(?: not|n't) exist|(?<!command )not found|(?:cannot|can't|could not|"
    r"couldn't|unable to) (?:find|open|access|locate|stat)|can't cd to|not a git repository|"
    r"no rule to make|no targets specified|no makefile|no configuration file|no module named|"
    r"missing script|could not read package\.json|find the (?:path|file)|not a directory|"
    r"no tests? (?:found|ran)|no inputs were found|cannot load such file|no (?:matching )?files?\b|"
    r"did not match any file",
    re.IGNORECASE,
)
"""How a program says that what it wants is not in its place."""
_OF_NO_FILE = re.compile(r"\b404\b|https?://|: command not found|No matching distribution")


def brief(error: CallError) -> str:
    """Return the text of an error, of a long one its beginning and its end."""
    text = error.text
    if len(text) <= 2 * _END_CHARACTERS:
        return text
    return f"{text[:_END_CHARACTERS]}\n{text[-_END_CHARACTERS:]}"


def misses_file(error: CallError, line: str) -> bool:
    """Return whether a call on files failed, as its error line says, for want of one of them."""
    call = error.call
    if call is None or (command_of(call.call) is None and path_of(call) is None):
        return False
    return _MISSING.search(line) is not None and _OF_NO_FILE.search(line) is None


def path_of(call: CallFacts) -> str | None:
    """Return the path that a call names in an argument of its own."""
    arguments = (call.edit or call.call).arguments
    given = arguments if is_json_object(arguments) else {}
    return next((path for name in _PATHS if isinstance(path := given.get(name), str)), None)
