#!/usr/bin/env bash
# Guess: the rollout of a thread that was forked begins with the records of its parent, so that one file
#     holds what its model was shown. It did so in versions of the summer, and counters of tokens skip them.
# Package: @openai/codex 0.171.0
# Date: 2026-11-29
# Output: the file holds the fork's own turn alone, and names the parent with the number of its records. The
#     model was shown the parent's turns. Whoever reads the file by itself has another history.
#
#     model was shown: Say one. | Answer 1. | Say two.
#     rollout holds: Say two. | Answer 2.
#     header: forked_from_id, forked_from_ordinal_exclusive, history_mode paginated
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @openai/codex@0.171.0

cat >run.py <<'PYTHON'
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

shown = []


def texts(items):
    said = (item for item in items if item.get("role") in ("user", "assistant"))
    parts = (part["text"] for item in said for part in item["content"])
    return [text for text in parts if text.startswith(("Say", "Answer"))]


class Model(BaseHTTPRequestHandler):
    """Answers each request with a number."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer(b'{"models": [], "data": []}', "application/json")

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        shown.append(texts(request["input"]))
        number = len(shown)
        text = {"type": "output_text", "text": f"Answer {number}."}
        message = {"type": "message", "id": f"m{number}", "role": "assistant", "content": [text]}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events = [
            {"type": "response.created", "response": {"id": f"r{number}"}},
            {"type": "response.output_item.done", "output_index": 0, "item": message},
            {"type": "response.completed", "response": {"id": f"r{number}", "usage": usage}},
        ]
        lines = (f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
        self.answer("".join(lines).encode(), "text/event-stream")

    def answer(self, data, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
home = Path.cwd() / "home"
home.mkdir()
(home / "config.toml").write_text(f"""
model = "gpt-5.5"
model_provider = "local"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.local]
name = "local"
base_url = "http://127.0.0.1:{server.server_address[1]}/v1"
wire_api = "responses"
""")
codex = subprocess.Popen(
    ["node_modules/.bin/codex", "app-server"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    env={"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_HOME": str(home)},
    text=True,
)


def send(message):
    codex.stdin.write(json.dumps(message) + "\n")
    codex.stdin.flush()


def until(found):
    for line in codex.stdout:
        message = json.loads(line)
        if found(message):
            return message
    raise SystemExit("codex has ended")


def call(method, **params):
    send({"id": method, "method": method, "params": params})
    return until(lambda message: message.get("id") == method)["result"]


def turn(thread, text):
    said = {"type": "text", "text": text, "text_elements": []}
    call("turn/start", threadId=thread, input=[said])
    until(lambda message: message.get("method") == "turn/completed")


call("initialize", clientInfo={"name": "finding", "version": "1"})
send({"method": "initialized"})
parent = call("thread/start", cwd=str(Path.cwd()))["thread"]["id"]
turn(parent, "Say one.")
fork = call("thread/fork", threadId=parent)["thread"]["id"]
turn(fork, "Say two.")
codex.terminate()
codex.wait()

(rollout,) = home.glob(f"sessions/*/*/*/*{fork}.jsonl")
records = [json.loads(line) for line in rollout.read_text().splitlines()]
items = [each["payload"] for each in records if each["type"] == "response_item"]
header = records[0]["payload"]
names = [name for name in header if name.startswith("forked_from")]
print("model was shown:", " | ".join(shown[-1]))
print("rollout holds:", " | ".join(texts(items)))
print("header:", ", ".join([*names, f"history_mode {header['history_mode']}"]))
PYTHON

python3 run.py | tee seen
sed -n 's/^#     \(model was shown\|rollout holds\|header\): /\1: /p' "$here" >expected
diff expected seen
