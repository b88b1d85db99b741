"""Rules of single models and servers, which refuse more than the format that they take.

They hold only where `models.FACTS` names their codes. Like the rule books, this module shares no
code with what renders or repairs a history.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Final

from eventstore.providers.rule_book import Finding, Rule
from eventstore.providers.rules_reader import (
    Fault,
    Members,
    list_or_empty,
    members_of,
    readable,
)

__all__ = ["RULES", "findings"]

RULES: Final[dict[str, Rule]] = {
    "OA14": (
        "strict",
        (
            "This model does not support assistant message prefill. The conversation must end with "
            "a user message. (at {place})"
        ),
        "end with what the model is to answer",
    ),
    "OA15": (
        "strict",
        "{place}.role: unknown variant `developer`",
        "send the message with the role `system`",
    ),
    "OA16": (
        "strict",
        "{place}: unknown variant `image_url`, expected `text`",
        "say in words what the image shows",
    ),
    "OA17": (
        "strict",
        "'{place}' : property 'reasoning_content' is unsupported",
        "leave the reasoning out",
    ),
    "OA18": (
        "strict",
        "The `reasoning_content` in the thinking mode must be passed back to the API. (at {place})",
        "send each of the assistant's messages with its reasoning; where that is unknown, a space",
    ),
    "OA19": (
        "strict",
        "thinking is enabled but reasoning_content is missing in assistant tool call {place}",
        "send each message that calls with its reasoning; where that is unknown, with a space",
    ),
    "OR08": (
        "strict",
        "{place}.{detail}: Field required",
        "send the assistant's parts in the message that the API gave: with type, id and status",
    ),
    "MI01*": (
        "strict",
        "{place}: Tool call id was {detail} but must be a-z, A-Z, 0-9, with a length of 9.",
        "give call and result the same id of 9 letters and digits",
    ),
    "GE09": (
        "strict",
        "Function call is missing a thought_signature in functionCall parts. (at {place})",
        (
            "send the call with the signature it came with; where that is unknown, with "
            "'skip_thought_signature_validator'"
        ),
    ),
}
"""Code to level, the server's words and the remedy."""


def findings(messages: object, codes: Collection[str]) -> Iterator[Finding]:
    """Yield code, place and detail of everything that breaks one of the rules in `codes`."""
    history = [members_of(message) for message in list_or_empty(messages)]
    for code, check in _CHECKS.items():
        if code in codes:
            for place, detail in check(history):
                yield code, place, detail


_History = list[Members]


def _assistant_last(history: _History) -> Iterator[Fault]:
    """Check OA14: the last message is not the assistant's."""
    for message in history[-1:]:
        if message.get("role") == "assistant" and not message.get("tool_calls"):
            yield f"messages[{len(history) - 1}]", ""


def _developers(history: _History) -> Iterator[Fault]:
    """Check OA15: no message has the role `developer`."""
    for number, message in enumerate(history):
        if message.get("role") == "developer":
            yield f"messages[{number}]", ""


def _images(history: _History) -> Iterator[Fault]:
    """Check OA16: no message shows an image."""
    for number, message in enumerate(history):
        for index, part in enumerate(list_or_empty(message.get("content"))):
            if members_of(part).get("type") == "image_url":
                yield f"messages[{number}].content[{index}]", ""


def _reasoning(history: _History) -> Iterator[Fault]:
    """Check OA17: no message has `reasoning_content`."""
    for number, message in enumerate(history):
        if "reasoning_content" in message:
            yield f"messages[{number}]", ""


def _without_reasoning(history: _History) -> Iterator[Fault]:
    """Check OA18: each of the assistant's messages has `reasoning_content`, which may be empty."""
    for number, message in enumerate(history):
        is_text = isinstance(message.get("reasoning_content"), str)
        if message.get("role") == "assistant" and not is_text:
            yield f"messages[{number}]", ""


def _calls_without_reasoning(history: _History) -> Iterator[Fault]:
    """Check OA19: each message that calls has `reasoning_content`, which says something."""
    for number, message in enumerate(history):
        said = message.get("reasoning_content")
        if message.get("tool_calls") and not (isinstance(said, str) and said):
            yield f"messages[{number}]", ""


def _in_pieces(history: _History) -> Iterator[Fault]:
    """Check OR08: a message of the assistant's in parts has what the API gave it with."""
    for number, item in enumerate(history):
        if item.get("role") == "assistant" and list_or_empty(item.get("content")):
            for member in ("type", "id", "status"):
                if not isinstance(item.get(member), str):
                    yield f"input[{number}]", member


def _long_ids(history: _History) -> Iterator[Fault]:
    """Check MI01*: ids are 9 letters and digits."""
    for number, message in enumerate(history):
        calls = list_or_empty(message.get("tool_calls"))
        ids = [
            (f".tool_calls[{index}].id", members_of(call).get("id"))
            for index, call in enumerate(calls)
        ]
        for place, given in (*ids, (".tool_call_id", message.get("tool_call_id"))):
            if isinstance(given, str) and not _NINE.fullmatch(given):
                yield f"messages[{number}]{place}", readable(given)


_NINE: Final = re.compile(r"[a-zA-Z0-9]{9}")


def _unsigned(history: _History) -> Iterator[Fault]:
    """Check GE09: since the user's last words, the first call of each content is signed.

    Where some part of the history is signed, GE06 asks for it.
    """
    parts = [part for content in history for part in list_or_empty(content.get("parts"))]
    if any(_holds(members_of(part), _SIGNATURE) for part in parts):
        return
    start = 0
    for number, content in enumerate(history):
        said = [members_of(part) for part in list_or_empty(content.get("parts"))]
        if content.get("role") == "user" and any(not _holds(part, _RESPONSE) for part in said):
            start = number
    for number, content in enumerate(history[start:], start):
        calls = (
            (index, members_of(part))
            for index, part in enumerate(list_or_empty(content.get("parts")))
            if _holds(members_of(part), _CALL)
        )
        for index, part in islice(calls, 1):
            if not _holds(part, _SIGNATURE):
                yield f"contents[{number}].parts[{index}]", ""


_CALL: Final = ("functionCall", "function_call")
_RESPONSE: Final = ("functionResponse", "function_response")
_SIGNATURE: Final = ("thoughtSignature", "thought_signature")


def _holds(part: Members, keys: tuple[str, ...]) -> bool:
    return any(part.get(key) for key in keys)


_CHECKS: Final[dict[str, Callable[[_History], Iterator[Fault]]]] = {
    "OA14": _assistant_last,
    "OA15": _developers,
    "OA16": _images,
    "OA17": _reasoning,
    "OA18": _without_reasoning,
    "OA19": _calls_without_reasoning,
    "OR08": _in_pieces,
    "MI01*": _long_ids,
    "GE09": _unsigned,
}
