"""Importing files: the conversations of other programs into a store.

1. A conversation has the id that its file gives it. What may be one part of several has one of its
   own where the log has another part under that id (`Transcript.part_id`).
2. The conversation of a sub-agent begins with a run that names its parent, and the call there.
3. A call that a person refused is rejected (`is_refusal`).
4. Files are begun in their order, and finish in any order. A part of several, and what may repeat
   another file, waits until the files before are finished: an import of the same files gives the
   same ids, and the same copies.
5. A conversation that is refused holds up no other one, and a file no other file.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from eventstore.domain.credentials import may_be_address
from eventstore.domain.events import RunStarted
from eventstore.errors import EventStoreError, ImportConflict
from eventstore.importers.given_files import files_of, refused_in
from eventstore.importers.progress import FileProgress, ImportProgress
from eventstore.importers.reading.file_format import FileFormat
from eventstore.importers.reading.problems import SourceError
from eventstore.importers.reading.transcript import Transcript, is_refusal
from eventstore.importers.source import Source, read
from eventstore.providers.registry import known_provider

if TYPE_CHECKING:
    import re

    from eventstore.provider_messages.history_import import Imported
    from eventstore.store import EventStore

T = TypeVar("T")

Step: TypeAlias = Callable[[], None]
Watch: TypeAlias = Callable[[FileProgress], AbstractContextManager[Step]]
"""Gives for a file what is called after each of its values that is read, and of its messages."""


class ImportCounts(msgspec.Struct, frozen=True):
    """What an import did with one conversation; see `ImportedFile`."""

    added: int = 0
    skipped: int = 0
    events: int = 0
    calls: int = 0


class ImportedFile(msgspec.Struct):
    """What an import did with one file.

    `ids` are the ids of its `conversations`. `added` messages, as so many `events`; `skipped` ones
    were there already. Together they make so many `calls`. A message that gave no event is not
    counted. `by_id` has the counts of each conversation. `problems` say what could not be read, at
    most a thousand of `problem_count`; `findings` what was wrong in the messages added, and how
    often. `refused` has the errors: of conversations that were not imported, or of a file that
    could not be read.
    """

    path: str
    conversations: int = 0
    added: int = 0
    skipped: int = 0
    events: int = 0
    calls: int = 0
    ids: list[str] = []
    problem_count: int = 0
    problems: list[str] = []
    findings: dict[str, int] = {}
    refused: list[Exception] = []
    by_id: dict[str, ImportCounts] = {}


def import_file(
    store: EventStore,
    path: str | Path,
    *,
    provider: str | FileFormat | None = None,
    name: str | None = None,
    error_pattern: str | re.Pattern[str] | None = None,
) -> ImportedFile:
    """Import the conversations of one file, as `toolledger import` does; see `read`.

    The same file again adds nothing, a file that has grown adds its new messages, and an import
    that was interrupted may be repeated. `name` is the id of the conversation; of several, the
    beginning of their ids. A result whose text matches `error_pattern` is a failure; by default,
    the form of the file says what is one.

    Raises:
        SourceError: the file cannot be read, or holds no conversation.
        ImportConflict: the log has another conversation under the id.
        ForeignForm: the messages are not in the form of `provider`.

    Where a conversation of the file was imported, the errors of others are in `refused`.
    """
    done = _Importing([path], store, provider, name, error_pattern).file(0)
    if done.refused and not done.conversations:
        raise done.refused[0]
    return done


def import_files(
    store: EventStore,
    given: Iterable[str | Path],
    *,
    provider: str | FileFormat | None = None,
    name: str | None = None,
    error_pattern: str | re.Pattern[str] | None = None,
    jobs: int = 1,
    watch: Watch | None = None,
    only: Mapping[str, Iterable[str]] | None = None,
) -> Iterator[ImportedFile]:
    """Import files, folders of them or patterns, `jobs` at a time; yield what was done in order.

    A file that cannot be read holds up no other; its error is in `refused`. So are those of links
    that lead out of a folder, and of what is no regular file in it. `watch` is called with the
    progress of each file, and gives what is called as it is read and as its messages are taken.
    `only` names the conversations of some files that are imported, by the paths, with their
    sub-agents; of other files all are. See `import_file`.
    """
    given = list(given)
    for path, error in chain.from_iterable(map(refused_in, given)):
        yield ImportedFile(str(path), refused=[error])
    files = [*dict.fromkeys(file for each in given for file in files_of(each))]
    importing = _Importing(files, store, provider, name, error_pattern, watch, only)
    numbers = range(len(files))
    if min(len(files), jobs) <= 1:
        yield from map(importing.file, numbers)
        return
    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(importing.file, numbers)
        except BaseException:
            importing.is_stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _Importing:
    """Files on their way into a store, perhaps several at a time."""

    def __init__(
        self,
        files: Sequence[str | Path],
        store: EventStore,
        provider: str | FileFormat | None,
        name: str | None,
        error_pattern: str | re.Pattern[str] | None,
        watch: Watch | None = None,
        only: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self._store = store
        self._form = (provider, name)
        self._error_pattern = error_pattern
        self._watch: Watch = watch or (lambda _: nullcontext(lambda: None))
        self._only = only or {}
        self._files = files
        self._progress = ImportProgress(files)
        self._changed = Condition()
        self._unfinished = OrderedDict.fromkeys(range(len(files)))
        self.is_stopped = False  # then every file ends after its next value or message

    def file(self, number: int) -> ImportedFile:
        """Import a file, and return what was done with it."""
        path = self._files[number]
        done = ImportedFile(_shown(path))
        try:
            self._conversations(number, read(path, *self._form), done)
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a format raises, other files are read
            done.refused.append(error)
        finally:
            with self._changed:
                del self._unfinished[number]
                self._progress.finished += 1
                self._changed.notify_all()
        return done

    def _wait_for_all_before(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: next(iter(self._unfinished)) == number)

    def _conversations(self, number: int, source: Source, done: ImportedFile) -> None:
        only = self._only.get(str(self._files[number]))
        wanted = None if only is None else set(only)
        progress = self._progress.of(source)
        try:
            with self._watch(progress) as watched:
                step = self._stoppable(watched)
                for transcript in source.transcripts(step):
                    if wanted is not None and transcript.id not in wanted:
                        if transcript.parent_id not in wanted:
                            continue
                        wanted.add(transcript.id)
                    if transcript.part_id is not None or transcript.may_repeat:
                        self._wait_for_all_before(number)
                    try:
                        _add(done, self._conversation(transcript, step, progress), transcript.id)
                    except (EventStoreError, TypeError, ValueError) as error:
                        done.refused.append(error)
        finally:
            done.problem_count = source.problem_count
            done.problems = [str(problem) for problem in source.problems]

    def _conversation(self, transcript: Transcript, step: Step, progress: FileProgress) -> Imported:
        try:
            return self._messages(transcript, step, progress)
        except ImportConflict:
            if transcript.part_id is None:
                raise
        transcript.id, transcript.part_id = transcript.part_id, None
        return self._messages(transcript, step, progress)

    def _messages(self, transcript: Transcript, step: Step, progress: FileProgress) -> Imported:
        from eventstore.provider_messages.history_import import (  # loads the providers
            Import,
            ImportSource,
        )

        try:
            chat = self._store.conversation(transcript.id)
        except ValueError as error:
            raise SourceError(f"{error}: give it another id with `name`") from None
        started = None
        if transcript.parent_id is not None:
            started = RunStarted(None, transcript.parent_id, transcript.parent_call_id)
        origin = ImportSource(
            is_rejection=transcript.is_rejection or is_refusal,
            started=started,
            times=transcript.times,
            error_pattern=self._error_pattern or transcript.error_pattern,
            full_text=transcript.full_text,
            find=self._store.read_fingerprint if transcript.may_repeat else None,
        )
        importing = Import(chat.session, chat.id, known_provider(transcript.provider), origin)
        progress.add(importing.done)
        return importing.run(_stepping(transcript.messages, step))

    def _stoppable(self, step: Step) -> Step:
        """Return a step that ends the import of its file, once all are to end."""

        def stop_or_step() -> None:
            if self.is_stopped:
                raise CancelledError
            step()

        return stop_or_step


def _stepping(messages: Iterable[T], step: Step) -> Iterator[T]:
    for message in messages:
        yield message
        step()


def _add(done: ImportedFile, imported: Imported, conversation_id: str) -> None:
    done.conversations += 1
    done.ids.append(conversation_id)
    done.added += imported.added
    done.skipped += imported.skipped
    done.events += imported.events
    done.calls += imported.calls
    done.by_id[conversation_id] = ImportCounts(
        imported.added, imported.skipped, imported.events, imported.calls
    )
    found = Counter(finding.problem for finding in imported.findings)
    done.findings = dict(Counter(done.findings) + found)


def _shown(path: str | Path) -> str:
    """Return the name of a file; an address without its secrets."""
    if not isinstance(path, str) or not may_be_address(path):
        return str(path)
    from eventstore.storage.urls import shown  # loads SQLAlchemy

    return shown(path)
