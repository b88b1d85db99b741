#!/usr/bin/env bash
# Guess: the database of a coding agent says which calls failed: a command that exits with another code than 0
#     and a call of a tool that does not exist have the status `error`, as reading a missing file has, and each
#     call has the name that the model gave.
# Package: opencode-ai 1.18.33
# Date: 2026-11-28
# Output: only the missing file is an error. The command is `completed`, its code stands in the metadata, and
#     the unknown tool is a completed call of another tool, `invalid`; its name is an argument there.
#
#     bash {"command":"exit 3","description":"fail"}: completed, exit 3
#     read {"filePath":"/nowhere/none.txt"}: error, exit none
#     invalid no_such_tool: completed, exit none
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >npm.txt
npm install --silent --no-audit --no-fund opencode-ai@1.18.33 >>npm.txt 2>&1

cat >run.py <<'PYTHON'
import json
import os
import sqlite3
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CALLS = [
    ("bash", {"command": "exit 3", "description": "fail"}),
    ("read", {"filePath": "/nowhere/none.txt"}),
    ("no_such_tool", {"x": 1}),
]


class Model(BaseHTTPRequestHandler):
    """Asks for the three calls, then says that it is done."""

    def log_message(self, *args):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        begins = asked.get("tools") and asked["messages"][-1]["role"] == "user"
        calls = [
            {"index": n, "id": f"call_{n}", "type": "function"}
            | {"function": {"name": name, "arguments": json.dumps(given)}}
            for n, (name, given) in enumerate(CALLS)
        ]
        delta = {"tool_calls": calls} if begins else {"content": "Done."}
        for said, why in ((delta, None), ({}, "tool_calls" if begins else "stop")):
            choice = {"index": 0, "delta": said, "finish_reason": why}
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            self.wfile.write(b"data: %s\n\n" % json.dumps(chunk | {"choices": [choice]}).encode())
        self.wfile.write(b"data: [DONE]\n\n")


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
here = Path.cwd()
options = {"baseURL": f"http://127.0.0.1:{server.server_port}/v1", "apiKey": "none"}
limit = {"context": 100000, "output": 4000}
config = {
    "autoupdate": False,
    "share": "disabled",
    "model": "fake/m",
    "small_model": "fake/m",
    "permission": {"bash": "allow", "external_directory": "allow"},
    "provider": {
        "fake": {
            "npm": "@ai-sdk/openai-compatible",
            "options": options,
            "models": {"m": {"tool_call": True, "limit": limit}},
        }
    },
}
kinds = ("DATA", "CONFIG", "STATE", "CACHE")
homes = {f"XDG_{kind}_HOME": str(here / "home" / kind.lower()) for kind in kinds}
(here / "home/config/opencode").mkdir(parents=True)
(here / "home/config/opencode/opencode.json").write_text(json.dumps(config))
(here / "project").mkdir()
offs = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
subprocess.run(
    [here / "node_modules/.bin/opencode", "run", "--auto", "Do the work"],
    cwd=here / "project",
    env=os.environ | homes | {"HOME": str(here / "home")} | {f"OPENCODE_DISABLE_{off}": "1" for off in offs},
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
    check=True,
    timeout=180,
)
database = sqlite3.connect(here / "home/data/opencode/opencode.db")
parts = (json.loads(data) for (data,) in database.execute("SELECT data FROM part ORDER BY id"))
for part in parts:
    if part["type"] == "tool":
        state = part["state"]
        given = state["input"].get("tool") or json.dumps(state["input"], separators=(",", ":"))
        code = state.get("metadata", {}).get("exit", "none")
        print(f"{part['tool']} {given}: {state['status']}, exit {code}")
PYTHON

python3 run.py | tee seen.txt
diff <(sed -n 's/^#     \(\(bash\|read\|invalid\) .*: [a-z]*, exit .*\)/\1/p' "$here") seen.txt
