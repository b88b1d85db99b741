#!/usr/bin/env bash
# Guess: the content of a response may go back as its objects or as `model_dump()`, which many programs store:
#     the SDK sends the same for both.
# Package: anthropic 2.14.0
# Date: 2026-11-28
# Output: a block of the beta has a member `from`. Sent as an object it is `from`; sent as a dump it is `from_`,
#     the attribute's name in Python, because `model_dump()` takes the names of the wire only when asked to.
#
#     as objects: from, to, trigger, type
#     as a dump: from_, to, trigger, type
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q anthropic==2.14.0

cat >run.py <<'PYTHON'
import json
from importlib import import_module

import anthropic

# The HTTP library that this version of the SDK is built on.
http = import_module(anthropic.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])
BLOCK = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
BLOCK["trigger"] = {"type": "refusal", "category": "cyber"}
REPLY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "b",
    "content": [BLOCK, {"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
sent = []


def answer(request):
    sent.append(json.loads(request.content)["messages"])
    return http.Response(200, json=REPLY)


transport = http.MockTransport(answer)
client = anthropic.Anthropic(api_key="x", http_client=http.Client(transport=transport))
ask = {"role": "user", "content": "hi"}
message = client.beta.messages.create(model="b", max_tokens=9, messages=[ask])
for content in (message.content, message.model_dump()["content"]):
    said = {"role": "assistant", "content": content}
    client.beta.messages.create(model="b", max_tokens=9, messages=[ask, said, ask])
for how, messages in zip(("as objects:", "as a dump:"), sent[1:], strict=True):
    print(how, ", ".join(sorted(messages[1]["content"][0])))
PYTHON

venv/bin/python run.py | tee seen.txt
diff <(sed -n 's/^#     \(as \(objects\|a dump\): .*\)/\1/p' "$here") seen.txt
