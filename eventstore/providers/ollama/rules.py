"""The rules of Ollama, OL01.

There is one rule, and the local server itself, which only fills a template, refuses little. Hard
is what its reader cannot decode (a type that is wrong) and a result that the template would give
to another call, or to none. Starred is what only some refuse: models that run elsewhere want each
call answered and each result named, and the clients know no ids.

A fault for which the rule says nothing (a role that does not exist, a history that is no list, a
message or content of a wrong type) goes to it, too.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Fault = tuple[str, str]  # place and detail

__all__ = ["RULES", "TOLERATED", "findings"]

RULES: Final[dict[str, tuple[Literal["hard", "strict"], str, str]]] = {
    "OL01": (
        "hard",
        "{place}: {detail}",
        (
            "send arguments as an object and content as text, and put one tool message with "
            "`tool_name` for each call, in their order, right after the message that makes them"
        ),
    ),
    "OL01*": (
        "strict",
        "{place}: {detail}",
        (
            "answer each call right after the message that makes it, with `tool_name`, "
            "and leave ids out"
        ),
    ),
}
"""Code to level, what would go wrong and the remedy."""

TOLERATED: Final = frozenset[str]()
"""Strict rules without which the API itself answers: none."""

_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_MAX_SHOWN: Final = 80


def findings(messages: object) -> Iterator[tuple[str, str, str]]:
    """Code, place and detail of everything in `messages` that breaks a rule."""
    if not isinstance(messages, list):
        yield "OL01", "messages", f"expected a list of messages, but got {_shown(messages)}"
        return
    read = [_message(index, message) for index, message in enumerate(messages)]
    for code, check in _CHECKS.items():
        for place, detail in check(read):
            yield code, place, detail


class _Message(NamedTuple):
    """A message; what is no object is read as an empty one."""

    place: str
    role: str | None
    body: dict[object, Any]
    raw: object

    @property
    def calls(self) -> list[Any]:
        calls = self.body.get("tool_calls") if self.role == "assistant" else None
        return calls if isinstance(calls, list) else []


def _message(index: int, message: object) -> _Message:
    body: dict[object, Any] = message if isinstance(message, dict) else {}
    role = body.get("role")
    return _Message(f"messages[{index}]", role if isinstance(role, str) else None, body, message)


def _malformed(messages: list[_Message]) -> Iterator[Fault]:
    """OL01: everything can be decoded, and each result follows its call, in order."""
    waiting: deque[str] = deque()  # names of the calls that the next results answer
    for message in messages:
        yield from _undecodable(message)
        if message.role != "tool":
            waiting = deque(_name(call) for call in message.calls)
            continue
        name, place = message.body.get("tool_name"), message.place
        if not waiting:
            yield place, "a result that follows no call"
        elif (expected := waiting.popleft()) != name and name and isinstance(name, str):
            yield f"{place}.tool_name", f"expected {_shown(expected)}, but got {_shown(name)}"


def _undecodable(message: _Message) -> Iterator[Fault]:
    place, body = message.place, message.body
    if not isinstance(message.raw, dict):
        yield place, f"expected a message object, but got {_shown(message.raw)}"
        return
    if message.role not in _ROLES:
        yield f"{place}.role", f"invalid role {_shown(body.get('role'))}"
    for key in ("content", "thinking", "tool_name"):
        if not isinstance(body.get(key), (str, type(None))):
            yield f"{place}.{key}", f"cannot unmarshal {_shown(body[key])} into a string"
    images = body.get("images")
    if images is not None:
        if not isinstance(images, (list, tuple)):
            yield f"{place}.images", f"cannot unmarshal {_shown(images)} into a list"
        elif not all(isinstance(image, (str, bytes)) for image in images):
            yield f"{place}.images", "an image is base64 text or bytes"
    calls = body.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        yield f"{place}.tool_calls", f"cannot unmarshal {_shown(calls)} into a list"
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        yield from _undecodable_call(f"{place}.tool_calls[{index}]", call)


def _undecodable_call(place: str, call: object) -> Iterator[Fault]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        yield place, f"expected a call with a function, but got {_shown(call)}"
        return
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not name:
        yield f"{place}.function.name", f"expected the name of a tool, but got {_shown(name)}"
    if not isinstance(arguments, dict):
        yield f"{place}.function.arguments", f"cannot unmarshal {_shown(arguments)} into an object"


def _incomplete(messages: list[_Message]) -> Iterator[Fault]:
    """OL01*: each call is answered by a result that names its tool, and no ids stand beside."""
    for index, message in enumerate(messages):
        calls = message.calls
        answers = 0
        while calls and index + 1 + answers < len(messages):
            if messages[index + 1 + answers].role != "tool":
                break
            answers += 1
        if answers < len(calls):
            yield message.place, f"{len(calls) - answers} of {len(calls)} calls are not answered"
        for number, call in enumerate(calls):
            if isinstance(call, dict) and call.get("id") is not None:
                yield f"{message.place}.tool_calls[{number}].id", "there are no ids here"
        if message.role == "tool":
            name = message.body.get("tool_name")
            if name is None or name == "":
                yield f"{message.place}.tool_name", "expected the name of a tool, but got none"
            if message.body.get("tool_call_id") is not None:
                yield f"{message.place}.tool_call_id", "there are no ids here"


def _name(call: object) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


def _shown(value: object) -> str:
    """A value inside a sentence: short and printable, whatever it is; containers by type alone."""
    if isinstance(value, str):
        return repr(value if len(value) <= _MAX_SHOWN else f"{value[: _MAX_SHOWN - 3]}...")
    return "null" if value is None else type(value).__name__


_CHECKS: Final[dict[str, Callable[[list[_Message]], Iterator[Fault]]]] = {
    "OL01": _malformed,
    "OL01*": _incomplete,
}
