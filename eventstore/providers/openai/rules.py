"""The rules of OpenAI Chat Completions, OA01 to OA13, OA20 and OA21.

A fault without a row of its own in the table is reported under the nearest one:

- OA04 also covers `tool_calls` that is not a list or longer than 128, and members of it that are
  not objects or whose type is neither function nor custom;
- OA07 and OA08 also cover custom tool calls and the legacy `function_call`, and OA07 the name of a
  legacy `function` message and the `name` of a participant;
- OA11 also covers assistant content of a wrong type;
- OA12 also covers user, system and developer messages without content, and content of a wrong type;
- OA11 and OA12 also cover lists without a part, parts that are not of the role's own types, and
  images, sounds and files outside user messages; compatible servers take a `video_url` of the user;
- OA13 also covers a history that is not a list, and messages that are not objects.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from eventstore.providers.chat_rules_reader import ChatHistory, ChatMessage
from eventstore.providers.openai.shapes import CLIENT_CALL_MEMBERS, CLIENT_MEMBERS, PARTS
from eventstore.providers.rules_reader import (
    Members,
    apply_checks,
    holds_json_object,
    is_list,
    is_object,
    members_of,
    quoted,
    readable,
    repeated,
    text_or_none,
)
from eventstore.providers.shapes import LITELLM_FIELDS, LITELLM_MARKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eventstore.providers.rule_book import Finding, Rule
    from eventstore.providers.rules_reader import Fault

__all__ = ["RULES", "findings"]

RULES: Final[dict[str, Rule]] = {
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
            "move the result to directly after the assistant message that made the call, "
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
        (
            "make tool_calls a list of 1 to 128 call objects, each with its type, or leave the key "
            "out"
        ),
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
        "send the arguments as a JSON object; wrap any other text in one",
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
    "OA20": (
        "hard",
        "Unknown parameter: '{place}'.",
        "leave out what the client has parsed: the provider neither wrote it nor takes it",
    ),
    "OA20*": (
        "strict",
        "Unknown parameter: '{place}'.",
        "leave out the place that a call had in its stream",
    ),
    "OA21": (
        "strict",
        "Unknown parameter: '{place}'.",
        "leave out what litellm has for itself, or pass provider='litellm'",
    ),
}
"""Code to level, the API's words and the remedy."""

_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_ROLES_WITH_NAMES: Final = frozenset({"system", "developer", "user", "assistant"})
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PARTICIPANT_NAME: Final = re.compile(r"[^\s<|\\/>]+")
_CALL_TYPES: Final = ("function", "custom")
_MAX_CALLS: Final = 128
_MAX_ID_LENGTH: Final = 40
_EMPTY_ARRAY: Final = (
    "empty array. Expected an array with minimum length 1, but got an empty array instead."
)


def findings(messages: object) -> Iterator[Finding]:
    """Yield code, place and detail of everything in `messages` that breaks a rule."""
    if is_list(messages):
        yield from apply_checks(_CHECKS, _History(messages))
    else:
        yield "OA13", "messages", f"expected an array of messages, but got {quoted(messages)}"


class _Invocation(msgspec.Struct, frozen=True, gc=False):
    """What a call invokes: a function, a custom tool, or the legacy `function_call`."""

    message_index: int
    call_index: int | None
    """Where the call stands in its message; None for a `function_call`."""
    body: Members
    input_member: Literal["arguments", "input"]

    @property
    def place(self) -> str:
        if self.call_index is None:
            return f"messages[{self.message_index}].function_call"
        kind = "function" if self.input_member == "arguments" else "custom"
        return f"messages[{self.message_index}].tool_calls[{self.call_index}].{kind}"


class _History(ChatHistory):
    """A message list, read once into what the checks look at."""

    @cached_property
    def invocations(self) -> list[_Invocation]:
        return [each for message in self.assistants for each in _invocations(message)]


def _invocations(message: ChatMessage) -> Iterator[_Invocation]:
    for number, call in message.calls:
        if text_or_none(call.get("type")) == "custom":
            yield _Invocation(message.index, number, members_of(call.get("custom")), "input")
        else:
            function = members_of(call.get("function"))
            yield _Invocation(message.index, number, function, "arguments")
    legacy = message.body.get("function_call")
    if legacy is not None:
        yield _Invocation(message.index, None, members_of(legacy), "arguments")


