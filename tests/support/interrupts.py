"""Ctrl-C at chosen moments of a job."""

from __future__ import annotations

import gc
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any


def interrupt(
    job: Callable[[], object],
    *moments: int,
    events: tuple[str, ...] = ("line",),
    within: Path | None = None,
    safe: tuple[str, ...] = (),
) -> int:
    """Run the job with Ctrl-C at its n-th moment, and again m moments later.

    Moments are the `events` of `sys.settrace` in the files below `within`, by default in all
    files, and in this thread alone. A line that begins with one of `safe` is not interrupted: the
    Ctrl-C comes at the next other one. After a Ctrl-C, moments count again from the next call or
    return. Garbage is not collected meanwhile: what a collection calls is no part of the job.
    Return how many of the interrupts came.
    """
    left = list(moments)
    folder = f"{within}/" if within else ""

    def trace(frame: FrameType, event: str, _: object) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(folder):
            return None
        if event in events and left:
            left[0] -= 1
            if left[0] <= 0 and not linecache.getline(name, frame.f_lineno).strip().startswith(
                safe
            ):
                del left[0]
                raise KeyboardInterrupt
        return trace

    def trace_again(caller: FrameType | None, _: str, __: object) -> None:
        if not left or sys.gettrace() is trace:
            return
        while caller is not None and caller.f_code is not interrupt.__code__:
            caller.f_trace = trace
            caller = caller.f_back
        sys.settrace(trace)

    tracer, profiler, collecting = sys.gettrace(), sys.getprofile(), gc.isenabled()
    gc.disable()
    if len(moments) > 1:  # Python ends the tracing when the tracer raises
        sys.setprofile(trace_again)
    sys.settrace(trace)
    try:
        job()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(profiler)
        sys.settrace(tracer)
        if collecting:
            gc.enable()
    return len(moments) - len(left)
