#!/usr/bin/env bash
# Guess: a tool's result that is a time reads otherwise after the messages were stored as JSON and loaded
#     again, since it is an object before, and text after.
# Package: pydantic-ai-slim 2.68.0
# Date: 2026-11-27
# Output: a time reads the same, and so do decimals and tuples. What differs was not guessed: a float that
#     is infinite or no number reads `null` before, and is an empty text after.
#
#     2026-01-02 00:00:00+00:00: '2026-01-02T00:00:00Z' then '2026-01-02T00:00:00Z'
#     1.50: '1.50' then '1.50'
#     (1, 2): '[1,2]' then '[1,2]'
#     {'ratio': inf}: '{"ratio":null}' then '{"ratio":null}'
#     inf: 'null' then ''
#     nan: 'null' then ''
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q pydantic-ai-slim==2.68.0

cat >run.py <<'PYTHON'
from datetime import datetime, timezone
from decimal import Decimal

from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ToolReturnPart

INFINITE = float("inf")
RESULTS = [
    datetime(2026, 1, 2, tzinfo=timezone.utc),
    Decimal("1.50"),
    (1, 2),
    {"ratio": INFINITE},
    INFINITE,
    float("nan"),
]
for result in RESULTS:
    before = ToolReturnPart(tool_name="ratio", content=result, tool_call_id="call_1")
    stored = ModelMessagesTypeAdapter.dump_json([ModelRequest(parts=[before])])
    (loaded,) = ModelMessagesTypeAdapter.validate_json(stored)
    after = loaded.parts[0]
    print(f"{result}: {before.model_response_str()!r} then {after.model_response_str()!r}")
PYTHON
venv/bin/python run.py | tee seen.txt
diff <(sed -n 's/^#     \(.* then .*\)/\1/p' "$here") seen.txt
