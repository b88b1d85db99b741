"""The time of a fingerprint.

Library: `fingerprint(name, arguments)`: check, canonical bytes, hash, text form. By hand: what one
would write with the standard library: SHA-256 over `json.dumps` with sorted keys, which checks
less. CPU time over rounds of many calls, both in turn; the ratio is the rounds' median.
"""

from __future__ import annotations

import json
import time
from hashlib import sha256

from measure import Figure, arguments, in_turn, median, report

from eventstore import fingerprint

SMALL = {"customer": "c-00042", "status": ["open", "shipped"], "limit": 20, "page": 1}
LARGE = {
    "path": "src/orders/search.py",
    "edits": [
        {"line": n, "text": f"value_{n} = {n * 1.5}", "note": None if n % 2 else "kept"}
        for n in range(20)
    ],
}


def by_hand(name: str, arguments: object) -> str:
    """Return the same digest with the standard library."""
    text = json.dumps([name, arguments], sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, calls=2000, rounds=51)
    calls = options.calls or (500 if options.quick else 2000)
    rounds = options.rounds or (11 if options.quick else 51)
    figures = []
    for size, value in (("four members", SMALL), ("twenty edits", LARGE)):

        def ours(value: object = value) -> None:
            for _ in range(calls):
                fingerprint("search_orders", value)

        def theirs(value: object = value) -> None:
            for _ in range(calls):
                by_hand("search_orders", value)

        times = [in_turn(time.process_time, ours, theirs, first=number) for number in range(rounds)]
        us = 1e6 / calls
        figures += [
            Figure(f"{size}: fingerprint / by hand", median(a / b for a, b in times), "", 0.2),
            Figure(f"{size}: fingerprint", median(a for a, _ in times) * us, "µs"),
            Figure(f"{size}: by hand", median(b for _, b in times) * us, "µs"),
        ]
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
