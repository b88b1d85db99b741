"""Redactions in stored rows: each marker must have its record, and each record its marker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from eventstore.domain.codec import decode
from eventstore.domain.marker_proofs import proven
from eventstore.domain.redaction import (
    SALTED_DIGEST_BYTES,
    PayloadsRedacted,
    is_marker,
    kept_digest,
    marker_digest,
    parsed_marker,
)

if TYPE_CHECKING:
    from eventstore.domain.redaction import Marker
    from eventstore.storage.stored_row import StoredRow

_TAG = PayloadsRedacted.tag.encode()


class Markers:
    """The markers and the records of redactions among the rows of a lane, in any order."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, object], str | None] = {}
        self._recorded: dict[tuple[object, object], str] = {}

    def take(self, row: StoredRow) -> None:
        """Take in a row."""
        payload = row.payload
        if not isinstance(payload, bytes | bytearray):
            return
        if is_marker(payload):
            stored = bytes(payload)
            marker, tag = parsed_marker(stored), _text(row.tag)
            sound = (
                marker is not None
                and isinstance(row.schema, int)
                and proven(tag, row.schema, marker) is not None
                and _has_its_fingerprint(row, stored, marker)
            )
            self._found[row.conversation, row.version] = marker_digest(stored) if sound else None
        elif row.tag == _TAG and isinstance(row.schema, int):
            event = decode(PayloadsRedacted.tag, row.schema, bytes(payload))
            if isinstance(event, PayloadsRedacted) and event.origin is None:
                for each in event.payloads:  # of one that was redacted again, the last one counts
                    self._recorded[row.conversation, each.version] = each.marker

    def problems(self) -> Iterator[tuple[object, object, str]]:
        """Yield what is wrong with markers: conversation, version and problem."""
        for at in self._found.keys() | self._recorded.keys():
            problem = self._problem(at)
            if problem is not None:
                yield *at, problem

    def _problem(self, at: tuple[object, object]) -> str | None:
        if at not in self._found:
            return "a redaction of it is recorded, and its payload is there"
        found = self._found[at]
        if found is None:
            return "its marker of a redaction is not as the library writes it"
        if at not in self._recorded:
            return "it was redacted, and no redaction is recorded"
        return None if found == self._recorded[at] else "its marker is not the recorded one"


def _text(value: object) -> str:
    """Return the text that a driver gave as bytes; "" for anything else."""
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else ""


def _has_its_fingerprint(row: StoredRow, stored: bytes, marker: Marker) -> bool:
    """Return whether the fingerprint is that of the marker; without a salt its digest covers it."""
    if marker.fingerprint is None and len(kept_digest(stored) or b"") != SALTED_DIGEST_BYTES:
        return True
    mark = row.fingerprint
    return marker.fingerprint == (
        bytes(mark).hex() if isinstance(mark, bytes | bytearray) else mark
    )
