"""Children that a test forks, and whether they succeeded."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable


def fork(job: Callable[[], object]) -> int:
    """Run the job in a child, whose status is 0 if the job succeeded.

    A child that does not end is killed, and has not succeeded; an error is printed. It is not
    traced: the tracer of coverage has a lock, which another thread may hold while the process
    forks, and the child would wait for it forever.
    """
    tracer = sys.gettrace()
    sys.settrace(None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child:
        sys.settrace(tracer)
        return child
    signal.alarm(600)
    status = 1
    try:
        job()
        status = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(status)


def succeeded(*children: int) -> bool:
    """Return whether all children succeeded."""
    return all(os.waitpid(child, 0)[1] == 0 for child in children)
