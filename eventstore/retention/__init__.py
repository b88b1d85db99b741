"""Retention: conversations that rest go to an archive, or lose their payloads, and come back.

`EventStore.retain` and `EventStore.restore` do it. Here is what a form of files is written with.
"""

from eventstore.retention.archive_file import JSON_LINES, ArchiveForm
from eventstore.retention.lines import ArchiveLine, Proof, StoredPart

__all__ = ["JSON_LINES", "ArchiveForm", "ArchiveLine", "Proof", "StoredPart"]
