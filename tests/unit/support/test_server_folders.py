"""The folders of the tests' own servers: a killed test run leaves none for good."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from support import servers


def test_the_folders_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    """A killed process loses its lock; the folder of a running process stays."""
    left, used = (tmp_path / f"{servers.PREFIX}{name}" for name in ("left", "used"))
    for folder in (left, used):
        folder.mkdir()
        (folder / "data").write_bytes(b"pages")
    claim = (
        f"import pathlib, servers; held = servers.claimed(pathlib.Path({str(left)!r}));"
        "print('held', flush=True); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", claim],
        cwd=Path(servers.__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with other, servers.claimed(used):
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        servers.sweep(tmp_path)
        assert (left / "data").exists(), "its run lives"
        other.send_signal(signal.SIGKILL)
        other.wait()
        servers.sweep(tmp_path)
        assert not left.exists()
        assert (used / "data").exists()
