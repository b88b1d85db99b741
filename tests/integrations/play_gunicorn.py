"""`play_forked` as an application of WSGI: a request for `/NAME` works on a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from integrations.play_forked import work


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer with the worker's number and how many calls the conversation has."""
    try:
        status, body = "200 OK", json.dumps(work(environ["PATH_INFO"][1:]))
    except Exception as error:  # noqa: BLE001 - the test looks at it
        status, body = "500 Internal Server Error", repr(error)
    start_response(status, [("Content-Type", "text/plain")])
    return [body.encode()]
