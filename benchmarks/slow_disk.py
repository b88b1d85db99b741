"""A disk on which each sync takes some milliseconds, as cloud disks have it.

On a fast disk a group commit saves little. `slow_disk.c` is a preload that lengthens `fsync` and
`fdatasync`; it is compiled with the system's C compiler, and works on Linux.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SYNC_US = 5_000
"""Microseconds that a sync takes longer, where `--sync` says nothing else."""

SOURCE = Path(__file__).with_suffix(".c")
_ACTIVE = "SLOW_DISK_US"


def is_active() -> bool:
    """Return whether this process waits for each sync."""
    return _ACTIVE in os.environ


def environment(folder: Path, sync: int | None) -> dict[str, str]:
    """Return the environment of a process that waits for each sync; the preload is in `folder`.

    It is empty where there is no C compiler, or no Linux.
    """
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return {}
    library = folder / "slow_disk.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return {"LD_PRELOAD": str(library), _ACTIVE: str(sync or SYNC_US)}


def again(folder: Path, sync: int | None) -> int | None:
    """Run this script again on a slow disk; return its exit code, or None where that cannot be."""
    added = environment(folder, sync)
    if not added:
        sys.stderr.write("no C compiler or no Linux: measured on the disk as it is\n")
        return None
    done = subprocess.run([sys.executable, *sys.argv], check=False, env=os.environ | added)
    return done.returncode
