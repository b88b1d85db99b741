#!/usr/bin/env bash
# Guess: names of Python's style become those of the Converse API in the blocks only. What is inside of a tool's
#     JSON is data: its keys reach the model as they are, in arguments and in results.
# Package: langchain-aws 1.9.1
# Date: 2026-11-28
# Output: arguments keep their keys. In a result all keys with `_` are renamed, at every depth, and two that differ
#     in nothing else become one: a value is lost.
#
#     arguments: {"account_id": 1, "rows": [{"from_id": 2}]}
#     result: {"accountId": 1, "rows": [{"fromId": 2}]}
#     result with both names: {"accountId": 2}
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q langchain-aws==1.9.1

cat >run.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from langchain_aws import ChatBedrockConverse
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

DATA = {"account_id": 1, "rows": [{"from_id": 2}]}
BOTH = {"account_id": 1, "accountId": 2}
ANSWER = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Done."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
    "metrics": {"latencyMs": 1},
}
TOOL = {"name": "pay", "input_schema": {"type": "object", "properties": {}}}
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


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
model = ChatBedrockConverse(
    model="anthropic.claude-sonnet-4-5-20250929-v1:0",
    region_name="us-east-1",
    endpoint_url=f"http://127.0.0.1:{server.server_port}",
    aws_access_key_id="none",
    aws_secret_access_key="none",
).bind_tools([TOOL])


def sent(result):
    call = AIMessage("", tool_calls=[{"id": "t", "name": "pay", "args": DATA}])
    model.invoke([HumanMessage("Pay."), call, ToolMessage([{"json": result}], tool_call_id="t")])
    _, called, answered = bodies[-1]["messages"]
    (output,) = answered["content"][0]["toolResult"]["content"]
    return called["content"][0]["toolUse"]["input"], output["json"]


arguments, result = sent(DATA)
print("arguments:", json.dumps(arguments))
print("result:", json.dumps(result))
print("result with both names:", json.dumps(sent(BOTH)[1]))
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(\(arguments\|result.*\): {.*\)/\1/p' "$here") seen.txt
