"""The folders of the tests' own servers: a killed test run leaves nothing for good."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import servers


def test_what_a_killed_run_left_is_swept(tmp_path: Path) -> None:
    """As its lock goes with the process; the folder of a run that lives stays."""
    left, used = (tmp_path / f"{servers.PREFIX}{name}" for name in ("left", "used"))
    for folder in (left, used):
        folder.mkdir()
        (folder / "data").write_bytes(b"pages")
    claim = (
        f"import pathlib, servers; held = servers.claimed(pathlib.Path({str(left)!r}));"
        "print('held', flush=True); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", claim], cwd=Path(servers.__file__).parent,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
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
