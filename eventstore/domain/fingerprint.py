"""Fingerprints: 128 bits that group and find equal calls.

Scheme 1 is `xxh3_128` over the JSON of `[name, arguments]`, in UTF-8, without white space:
keys sorted by code point at every level, arrays in order, integers exact, floats in their
shortest form (`1` and `1.0` differ, so do `0.0` and `-0.0`), strings untouched. The text form is
`x1:` and 32 hex digits. A change of the recipe is a new scheme with a new prefix, never a change
of this one.

A fingerprint does not authorise anything, because xxhash does not resist an adversary: compare
`canonical` where it matters.
"""

from __future__ import annotations

import math
import re
import reprlib
from typing import TYPE_CHECKING, cast

import msgspec
import xxhash
from msgspec import to_builtins

from eventstore.domain.nesting import (
    MAX_LEVELS,
    SHALLOW_SIZE,
    Path,
    nests_too_deeply,
    shown_path,
    too_deep,
)
from eventstore.errors import UnhashableArguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SLICES = 1024
"""The number of slices of a store. It is stored: it never changes."""

PREFIX = "x1:"
_TEXT = re.compile(r"x1:([0-9a-fA-F]{32})")

_encode = msgspec.json.Encoder(order="deterministic").encode
_pack = msgspec.msgpack.Encoder().encode
_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")  # a float64 whose exponent has all bits


def canonical(name: str, arguments: object) -> bytes:
    """Return the canonical bytes of a call: two calls are the same when their bytes are.

    Raises:
        UnhashableArguments: JSON cannot express the arguments exactly (a NaN or infinity, a key
            that is not text, a lone surrogate, a foreign object), or more than 200 levels of them.
    """
    try:
        data = _encode([name, arguments])
    except RecursionError as error:
        if (path := too_deep(arguments)) is None:
            raise  # the stack of the caller is used up
        raise _nested(path) from error
    except Exception as error:
        raise _fault(name, arguments) or UnhashableArguments("$", _describe(error)) from error
    # The list of name and arguments is a level, too.
    if len(data) > SHALLOW_SIZE and nests_too_deeply(data, MAX_LEVELS + 1):
        raise _nested(too_deep(arguments) or "$")
    # A NaN or infinity is silently written as null: look for one, but only where there is a null.
    if b"null" in data and _may_not_be_finite(arguments) and (fault := _fault(name, arguments)):
        raise fault
    return data


def digest(name: str, arguments: object) -> bytes:
    """Return the fingerprint as stored: 16 bytes, big-endian. Raises the errors of `canonical`."""
    return xxhash.xxh3_128_digest(canonical(name, arguments))


def fingerprint(name: str, arguments: object) -> str:
    """Return the fingerprint as text: `x1:` and 32 hex digits.

    Called `ToolCallFingerprint` in rig-compose, where it has 64 bits and holds for one process.

    Raises:
        UnhashableArguments: JSON cannot express the arguments exactly.
    """
    return render(digest(name, arguments))


def raw_digest(name: str, raw: str) -> bytes:
    """Return the fingerprint of a call whose arguments are not a JSON object. It never raises.

    It is taken over the text of the arguments. The third element marks it, so that no call with
    an object can have the same bytes.
    """
    call = [name, raw, "raw"]
    try:
        data = _encode(call)
    except UnicodeEncodeError:  # a lone surrogate: msgspec's form, with the surrogate let through
        import json  # only for text that UTF-8 cannot hold

        text = json.dumps(call, ensure_ascii=False, separators=(",", ":"))
        data = text.encode("utf-8", "surrogatepass")
    return xxhash.xxh3_128_digest(data)


def render(digest: bytes) -> str:
    """Return the text form of a digest."""
    return PREFIX + digest.hex()


def parse(text: str) -> bytes:
    """Return the digest of a text form.

    Raises:
        ValueError: the text is not `x1:` and 32 hex digits.
    """
    found = _TEXT.fullmatch(str(text))
    if found is None:
        raise ValueError(
            f"{reprlib.repr(text)} is not a fingerprint: "
            "pass `x1:` and 32 hex digits, as fingerprint(name, arguments) gives"
        )
    return bytes.fromhex(found[1])


def slice_of(tenant: str, conversation_id: str) -> int:
    """Return the slice of the store, 0 to 1023, that a conversation always belongs to."""
    framed = _framed(
        tenant.encode("utf-8", "surrogatepass"), conversation_id.encode("utf-8", "surrogatepass")
    )
    return xxhash.xxh3_64_intdigest(framed) & (SLICES - 1)


def content_id(*parts: bytes) -> bytes:
    """Return 16 bytes that depend only on the parts, their order and their borders."""
    return xxhash.xxh3_128_digest(_framed(*parts))


def _framed(*parts: bytes) -> bytes:
    """Join the parts, each after its length, so that ("ab", "c") and ("a", "bc") differ."""
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def _may_not_be_finite(arguments: object) -> bool:
    """Return whether a number may be a NaN or infinity: MessagePack keeps them, and is fast."""
    try:
        packed = _pack(arguments)
    except Exception:  # noqa: BLE001 - an integer of more than 64 bits, or a foreign object
        return True
    return b"\xcb" in packed and _NOT_FINITE.search(packed) is not None


def _fault(name: str, arguments: object) -> UnhashableArguments | None:
    """Return an error for the first value that JSON cannot express. Slow: for suspicious calls."""
    if reason := _reason(name):
        return UnhashableArguments("name", reason)
    pending: list[tuple[Path, int, object]] = [(None, 0, arguments)]
    while pending:
        path, depth, value = pending.pop()
        if depth > MAX_LEVELS:
            return _nested(shown_path(path))
        if reason := _reason(value):
            return UnhashableArguments(shown_path(path), reason)
        members = [((path, key), depth + 1, member) for key, member in _members(value)]
        pending.extend(reversed(members))
    return None


def _reason(value: object) -> str | None:
    """Return why JSON cannot express this value; None if it can. Members are not looked at."""
    if isinstance(value, dict):
        keys = list(cast("dict[object, object]", value))
        return next((reason for key in keys if (reason := _key_reason(key))), None)
    if isinstance(value, list | tuple):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not a JSON number"
    try:
        _encode(to_builtins(value))
    except Exception as error:  # noqa: BLE001 - a foreign object may raise anything
        return _describe(error)
    return None


def _key_reason(key: object) -> str | None:
    if not isinstance(key, str):
        return f"the key {reprlib.repr(key)} is {type(key).__name__}, not text"
    reason = _reason(str(key))
    return reason and f"in the key {reprlib.repr(key)}: {reason}"


def _members(value: object) -> Iterable[tuple[str | int, object]]:
    if not isinstance(value, dict | list | tuple):
        value = to_builtins(value)  # a struct, dataclass or set has members, too
    if isinstance(value, dict):
        return cast("dict[str | int, object]", value).items()
    if isinstance(value, list | tuple):
        return enumerate(cast("Sequence[object]", value))
    return ()


def _nested(path: str) -> UnhashableArguments:
    reason = f"nested more than {MAX_LEVELS} levels deep"
    return UnhashableArguments(path, reason, "pass values of fewer levels, or their text")


def _describe(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object[error.start]!a} is a lone surrogate"
    return str(error) or type(error).__name__
