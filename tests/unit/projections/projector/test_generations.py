"""Rebuilds, and workers that run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from support.projected_logs import check, execute, run
from support.statements import after_statements

from eventstore import (
    EventStore,
    Recorded,
    StorageError,
)
from eventstore.storage.interface import Storage
from projections import Progress, Projector
from projections.projector import queries
from projections.projector.built_in import VIEWS, BuiltInProjection
from projections.projector.database import LostRace, ProjectionDatabase
from projections.projector.generations import Definition, Generations
from projections.projector.projector import HOUR_SECONDS
from projections.projector.schema import key_of
from projections.projector.settings import ProjectorSettings

if TYPE_CHECKING:
    from support.servers import PostgreSQL


class SlowStorage:
    """A storage whose readers do something else after they have read a batch."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.afterwards: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def headers(self, *place: Any) -> Iterator[Sequence[Recorded]]:
        """Read the headers of events."""
        yield from self.storage.headers(*place)
        self.afterwards()


def test_a_worker_that_was_overtaken_while_folding_stores_nothing(store: EventStore) -> None:
    """This holds even if it would only overwrite rows that exist already."""
    chat = store.conversation("a")
    for number in range(4):
        chat.request("f", {}, f"call{number}")
    storage: Any = SlowStorage(store.session.storage)
    with Projector(EventStore(storage), batch=2) as slow, Projector(store) as fast:
        assert slow.catch_up() == 4
        for number in range(4):
            chat.start(f"call{number}")
        done: list[int] = []

        def overtake() -> None:
            if not done:
                done.append(fast.catch_up())

        storage.afterwards = overtake
        assert (slow.catch_up(), done) == (0, [4])
        check(slow, store)


def test_a_half_built_generation_with_other_settings_is_retired(
    store: EventStore, projector: Projector
) -> None:
    """A new generation is started with the settings of this projector."""
    run(store, "a", 3)
    projector.catch_up()

    def stop(_: Progress) -> None:
        raise RuntimeError("enough")

    other = Projector(store, bucket=60, batch=2)
    with other, pytest.raises(RuntimeError, match="enough"):
        other.rebuild(stop)
    assert projector.rebuild() == 9
    check(projector, store)


@pytest.mark.parametrize("rebuilds", [1, 2])
def test_a_rebuild_that_another_projector_finishes_ends_well(
    store: EventStore, rebuilds: int
) -> None:
    """This holds even if a newer generation has replaced the result since."""
    run(store, "a", 3)
    with Projector(store, batch=2) as projector, Projector(store) as other:
        left = iter(range(rebuilds))

        def overtake(_: Progress) -> None:
            for _ in left:
                other.rebuild()

        assert projector.rebuild(overtake) == 2
        check(projector, store)
        assert projector.catch_up() == 0


def built_in(store: EventStore) -> Definition:
    """Return the definition of the built-in projections as a projector has it by default."""
    projection = BuiltInProjection(VIEWS, HOUR_SECONDS * 1_000_000, 1)
    return Definition(
        key_of(store.tenant, store.end().epoch),
        projection.name,
        projection.bucket,
        projection.tables,
        "",
        lambda _: AssertionError("it is another definition"),
        projection.version,
    )


class BlindGenerations(Generations):
    """Generations of a worker that sees none of others, as when they are made just then."""

    def find_in(self, *_: object) -> None:
        """Find nothing."""


def test_a_race_to_create_the_generation_has_one_winner(
    store: EventStore, projector: Projector, database: ProjectionDatabase
) -> None:
    """The loser uses the winner's tables, and raises an error if it loses every time."""
    run(store, "a")
    assert projector.catch_up() == 3
    settings = ProjectorSettings(max_lost_races=2)
    late = BlindGenerations(database, store, built_in(store), settings)
    with pytest.raises(LostRace, match="UNIQUE"):
        late.create("live")
    with pytest.raises(
        StorageError, match=r"other workers were first each time \(UNIQUE.*\): try again"
    ):
        late.live()


def test_a_projection_that_is_removed_before_it_is_read_is_reported(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """The generation was there, and the transaction that reads it does not see it."""
    projector.catch_up()

    def remove(statement: str, _: object) -> None:
        if "FROM toolledger_projections" in statement:
            execute(path, "DELETE FROM toolledger_projections")

    with after_statements(remove), pytest.raises(StorageError, match="removed meanwhile"):
        projector.lag()


def test_a_switch_to_a_replaced_generation_changes_nothing(
    store: EventStore, projector: Projector, database: ProjectionDatabase
) -> None:
    """Another worker has switched already, and the live generation stays."""
    run(store, "a")
    projector.catch_up()
    ours = Generations(database, store, built_in(store))
    live = ours.live().id
    ours.switch(live + 5)
    assert ours.live().id == live


def test_a_projector_helps_with_the_rebuild_of_another(store: EventStore) -> None:
    """A helper builds what the other has begun, and begins nothing itself."""
    for number in range(6):
        store.conversation(f"chat-{number}").request("f", {}, "call")
    with Projector(store, batch=2) as projector, Projector(store) as helper:
        projector.catch_up()
        assert helper.help_rebuild() == 0
        (worker,) = projector._workers
        worker.begin_rebuild()
        assert helper.help_rebuild(only="tools") == 6
        assert projector.rebuild() == 0
        check(projector, store)
        worker.begin_rebuild()
        with Projector(store, bucket=60, views=["tools"]) as other:
            assert other.help_rebuild() == 0  # it is of another definition


def test_processes_share_a_rebuild(postgresql: PostgreSQL) -> None:
    """Tables that two processes built are those of one process."""
    url = postgresql.database(migrated=True)
    with EventStore.open(url) as store:
        for number in range(40):
            store.conversation(f"chat-{number}").request("f", {"n": number}, "call")
        with Projector(store, batch=1) as projector:
            projector.catch_up()
            assert projector.rebuild(processes=2) <= 40
            check(projector, store)
            with pytest.raises(ValueError, match="processes is 0"):
                projector.rebuild(processes=0)


def test_the_number_of_a_generation_never_comes_back(
    store: EventStore, projector: Projector, database: ProjectionDatabase
) -> None:
    """A worker that was stopped does not take another's generation for its own."""
    run(store, "a")
    projector.catch_up()
    old = Generations(database, store, built_in(store))
    new = Generations(database, store, replace(built_in(store), bucket=60_000_000))
    began = old.begin()
    new.clean()
    assert new.begin() > began  # it has retired the other
    old.clean()
    for _ in range(2):
        with database.writing() as connection:
            found = new.find_in(connection, "building")
            assert found is not None
            queries.change_state(connection, found.id, "building", f"retired {found.id}")
        new.clean()
        assert new.begin() > found.id
    old.switch(new.begin())
    assert old.live().id < began
