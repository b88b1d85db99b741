#!/usr/bin/env bash
# Guess: a boundary (`compact_boundary`) in a session file has no parent, and begins the history anew. So the next
#     request holds what stands after it in the file: the summary, and what was said since.
# Package: @anthropic-ai/claude-code 2.1.332
# Date: 2026-11-29
# Output: the last answer from before the boundary is sent, too, word for word behind the summary. It stands before the
#     boundary in the file, and the boundary names it (`preservedSegment`, `preservedMessages`).
#
#     file:    user QUESTION-1, assistant ANSWER-1, user QUESTION-2, assistant ANSWER-2, boundary, user SUMMARY, user QUESTION-3, assistant ANSWER-3
#     boundary: parentUuid null, preserves assistant ANSWER-2
#     request: user SUMMARY, assistant ANSWER-2, user QUESTION-3
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'kill "$(cat "$folder/pid" 2>/dev/null)" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >npm.txt
npm install --silent --no-audit --no-fund @anthropic-ai/claude-code@2.1.332 >>npm.txt 2>&1
claude=$(ls "$folder"/node_modules/@anthropic-ai/claude-code-*/claude)

cat >model.py <<'PYTHON'
"""A model that numbers its answers, or writes a summary where it is asked for one."""
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.reply(b"", "text/plain")

    def do_GET(self):
        self.reply(b"{}", "application/json")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        if "messages" not in body or not body.get("stream"):
            return self.reply(b'{"input_tokens": 1}', "application/json")
        with open("requests.jsonl", "a") as file:
            file.write(json.dumps(body["messages"]) + "\n")
        last = json.dumps(body["messages"][-1])
        asks = "detailed summary" in last
        asked = max(n for n in (1, 2, 3) if n == 1 or f"QUESTION-{n}" in json.dumps(body["messages"]))
        text = "<summary>SUMMARY</summary>" if asks else f"ANSWER-{asked}"
        usage = {"input_tokens": 9, "output_tokens": 9}
        message = {"id": f"msg_{len(last)}", "type": "message", "role": "assistant", "content": []}
        message |= {"model": body["model"], "stop_reason": None, "stop_sequence": None, "usage": usage}
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
        stop = {"stop_reason": "end_turn", "stop_sequence": None}
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ]
        lines = (f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
        self.reply("".join(lines).encode(), "text/event-stream")

    def reply(self, content, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
with open("port", "w") as file:
    file.write(f"{server.server_port}\n")
server.serve_forever()
PYTHON
python3 model.py &
echo $! >pid
while ! grep -q . port 2>/dev/null; do :; done

mkdir -p home project
run() {
    (cd project && env -i PATH="$PATH" HOME="$folder/home" IS_SANDBOX=1 ANTHROPIC_API_KEY=x \
        ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat "$folder/port")" DISABLE_TELEMETRY=1 \
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 DISABLE_ERROR_REPORTING=1 \
        "$claude" -p "$@" </dev/null >>"$folder/said.txt" 2>&1)
}
run QUESTION-1
session=$(basename "$(ls home/.claude/projects/*/*.jsonl)" .jsonl)
run QUESTION-2 --resume "$session"
run /compact --resume "$session"
run QUESTION-3 --resume "$session"

cat >show.py <<'PYTHON'
import json
import sys

WORDS = ("SUMMARY", "QUESTION-3", "QUESTION-2", "QUESTION-1", "ANSWER-3", "ANSWER-2", "ANSWER-1")


def shown(message):
    said = json.dumps(message["content"])
    named = [word for word in WORDS if word in said]
    return [f"{message['role']} {named[0]}"] if named else []


records = [json.loads(line) for line in open(sys.argv[1])]
boundary = next(each for each in records if each.get("subtype") == "compact_boundary")
told = []
for each in records:
    if each is boundary:
        told.append("boundary")
    elif each["type"] in ("user", "assistant"):
        told += shown(each["message"])
kept = boundary["compactMetadata"]["preservedMessages"]["uuids"]
kept = [shown(each["message"])[0] for each in records if each.get("uuid") in kept]
request = [json.loads(line) for line in open("requests.jsonl")][-1]
print("file:   ", ", ".join(told))
print("boundary: parentUuid", json.dumps(boundary["parentUuid"]) + ", preserves", ", ".join(kept))
print("request:", ", ".join(words for each in request for words in shown(each)))
PYTHON
python3 show.py home/.claude/projects/*/"$session".jsonl | sed 's/^/#     /' | tee output.txt
diff <(sed -n 's/^\(#     [fbr][a-z]*:.*\)/\1/p' "$here") output.txt
