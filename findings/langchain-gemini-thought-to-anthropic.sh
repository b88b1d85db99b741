#!/usr/bin/env bash
# Guess: a conversation that began with one provider goes on with another, as the messages are the same classes.
#     What only the first can read is left out: so `ChatGoogleGenerativeAI` leaves out thoughts signed by Anthropic.
# Package: langchain-google-genai 4.4.3
# Package: langchain-anthropic 1.7.10
# Date: 2026-11-28
# Output: not so the other way. Gemini's thought is sent to Anthropic as a `thinking` block without a signature. It
#     is a required member of that block in the types of Anthropic's own SDK.
#
#     Gemini to Anthropic: thinking without signature, text, tool_use
#     Anthropic to Gemini: text, functionCall
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q langchain-google-genai==4.4.3 langchain-anthropic==1.7.10

cat >run.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_google_genai import ChatGoogleGenerativeAI

PARTS = [
    {"text": "Ann wants it.", "thought": True},
    {"text": "I pay."},
    {"functionCall": {"id": "c", "name": "pay", "args": {}}, "thoughtSignature": "c2ln"},
]
GEMINI = {"candidates": [{"content": {"role": "model", "parts": PARTS}, "finishReason": "STOP"}]}
ANTHROPIC = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [
        {"type": "thinking", "thinking": "Ann wants it.", "signature": "sig"},
        {"type": "text", "text": "I pay."},
        {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
bodies = []


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        bodies.append(body)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(GEMINI if "contents" in body else ANTHROPIC).encode())

    def log_message(self, *args):
        pass


def kind(part):
    if "type" not in part:
        return "thought" if part.get("thought") else "text" if "text" in part else "functionCall"
    signed = part["type"] != "thinking" or "signature" in part
    return part["type"] + ("" if signed else " without signature")


def go_on(first, second):
    asked = HumanMessage("Pay Ann.")
    answer = first.invoke([asked])
    second.invoke([asked, answer, ToolMessage("paid", tool_call_id=answer.tool_calls[0]["id"])])
    turn = (bodies[-1].get("contents") or bodies[-1]["messages"])[1]
    return ", ".join(kind(part) for part in turn.get("parts") or turn["content"])


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
gemini = ChatGoogleGenerativeAI(
    model="gemini-3-pro-preview", google_api_key="none", base_url=url, include_thoughts=True
)
claude = ChatAnthropic(model="claude-sonnet-4-5", api_key="none", base_url=url)
print("Gemini to Anthropic:", go_on(gemini, claude))
print("Anthropic to Gemini:", go_on(claude, gemini))
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(\(Gemini\|Anthropic\) to .*: .*\)/\1/p' "$here") seen.txt
