"""The file is copied while a process writes: the copy is right, or is refused."""

from __future__ import annotations

import shutil
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from support import workers
from support.tiers import repeated

from eventstore import EventStore
from eventstore.errors import StorageError
from eventstore.testing import Acknowledgement

PARTS = {
    "the file alone": ("",),
    "the file, then its log": ("", "-wal"),
    "the log, then its file": ("-wal", ""),
    "the log alone": ("-wal",),
}


def texts(store: EventStore) -> list[str]:
    """Return the texts that were written, in order."""
    return [r.event.parts[0].text for r in store.conversation("chat").events()]  # type: ignore[union-attr]


@pytest.mark.parametrize("parts", PARTS)
def test_a_copy_is_the_beginning_of_the_log_or_an_error(tmp_path: Path, parts: str) -> None:
    """The copy never holds anything else, and the original loses nothing."""
    path = tmp_path / "agent.db"
    url = f"sqlite:///{path}"
    copies = []
    notes: list[Acknowledgement] = []
    with workers.children([partial(workers.append_without_end, url, 1)]) as ((process, pipe),):
        notes.extend(islice(workers.received(pipe), 10))
        for number in range(repeated(8)):
            notes.extend(islice(workers.received(pipe), 30))
            copy = tmp_path / f"copy-{number}.db"
            for part in PARTS[parts]:
                source = path.with_name(path.name + part)
                if source.exists():
                    shutil.copyfile(source, copy.with_name(copy.name + part))
            copies.append(copy)
        process.kill()
        process.join()
        notes.extend(workers.received(pipe))
    with EventStore.open(url) as store:
        workers.check_log(store, notes)
        original = texts(store)
    for copy in copies:
        said = ""
        damage, found = [], []
        try:
            with EventStore.open(f"sqlite:///{copy}", create=False) as store:
                damage = list(store.verify())
                found = texts(store)
        except StorageError as error:
            said = str(error)
        assert damage or str(copy) in said or found == original[: len(found)]
