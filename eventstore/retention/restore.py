"""`restore_archive`: what an archive holds goes back into the log that it came from.

The events come back into their own rows, at their places. Their digests stayed there: each line
must have that of its row, and must prove that the digest follows from all that the line says.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from eventstore.domain.detached import EventsRestored
from eventstore.errors import StorageError
from eventstore.retention.appends import draft_of, unchanged
from eventstore.retention.archive_file import ArchiveForm
from eventstore.retention.lines import ArchiveLine
from eventstore.retention.matching import matching
from eventstore.storage.interface import Append, Archived, Archives, Attach, AttachedPayload

if TYPE_CHECKING:
    from eventstore.session import LogSession


class Restored(msgspec.Struct, frozen=True):
    """What came back into the log: conversations and events."""

    conversations: int
    events: int


def restore_archive(
    session: LogSession, path: Path, form: ArchiveForm, by: str = "restore"
) -> Restored:
    """Bring back the conversations of a file that are archived in this log; see `restore`.

    Others are left alone.

    Raises:
        ValueError: the file is not an archive, or has other events than those that were archived,
            or not all of them; the conversations before are back.
    """
    archives = session.storage.archives
    if archives is None:
        raise StorageError(f"{session.storage!r} keeps no archives: open a SQL database")
    conversations = events = 0
    place = str(path.resolve())
    for name, lines in groupby(form.read(path), lambda line: line.conversation_id):
        there = archives.find(name)
        if there is None:
            continue
        try:
            events += _restore(session, archives, there, lines, by)
        except ValueError as error:
            if there.place != place and Path(there.place).is_file():
                continue  # it came back from here, and was archived there since
            raise ValueError(
                f"{path}: {error}; this conversation was not restored: look for a whole copy of "
                f"{there.place}"
            ) from error
        conversations += 1
    missing = next((each for each in archives.list() if each.place == place), None)
    if missing is not None:
        raise ValueError(
            f"{path}: conversation {missing.conversation_id!r} was archived there, and is missing: "
            "look for a whole copy"
        )
    return Restored(conversations, events)


def _restore(
    session: LogSession, archives: Archives, there: Archived, lines: Iterator[ArchiveLine], by: str
) -> int:
    """Restore one conversation; return how many events it has."""
    storage, name = session.storage, there.conversation_id
    payloads = [_payload(line) for line in matching(storage, archives, there, lines)]
    draft = draft_of(EventsRestored(by, there.version), session.now())
    decide = partial(unchanged, name, [draft])
    request = Append(name, there.version + 1, -1, (), decide, Attach(payloads), joint=True)
    (outcome,) = storage.append([request])
    if isinstance(outcome, Exception):
        raise outcome
    return len(payloads)


def _payload(line: ArchiveLine) -> AttachedPayload:
    row: Any = line.row()
    return AttachedPayload(
        line.version,
        row.event_id,
        line.payload,
        row.salt,
        row.fingerprint,
        row.begins is not None,
        row.id_given is not None,
    )
