#!/usr/bin/env bash
# Guess: what a model of Mistral said before a call, and what it thought, is sent back to it with the call: an
#     assistant message has places for both, and tells of both in a turn without calls.
# Package: langchain-mistralai 1.1.6
# Date: 2026-11-28
# Output: in a turn with a call the content is sent empty, words and thoughts alike. A model that says why it calls
#     a tool does not read it afterwards.
#
#     answered: words, call; sent back: call
#     answered: thoughts, words, call; sent back: call
#     answered: thoughts, words; sent back: thoughts, words
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q langchain-mistralai==1.1.6

cat >run.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_mistralai import ChatMistralAI

THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Ann wants it."}]}
WORDS = {"type": "text", "text": "I pay."}
CALL = {"id": "aaaaaaaaa", "function": {"name": "pay", "arguments": '{"amount": 1}'}}
MESSAGES = [
    {"role": "assistant", "content": "I pay.", "tool_calls": [CALL]},
    {"role": "assistant", "content": [THOUGHT, WORDS], "tool_calls": [CALL]},
    {"role": "assistant", "content": [THOUGHT, WORDS]},
]
bodies = []
current = {}


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "finish_reason": "stop", "message": current}
        known = {"id": "1", "object": "chat.completion", "model": "mistral", "created": 1}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({**known, "usage": usage, "choices": [choice]}).encode())

    def log_message(self, *args):
        pass


def kinds(message):
    content = json.dumps(message["content"])
    found = {
        "thoughts": "thinking" in content,
        "words": "I pay." in content,
        "call": bool(message.get("tool_calls")),
    }
    return ", ".join(name for name, there in found.items() if there)


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
model = ChatMistralAI(model="mistral", api_key="none", base_url=url)
asked = HumanMessage("Pay 1.")
for current in MESSAGES:
    answer = model.invoke([asked])
    results = [ToolMessage("paid", tool_call_id=call["id"]) for call in answer.tool_calls]
    model.invoke([asked, answer, *(results or [asked])])
    print(f"answered: {kinds(current)}; sent back: {kinds(bodies[-1]['messages'][1])}")
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(answered: .*; sent back: .*\)/\1/p' "$here") seen.txt
