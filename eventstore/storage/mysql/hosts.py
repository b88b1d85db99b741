"""Which of several servers the next connection goes to.

1. They are tried as the URL has them; with `load_balance_hosts=random`, libpq's name, in an order
   that is drawn once.
2. One that refuses, is silent, or must not be used now is left for the next one.
3. The one that took the last connection is tried first from then on, so that the connections of a
   process are to one server. When it changes, those to the one before are given up.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from eventstore.storage.urls import servers, shown_address

if TYPE_CHECKING:
    from sqlalchemy import URL

BALANCING = "load_balance_hosts"
DEFAULT_PORT = 3306


class Place(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Hosts:
    """The servers of a URL, the one that is to be tried first before the others."""

    def __init__(self, url: URL) -> None:
        self._places = places(url)
        order = url.query.get(BALANCING, "disable")
        if order not in ("disable", "random"):
            raise ValueError(
                f"{shown_address(url)}: {BALANCING} must be 'disable' or 'random': mend the "
                "options of the URL"
            )
        if order == "random":
            random.shuffle(self._places)
        self.changes = 0
        """How often another server became the first."""

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Place]:
        return iter(tuple(self._places))

    def prefer(self, place: Place) -> None:
        """Try a server first from now on, and the others in the same order after it."""
        at = self._places.index(place)
        if at > 0:
            self._places = [*self._places[at:], *self._places[:at]]
            self.changes += 1

    def leave(self, place: Place) -> None:
        """Try a server last, if it is the first: its connection was lost."""
        if self._places[0] == place:
            self._places = [*self._places[1:], place]
            self.changes += 1


def places(url: URL) -> list[Place]:
    """Return where the servers of a URL listen; none where it names one alone, or a socket.

    Raises:
        ValueError: a server has no name, or there are more ports than servers.
    """
    if url.host or "," not in str(url.query.get("host", "")):
        return []
    found = servers(url)
    if any(not host for host, _ in found):
        raise ValueError(
            f"{shown_address(url)} has a server without a name: write HOST:PORT,HOST:PORT"
        )
    if str(url.query.get("port", "")).count(",") >= len(found):
        raise ValueError(f"{shown_address(url)} has more ports than servers: write one for each")
    return [Place(host, int(port or DEFAULT_PORT)) for host, port in found]
