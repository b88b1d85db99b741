#!/usr/bin/env bash
# Guess: a response's `output`, given back as the next `input`, has the names that the API uses. A member whose
#     name is a word of Python has another one on the object only, and its type has the API's name as an alias.
# Package: openai 3.57.0
# Date: 2026-11-28
# Output: the object's name is sent: a call with `async` goes back with `async_`.
#     `to_dict()` of the same call has the right one.
#
#     as it came: arguments, async, call_id, id, name, status, type
#     given back: arguments, async_, call_id, id, name, status, type
#     to_dict(): arguments, async, call_id, id, name, status, type
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

CALL = {
    "type": "function_call",
    "id": "f",
    "call_id": "c",
    "name": "pay",
    "arguments": "{}",
    "status": "completed",
    "async": True,
}
RESPONSE = {
    "id": "1",
    "object": "response",
    "created_at": 1,
    "model": "gpt",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [CALL],
}
bodies = []


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(RESPONSE).encode())

    def log_message(self, *args):
        pass


def names(label, sent):
    print(f"{label}: {', '.join(sorted(sent))}")


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = OpenAI(api_key="none", base_url=f"http://127.0.0.1:{server.server_port}")
response = client.responses.create(model="gpt", input="Pay.")
client.responses.create(model="gpt", input=response.output)
names("as it came", CALL)
names("given back", bodies[-1]["input"][0])
names("to_dict()", response.output[0].to_dict())
PYTHON

venv/bin/python run.py | tee seen.txt
diff <(sed -n 's/^#     \(.*: arguments, .*\)/\1/p' "$here") seen.txt
