"""`Projector`: keeps projections of a log in SQL tables, and reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from eventstore import Cursor, EventStore, Lag, SchemaTooNew, StorageError, Tool
from projections.approvals import PendingApproval, approvals_among
from projections.projector.built_in import VIEWS, BuiltInProjection
from projections.projector.database import ProjectionDatabase
from projections.projector.generations import (
    Definition,
    Generation,
    OtherVersion,
    find_generation,
)
from projections.projector.parked import Parked
from projections.projector.processes import beside
from projections.projector.queries import Row
from projections.projector.schema import key_of
from projections.projector.settings import DEFAULT_SETTINGS, ProjectorSettings
from projections.projector.statistics_reads import (
    MAX_MICROSECONDS,
    TimeBucket,
    microseconds_of,
    read_statistics,
    read_timeline,
)
from projections.projector.table_projection import AnyProjection, check_projections
from projections.projector.tools_table import STATUSES, read_tools
from projections.projector.usage_table import read_usage
from projections.projector.worker import AnyWorker, Progress, Report, Worker
from projections.statistics.projection import MAX_FINGERPRINTS
from projections.statistics.results import Statistics
from projections.statistics.usage import UsageReport

if TYPE_CHECKING:
    from types import TracebackType

    from sqlalchemy import Connection

HOUR_SECONDS = 3_600
REMEDY = (
    "rebuild them: Projector(store, url).rebuild() or `toolledger stats --tables URL --rebuild`"
)
NEWER = (
    "they are a newer version's, and are left to it: upgrade this process, or pass "
    "rebuild(only={name!r}, replace_newer=True) to go back"
)


class Projector:
    """Keeps current tools, pending approvals and statistics of a log in SQL tables.

    The names of the tables begin with `toolledger_`. They are created where they do not exist, in
    the database at `url`: without `url` it is the log's own. A batch of `batch` events and how far
    the projection is are committed together, so each event is applied exactly once, whatever is
    killed and when. Any number of projectors, in any number of processes, may work on one log:
    they share its lanes. One projector is for one thread at a time. While a batch is stored in a
    SQLite file, nothing else can write to the file: where the log is in it, too, a smaller `batch`
    shortens that wait.

    `views` says which of the built-in projections are kept, `bucket` how long a time bucket of the
    statistics is, in seconds. If they are not given, those of the existing tables hold; for new
    tables, all views and an hour. `fingerprints` is how many fingerprints are counted one
    by one.

    `projections` are your own, each with tables, checkpoints and generations of its own: see
    `TableProjection`. The log is read once for the built-in ones and once for each of these.
    `settings` are for tests and for unusual logs.

    Raises:
        ValueError: an argument makes no sense.
        StorageError: the database cannot be used.
        SchemaTooNew: a newer version of the library made the tables.
    """

    def __init__(
        self,
        store: EventStore,
        url: str | None = None,
        *,
        views: Sequence[str] | None = None,
        bucket: int | None = None,
        batch: int = 10_000,
        fingerprints: int = MAX_FINGERPRINTS,
        projections: Sequence[AnyProjection] = (),
        settings: ProjectorSettings = DEFAULT_SETTINGS,
    ) -> None:
        if views is not None and (set(views) - set(VIEWS) or not (views or projections)):
            raise ValueError(f"views are {tuple(views)!r}: pass some of {', '.join(VIEWS)}")
        for name, number in (("bucket", bucket), ("batch", batch), ("fingerprints", fingerprints)):
            if number is not None and (type(number) is not int or number < 1):
                raise ValueError(f"{name} is {number!r}: pass 1 or more")
        check_projections(projections, VIEWS)
        self._store = store
        self._batch = batch
        self._settings = settings
        self._url = store.url if url is None else url
        self._fingerprints = fingerprints
        self._projections = projections
        self._database = ProjectionDatabase(self._url, settings)
        self._workers: list[AnyWorker] = []
        try:
            self._built_in = self._open_built_in(views, bucket, fingerprints)
            for projection in projections:
                self._database.create(projection.tables)
                self._workers.append(self._open(projection))
        except BaseException:
            self.close()
            raise

    def _open_built_in(
        self, views: Sequence[str] | None, bucket: int | None, fingerprints: int
    ) -> BuiltInProjection:
        end = self._store.end()
        owner = key_of(self._store.tenant, end.epoch)
        with self._database.reading() as connection:
            live = find_generation(self._database, connection, owner, "live")
        if views is None:
            views = live.views.split(",") if live else VIEWS
        default = live.bucket if live else HOUR_SECONDS * 1_000_000
        built_in = BuiltInProjection(
            sorted(set(views)),
            bucket * 1_000_000 if bucket else default,
            max(fingerprints // max(len(end.positions), 1), 1),
            self._settings.max_cached_rows,
        )
        if built_in.name:

            def mismatch(found: Generation) -> ValueError:
                return ValueError(
                    f"the projection was made with views {found.views} and buckets of "
                    f"{found.bucket // 1_000_000} s, not with {built_in.name} and "
                    f"{built_in.bucket // 1_000_000} s: pass the same, or rebuild() it with these"
                )

            definition = Definition(
                owner,
                built_in.name,
                built_in.bucket,
                built_in.tables,
                REMEDY,
                mismatch,
                built_in.version,
            )
            self._workers.append(self._worker(built_in, definition, None))
        return built_in

    def _open(self, projection: AnyProjection) -> AnyWorker:
        name, version = projection.name, projection.version
        definition = f"{name}@{version}"
        remedy = f"rebuild it: projector.rebuild(only={name!r})"

        def version_of(found: Generation) -> int:
            return int(found.views.rpartition("@")[2])

        def is_newer(found: Generation) -> bool:
            return version_of(found) > version

        def mismatch(found: Generation) -> StorageError:
            advice = NEWER.format(name=name) if is_newer(found) else remedy
            text = (
                f"{self._database.name}: the tables hold {found.views}, and the projection passed "
                f"is {definition}; {advice}"
            )
            return OtherVersion(text, name, version, version_of(found))

        owner = key_of(self._store.tenant, self._store.end().epoch, name)
        tables = tuple(projection.tables)
        made = Definition(owner, definition, 0, tables, remedy, mismatch, is_newer=is_newer)
        return self._worker(projection, made, name)

    def _worker(
        self, projection: AnyProjection, definition: Definition, name: str | None
    ) -> AnyWorker:
        return Worker(
            self._store,
            self._database,
            projection,
            definition,
            name=name,
            batch=self._batch,
            settings=self._settings,
        )

    def close(self) -> None:
        """Close the connections; the store stays open."""
        for worker in self._workers:
            worker.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # keeping up

    def catch_up(self, progress: Report | None = None) -> int:
        """Apply what the log holds by now; return how many events this projector has applied.

        `progress` is called after each batch. An event counts once for the built-in projections,
        and once for each of yours.

        Tables that another version has made, yours or the library's, stop themselves alone: the
        others are kept up before this is raised.

        Raises:
            OtherVersion: tables hold another version.
            SchemaTooNew: a newer version of the library has rebuilt its tables meanwhile.
        """
        reports = _reports(self._workers, progress)
        return _sum_of_all(partial(worker.catch_up, report) for worker, report in reports)

    def rebuild(
        self,
        progress: Report | None = None,
        *,
        only: str | None = None,
        processes: int = 1,
        replace_newer: bool = False,
    ) -> int:
        """Rebuild the projections beside the live tables, and replace these at the end.

        The live tables stay readable, and other projectors keep them up, until then. Several
        projectors may build at once; a rebuild that was interrupted continues. `only` names one
        projection; "statistics", "tools" and "usage" are built together.

        With several `processes`, this one among them, they share the lanes of the log: a server's
        has 16, a file one. The others are started anew (`multiprocessing`, "spawn"): a script needs
        `if __name__ == "__main__":`, and projections of yours must be pickled. What the others
        apply is not in the number that is returned.

        Tables of yours that a later version has made, or is building, are refused, so that two
        processes do not rebuild each other's for ever. To go back, say `replace_newer`.

        Raises:
            ValueError: `processes` is not 1 or more.
            OtherVersion: tables of yours hold a later version; nothing was rebuilt.
        """
        if type(processes) is not int or processes < 1:
            raise ValueError(f"processes is {processes!r}: pass 1 or more")
        workers = self._workers if only is None else [self._worker_of(only)]
        for worker in () if replace_newer else workers:
            worker.generations.refuse_newer()
        others = min(processes, len(self._store.end().positions)) - 1
        for worker in workers if others else ():
            # so that others find what to help with
            worker.begin_rebuild(replace_newer=replace_newer)
        with beside(others, partial(_help_rebuild, self._recipe(), only)):
            return sum(
                worker.rebuild(report, replace_newer=replace_newer)
                for worker, report in _reports(workers, progress)
            )

    def _recipe(self) -> _Recipe:
        """Return what makes a projector of the same tables in another process."""
        return _Recipe(
            self._store.url,
            self._store.tenant,
            {
                "url": self._url,
                "views": self._built_in.name.split(",") if self._built_in.name else (),
                "bucket": self._built_in.bucket // 1_000_000,
                "batch": self._batch,
                "fingerprints": self._fingerprints,
                "projections": self._projections,
                "settings": self._settings,
            },
        )

    def help_rebuild(self, *, only: str | None = None) -> int:
        """Apply events to what another projector rebuilds meanwhile; return how many."""
        workers = self._workers if only is None else [self._worker_of(only)]
        return sum(worker.help_rebuild() for worker in workers)

    def retry(self, conversation_id: str | None = None) -> int:
        """Apply what was parked, of one conversation or of all; return how many succeeded.

        An event that fails again stays parked, with the later ones of its conversation.

        Raises:
            OtherVersion: tables hold another version; the others were retried.
            SchemaTooNew: a newer version of the library has rebuilt its tables meanwhile.
        """
        return _sum_of_all(partial(worker.retry, conversation_id) for worker in self._workers)

    def lag(self) -> Lag:
        """Return how far the tables are behind the log; of several projections, the slowest."""
        positions: dict[int, int] = {}
        for worker in self._workers:
            for lane, position in worker.positions().items():
                positions[lane] = min(position, positions.get(lane, position))
        cursor = Cursor(self._store.end().epoch, tuple(sorted(positions.items())))
        return self._store.follow(cursor).lag()

    # reading

    def tools(
        self, conversation_id: str | None = None, status: str | None = None
    ) -> Iterator[tuple[str, Tool]]:
        """Yield the calls as they stood after the last event applied, each with its conversation.

        Of one conversation, or of all; of one status (`"pending"`), or of any; in bounded memory.
        """
        worker = self._worker_of("tools")
        where: Row = {}
        if status is not None:
            where["status"] = status.capitalize()
            if where["status"] not in STATUSES:
                known = ", ".join(STATUSES).lower()
                raise ValueError(f"status is {status!r}: pass one of {known}")
        return self._read_tools(worker, conversation_id, where)

    def pending_approvals(self) -> list[PendingApproval]:
        """Return the calls that wait for a person, the longest first; see `pending_approvals`."""
        worker = self._worker_of("tools")
        pending = self._read_tools(worker, None, {"status": "Pending", "imported": 0})
        # Their JSON has no members at their defaults, so that few calls are read.
        may_expire = (
            self._read_tools(worker, None, {"status": status, "imported": 0}, '"expires_at":')
            for status in ("Approved", "Failed")
        )
        return approvals_among(chain(pending, *may_expire), self._store.now())

    def _read_tools(
        self, worker: AnyWorker, conversation_id: str | None, where: Row, holding: str = ""
    ) -> Iterator[tuple[str, Tool]]:
        return read_tools(
            worker.generations.reading_live,
            conversation_id,
            where,
            self._settings.page_rows,
            holding,
        )

    def statistics(self) -> Statistics:
        """Return the error statistics of the whole log; see `error_statistics`.

        Percentiles are within 1/128 of the true values.
        """
        with self.reading("statistics") as (connection, generation):
            return read_statistics(connection, generation)

    def usage(self) -> UsageReport:
        """Return what the responses of the whole log have cost; see `usage_statistics`."""
        with self.reading("usage") as (connection, generation):
            return read_usage(connection, generation)

    def timeline(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        every: timedelta | None = None,
    ) -> list[TimeBucket]:
        """Return the error statistics over time, where calls were asked for; the oldest first.

        A call counts where it was asked for, whenever it ended. `every` joins buckets: it is a
        multiple of theirs. Buckets are whole: also those that `since` and `until` fall into.

        Raises:
            ValueError: a time has no time zone, or `every` is not a multiple.
        """
        self._worker_of("statistics")
        width = self._built_in.bucket
        step = width if every is None else every // timedelta(microseconds=1)
        if step < width or step % width:
            raise ValueError(
                f"every is {every}: pass a multiple of the buckets of {width // 1_000_000} s"
            )
        first = last = None
        if since is not None:
            first = max(microseconds_of(since) // step * step, -MAX_MICROSECONDS)
        if until is not None:
            last = min(-(-microseconds_of(until) // step) * step, MAX_MICROSECONDS)
        with self.reading("statistics") as (connection, generation):
            return read_timeline(connection, generation, first, last, step)

    def parked(self) -> list[Parked]:
        """Return the events that could not be projected; each holds up its conversation only."""
        return [item for worker in self._workers for item in worker.parked()]

    def reading(self, name: str) -> AbstractContextManager[tuple[Connection, int]]:
        """Open a connection to read a projection's tables, all as they were at one moment.

        It comes with the number of the live generation: read the rows that have it in their
        column `projection`.
        """
        return self._worker_of(name).generations.reading_live()

    def _worker_of(self, name: str) -> AnyWorker:
        built_in = self._built_in.name.split(",") if self._built_in.name else []
        for worker in self._workers:
            if worker.name == name or (worker.name is None and name in built_in):
                return worker
        kept = ", ".join([*built_in, *(worker.name for worker in self._workers if worker.name)])
        if name in VIEWS:
            views = sorted({*built_in, name})
            remedy = (
                f"rebuild them: Projector(store, url, views={views}).rebuild() or "
                "`toolledger stats --tables URL --rebuild`"
            )
        else:
            remedy = "pass projections with it"
        raise ValueError(f"the tables hold no {name}, only {kept}: {remedy}")


class _Recipe(NamedTuple):
    """What makes a projector: its log, and the arguments."""

    log: str
    tenant: str
    options: dict[str, Any]


def _help_rebuild(recipe: _Recipe, only: str | None) -> None:
    """Apply events to what another process rebuilds."""
    with (
        EventStore.open(recipe.log, tenant=recipe.tenant, create=False) as store,
        Projector(store, **recipe.options) as projector,
    ):
        projector.help_rebuild(only=only)


def _sum_of_all(works: Iterable[Callable[[], int]]) -> int:
    """Return the sum of what each gives; those of another version are passed over.

    Raises:
        OtherVersion: one could not work; all others have.
        SchemaTooNew: likewise, of the library's own tables.
    """
    total = 0
    refused: OtherVersion | SchemaTooNew | None = None
    for work in works:
        try:
            total += work()
        except (OtherVersion, SchemaTooNew) as error:
            if refused is not None:
                error.add_note(str(refused))
            refused = error
    if refused is not None:
        raise refused
    return total


def _reports(
    workers: Sequence[AnyWorker], progress: Report | None
) -> Iterator[tuple[AnyWorker, Report | None]]:
    """Yield each worker with what reports its progress as a part of the progress of all."""
    if progress is None:
        yield from ((worker, None) for worker in workers)
        return
    totals: list[int] = []

    def report(at: Progress) -> None:
        done, remaining = sum(totals), len(workers) - len(totals)
        latest[:] = [at.total]
        progress(Progress(done + at.done, done + at.total * remaining))

    for worker in workers:
        latest = [0]
        yield worker, report
        totals.extend(latest)