def _unanswered_calls(history: _History) -> Iterator[Fault]:
    """Check OA01: every call is answered in the run of tool messages directly after it."""
    for turn in history.each_turn():
        answered = {result.key for result in turn.results}
        open_calls = {call.key: call.value for call in turn.calls if call.key not in answered}
        if open_calls:
            yield turn.place, ", ".join(map(readable, open_calls.values()))


def _results_without_calls(history: _History) -> Iterator[Fault]:
    """Check OA02: every result answers a call of the message that opens its run."""
    for turn in history.turns:
        asked = {call.key for call in turn.calls} if turn.results else ()
        for result in turn.results:
            if result.key not in asked:
                yield result.place, readable(result.value)


def _second_results(history: _History) -> Iterator[Fault]:
    """Check OA03: no id is answered twice in one run."""
    for turn in history.turns:
        for result in repeated(turn.results):
            yield result.place, readable(result.value)


def _malformed_call_lists(history: _History) -> Iterator[Fault]:
    """Check OA04: `tool_calls`, where there is any, is a list of one call object or more."""
    for message in history.assistants:
        calls = message.body.get("tool_calls")
        if calls is None:
            continue
        for member, detail in _malformed_calls(calls):
            yield f"{message.place}.tool_calls{member}", detail


def _malformed_calls(calls: object) -> Iterator[Fault]:
    """Yield the path of each fault inside `tool_calls`, and its detail."""
    if not is_list(calls):
        yield "", f"expected an array of tool calls, but got {quoted(calls)} instead."
        return
    if not calls:
        yield "", _EMPTY_ARRAY
    if len(calls) > _MAX_CALLS:
        yield "", f"array too long. Expected at most {_MAX_CALLS}, but got {len(calls)}."
    for index, call in enumerate(calls):
        if not is_object(call):
            yield f"[{index}]", f"expected an object, but got {quoted(call)} instead."
        elif call.get("type") not in _CALL_TYPES:
            kind = quoted(call.get("type"))
            yield f"[{index}].type", f"expected 'function' or 'custom', but got {kind}."


def _unusable_ids(history: _History) -> Iterator[Fault]:
    """Check OA05: ids are non-empty text."""
    for each in history.ids:
        if not isinstance(each.value, str) or not each.value:
            yield each.place, quoted(each.value)


def _long_ids(history: _History) -> Iterator[Fault]:
    """Check OA06: ids have at most 40 characters."""
    for each in history.ids:
        if isinstance(each.value, str) and len(each.value) > _MAX_ID_LENGTH:
            yield each.place, str(len(each.value))


def _illegal_names(history: _History) -> Iterator[Fault]:
    """Check OA07: functions and custom tools have a legal name, and so have participants."""
    named: list[ChatMessage | _Invocation] = [*history.invocations]
    named += [message for message in history.messages if message.role == "function"]
    for each in named:
        name = each.body.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{each.place}.name", quoted(name)
    for message in history.messages:
        name = message.body.get("name")
        if name is None or message.role not in _ROLES_WITH_NAMES:
            continue
        if not isinstance(name, str) or not _PARTICIPANT_NAME.fullmatch(name):
            yield f"{message.place}.name", quoted(name)


def _untyped_arguments(history: _History) -> Iterator[Fault]:
    """Check OA08: arguments, and the input of a custom tool, are text."""
    for each in history.invocations:
        value = each.body.get(each.input_member)
        if not isinstance(value, str):
            yield f"{each.place}.{each.input_member}", quoted(value)


def _unparsable_arguments(history: _History) -> Iterator[Fault]:
    """Check OA09: arguments are the JSON text of an object; a custom tool's input may be any."""
    for each in history.invocations:
        text = each.body.get("arguments") if each.input_member == "arguments" else None
        if isinstance(text, str) and not holds_json_object(text):
            yield f"{each.place}.arguments", quoted(text)


def _repeated_calls(history: _History) -> Iterator[Fault]:
    """Check OA10: ids are unique inside one assistant message."""
    for turn in history.turns:
        for call in repeated(turn.calls):
            yield call.place, readable(call.value)


