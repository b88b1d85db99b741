"""Calls and results that stand in a value, and that no form reads: importing it would lose them.

1. An object is a call or a result by the name of its type, by the name of the member that holds it,
   or by its own members: a tool's name beside arguments, or the id of a call.
2. A provider's form reads those that its adapter names (`FormatSignature`), and keeps those of
   calls that its servers run.
3. What stands inside a call or a result is the tool's own, and is not looked at.
4. What stands beside a message's content may repeat calls that were read. In the content, none may
   be unread.
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


class Unread(NamedTuple):
    """A call or a result: `what` names it by its type or its member."""

    what: str
    in_content: bool


class _Read(NamedTuple):
    """What the form of a provider reads, by the names of members, of types and of roles."""

    members: frozenset[str]
    types: frozenset[str]
    roles: frozenset[str]


_NOTHING: Final = _Read(frozenset(), frozenset(), frozenset())


def call_in(value: JsonValue) -> str | None:
    """Return what names the first call or result in a value that is no message; None if none."""
    return next((found.what for found in _found(value, _NOTHING, 0)), None)


def unread_in(message: JsonObject, provider: str) -> Iterator[Unread]:
    """Yield the calls and results in a message that the form of `provider` does not read."""
    read = _read_by(provider)
    role = message.get("role")
    if not isinstance(role, str):
        yield from _found(message, read, 0)
    elif role not in read.roles and _is_named(role):
        yield Unread(role, in_content=True)
    else:
        yield from _inside(message, read, 0, in_content=False)


def providers_that_read(what: str) -> Iterator[str]:
    """Yield the providers whose form reads what has this name."""
    return (name for name in PROVIDERS if any(what in names for names in _read_by(name)))


def is_in_form(message: JsonObject, provider: str) -> bool:
    """Return whether a message has what messages of `provider` have: content, or a call."""
    read = _read_by(provider)
    content = "parts" if adapter_of(provider).list_key == "contents" else "content"
    return (
        content in message
        or _kind_of(message) in read.types
        or not read.members.isdisjoint(message)
    )


@cache
def _read_by(provider: str) -> _Read:
    signature = adapter_of(provider).signature
    members = (signature.calls, signature.results, signature.message_calls, signature.part_calls)
    types = (signature.call_types, signature.result_types, signature.part_types)
    return _Read(
        signature.served.union(*members),
        signature.served.union(*types),
        frozenset(signature.result_roles),
    )


def _found(
    value: JsonValue, read: _Read, depth: int, *, in_content: bool = False
) -> Iterator[Unread]:
    """Yield the calls in an object or a list, and the object itself if it is one."""
    if isinstance(value, list):
        for each in value:
            yield from _found(each, read, depth, in_content=in_content)
    elif is_json_object(value):
        kind = _kind_of(value)
        if kind in read.types:
            return
        if kind is not None and _is_named(kind):
            yield Unread(kind, in_content)
        elif _has_members_of_call(value):
            yield Unread(kind or next(iter(value)), in_content)
        else:
            yield from _inside(value, read, depth, in_content=in_content)


def _inside(value: JsonObject, read: _Read, depth: int, *, in_content: bool) -> Iterator[Unread]:
    for key, inner in value.items():
        if key in read.members or key in _ASIDE or not inner or not isinstance(inner, dict | list):
            continue
        holds_objects = isinstance(inner, dict) or any(isinstance(each, dict) for each in inner)
        if holds_objects and _is_named(key):
            yield Unread(key, in_content)
        elif holds_objects and depth < _MAX_DEPTH:
            inside = in_content or key in _CONTENTS
            yield from _found(inner, read, depth + 1, in_content=inside)


def _kind_of(value: JsonObject) -> str | None:
    return next((kind for key in _KINDS if isinstance(kind := value.get(key), str)), None)


def _is_named(name: str) -> bool:
    return bool(_PREFIXED.match(name) or _NAMED.search(_LETTERS.sub("", name.lower())))


def _has_members_of_call(value: JsonObject) -> bool:
    return bool(_CALL_IDS & value.keys()) or bool(
        _NAMES & value.keys() and any(isinstance(value.get(each), dict) for each in _ARGUMENTS)
    )
