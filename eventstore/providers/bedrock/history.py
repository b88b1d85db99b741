"""How the rules of Bedrock read a message list: turns, messages and blocks."""

from __future__ import annotations

from functools import cached_property
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from eventstore.providers.bedrock.shapes import FORMATS
from eventstore.providers.rules_reader import (
    Members,
    list_or_empty,
    members_of,
    pairing_key,
    text_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


ROLE_OF_BLOCK: Final = {"toolUse": "assistant", "toolResult": "user"}


class Block(msgspec.Struct, frozen=True, gc=False):
    """A content block: a union, whose one member names its kind."""

    parent: str
    parent_path: str
    item: int
    kind: str | None
    value: object
    """What the member holds."""
    body: Members
    """The members of `value`, where it is an object."""
    raw: object
    is_paired: bool
    """Whether it is a call or a result of a tool that the service does not run itself."""
    key: object
    """What pairs a call with its result."""

    @property
    def place(self) -> str:
        """Return where the block stands; only a fault asks for it."""
        return f"{self.parent}[{self.item}]"

    @property
    def path(self) -> str:
        """Return the same as the API writes it."""
        return f"{self.parent_path}.{self.item}"


class Message(NamedTuple):
    """A message; a value that is not an object is read as a message without members."""

    place: str
    path: str
    role: str | None
    body: Members
    blocks: list[Block]

    def paired(self, kind: str) -> list[Block]:
        """Return the calls, or the results, that are paired; none where the role forbids them."""
        if self.role != ROLE_OF_BLOCK[kind]:
            return []
        return [block for block in self.blocks if block.kind == kind and block.is_paired]


class Turn(NamedTuple):
    """Neighbouring assistant messages, or one other message; and the message after them."""

    messages: list[Message]
    after: Message

    @property
    def calls(self) -> list[Block]:
        """The calls that are paired."""
        return [block for message in self.messages for block in message.paired("toolUse")]


_NO_MESSAGE: Final = Message("", "", None, {}, [])


class History:
    """A message list, read once into what the checks look at."""

    def __init__(self, raw: list[object]) -> None:
        self.raw = raw
        self.messages = [_message(index, message) for index, message in enumerate(raw)]
        self.blocks = [block for message in self.messages for block in message.blocks]
        self.calls = [block for block in self.blocks if block.kind == "toolUse"]
        self.results = [block for block in self.blocks if block.kind == "toolResult"]
        self.turns = list(_turns(self.messages))

    @cached_property
    def shown(self) -> list[Block]:
        """The blocks of messages and of client results that show or play something."""
        return [each for block in self.blocks for each in _shown_by(block)]


def _shown_by(block: Block) -> Iterator[Block]:
    if block.kind in FORMATS:
        yield block
    elif block.kind == "toolResult" and block.is_paired:
        content = list_or_empty(block.body.get("content"))
        if any(kind in FORMATS for each in content for kind in members_of(each)):
            place, path = f"{block.place}.toolResult", f"{block.path}.toolResult"
            inner = blocks_of(f"{place}.content", f"{path}.content", content)
            yield from (each for each in inner if each.kind in FORMATS)


def _message(index: int, message: object) -> Message:
    body = members_of(message)
    place, path = f"messages[{index}]", f"messages.{index}"
    blocks = list(blocks_of(f"{place}.content", f"{path}.content", body.get("content")))
    return Message(place, path, text_or_none(body.get("role")), body, blocks)


def blocks_of(place: str, path: str, content: object) -> Iterator[Block]:
    """Yield the blocks of a content."""
    for index, block in enumerate(list_or_empty(content)):
        given, value = next(iter(members_of(block).items()), (None, None))
        kind, body = text_or_none(given), members_of(value)
        is_paired = False
        if kind == "toolUse":
            is_paired = body.get("type") != "server_tool_use"
        elif kind == "toolResult":
            is_paired = body.get("type") is None
        key = pairing_key(body.get("toolUseId"))
        yield Block(place, path, index, kind, value, body, block, is_paired, key)


def _turns(messages: list[Message]) -> Iterator[Turn]:
    groups: list[list[Message]] = []
    for role, run in groupby(messages, lambda each: each.role):
        neighbours = list(run)
        groups += [neighbours] if role == "assistant" else [[each] for each in neighbours]
    for group, after in zip_longest(groups, groups[1:]):
        yield Turn(group, after[0] if after else _NO_MESSAGE)
