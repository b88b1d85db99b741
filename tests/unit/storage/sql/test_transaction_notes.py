"""What a storage knows of its own writes, and when it comes to know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from eventstore.errors import StorageError
from eventstore.storage.factory import backend_for, open_storage
from eventstore.storage.sql.parts import Parts
from eventstore.storage.sql.reader import LogReader
from eventstore.storage.sql.storage import SqlStorage
from eventstore.storage.sql.transaction_notes import Written
from eventstore.testing import append, message

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.sql.log import Log
    from eventstore.storage.sql.transaction_notes import TransactionNotes


class Commits:
    """Commits of which each may be refused, or answered and not proven."""

    refused = unproven = False

    def commit(self, cursor: DBAPICursor, statement: str) -> None:
        """Send the COMMIT, or fail."""
        if self.refused:
            raise StorageError("refused")
        cursor.execute(statement)

    def require(self, _: object, notes: TransactionNotes) -> None:
        """Fail after the COMMIT."""
        if self.unproven:
            raise StorageError(f"unproven: {len(notes.ends)} lane")

    def wait_until_lasting(self, cursor: DBAPICursor) -> None:
        """Have nothing to wait for."""


def test_a_transaction_is_known_only_after_its_commit(tmp_path: Path) -> None:
    """A COMMIT that failed leaves nothing known; one that was answered does, proven or not."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    open_storage(url, "", "full", 30.0).close()
    commits = Commits()

    def parts(log: Log) -> Parts:
        return Parts(LogReader(log), proof=commits)

    storage = SqlStorage(backend_for(url), "", parts)
    log, written = storage.log, storage.log.written
    commits.refused = True
    with pytest.raises(StorageError, match="refused"):
        append(storage, "chat", message("a"))
    assert (log.keys.known, log.seen.furthest, written.ends, written.digests) == ({}, {}, {}, {})
    commits.refused, commits.unproven = False, True
    with pytest.raises(StorageError, match="unproven: 1 lane"):
        append(storage, "chat", message("a"))
    assert (log.keys.known, written.ends) == ({"chat": (0, 1)}, {0: 1})
    assert log.seen.furthest[0][0] == written.digests["chat"][0] == 1
    storage.close()


def test_a_digest_is_known_at_the_version_that_was_written() -> None:
    """Those of other versions are read, and room is made for what is read."""
    written = Written(max_conversations=1)
    written.digests["chat"] = 2, b"digest"
    assert written.digest_at("chat", 2) == b"digest"
    assert written.digest_at("chat", 3) is None
    assert written.digests == {}


def test_a_lane_that_ends_elsewhere_has_events_of_others() -> None:
    """Own writes are those after the end that was found."""
    written = Written(max_conversations=1)
    written.ends[0] = 5
    written.note_end(0, 5)
    assert written.ours_since == {}
    written.note_end(0, 7)
    assert written.ours_since == {0: 7}
