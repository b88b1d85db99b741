"""The conversations of a lane, as the built-in projections remember them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import pack, unpack
from typing import TYPE_CHECKING, NamedTuple

from projections.projector import schema
from projections.projector.queries import Row, RowChanges, select_keys
from projections.projector.schema import key_of, storable

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from eventstore import Tool
    from projections.statistics.counters import CountedStatus, FingerprintCounter, LiveCall
    from projections.statistics.usage_counters import ConversationUsage

_EDIT = 2**64 - 1
"""Turns all bits of a request: so an edit is told from a call that was asked for."""

REQUESTS_PER_PAGE = 512
"""Requests of a conversation that one row holds."""


IMPORTED, COPIED = 1, 2
"""What the column `imported` of a call adds up: it is of an imported history, it is a copy."""


class StoredTool:
    """A call as it stands, and its row: `position` is that of the request.

    `imported` is what the column of this name has. `is_changed`: an event changed it since the last
    commit.
    """

    __slots__ = ("changed_at", "imported", "is_changed", "is_stored", "position", "tool")

    def __init__(self, tool: Tool, position: int, *, imported: int, is_stored: bool) -> None:
        self.tool = tool
        self.position = position
        self.imported = imported
        self.is_stored = is_stored
        self.is_changed = False
        self.changed_at = 0


class RestingCall(NamedTuple):
    """An open call as it was stored: the call, and what it was counted as, if it was."""

    call: LiveCall
    counted: CountedStatus | None


class StoredConversation:
    """One conversation: its number in the lane, what it has asked for, and its last version.

    Attributes:
        version: the last version that the statistics have applied.
        tools_version: the last version that the tools have applied.
        usage: its last turn and version, where usage is projected.
        turn_row: that turn as it is stored; None if it is not.
        is_stored: it has a row.
        is_new: it began since the state was loaded, so that all its open calls are in memory.
        tools: those of its calls that the projection of tools has in memory.
        calls: the open calls that the statistics have changed since the last commit.
        resting: the open calls that the statistics have in memory and did not change.
        resumed: those that they have changed since, as they were stored.
        requests: what it has asked for, 8 bytes of each fingerprint.
        unstored_requests: those of them that no row holds yet, in their order.
        last_page: the row that holds the newest requests.
        are_requests_rewritten: what it has asked for was redacted, so that all rows are made anew.
    """

    __slots__ = (
        "are_requests_rewritten",
        "calls",
        "id",
        "is_new",
        "is_stored",
        "key",
        "last_page",
        "number",
        "requests",
        "resting",
        "resumed",
        "tools",
        "tools_version",
        "turn_row",
        "unstored_requests",
        "usage",
        "version",
    )

    def __init__(self, conversation_id: str, number: int, version: int, *, is_stored: bool) -> None:
        self.id = conversation_id
        self.key = key_of(conversation_id)
        self.number = number
        self.version = self.tools_version = version
        self.is_stored = is_stored
        self.is_new = not is_stored
        self.usage: ConversationUsage | None = None
        self.turn_row: str | None = None
        self.tools: dict[str, StoredTool] = {}
        self.calls: dict[str, LiveCall] = {}
        self.resting: dict[str, RestingCall] = {}
        self.resumed: dict[str, RestingCall] = {}
        self.requests: set[int] = set()
        self.unstored_requests: list[int] = []
        self.last_page = b""
        self.are_requests_rewritten = False

    @property
    def last_version(self) -> int:
        """The last version that was applied."""
        used = self.usage.version if self.usage else 0
        return max(self.version, self.tools_version, used)

    def knows(self, call_id: str) -> bool:
        """Return whether the statistics need not load a call.

        One that was resolved since the last commit has its row still, and is not open.
        """
        return call_id in self.calls or call_id in self.resting or call_id in self.resumed

    def resume(self, call_id: str) -> LiveCall | None:
        """Return an open call that was stored, and count it with the changed ones; else None."""
        resting = self.resting.pop(call_id, None)
        if resting is None:
            return None
        self.calls[call_id] = resting.call
        self.resumed[call_id] = resting
        return resting.call

    def note_request(self, fingerprint: FingerprintCounter) -> bool:
        """Note that it asks for a call; return whether it had asked for the same before."""
        return self.add_request(short_fingerprint(fingerprint.fingerprint))

    def note_edit(self, fingerprint: FingerprintCounter) -> None:
        """Note that a call of it was edited to this one."""
        self.add_request(short_fingerprint(fingerprint.fingerprint) ^ _EDIT)

    def forget_requests(self, left: Iterable[str]) -> set[int]:
        """Forget all but the fingerprints that are left; return 8 bytes of each that is gone."""
        short = {short_fingerprint(fingerprint) for fingerprint in left}
        kept = {mark for mark in self.requests if mark in short or mark ^ _EDIT in short}
        gone = self.requests - kept
        if gone:
            self.are_requests_rewritten = True
            self.requests, self.unstored_requests, self.last_page = kept, sorted(kept), b""
        return gone | {mark ^ _EDIT for mark in gone}

    def add_request(self, short_fingerprint: int) -> bool:
        """Note that it asks for a call; return whether it had asked for the same before."""
        before = len(self.requests)
        self.requests.add(short_fingerprint)
        if len(self.requests) == before:
            return True
        self.unstored_requests.append(short_fingerprint)
        return False


def load_conversations(
    connection: Connection, at: Row, names: Iterable[str], *, with_requests: bool
) -> dict[str, StoredConversation]:
    """Return those of the conversations named that are stored in the lane."""
    names_by_key = {key_of(name): name for name in names}
    found: dict[int, StoredConversation] = {}
    columns = ("key", "conversation", "version")
    rows = select_keys(connection, schema.conversations, columns, at, "key", names_by_key)
    for key, number, version in rows:
        name = names_by_key[bytes(key)]
        found[number] = StoredConversation(name, number, version, is_stored=True)
    if with_requests:
        columns = ("conversation", "page", "marks")
        pages = select_keys(connection, schema.requests, columns, at, "conversation", found)
        for number, _, page in sorted(map(tuple, pages)):
            found[number].last_page = bytes(page)
            found[number].requests.update(_unpacked(bytes(page)))
    return {conversation.id: conversation for conversation in found.values()}


def conversation_changes(changed: Iterable[StoredConversation]) -> list[RowChanges]:
    """Return the rows of conversations, and of what they have asked for since the last time."""
    rows, pages = RowChanges(schema.conversations), RowChanges(schema.requests)
    for conversation in changed:
        row: Row = {"key": conversation.key, "version": conversation.last_version}
        if not conversation.is_stored:
            row["conversation_id"] = storable(conversation.id)
            row["conversation"] = conversation.number
        (rows.changed if conversation.is_stored else rows.new).append(row)
        for page, is_new in _fill_pages(conversation):
            row = {
                "conversation": conversation.number,
                "page": page,
                "marks": conversation.last_page,
            }
            (pages.new if is_new else pages.changed).append(row)
        conversation.is_stored = True
        conversation.unstored_requests.clear()
        conversation.are_requests_rewritten = False
    return [rows, pages]


def _fill_pages(conversation: StoredConversation) -> Iterator[tuple[int, bool]]:
    """Put the requests that are not stored into pages: yield each page's number, and if it is new.

    `last_page` is that page's content when its number is yielded.
    """
    remaining = conversation.unstored_requests
    place = len(conversation.requests) - len(remaining)
    while remaining:
        page, filled = divmod(place, REQUESTS_PER_PAGE)
        free = REQUESTS_PER_PAGE - filled
        some, remaining = remaining[:free], remaining[free:]
        before = conversation.last_page if filled else b""
        conversation.last_page = before + pack(f">{len(some)}Q", *some)
        yield page, filled == 0
        place += len(some)


def short_fingerprint(fingerprint: str) -> int:
    """Return 8 bytes of a fingerprint."""
    try:
        return int(fingerprint[3:19], 16)
    except ValueError:  # of a later scheme
        return int.from_bytes(key_of(fingerprint)[:8], "big")


def _unpacked(page: bytes) -> tuple[int, ...]:
    return unpack(f">{len(page) // 8}Q", page)
