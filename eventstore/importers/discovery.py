"""The sessions that programs have left on this machine, found at their usual places.

1. Finding reads names, times and sizes, and of some programs the beginning of each file.
2. Calls are counted for those that are shown, in the bytes of their files: `described`.
3. The files of a session are its own, those of its resumptions, and those of its sub-agents.
4. What cannot be read is a problem in a list; nothing here raises for a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from eventstore.domain.credentials import without_credentials
from eventstore.importers.databases import opened
from eventstore.importers.file_import import ImportedFile, Watch, import_files
from eventstore.importers.formats import DATABASE_FORMATS, KNOWN_FORMATS
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.places import Place, PlacedFile, files_at, places_of
from eventstore.importers.reading.problems import Problems, SourceError
from eventstore.importers.reading.regular_files import fault_of
from eventstore.importers.reading.session_files import (
    beside,
    calls_in,
    folder_in,
    head_of,
    text_at,
)
from eventstore.importers.reading.times import time_of

if TYPE_CHECKING:
    from eventstore.store import EventStore

MAX_NAMED: Final = 5
"""Sessions that an error names."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)
_HASH: Final = re.compile(r"[0-9a-f]{16,}")


class Searched(Protocol):
    """A format whose sessions are looked for: `about.places` says where."""

    name: str
    about: About


class UnknownSession(ValueError):
    """No session, or more than one, has the name."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session that a program has left on this machine.

    `time` is when it last changed, in microseconds since 1970 UTC. `size` is that of its files in
    bytes, None in a database with others. `described` adds the `project` and the `calls`, which
    are None where they cannot be counted, and fewer than there are with `has_more_calls`.
    """

    program: str
    id: str
    files: tuple[str, ...]
    time: int
    size: int | None
    project: str = ""
    calls: int | None = None
    has_more_calls: bool = False
    is_stored: bool = False

    @property
    def name(self) -> str:
        """What a person calls it: `claude-code:4f1c…`."""
        return f"{self.program}:{self.id}"


class Discovered(msgspec.Struct, frozen=True):
    """The sessions that were found, newest first, and what could not be looked into."""

    sessions: list[Session]
    problems: list[str]
    problem_count: int = 0

    def named(self, name: str) -> Session:
        """Return the session with a name: `PROGRAM:ID`, `ID`, how one begins, or `latest`.

        Raises:
            UnknownSession: no session has the name, or several have it.
        """
        program, has_program, wanted = name.partition(":")
        if not has_program or program not in programs():
            program, wanted = "", name
        pool = [each for each in self.sessions if program in ("", each.program)]
        if wanted == "latest" and pool:
            return pool[0]
        found = [each for each in pool if each.id == wanted]
        found = found or [each for each in pool if wanted and each.id.startswith(wanted)]
        if len(found) == 1:
            return found[0]
        if not found:
            whose = f" of {program}" if program else ""
            where = "`toolledger sessions` lists them" if pool else "none was found at all"
            shown = "" if wanted == "latest" else f" {name!r}"
            raise UnknownSession(f"there is no session{shown}{whose}: {where}")
        names = ", ".join(each.name for each in found[:MAX_NAMED])
        names += ", …" if len(found) > MAX_NAMED else ""
        raise UnknownSession(
            f"{len(found):,} sessions begin with {name!r}: pass more of the id: {names}"
        )


def programs() -> tuple[str, ...]:
    """Return the names of the programs whose sessions are looked for."""
    return tuple(dict.fromkeys(_program_of(each) for each in _FORMATS if each.about.places))