def _empty_assistants(history: _History) -> Iterator[Fault]:
    """Check OA11: an assistant message carries something, and its content is text or parts."""
    for message in history.assistants:
        content = message.body.get("content")
        if content is None:
            if not _holds_more_than_content(message.body):
                yield f"{message.place}.content", quoted(content)
        elif not isinstance(content, str):
            yield from _malformed_parts(f"{message.place}.content", content, "assistant")


def _holds_more_than_content(body: Members) -> bool:
    calls = body.get("tool_calls")
    if isinstance(calls, list) and calls:
        return True
    return any(body.get(key) is not None for key in ("audio", "refusal", "function_call"))


def _missing_content(history: _History) -> Iterator[Fault]:
    """Check OA12: messages, except an assistant's, have content; a tool message's is only text."""
    for message in history.messages:
        content = message.body.get("content")
        if message.role == "assistant" or isinstance(content, str):
            continue
        place = f"{message.place}.content"
        if message.role in PARTS:
            yield from _malformed_parts(place, content, message.role)
        # The reference: required, but nullable.
        elif message.role == "function" and content is not None:
            yield place, quoted(content)


def _malformed_parts(place: str, content: object, role: str) -> Iterator[Fault]:
    """Yield content that is not a list of parts, and members of it that may not stand there."""
    if not is_list(content) or not content:
        yield place, quoted(content)
        return
    for index, part in enumerate(content):
        body = members_of(part)
        kind = body.get("type")
        if not isinstance(kind, str):
            yield f"{place}[{index}]", f"{quoted(part)} that is not a content part"
        elif kind == "text" and not isinstance(body.get("text"), str):
            yield f"{place}[{index}].text", quoted(body.get("text"))
        elif kind not in PARTS[role]:
            yield f"{place}[{index}]", f"a part of type {quoted(kind)}"


def _unknown_roles(history: _History) -> Iterator[Fault]:
    """Check OA13: each message is an object whose role exists."""
    for message, raw in zip(history.messages, history.raw, strict=True):
        if not is_object(raw):
            yield message.place, f"expected a message object, but got {quoted(raw)}"
        elif message.role not in _ROLES:
            yield f"{message.place}.role", quoted(raw.get("role"))


def _clients_members(history: _History) -> Iterator[Fault]:
    """Check OA20: no message and no call has a member that the client has parsed."""
    holders: list[ChatMessage | _Invocation] = [*history.assistants, *history.invocations]
    for each in holders:
        for member in CLIENT_MEMBERS:
            if member in each.body:
                yield f"{each.place}.{member}", ""


def _places_in_streams(history: _History) -> Iterator[Fault]:
    """Check OA20*: no call has the place that it had in its stream."""
    for message in history.assistants:
        for number, call in message.calls:
            for member in CLIENT_CALL_MEMBERS:
                if member in call:
                    yield f"{message.place}.tool_calls[{number}].{member}", ""


def _members_of_litellm(history: _History) -> Iterator[Fault]:
    """Check OA21: no message and no call has a member of litellm's own."""
    for message in history.assistants:
        if not LITELLM_MARKS.isdisjoint(message.body):
            for member in sorted(LITELLM_MARKS.intersection(message.body)):
                yield f"{message.place}.{member}", ""
        for number, call in message.calls:
            if LITELLM_FIELDS in call:
                yield f"{message.place}.tool_calls[{number}].{LITELLM_FIELDS}", ""


_CHECKS: Final[dict[str, Callable[[_History], Iterator[Fault]]]] = {
    "OA01": _unanswered_calls,
    "OA02": _results_without_calls,
    "OA03": _second_results,
    "OA04": _malformed_call_lists,
    "OA05": _unusable_ids,
    "OA06": _long_ids,
    "OA07": _illegal_names,
    "OA08": _untyped_arguments,
    "OA09": _unparsable_arguments,
    "OA10": _repeated_calls,
    "OA11": _empty_assistants,
    "OA12": _missing_content,
    "OA13": _unknown_roles,
    "OA20": _clients_members,
    "OA20*": _places_in_streams,
    "OA21": _members_of_litellm,
}
