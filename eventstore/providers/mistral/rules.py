"""The rules of Mistral, MI01 to MI03.

A starred code is the same rule where only some refuse: older models, or a literal reading. A fault
for which the table has no row of its own goes to the nearest one:

- MI01 also takes the names of functions;
- MI02 also takes `tool_calls` and calls of a wrong type, and calls in the very first message, whose
  results the API does not count;
- MI03 also takes the order of roles, roles that do not exist, a prefix before the last message, and
  content of a wrong type.

The content of an assistant may be null or empty beside its calls, and arguments may be an object.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Fault = tuple[str, str]  # place and detail

__all__ = ["RULES", "TOLERATED", "findings"]

RULES: Final[dict[str, tuple[Literal["hard", "strict"], str, str]]] = {
    "MI01": (
        "hard",
        "{place}: {detail}",
        (
            "give call and result the same id of 9 letters and digits, and each function a name of "
            "1 to 64 characters of [a-zA-Z0-9_-]"
        ),
    ),
    "MI02": (
        "hard",
        "{place}: {detail}",
        (
            "put one tool message for each call directly after the assistant message, "
            "each with the id of its call"
        ),
    ),
    "MI02*": (
        "strict",
        "{place}: {detail}",
        "begin with what the user said, or with the system message",
    ),
    "MI03": (
        "hard",
        "{place}: {detail}",
        (
            "end with a user or tool message, or mark the last assistant message as a prefix; "
            "keep system messages in front of the assistant's"
        ),
    ),
    "MI03*": (
        "strict",
        "{place}: {detail}",
        "give the message text, or leave it out where it says nothing",
    ),
}
"""Code to level, the API's words and the remedy."""

TOLERATED: Final = frozenset[str]()
"""Strict rules without which the API itself answers: none."""

_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_SHOWN: Final = 80
_SAME_NUMBER: Final = "Not the same number of function calls and responses"


def findings(messages: object) -> Iterator[tuple[str, str, str]]:
    """Code, place and detail of everything in `messages` that breaks a rule."""
    if not isinstance(messages, list):
        yield "MI03", "messages", f"Input should be a valid list, but is {_shown(messages)}"
        return
    history = _History(messages)
    for code, check in _CHECKS.items():
        for place, detail in check(history):
            yield code, place, detail


class _Message(NamedTuple):
    """A message; what is no object is read as an empty one."""

    place: str
    role: str | None
    body: dict[object, Any]

    @property
    def calls(self) -> list[tuple[str, dict[object, Any]]]:
        calls = self.body.get("tool_calls") if self.role == "assistant" else None
        return [
            (f"{self.place}.tool_calls[{index}]", call)
            for index, call in enumerate(calls if isinstance(calls, list) else ())
            if isinstance(call, dict)
        ]


class _Id(NamedTuple):
    """The id of a call or of a result, of whatever type it came."""

    place: str
    value: object

    @property
    def key(self) -> object:
        """What pairs call and result: the text, or for an id that is none (or absent) its type."""
        return self.value if isinstance(self.value, str) else type(self.value)


class _Turn(NamedTuple):
    """A message that is no tool message, with the unbroken run of tool messages after it."""

    place: str
    calls: list[_Id]
    results: list[_Id]


class _History:
    """A message list, read once into what the checks look at."""

    def __init__(self, raw: list[object]) -> None:
        self.raw = raw
        self.messages = [_message(index, message) for index, message in enumerate(raw)]
        self.turns = list(_turns(self.messages))
        self.calls = [each for message in self.messages for each in message.calls]

    def of(self, role: str) -> Iterator[_Message]:
        return (message for message in self.messages if message.role == role)


def _message(index: int, message: object) -> _Message:
    body: dict[object, Any] = message if isinstance(message, dict) else {}
    role = body.get("role")
    return _Message(f"messages[{index}]", role if isinstance(role, str) else None, body)


def _turns(messages: Iterable[_Message]) -> Iterator[_Turn]:
    turn = _Turn("", [], [])
    for message in messages:
        if message.role == "tool":
            answered = message.body.get("tool_call_id")
            turn.results.append(_Id(f"{message.place}.tool_call_id", answered))
            continue
        yield turn
        calls = [_Id(f"{place}.id", call.get("id")) for place, call in message.calls]
        turn = _Turn(message.place, calls, [])
    yield turn


def _illegal_ids(history: _History) -> Iterator[Fault]:
    """MI01: ids are 9 letters and digits, and names of functions legal."""
    for turn in history.turns:
        for each in (*turn.calls, *turn.results):
            if not isinstance(each.value, str) or not _ID.fullmatch(each.value):
                shown = _shown(each.value)
                yield (
                    each.place,
                    f"Tool call id was {shown} but must be a-z, A-Z, 0-9, with a length of 9.",
                )
    named = [
        (f"{place}.function.name", _object(call.get("function")).get("name"))
        for place, call in history.calls
    ]
    named += [
        (f"{message.place}.name", message.body["name"])
        for message in history.of("tool")
        if message.body.get("name") is not None
    ]
    for place, name in named:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield (
                place,
                (
                    f"Function name was {_shown(name)} but must be a-z, A-Z, 0-9, "
                    "or contain underscores and dashes, with a maximum length of 64."
                ),
            )


