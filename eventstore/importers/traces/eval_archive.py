"""`.eval` archives of inspect_ai: ZIP files with a JSON document for each sample.

1. Newer versions pack with Zstandard, which Python's `zipfile` reads from 3.14 on.
2. A sample that cannot be unpacked holds up no other: the archive is refused at its end, by name.
3. A sample unpacks to so many times its own size at most: what a small file makes is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from struct import unpack
from zipfile import ZipFile, ZipInfo

from eventstore.domain.json_types import JsonValue
from eventstore.domain.one_line import one_line
from eventstore.importers.reading.json_lines import MAX_FILE_BYTES, decode_noting
from eventstore.importers.reading.problems import Problems, SourceError

SIGNATURE = b"PK\x03\x04"

MAX_RATIO = 200
"""Bytes to which a byte of an archive may unpack, more than logs of conversations do."""
ALWAYS_BYTES = 1024 * 1024
"""A sample may always have so many bytes."""

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
        self._damaged: list[str] = []

    def values(self) -> Iterator[tuple[int, JsonValue]]:
        """Yield the samples; one that is not JSON, or too large, becomes a problem.

        Raises:
            SourceError: it is not such an archive, or a sample could not be unpacked.
        """
        try:
            with ZipFile(self.path) as archive:
                for number, entry in enumerate(self._samples(archive), 1):
                    self.position += entry.compress_size
                    yield from self._value(archive, number, entry)
        except SourceError:
            raise
        except Exception as error:
            said = one_line(f"{type(error).__name__}: {error}", 100)
            raise SourceError(
                f"{self.path} is a ZIP archive that is damaged ({said}): copy it again"
            ) from error
        if self._damaged:
            raise SourceError(
                f"{self.path} is a ZIP archive that is damaged: {', '.join(self._damaged[:3])}; "
                "copy it again"
            )

    def _samples(self, archive: ZipFile) -> list[ZipInfo]:
        entries = [each for each in archive.infolist() if _is_sample(each)]
        if "header.json" not in archive.namelist() and not entries:
            raise SourceError(
                f"{self.path} is a ZIP archive, and not a log of inspect_ai: unpack it first"
            )
        return entries

    def _value(
        self, archive: ZipFile, number: int, entry: ZipInfo
    ) -> Iterator[tuple[int, JsonValue]]:
        limit = min(MAX_FILE_BYTES, max(ALWAYS_BYTES, MAX_RATIO * entry.compress_size))
        if entry.file_size > limit:
            self._problems.add(
                f"{entry.filename} has {entry.file_size:,} bytes, and {entry.compress_size:,} "
                f"where it is packed: {limit:,} are read at most"
            )
            return
        try:
            content = self._content(archive, entry)
        except SourceError:
            raise
        except NotImplementedError as error:
            raise SourceError(
                f"{self.path} is packed in a way that Python cannot read ({error}): write it as "
                "JSON with `inspect log convert --to json`"
            ) from error
        except Exception as error:  # noqa: BLE001 - each method of packing has errors of its own
            said = one_line(f"{type(error).__name__}: {error}", 100)
            self._damaged.append(f"{entry.filename} ({said})")
            return
        try:
            yield number, decode_noting(content, self._problems, where=entry.filename)
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
        frames = BytesIO(_packed(self.path, entry))
        with zstandard.ZstdDecompressor().stream_reader(frames, read_across_frames=True) as reader:
            return reader.read(entry.file_size)


def _packed(path: Path, entry: ZipInfo) -> bytes:
    """Return a file of an archive as it is packed."""
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        name, extra = unpack("<HH", file.read(_HEADER)[-4:])
        file.seek(name + extra, 1)
        return file.read(entry.compress_size)


def _is_sample(entry: ZipInfo) -> bool:
    return entry.filename.startswith("samples/") and entry.filename.endswith(".json")
