"""The rules of OpenAI Chat Completions, OA01 to OA13.

A fault for which the table has no row of its own goes to the nearest one:

- OA04 also takes `tool_calls` that is no list, and members of it that are no objects;
- OA07 and OA08 also take custom tool calls and the legacy `function_call`, and OA07 the name of a
  legacy `function` message and those of speakers;
- OA11 also takes assistant content of a wrong type;
- OA12 also takes user, system and developer messages without content, and content of a wrong type;
- both also take parts of other APIs, and images, sounds and files of anybody but the user;
- OA13 also takes a history that is no list, and messages that are no objects.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Fault = tuple[str, str]  # place and detail

__all__ = ["RULES", "TOLERATED", "findings"]

RULES: Final[dict[str, tuple[Literal["hard", "strict"], str, str]]] = {
    "OA01": (
        "hard",
        (
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            "{detail}"
        ),
        (
            "put one tool message for each of these ids directly after the assistant message, "
            "or take the calls out"
        ),
    ),
    "OA02": (
        "hard",
        (
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'."
        ),
        (
            "move the result directly behind the assistant message that made the call, "
            "or keep its text in a user message"
        ),
    ),
    "OA03": (
        "hard",
        "Duplicate value for 'tool_call_id': {detail}",
        "keep one tool message per call; where two calls share the id, give each its own",
    ),
    "OA04": (
        "hard",
        "Invalid '{place}': {detail}",
        "make tool_calls a list of at least one call object, or leave the key out",
    ),
    "OA05": (
        "hard",
        "Invalid '{place}': expected a non-empty string, but got {detail} instead.",
        "give call and result the same non-empty id",
    ),
    "OA06": (
        "strict",
        (
            "Invalid '{place}': string too long. Expected a string with maximum length 40, "
            "but got a string with length {detail} instead."
        ),
        "shorten the id to 40 characters in the same way on call and result",
    ),
    "OA07": (
        "hard",
        "Invalid '{place}': expected 1 to 64 characters of [a-zA-Z0-9_-], but got {detail}.",
        "replace every other character of the name by '_' and cut it at 64",
    ),
    "OA08": (
        "hard",
        "Invalid type for '{place}': expected a string, but got {detail} instead.",
        "write the arguments as JSON text",
    ),
    "OA09": (
        "strict",
        "Invalid '{place}': the arguments must be the JSON text of an object, but are {detail}.",
        "send the arguments as a JSON object; wrap text that is none into one",
    ),
    "OA10": (
        "strict",
        "Duplicate tool call id {detail} in one assistant message.",
        "give each call of the message its own id, and its result the same",
    ),
    "OA11": (
        "hard",
        "Invalid value for '{place}': expected a string, got {detail}.",
        "give the message text (it may be empty), or drop it when it carries nothing",
    ),
    "OA12": (
        "hard",
        "Invalid value for '{place}': expected a string, got {detail}.",
        "send text, which may be empty, or a list of text parts",
    ),
    "OA13": (
        "hard",
        (
            "Invalid value for '{place}': {detail}. Supported roles are: 'system', 'developer', "
            "'user', 'assistant', 'tool', and 'function'."
        ),
        "give each message one of these roles, or leave it out",
    ),
}
"""Code to level, the API's words and the remedy."""

TOLERATED: Final = frozenset[str]()
"""Strict rules without which the API itself answers: none."""

_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_SPEAKERS: Final = frozenset({"system", "developer", "user", "assistant"})
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SPEAKER: Final = re.compile(r"[^\s<|\\/>]+")
_SHOWN_BY_USERS: Final = frozenset({"image_url", "input_audio", "file"})
_OTHERS: Final = frozenset({
    "input_text", "output_text", "input_image", "input_file", "tool_use", "tool_result",
})  # fmt: skip
_MAX_ID_LENGTH: Final = 40
_MAX_SHOWN: Final = 80
_EMPTY_ARRAY: Final = (
    "empty array. Expected an array with minimum length 1, but got an empty array instead."
)


