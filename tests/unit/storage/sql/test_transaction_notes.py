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


class Commits:
    """Commits of which each may be refused, or answered and not proven."""

    refused = unproven = False

    def commit(self, cursor: DBAPICursor, statement: str) -> None:
        """Send the COMMIT, or fail."""
        if self.refused:
            raise StorageError("refused")
        cursor.execute(statement)

    def require(self, _: object) -> None:
        """Fail after the COMMIT."""
        if self.unproven:
            raise StorageError("unproven")

    def wait_until_lasting(self, cursor: DBAPICursor) -> None:
        """Have nothing to wait for."""


def test_a_transaction_is_known_only_after_its_commit(tmp_path: Path) -> None:
    """One that failed, or was answered and not proven, leaves nothing known."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    open_storage(url, "", "full", 30.0).close()
    commits = Commits()

    def parts(log: Log) -> Parts:
        return Parts(LogReader(log), proof=commits)

    storage = SqlStorage(backend_for(url), "", parts)
    log, written = storage.log, storage.log.written
    commits.refused = commits.unproven = True
    for outcome in ("refused", "unproven"):
        with pytest.raises(StorageError, match=outcome):
            append(storage, "chat", message("a"))
        known = (log.keys.known, log.seen.furthest, written.ends, written.digests)
        assert known == ({}, {}, {}, {})
        commits.refused = False
    commits.unproven = False
    append(storage, "other", message("a"))
    assert (log.keys.known, written.ends) == ({"other": (0, 2)}, {0: 2})
    assert log.seen.furthest[0][0] == written.digests["other"][0] + 1 == 2
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
