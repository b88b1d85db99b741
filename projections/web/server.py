"""The server: the application on a socket of this machine, until Ctrl-C."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import uvicorn

from eventstore import EventStore
from projections.web.app import web_app
from projections.web.guard import Guard, hosts_of, new_token

ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - what a user may pass
"""Hosts that no browser can name."""


class Server:
    """A server over a store; `address` is what to open, with the token.

    It answers requests for `host` and `localhost`, and for the names that are allowed. The socket
    listens from the beginning, so that an address that was printed can be opened.

    Raises:
        OSError: the address or the port cannot be had.
    """

    def __init__(
        self, store: EventStore, host: str, port: int, allowed: Sequence[str] = ()
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family)
        port = self._socket.getsockname()[1]
        token = new_token()
        guard = Guard(token, hosts_of([host, "localhost", *allowed], port))
        named = "localhost" if host in ALL_ADDRESSES else host
        shown = f"[{named}]" if ":" in named else named
        self.address = f"http://{shown}:{port}/?token={token}"
        settings = uvicorn.Config(
            web_app(store, guard),
            log_level="warning",
            access_log=False,  # the first address of each visitor holds the token
            server_header=False,
            lifespan="off",
            ws="none",  # no page uses it; "auto" imports what an old version has of it
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(settings)

    def run(self) -> None:
        """Answer requests until Ctrl-C."""
        sys.stdout.flush()
        self._server.run([self._socket])

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
