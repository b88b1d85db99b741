"""Shapes of parts: the types that an API asks for, declared as structs of msgspec."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from eventstore.providers.rules_reader import members_of

_BYTES: Final = "$bytes"
"""The key under which a log keeps what a request has as bytes."""


class Fault(msgspec.Struct, frozen=True):
    """A value that is not of the type that the API asks for."""

    place: str
    """Members and indexes from the part on, as in `.inlineData.mimeType`."""
    detail: str
    """What was asked for, and what is there."""


def misshapen(part: object, shape: Any) -> Fault | None:
    """Return the first fault of a part whose members are not those of `shape`; None if all are."""
    try:
        msgspec.convert(part, shape)
    except msgspec.ValidationError as error:
        detail, _, place = str(error).rpartition(" - at `$")
        return Fault(place.rstrip("`"), detail) if detail else Fault("", str(error))
    except (RecursionError, UnicodeEncodeError):
        return Fault("", "nested too deeply, or with names that are no text")
    return None


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
