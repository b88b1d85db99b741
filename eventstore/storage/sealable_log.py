"""The seam between seals and a database: what a storage must offer so that its log can be sealed.

Nothing of it is part of an append. Rows are those of all tenants: a seal covers a whole lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

from eventstore.storage.leaves import SealedRow


class Seal(msgspec.Struct, frozen=True):
    """The head of a lane's tree as it is stored, with all that is needed to continue from it."""

    lane: int
    previous: int
    """The size of the lane's seal before it; 0 of the first one."""
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

    def sealable_rows(self, lane: int, after: int, until: int) -> Iterator[SealedRow]:
        """Yield the rows of a lane at the positions after one and up to another, of all tenants.

        They come in the order of positions, in bounded memory, and no crash of the database takes
        them back. Bytes are `bytes`, texts `str`. What a damaged row holds is passed on as it is:
        text that is not UTF-8 as bytes, tenant and conversation as None where the conversation is
        not listed. A row that is missing is left out. `until` is no higher than the lane's counter
        was: up to there nothing is appended meanwhile, only archived.
        """
        ...

    def place_of(self, conversation_id: str, version: int) -> tuple[int, int] | None:
        """Return lane and position of an event of the tenant; None where there is none."""
        ...

    def sealed_lanes(self) -> set[object]:
        """Return the lanes that have seals; in a damaged row a lane may be anything."""
        ...

    def seals(self, lane: int) -> Iterator[Seal]:
        """Yield the stored seals of a lane, the smallest first; a damaged one may hold anything."""
        ...

    def last_seal(self, lane: int) -> Seal | None:
        """Return the stored seal of a lane with the greatest size; None where there is none."""
        ...

    def add_seal(self, seal: Seal) -> bool:
        """Store a seal for good, if no seal of its lane comes after the same one.

        Return whether it was stored: False, and nothing is stored, where another process was first.
        A unique key over the lane and `previous` is enough, for seals are never removed.
        """
        ...


class SealableStore(Protocol):
    """What has a log that can be sealed, as an `EventStore` does."""

    @property
    def sealable_log(self) -> SealableLog:
        """The log as it is sealed."""
        ...
