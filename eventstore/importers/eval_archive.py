"""`.eval` archives of inspect_ai: ZIP files with a JSON document for each sample."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

from eventstore.importers.json_lines import MAX_FILE_BYTES, decode
from eventstore.importers.problems import Problems, SourceError

SIGNATURE = b"PK\x03\x04"


class EvalArchive:
    """An archive, read sample by sample; `position` of `size` bytes have been read."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path = path
        self.size = path.stat().st_size
        self.position = 0
        self._problems = problems

    def values(self) -> Iterator[tuple[int, object]]:
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
            raise SourceError(f"{self.path} is a ZIP archive that is damaged: {error}") from error

    def _value(self, archive: ZipFile, number: int, entry: ZipInfo) -> Iterator[tuple[int, object]]:
        if entry.file_size > MAX_FILE_BYTES:
            self._problems.add(f"{entry.filename} is larger than {MAX_FILE_BYTES:,} bytes")
            return
        try:
            yield number, decode(archive.read(entry))
        except NotImplementedError as error:
            raise SourceError(
                f"{self.path} is packed in a way that Python cannot read ({error}): write it as "
                "JSON with `inspect log convert --to json`"
            ) from error
        except ValueError:
            self._problems.add(f"{entry.filename} is not JSON")


def _is_sample(entry: ZipInfo) -> bool:
    return entry.filename.startswith("samples/") and entry.filename.endswith(".json")
