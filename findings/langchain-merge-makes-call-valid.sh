#!/usr/bin/env bash
# Guess: `merge_message_runs` puts two answers in a row together without a change of what they say: words, calls and
#     usage of both. A call that the model could not finish stays among `invalid_tool_calls`.
# Package: langchain-core 1.8.3
# Date: 2026-11-28
# Output: words, calls and usage are those of both. The invalid call has become a valid one, with what could be read
#     of its arguments. `amount: 10` may have been on the way to 1000, and whoever runs the calls runs this one.
#
#     before: calls 1, invalid 1
#     after: calls 2, invalid 0
#     pay: {'account': 'ann', 'amount': 1}
#     pay: {'account': 'bob', 'amount': 10}
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q langchain-core==1.8.3

cat >run.py <<'PYTHON'
from langchain_core.messages import AIMessage, merge_message_runs

CUT = {
    "id": "call_2",
    "name": "pay",
    "args": '{"account": "bob", "amount": 10',
    "error": "The answer ended here.",
}
WHOLE = {"id": "call_1", "name": "pay", "args": {"account": "ann", "amount": 1}}
ANSWERS = [
    AIMessage("I pay Ann.", tool_calls=[WHOLE]),
    AIMessage("And Bob.", invalid_tool_calls=[CUT]),
]


def count(label, messages):
    calls = sum(len(message.tool_calls) for message in messages)
    invalid = sum(len(message.invalid_tool_calls) for message in messages)
    print(f"{label}: calls {calls}, invalid {invalid}")


count("before", ANSWERS)
merged = merge_message_runs(ANSWERS)
count("after", merged)
for call in merged[0].tool_calls:
    print(f"{call['name']}: {call['args']}")
PYTHON

venv/bin/python run.py | tee seen.txt
diff <(sed -n 's/^#     \(\(before\|after\|pay\): .*\)/\1/p' "$here") seen.txt
