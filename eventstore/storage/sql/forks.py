"""Forks of a process with open connections: their owners are told before and after.

1. An owner of connections registers itself. A fork waits until no owner opens one (`no_fork`).
2. Before a fork each owner closes what nothing uses, and keeps others from beginning. Tables come
   before logs: a transaction of theirs may need the log to end.
3. In the child each owner begins anew. What it has inherited is the parent's: it is kept from being
   closed, which would end the parent's session (`leave`).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Protocol

FORK_WAIT_SECONDS = 0.1
"""How long a fork waits for what is under way on a server: longer than a commit takes."""


class ConnectionOwner(Protocol):
    """What has connections that must not be used in two processes."""

    fork_rank: int
    """The owners of a lower rank are asked first."""

    def before_fork(self) -> None:
        """Wait for what is under way, and close the connections where that is possible."""
        ...

    def after_fork_in_parent(self) -> None:
        """Go on."""
        ...

    def after_fork_in_child(self) -> None:
        """Leave the connections to the parent, and open others when they are needed."""
        ...


_inherited: list[Any] = []
_owners: weakref.WeakSet[ConnectionOwner] = weakref.WeakSet()
_registry = threading.RLock()  # held during a fork


def register(owner: ConnectionOwner) -> None:
    """Have an owner told of forks, while it exists."""
    with no_fork():
        _owners.add(owner)


def leave(*inherited: object) -> None:
    """Keep what a child has inherited from being closed."""
    _inherited.extend(inherited)


@contextmanager
def no_fork() -> Generator[None]:
    """Hold forks back while connections are opened that no one owns yet."""
    with _registry:
        yield


def _in_order() -> list[ConnectionOwner]:
    return sorted(_owners, key=lambda owner: owner.fork_rank)


def _before_fork() -> None:
    _registry.acquire()
    for owner in _in_order():
        owner.before_fork()


def _after_fork_in_parent() -> None:
    for owner in _in_order():
        owner.after_fork_in_parent()
    _registry.release()


def _after_fork_in_child() -> None:
    global _registry  # noqa: PLW0603 - the old one may be held by a thread that is not here
    _registry = threading.RLock()
    for owner in _in_order():
        owner.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
