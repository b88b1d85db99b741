"""Function calls and responses: what a model asks for and what a tool answers."""

from __future__ import annotations

from typing import Any, TypeGuard, cast

import msgspec

from eventstore.domain.fingerprint import digest, raw_digest, render
from eventstore.domain.nesting import nests_too_deeply


class FunctionCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The call that the model asked for: a tool's name and its arguments.

    Called `FunctionCall` in chat-rs, too, and `ToolInvocation` in rig-compose.

    `raw` is the text of the arguments when that text is not a JSON object, or one that has a key
    twice; `arguments` is then the JSON value it holds, or None where it holds none for certain.
    """

    name: str
    arguments: Any
    id: str | None = None
    raw: str | None = None

    @classmethod
    def of(cls, name: str, arguments: object = None, id: str | None = None) -> FunctionCall:  # noqa: A002
        """Make a call from arguments in any form: an object, its JSON text, or neither.

        None, null and blank text become the empty object. Text that is not a JSON object, or that
        has a key twice, and any other JSON value, is kept as `raw`: which of two values would run
        is not for a parser to choose. So is text that nests more than 200 levels deep.

        Raises:
            UnhashableArguments: the arguments are not text, and JSON cannot express them.
        """
        if type(arguments) is dict:
            return cls(name, arguments, id)
        if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
            return cls(name, {}, id)
        if isinstance(arguments, str):
            value, raw = None if nests_too_deeply(arguments) else _parse(arguments), arguments
        else:
            digest(name, arguments)  # refuses what JSON cannot express, and names the path
            value = msgspec.to_builtins(arguments)
            raw = _canonical(value).decode()
        if type(value) is dict:
            if not repeats_a_key(raw, cast("object", value)):
                return cls(name, value, id)
            value = None
        if raw.strip() == "null":
            return cls(name, {}, id)
        return cls(name, value, id, raw.encode("utf-8", "backslashreplace").decode())

    @property
    def is_object(self) -> bool:
        """Whether the arguments are a JSON object, as a tool needs them."""
        return self.raw is None

    def digest(self) -> bytes:
        """Return the 16 bytes of the fingerprint.

        Raises:
            UnhashableArguments: JSON cannot express the arguments exactly.
        """
        if self.raw is None:
            return digest(self.name, self.arguments)
        return raw_digest(self.name, self.raw)

    @property
    def fingerprint(self) -> str:
        """Fingerprint as text; see `digest`."""
        return render(self.digest())


class FunctionResponse(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The answer of a tool: any JSON value. Called `FunctionResponse` in chat-rs, too."""

    name: str
    result: Any
    id: str | None = None


_canonical = msgspec.json.Encoder(order="deterministic").encode
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def is_tool_name(name: object) -> TypeGuard[str]:
    """Return whether a value can be the name of a tool: text of which something can be seen."""
    if not isinstance(name, str):
        return False
    return name.isidentifier() or any(c.isprintable() and not c.isspace() for c in name)


def _parse(text: str) -> Any:
    try:
        return _decode(text)
    except (ValueError, RecursionError):  # the errors of msgspec are ValueErrors
        return None


def repeats_a_key(text: str | bytes, value: object) -> bool:
    """Return whether an object in a JSON text has a key twice; `value` is what the text holds.

    A parser keeps one of the two members, so that the value has fewer quotes than the text. Only
    where it has, the text is parsed once more.
    """
    written = _encode(value)
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if data == written:
        return False
    if data.count(b'"') == written.count(b'"') and rb"\u0022" not in data:
        return False
    import json  # slow to load, and rarely needed

    repeated = False

    def members(pairs: list[tuple[str, object]]) -> None:
        nonlocal repeated
        repeated = repeated or len(dict(pairs)) < len(pairs)

    try:
        json.loads(text, object_pairs_hook=members)
    except RecursionError:
        return True  # nested too deeply to tell
    return repeated


def same_json(one: object, other: object) -> bool:
    """Return whether two values are the same JSON; key order does not count, 1 and 1.0 differ."""
    if one is other:
        return True
    texts = _canonical(one), _canonical(other)
    # The keys of stored text (`msgspec.Raw`) are not sorted yet.
    return texts[0] == texts[1] or _canonical(_decode(texts[0])) == _canonical(_decode(texts[1]))
