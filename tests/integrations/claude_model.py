"""An API of Claude on this machine, which gives Claude Code the responses of a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from integrations.scenes import Said

USAGE = {"input_tokens": 9, "output_tokens": 1}


def events(said: Said, message_id: str, model: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed response."""
    head = {"id": message_id, "type": "message", "role": "assistant", "model": model}
    stop: dict[str, Any] = {"stop_reason": None, "stop_sequence": None}
    message = {**head, **stop, "content": [], "usage": USAGE}
    yield {"type": "message_start", "message": message}
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if said.text:
        delta = {"type": "text_delta", "text": said.text}
        blocks.append(({"type": "text", "text": ""}, delta))
    for name, arguments, call_id in said.calls:
        use = {"type": "tool_use", "id": call_id, "name": f"mcp__shop__{name}", "input": {}}
        blocks.append((use, {"type": "input_json_delta", "partial_json": arguments}))
    for index, (block, delta) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop["stop_reason"] = "tool_use" if said.calls else "end_turn"
    if said.cut_off:
        stop["stop_reason"] = "max_tokens"
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 4}}
    yield {"type": "message_stop"}


@contextmanager
def served(
    script: tuple[Said, ...], folder: Path, asked: list[str] | None = None
) -> Iterator[dict[str, str]]:
    """Serve a script; give the environment in which Claude Code asks nothing else.

    `asked` gets the messages of each request, as JSON.

    A response has the number of the responses in its prompt, at most that of the last, because
    Claude Code adds some of its own to a session that broke off. Sessions are kept in the folder.
    """

    class Handler(BaseHTTPRequestHandler):
        """Answers requests for a response; the rest does not exist."""

        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            """Stream the next response."""
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if asked is not None:
                asked.append(json.dumps(request["messages"]))
            number = sum(message["role"] == "assistant" for message in request["messages"])
            said = events(script[min(number, len(script) - 1)], f"msg_{number}", request["model"])
            body = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in said).encode()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {
            "ANTHROPIC_API_KEY": "x",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CONFIG_DIR": str(folder / "claude"),
            "HOME": str(folder),
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
