#!/usr/bin/env bash
# Guess: automatic function calling leaves in a chat what one would write by hand: each call, each result and the
#     answer once, and in their order.
# Package: google-genai 3.6.1
# Date: 2026-11-28
# Output: they are there, once and in order. What differs was not guessed: no result has the id of its call, which
#     Google asks a client to give back. Two results of one function differ by their order only.
#
#     model: pay c1, pay c2
#     user: pay without id, pay without id
#     model: text
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

CALLS = [
    {"functionCall": {"id": f"c{n}", "name": "pay", "args": {"amount": n}}} for n in (1, 2)
]
answers = iter([CALLS, [{"text": "Paid."}], [{"text": "Bye."}]])
bodies = []


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        content = {"role": "model", "parts": next(answers)}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        answer = {"candidates": [{"content": content, "finishReason": "STOP"}]}
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *args):
        pass


def pay(amount: int) -> dict:
    """Pay an amount."""
    return {"paid": amount}


def told(part):
    found = part.get("functionCall") or part.get("functionResponse")
    return f"{found['name']} {found.get('id', 'without id')}" if found else "text"


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
client = genai.Client(api_key="none", http_options={"base_url": url})
chat = client.chats.create(model="gemini-3-pro-preview", config={"tools": [pay]})
chat.send_message("Pay 1 and 2.")
chat.send_message("Thanks.")
for content in bodies[-1]["contents"][1:-1]:
    print(f"{content['role']}:", ", ".join(map(told, content["parts"])))
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(\(model\|user\): .*\)/\1/p' "$here") seen.txt
