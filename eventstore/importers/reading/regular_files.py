"""Which files of a folder are read: regular ones inside of it, of a size that can be read."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG

from eventstore.importers.reading.json_lines import MAX_FILE_BYTES


def fault_of(file: Path, folder: Path, max_bytes: int | None = MAX_FILE_BYTES) -> str | None:
    """Return why a file in a folder is not read; None where it is. It is not opened.

    A link is followed as far as it stays in the folder. Pipes and devices may give data without
    end, or wait for ever.
    """
    try:
        target = file.resolve(strict=True)
        status = target.stat()
    except (OSError, RuntimeError):  # a link in a circle
        return "is a link to nothing"
    if not target.is_relative_to(folder.resolve()):
        return "is a link that leads out of the folder"
    if not S_ISREG(status.st_mode):
        return "is not a regular file"
    if max_bytes is not None and status.st_size > max_bytes:
        return f"is larger than {max_bytes:,} bytes"
    return None