def findings(messages: object) -> Iterator[tuple[str, str, str]]:
    """Code, place and detail of everything in `messages` that breaks a rule."""
    if not isinstance(messages, list):
        yield "OA13", "messages", f"expected an array of messages, but got {_shown(messages)}"
        return
    history = _History(messages)
    for code, check in _CHECKS.items():
        for place, detail in check(history):
            yield code, place, detail


class _Message(msgspec.Struct, gc=False):
    """A message with the calls in it and their places; what is no object is read as empty."""

    number: int
    role: str | None
    body: dict[object, Any]
    calls: Sequence[tuple[int, dict[object, Any]]]

    @property
    def place(self) -> str:
        return f"messages[{self.number}]"


class _Id(msgspec.Struct, gc=False):
    """The id of a call (`which` of its message) or of a result, of whatever type it came."""

    message: int
    which: int | None
    value: object

    @property
    def place(self) -> str:
        if self.which is None:
            return f"messages[{self.message}].tool_call_id"
        return f"messages[{self.message}].tool_calls[{self.which}].id"

    @property
    def key(self) -> object:
        """What pairs call and result: the text, or for an id that is none (or absent) its type."""
        return self.value if isinstance(self.value, str) else type(self.value)


class _Turn(msgspec.Struct, gc=False):
    """A message that is no tool message, with the unbroken run of tool messages after it."""

    place: int
    calls: list[_Id]
    results: list[_Id]


class _Invocation(msgspec.Struct, gc=False):
    """What a call invokes, however the call is spelled."""

    message: int
    which: int | None
    body: dict[object, Any]
    input_key: Literal["arguments", "input"]

    @property
    def place(self) -> str:
        if self.which is None:
            return f"messages[{self.message}].function_call"
        kind = "function" if self.input_key == "arguments" else "custom"
        return f"messages[{self.message}].tool_calls[{self.which}].{kind}"


class _History:
    """A message list, read once into what the checks look at."""

    def __init__(self, raw: list[object]) -> None:
        self.raw = raw
        self.messages = [_message(index, message) for index, message in enumerate(raw)]
        self.turns = list(_turns(self.messages))

    @cached_property
    def assistants(self) -> list[_Message]:
        return [each for each in self.messages if each.role == "assistant"]

    @cached_property
    def invocations(self) -> list[_Invocation]:
        return [each for message in self.assistants for each in _invocations(message)]

    @cached_property
    def ids(self) -> list[_Id]:
        return [each for turn in self.turns for each in (*turn.calls, *turn.results)]


def _message(index: int, message: object) -> _Message:
    body: dict[object, Any] = message if isinstance(message, dict) else {}
    role = body.get("role")
    if not isinstance(role, str):
        role = None
    calls = body.get("tool_calls") if role == "assistant" else None
    if not isinstance(calls, list):
        return _Message(index, role, body, ())
    kept = [(place, call) for place, call in enumerate(calls) if isinstance(call, dict)]
    return _Message(index, role, body, kept)


def _turns(messages: Iterable[_Message]) -> Iterator[_Turn]:
    """The turns in which anything is called or answered."""
    turn = _Turn(-1, [], [])
    for message in messages:
        if message.role == "tool":
            turn.results.append(_Id(message.number, None, message.body.get("tool_call_id")))
            continue
        if turn.calls or turn.results:
            yield turn
        calls = [_Id(message.number, place, call.get("id")) for place, call in message.calls]
        turn = _Turn(message.number, calls, [])
    if turn.calls or turn.results:
        yield turn


def _invocations(message: _Message) -> Iterator[_Invocation]:
    for index, call in message.calls:
        if _text(call.get("type")) == "custom":
            yield _Invocation(message.number, index, _object(call.get("custom")), "input")
        else:
            function = _object(call.get("function"))
            yield _Invocation(message.number, index, function, "arguments")
    legacy = message.body.get("function_call")
    if legacy is not None:
        yield _Invocation(message.number, None, _object(legacy), "arguments")