def discover(
    root: str | Path | None = None, *, environment: Mapping[str, str] | None = None
) -> Discovered:
    """Return the sessions of all known programs on this machine, newest first.

    `root` stands for the home folder, as in a copy of one: the environment names no folder then,
    and no link may lead out of it. `environment` is that of the process unless it is given.
    """
    problems = Problems()
    home = Path.home() if root is None else Path(root).absolute()
    variables: Mapping[str, str] = os.environ if root is None else {}
    variables = variables if environment is None else environment
    within, here = (None, Path.cwd()) if root is None else (home, None)
    found: list[_Found] = []
    for each in _FORMATS:
        sessions_of = _stored if each.about.listing.rows else _in_files
        seen: set[tuple[int, int]] = set()
        for place in _places_of(each.about, home, variables, here):
            for file in files_at(place, problems, within):
                if file.inode not in seen:
                    seen.add(file.inode)
                    found += sessions_of(each, file, problems)
    sessions = sorted(_joined(found), key=lambda each: (-each.time, each.name))
    return Discovered(sessions, [str(each) for each in problems.kept], problems.count)


def _places_of(
    about: About, home: Path, environment: Mapping[str, str], here: Path | None
) -> Iterable[Place]:
    """Return the places of a program; one that has two names is given once."""
    places = chain.from_iterable(places_of(each, home, environment, here) for each in about.places)
    return {(os.path.realpath(each.folder), each.names): each for each in places}.values()


def described(session: Session) -> Session:
    """Return a session with its project, and the number of its calls."""
    listing = _listing_of(session)
    if session.is_stored:
        return msgspec.structs.replace(session, calls=_stored_calls(session, listing))
    files = _all_files(session, listing)
    calls, is_whole = _calls_of(files, listing.call)
    return msgspec.structs.replace(
        session,
        files=tuple(map(str, files)),
        size=sum(map(_size, files)),
        project=_project_of(session),
        calls=calls,
        has_more_calls=not is_whole,
    )


def files_of(session: Session) -> list[str]:
    """Return the files of a session, with those of its sub-agents, in the order to read them."""
    return [*map(str, _all_files(session, _listing_of(session)))]


def import_sessions(
    store: EventStore,
    sessions: Iterable[Session],
    *,
    error_pattern: str | re.Pattern[str] | None = None,
    jobs: int = 1,
    watch: Watch | None = None,
) -> Iterator[ImportedFile]:
    """Import sessions with those of their sub-agents; yield what was done with each file.

    A session that was imported before adds what it has grown by. See `import_files`.
    """
    given: dict[str, None] = {}
    only: dict[str, list[str]] = {}
    for each in sessions:
        given |= dict.fromkeys(files_of(each))
        if each.is_stored:
            for file in each.files:
                only.setdefault(file, []).append(each.id)
    yield from import_files(
        store, map(Path, given), error_pattern=error_pattern, jobs=jobs, watch=watch, only=only
    )


_FORMATS: Final[tuple[Searched, ...]] = (*KNOWN_FORMATS, *DATABASE_FORMATS)


def _program_of(form: Searched) -> str:
    return form.about.listing.program or form.name


def _listing_of(session: Session) -> Listing:
    for each in _FORMATS:
        listing = each.about.listing
        if _program_of(each) == session.program and bool(listing.rows) == session.is_stored:
            return listing
    return Listing()


class _Found(msgspec.Struct, frozen=True):
    """A session as one file tells it; `parent` is the session whose sub-agent wrote it."""

    session: Session
    parent: str | None = None


def _in_files(form: Searched, file: PlacedFile, problems: Problems) -> Iterator[_Found]:
    listing, own_id, parent = form.about.listing, _id_in_name(file), None
    if not file.size:
        return
    if (listing.id or listing.parent) and not file.is_folder:
        try:
            head = head_of(file.path)
        except OSError as error:
            problems.add(f"{file.path} cannot be read ({error.strerror})")
            return
        own_id = text_at(listing.id, head) or own_id
        parent = text_at(listing.parent, head)
    session = Session(
        program=_program_of(form),
        id=own_id,
        files=(str(file.path),),
        time=file.modified,
        size=file.size,
        project=_folder_name(file),
    )
    yield _Found(session, parent if parent != own_id else None)


