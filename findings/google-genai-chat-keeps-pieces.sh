#!/usr/bin/env bash
# Guess: where the arguments of a call are streamed, the history of a `Chat` has the call as one part with its
#     arguments, as it is when nothing is streamed. The chat knows that a piece is followed by others.
# Package: google-genai 3.6.1
# Date: 2026-11-28
# Output: each piece stays a turn of its own, and the next request has them all, in the curated history as well. No
#     call has both a name and its arguments, and all but the first have no name.
#
#     whole: pay with arguments, result
#     streamed: pay with none, no name with a piece, no name with a piece, no name with none, result
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q google-genai==3.6.1

cat >run.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from google import genai
from google.genai.types import Part

WHOLE = [{"functionCall": {"name": "pay", "args": {"to": "Ann"}}}]
PIECE = {"jsonPath": "$.to", "stringValue": "n"}
PIECES = [
    {"functionCall": {"name": "pay", "willContinue": True}},
    {
        "functionCall": {
            "partialArgs": [{"jsonPath": "$.to", "stringValue": "An", "willContinue": True}],
            "willContinue": True,
        }
    },
    {"functionCall": {"partialArgs": [PIECE], "willContinue": True}},
    {"functionCall": {}},
]
ANSWER = [{"text": "Paid."}]
bodies = []
answers = []


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        parts = answers.pop(0)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for number, part in enumerate(parts, 1):
            candidate = {"content": {"role": "model", "parts": [part]}}
            if number == len(parts):
                candidate["finishReason"] = "STOP"
            self.wfile.write(f"data: {json.dumps({'candidates': [candidate]})}\n\n".encode())

    def log_message(self, *args):
        pass


def told(content):
    (part,) = content["parts"]
    if "functionResponse" in part:
        return "result"
    call = part["functionCall"]
    having = "arguments" if "args" in call else "a piece" if "partial_args" in call else "none"
    return f"{call.get('name', 'no name')} with {having}"


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
client = genai.Client(vertexai=True, api_key="none", http_options={"base_url": url})
calling = {"function_calling_config": {"stream_function_call_arguments": True}}
config = {"tools": [{"function_declarations": [{"name": "pay"}]}], "tool_config": calling}
for label, parts in (("whole", WHOLE), ("streamed", PIECES)):
    answers[:] = [parts, ANSWER, ANSWER]
    chat = client.chats.create(model="gemini-3-pro-preview", config=config)
    list(chat.send_message_stream("Pay Ann."))
    result = Part.from_function_response(name="pay", response={"paid": 1})
    list(chat.send_message_stream(result))
    print(f"{label}:", ", ".join(map(told, bodies[-1]["contents"][1:])))
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(\(whole\|streamed\): .*\)/\1/p' "$here") seen.txt
