"""The rules of Cohere's Chat, version 2: CO01 to CO03.

A star after a code marks the part of the rule that only some servers refuse.

- CO01, pairs: each call is answered by a tool message of its id in the run of tool messages right
  after it. Sources: the guide "Usage patterns for tool use", where every call of a turn gets its
  message before the next request; langchain-oracle#10, where Command A refused a call without an
  answer in the words of the rule; agentdojo#200, where calls without ids were refused too.
- CO02, types: what `shapes.py` declares. The first fault of each message is named.
- CO02*, members: a member that the reference does not have. Seen as 422, "unknown field: parameter
  ... is not a valid field" (agno#3503), for members of a tool.
- CO03: an assistant's message says something or makes a call, and arguments are the JSON text of an
  object. Both were seen as 400, in the words of the rule: the one for a message whose only part was
  empty text, the other for a call without parameters whose streamed arguments were empty text.

One refusal is no rule here, as it goes by the model: "`tool plan` cannot be used with this model"
(command-a-plus-05-2026).

The last message may be of any role (the announcement of version 2; SillyTavern#3692).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from eventstore.providers.chat_rules_reader import ChatHistory
from eventstore.providers.cohere.shapes import MEMBERS, MESSAGES
from eventstore.providers.rules_reader import (
    apply_checks,
    is_list,
    is_object,
    listed,
    members_of,
    quoted,
    readable,
    repeated,
)
from eventstore.providers.shapes import misshapen_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eventstore.providers.rule_book import Finding, Rule
    from eventstore.providers.rules_reader import Fault

__all__ = ["RULES", "findings"]

RULES: Final[dict[str, Rule]] = {
    "CO01": (
        "hard",
        "{place}: {detail}",
        (
            "put one tool message for each call directly after the assistant message, "
            "each with the id of its call"
        ),
    ),
    "CO02": (
        "hard",
        "{place}: {detail}",
        (
            "send the members that the message needs in their types: content as text or a list of "
            "parts, calls with an id, a name, and arguments as JSON text"
        ),
    ),
    "CO02*": (
        "strict",
        "unknown field: parameter '{detail}' is not a valid field",
        "leave out the members that the API reference does not have",
    ),
    "CO03": (
        "hard",
        "{place}: {detail}",
        "give the message content or calls, and the arguments of a call as the text of an object",
    ),
}
"""Code to level, the API's words and the remedy."""

_UNANSWERED: Final = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages"
)


def findings(messages: object) -> Iterator[Finding]:
    """Yield code, place and detail of everything in `messages` that breaks a rule."""
    if is_list(messages):
        yield from apply_checks(_CHECKS, ChatHistory(messages))
    else:
        yield "CO02", "messages", f"expected a list of messages, but got {quoted(messages)}"


def _unpaired(history: ChatHistory) -> Iterator[Fault]:
    """Check CO01: each call has one result, in the run of tool messages right after it."""
    for turn in history.turns:
        called = {call.key for call in turn.calls}
        answered = {result.key for result in turn.results}
        for call in repeated(turn.calls):
            yield call.place, f"the id {quoted(call.value)} is used twice in one message"
        for call in turn.calls:
            if call.key not in answered:
                yield call.place, f"{_UNANSWERED}: {listed([call.key])}"
        for result in repeated(turn.results):
            yield result.place, f"a second result for {quoted(result.value)}"
        for result in turn.results:
            if result.key not in called:
                words = f"no call {quoted(result.value)} in the assistant message before it"
                yield result.place, words


def _mistyped(history: ChatHistory) -> Iterator[Fault]:
    """Check CO02: members are there where they are required, and have their types."""
    for message, raw in zip(history.messages, history.raw, strict=True):
        if not is_object(raw):
            yield message.place, f"expected a message object, but got {quoted(raw)}"
        elif message.role not in MESSAGES:
            yield f"{message.place}.role", f"invalid role {quoted(raw.get('role'))}"
        elif fault := misshapen_message(raw, MESSAGES[message.role]):
            yield f"{message.place}{fault.place}", fault.detail


def _unknown(history: ChatHistory) -> Iterator[Fault]:
    """Check CO02*: a message has only members of the reference."""
    for message in history.messages:
        for member in message.body:
            if message.role in MEMBERS and member not in MEMBERS[message.role]:
                yield f"{message.place}.{readable(member)}", readable(member)


def _empty(history: ChatHistory) -> Iterator[Fault]:
    """Check CO03: an assistant's message says something; arguments are the text of an object."""
    for message in history.assistants:
        if _is_empty(message.body.get("content")) and not message.body.get("tool_calls"):
            yield message.place, "must have non-empty content or tool calls."
        for number, call in message.calls:
            arguments = members_of(call.get("function")).get("arguments")
            if isinstance(arguments, str) and not _is_object_text(arguments):
                place = f"{message.place}.tool_calls[{number}].function.arguments"
                yield place, "tool arguments must be a stringified JSON object"


def _is_empty(content: object) -> bool:
    """Return whether content is missing, or holds nothing but parts of empty text."""
    if not is_list(content):
        return not content
    parts = map(members_of, content)
    return all(part.get("type") == "text" and part.get("text") == "" for part in parts)


def _is_object_text(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


_CHECKS: Final[dict[str, Callable[[ChatHistory], Iterator[Fault]]]] = {
    "CO01": _unpaired,
    "CO02": _mistyped,
    "CO02*": _unknown,
    "CO03": _empty,
}
