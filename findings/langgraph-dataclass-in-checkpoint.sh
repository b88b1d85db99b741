#!/usr/bin/env bash
# Guess: a dataclass in the state comes back from a checkpoint as it was, or reading the checkpoint raises.
# Package: langgraph-checkpoint 4.3.2
# Date: 2026-11-27
# Output: one with a field that its constructor does not take comes back as a dictionary, with a line in the
#     log. Code that runs on after a restart has another type than code that did not restart.
#
#     all fields in the constructor: Order
#     a field outside of it: dict
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q langgraph-checkpoint==4.3.2

cat >run.py <<'PYTHON'
from dataclasses import dataclass, field

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer


@dataclass
class Order:
    number: int
    total: int = 0


@dataclass
class Basket:
    number: int
    total: int = field(default=0, init=False)


names = [("__main__", "Order"), ("__main__", "Basket")]
serializer = JsonPlusSerializer(allowed_msgpack_modules=names)
for told, value in (("all fields in the constructor", Order(7)), ("a field outside of it", Basket(7))):
    print(f"{told}: {type(serializer.loads_typed(serializer.dumps_typed(value))).__name__}")
PYTHON

venv/bin/python run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(.*: \(Order\|dict\)\)$/\1/p' "$here") seen.txt
