"""Calls and results that stand in a value, and that no form reads: importing it would lose them.

1. An object is a call or a result by the name of its type, by the name of the member that holds it,
   or by its own members: a tool's name beside arguments, or the id of a call.
2. A provider's form knows those that its adapter names (`FormatSignature`). What its servers ran,
   by its type or its `execution`, is kept as it is, and does not count.
3. What stands inside a call or a result is the tool's own, and is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.providers.registry import PROVIDERS, adapter_of

_LETTERS: Final = re.compile(r"[^a-z]+")
_NAMED: Final = re.compile(
    r"(?:tool|function|mcp)s?(?:call|use|invocation|request|result|response|output|return|execution)"
)
_PREFIXED: Final = re.compile(r"(?:dynamic-)?tool[-.]")
"""How the AI SDK names a part: `tool-find`, `dynamic-tool`."""

_KINDS: Final = ("type", "kind", "content_type", "block_type", "part_kind", "event")
_NAMES: Final = frozenset(
    {"name", "tool", "toolName", "tool_name", "function", "function_name", "functionName"}
)
_ARGUMENTS: Final = frozenset(
    {
        *("arguments", "args", "input", "parameters", "params", "kwargs"),
        *("tool_input", "toolInput", "tool_args", "toolArgs", "tool_kwargs", "rawInput"),
    }
)
_CALL_IDS: Final = frozenset(
    {
        *("tool_call_id", "toolCallId", "call_id", "callId"),
        *("tool_use_id", "toolUseId", "tool_id", "toolId"),
    }
)
_ASIDE: Final = frozenset(
    {
        *("annotations", "citations", "meta", "metadata", "response_metadata", "usage", "tools"),
        *("provider_specific_fields", "providerMetadata", "providerOptions", "available_tools"),
    }
)
"""Members of a message that tell of it, and hold none of its calls."""

_CONTENTS: Final = frozenset({"content", "parts", "contents", "blocks", "items"})
_MAX_DEPTH: Final = 4
_SERVER: Final = "server"
"""The `execution` of an item of OpenAI Responses that the provider ran."""


class Sign(NamedTuple):
    """A call or a result: `what` names it by its type or its member.

    `is_known`: the form has such. `in_content`: it stands in a message's content, not beside it,
    where it may repeat another.
    """

    what: str
    is_known: bool
    in_content: bool


class _Known(NamedTuple):
    """What the form of a provider knows, by the names of members, of types and of roles."""

    members: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    served_members: frozenset[str] = frozenset()
    served_types: frozenset[str] = frozenset()


def call_in(value: JsonValue) -> str | None:
    """Return what names the first call or result in a value that is no message; None if none."""
    return next((found.what for found in _found(value, _Known(), 0)), None)


def signs_in(message: JsonValue, provider: str) -> Iterator[Sign]:
    """Yield the calls and results in a message, and whether the form of `provider` knows them."""
    known = _known_to(provider)
    role = message.get("role") if is_json_object(message) else None
    if not is_json_object(message) or not isinstance(role, str):
        yield from _found(message, known, 0)
    elif role not in known.roles and _is_named(role):
        yield Sign(role, is_known=False, in_content=True)
    else:
        yield from _inside(message, known, 0, in_content=False)


def providers_that_know(what: str) -> Iterator[str]:
    """Yield the providers whose form has what has this name."""
    return (name for name in PROVIDERS if any(what in names for names in _known_to(name)))


def is_in_form(message: JsonValue, provider: str) -> bool:
    """Return whether a message has what messages of `provider` have: content, or a call."""
    if not is_json_object(message):
        return False
    known = _known_to(provider)
    content = "parts" if adapter_of(provider).list_key == "contents" else "content"
    members = known.members | known.served_members | {content}
    return not members.isdisjoint(message) or _kind_of(message) in known.types | known.served_types


@cache
def _known_to(provider: str) -> _Known:
    signature = adapter_of(provider).signature
    members = (signature.calls, signature.results, signature.message_calls, signature.part_calls)
    types = frozenset({*signature.call_types, *signature.result_types})
    return _Known(
        signature.shared_members.union(*members),
        types,
        frozenset(signature.result_roles),
        signature.served_members,
        signature.served_types.union(signature.part_types) - types,
    )


def _found(
    value: JsonValue, known: _Known, depth: int, *, in_content: bool = False
) -> Iterator[Sign]:
    """Yield the calls in an object or a list, and the object itself if it is one."""
    if isinstance(value, list):
        for each in value:
            yield from _found(each, known, depth, in_content=in_content)
    elif is_json_object(value):
        kind = _kind_of(value)
        if kind in known.served_types or value.get("execution") == _SERVER:
            return
        if kind in known.types:
            yield Sign(str(kind), is_known=True, in_content=in_content)
        elif kind is not None and _is_named(kind):
            yield Sign(kind, is_known=False, in_content=in_content)
        elif _has_members_of_call(value):
            yield Sign(kind or next(iter(value)), is_known=False, in_content=in_content)
        else:
            yield from _inside(value, known, depth, in_content=in_content)


def _inside(value: JsonObject, known: _Known, depth: int, *, in_content: bool) -> Iterator[Sign]:
    for key in value:
        inner: JsonValue = value[key]
        if not inner or not isinstance(inner, dict | list):
            continue
        if key in known.served_members or key in _ASIDE:
            continue
        if key in known.members:
            yield Sign(key, is_known=True, in_content=in_content)
        elif isinstance(inner, dict) or any(isinstance(each, dict) for each in inner):
            if _is_named(key):
                yield Sign(key, is_known=False, in_content=in_content)
            elif depth < _MAX_DEPTH:
                inside = in_content or key in _CONTENTS
                yield from _found(inner, known, depth + 1, in_content=inside)


def _kind_of(value: JsonObject) -> str | None:
    return next((kind for key in _KINDS if isinstance(kind := value.get(key), str)), None)


def _is_named(name: str) -> bool:
    return bool(_PREFIXED.match(name) or _NAMED.search(_LETTERS.sub("", name.lower())))


def _has_members_of_call(value: JsonObject) -> bool:
    return bool(_CALL_IDS & value.keys()) or bool(
        _NAMES & value.keys() and any(isinstance(value.get(each), dict) for each in _ARGUMENTS)
    )
