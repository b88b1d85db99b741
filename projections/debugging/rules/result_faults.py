"""Results that cannot be right: JSON that breaks off, and data about something else."""

from __future__ import annotations

import re

import msgspec

from eventstore.domain.json_types import is_json_object
from eventstore.domain.one_line import one_line
from projections.debugging.call_facts import CallFacts

_MAX_ECHO_CHARACTERS = 20_000
_ECHOED = re.compile(
    r"(?:^|_)(?:id|ids|key|number|no|code|email|date|order|city|location|path|url|symbol|user|"
    r"customer|account)$|Id$|Number$|Code$|Key$"
)
_CREATES = re.compile(r"(?:create|add|insert|new|copy|duplicate|fork)(?:$|[_.A-Z-])")
"""Tools whose result has an id of its own."""
_MIN_FILE_LINES = 3
"""Lines of JSON that breaks off which are a part of a file, as a tool was asked for."""


def truncation_weight(text: str) -> int | None:
    """Return the weight of a result that is JSON without its end; None for any other text."""
    if text[:1] not in ("{", "[") or text[-1:] in ("}", "]"):
        return None
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        if "truncated" not in str(error):
            return None
        return 72 if text.count("\n") < _MIN_FILE_LINES else 34
    return None


def mismatch(call: CallFacts) -> str | None:
    """Return why a result cannot be that of the call: it names another value for an argument."""
    arguments = (call.edit or call.call).arguments
    result = call.result
    if not is_json_object(arguments) or call.errors or _CREATES.match(call.name):
        return None
    for key, asked in arguments.items():
        if type(asked) not in (str, int) or not _ECHOED.search(key):
            continue
        found = _echo(result, key, asked)
        if found is not None:
            return f"got the result of another {key}: {one_line(found, 40)}"
    return None


def _echo(result: object, key: str, asked: str | int) -> str | None:
    """Return the other value that a result has for a member, or None."""
    if isinstance(result, str):
        if result[:1] != "{" or len(result) > _MAX_ECHO_CHARACTERS or f'"{key}":' not in result:
            return None
        try:
            result = msgspec.json.decode(result)
        except (ValueError, RecursionError):
            return None
    found = result.get(key) if is_json_object(result) else None
    if not isinstance(found, str | int) or isinstance(found, bool):
        return None
    text, wanted = str(found), str(asked)
    if not text or text in wanted or wanted in text or text.casefold() == wanted.casefold():
        return None
    if text.endswith(wanted.removeprefix("./").removeprefix("../")):
        return None  # a path from another folder
    return text
