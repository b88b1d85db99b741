#!/usr/bin/env bash
# Guess: a dictionary that a tool returned is a dictionary after the messages were stored as JSON and loaded
#     again, whatever its keys are. Only an object of the package's own comes back as such an object.
# Package: pydantic-ai-slim 2.68.0
# Date: 2026-11-28
# Output: one whose kind is "binary", with `data` in base64 and a `media_type`, such as a row of a table of
#     attachments, comes back as `BinaryContent`, wherever in a result it is. The model that read it as text
#     before is sent a file after, or a text with other members.
#
#     of another kind: dict, 59 characters, 0 files, then dict, 59 characters, 0 files
#     of kind binary: dict, 61 characters, 0 files, then BinaryContent, 0 characters, 1 files
#     in a list: dict, 63 characters, 0 files, then BinaryContent, 0 characters, 1 files
#     in a dictionary: dict, 69 characters, 0 files, then BinaryContent, 114 characters, 0 files
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q pydantic-ai-slim==2.68.0

cat >run.py <<'PYTHON'
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel

ROW = {"kind": "binary", "data": "aGVsbG8=", "media_type": "text/plain"}


def answer(messages, info):
    if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
        return ModelResponse([TextPart("Found.")])
    return ModelResponse([ToolCallPart("find", {}, "call_1")])


def described(messages, row_of):
    parts = [part for message in messages for part in message.parts]
    (result,) = [part for part in parts if isinstance(part, ToolReturnPart)]
    kind = type(row_of(result.content)).__name__
    return f"{kind}, {len(result.model_response_str())} characters, {len(result.files)} files"


def tell(told, found, row_of=lambda content: content):
    agent = Agent(FunctionModel(answer))

    @agent.tool_plain
    def find():
        return found

    live = agent.run_sync("Find the attachment.").all_messages()
    loaded = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(live))
    print(f"{told}: {described(live, row_of)}, then {described(loaded, row_of)}")


tell("of another kind", {**ROW, "kind": "scan"})
tell("of kind binary", ROW)
tell("in a list", [ROW], lambda content: content[0])
tell("in a dictionary", {"row": ROW}, lambda content: content["row"])
PYTHON

venv/bin/python -W ignore run.py | tee seen.txt
diff <(sed -n 's/^#     \(.*: .* files, then .* files\)/\1/p' "$here") seen.txt
