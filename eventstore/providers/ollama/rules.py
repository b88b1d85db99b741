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
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from eventstore.providers.ollama.shapes import Message
from eventstore.providers.rules_reader import (
    Members,
    apply_checks,
    is_list,
    list_or_empty,
    members_of,
    quoted,
    text_or_none,
)
from eventstore.providers.shapes import misshapen_message

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


def findings(messages: object) -> Iterator[Finding]:
    """Yield code, place and detail of everything in `messages` that breaks a rule."""
    if is_list(messages):
        history = [_message(number, message) for number, message in enumerate(messages)]
        yield from apply_checks(_CHECKS, history)
    else:
        yield "OL01", "messages", f"expected a list of messages, but got {quoted(messages)}"


class _Message(NamedTuple):
    """A message; a value that is not an object is read as a message without members."""

    number: int
    role: str | None
    body: Members
    raw: object
    calls: list[object]
    """The calls of an assistant."""

    @property
    def place(self) -> str:
        return f"messages[{self.number}]"


def _message(number: int, message: object) -> _Message:
    body = members_of(message)
    role = text_or_none(body.get("role"))
    calls = list_or_empty(body.get("tool_calls")) if role == "assistant" else []
    return _Message(number, role, body, message, calls)


def _malformed(messages: list[_Message]) -> Iterator[Fault]:
    """Check OL01: everything can be decoded, and each result follows its call, in order."""
    waiting: deque[str] = deque()  # names of the calls that the next results answer
    for message in messages:
        if fault := _undecodable(message):
            yield fault
        if message.role != "tool":
            waiting = deque(_name(call) for call in message.calls)
            continue
        name = message.body.get("tool_name")
        if not waiting:
            yield message.place, "a result that follows no call"
        elif (expected := waiting.popleft()) != name and name and isinstance(name, str):
            place = f"{message.place}.tool_name"
            yield place, f"expected {quoted(expected)}, but got {quoted(name)}"


def _undecodable(message: _Message) -> Fault | None:
    given, images = message.raw, message.body.get("images")
    if isinstance(images, tuple):  # the client takes any sequence of images
        images = [*cast("tuple[object, ...]", images)]
        given = {**message.body, "images": images}
    if fault := misshapen_message(given, Message):
        return f"{message.place}{fault.place}", f"cannot unmarshal: {fault.detail}"
    if images and not all(isinstance(image, (str, bytes)) for image in list_or_empty(images)):
        return f"{message.place}.images", "an image is base64 text or bytes"
    return None


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
