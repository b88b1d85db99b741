"""The files of a session without being read as JSON: what stands beside, and what bytes tell."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import Final

import msgspec

from eventstore.importers.reading.regular_files import fault_of

HEAD_BYTES: Final = 16 * 1024
"""Bytes at the beginning of a file in which its ids and its folder are looked for."""

MAX_COUNTED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of a session in which calls are counted."""

_CHUNK_BYTES: Final = 1024 * 1024
_LONGEST_MATCH: Final = 1024
_FOLDER: Final = re.compile(rb'"(?:cwd|workspaceDirectory)": ?("(?:[^"\\]|\\.){1,4096}")')


def beside(path: Path, patterns: Iterable[str]) -> Iterator[Path]:
    """Yield the files beside a session that fit patterns, `{id}` for the stem of its name.

    A pattern may begin with `../`. No link is followed out of the folder where it begins.
    """
    stem = path.name.partition(".")[0]
    for pattern in patterns:
        above, own = path.parent, pattern
        while own.startswith("../"):
            above, own = above.parent, own.removeprefix("../")
        fixed = own.partition("*")[0].rpartition("/")[0] if "*" in own else own
        if not os.path.lexists(f"{above}/{fixed.replace('{id}', stem)}"):
            continue  # most often so, and soon seen
        for each in sorted(above.glob(own.replace("{id}", escape(stem)))):
            if fault_of(each, above, None) is None:
                yield each


def head_of(path: Path) -> bytes:
    """Return the beginning of a file.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def text_at(expression: str, head: bytes) -> str | None:
    """Return what the first group of an expression finds; None without an expression."""
    found = _compiled(expression).search(head) if expression else None
    return found[1].decode("utf-8", "replace") if found and found[1] else None


def folder_in(head: bytes) -> str | None:
    """Return the folder in which a session ran, where the beginning of its file says so."""
    found = _FOLDER.search(head)
    try:
        return msgspec.json.decode(found[1], type=str) if found else None
    except ValueError:  # not UTF-8
        return None


def calls_in(
    files: Iterable[Path], expression: str, most: int = MAX_COUNTED_BYTES
) -> tuple[int, bool]:
    """Return the number of calls in the first bytes of files, and whether that was all of them.

    Raises:
        OSError: one cannot be read.
    """
    pattern = _compiled(expression)
    ids: set[bytes] = set()
    without_id = 0
    for file in files:
        for chunk, end in _chunks(file, most):
            for found in pattern.finditer(chunk):
                if found.start() >= end:
                    break  # the next chunk begins with it
                if pattern.groups and found[1] is not None:
                    ids.add(found[1])
                else:
                    without_id += 1
        most -= file.stat().st_size
        if most < 0:
            return len(ids) + without_id, False
    return len(ids) + without_id, True


def _chunks(file: Path, most: int) -> Iterator[tuple[bytes, int]]:
    """Yield the chunks of a file, and where in each the next begins."""
    rest = b""
    with file.open("rb") as opened:
        while more := opened.read(max(min(_CHUNK_BYTES, most), 0)):
            most -= len(more)
            chunk = rest + more
            end = max(len(chunk) - _LONGEST_MATCH, 0)
            yield chunk, end
            rest = chunk[end:]
        yield rest, len(rest)


@lru_cache(maxsize=64)
def _compiled(expression: str) -> re.Pattern[bytes]:
    return re.compile(expression.encode())
