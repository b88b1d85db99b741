"""The row of the store as a whole, and the losses that were accepted, in the rows after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eventstore.errors import StoreCorrupt
from eventstore.storage.chain import is_sound_store

if TYPE_CHECKING:
    from eventstore.storage.sql.connections import Connections


class StoreRow(NamedTuple):
    """What is stored of the store as a whole."""

    epoch: str
    """The mark that distinguishes it from every other."""
    lanes: int
    accepted: frozenset[str]
    """A mark for each loss that was accepted."""


def read_store(connections: Connections) -> StoreRow:
    """Read what is stored of the store.

    Raises:
        StoreCorrupt: it cannot be used.
    """
    rows = connections.rows(
        "SELECT epoch, lanes, created_at, digest FROM toolledger_store ORDER BY id"
    )
    if not rows:
        raise StoreCorrupt("toolledger_store is empty: restore the database from a copy")
    (epoch, lanes, created_at, digest), *accepted = rows
    if not isinstance(epoch, str):
        raise StoreCorrupt("the store's epoch is not text: restore the database from a copy")
    if not is_sound_store(epoch.encode(), lanes, created_at, digest):
        ((counters,),) = connections.rows("SELECT COUNT(*) FROM toolledger_lanes")
        if lanes != counters:  # events would be sought, and written, in other lanes
            raise StoreCorrupt(
                f"the store says that it has {lanes!r} lanes, and has counters for {counters}: "
                "restore the database from a copy"
            )
    return StoreRow(epoch, lanes, frozenset(mark for mark, *_ in accepted))
