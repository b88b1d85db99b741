"""How rule books read a message list whose results are messages of the role `tool`.

OpenAI Chat Completions and the APIs that follow it make calls in `tool_calls` of an assistant
message, and answer each in a tool message with `tool_call_id`. A turn is a message of another role
with the unbroken run of tool messages after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """A message list, read once into what the checks look at, and no further than they look.

    A broken list shows its first fault, which is all that `is_valid` asks for, before all is read.
    """

    def __init__(self, raw: list[object]) -> None:
        self.raw = raw
        self._messages: list[ChatMessage] = []
        self._turns: list[ChatTurn] = []
        self._unread = self._read()

    def _read(self) -> Iterator[ChatTurn]:
        """Read on, and yield each turn once it has ended."""
        turn: ChatTurn | None = None
        opened = -1
        for index, given in enumerate(self.raw):
            message = _message(index, given)
            self._messages.append(message)
            if message.role == "tool":
                if turn is None:
                    turn = ChatTurn(opened, [], [])
                value = message.body.get("tool_call_id")
                turn.results.append(CallId(index, None, value, pairing_key(value)))
                continue
            if turn is not None:
                yield turn
                turn = None
            opened = index
            if message.calls:
                turn = ChatTurn(index, [_call_id(index, *call) for call in message.calls], [])
        if turn is not None:
            yield turn

    def each_turn(self) -> Iterator[ChatTurn]:
        """Yield the turns in which anything is called or answered, reading on as they are taken."""
        yield from self._turns
        for turn in self._unread:
            self._turns.append(turn)
            yield turn

    @cached_property
    def turns(self) -> list[ChatTurn]:
        """The turns in which anything is called or answered."""
        self._turns += self._unread
        return self._turns

    @cached_property
    def messages(self) -> list[ChatMessage]:
        """All messages."""
        self._turns += self._unread
        return self._messages

    @cached_property
    def assistants(self) -> list[ChatMessage]:
        """The assistant messages."""
        return [message for message in self.messages if message.role == "assistant"]

    @cached_property
    def ids(self) -> list[CallId]:
        """The ids of all calls and results, turn by turn."""
        return [each for turn in self.turns for each in (*turn.calls, *turn.results)]


def _message(index: int, message: object) -> ChatMessage:
    if not is_object(message):
        return ChatMessage(index, None, {}, ())
    given = message.get("role")
    role = given if isinstance(given, str) else None
    calls = message.get("tool_calls") if role == "assistant" else None
    if not calls or not is_list(calls):
        return ChatMessage(index, role, message, ())
    objects = [(number, call) for number, call in enumerate(calls) if is_object(call)]
    return ChatMessage(index, role, message, objects)


def _call_id(message_index: int, number: int, call: Members) -> CallId:
    value = call.get("id")
    return CallId(message_index, number, value, pairing_key(value))