def _stored(form: Searched, file: PlacedFile, problems: Problems) -> Iterator[_Found]:
    listing = form.about.listing
    try:
        with opened(file.path) as database:
            for own_id, changed, project in database.execute(listing.rows):
                yield _Found(
                    Session(
                        program=_program_of(form),
                        id=str(own_id),
                        files=(str(file.path),),
                        time=time_of(changed) or file.modified,
                        size=None,
                        project=without_credentials(str(project or "")),
                        is_stored=True,
                    )
                )
    except (SourceError, OSError) as error:
        problems.add(str(error))


def _stored_calls(session: Session, listing: Listing) -> int | None:
    counts: list[int] = []
    try:
        for file in session.files if listing.row_calls else ():
            with opened(Path(file)) as database:
                counts += database.execute(listing.row_calls, (session.id,)).fetchone()
    except (SourceError, OSError):
        return None
    return sum(counts) if counts else None


def _joined(found: Iterable[_Found]) -> Iterator[Session]:
    """Yield the sessions: the files of one id are one, and so are those of its sub-agents."""
    mains: dict[str, list[Session]] = {}
    sides: list[_Found] = []
    for each in found:
        if each.parent is None:
            mains.setdefault(each.session.name, []).append(each.session)
        else:
            sides.append(each)
    parents = {each.session.name: f"{each.session.program}:{each.parent}" for each in sides}
    for each in sides:
        parent = parents[each.session.name]
        passed = {each.session.name}
        while parent in parents and parent not in mains and parent not in passed:
            passed.add(parent)
            parent = parents[parent]  # a sub-agent of a sub-agent
        mains.setdefault(parent if parent in mains else each.session.name, []).append(each.session)
    for first, *others in mains.values():
        if not others:
            yield first
            continue
        own = sorted((first, *others), key=lambda each: (each.id != first.id, each.files))
        yield msgspec.structs.replace(
            first,
            files=tuple(file for each in own for file in each.files),
            time=max(each.time for each in own),
            size=None if first.is_stored else sum(each.size or 0 for each in own),
        )


def _id_in_name(file: PlacedFile) -> str:
    """Return the id in a name: the UUID at its end if it has one, else what the last star is."""
    named = file.stars[-1] if file.stars else file.path.stem
    found = _UUID.search(named)
    return found[0] if found else named


def _folder_name(file: PlacedFile) -> str:
    """Return the folder of a project by its name, in which a program may write `-` for `/`."""
    name = file.stars[-2] if len(file.stars) > 1 else ""
    if name.isdigit() or _HASH.fullmatch(name):  # of a date, or made of the folder
        return ""
    return name.replace("-", "/") if name.startswith("-") else name


def _all_files(session: Session, listing: Listing) -> list[Path]:
    found: dict[Path, None] = {}
    for path in map(Path, session.files):
        found |= dict.fromkeys((path, *beside(path, listing.sub_agents)))
    return [*found]


def _size(path: Path) -> int:
    try:
        if path.is_dir():
            return sum(each.lstat().st_size for each in path.iterdir())
        return path.stat().st_size
    except OSError:
        return 0


def _project_of(session: Session) -> str:
    """Return the folder that the file names at its beginning, else what its own folder says."""
    path = Path(session.files[0])
    try:
        named = None if path.is_dir() else folder_in(head_of(path))
    except OSError:
        named = None
    return without_credentials(named or session.project)


def _calls_of(files: Iterable[Path], expression: str) -> tuple[int | None, bool]:
    """Return the number of calls in files, None where it is not known, and whether it is all."""
    if not expression:
        return None, True
    try:
        return calls_in(chain.from_iterable(map(_texts, files)), expression)
    except OSError:
        return None, True


def _texts(path: Path) -> list[Path]:
    """Return the file itself, or of a folder the regular files in it."""
    if not path.is_dir():
        return [path]
    return [each for each in sorted(path.iterdir()) if fault_of(each, path) is None]
