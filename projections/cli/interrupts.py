"""Ctrl-C that is not lost.

Python drops an exception that is raised in a finalizer or in the callback of a weak reference, and
that is where a long pass of the garbage collector ends: of 300 interrupts of a large import, 20 had
no effect. So an interrupt that was dropped is remembered, and a long loop asks.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_dropped: list[type[BaseException]] = []


@contextmanager
def remembered_interrupts() -> Generator[None, None, None]:
    """Remember the interrupts that Python drops while a command runs, and do not print them."""
    others = sys.unraisablehook

    def remember(unraisable: UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _dropped.append(unraisable.exc_type)
        else:
            others(unraisable)

    _dropped.clear()
    sys.unraisablehook = remember
    try:
        yield
    finally:
        sys.unraisablehook = others


def raise_if_interrupted() -> None:
    """Raise the `KeyboardInterrupt` that Python has dropped since the command began."""
    if _dropped:
        raise KeyboardInterrupt
