#!/usr/bin/env bash
# Guess: `convert_to_openai_messages` gives the messages that `ChatOpenAI` sends. A call whose arguments were no
#     JSON is among `invalid_tool_calls`, was answered with an error, and is in both.
# Package: langchain-core 1.8.3
# Package: langchain-openai 1.7.4
# Date: 2026-11-28
# Output: `ChatOpenAI` sends the call with its arguments as they came. The converter leaves it out, and leaves in
#     the answer: a tool message to a call that is nowhere. The other call of that turn is in both.
#
#     ChatOpenAI sends: user, assistant (calls good, cut), tool good, tool cut
#     convert_to_openai_messages gives: user, assistant (calls good), tool good, tool cut
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q langchain-core==1.8.3 langchain-openai==1.7.4

cat >run.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from langchain_core.messages import HumanMessage, ToolMessage, convert_to_openai_messages
from langchain_openai import ChatOpenAI

CALLS = [
    {"id": "good", "type": "function", "function": {"name": "pay", "arguments": '{"amount": 1}'}},
    {"id": "cut", "type": "function", "function": {"name": "pay", "arguments": '{"amount": '}},
]
bodies = []


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        message = {"role": "assistant", "content": "I pay twice.", "tool_calls": CALLS}
        choice = {"index": 0, "finish_reason": "length", "message": message}
        known = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4.1"}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({**known, "choices": [choice]}).encode())

    def log_message(self, *args):
        pass


def told(message):
    calls = [call["id"] for call in message.get("tool_calls", ())]
    shown = f" (calls {', '.join(calls)})" if calls else ""
    answered = message.get("tool_call_id")
    return message["role"] + shown + (f" {answered}" if answered else "")


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
model = ChatOpenAI(
    model="gpt-4.1", api_key="none", base_url=f"http://127.0.0.1:{server.server_port}"
)
history = [HumanMessage("Pay 1 and 2.")]
history.append(model.invoke(history))
history.append(ToolMessage("paid", tool_call_id="good"))
history.append(ToolMessage("The arguments are no JSON.", tool_call_id="cut", status="error"))
model.invoke(history)
print("ChatOpenAI sends:", ", ".join(map(told, bodies[-1]["messages"])))
converted = convert_to_openai_messages(history)
print("convert_to_openai_messages gives:", ", ".join(map(told, converted)))
PYTHON

venv/bin/python run.py | tee seen.txt
diff <(sed -n 's/^#     \(\(ChatOpenAI\|convert_to_openai_messages\) .*: .*\)/\1/p' "$here") seen.txt
