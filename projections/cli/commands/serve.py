"""`serve`: the whole store as web pages, live, for people on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.cli.options import URL, Json, Url, open_store
from projections.cli.output import complain, print_json_line, say

Host = Annotated[str, typer.Option("--host", help="The address to listen at.")]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65_535, help="The port; 0 takes a free one.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="NAME", help="A name by which browsers reach the server. [repeatable]"
    ),
]

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8770,
    allow: Allow = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Serve pages of the whole store: conversations, errors, approvals, the newest events.

    The printed address carries a token, without which nothing is shown. Ctrl-C ends it.
    """
    try:
        from projections.web.server import (  # starlette and uvicorn may not be there
            ALL_ADDRESSES,
            Server,
        )
    except ModuleNotFoundError as error:
        raise ValueError(f"serve needs {error.name}: pip install 'toolledger[web]'") from error
    if host not in LOOPBACK:
        complain(f"{host} is open to other machines, and what is sent there is not encrypted")
    if host in ALL_ADDRESSES and not allow:
        complain(f"no browser can name {host}: pass the names by which they come with --allow")
    with open_store(url) as store, Server(store, host, port, allow or ()) as server:
        if as_json:
            print_json_line({"address": server.address})
        else:
            say(f"open {server.address} (Ctrl-C ends it)")
        server.run()