def _object(value: object) -> dict[object, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _unanswered_calls(history: _History) -> Iterator[Fault]:
    """OA01: every call is answered in the run of tool messages directly after it."""
    for turn in history.turns:
        answered = {result.key for result in turn.results}
        open_calls = {call.key: call.value for call in turn.calls if call.key not in answered}
        if open_calls:
            yield f"messages[{turn.place}]", ", ".join(map(_named, open_calls.values()))


def _unasked_results(history: _History) -> Iterator[Fault]:
    """OA02: every result answers a call of the message that opens its run."""
    for turn in history.turns:
        asked = {call.key for call in turn.calls} if turn.results else ()
        for result in turn.results:
            if result.key not in asked:
                yield result.place, _named(result.value)


def _second_results(history: _History) -> Iterator[Fault]:
    """OA03: no id is answered twice in one run."""
    for turn in history.turns:
        yield from _repeated(turn.results)


def _empty_call_lists(history: _History) -> Iterator[Fault]:
    """OA04: `tool_calls`, where there is any, is a list of one call object or more."""
    for message in history.assistants:
        calls = message.body.get("tool_calls")
        if calls is None or (message.calls and len(message.calls) == len(calls)):
            continue
        place = f"{message.place}.tool_calls"
        if not isinstance(calls, list):
            yield place, f"expected an array of tool calls, but got {_shown(calls)} instead."
            continue
        if not calls:
            yield place, _EMPTY_ARRAY
        for index, call in enumerate(calls):
            if not isinstance(call, dict):
                yield f"{place}[{index}]", f"expected an object, but got {_shown(call)} instead."


def _unusable_ids(history: _History) -> Iterator[Fault]:
    """OA05: ids are non-empty text."""
    for each in history.ids:
        if not isinstance(each.value, str) or not each.value:
            yield each.place, _shown(each.value)


def _long_ids(history: _History) -> Iterator[Fault]:
    """OA06: ids have at most 40 characters."""
    for each in history.ids:
        if isinstance(each.value, str) and len(each.value) > _MAX_ID_LENGTH:
            yield each.place, str(len(each.value))


def _illegal_names(history: _History) -> Iterator[Fault]:
    """OA07: functions and custom tools have a legal name."""
    named: list[_Message | _Invocation] = [*history.invocations]
    named += [each for each in history.messages if each.role == "function"]
    for each in named:
        name = each.body.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{each.place}.name", _shown(name)
    for message in history.messages:
        name = message.body.get("name")
        legal = name is None or (isinstance(name, str) and _SPEAKER.fullmatch(name))
        if message.role in _SPEAKERS and not legal:
            yield f"{message.place}.name", _shown(name)


def _untyped_arguments(history: _History) -> Iterator[Fault]:
    """OA08: arguments, and the input of a custom tool, are text."""
    for each in history.invocations:
        given = each.body.get(each.input_key)
        if not isinstance(given, str):
            yield f"{each.place}.{each.input_key}", _shown(given)


def _unparsable_arguments(history: _History) -> Iterator[Fault]:
    """OA09: arguments are the JSON text of an object; the input of a custom tool is free."""
    for each in history.invocations:
        text = each.body.get("arguments") if each.input_key == "arguments" else None
        if isinstance(text, str) and not _is_json_object(text):
            yield f"{each.place}.arguments", _shown(text)


def _repeated_calls(history: _History) -> Iterator[Fault]:
    """OA10: ids are unique inside one assistant message."""
    for turn in history.turns:
        yield from _repeated(turn.calls)


def _empty_assistants(history: _History) -> Iterator[Fault]:
    """OA11: an assistant message carries something, and its content is text or parts."""
    for message in history.assistants:
        content = message.body.get("content")
        if isinstance(content, str):
            continue
        place = f"{message.place}.content"
        if content is not None:
            yield from _malformed_parts(place, content, never=_SHOWN_BY_USERS)
        if not (content or _carries_more(message.body)):
            yield place, _shown(content)


def _carries_more(body: dict[object, Any]) -> bool:
    calls = body.get("tool_calls")
    if isinstance(calls, list) and calls:
        return True
    return any(body.get(key) is not None for key in ("audio", "refusal", "function_call"))


def _missing_content(history: _History) -> Iterator[Fault]:
    """OA12: every message but an assistant's has content; a tool message's is text all through."""
    for message in history.messages:
        content = message.body.get("content")
        if message.role == "assistant" or isinstance(content, str):
            continue
        place = f"{message.place}.content"
        if message.role == "tool":
            yield from _malformed_parts(place, content, only="text")
            if isinstance(content, list) and not content:
                yield place, _shown(content)
        # An empty list of parts is against the reference, but answered (openai-python#1812).
        elif message.role == "user":
            yield from _malformed_parts(place, content)
        elif message.role in ("system", "developer"):
            yield from _malformed_parts(place, content, never=_SHOWN_BY_USERS)
        # The reference: required, but nullable.
        elif message.role == "function" and content is not None:
            yield place, _shown(content)


def _malformed_parts(
    place: str, content: object, only: str | None = None, never: frozenset[str] = frozenset()
) -> Iterator[Fault]:
    """Content that is no list of parts, and members of it that are none."""
    if not isinstance(content, list):
        yield place, _shown(content)
        return
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            yield f"{place}[{index}]", f"{_shown(part)} that is no content part"
        elif kind == "text" and not isinstance(part.get("text"), str):
            yield f"{place}[{index}].text", _shown(part.get("text"))
        elif kind in _OTHERS or kind in never or (only is not None and kind != only):
            yield f"{place}[{index}]", f"a part of type {_shown(kind)}"


def _unknown_roles(history: _History) -> Iterator[Fault]:
    """OA13: each message is an object whose role exists."""
    for message, raw in zip(history.messages, history.raw, strict=True):
        if not isinstance(raw, dict):
            yield message.place, f"expected a message object, but got {_shown(raw)}"
        elif message.role not in _ROLES:
            yield f"{message.place}.role", _shown(raw.get("role"))


def _repeated(ids: Iterable[_Id]) -> Iterator[Fault]:
    seen: set[str] = set()
    for each in ids:
        if not isinstance(each.value, str):
            continue
        if each.value in seen:
            yield each.place, _named(each.value)
        seen.add(each.value)


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (ValueError, RecursionError):
        pass  # maybe only for what msgspec cannot hold
    try:
        return isinstance(_JSON.decode(text), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not JSON"
    raise ValueError(msg)


# Only the shape matters: numbers stay text, so that none is too long to convert.
_JSON: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)


def _named(call_id: object) -> str:
    """An id inside a sentence: bare, as the API prints it, where that is readable."""
    if isinstance(call_id, str) and call_id and call_id.isprintable():
        return _shortened(call_id)
    return _shown(call_id)


def _shown(value: object) -> str:
    """A value inside a sentence: short and printable, whatever it is; containers by type alone."""
    if isinstance(value, str):
        return repr(_shortened(value))
    if value is None:
        return "null"
    if isinstance(value, list) and not value:
        return "an empty array"
    return _JSON_TYPES.get(type(value), f"a {type(value).__name__}")


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


_JSON_TYPES: Final[dict[type, str]] = {
    bool: "a boolean",
    dict: "an object",
    float: "a number",
    int: "an integer",
    list: "an array",
}

_CHECKS: Final[dict[str, Callable[[_History], Iterator[Fault]]]] = {
    "OA01": _unanswered_calls,
    "OA02": _unasked_results,
    "OA03": _second_results,
    "OA04": _empty_call_lists,
    "OA05": _unusable_ids,
    "OA06": _long_ids,
    "OA07": _illegal_names,
    "OA08": _untyped_arguments,
    "OA09": _unparsable_arguments,
    "OA10": _repeated_calls,
    "OA11": _empty_assistants,
    "OA12": _missing_content,
    "OA13": _unknown_roles,
}
