"""The seam between seals and a database: what a storage must offer so that its log can be sealed.

Nothing of it is part of an append. Rows are those of all tenants: a seal covers a whole lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec


class SealedRow(NamedTuple):
    """An event as it is stored; a damaged row may hold a value of any type."""

    position: int
    tenant: object
    conversation: object
    version: object
    event_id: object
    recorded_at: object
    occurred_at: object
    tag: object
    schema: object
    fingerprint: object
    payload: object
    """The digest of the payload; of a redacted one, that which its marker keeps."""
    chain: object
    """Its digest in the chain."""


class ArchivedRow(NamedTuple):
    """An event that was archived and removed: only the hash of its leaf is left."""

    position: int
    hash: object


class Seal(msgspec.Struct, frozen=True):
    """The head of a lane's tree as it is stored, with all that is needed to go on from it."""

    lane: int
    size: int
    """The events that it covers: those at the positions from 1 to `size`."""
    root: bytes
    edge: bytes
    """The right edge of the tree: 32 bytes for each bit of the size that is set."""
    note: str
    """The signed note of its checkpoint."""


class SealableLog(Protocol):
    """A log in lanes, and a table of their seals."""

    @property
    def epoch(self) -> str:
        """The mark that tells this store from every other."""
        ...

    def heads(self) -> Mapping[int, int]:
        """Return the last position of each lane, by the lane's counter."""
        ...

    def sealable_rows(
        self, lane: int, after: int = 0, until: int | None = None
    ) -> Iterator[SealedRow | ArchivedRow]:
        """Yield the rows of a lane at the positions after one, of all tenants, in bounded memory.

        They come in the order of positions. With `until`, none comes after that position. Bytes are
        `bytes`, texts `str`. What a damaged row holds is passed on as it is: text that is not UTF-8
        as bytes, tenant and conversation as None where the conversation is not listed. A row that
        is missing is left out.
        """
        ...

    def place_of(self, conversation_id: str, version: int) -> tuple[int, int] | None:
        """Return lane and position of an event of the tenant; None where there is none."""
        ...

    def seals(self, lane: int) -> Iterator[Seal]:
        """Yield the stored seals of a lane, the smallest first."""
        ...

    def last_seal(self, lane: int) -> Seal | None:
        """Return the stored seal of a lane with the greatest size; None where there is none."""
        ...

    def add_seal(self, seal: Seal, after: int) -> bool:
        """Store a seal for good, if the last one of its lane has the size `after` (0 for none).

        Return whether it was stored: False, and nothing is stored, where another process was first.
        A unique key over the lane and `after` is enough, for seals are never removed.
        """
        ...
