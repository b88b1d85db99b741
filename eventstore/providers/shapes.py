"""Shapes of messages and parts: the types that an API asks for, declared as structs of msgspec.

An adapter and its rules share the declarations of a provider, its `shapes.py`, and nothing else.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from eventstore.providers.rules_reader import is_object, members_of, quoted, shortened

LITELLM_FIELDS: Final = "provider_specific_fields"
"""The member in which litellm has what a provider says, and Chat Completions has no place for."""
LITELLM_MARKS: Final = frozenset({LITELLM_FIELDS, "thinking_blocks", "reasoning_items"})
"""Members of a message that litellm alone writes."""

_BYTES: Final = "$bytes"
"""The key under which a log keeps what a request has as bytes."""
_FOREIGN: Final = frozenset({tuple, set, frozenset})
"""Types that msgspec takes for a list, and that the readers of messages do not."""
_MISSING: Final = re.compile("Object missing required field `(.*)`")


class Fault(msgspec.Struct, frozen=True):
    """A value that is not of the type that the API asks for."""

    place: str
    """Members and indexes from the value on, as in `.inlineData.mimeType`."""
    detail: str
    """What was asked for, and what is there."""


def misshapen(value: object, shape: Any) -> Fault | None:
    """Return the first fault of a value whose members do not fit `shape`; None if all are."""
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        words, found, place = str(error).rpartition(" - at `$")
        detail = words if found else place
        place = place.rstrip("`") if found else ""
        if missing := _MISSING.fullmatch(detail):
            place = f"{place}.{missing[1]}"
        return Fault(place, shortened(detail))
    except (RecursionError, UnicodeEncodeError):
        return Fault("", "nested too deeply, or with names that are not text")
    return None


def misshapen_message(message: object, shape: Any) -> Fault | None:
    """Return the first fault of a message, whose lists have to be lists; None if it has none."""
    if not is_object(message) or not _FOREIGN.isdisjoint(map(type, message.values())):
        return Fault("", f"expected an object of JSON values, but got {quoted(message)}")
    return misshapen(message, shape)


def require_one_of(**members: object) -> None:
    """Raise ValueError unless exactly one of the members is given."""
    given = [name for name, value in members.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            f"Expected exactly one of {', '.join(members)}, got {' and '.join(given) or 'none'}"
        )


def require_data(value: object, name: str) -> None:
    """Raise TypeError if a value is neither base64 text nor bytes, as they are or as kept."""
    members = members_of(value)
    held = members.get(_BYTES) if len(members) == 1 else value
    if not isinstance(held, str | bytes | bytearray):
        raise TypeError(f"Expected base64 text or bytes in `{name}`, got {type(value).__name__}")
