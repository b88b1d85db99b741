"""The conversations of a lane, as its projections remember them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import pack, unpack
from typing import TYPE_CHECKING

from projections.projector.tables import (
    Row,
    add,
    asked,
    change,
    find_keys,
    key_of,
    storable,
    streams,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from eventstore import Tool
    from projections.tallies import LiveCall

PAGE = 512
"""Requests of a conversation that one row notes."""


class Known:
    """A call as it stands, and its row: `position` is that of the request.

    `touched`: something happened to it since the last commit.
    """

    __slots__ = ("changed_at", "imported", "position", "stored", "tool", "touched")

    def __init__(self, tool: Tool, position: int, *, imported: bool, stored: bool) -> None:
        self.tool = tool
        self.position = position
        self.imported = imported
        self.stored = stored
        self.changed_at = 0
        self.touched = False


class Stream:
    """One conversation: its number in the lane, what it has asked for, and its last version.

    `version` is the last that the statistics took in, `seen` the last that the tools did.
    `tools` are those of its calls that the projection of tools has at hand. That of statistics
    has `calls`, to which something happened since the last commit, and `resting`, to which
    nothing did. `whole`: it began since, so that of its open calls none is in the tables alone.
    """

    __slots__ = (
        "asked", "calls", "fresh", "id", "key", "last_page", "number", "resting", "seen",
        "stored", "tools", "version", "whole",
    )  # fmt: skip

    def __init__(self, conversation_id: str, number: int, version: int, *, stored: bool) -> None:
        self.id = conversation_id
        self.key = key_of(conversation_id)
        self.number = number
        self.version = self.seen = version
        self.stored = stored
        self.whole = not stored
        self.tools: dict[str, Known] = {}
        self.calls: dict[str, LiveCall] = {}
        self.resting: dict[str, LiveCall] = {}
        self.asked: set[int] = set()
        self.fresh: list[int] = []  # asked for, and not stored yet
        self.last_page = b""

    def has(self, call_id: str) -> bool:
        """Whether the projection of statistics has a call at hand."""
        return call_id in self.calls or call_id in self.resting

    def asks(self, mark: int) -> bool:
        """Note that it asks for a call; whether it had before."""
        before = len(self.asked)
        self.asked.add(mark)
        if len(self.asked) == before:
            return True
        self.fresh.append(mark)
        return False


def load_streams(
    connection: Connection, at: Row, names: Iterable[str], *, with_asked: bool
) -> dict[str, Stream]:
    """Those of the conversations named that are stored in the lane."""
    of_key = {key_of(name): name for name in names}
    found: dict[int, Stream] = {}
    rows = find_keys(connection, streams, ("key", "conversation", "version"), "key", of_key, **at)
    for key, number, version in rows:
        found[number] = Stream(of_key[bytes(key)], number, version, stored=True)
    if with_asked:
        columns = ("conversation", "page", "marks")
        pages = find_keys(connection, asked, columns, "conversation", found, **at)
        for number, _, marks in sorted(pages):
            found[number].last_page = bytes(marks)
            found[number].asked.update(_marks(bytes(marks)))
    return {stream.id: stream for stream in found.values()}


def store_streams(connection: Connection, at: Row, changed: list[Stream]) -> None:
    """Store the conversations and what they have asked for since."""
    add(connection, streams, [
        at | {"key": s.key, "conversation_id": storable(s.id), "conversation": s.number,
              "version": max(s.version, s.seen)}
        for s in changed if not s.stored
    ])  # fmt: skip
    change(connection, streams, ("projection", "lane", "key"), [
        at | {"key": s.key, "version": max(s.version, s.seen)} for s in changed if s.stored
    ])  # fmt: skip
    new: list[Row] = []
    fuller: list[Row] = []
    for stream in changed:
        for page, is_new in _pages(stream):
            row = at | {"conversation": stream.number, "page": page, "marks": stream.last_page}
            (new if is_new else fuller).append(row)
    add(connection, asked, new)
    change(connection, asked, ("projection", "lane", "conversation", "page"), fuller)
    for stream in changed:
        stream.stored = True
        stream.fresh.clear()


def _pages(stream: Stream) -> Iterator[tuple[int, bool]]:
    """Put what is new into pages: the number of each, and whether it is a new one.

    `last_page` holds the page's marks while its number is out.
    """
    place = len(stream.asked) - len(stream.fresh)
    fresh = stream.fresh
    while fresh:
        page, filled = divmod(place, PAGE)
        some, fresh = fresh[: PAGE - filled], fresh[PAGE - filled :]
        before = stream.last_page if filled else b""
        stream.last_page = before + pack(f">{len(some)}Q", *some)
        yield page, filled == 0
        place += len(some)


def _marks(page: bytes) -> Iterable[int]:
    return unpack(f">{len(page) // 8}Q", page)
