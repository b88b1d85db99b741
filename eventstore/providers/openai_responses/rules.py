"""The rules of OpenAI Responses, OR01 to OR06, over the `input` of a request.

Calls of functions and of custom tools are paired with their outputs. What the API's own servers
run (searches, code, images) comes and goes without; so do items that a client runs under another
protocol (a computer, a shell, a tool search).

An item reference stands for an item that the server keeps: an output after one may answer it.

A fault for which the table has no row of its own goes to OR05: items that are no objects or of no
known role, names and outputs of a wrong form, parts in the wrong place, reasoning that has no
summary.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Fault = tuple[str, str]  # place and detail

__all__ = ["RULES", "TOLERATED", "findings"]

RULES: Final[dict[str, tuple[Literal["hard", "strict"], str, str]]] = {
    "OR01": (
        "hard",
        "{place}: {detail}",
        "put one output with this call_id behind the call, or take the call out",
    ),
    "OR02": (
        "hard",
        "{place}: No tool call found for function call output with call_id {detail}.",
        "move the output behind its call, or keep what it says as a message",
    ),
    "OR03": (
        "hard",
        "{place}: {detail}",
        "leave the id out, or send each item once, with the id that the API gave it",
    ),
    "OR04": (
        "hard",
        "Item {detail} of type 'reasoning' was provided without its required following item.",
        (
            "send the item that came after the reasoning right behind it, under its id, "
            "or leave both out"
        ),
    ),
    "OR05": (
        "hard",
        "Invalid '{place}': {detail}",
        "send call_id, name and arguments as text, the output as text or a list of parts",
    ),
    "OR06": (
        "strict",
        "{place}: a message stands between the call {detail} and its output",
        "put the outputs right behind their calls",
    ),
}
"""Code to level, the API's words and the remedy."""

TOLERATED: Final = frozenset({"OR06"})
"""Strict rules without which the API itself answers."""

_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS: Final = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
}
_PREFIXES: Final = {"function_call": "fc_", "reasoning": "rs_", "message": "msg_"}
_SAID: Final = ("output_text", "refusal")
_GIVEN: Final = ("input_text", "input_image", "input_file", "scoped_content")
_PARTS: Final = (
    "input_text", "input_image", "input_audio", "output_text", "refusal", "input_file",
    "computer_screenshot", "summary_text", "encrypted_content",
)  # fmt: skip
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ITEM_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAX_ID_LENGTH: Final = 64
_MAX_SHOWN: Final = 80


def findings(messages: object) -> Iterator[tuple[str, str, str]]:
    """Code, place and detail of everything in `messages` that breaks a rule.

    Text is a whole input, too.
    """
    if isinstance(messages, str):
        return
    if not isinstance(messages, list):
        yield "OR05", "input", f"expected text or a list of items, but got {_shown(messages)}."
        return
    items = [_item(index, item) for index, item in enumerate(messages)]
    for code, check in _CHECKS.items():
        for place, detail in check(items):
            yield code, place, detail


class _Item(NamedTuple):
    """An item; what is no object is read as an empty one, what has a role as a message."""

    place: str
    raw: object
    kind: str | None
    body: dict[object, Any]

    @property
    def key(self) -> object:
        """What pairs call and output: the id, or its type where it is no text (or absent)."""
        value = self.body.get("call_id")
        return value if isinstance(value, str) else type(value)


def _item(index: int, raw: object) -> _Item:
    body: dict[object, Any] = raw if isinstance(raw, dict) else {}
    kind = body.get("type")
    if kind is None and body:
        bare = body.keys() - {"type"} == {"id"}  # the type of a reference may be null
        kind = "message" if "role" in body else "item_reference" if bare else None
    return _Item(f"input[{index}]", raw, kind if isinstance(kind, str) else None, body)


def _unanswered(items: list[_Item]) -> Iterator[Fault]:
    """OR01: every call has one output, later in the same input."""
    waiting: dict[tuple[str, object], deque[_Item]] = {}
    second: set[str] = set()
    for item in items:
        if item.kind in _CALLS:
            waiting.setdefault((item.kind, item.key), deque()).append(item)
        elif item.kind in _OUTPUTS:
            calls = waiting.get((_OUTPUTS[item.kind], item.key))
            if calls:
                calls.popleft()
            elif calls is not None:
                second.add(item.place)
    left = {item.place for calls in waiting.values() for item in calls}
    for item in items:
        if item.place in left:
            yield item.place, f"No tool output found for function call {_named(item.key)}."
        elif item.place in second:
            yield item.place, f"More than one output found for call {_named(item.key)}."


def _unasked(items: list[_Item]) -> Iterator[Fault]:
    """OR02: every output answers a call earlier in the input."""
    asked: set[tuple[str, object]] = set()
    for item in items:
        if item.kind == "item_reference":
            return  # the server knows what it refers to
        if item.kind in _CALLS:
            asked.add((item.kind, item.key))
        elif item.kind in _OUTPUTS and (_OUTPUTS[item.kind], item.key) not in asked:
            yield item.place, _named(item.key)


def _misnumbered(items: list[_Item]) -> Iterator[Fault]:
    """OR03: ids of items are unique, and begin as their kind demands.

    An id that is a UUID is a compatible server's: some give no other.
    """
    seen: set[str] = set()
    for item in items:
        given = item.body.get("id")
        if given is None:
            continue
        place, prefix = f"{item.place}.id", _PREFIXES.get(item.kind or "")
        if not isinstance(given, str):
            yield place, f"expected text, but got {_shown(given)}."
            continue
        if given in seen:
            yield place, f"Duplicate item found with id {_named(given)}."
        seen.add(given)
        own = prefix is None or given.startswith(prefix)
        if not own and not _UUID.fullmatch(given):
            yield (
                place,
                f"Invalid '{place}': {_shown(given)}. Expected an ID that begins with '{prefix}'.",
            )
        elif prefix is not None and not _ITEM_ID.fullmatch(given):
            yield (
                place,
                f"Invalid '{place}': {_shown(given)}. Expected 1 to 64 of [a-zA-Z0-9_-].",
            )


