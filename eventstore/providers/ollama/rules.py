"""The rules of Ollama, OL01.

There is one rule: the local server only fills a template, and refuses little. Hard is what it
cannot decode (a value of a wrong type), and a result that the template would give to another call,
or to no call. A star marks what only some refuse: models that run elsewhere want each call answered
and each result named, and the clients know no ids.

Every other fault is reported under the same rule: a role that does not exist, a history that is not
a list, a message or content of a wrong type.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

from eventstore.providers.rules_reader import (
    Members,
    apply_checks,
    is_list,
    is_object,
    list_or_empty,
    members_of,
    quoted,
    text_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eventstore.providers.rule_book import Finding, Rule
    from eventstore.providers.rules_reader import Fault

__all__ = ["RULES", "findings"]

RULES: Final[dict[str, Rule]] = {
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
    "OL01**": ("strict", "{place}: {detail}", "name the tool of each result in `tool_name`"),
}
"""Code to level, what would go wrong and the remedy."""

_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})


def findings(messages: object) -> Iterator[Finding]:
    """Yield code, place and detail of everything in `messages` that breaks a rule."""
    if is_list(messages):
        history = [_message(index, message) for index, message in enumerate(messages)]
        yield from apply_checks(_CHECKS, history)
    else:
        yield "OL01", "messages", f"expected a list of messages, but got {quoted(messages)}"


class _Message(NamedTuple):
    """A message; a value that is not an object is read as a message without members."""

    place: str
    role: str | None
    body: Members
    raw: object

    @property
    def calls(self) -> list[object]:
        return list_or_empty(self.body.get("tool_calls")) if self.role == "assistant" else []


def _message(index: int, message: object) -> _Message:
    body = members_of(message)
    return _Message(f"messages[{index}]", text_or_none(body.get("role")), body, message)


def _malformed(messages: list[_Message]) -> Iterator[Fault]:
    """Check OL01: everything can be decoded, and each result follows its call, in order."""
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
            yield f"{place}.tool_name", f"expected {quoted(expected)}, but got {quoted(name)}"


def _undecodable(message: _Message) -> Iterator[Fault]:
    place, body = message.place, message.body
    if not is_object(message.raw):
        yield place, f"expected a message object, but got {quoted(message.raw)}"
        return
    if message.role not in _ROLES:
        yield f"{place}.role", f"invalid role {quoted(body.get('role'))}"
    for key in ("content", "thinking", "tool_name"):
        if not isinstance(body.get(key), (str, type(None))):
            yield f"{place}.{key}", f"cannot unmarshal {quoted(body[key])} into a string"
    images, calls = body.get("images"), body.get("tool_calls")
    if images is not None:
        yield from _undecodable_images(f"{place}.images", images)
    if calls is not None:
        yield from _undecodable_calls(f"{place}.tool_calls", calls)


def _undecodable_images(place: str, images: object) -> Iterator[Fault]:
    if not is_list(images) and not _is_tuple(images):
        yield place, f"cannot unmarshal {quoted(images)} into a list"
    elif not all(isinstance(image, (str, bytes)) for image in images):
        yield place, "an image is base64 text or bytes"


def _is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(value, tuple)


def _undecodable_calls(place: str, calls: object) -> Iterator[Fault]:
    if not is_list(calls):
        yield place, f"cannot unmarshal {quoted(calls)} into a list"
    for index, call in enumerate(list_or_empty(calls)):
        yield from _undecodable_call(f"{place}[{index}]", call)


def _undecodable_call(place: str, call: object) -> Iterator[Fault]:
    function = members_of(call).get("function")
    if not is_object(function):
        yield place, f"expected a call with a function, but got {quoted(call)}"
        return
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not name:
        yield f"{place}.function.name", f"expected the name of a tool, but got {quoted(name)}"
    if not is_object(arguments):
        yield f"{place}.function.arguments", f"cannot unmarshal {quoted(arguments)} into an object"


def _incomplete(messages: list[_Message]) -> Iterator[Fault]:
    """Check OL01*: a result answers each call, and there are no ids."""
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
            if members_of(call).get("id") is not None:
                yield f"{message.place}.tool_calls[{number}].id", "there are no ids here"
        if message.role == "tool" and message.body.get("tool_call_id") is not None:
            yield f"{message.place}.tool_call_id", "there are no ids here"


def _unnamed(messages: list[_Message]) -> Iterator[Fault]:
    """Check OL01**: a result names its tool; older clients did not."""
    for message in messages:
        if message.role == "tool" and message.body.get("tool_name") in (None, ""):
            yield f"{message.place}.tool_name", "expected the name of a tool, but got none"


def _name(call: object) -> str:
    return text_or_none(members_of(members_of(call).get("function")).get("name")) or ""


_CHECKS: Final[dict[str, Callable[[list[_Message]], Iterator[Fault]]]] = {
    "OL01": _malformed,
    "OL01*": _incomplete,
    "OL01**": _unnamed,
}
