#!/usr/bin/env bash
# Guess: `convert_to_openai_messages` makes a tool message of each result in a user message of Anthropic's form, also
#     of one that is an error, and keeps the words that stand behind the results, as Anthropic asks for.
# Package: langchain-core 1.8.3
# Date: 2026-11-28
# Output: it does. What differs was not guessed: the words come first. They stand between the calls and their
#     results, where OpenAI takes nothing else, and the model reads them before what it had asked for.
#
#     given: user (text), assistant (text, tool_use, tool_use), user (tool_result, tool_result, text)
#     converted: user, assistant with 2 calls, user "Go on.", tool "paid", tool "no money"
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q langchain-core==1.8.3

cat >run.py <<'PYTHON'
from langchain_core.messages import convert_to_openai_messages

GIVEN = [
    {"role": "user", "content": [{"type": "text", "text": "Pay Ann and Bob."}]},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I pay."},
            {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"to": "ann"}},
            {"type": "tool_use", "id": "toolu_2", "name": "pay", "input": {"to": "bob"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "paid"},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_2",
                "content": "no money",
                "is_error": True,
            },
            {"type": "text", "text": "Go on."},
        ],
    },
]


def told(number, message):
    if calls := message.get("tool_calls"):
        return f"{message['role']} with {len(calls)} calls"
    return f'{message["role"]} "{message["content"]}"' if number else message["role"]


given = [
    f"{message['role']} ({', '.join(block['type'] for block in message['content'])})"
    for message in GIVEN
]
print("given:", ", ".join(given))
converted = convert_to_openai_messages(GIVEN)
print("converted:", ", ".join(told(*found) for found in enumerate(converted)))
PYTHON

venv/bin/python run.py | tee seen.txt
diff <(sed -n 's/^#     \(\(given\|converted\): .*\)/\1/p' "$here") seen.txt
