"""`retain`: what is older than a limit goes to an archive, or loses its payloads, in batches.

A batch of conversations goes to an archive in these steps, and may be killed after each:

1. Their rows are written to a new file, which is synced.
2. The file is read back. Each line must prove itself, and each conversation must end with the
   digest that the log has.
3. The file gets its name, and the folder is synced.
4. One transaction replaces the payloads by their digests, drops what was found by them, and records
   the archive, also as an event of each conversation. If one of them was appended to since 1,
   nothing is changed: the file is removed, and the batch begins again without that one.

The run after one that was killed removes an unfinished file (1, 2), and does step 4 for a file that
is whole, if its conversations still may go. A batch is of one lane: only its writers wait.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

import msgspec

from eventstore.domain.detached import EventsArchived
from eventstore.errors import ConversationArchived, RedactionRefused, StorageError
from eventstore.redaction.redact import redact
from eventstore.retention.age import cutoff
from eventstore.retention.appends import ChangedMeanwhile, draft_of, unchanged
from eventstore.retention.archive_file import JSON_LINES, ArchiveForm, Folder
from eventstore.retention.lines import ArchiveLine, line_of, proven
from eventstore.retention.resting import NOT_CHOSEN, YOUNG, Chosen, examine
from eventstore.storage.interface import Append, Archives, Detach

if TYPE_CHECKING:
    from datetime import timedelta

    from eventstore.session import LogSession

Only = Literal["conversations", "payloads"]

BATCH_EVENTS = 2000
"""Events of a batch; a longer conversation is a batch of its own."""


class Retention(msgspec.Struct, frozen=True):
    """What went, or would go in a `dry_run`, and what stayed for which reason.

    Attributes:
        before: the limit, in microseconds since 1970 UTC.
        conversations: how many went.
        events: how many events they have.
        payload_bytes: what these payloads took up.
        files: the archives.
        kept: how many of those that were chosen stay, by the reason; the young are not counted.
        unused: archives of this store that no conversation names.
        remains: where the database holds the payloads still, in words, and how to clear it.
    """

    only: Only
    before: int
    dry_run: bool
    conversations: int
    events: int
    payload_bytes: int
    files: tuple[str, ...] = ()
    kept: dict[str, int] = {}
    unused: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()


class Wanted(TypedDict, total=False):
    """What may be said of a retention; see `EventStore.retain`."""

    only: Only
    folder: Path | str | None
    match: str | None
    agent: str | None
    subject: str | None
    by: str
    form: ArchiveForm
    dry_run: bool
    batch_events: int
    progress: Callable[[str], object]


def retain(  # noqa: PLR0913 - see `EventStore.retain`
    session: LogSession,
    keep: str | timedelta,
    *,
    only: Only = "conversations",
    folder: Path | str | None = None,
    match: str | None = None,
    agent: str | None = None,
    subject: str | None = None,
    by: str = "retain",
    form: ArchiveForm = JSON_LINES,
    dry_run: bool = True,
    batch_events: int = BATCH_EVENTS,
    progress: Callable[[str], object] = lambda _: None,
) -> Retention:
    """Archive or redact what is older than a limit; see `EventStore.retain`."""
    if only not in ("conversations", "payloads"):
        raise ValueError(f"only is {only!r}: pass 'conversations' or 'payloads'")
    if not by.strip():
        raise ValueError(f"by is {by!r}: pass the name of a person or a job, such as 'nightly'")
    storage = session.storage
    archives = storage.archives
    if archives is None:
        raise StorageError(f"{storage!r} keeps no archives: open a SQL database")
    choice = _Choice(match, agent, None if subject is None else _about(session, subject))
    run = _Run(session, archives, cutoff(keep, session.now()), choice, f"keep {keep}", by)
    target = None
    if only == "conversations":
        target = _folder(session, folder, form, dry_run=dry_run)
    with nullcontext() if dry_run else archives.exclusive():
        if target is None:
            run.redact(dry_run=dry_run)
        elif dry_run:
            run.count()
        else:
            run.archive(_Archiver(session, archives, target, run.rule, by, progress), batch_events)
    remains = storage.erase() if run.conversations and not dry_run else ()
    return Retention(
        only,
        run.before,
        dry_run,
        run.conversations,
        run.events,
        run.payload_bytes,
        tuple(run.files),
        dict(run.kept),
        tuple(run.unused),
        remains,
    )


def _folder(
    session: LogSession, path: Path | str | None, form: ArchiveForm, *, dry_run: bool
) -> Folder:
    if path is None:
        if not dry_run:
            raise ValueError("folder is None: name the folder that conversations are archived to")
        path = "."
    folder = Path(path)
    if not dry_run and not folder.is_dir():
        raise ValueError(f"folder is {str(folder)!r}, which is not a folder: make it first")
    storage = session.storage
    return Folder(folder, storage.epoch, storage.tenant, form)


def _about(session: LogSession, subject: str) -> frozenset[str]:
    """Return the conversations of the tenant that have a tag of a subject."""
    storage = session.storage
    found = storage.subjects.find(session.digest_of(subject))
    ours = (each for each in found if each.tenant == storage.tenant and each.versions)
    return frozenset(each.conversation_id for each in ours)


class _Choice(msgspec.Struct, frozen=True):
    """Which conversations a run is for, whatever their age."""

    match: str | None
    agent: str | None
    ids: frozenset[str] | None

    def has(self, conversation_id: str) -> bool:
        """Return whether the run is for a conversation, as far as its id says."""
        if self.ids is not None and conversation_id not in self.ids:
            return False
        return self.match is None or fnmatchcase(conversation_id, self.match)


class _Run:
    """One run: what was found and done so far."""

    def __init__(
        self,
        session: LogSession,
        archives: Archives,
        before: int,
        choice: _Choice,
        rule: str,
        by: str,
    ) -> None:
        self._session = session
        self._storage = session.storage
        self._archives = archives
        self._choice = choice
        self._by = by
        self.before = before
        self.rule = rule
        self.conversations = self.events = self.payload_bytes = 0
        self.files: list[str] = []
        self.unused: list[str] = []
        self.kept: Counter[str] = Counter()

    def count(self) -> None:
        """Count what would go."""
        for chosen in self._chosen():
            self._note(chosen.version, chosen.payload_bytes)

    def redact(self, *, dry_run: bool) -> None:
        """Take the payloads out of old events, or count them."""
        for chosen in self._chosen():
            if not chosen.text_bytes:
                continue
            try:
                done = redact(
                    self._session,
                    chosen.conversation_id,
                    by=self._by,
                    whole=True,
                    rule=self.rule,
                    dry_run=dry_run,
                )
            except RedactionRefused as error:
                self.kept[str(error)] += 1
                continue
            if done.versions:
                self._note(len(done.versions), chosen.text_bytes)

    def archive(self, archiver: _Archiver, batch_events: int) -> None:
        """Archive what may go, batch by batch."""
        for chosen, name in archiver.taken_up(self._examined):
            self._note_archived(chosen, name)
        self.unused += archiver.unused
        for batch in _batches(self._chosen(), batch_events):
            left = batch
            while left:
                done, name, changed = archiver.archive(left)
                if done:
                    self._note_archived(done, name)
                    break
                left = [each for each in left if each.conversation_id != changed]
                self.kept["appended to meanwhile"] += 1

    def _note_archived(self, chosen: Sequence[Chosen], name: str) -> None:
        for each in chosen:
            self._note(each.version, each.payload_bytes)
        self.files.append(name)

    def _note(self, events: int, payload_bytes: int) -> None:
        self.conversations += 1
        self.events += events
        self.payload_bytes += payload_bytes

    def _chosen(self) -> Iterator[Chosen]:
        """Yield the conversations that may go, lane by lane."""
        for resting in self._archives.resting():
            name = resting.conversation_id
            if resting.recorded_at >= self.before and resting.tag != "redacted":
                continue
            found = self._examined(name)
            if isinstance(found, Chosen):
                yield found
            elif found not in (YOUNG, NOT_CHOSEN):
                self.kept[found] += 1

    def _examined(self, conversation_id: str) -> Chosen | str:
        if not self._choice.has(conversation_id):
            return NOT_CHOSEN
        return examine(
            self._storage.tenant,
            conversation_id,
            self._storage.lane_of(conversation_id),
            self._archives.rows(conversation_id),
            self.before,
            self._choice.agent,
        )


class _Archiver:
    """Moves batches of conversations to files of a folder."""

    def __init__(
        self,
        session: LogSession,
        archives: Archives,
        folder: Folder,
        rule: str,
        by: str,
        progress: Callable[[str], object],
    ) -> None:
        self._session = session
        self._storage = session.storage
        self._archives = archives
        self._folder = folder
        self._rule = rule
        self._by = by
        self._progress = progress
        self.unused: list[str] = []

    def taken_up(
        self, examined: Callable[[str], Chosen | str]
    ) -> Iterator[tuple[Sequence[Chosen], str]]:
        """Finish what a run that was killed has begun; yield what went, and the file's name."""
        self._folder.remove_unfinished()
        named = {each.place for each in self._archives.list()}
        for path in self._folder.whole_files():
            place = str(path.resolve())
            if place in named:
                continue
            chosen = self._still_there(path, examined)
            if chosen and self._drop(chosen, place) is None:
                yield chosen, place
            else:
                self.unused.append(place)

    def _still_there(self, path: Path, examined: Callable[[str], Chosen | str]) -> Sequence[Chosen]:
        """Return the conversations of a file; none, unless all may go, as they are in the file."""
        chosen: list[Chosen] = []
        try:
            for name, _ in groupby(self._folder.read(path), lambda line: line.conversation_id):
                found = examined(name)
                if not isinstance(found, Chosen):
                    return ()
                chosen.append(found)
            self._check(path, chosen)
        except ValueError:
            return ()
        return chosen if len({each.lane for each in chosen}) == 1 else ()

    def archive(self, batch: Sequence[Chosen]) -> tuple[Sequence[Chosen], str, str | None]:
        """Archive a batch; return it with the file's name, or which conversation has changed."""
        name, new = self._folder.new_file(_day(self._session.now()))
        self._folder.write(new, self._lines(batch), self._archives.permissions())
        self._progress("written")
        try:
            self._check(new, batch)
        except ValueError as error:
            self._folder.remove(new)
            changed = self._changed(batch)
            if changed is not None:
                return (), "", changed
            raise StorageError(
                f"{name} could not be read back as it was written ({error}); nothing was dropped: "
                "look at the disk, and repeat it"
            ) from error
        self._progress("proven")
        self._folder.put_in_place(new, name)
        self._progress("in place")
        changed = self._drop(batch, str(name))
        if changed is not None:
            self._folder.remove(name)
            return (), "", changed
        self._progress("dropped")
        return batch, str(name), None

    def _lines(self, batch: Iterable[Chosen]) -> Iterator[ArchiveLine]:
        for each in batch:
            for row in self._archives.rows(each.conversation_id):
                yield line_of(each.conversation_id, each.lane, row)

    def _check(self, path: Path, batch: Sequence[Chosen]) -> None:
        """Prove that a file has the conversations of a batch, as the log has them.

        Raises:
            ValueError: it has not.
        """
        left = {each.conversation_id: each for each in batch}
        by_name = groupby(self._folder.read(path), lambda line: line.conversation_id)
        for name, lines in by_name:
            expected = left.pop(name, None)
            (last,) = deque(proven(self._storage.tenant, lines), maxlen=1)
            found = last.version, bytes.fromhex(last.archive.digest)
            if expected is None or found != (expected.version, expected.digest):
                raise ValueError(f"conversation {name!r} does not end as it does in the log")
        if left:
            raise ValueError(f"conversation {next(iter(left))!r} is missing")

    def _changed(self, batch: Sequence[Chosen]) -> str | None:
        """Return a conversation that was appended to since it was examined, if one was."""
        now = self._storage.versions([each.conversation_id for each in batch])
        changed = (each for each in batch if now.get(each.conversation_id) != each.version)
        return next((each.conversation_id for each in changed), None)

    def _drop(self, batch: Sequence[Chosen], place: str) -> str | None:
        """Drop what a file has; return the conversation that has changed, if one has."""
        now = self._session.now()
        requests = [self._request(each, place, now) for each in batch]
        try:
            outcomes = self._storage.append(requests)
        except ConversationArchived as error:
            return error.conversation_id
        failed = next((each for each in outcomes if isinstance(each, Exception)), None)
        if failed is None:
            return None
        if isinstance(failed, ChangedMeanwhile):
            return failed.conversation_id
        raise failed

    def _request(self, chosen: Chosen, place: str, now: int) -> Append:
        name, version = chosen.conversation_id, chosen.version
        draft = draft_of(EventsArchived(self._by, version, place, self._rule), now)
        detach = Detach(version, now, place, chosen.payloads)
        return Append(name, version, -1, (), partial(unchanged, name, [draft]), detach, joint=True)


def _batches(chosen: Iterable[Chosen], most: int) -> Iterator[list[Chosen]]:
    """Yield conversations of one lane, with about so many events."""
    for _, some in groupby(chosen, lambda each: each.lane):
        batch: list[Chosen] = []
        events = 0
        for each in some:
            if batch and events + each.version > most:
                yield batch
                batch, events = [], 0
            batch.append(each)
            events += each.version
        if batch:
            yield batch


def _day(now: int) -> str:
    return f"{datetime.fromtimestamp(now / 1_000_000, UTC):%Y-%m-%d}"
