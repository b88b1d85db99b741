"""The files at the places where programs keep their sessions; none is opened.

A link is followed as far as it stays below the place, or below the folder that is searched alone.
What cannot be looked into is a problem, and holds up nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from stat import S_ISDIR, S_ISREG

import msgspec

from eventstore.importers.reading.about import PLACES
from eventstore.importers.reading.problems import Problems


class Place(msgspec.Struct, frozen=True):
    """A folder, and the names below it, perhaps with `*`; the last is that of a file."""

    folder: Path
    names: tuple[str, ...]


class PlacedFile(msgspec.Struct, frozen=True):
    """A file at a place, or a folder that the place names; `stars` is what the `*` stand for.

    `inode` is the same for a file that links give several names.
    """

    path: Path
    stars: tuple[str, ...]
    modified: int
    size: int
    inode: tuple[int, int]
    is_folder: bool


def places_of(
    pattern: str, home: Path, environment: Mapping[str, str], here: Path | None = None
) -> Iterator[Place]:
    """Yield the places that a pattern of `About.places` names in a home and an environment.

    `here` is the folder that the search runs in, where that may be looked at.
    """
    for name, folders in PLACES.items():
        if pattern.startswith(mark := f"{{{name}}}"):
            for folder in folders:
                yield from places_of(pattern.replace(mark, folder, 1), home, environment, here)
            return
    first, *rest = pattern.split("/", 1)
    names = PurePath(*rest).parts
    start = {"~": home, ".": here}.get(first) or Path(environment.get(first[1:], ""))
    if not start.is_absolute() or not names:  # a variable that is not set
        return
    fixed = 0
    while fixed < len(names) - 1 and "*" not in names[fixed]:
        fixed += 1
    yield Place(start.joinpath(*names[:fixed]), tuple(names[fixed:]))


def files_at(place: Place, problems: Problems, within: Path | None = None) -> Iterator[PlacedFile]:
    """Yield the files at a place; `within` is the folder out of which no link may lead."""
    try:
        folder = place.folder.resolve(strict=True)
        if within is not None and not folder.is_relative_to(within.resolve()):
            problems.add(f"{place.folder} is a link that leads out of {within}")
        elif folder.is_dir():
            yield from _below(place.folder, place.names, (), within or folder, problems)
    except FileNotFoundError:
        return  # the program is not there
    except RuntimeError:  # a link in a circle, before Python 3.13
        problems.add(f"{place.folder} is a link to nothing")
    except OSError as error:
        problems.add(_unreadable(place.folder, error))


def _below(
    folder: Path,
    names: tuple[str, ...],
    stars: tuple[str, ...],
    within: Path,
    problems: Problems,
) -> Iterator[PlacedFile]:
    name, *more = names
    for path, star in _named(folder, name, problems):
        try:
            if path.is_symlink() and (fault := _fault_of_link(path, within)):
                problems.add(f"{path} {fault}")
                continue
            status = path.stat()
        except OSError as error:  # gone by now
            problems.add(_unreadable(path, error))
            continue
        found = stars if star is None else (*stars, star)
        if more:
            if S_ISDIR(status.st_mode):
                yield from _below(path, tuple(more), found, within, problems)
        elif S_ISREG(status.st_mode) or (S_ISDIR(status.st_mode) and star is None):
            yield PlacedFile(
                path,
                found,
                status.st_mtime_ns // 1000,
                status.st_size,
                (status.st_dev, status.st_ino),
                S_ISDIR(status.st_mode),
            )
        else:
            problems.add(f"{path} is not a regular file")


def _fault_of_link(path: Path, within: Path) -> str | None:
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # a link in a circle
        return "is a link to nothing"
    inside = target.is_relative_to(within.resolve())
    return None if inside else f"is a link that leads out of {within}"


def _named(folder: Path, name: str, problems: Problems) -> Iterator[tuple[Path, str | None]]:
    """Yield what has a name in a folder, with what the star in the name stands for."""
    before, star, rest = name.partition("*")
    after = rest.rpartition("*")[2]
    if not star:
        path = folder / name
        if os.path.lexists(path):
            yield path, None
        return
    least = len(before) + len(after)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                own = entry.name
                is_hidden = own.startswith(".") and not before
                fits = own.startswith(before) and own.endswith(after) and len(own) > least
                if fits and not is_hidden and (after == rest or fnmatchcase(own, name)):
                    yield folder / own, own[len(before) : len(own) - len(after)]
    except OSError as error:
        problems.add(_unreadable(folder, error))


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path} cannot be read ({error.strerror})"
