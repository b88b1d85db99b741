#!/usr/bin/env bash
# Guess: what a tool said as text reaches the model as this text, letter for letter: a version, a sum of money, a
#     word. An object may be unpacked where the provider wants one; a text of another kind has no reason to be read.
# Package: mistral-common 1.13.1
# Package: langchain-google-genai 4.4.3
# Date: 2026-11-28
# Output: tokenizer v3 and `ChatGoogleGenerativeAI` read every text that is JSON. Version 1.10 is 1.1 to the model,
#     ten digits of a decimal are gone, and `true` is no word any more. From v7 on mistral-common leaves the text.
#
#     mistral v3: 1.1, 1000.0, 0.1, true, "007"
#     mistral v7: 1.10, 1e3, 0.10000000000000000001, true, 007
#     langchain-google-genai: 1.1, 1000.0, 0.1, true, "007"
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q mistral-common[sentencepiece]==1.13.1 langchain-google-genai==4.4.3

cat >run.py <<'PYTHON'
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_google_genai import ChatGoogleGenerativeAI
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

TEXTS = ["1.10", "1e3", "0.10000000000000000001", "true", "007"]
IDS = [f"call{n:05}" for n in range(len(TEXTS))]
RESULT = {
    "v3": r'\{"content": (.*?), "call_id"',
    "v7": r"\[TOOL_CONTENT\] (.*?)\[/TOOL_RESULTS\]",
}
bodies = []


def openai_messages():
    calls = [
        {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}} for id in IDS
    ]
    results = [
        {"role": "tool", "name": "look", "tool_call_id": id, "content": text}
        for id, text in zip(IDS, TEXTS)
    ]
    return [{"role": "user", "content": "Look."}, {"role": "assistant", "tool_calls": calls}, *results]


for version, form in RESULT.items():
    tokenizer = getattr(MistralTokenizer, version)()
    request = ChatCompletionRequest.from_openai(openai_messages())
    prompt = tokenizer.encode_chat_completion(request).text.replace("\u2581", " ")
    print(f"mistral {version}:", ", ".join(re.findall(form, prompt)))


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        content = {"role": "model", "parts": [{"text": "Seen."}]}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        answer = {"candidates": [{"content": content, "finishReason": "STOP"}]}
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
model = ChatGoogleGenerativeAI(model="gemini-2.5-pro", google_api_key="none", base_url=url)
calls = [{"id": id, "name": "look", "args": {}} for id in IDS]
results = [ToolMessage(text, tool_call_id=id) for id, text in zip(IDS, TEXTS)]
model.invoke([HumanMessage("Look."), AIMessage("", tool_calls=calls), *results])
parts = bodies[-1]["contents"][-1]["parts"]
told = [json.dumps(part["functionResponse"]["response"]["output"]) for part in parts]
print("langchain-google-genai:", ", ".join(told))
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(\(mistral v[37]\|langchain-google-genai\): .*\)/\1/p' "$here") seen.txt
