#!/usr/bin/env bash
# Guess: what `parse()` adds for the program stays with the program. Its message, given back in the next request,
#     is sent as the API gave it. So it is with the output of `responses.parse()`.
# Package: openai 3.57.0
# Date: 2026-11-28
# Output: it holds for Responses. Chat Completions sends both members of the client's own: `parsed` beside the
#     text, and `parsed_arguments` in the call, with the values of the program's model.
#
#     responses, message: annotations, text, type
#     responses, call: arguments, call_id, id, name, status, type
#     chat, message: annotations, content, parsed, refusal, role, tool_calls
#     chat, call: arguments, name, parsed_arguments
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

from openai import OpenAI, pydantic_function_tool
from pydantic import BaseModel

TEXT = '{"amount": 1}'
CALL = {"name": "Pay", "arguments": TEXT}
MESSAGE = {
    "role": "assistant",
    "content": TEXT,
    "refusal": None,
    "annotations": [],
    "tool_calls": [{"id": "c", "type": "function", "function": CALL}],
}
COMPLETION = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt",
    "choices": [{"index": 0, "finish_reason": "stop", "logprobs": None, "message": MESSAGE}],
}
SAID = {"type": "output_text", "text": TEXT, "annotations": []}
RESPONSE = {
    "id": "1",
    "object": "response",
    "created_at": 1,
    "model": "gpt",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [SAID]},
        {"type": "function_call", "id": "f", "call_id": "c", "status": "completed", **CALL},
    ],
}
bodies = []


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        answer = COMPLETION if self.path.endswith("completions") else RESPONSE
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *args):
        pass


class Pay(BaseModel):
    amount: int


def names(label, sent):
    print(f"{label}: {', '.join(sorted(sent))}")


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = OpenAI(api_key="none", base_url=f"http://127.0.0.1:{server.server_port}")
tool = pydantic_function_tool(Pay)
asked = [{"role": "user", "content": "Pay 1."}]

flat = {"type": "function", **tool["function"]}
parsed = client.responses.parse(model="gpt", input=asked, text_format=Pay, tools=[flat])
client.responses.create(model="gpt", input=[*asked, *parsed.output])
_, message, call = bodies[-1]["input"]
names("responses, message", message["content"][0])
names("responses, call", call)

chat = client.chat.completions
parsed = chat.parse(model="gpt", messages=asked, response_format=Pay, tools=[tool])
chat.create(model="gpt", messages=[*asked, parsed.choices[0].message])
message = bodies[-1]["messages"][1]
names("chat, message", message)
names("chat, call", message["tool_calls"][0]["function"])
PYTHON

venv/bin/python -W ignore run.py | tee seen.txt
diff <(sed -n 's/^#     \(\(responses\|chat\), .*: .*\)/\1/p' "$here") seen.txt
