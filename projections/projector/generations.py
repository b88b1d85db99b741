"""`Generations`: the tables of a projection as they are built, read and replaced.

1. A generation is a row of `toolledger_projections` and the rows with its id in all other tables.
2. Of one projection of one log at most one generation is live and at most one is being built: the
   unique key on owner and state holds that, whatever processes race.
3. Readers and `catch_up` take the live generation. `rebuild` fills the one that is being built.
4. When that has come to the log's end, one transaction retires the live generation and makes the
   other one live. Readers see either the one or the other, each whole.
5. A retired generation is deleted, checkpoints first: without its checkpoint no worker can write
   in it any more. Then its other rows go, some at a time, and its own row last, so that deleting
   can continue after a crash.
6. A number never comes back: a worker that was stopped would take another's generation for its own.
   So the row with the highest number stays, as retired, until there is a higher one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from eventstore import EventStore, SchemaTooNew, StorageError
from projections.projector import queries, schema
from projections.projector.database import LostRace, ProjectionDatabase
from projections.projector.schema import FORMAT, USAGE_FORMAT
from projections.projector.settings import DEFAULT_SETTINGS, ProjectorSettings

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

_random = random.SystemRandom()

T = TypeVar("T")


class OtherVersion(StorageError):
    """The live tables of a projection are another version's: this process leaves them.

    `projection` is the name of a projection of yours, `passed` the version of this process, `found`
    that of the tables. Of the library's own tables the name is None, and the versions are those of
    their format.
    """

    def __init__(self, message: str, projection: str | None, passed: int, found: int) -> None:
        super().__init__(message)
        self.projection = projection
        self.passed = passed
        self.found = found


class Generation(msgspec.Struct, frozen=True):
    """A generation of a projection, as it is stored; `views` and `bucket` are its definition."""

    id: int
    format: int
    views: str
    bucket: int


class Definition(msgspec.Struct, frozen=True):
    """The identity of a projection, and of its generations of each version.

    `owner` stands for the log, its tenant and the projection. `views` and `bucket` are stored with
    a generation, and so is `format`. `remedy` says how to rebuild it.
    """

    owner: bytes
    views: str
    bucket: int
    tables: tuple[Table, ...]
    remedy: str
    mismatch: Callable[[Generation], Exception]
    """Makes the error for a live generation that was made by another definition."""
    format: int = FORMAT
    is_newer: Callable[[Generation], bool] = lambda _: False
    """Whether a generation was made by a later version, which this one does not replace."""

    def is_of(self, generation: Generation) -> bool:
        """Return whether a generation was made by this definition."""
        return (generation.format, generation.views, generation.bucket) == (
            self.format,
            self.views,
            self.bucket,
        )


def find_generation(
    database: ProjectionDatabase, connection: Connection, owner: bytes, state: str
) -> Generation | None:
    """Return an owner's generation in this state, or None.

    Raises:
        SchemaTooNew: a newer version of the library made it.
    """
    columns = ("id", "format", "views", "bucket")
    where = {"owner": owner, "state": state}
    rows = queries.select_rows(connection, schema.projections, columns, where)
    if not rows:
        return None
    found = Generation(*rows[0])
    if found.format > USAGE_FORMAT:
        raise SchemaTooNew(
            f"{database.name}: a newer version of toolledger made the tables (format "
            f"{found.format}, this one knows {USAGE_FORMAT}): upgrade toolledger, or keep the "
            "projections of this one in another database"
        )
    return found


class Generations:
    """The generations of one projection of one log."""

    def __init__(
        self,
        database: ProjectionDatabase,
        store: EventStore,
        definition: Definition,
        settings: ProjectorSettings = DEFAULT_SETTINGS,
    ) -> None:
        self._database = database
        self._store = store
        self._definition = definition
        self._settings = settings

    def find(self, state: str) -> Generation | None:
        """Return the generation in this state, or None."""
        with self._database.reading() as connection:
            return self.find_in(connection, state)

    def find_in(self, connection: Connection, state: str) -> Generation | None:
        """Return the generation in this state as a connection sees it, or None."""
        return find_generation(self._database, connection, self._definition.owner, state)

    def live(self) -> Generation:
        """Return the live generation; create it if it does not exist.

        Raises:
            ValueError: it was made with other settings.
            OtherVersion: it was made by another version of the library, or of the projection.
        """
        found = self.find("live") or self.retry_lost_races(lambda: self.create("live"))
        if found.format < FORMAT:
            raise OtherVersion(
                f"{self._database.name}: another version of toolledger made the tables (format "
                f"{found.format}, not {self._definition.format}); {self._definition.remedy}",
                None,
                self._definition.format,
                found.format,
            )
        if not self._definition.is_of(found):
            raise self._definition.mismatch(found)
        return found

    def refuse_newer(self) -> None:
        """Refuse to replace what a later version has made, or is making.

        Raises:
            OtherVersion: there is such a generation.
        """
        self._refuse_if_newer(self.find("live"), self.find("building"))

    def _refuse_if_newer(self, *generations: Generation | None) -> None:
        for found in generations:
            if found is not None and self._definition.is_newer(found):
                raise self._definition.mismatch(found)

    @contextmanager
    def reading_any(self) -> Generator[tuple[Connection, int]]:
        """Open a connection to what all versions have in common: checkpoints, and what is parked.

        It comes with the id of the live generation, whichever version made it.
        """
        if self.find("live") is None:
            self.live()
        with self._reading() as found:
            yield found

    @contextmanager
    def reading_live(self) -> Generator[tuple[Connection, int]]:
        """Open a connection that sees one moment, with the id of the generation live in it."""
        self.live()  # otherwise there is nothing to read
        with self._reading() as found:
            yield found

    @contextmanager
    def _reading(self) -> Generator[tuple[Connection, int]]:
        with self._database.reading() as connection:
            found = self.find_in(connection, "live")
            if found is None:
                raise StorageError("the projection was removed meanwhile: try again")
            yield connection, found.id

    def begin(self, *, replace_newer: bool = False) -> int:
        """Return the id of the generation that is being built; begin one if necessary.

        One of another definition is retired.

        Raises:
            OtherVersion: a later version's is there, and is not to be replaced.
        """

        def begin() -> int:
            live, found = self.find("live"), self.find("building")
            if not replace_newer:
                self._refuse_if_newer(live, found)
            if found is not None and not self._definition.is_of(found):
                with self._database.writing() as connection:
                    _change_state(connection, found.id, "building", f"retired {found.id}")
                found = None
            return (found or self.create("building")).id

        return self.retry_lost_races(begin)

    def is_retired(self, generation: int) -> bool:
        """Return whether a generation was replaced."""
        with self._database.reading() as connection:
            where = {"id": generation}
            rows = queries.select_rows(connection, schema.projections, ("state",), where)
        return not rows or rows[0][0].startswith("retired")

    def create(self, state: str) -> Generation:
        """Create a generation in this state; return the one that is there, if there is one.

        Raises:
            LostRace: another worker was first.
        """
        definition = self._definition
        lanes = [lane for lane, _ in self._store.end().positions]
        with self._database.writing() as connection:
            found = self.find_in(connection, state)
            if found is not None:
                return found
            number = queries.highest(connection, schema.projections.c.id) + 1
            # Rows of users' tables may be left of a log that was removed with its ids.
            for table in definition.tables:
                if table.name not in schema.metadata.tables:
                    queries.delete_rows(connection, table, {"projection": number})
            made = Generation(number, definition.format, definition.views, definition.bucket)
            row: queries.Row = {
                "owner": definition.owner,
                "state": state,
                "tenant": schema.storable(self._store.tenant),
                "epoch": self._store.end().epoch,
                "created_at": time.time_ns() // 1000,
            }
            queries.insert_rows(
                connection, schema.projections, [row | msgspec.structs.asdict(made)]
            )
            start = {"projection": number, "position": 0, "revision": 0, "totals": "{}"}
            rows = [start | {"lane": lane} for lane in lanes]
            queries.insert_rows(connection, schema.checkpoints, rows)
        return made

    def switch(self, building: int, *, replace_newer: bool = False) -> None:
        """Make what was built the live generation, unless another worker has.

        Raises:
            OtherVersion: a later version became live meanwhile, and is not to be replaced.
        """
        with self._database.writing() as connection:
            found = self.find_in(connection, "building")
            if found is None or found.id != building or not self._definition.is_of(found):
                return
            live = self.find_in(connection, "live")
            if not replace_newer:
                self._refuse_if_newer(live)
            if live is not None:
                _change_state(connection, live.id, "live", f"retired {live.id}")
            _change_state(connection, building, "building", "live")

    def clean(self) -> None:
        """Delete what was replaced, some rows at a time: others write meanwhile."""
        where = {"owner": self._definition.owner}
        with self._database.reading() as connection:
            rows = queries.select_rows(connection, schema.projections, ("id", "state"), where)
        for generation in (number for number, state in rows if state.startswith("retired")):
            for table in (*schema.FRAMEWORK_TABLES, *self._definition.tables):
                while self.retry_lost_races(partial(self._delete_some, table, generation)):
                    pass
            with self._database.writing() as connection:
                if generation < queries.highest(connection, schema.projections.c.id):
                    queries.delete_rows(connection, schema.projections, {"id": generation})

    def _delete_some(self, table: Table, generation: int) -> bool:
        with self._database.writing() as connection:
            return queries.delete_some(
                connection, table, generation, self._settings.rows_per_delete
            )

    def retry_lost_races(self, attempt: Callable[[], T]) -> T:
        """Return the result of an attempt that is repeated while other transactions are first.

        Raises:
            StorageError: they always were.
        """
        lost_races = 0
        while True:
            try:
                return attempt()
            except LostRace as lost:
                lost_races += 1
                if lost_races >= self._settings.max_lost_races:
                    raise StorageError(
                        f"other workers were first each time ({lost}): try again"
                    ) from lost
            pause()


def pause() -> None:
    """Wait up to 10 ms, so that workers that raced do not race again."""
    time.sleep(_random.random() / 100)


def _change_state(connection: Connection, generation: int, before: str, after: str) -> None:
    if not queries.change_state(connection, generation, before, after):
        raise LostRace(f"projection {generation} is not {before} any more")
