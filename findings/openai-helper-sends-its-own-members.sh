#!/usr/bin/env bash
# Guess: the message of `stream.get_final_completion()` may stand in the next request: the SDK sends the
#     members of the API, and keeps to itself what it has added.
# Package: openai 3.57.0
# Date: 2026-11-28
# Output: the next request has `parsed` beside the message, `parsed_arguments` in the function, and the place
#     that the call had in its stream, `index`. The SDK's own type of the parameter has none of them.
#
#     beside the message: parsed
#     in the call: index
#     in the function: parsed_arguments
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q openai==3.57.0

cat >run.py <<'PYTHON'
import json
from importlib import import_module

import openai
from openai.types.chat import ChatCompletionAssistantMessageParam

# The HTTP library that this version of the SDK is built on.
http = import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])
CALL = {"index": 0, "id": "call_1", "type": "function"}
CALL["function"] = {"name": "find", "arguments": "{}"}
sent = []


def chunk(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"


def answer(request):
    sent.append(json.loads(request.content))
    body = chunk({"role": "assistant", "tool_calls": [CALL]}) + chunk({}, "tool_calls")
    headers = {"content-type": "text/event-stream"}
    return http.Response(200, headers=headers, content=f"{body}data: [DONE]\n\n".encode())


client = openai.OpenAI(api_key="x", http_client=http.Client(transport=http.MockTransport(answer)))
said = [{"role": "user", "content": "hi"}]
for _ in range(2):
    with client.chat.completions.stream(model="m", messages=said) as stream:
        message = stream.get_final_completion().choices[0].message
    said += [message, {"role": "tool", "tool_call_id": "call_1", "content": "done"}]
message = sent[1]["messages"][1]
(call,) = message["tool_calls"]
known = ChatCompletionAssistantMessageParam.__annotations__
print("beside the message:", *sorted(message.keys() - known - {"annotations"}))
print("in the call:", *sorted(call.keys() - {"id", "type", "function"}))
print("in the function:", *sorted(call["function"].keys() - {"name", "arguments"}))
PYTHON

venv/bin/python run.py | tee seen.txt
diff <(sed -n 's/^#     \(\(beside the message\|in the call\|in the function\): .*\)/\1/p' "$here") seen.txt
