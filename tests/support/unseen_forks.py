"""Forks that Python's hooks do not see, as a library in C makes them."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

SECONDS = 60
"""How long a child may take."""


def unseen_fork() -> int:
    """Fork past Python's hooks; return the child's id, and 0 in the child.

    A thread that waits for the interpreter's lock asks for it after the switch interval. If one has
    asked in the moment of the fork, the child waits for ever for that thread, which it does not
    have. So no thread asks meanwhile.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10 * SECONDS)
    child: int = ctypes.PyDLL(None).fork()
    if child:
        sys.setswitchinterval(interval)
    return child


def status_of(child: int) -> int:
    """Return the status with which a child ended; kill one that does not end."""
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
        return os.waitpid(child, 0)[1]
    finally:
        os.close(handle)
