"""Cache marks: which blocks of a request may carry `cache_control`.

1. Reasoning carries none.
2. A mark of an hour does not follow one of five minutes: it becomes one of five minutes.
3. At most 4 stay, the newest: each covers everything before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.model import Change

MAX_MARKS: Final = 4
MARK: Final = "cache_control"


def limit_cache_marks(messages: list[JsonObject], reasoning: tuple[str, ...]) -> Iterator[Change]:
    """Take out of `messages` the marks that the API refuses, and yield what was changed."""
    marked = [block for message in messages for block in _marked_blocks(message["content"])]
    for block in marked:
        if block.get("type") in reasoning:
            del block[MARK]
            yield Change("dropped", "AN19", "reasoning carries no cache mark")
    marked = [block for block in marked if block.get(MARK) is not None]
    for block in marked[:-MAX_MARKS]:
        del block[MARK]
    if len(marked) > MAX_MARKS:
        why = f"{len(marked)} cache marks, and only {MAX_MARKS} are allowed: the newest stay"
        yield Change("dropped", "AN19", why)
    yield from _shorten_late_hours(marked[-MAX_MARKS:])


def _marked_blocks(content: JsonValue) -> Iterator[JsonObject]:
    """Yield the blocks with a mark, those in a result before the result itself."""
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            if block.get("type") == "tool_result":
                yield from _marked_blocks(block.get("content"))
            if MARK in block:
                yield block


def _shorten_late_hours(marked: list[JsonObject]) -> Iterator[Change]:
    short = False
    for block in marked:
        mark: JsonValue = block[MARK]
        if not isinstance(mark, dict) or mark.get("ttl") != "1h":
            short = True
        elif short:
            block[MARK] = {key: value for key, value in mark.items() if key != "ttl"}
            yield Change("rewritten", "AN19", "a cache mark of 1h may not follow one of 5m")
