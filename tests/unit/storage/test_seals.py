"""The rows that are sealed, as SQL storages give them: archived, damaged, and without any seals."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from support.storages import open_limited, sql_storage_of

from eventstore import EventStore, StorageError
from eventstore.errors import StoreReadOnly
from eventstore.seals import SigningKey, check, prove
from eventstore.testing import message

KEY = SigningKey("example.com/agents", bytes(range(32)))
TRUSTED = [KEY.verifier]


def written(path: Path) -> EventStore:
    """Return a store that reads four rows at once, with 30 events of three conversations."""
    store = EventStore(open_limited(f"sqlite:///{path}", chunk_rows=4))
    for name in ("first", "archived", "last"):
        store.conversation(name).append(*(message(str(n)) for n in range(10)))
    return store


def test_a_damaged_row_is_passed_on_as_it_is(tmp_path: Path) -> None:
    """Each value that no event can have is named; the check continues."""
    path = tmp_path / "agent.db"
    edits = {
        "payload = x'7b7d'": "payload",
        "salt = 'x'": "payload",
        "salt = x''": "payload",
        "fingerprint = 'x'": "fingerprint",
        "tag = CAST(x'ff' AS TEXT)": "tag",
        "chain = 'x'": "chain",
        "event_id = 3": "event_id",
        "version = 'x'": "version",
        "conversation = 77": "tenant",
    }
    with written(path) as store:
        (seal,) = store.seal(KEY)
        for number, values in enumerate(edits, 1):
            with closing(sqlite3.connect(path)) as file, file:
                file.execute(f"UPDATE toolledger_events SET {values} WHERE position = {number}")  # noqa: S608
        found = check(store, seal.note, TRUSTED).findings
    assert [(each.kind, each.first) for each in found] == [
        ("unreadable", number) for number in range(1, len(edits) + 1)
    ]
    for each, member in zip(found, edits.values(), strict=True):
        assert f"no valid {member}" in str(each)


def test_a_storage_without_seals_says_so(tmp_path: Path) -> None:
    """Such a log is verified as before; sealing it is refused."""

    class WithoutSeals:
        def __init__(self, inner: object) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            if name == "sealable_log":
                raise AttributeError(name)
            return getattr(self._inner, name)

    with written(tmp_path / "agent.db") as store:
        other = EventStore(cast("Any", WithoutSeals(sql_storage_of(store))))
        assert list(other.verify()) == []
        with pytest.raises(StorageError, match="WithoutSeals keeps no seals"):
            other.seal(KEY)


def test_a_store_that_only_reads_is_not_sealed(tmp_path: Path) -> None:
    """Such a log can be checked, and its events proven."""
    path = tmp_path / "agent.db"
    with written(path) as store:
        (seal,) = store.seal(KEY)
        store.conversation("first").append(message("more"))
    with EventStore.open(f"sqlite:///{path}", read_only=True) as store:
        assert check(store, seal.note, TRUSTED).findings == []
        assert prove(store, "last", 10, TRUSTED).index == 29
        with pytest.raises(StoreReadOnly):
            store.seal(KEY)
