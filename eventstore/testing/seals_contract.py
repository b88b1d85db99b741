"""The guarantees of a storage whose log can be sealed, as a test suite."""

from __future__ import annotations

from functools import partial

from eventstore.storage.interface import Storage
from eventstore.storage.leaves import HASH_BYTES, SealedRow, hash_of
from eventstore.storage.sealable_log import Seal, SealableLog
from eventstore.testing.appending import append
from eventstore.testing.builders import message, pending
from eventstore.testing.concurrency import run_concurrently
from eventstore.testing.fixtures import ContractFixtures, OpenStorage


def sealable(storage: Storage) -> SealableLog:
    """Return the log of a storage as it is sealed."""
    log = storage.sealable_log
    assert log is not None, "the storage keeps no seals"
    return log


class SealsContract(ContractFixtures):
    """The guarantees for several storages on one database which keep seals."""

    def test_every_event_of_every_tenant_has_a_leaf(self, open_storage: OpenStorage) -> None:
        """Positions come in order, after one and up to another, with the names of their events."""
        mine, other = open_storage(), open_storage("Größe 🙂")
        append(mine, "chat", *(message(str(n)) for n in range(self.more_than_a_chunk)))
        append(mine, "chat", pending("call_1", q="x"), version=self.more_than_a_chunk)
        append(other, "chät", message("theirs"))
        log = sealable(mine)
        assert log.epoch == mine.epoch
        assert dict(log.heads()) == mine.heads()
        places: dict[tuple[object, object, object], tuple[int, int]] = {}
        for lane, head in log.heads().items():
            rows = list(log.sealable_rows(lane, 0, head))
            assert [row.position for row in rows] == list(range(1, head + 1))
            assert len({hash_of(row) for row in rows}) == head
            for row in rows:
                assert isinstance(row, SealedRow)
                places[row.tenant, row.conversation, row.version] = lane, row.position
                assert list(log.sealable_rows(lane, row.position - 1, row.position)) == [row]
        assert len(places) == self.more_than_a_chunk + 2
        assert log.place_of("chat", 2) == places["", "chat", 2]
        assert sealable(other).place_of("chät", 1) == places["Größe 🙂", "chät", 1]
        assert log.place_of("chät", 1) is log.place_of("chat", self.more_than_a_chunk + 2) is None

    def test_one_of_several_sealers_stores_its_seal(self, open_storage: OpenStorage) -> None:
        """The others are told so, and read it; seals come smallest first, lane by lane."""
        logs = [sealable(open_storage()) for _ in range(3)]
        kept: list[Seal] = []
        for previous in range(9):
            root, edge = bytes([previous]) * HASH_BYTES, b"\0\xff\x80" * HASH_BYTES
            seals = [
                Seal(1, previous, previous + 1, root, edge, f"Größe\n{number}\n\n— 🙂\n")
                for number in range(len(logs))
            ]
            adds = zip(logs, seals, strict=True)
            done = run_concurrently(*(partial(log.add_seal, seal) for log, seal in adds))
            assert sorted(done, key=str) == [False, False, True]
            kept.append(seals[done.index(True)])
            assert [log.last_seal(1) for log in logs] == [kept[-1]] * len(logs)
        for log in logs:
            assert list(log.seals(1)) == kept
            assert list(log.seals(0)) == []
            assert log.last_seal(0) is None
            assert log.sealed_lanes() == {1}
