#!/usr/bin/env bash
# Guess: where `max_tokens` cuts a tool call in the middle of a number, the message that the stream helper
#     builds does not have this number: nothing says that it was complete.
# Package: anthropic 2.14.0
# Date: 2026-11-27
# Output: the digits that arrived are taken for the number. `{"account": "ann", "amount": 10`, which may
#     have been on the way to 1000, is an input with an amount of 10. Only the stop reason tells.
#
#     cut input: {'account': 'ann', 'amount': 10}
#     stop reason: max_tokens
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q anthropic==2.14.0

cat >run.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from anthropic import Anthropic

USAGE = {"input_tokens": 1, "output_tokens": 1}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": []}
EVENTS = [
    {"type": "message_start", "message": {**MESSAGE, "stop_reason": None, "usage": USAGE}},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "t", "name": "pay", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"account": "ann", "amount": 10'},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": USAGE},
    {"type": "message_stop"},
]


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in EVENTS:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = Anthropic(api_key="none", base_url=f"http://127.0.0.1:{server.server_port}")
asked = [{"role": "user", "content": "Pay ann 1000."}]
with client.messages.stream(model="claude", max_tokens=9, messages=asked) as stream:
    message = stream.get_final_message()
print("cut input:", message.content[0].input)
print("stop reason:", message.stop_reason)
PYTHON

venv/bin/python run.py | tee seen.txt
diff <(sed -n 's/^#     \(\(cut input\|stop reason\): .*\)/\1/p' "$here") seen.txt
