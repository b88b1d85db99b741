"""A server on this machine that streams what a model says, for SDKs with their own clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from support.sse import Events, encoded


@contextmanager
def model_server(*answers: Events) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Answer each request with the next of these streams; yield the URL and the requests."""
    requests: list[dict[str, Any]] = []
    left = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            requests.append(json.loads(self.rfile.read(length)))
            body = b"".join(encoded(next(left)))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
            thread.join()
