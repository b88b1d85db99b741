#!/usr/bin/env bash
# Guess: the completion that the stream helper builds has OpenRouter's `reasoning_details` as a request without
#     `stream` has them. Each piece names its `type`, `format` and `index` again, and only its text is new; the
#     helper keeps members that it does not know, and merges lists by `index`.
# Package: openai 3.57.0
# Date: 2026-11-28
# Output: it adds up every text but `type`. The format is named once for each piece, in one word. What comes of a
#     long thought is a format that nobody knows, and the details are to be sent back unchanged.
#
#     text: I pay 10.
#     signature: sig
#     type: reasoning.text
#     index: 0
#     format: anthropic-claude-v1anthropic-claude-v1anthropic-claude-v1
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q openai==3.57.0

cat >run.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from openai import OpenAI

DETAIL = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
PIECES = [{"text": "I pay"}, {"text": " 10."}, {"signature": "sig"}]
DELTAS = [
    {"role": "assistant", "content": ""},
    *({"reasoning_details": [{**DETAIL, **piece}]} for piece in PIECES),
    {"content": "Paid."},
]


def chunk(delta, reason=None):
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    known = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "claude"}
    return json.dumps({**known, "choices": [choice]})


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for data in [*map(chunk, DELTAS), chunk({}, "stop"), "[DONE]"]:
            self.wfile.write(f"data: {data}\n\n".encode())

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = OpenAI(api_key="none", base_url=f"http://127.0.0.1:{server.server_port}")
asked = [{"role": "user", "content": "Pay 10."}]
with client.chat.completions.stream(model="claude", messages=asked) as stream:
    message = stream.get_final_completion().choices[0].message
(detail,) = message.reasoning_details
for name in ("text", "signature", "type", "index", "format"):
    print(f"{name}: {detail[name]}")
PYTHON

venv/bin/python run.py | tee seen.txt
diff <(sed -n 's/^#     \(\(text\|signature\|type\|index\|format\): .*\)/\1/p' "$here") seen.txt
