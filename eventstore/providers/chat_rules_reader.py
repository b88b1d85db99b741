"""How rule books read a message list whose results are messages of the role `tool`.

OpenAI Chat Completions and the APIs that follow it make calls in `tool_calls` of an assistant
message, and answer each in a tool message with `tool_call_id`. A turn is a message of another role
with the unbroken run of tool messages after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import msgspec

from eventstore.providers.rules_reader import (
    Members,
    is_list,
    is_object,
    pairing_key,
)

__all__ = ["CallId", "ChatHistory", "ChatMessage", "ChatTurn"]


class ChatMessage(msgspec.Struct, frozen=True, gc=False):
    """A message; a value that is not an object is read as a message without members."""

    index: int
    role: str | None
    body: Members
    calls: Sequence[tuple[int, Members]]
    """Index and members of each call of an assistant; what is not an object is left out."""

    @property
    def place(self) -> str:
        """Path of the message."""
        return f"messages[{self.index}]"


class CallId(msgspec.Struct, frozen=True, gc=False):
    """The id of a call or of a result, whatever its type."""

    message_index: int
    call_index: int | None
    """Where the call stands in its message; None for a result."""
    value: object
    key: object
    """What pairs a call with its result."""

    @property
    def place(self) -> str:
        """Path of the id."""
        if self.call_index is None:
            return f"messages[{self.message_index}].tool_call_id"
        return f"messages[{self.message_index}].tool_calls[{self.call_index}].id"


class ChatTurn(msgspec.Struct, frozen=True, gc=False):
    """The ids of the calls of a message, and of the results that directly follow it."""

    message_index: int
    calls: list[CallId]
    results: list[CallId]

    @property
    def place(self) -> str:
        """Path of the message."""
        return f"messages[{self.message_index}]"


class ChatHistory:
    """A message list, read once into what the checks look at."""

    def __init__(self, raw: list[object]) -> None:
        self.raw = raw
        self.messages = [_message(index, message) for index, message in enumerate(raw)]
        self.turns = list(_turns(self.messages))
        """The turns in which anything is called or answered."""

    @cached_property
    def assistants(self) -> list[ChatMessage]:
        """The assistant messages."""
        return [message for message in self.messages if message.role == "assistant"]

    @cached_property
    def ids(self) -> list[CallId]:
        """The ids of all calls and results, turn by turn."""
        return [each for turn in self.turns for each in (*turn.calls, *turn.results)]


def _message(index: int, message: object) -> ChatMessage:
    body: Members = message if is_object(message) else {}
    given = body.get("role")
    role = given if isinstance(given, str) else None
    calls = body.get("tool_calls") if role == "assistant" else None
    if not calls or not is_list(calls):
        return ChatMessage(index, role, body, ())
    objects = [(number, call) for number, call in enumerate(calls) if is_object(call)]
    return ChatMessage(index, role, body, objects)


def _turns(messages: Iterable[ChatMessage]) -> Iterator[ChatTurn]:
    turn = ChatTurn(-1, [], [])
    for message in messages:
        if message.role == "tool":
            value = message.body.get("tool_call_id")
            turn.results.append(CallId(message.index, None, value, pairing_key(value)))
            continue
        if turn.calls or turn.results:
            yield turn
        turn = ChatTurn(message.index, [], [])
        for number, call in message.calls:
            value = call.get("id")
            turn.calls.append(CallId(message.index, number, value, pairing_key(value)))
    if turn.calls or turn.results:
        yield turn
