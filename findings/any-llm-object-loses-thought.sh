#!/usr/bin/env bash
# Guess: a message of `completion()` can be given back as the object that it is or as its dump, and either way the
#     signed thought reaches Anthropic as it came: text and signature belong together.
# Package: any-llm-sdk 1.40.2
# Date: 2026-11-28
# Output: it holds for the dump. From the object the block is made with the signature and an empty text. The dump has
#     the thought as a text, the object as another object, and that one is not read.
#
#     answered: thinking "Ann wants it." signed, text, tool_use
#     dump given back: thinking "Ann wants it." signed, text, tool_use
#     object given back: thinking "" signed, text, tool_use
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q any-llm-sdk[anthropic]==1.40.2

cat >run.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from any_llm import AnyLLM

BLOCKS = [
    {"type": "thinking", "thinking": "Ann wants it.", "signature": "sig"},
    {"type": "text", "text": "I pay."},
    {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {}},
]
ANSWER = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": BLOCKS,
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
bodies = []


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(ANSWER).encode())

    def log_message(self, *args):
        pass


def told(block):
    if block["type"] != "thinking":
        return block["type"]
    return f'thinking "{block["thinking"]}"' + (" signed" if block.get("signature") else "")


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
llm = AnyLLM.create("anthropic", api_key="none", api_base=url)
known = {"model": "claude-sonnet-4-5", "max_tokens": 9000, "reasoning_effort": "low"}
asked = {"role": "user", "content": "Pay Ann."}
message = llm.completion(messages=[asked], **known).choices[0].message
result = {"role": "tool", "tool_call_id": "toolu_1", "content": "paid"}
print("answered:", ", ".join(map(told, BLOCKS)))
dump = message.model_dump(exclude_none=True)
for label, turn in (("dump", dump), ("object", message)):
    llm.completion(messages=[asked, turn, result], **known)
    print(f"{label} given back:", ", ".join(map(told, bodies[-1]["messages"][1]["content"])))
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(\(answered\|.* given back\): .*\)/\1/p' "$here") seen.txt
