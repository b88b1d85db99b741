"""Results that hold no data, whatever is written around nothing."""

from __future__ import annotations

import re

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object

_MAX_CHARACTERS = 400
_NOTHING = re.compile(
    r"(?>\s+|"
    r"(?:exit code|returncode|return code|exit status): ?0(?!\d)|(?:process )?exited with code 0|"
    r"wall time: [\d.]+ ?(?:s|seconds)\b|chunk id: \w+|original token count: 0|"
    r"</?(?:output|stdout|stderr|result|returncode)>|(?:output|stdout|stderr):|"
    r"[(<\[]?(?:no (?:output|content|results?|rows|data|matches|files|records|documents)"
    r"(?: (?:found|returned|matched))?|empty(?: result)?|null|none|nil|undefined|"
    r"(?:\w+ )?(?:completed|ran|executed)(?: successfully)?,?"
    r" with(?:out| no) output(?: or errors)?)"
    r"[)>\]]?|\[\]|\{\}|\(0 rows\)|0(?: rows?)?(?!\w))*+\Z",
    re.IGNORECASE,
)
"""A text of nothing but what is written around nothing."""
_DATA = frozenset(
    {
        *("rows", "results", "items", "data", "output", "stdout", "content", "matches", "hits"),
        *("records", "files", "entries", "values", "documents", "list", "result", "text", "body"),
    }
)
"""Members of a result that hold what was asked for."""


def says_nothing(result: object) -> bool:
    """Return whether a result holds no data."""
    if isinstance(result, str):
        return len(result) <= _MAX_CHARACTERS and _is_empty_text(result)
    if is_json_object(result):
        return _is_empty_object(result)
    if is_json_list(result):
        return _is_empty_list(result)
    return result is None


def _is_empty_text(text: str) -> bool:
    if _NOTHING.match(text) is not None:
        return True
    if text[:1] not in ("{", "[") or text[-1:] not in ("}", "]"):
        return False
    try:
        return says_nothing(msgspec.json.decode(text))
    except (ValueError, RecursionError):
        return False


# Every result of a log goes through these: they make no generator.


def _is_empty_object(result: JsonObject) -> bool:
    holds_data = False
    for name, value in result.items():
        if name in _DATA:
            holds_data = True
            if not says_nothing(value):
                return False
    return holds_data or not result or result.get("count") == 0 or result.get("total") == 0


def _is_empty_list(parts: list[JsonValue]) -> bool:
    for part in parts:
        if not is_json_object(part) or part.get("type") != "text":
            return False
        if not says_nothing(part.get("text")):
            return False
    return True
