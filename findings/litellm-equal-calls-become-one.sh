#!/usr/bin/env bash
# Guess: the results of parallel calls reach Gemini as the texts that the tool gave, be they numbers or words, each
#     with its call.
# Package: litellm 1.110.2
# Date: 2026-11-28
# Output: the texts are as they were. What differs was not guessed: for models before Gemini 3, calls that are equal
#     but for their ids become one, and all their results stay. A tool that rolls dice was called three times, and
#     Gemini wants as many responses as calls. For Gemini 3, and for Anthropic, each call is there.
#
#     gemini/gemini-2.5-pro: 1 calls, 3 results
#     gemini/gemini-3-pro-preview: 3 calls, 3 results
#     anthropic/claude-sonnet-4-5: 3 calls, 3 results
#     gemini/gemini-2.5-pro, other arguments: 3 calls, 3 results
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q litellm==1.110.2

cat >run.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import litellm

CANDIDATE = {"content": {"role": "model", "parts": [{"text": "11."}]}, "finishReason": "STOP"}
GEMINI = {
    "candidates": [CANDIDATE],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
}
ANTHROPIC = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "11."}],
    "stop_reason": "end_turn",
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


def messages(sides):
    calls = [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": "roll", "arguments": json.dumps({"sides": side})},
        }
        for n, side in enumerate(sides)
    ]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": rolled}
        for call, rolled in zip(calls, "254")
    ]
    turn = {"role": "assistant", "content": None, "tool_calls": calls}
    return [{"role": "user", "content": "Roll three dice."}, turn, *results]


def count(*kinds):
    turns = bodies[-1].get("contents") or bodies[-1]["messages"]
    parts = [part for turn in turns for part in turn.get("parts") or turn["content"]]
    return sum(1 for part in parts if part.get("type") in kinds or any(kind in part for kind in kinds))


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"


def ask(model, sides, more=""):
    litellm.completion(model=model, messages=messages(sides), api_key="none", api_base=url)
    calls, results = count("function_call", "tool_use"), count("function_response", "tool_result")
    print(f"{model}{more}: {calls} calls, {results} results")


ask("gemini/gemini-2.5-pro", [6, 6, 6])
ask("gemini/gemini-3-pro-preview", [6, 6, 6])
ask("anthropic/claude-sonnet-4-5", [6, 6, 6])
ask("gemini/gemini-2.5-pro", [6, 8, 20], ", other arguments")
PYTHON

LITELLM_LOCAL_MODEL_COST_MAP=True venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(.*: [0-9] calls, [0-9] results\)/\1/p' "$here") seen.txt