def _stranded(items: list[_Item]) -> Iterator[Fault]:
    """OR04: a reasoning item is directly followed by what the model said or called after it.

    The API knows the two by their ids: it finds no message without one behind reasoning that it
    keeps (OpenHands/software-agent-sdk#1754). Whether a call that stands alone came with reasoning
    cannot be seen.
    """
    stranded: list[_Item] = []
    belongs = nameless = False
    for item in reversed(items):
        if item.kind != "reasoning":
            belongs = _is_the_models(item)
            nameless = item.kind == "message" and item.body.get("id") is None
        elif not belongs or (nameless and _is_kept(item)):
            stranded.append(item)
    for item in reversed(stranded):
        yield item.place, _shown(item.body.get("id"))


def _is_kept(item: _Item) -> bool:
    """Whether the API looks an item up: it has the API's id, and brings nothing of its own."""
    item_id = item.body.get("id")
    ours = isinstance(item_id, str) and item_id.startswith(_PREFIXES["reasoning"])
    return ours and not item.body.get("encrypted_content")


def _is_the_models(item: _Item) -> bool:
    if item.kind == "message":
        return item.body.get("role") == "assistant"
    if item.kind is None:
        return False
    return (
        not item.kind.endswith(("_output", "_response")) or item.body.get("execution") == "server"
    )


def _malformed(items: list[_Item]) -> Iterator[Fault]:
    """OR05: items are objects; ids, names and arguments are text."""
    for item in items:
        if item.kind is None:
            yield item.place, "expected an item with a type or a role."
        elif item.kind == "message":
            yield from _message_faults(item)
        elif item.kind in _CALLS:
            yield from _id_faults(item)
            name, key = item.body.get("name"), _CALLS[item.kind]
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                yield f"{item.place}.name", f"{_shown(name)} does not match '^[a-zA-Z0-9_-]+$'."
            if not isinstance(item.body.get(key), str):
                given = _shown(item.body.get(key))
                yield f"{item.place}.{key}", f"expected a string, but got {given} instead."
        elif item.kind in _OUTPUTS:
            yield from _id_faults(item)
            yield from _part_faults(f"{item.place}.output", item.body.get("output"), _GIVEN)
        elif item.kind == "reasoning" and not isinstance(item.body.get("summary"), list):
            yield f"{item.place}.summary", "Missing required parameter."


def _message_faults(item: _Item) -> Iterator[Fault]:
    role = item.body.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        yield f"{item.place}.role", f"{_shown(role)} is none of {', '.join(sorted(_ROLES))}."
    known = _SAID if role == "assistant" else _PARTS
    yield from _part_faults(f"{item.place}.content", item.body.get("content"), known)


def _part_faults(place: str, content: object, known: tuple[str, ...]) -> Iterator[Fault]:
    if not isinstance(content, str | list):
        yield place, f"expected text or parts, but got {_shown(content)} instead."
        return
    for index, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            yield f"{place}[{index}]", f"{_shown(part)} is no part with a type."
        elif kind not in known:
            values = ", ".join(known)
            yield f"{place}[{index}]", f"{_shown(kind)}. Supported values are: {values}."


def _id_faults(item: _Item) -> Iterator[Fault]:
    call_id = item.body.get("call_id")
    if not isinstance(call_id, str) or not call_id:
        yield f"{item.place}.call_id", f"expected a string, but got {_shown(call_id)} instead."
    elif len(call_id) > _MAX_ID_LENGTH:
        most = f"Expected a string with maximum length {_MAX_ID_LENGTH}"
        given = f"got a string with length {len(call_id)} instead."
        yield f"{item.place}.call_id", f"string too long. {most}, but {given}"


def _interleaved(items: list[_Item]) -> Iterator[Fault]:
    """OR06: no message stands between a call and its output."""
    calls: dict[tuple[str, object], int] = {}  # to the messages before it
    messages = 0
    for item in items:
        if item.kind == "message":
            messages += 1
        elif item.kind in _CALLS:
            calls[item.kind, item.key] = messages
        elif item.kind in _OUTPUTS:
            before = calls.pop((_OUTPUTS[item.kind], item.key), messages)
            if before != messages:
                yield item.place, _named(item.key)


def _named(key: object) -> str:
    """An id inside a sentence, bare where it can be read."""
    if isinstance(key, str) and key and key.isprintable() and len(key) <= _MAX_SHOWN:
        return key
    return _shown(key) if isinstance(key, str) else "(no id)"


def _shown(value: object) -> str:
    """A value inside a sentence: short and printable, whatever it is; containers by type alone."""
    if isinstance(value, str):
        return repr(value if len(value) <= _MAX_SHOWN else f"{value[: _MAX_SHOWN - 3]}...")
    return "null" if value is None else f"a value of type {type(value).__name__}"


_CHECKS: Final[dict[str, Callable[[list[_Item]], Iterator[Fault]]]] = {
    "OR01": _unanswered,
    "OR02": _unasked,
    "OR03": _misnumbered,
    "OR04": _stranded,
    "OR05": _malformed,
    "OR06": _interleaved,
}
