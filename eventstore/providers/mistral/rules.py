"""The rules of Mistral, MI01 to MI04.

A star after a code marks the part of the rule that only some refuse: older models, or a literal
reading of the documentation. A fault without a row of its own in the table is reported under the
nearest one:

- MI01 also covers the names of functions. The tokenizers v3 to v11 of older models ask for ids of 9
  letters and digits, which is MI01 with a star, a rule of these models alone. Mistral's service
  was seen to refuse ids of other providers with newer models, too: MI01 with two stars;
- MI02 also covers `tool_calls` and calls of a wrong type, and calls in the first message, whose
  results the API does not count;
- MI03 also covers the order of roles, roles that do not exist, a prefix before the last message,
  and content of a wrong type. The API, Azure and gateways answer 400 (code 3230) to a user message
  right after results, though the published validator takes it: that is MI03 with a star.

The content of an assistant message may be null or empty where it holds calls, and arguments may be
an object.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from eventstore.providers.chat_rules_reader import CallId, ChatHistory, ChatMessage, ChatTurn
from eventstore.providers.mistral.shapes import (
    CALL_MEMBERS,
    CHUNK_MEMBERS,
    FOREIGN_ID,
    FUNCTION_MEMBERS,
    IMAGE_MEMBERS,
    MEMBERS,
    Calls,
    Message,
    System,
)
from eventstore.providers.rules_reader import (
    Members,
    apply_checks,
    is_list,
    is_object,
    list_or_empty,
    members_of,
    quoted,
    readable,
    repeated,
    text_or_none,
)
from eventstore.providers.shapes import misshapen_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from msgspec import Struct

    from eventstore.providers.rule_book import Finding, Rule
    from eventstore.providers.rules_reader import Fault

__all__ = ["RULES", "findings"]

RULES: Final[dict[str, Rule]] = {
    "MI01": (
        "hard",
        "{place}: {detail}",
        (
            "give call and result the same id, and each function a name of 1 to 64 characters of "
            "[a-zA-Z0-9_-]"
        ),
    ),
    "MI01**": (
        "strict",
        "{place}: Tool call id was {detail} but must be a-z, A-Z, 0-9, with a length of 9.",
        "give call and result the same id of 9 letters and digits",
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
            "keep system messages before the first assistant message"
        ),
    ),
    "MI03*": (
        "strict",
        "{place}: {detail}",
        (
            "give the message text, or leave it out where it says nothing; let the assistant speak "
            "between results and the user"
        ),
    ),
    "MI04": (
        "hard",
        "{place}: Extra inputs are not permitted",
        "leave the member out",
    ),
}
"""Code to level, the API's words and the remedy."""

_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NO_ID: Final = "null"  # what the SDK writes for a call without an id
_NOT_THE_SAME_NUMBER: Final = "Not the same number of function calls and responses"


def findings(messages: object) -> Iterator[Finding]:
    """Yield code, place and detail of everything in `messages` that breaks a rule."""
    if is_list(messages):
        yield from apply_checks(_CHECKS, ChatHistory(messages))
    else:
        yield "MI03", "messages", f"Input should be a valid list, but is {quoted(messages)}"


def _illegal_ids(history: ChatHistory) -> Iterator[Fault]:
    """Check MI01: there are ids, and the names of functions are legal."""
    for each in history.ids:
        if not isinstance(each.value, str) or each.value in ("", _NO_ID):
            yield each.place, f"Tool call id was {readable(each.value)} but has to be defined."
    for place, name in _named(history):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield (
                place,
                (
                    f"Function name was {readable(name)} but must be a-z, A-Z, 0-9, "
                    "or contain underscores and dashes, with a maximum length of 64."
                ),
            )


def _foreign_ids(history: ChatHistory) -> Iterator[Fault]:
    """Check MI01**: no id is in the form of another provider's."""
    for each in history.ids:
        if isinstance(each.value, str) and FOREIGN_ID.fullmatch(each.value):
            yield each.place, readable(each.value)


def _named(history: ChatHistory) -> Iterator[tuple[str, object]]:
    """Yield place and name of each function that is called, then of each that answers."""
    for message in history.assistants:
        for number, call in message.calls:
            name = members_of(call.get("function")).get("name")
            yield f"{message.place}.tool_calls[{number}].function.name", name
    for message in history.messages:
        name = message.body.get("name")
        if message.role == "tool" and name is not None:
            yield f"{message.place}.name", name


def _unpaired(history: ChatHistory) -> Iterator[Fault]:
    """Check MI02: each call has one result with its id, and no id comes twice on either side."""
    for turn in history.turns:
        yield from _unpaired_in_turn(turn)
    for message in history.assistants:
        yield from _misshapen(message, "tool_calls", Calls)


