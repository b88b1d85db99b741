"""`FingerprintPages`: the counters of fingerprints, stored many in a row.

All that are kept are in memory, as which of them are forgotten depends on all.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from projections.projector import schema
from projections.projector.conversations_table import short_fingerprint
from projections.projector.queries import Row, RowChanges, select_rows
from projections.projector.statistics_rows import decode_fingerprints, encode_text
from projections.statistics.counters import FingerprintCounter
from projections.statistics.memory_counters import Fingerprints

if TYPE_CHECKING:
    from sqlalchemy import Connection

FINGERPRINTS_PER_PAGE = 64
"""Fingerprints that one row holds."""


class FingerprintPages:
    """The fingerprints of a lane, and the pages that have changed since the last commit."""

    def __init__(self, limit: int, numbered: int, forgotten: int) -> None:
        self.known = Fingerprints({}, limit, numbered, forgotten)
        self._pages: dict[int, list[FingerprintCounter]] = {}
        self._stored: set[int] = set()
        self._changed: set[int] = set()
        self._is_loaded = False

    def load(self, connection: Connection, at: Row) -> None:
        """Load all, the first time."""
        if self._is_loaded:
            return
        self._is_loaded = True
        columns = ("page", "body")
        rows = select_rows(connection, schema.call_statistics, columns, at, ("page",))
        for page, body in rows:
            counters = decode_fingerprints(body)
            self.known.counters.update((counter.fingerprint, counter) for counter in counters)
            self._pages[page] = counters
            self._stored.add(page)

    def counter(self, fingerprint: str, tool: str) -> FingerprintCounter:
        """Return the counter of a fingerprint, which is about to change."""
        counter = self.known.counters.get(fingerprint)
        if counter is None:
            forgotten = self.known.forgotten
            counter = self.known.add(fingerprint, tool)
            if self.known.forgotten != forgotten:
                self._drop_forgotten()
            self._pages.setdefault(counter.number // FINGERPRINTS_PER_PAGE, []).append(counter)
        self.note_change(counter)
        return counter

    def note_change(self, counter: FingerprintCounter) -> None:
        """Note that a counter changes, unless it is forgotten."""
        if counter.number:
            self._changed.add(counter.number // FINGERPRINTS_PER_PAGE)

    def forget(self, short: Collection[int]) -> None:
        """Forget the fingerprints of which these are 8 bytes, and all that is said of them."""
        known = self.known.counters.values()
        numbers = {each.number for each in known if short_fingerprint(each.fingerprint) in short}
        if numbers:
            self.known.forget(numbers)
            self._drop_forgotten()

    def _drop_forgotten(self) -> None:
        for page, counters in list(self._pages.items()):
            kept = [counter for counter in counters if counter.number]
            if len(kept) == len(counters):
                continue
            self._changed.add(page)
            if kept:
                self._pages[page] = kept
            else:
                del self._pages[page]

    def changes(self) -> RowChanges:
        """Return the pages that have changed; those that are empty are deleted."""
        pages = RowChanges(schema.call_statistics)
        pages.removed = [*(self._stored - self._pages.keys())]
        for page in self._changed & self._pages.keys():
            row: Row = {"page": page, "body": encode_text(self._pages[page])}
            (pages.changed if page in self._stored else pages.new).append(row)
        self._stored = set(self._pages)
        self._changed.clear()
        return pages
