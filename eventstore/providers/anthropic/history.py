"""How the rules of Anthropic read a message list: turns, messages and blocks."""

from __future__ import annotations

from functools import cached_property
from itertools import groupby, starmap
from typing import TYPE_CHECKING, Final

import msgspec

from eventstore.providers.rules_reader import (
    Members,
    is_list,
    members_of,
    pairing_key,
    text_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_NO_KEYS: Final[frozenset[object]] = frozenset()


class Block(msgspec.Struct, frozen=True, gc=False):
    """A content block; content that is one text counts as one text block."""

    parent: str
    item: int | None
    kind: str | None
    body: Members
    key: object
    """What pairs a call with its result."""
    inner: Sequence[Block] = ()
    """The blocks in a result; text alone is not one of them, as it may be blank there."""

    @property
    def place(self) -> str:
        """Return the path to the block; only a fault asks for it."""
        return self.parent if self.item is None else f"{self.parent}[{self.item}]"


def blocks_of(parent: str, content: object) -> Iterator[Block]:
    """Yield the blocks of a content, also of one that is a text."""
    if isinstance(content, str) and content:
        yield Block(parent, None, "text", {"type": "text", "text": content}, None)
    if not is_list(content):
        return
    for index, block in enumerate(content):
        body = members_of(block)
        kind = text_or_none(body.get("type"))
        if kind == "tool_use":
            yield Block(parent, index, kind, body, pairing_key(body.get("id")))
            continue
        key = pairing_key(body.get("tool_use_id"))
        inner: Sequence[Block] = ()
        if kind == "tool_result" and is_list(body.get("content")):
            inner = list(blocks_of(f"{parent}[{index}].content", body.get("content")))
        yield Block(parent, index, kind, body, key, inner)


class Message:
    """A message; a value that is not an object is read as a message without members.

    `asked` and `answered` are the pairing keys of its calls and of its results; none where its role
    may not hold them.
    """

    __slots__ = ("answered", "asked", "blocks", "body", "calls", "place", "results", "role")

    def __init__(self, index: int, message: object) -> None:
        self.place = f"messages[{index}]"
        self.body = members_of(message)
        self.role = text_or_none(self.body.get("role"))
        self.blocks = list(blocks_of(f"{self.place}.content", self.body.get("content")))
        self.calls = [block for block in self.blocks if block.kind == "tool_use"]
        self.results = [block for block in self.blocks if block.kind == "tool_result"]
        self.asked = _keys(self.calls) if self.role == "assistant" else _NO_KEYS
        self.answered = _keys(self.results) if self.role == "user" else _NO_KEYS


class Turn:
    """Neighbouring messages of one role, which the API merges."""

    __slots__ = ("answered", "asked", "blocks", "messages", "results")

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        only = messages[0]
        self.blocks: Sequence[Block] = only.blocks
        self.results: Sequence[Block] = only.results
        self.asked, self.answered = only.asked, only.answered
        if len(messages) > 1:
            self.blocks = [block for message in messages for block in message.blocks]
            self.results = [block for message in messages for block in message.results]
            self.asked = _NO_KEYS.union(*(message.asked for message in messages))
            self.answered = _NO_KEYS.union(*(message.answered for message in messages))


def _keys(blocks: list[Block]) -> frozenset[object]:
    return frozenset([block.key for block in blocks]) if blocks else _NO_KEYS


_NO_MESSAGE: Final = Message(0, None)
NO_TURN: Final = Turn([_NO_MESSAGE])


class History:
    """A message list, read turn by turn as the checks ask for it.

    So the first check finds a fault without the messages behind it.
    """

    def __init__(self, raw: list[object], *, is_continued: bool = False) -> None:
        self.raw = raw
        self.is_continued = is_continued
        self._turns: list[Turn] = []
        groups = groupby(starmap(Message, enumerate(raw)), lambda each: each.role)
        self._unread = (Turn(list(group)) for _, group in groups)

    def pairs(self) -> Iterator[tuple[Turn, Turn]]:
        """Yield each turn with the one after it, an empty turn at either end."""
        before = NO_TURN
        for turn in self._each_turn():
            yield before, turn
            before = turn
        yield before, NO_TURN

    def _each_turn(self) -> Iterator[Turn]:
        yield from self._turns
        for turn in self._unread:
            self._turns.append(turn)
            yield turn

    @cached_property
    def turns(self) -> list[Turn]:
        """The turns."""
        return list(self._each_turn())

    @cached_property
    def messages(self) -> list[Message]:
        """The messages."""
        return [message for turn in self.turns for message in turn.messages]

    @cached_property
    def blocks(self) -> list[Block]:
        """The blocks of all messages."""
        return [block for turn in self.turns for block in turn.blocks]

    @cached_property
    def calls(self) -> list[Block]:
        """The calls."""
        return [block for message in self.messages for block in message.calls]

    @cached_property
    def results(self) -> list[Block]:
        """The results."""
        return [block for turn in self.turns for block in turn.results]

    @cached_property
    def inner(self) -> list[Block]:
        """The blocks in the contents of results."""
        return [block for result in self.results for block in result.inner]