def _unpaired_in_turn(turn: ChatTurn) -> Iterator[Fault]:
    for call in repeated(turn.calls):
        yield call.place, f"Duplicate tool call id {readable(call.value)} in assistant message"
    answered = {result.key for result in turn.results}
    missing = [call for call in turn.calls if call.key not in answered]
    if missing:
        yield turn.place, f"{_NOT_THE_SAME_NUMBER}: no response to {_listed(missing)}"
    asked = {call.key for call in turn.calls}
    for result in turn.results:
        if result.key not in asked:
            yield (
                result.place,
                f"Unexpected tool call id {readable(result.value)} in tool results",
            )
    for result in repeated(turn.results):
        yield result.place, f"Duplicate tool call id {readable(result.value)} in tool results"


def _listed(calls: list[CallId]) -> str:
    return ", ".join(dict.fromkeys(readable(call.value) for call in calls))


def _leading_calls(history: ChatHistory) -> Iterator[Fault]:
    """Check MI02*: the very first message makes no calls."""
    for message in history.messages[:1]:
        if message.calls:
            yield message.place, "Conversation must start with a user message or system message"


def _misplaced(history: ChatHistory) -> Iterator[Fault]:
    """Check MI03: roles exist and follow each other, and the last message lets the model speak."""
    before: str | None = None
    for raw, message in zip(history.raw, history.messages, strict=True):
        if not is_object(raw):
            yield message.place, f"Input should be an object, but is {quoted(raw)}"
        elif message.role not in _ROLES:
            yield f"{message.place}.role", f"Unknown role {quoted(raw.get('role'))}"
        elif message.role == "system" and before in ("assistant", "tool"):
            yield message.place, f"Unexpected role 'system' after role '{before}'"
        before = message.role
        if message.role in _ROLES and not isinstance(message.body.get("content"), str):
            yield from _misshapen(message, "content", System if before == "system" else Message)
    yield from _misplaced_prefix(history)


def _misshapen(message: ChatMessage, member: str, shape: type[Struct]) -> Iterator[Fault]:
    value = message.body.get(member)
    if value is not None and (fault := misshapen_message({member: value}, shape)):
        yield f"{message.place}{fault.place}", f"Input should be valid: {fault.detail}"


def _misplaced_prefix(history: ChatHistory) -> Iterator[Fault]:
    """Yield each wrong `prefix`, and a last message of the assistant's that is no prefix."""
    for message in history.assistants:
        if not isinstance(message.body.get("prefix"), bool | None):
            yield f"{message.place}.prefix", "Input should be a valid boolean"
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


def _empty_or_sudden(history: ChatHistory) -> Iterator[Fault]:
    """Check MI03*: messages carry something, none interrupts results, the last is no system's."""
    for before, message in pairwise(history.messages):
        if (before.role, message.role) == ("tool", "user"):
            yield message.place, "Unexpected role 'user' after role 'tool'"
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


def _unknown_members(history: ChatHistory) -> Iterator[Fault]:
    """Check MI04: messages, their calls and chunks have no member that the API does not know."""
    for message in history.messages:
        known = MEMBERS.get(message.role)
        if known is not None and not message.body.keys() <= known:
            yield from _extra(message.place, message.body, known)
        content = message.body.get("content")
        if is_list(content):
            yield from _extra_of_chunks(f"{message.place}.content", content)
        for number, call in message.calls:
            function = members_of(call.get("function"))
            if not (call.keys() <= CALL_MEMBERS and function.keys() <= FUNCTION_MEMBERS):
                place = f"{message.place}.tool_calls[{number}]"
                yield from _extra(place, call, CALL_MEMBERS)
                yield from _extra(f"{place}.function", function, FUNCTION_MEMBERS)


def _extra_of_chunks(place: str, content: object) -> Iterator[Fault]:
    for index, given in enumerate(list_or_empty(content)):
        chunk = members_of(given)
        kind = text_or_none(chunk.get("type"))
        if kind in CHUNK_MEMBERS:
            yield from _extra(f"{place}[{index}]", chunk, CHUNK_MEMBERS[kind])
            image = members_of(chunk.get("image_url"))
            yield from _extra(f"{place}[{index}].image_url", image, IMAGE_MEMBERS)
            yield from _extra_of_chunks(f"{place}[{index}].thinking", chunk.get("thinking"))


def _extra(place: str, body: Members, known: frozenset[str]) -> Iterator[Fault]:
    for key in body:
        if key not in known:
            yield f"{place}.{readable(key)}", ""


_CHECKS: Final[dict[str, Callable[[ChatHistory], Iterator[Fault]]]] = {
    "MI01": _illegal_ids,
    "MI01**": _foreign_ids,
    "MI02": _unpaired,
    "MI02*": _leading_calls,
    "MI03": _misplaced,
    "MI03*": _empty_or_sudden,
    "MI04": _unknown_members,
}