def _unpaired(history: _History) -> Iterator[Fault]:
    """MI02: as many results as calls, answered by id, and no id twice on either side."""
    for turn in history.turns:
        yield from _repeated(turn.calls, "Duplicate tool call id {} in assistant message")
        answered = {result.key for result in turn.results}
        missing = [call for call in turn.calls if call.key not in answered]
        if missing:
            ids = ", ".join(dict.fromkeys(_shown(call.value) for call in missing))
            yield turn.place, f"{_SAME_NUMBER}: no response to {ids}"
        asked = {call.key for call in turn.calls}
        for result in turn.results:
            if result.key not in asked:
                yield (
                    result.place,
                    f"Unexpected tool call id {_shown(result.value)} in tool results",
                )
        yield from _repeated(turn.results, "Duplicate tool call id {} in tool results")
    for message in history.of("assistant"):
        yield from _malformed_calls(message)


def _repeated(ids: Iterable[_Id], words: str) -> Iterator[Fault]:
    seen: set[object] = set()
    for each in ids:
        if not isinstance(each.value, str):
            continue
        if each.key in seen:
            yield each.place, words.format(_shown(each.value))
        seen.add(each.key)


def _malformed_calls(message: _Message) -> Iterator[Fault]:
    calls, place = message.body.get("tool_calls"), f"{message.place}.tool_calls"
    if calls is not None and not isinstance(calls, list):
        yield place, f"Input should be a valid list, but is {_shown(calls)}"
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        if not isinstance(call, dict):
            yield f"{place}[{index}]", f"Input should be a call, but is {_shown(call)}"
            continue
        arguments = _object(call.get("function")).get("arguments")
        if not isinstance(arguments, (str, dict)):
            yield (
                f"{place}[{index}].function.arguments",
                f"Input should be a string or an object, but is {_shown(arguments)}",
            )


def _leading_calls(history: _History) -> Iterator[Fault]:
    """MI02*: the very first message makes no calls."""
    for message in history.messages[:1]:
        if message.calls:
            yield message.place, "Conversation must start with a user message or system message"


def _misplaced(history: _History) -> Iterator[Fault]:
    """MI03: roles exist and follow each other, and the last message lets the model speak."""
    before: str | None = None
    for raw, message in zip(history.raw, history.messages, strict=True):
        if not isinstance(raw, dict):
            yield message.place, f"Input should be an object, but is {_shown(raw)}"
        elif message.role not in _ROLES:
            yield f"{message.place}.role", f"Unknown role {_shown(raw.get('role'))}"
        elif message.role == "system" and before in ("assistant", "tool"):
            yield message.place, f"Unexpected role 'system' after role '{before}'"
        before = message.role
        yield from _malformed_content(message)
    for message in history.messages[:-1]:
        if message.role == "assistant" and message.body.get("prefix"):
            yield message.place, "Assistant message with prefix True must be last message"
    for message in history.messages[-1:]:
        if message.role == "assistant" and not message.body.get("prefix"):
            yield (
                message.place,
                (
                    "Expected last role User or Tool (or Assistant with prefix True) for serving "
                    "but got assistant"
                ),
            )


def _malformed_content(message: _Message) -> Iterator[Fault]:
    """Content is text or a list of typed chunks; null is judged by MI03*."""
    content, place = message.body.get("content"), f"{message.place}.content"
    if message.role not in _ROLES or content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        yield place, f"Input should be a valid string or list, but is {_shown(content)}"
        return
    for index, chunk in enumerate(content):
        kind = chunk.get("type") if isinstance(chunk, dict) else None
        if not isinstance(kind, str):
            yield f"{place}[{index}]", f"Input should be a chunk, but is {_shown(chunk)}"
        elif kind == "text" and not isinstance(chunk.get("text"), str):
            yield f"{place}[{index}].text", "Input should be a valid string"


def _says_nothing(history: _History) -> Iterator[Fault]:
    """MI03*: messages carry something, and the last is no system message."""
    for message in history.messages:
        content, place = message.body.get("content"), f"{message.place}.content"
        if message.role == "assistant":
            if not content and not message.calls:
                yield place, "Assistant message must have either content or tool_calls"
        elif message.role in _ROLES and content is None:
            yield place, "Input should be a valid string or list, but is null"
    for message in history.messages[-1:]:
        if message.role == "system":
            yield message.place, "Expected last role User or Tool for serving but got system"


def _object(value: object) -> dict[object, Any]:
    return value if isinstance(value, dict) else {}


def _shown(value: object) -> str:
    """A value inside a sentence: short and printable, whatever it is; containers by type alone."""
    if isinstance(value, str):
        text = value if len(value) <= _MAX_SHOWN else f"{value[: _MAX_SHOWN - 3]}..."
        return text if text and text.isprintable() else repr(text)
    return "null" if value is None else type(value).__name__


_CHECKS: Final[dict[str, Callable[[_History], Iterator[Fault]]]] = {
    "MI01": _illegal_ids,
    "MI02": _unpaired,
    "MI02*": _leading_calls,
    "MI03": _misplaced,
    "MI03*": _says_nothing,
}
