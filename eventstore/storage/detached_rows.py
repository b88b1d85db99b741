"""Archives in stored rows: what is gone must be recorded as archived, and the other way round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from eventstore.domain.codec import decode
from eventstore.domain.detached import EventsArchived, is_detached

if TYPE_CHECKING:
    from eventstore.storage.stored_row import StoredRow

_TAG = EventsArchived.tag.encode()


class ArchiveRow(NamedTuple):
    """What the table of archives says of a conversation: as it is stored, so of any type."""

    version: object
    archived_at: object
    place: object


class DetachedRows(msgspec.Struct):
    """The rows of one conversation, as far as they tell of an archive."""

    gone: int = 0
    """How many payloads are in an archive."""
    last_gone: object = 0
    """The version of the last of them."""
    record: EventsArchived | None = None
    recorded: tuple[object, object] = (0, 0)
    """The version and the time of recording of the last event that records an archive."""

    def take(self, row: StoredRow) -> None:
        """Take in the next row."""
        payload = row.payload
        if not isinstance(payload, bytes | bytearray):
            return
        if is_detached(payload):
            self.gone += 1
            self.last_gone = row.version
        elif row.tag == _TAG and isinstance(row.schema, int):
            event = decode(EventsArchived.tag, row.schema, bytes(payload))
            self.record = event if isinstance(event, EventsArchived) else None
            self.recorded = row.version, row.recorded_at

    def problem(self, listed: ArchiveRow | None) -> str | None:
        """Return what is wrong; `listed` is what the table of archives says of it."""
        record = self.record
        if listed is None:
            return "its events are in an archive, and no archive is recorded" if self.gone else None
        if not self.gone:
            return "an archive of it is recorded, and its events are here"
        if record is None:
            return "its events are in an archive, and no event of it says so"
        place = listed.place
        if not isinstance(place, bytes | bytearray) or (
            listed.version,
            listed.archived_at,
            bytes(place),
        ) != (record.version, self.recorded[1], record.place.encode()):
            return "its row in the table of archives is not as it was recorded"
        if not self.gone == self.last_gone == record.version:
            return "its events are not all in the archive that is recorded"
        return None


def of_rows(rows: Iterable[StoredRow]) -> DetachedRows:
    """Return what the rows of one conversation tell."""
    found = DetachedRows()
    for row in rows:
        found.take(row)
    return found
