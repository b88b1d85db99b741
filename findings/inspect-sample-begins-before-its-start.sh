#!/usr/bin/env bash
# Guess: `started_at` of a sample is the earliest time in it: its events have it as the time before them all.
# Package: inspect-ai 0.3.285
# Date: 2026-11-28
# Output: the sample has events before, among them the one that says that it begins.
#
#     span_begin is before started_at
#     sample_init is before started_at
#     span_end is before started_at
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q inspect-ai==0.3.285

cat >run.py <<'PYTHON'
from datetime import datetime

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.solver import generate

task = Task(dataset=[Sample(input="go", target="x")], solver=[generate()])
(log,) = eval(task, model="mockllm/model", log_dir="logs", display="none")
(sample,) = log.samples
started = datetime.fromisoformat(sample.started_at)
for event in sample.events:
    if event.timestamp < started:
        print(f"{event.event} is before started_at")
PYTHON

HOME=$folder venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \([a-z_]* is before started_at\)/\1/p' "$here") seen.txt
