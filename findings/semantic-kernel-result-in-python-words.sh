#!/usr/bin/env bash
# Guess: a chat history that was serialised and restored has the results that it had. Where a result is a dict, it is
#     a dict again, or JSON text that the model and others can read.
# Package: semantic-kernel 1.45.0
# Date: 2026-11-28
# Output: the history holds Python's own words for the dict, as text: single quotes, True and None. No JSON parser
#     reads it, and the restored history is not equal to the first.
#
#     before: dict {'paid': True, 'left': None}
#     restored: str {'paid': True, 'left': None}
#     as JSON: JSONDecodeError
#     equal histories: False
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q semantic-kernel==1.45.0

cat >run.py <<'PYTHON'
import json

from semantic_kernel.contents import (
    ChatHistory,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
)

history = ChatHistory()
history.add_user_message("Pay.")
call = FunctionCallContent(id="call_1", name="shop-pay", arguments='{"cents": 1200}')
history.add_message(ChatMessageContent(role="assistant", items=[call]))
paid = {"paid": True, "left": None}
result = FunctionResultContent(id="call_1", name="shop-pay", result=paid)
history.add_message(ChatMessageContent(role="tool", items=[result]))
restored = ChatHistory.restore_chat_history(history.serialize())
for told, each in (("before", history), ("restored", restored)):
    (said,) = (item.result for item in each.messages[-1].items)
    print(f"{told}: {type(said).__name__} {said}")
try:
    print(f"as JSON: {json.loads(said)}")
except ValueError as error:
    print(f"as JSON: {type(error).__name__}")
print(f"equal histories: {history == restored}")
PYTHON

venv/bin/python run.py | tee seen.txt
diff <(sed -n 's/^#     \([abre][a-z JSON]*: .*\)/\1/p' "$here") seen.txt
