#!/usr/bin/env bash
# Guess: `search` with a filter finds the same items in `InMemoryStore` as in `SqliteStore`, so that what was
#     tested on the one holds on the other.
# Package: langgraph-checkpoint 4.3.2
# Package: langgraph-checkpoint-sqlite 3.1.2
# Date: 2026-11-28
# Output: an item without the key passes `$ne` in memory, and is left out by SQLite, where a comparison with
#     nothing is not true. "All that is not archived" is all in a test, and next to nothing in production.
#
#     InMemoryStore: {'status': {'$ne': 'archived'}} finds new, open
#     SqliteStore: {'status': {'$ne': 'archived'}} finds open
#     InMemoryStore: {'status': None} finds new
#     SqliteStore: {'status': None} finds new
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2

cat >run.py <<'PYTHON'
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

NOTES = ("notes", "ann")
ITEMS = {"new": {"text": "tea"}, "open": {"status": "open"}, "old": {"status": "archived"}}

with SqliteStore.from_conn_string("store.db") as database:
    database.setup()
    stores = (InMemoryStore(), database)
    for store in stores:
        for key, value in ITEMS.items():
            store.put(NOTES, key, dict(value))
    for condition in ({"$ne": "archived"}, None):
        filter = {"status": condition}
        for store in stores:
            found = ", ".join(sorted(item.key for item in store.search(NOTES, filter=filter)))
            print(f"{type(store).__name__}: {filter} finds {found or 'nothing'}")
PYTHON

venv/bin/python -W ignore run.py | tee seen.txt
diff <(sed -n 's/^#     \(.*: .* finds .*\)/\1/p' "$here") seen.txt
