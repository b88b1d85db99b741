"""`.eval` archives of inspect_ai: ZIP files with a JSON document for each sample.

Newer versions pack with Zstandard, which Python's `zipfile` reads from 3.14 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from struct import unpack
from zipfile import BadZipFile, ZipFile, ZipInfo

from eventstore.domain.json_types import JsonValue
from eventstore.importers.json_lines import MAX_FILE_BYTES, decode_noting
from eventstore.importers.problems import Problems, SourceError

SIGNATURE = b"PK\x03\x04"

_ZSTANDARD = 93
"""The number of the method of compression, in ZIP's own list."""
_HEADER = 30
"""Bytes before the name and the extra field, whose lengths are the last two numbers in them."""


class EvalArchive:
    """An archive, read sample by sample; `position` of `size` bytes have been read."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path = path
        self.size = path.stat().st_size
        self.position = 0
        self._problems = problems

    def values(self) -> Iterator[tuple[int, JsonValue]]:
        """Yield the samples; one that cannot be read becomes a problem.

        Raises:
            SourceError: it is not such an archive.
        """
        try:
            with ZipFile(self.path) as archive:
                entries = [each for each in archive.infolist() if _is_sample(each)]
                if "header.json" not in archive.namelist() and not entries:
                    raise SourceError(
                        f"{self.path} is a ZIP archive, and not a log of inspect_ai: unpack it "
                        "first"
                    )
                for number, entry in enumerate(entries, 1):
                    self.position += entry.compress_size
                    yield from self._value(archive, number, entry)
        except BadZipFile as error:
            raise SourceError(
                f"{self.path} is a ZIP archive that is damaged: {error}; copy it again"
            ) from error

    def _value(
        self, archive: ZipFile, number: int, entry: ZipInfo
    ) -> Iterator[tuple[int, JsonValue]]:
        if entry.file_size > MAX_FILE_BYTES:
            self._problems.add(f"{entry.filename} is larger than {MAX_FILE_BYTES:,} bytes")
            return
        try:
            content = self._content(archive, entry)
            yield number, decode_noting(content, self._problems, where=entry.filename)
        except NotImplementedError as error:
            raise SourceError(
                f"{self.path} is packed in a way that Python cannot read ({error}): write it as "
                "JSON with `inspect log convert --to json`"
            ) from error
        except ValueError:
            self._problems.add(f"{entry.filename} is not JSON")

    def _content(self, archive: ZipFile, entry: ZipInfo) -> bytes:
        """Return a file of the archive, unpacked.

        Raises:
            SourceError: it is packed with Zstandard, which nothing installed can read.
        """
        try:
            return archive.read(entry)
        except NotImplementedError:
            if entry.compress_type != _ZSTANDARD:
                raise
        try:
            import zstandard  # as seldom as these archives are
        except ImportError as error:
            raise SourceError(
                f"{self.path} is packed with Zstandard: pip install 'toolledger[cli]'"
            ) from error
        try:
            frames = BytesIO(_packed(self.path, entry))
            with zstandard.ZstdDecompressor().stream_reader(
                frames, read_across_frames=True
            ) as reader:
                return reader.read(entry.file_size)
        except zstandard.ZstdError as error:
            raise BadZipFile(f"{entry.filename}: {error}") from error


def _packed(path: Path, entry: ZipInfo) -> bytes:
    """Return a file of an archive as it is packed."""
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        name, extra = unpack("<HH", file.read(_HEADER)[-4:])
        file.seek(name + extra, 1)
        return file.read(entry.compress_size)


def _is_sample(entry: ZipInfo) -> bool:
    return entry.filename.startswith("samples/") and entry.filename.endswith(".json")
