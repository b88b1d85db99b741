"""A network that fails: a TCP proxy before a database server."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sqlalchemy import make_url

if TYPE_CHECKING:
    from support.servers import Server

Fault = Callable[["Link", bytes], bool]
"""Looks at what a client sends; whether the proxy shall not pass it on any more."""


class Link:
    """The connection of one client, and the proxy's own connection to the server.

    `number` counts the connections of a proxy from 1.
    """

    def __init__(self, client: socket.socket, server: socket.socket, number: int) -> None:
        self.client = client
        self.server = server
        self.number = number
        self.is_silent = False
        """Whether nothing is passed on any more."""

    def cut(self) -> None:
        """Close both ends."""
        for end in (self.client, self.server):
            hang_up(end)


def hang_up(end: socket.socket) -> None:
    """Close one end, also while a thread waits for it."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


class Proxy:
    """A proxy that passes everything on, except for one fault on request."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._to = address
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._links: list[Link] = []
        self._fault: Fault | None = None
        self.refusing = False
        self.is_silent = False
        """Whether it takes connections and messages, and passes nothing on: a suspended machine."""
        self.refused = threading.Event()
        """Whether a connection was refused."""
        self.accepted = 0
        """How many connections were passed on."""
        self.faults = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def strike(self, fault: Fault) -> None:
        """Let the fault happen once, to the first message that it accepts."""
        self._fault = fault

    def cut(self, besides: Link | None = None) -> None:
        """Cut every connection except for one."""
        links, self._links = self._links, [besides] if besides else []
        for link in links:
            if link is not besides:
                link.cut()

    def silence(self) -> None:
        """Pass nothing more on of the connections that there are; new ones are as usual."""
        for link in self._links:
            link.is_silent = True

    def close(self) -> None:
        """Cut every connection and accept no more."""
        hang_up(self._listener)
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.refusing:
                    self.refused.set()
                    hang_up(client)
                    continue
                try:
                    server = socket.create_connection(self._to)
                except OSError:
                    hang_up(client)
                    continue
                self.accepted += 1
                link = Link(client, server, self.accepted)
                self._links.append(link)
                for job in (self._to_server, self._to_client):
                    threading.Thread(target=job, args=(link,), daemon=True).start()

    def _to_server(self, link: Link) -> None:
        for data in received(link.client):
            fault = self._fault
            if fault is not None and fault(link, data):
                self._fault = None
                self.faults += 1
                return
            if not (self.is_silent or link.is_silent):
                with contextlib.suppress(OSError):
                    link.server.sendall(data)
        hang_up(link.server)

    def _to_client(self, link: Link) -> None:
        for data in received(link.server):
            if not (self.is_silent or link.is_silent):
                with contextlib.suppress(OSError):
                    link.client.sendall(data)
        hang_up(link.client)


def received(end: socket.socket) -> Iterator[bytes]:
    """Yield what comes until the connection ends."""
    with contextlib.suppress(OSError):
        while data := end.recv(65536):
            yield data


def swallow_answer(link: Link, data: bytes) -> bool:
    """Send the message to the server; close the client's connection without an answer."""
    hang_up(link.client)
    link.server.sendall(data)
    link.server.shutdown(socket.SHUT_WR)  # after the message
    return True


def swallow_message(link: Link, _: bytes) -> bool:
    """Close the client's connection without sending its message to the server."""
    hang_up(link.client)
    return True


def at(text: bytes, fault: Fault) -> Fault:
    """Return the fault for the message that has the text."""
    return lambda link, data: text in data and fault(link, data)


def behind(text: bytes, fault: Fault) -> Fault:
    """Return the fault for the message after one that has the text: its COMMIT."""
    links: set[Link] = set()

    def watch(link: Link, data: bytes) -> bool:
        if link in links:
            return fault(link, data)
        if text in data:
            links.add(link)
        return False

    return watch


@contextlib.contextmanager
def before(server: Server, url: str) -> Iterator[tuple[Proxy, str]]:
    """Start a proxy before the server; yield it, and the URL that leads through it."""
    proxy = Proxy((server.address.host or "", server.address.port or 0))
    through = make_url(url).set(host="127.0.0.1", port=proxy.port)
    try:
        yield proxy, through.render_as_string(hide_password=False)
    finally:
        proxy.close()
