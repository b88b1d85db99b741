"""`backup`, `export` and `restore`: a store as a copy, or its events as a file, and back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Annotated, TypeAlias

import msgspec
import typer

from eventstore import EventsArchived, EventStore, Recorded
from eventstore.backup import (
    StoredEvent,
    archived_event,
    permissions_of,
    restore_events,
    stored_events,
)
from eventstore.backup import backup as copy_store
from projections.cli.commands.retain import archive_form
from projections.cli.options import (
    URL,
    AnyConversationId,
    Json,
    Url,
    file_name,
    named,
    one_of,
    open_store,
    progress_bar,
)
from projections.cli.output import binary_output, complain, is_terminal, print_json, say, whole_file
from projections.debugging.event_lines import exported_line, read_events
from projections.exports.agent_record import agent_record
from projections.exports.calls_csv import write_calls
from projections.exports.otlp import otlp_trace
from projections.exports.parquet import write_parquet
from projections.formatting import plural

BATCH = 500
"""Events that are appended at once."""

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        parser=file_name,
        help="The file to write. [default: the output]",
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        help="jsonl: every event, lossless; parquet: the events as a table; csv: a line for each "
        "call; otlp: OpenTelemetry traces, a line of JSON for each conversation; agent-record: the "
        "same as records of draft-birkholz-verifiable-agent-conversations.",
    ),
]
Content = Annotated[
    bool, typer.Option("--content", help="Put arguments and results into the traces of otlp.")
]
Copy = Annotated[Path, typer.Argument(metavar="FILE", parser=file_name, help="The file to make.")]


def _regular_file(text: str | Path) -> Path:
    """Return the path that an argument names; a device may give a line without end."""
    path = file_name(text)
    if path.exists() and not path.is_file():
        raise typer.BadParameter(f"{path} is not a regular file: save it as one first")
    return path


Archive = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", parser=_regular_file, help="A file that `export` or `retain` has written."
    ),
]


def export(
    conversation_id: AnyConversationId = None,
    out: Out = None,
    form: Format = "jsonl",
    url: Url = URL,
    *,
    content: Content = False,
    as_json: Json = False,
) -> None:
    """Write the events of a conversation, or of all, to a file; `restore` gives an equal log."""
    one_of(form, tuple(_FORMS), "--format")
    if content and form != "otlp":
        raise typer.BadParameter("only --format otlp leaves it out", param_hint="--content")
    if as_json and out is None:
        raise typer.BadParameter("pass --out too: the events are JSON already", param_hint="--json")
    if form == "parquet" and out is None and is_terminal():
        raise typer.BadParameter("pass --out: a terminal cannot show it", param_hint="--format")
    with open_store(url) as store:
        chosen = None if conversation_id is None else named(store, conversation_id).id
        unit, write = _FORMS[form]
        log = _Log(store, chosen, content=content)
        if out is None and write is _write_lines:  # a file appears as a whole, or not at all
            deque(_lines(log), maxlen=0)
        with _output(out, store.url, is_json=form in _JSON_FORMS) as file:
            count = write(file, log)
    if out is None:
        return
    if as_json:
        print_json({"file": str(out), f"{unit}s": count})
    else:
        say(f"{out}: {plural(count, unit)}")


def restore(path: Archive, url: Url = URL, *, as_json: Json = False) -> None:
    """Append the events of an export to a store, with their ids, versions and times.

    A conversation that the store has already must begin with the same events: only what follows is
    appended, so that an interrupted restore continues. What was damaged, redacted, or written by a
    newer version is restored as it was. The status is 1 where a redaction in the file is not whole:
    a marker without its record, or a record without its marker.

    Of an archive of `retain`, what was archived from this very store comes back to its places, with
    the digests that it had.
    """
    form = archive_form(path)
    with open_store(url, create=True) as store, progress_bar("restoring") as show:
        back = 0 if form is None else store.restore(path, form=form).events
        restored = _Restore(store, path)
        events = read_events(path) if form is None else map(archived_event, form.read(path))
        for done, batch in enumerate(_batches(events)):
            restored.add(batch)
            show(done, done + 1)
        damage = restored.damage()
    added, skipped = restored.added, restored.skipped - back
    if as_json:
        from_archive = {"back_from_archive": back} if back else {}
        print_json({"added": added, "there_already": skipped, **from_archive})
    elif back:
        say(f"{plural(back, 'event')} back from the archive, proven to be the same")
    if not as_json and (added or skipped or not back):
        say(f"{plural(added, 'event')} added, {skipped:,} there already")
    if damage:
        complain(f"{path}: what it says of redactions or archives is not whole: {damage}")
        raise typer.Exit(1)


def backup(path: Copy, url: Url = URL, *, as_json: Json = False) -> None:
    """Copy a SQLite store to a new file while others write to it."""
    with progress_bar("copying") as show:
        copy_store(url, path, show)
    size = path.stat().st_size
    if as_json:
        print_json({"file": str(path), "bytes": size})
    else:
        say(f"{path}: {size:,} bytes; check them with `toolledger verify --url sqlite:///{path}`")


class _Log(msgspec.Struct, frozen=True):
    """What is exported: a store, or one conversation of it."""

    store: EventStore
    conversation_id: str | None
    content: bool

    def events(self) -> Iterable[Recorded]:
        """Return the events, in the order of the store."""
        if self.conversation_id is None:
            return self.store.read()
        return self.store.conversation(self.conversation_id).events()

    def stored_events(self) -> Iterator[StoredEvent]:
        """Yield the events with all that is stored of them."""
        return stored_events(self.store, self.conversation_id)

    def conversations(self) -> Iterator[Iterable[Recorded]]:
        """Yield the events of each conversation."""
        if self.conversation_id is not None:
            yield self.events()
            return
        for name, _ in self.store.conversations():
            yield self.store.conversation(name).events()


class _Restore:
    """What a store has of each conversation, and what was added to it."""

    def __init__(self, store: EventStore, path: Path) -> None:
        self.added = 0
        self.skipped = 0
        self._store = store
        self._path = path
        self._known: dict[str, list[str]] = {}
        self._to_verify: set[str] = set()

    def add(self, batch: list[StoredEvent]) -> None:
        """Append a batch of one conversation, but for what is there already.

        Raises:
            ValueError: the store has other events of that conversation, or events are missing.
        """
        name = batch[0].recorded.conversation_id
        known = self._known.get(name)
        if known is None:
            events = self._store.conversation(name).events()
            known = self._known[name] = [recorded.event_id for recorded in events]
        new = [each for each in batch if not self._is_there(each.recorded, known)]
        if not new:
            return
        for version, each in enumerate(new, len(known) + 1):
            if each.recorded.version != version:
                raise ValueError(
                    f"{self._path}: conversation {name!r} continues at version "
                    f"{each.recorded.version}, and the store has {version - 1} of its events: "
                    "export it from its beginning"
                )
        restore_events(self._store, new)
        known += [each.recorded.event_id for each in new]
        self.added += len(new)
        if any(each.needs_another for each in new):
            self._to_verify.add(name)

    def damage(self) -> str | None:
        """Return what `verify` finds in conversations whose records or markers were added."""
        if not self._to_verify:
            return None
        found = [each for each in self._store.verify() if each.conversation_id in self._to_verify]
        if not found:
            return None
        first, more = found[0], f", and {len(found) - 1:,} more" if len(found) > 1 else ""
        return (
            f"conversation {first.conversation_id!r} version {first.version}: {first.problem}"
            f"{more}; it was stored so: see `toolledger verify`"
        )

    def _is_there(self, recorded: Recorded, known: list[str]) -> bool:
        if recorded.version > len(known):
            return False
        if known[recorded.version - 1] != recorded.event_id:
            raise ValueError(
                f"{self._path}: the store has another event at version {recorded.version} of "
                f"conversation {recorded.conversation_id!r}: restore to a store without it"
            )
        self.skipped += 1
        return True


def _batches(events: Iterable[StoredEvent]) -> Iterator[list[StoredEvent]]:
    """Yield events that follow one another in one conversation."""
    for _, run in groupby(events, lambda each: each.recorded.conversation_id):
        while batch := list(islice(run, BATCH)):
            yield batch


@contextmanager
def _output(path: Path | None, url: str, *, is_json: bool) -> Generator[IO[bytes], None, None]:
    """Give the file to write, which is there as a whole at the end, or the standard output."""
    if path is None:
        output = binary_output(is_json=is_json)
        yield output
        output.flush()
        return
    if path.exists():
        raise ValueError(f"{path} exists: pass another --out")
    with whole_file(path, permissions_of(url)) as file:
        yield file


def _write_lines(file: IO[bytes], log: _Log) -> int:
    count = 0
    for line in _lines(log):
        file.write(line + b"\n")
        count += 1
    return count


def _lines(log: _Log) -> Iterator[bytes]:
    """Yield the line of each event.

    Raises:
        ValueError: an event is missing, or so damaged that no line can hold it.
    """
    versions: dict[str, int] = {}
    archived = 0
    for event in log.stored_events():
        name, version = event.recorded.conversation_id, event.recorded.version
        before = versions.get(name, 0)
        if not before and isinstance(event.recorded.event, EventsArchived):
            archived += 1  # all that is left of it
            continue
        if version != before + 1:
            raise ValueError(
                f"version {version} of conversation {name!r} follows version {before}, so that no "
                "export could be restored: see `toolledger verify`, and copy the database itself"
            )
        versions[name] = version
        yield exported_line(event)
    if archived:
        complain(f"note: {plural(archived, 'conversation')} left out: their events are in archives")


def _write_table(file: IO[bytes], log: _Log) -> int:
    return write_parquet(file, log.events())


def _write_calls(file: IO[bytes], log: _Log) -> int:
    return write_calls(file, log.events())


def _write_traces(file: IO[bytes], log: _Log) -> int:
    count = 0
    for events in log.conversations():
        file.write(msgspec.json.encode(otlp_trace(events, content=log.content)) + b"\n")
        count += 1
    return count


def _write_records(file: IO[bytes], log: _Log) -> int:
    count = 0
    for events in log.conversations():
        file.write(msgspec.json.encode(agent_record(events)) + b"\n")
        count += 1
    return count


_Write: TypeAlias = Callable[[IO[bytes], _Log], int]
_FORMS: dict[str, tuple[str, _Write]] = {
    "jsonl": ("event", _write_lines),
    "csv": ("call", _write_calls),
    "otlp": ("trace", _write_traces),
    "parquet": ("event", _write_table),
    "agent-record": ("record", _write_records),
}
"""For each form: what it counts, and how it is written."""

_JSON_FORMS = ("jsonl", "otlp", "agent-record")
