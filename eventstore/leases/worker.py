"""The process as a worker: its name in the log, and whether the process of a name has ended.

1. A name stands for one process: the machine's boot, the namespaces of the process, its id and the
   time of its start. Names of other machines and of other boots are never equal.
2. A process has ended only where its own machine says so: no process of its namespace has the id,
   or one that began at another time. Of every other machine nothing is known.
3. Where the system does not tell all of this (it is not Linux, or hides `/proc`), the name is one
   of chance: that its process has ended cannot be known.

A machine that was cloned while it ran counts as the same boot; see `docs/several-workers.md`.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

_ENDED = ("Z", "X")  # a process that waits for its parent, or is gone

_name: tuple[int, str] = (0, "")
"""The id of this process, and its name; a forked child makes its own."""


def this_worker() -> str:
    """Return the name of this process."""
    global _name  # noqa: PLW0603 - a value of the process, and no other
    pid = os.getpid()
    if _name[0] != pid:
        _name = pid, _name_of(pid) or f"{os.urandom(8).hex()}-{pid}-0"
    return _name[1]


def has_ended(worker: str) -> bool:
    """Return whether the process of a name is known to have ended."""
    machine, _, rest = worker.partition("-")
    pid, _, began = rest.partition("-")
    own, _, _ = this_worker().partition("-")
    if machine != own or not pid.isdecimal() or worker == this_worker():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is another user's
        pass
    stat = _stat(int(pid))
    return stat is not None and (stat[0] in _ENDED or stat[1] != began)


def _name_of(pid: int) -> str | None:
    """Return the name of this process; None if the system does not tell it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        own = Path("/proc/self")
        spaces = [str((own / "ns" / kind).readlink()) for kind in ("pid", "time")]
        is_own = str(own.readlink()) == str(pid)  # otherwise /proc is of another namespace
    except (OSError, ValueError):
        return None
    stat = _stat(pid)
    if not (is_own and boot and stat):
        return None
    machine = blake2b("\n".join([boot, *spaces]).encode(), digest_size=8).hexdigest()
    return f"{machine}-{pid}-{stat[1]}"


def _stat(pid: int) -> tuple[str, str] | None:
    """Return the state of a process and the time of its start, as the kernel counts it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()
        return fields[0], fields[19]
    except (OSError, ValueError, IndexError):
        return None
