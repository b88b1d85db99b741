"""`matching`: the lines of an archive are those of the rows whose payloads it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from eventstore.domain.detached import detached_digest
from eventstore.retention.lines import ArchiveLine, proven

if TYPE_CHECKING:
    from eventstore.storage.interface import Archived, Archives, Storage
    from eventstore.storage.stored_row import StoredRow


def matching(
    storage: Storage, archives: Archives, there: Archived, lines: Iterable[ArchiveLine]
) -> Iterator[ArchiveLine]:
    """Yield the lines of a conversation that is archived, each of which is that of its row.

    Raises:
        ValueError: a line is not as it was written, or of another event, or one is missing.
    """
    name, version = there.conversation_id, 0
    rows, lane = archives.rows(name), storage.lane_of(name)
    for line in proven(storage.tenant, lines):
        row = next(rows, None)
        if row is None or line.lane != lane or not _is_of(line, row):
            raise ValueError(
                f"version {line.version} of conversation {name!r} is not the one that was archived"
            )
        version = line.version
        yield line
    if version != there.version:
        raise ValueError(
            f"conversation {name!r} ends at version {version}, and was archived up to version "
            f"{there.version}"
        )


def _is_of(line: ArchiveLine, row: StoredRow) -> bool:
    """Return whether a row is that of a line, whose payload is not there."""
    digest, payload = row.digest, row.payload
    if not (isinstance(digest, bytes | bytearray) and isinstance(payload, bytes | bytearray)):
        return False
    proof = line.archive
    kept = detached_digest(bytes(payload))
    return (line.position, line.version, proof.digest, proof.payload_digest) == (
        row.position,
        row.version,
        bytes(digest).hex(),
        None if kept is None else kept.hex(),
    )
