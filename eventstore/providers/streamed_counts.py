"""Counts of tokens that a stream gives several times."""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, is_json_object


def add_counts(known: JsonObject, given: JsonObject) -> None:
    """Take in later counts, which replace earlier ones; null, 0 and missing ones take nothing back.

    Servers that speak another one's protocol give such counts in the events that have none to tell.
    """
    unmerged = [(known, given)]
    while unmerged:
        known, given = unmerged.pop()
        for key, value in given.items():
            held = known.get(key)
            if is_json_object(value) and is_json_object(held):
                unmerged.append((held, value))
            elif value or held is None:
                known[key] = value
