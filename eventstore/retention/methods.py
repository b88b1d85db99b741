"""`Retains`: the methods of a store that keep it short: to an archive, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    from datetime import timedelta

    from eventstore.retention.archive_file import ArchiveForm
    from eventstore.retention.check import ArchiveProblem
    from eventstore.retention.restore import Restored
    from eventstore.retention.retain import Retention, Wanted
    from eventstore.session import LogSession
    from eventstore.storage.interface import Archived


class Retains:
    """What an `EventStore` offers for archives; see `docs/retention.md`."""

    session: LogSession

    def retain(self, keep: str | timedelta, **wanted: Unpack[Wanted]) -> Retention:
        """Take what is older than `keep` out of the log; by default, only say what would go.

        `keep` is a `timedelta`, or text such as "6 months", "90 days" or "2 years". A conversation
        is as old as its last event. One with a call that is open or in doubt stays.

        - `only="conversations"` moves whole conversations to files in the `folder`. Each file is
          written, synced, read back and proven before anything is dropped. Reading or appending
          to such a conversation raises `ConversationArchived` from then on, until `restore`.
        - `only="payloads"` redacts the content of their events, and keeps the events.

        `match` is a pattern for ids (`"support-*"`), `agent` the name of the agent that ran. With a
        `subject`, it is for the conversations that have events about that person; see
        `Conversation.about`.
        `dry_run=False` does it, in batches; the next run continues one that was killed. `by` is
        recorded. `form` is how files are written: lines of JSON, or Parquet
        (`projections.exports.parquet.ParquetArchive`).

        Raises:
            StoreBusy: another process does this now.
            ValueError: an argument makes no sense.
        """
        from eventstore.retention.retain import retain

        return retain(self.session, keep, **wanted)

    def archived(self) -> Iterator[Archived]:
        """Return the conversations that are archived: up to which version, when, and where."""
        archives = self.session.storage.archives
        return iter(()) if archives is None else archives.list()

    def verify_archives(self, *forms: ArchiveForm, whole: bool = True) -> Iterator[ArchiveProblem]:
        """Return which files of archives are missing, or are not as they were written.

        `forms` are those other than lines of JSON. Without `whole` the files are not read: it is
        only looked whether they are there.
        """
        from eventstore.retention.check import check_archives

        return check_archives(self.session.storage, forms, whole=whole)

    def restore(
        self, path: str | Path, *, by: str = "restore", form: ArchiveForm | None = None
    ) -> Restored:
        """Bring back the conversations of an archive into the log that they were archived from.

        Their events are at their places again, with the digests that they had. What of the file is
        not archived in this log is left alone: `toolledger restore` appends it as an export.

        Raises:
            ValueError: it is no archive, or not as it was written; nothing of the conversation that
                the error names is restored.
        """
        from eventstore.retention.archive_file import JSON_LINES
        from eventstore.retention.restore import restore_archive

        return restore_archive(self.session, Path(path), form or JSON_LINES, by)
