"""Cache marks: which blocks of a request may carry `cache_control`.

1. Reasoning carries none.
2. A mark of an hour does not follow one of five minutes: it becomes one of five minutes.
3. At most 4 stay, the newest: each covers everything before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list
from eventstore.providers.cache_ends import ends_of_requests
from eventstore.providers.model import Change

MAX_MARKS: Final = 4
MARK: Final = "cache_control"


def limit_cache_marks(messages: list[JsonObject], reasoning: tuple[str, ...]) -> Iterator[Change]:
    """Take out of `messages` the marks that the API refuses, and yield what was changed."""
    contents: list[JsonValue] = [message["content"] for message in messages]
    marked = [
        block for each in contents if isinstance(each, list) for block in _marked_blocks(each)
    ]
    if not marked:
        return
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


def _marked_blocks(content: JsonValue) -> list[JsonObject]:
    """Return the blocks with a mark, those in a result before the result itself."""
    found: list[JsonObject] = []
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
                found += _marked_blocks(block["content"])
            if MARK in block:
                found.append(block)
    return found


def _shorten_late_hours(marked: list[JsonObject]) -> Iterator[Change]:
    short = False
    for block in marked:
        mark: JsonValue = block[MARK]
        if not isinstance(mark, dict) or mark.get("ttl") != "1h":
            short = True
        elif short:
            block[MARK] = {key: value for key, value in mark.items() if key != "ttl"}
            yield Change("rewritten", "AN19", "a cache mark of 1h may not follow one of 5m")


def place_cache_marks(arguments: JsonObject) -> None:
    """Mark the system text and the ends of the last two requests, and nothing else."""
    system = arguments.get("system")
    if isinstance(system, str):
        arguments["system"] = [{"type": "text", "text": system, **_new_mark()}]
    messages = [_unmarked(message) for message in arguments["messages"]]
    for place in ends_of_requests(messages):
        messages[place] = _marked(messages[place])
    arguments["messages"] = messages


def with_marked_end(tools: list[JsonObject]) -> list[JsonObject]:
    """Return tools of which the last one is marked."""
    return [*tools[:-1], *({**tool, **_new_mark()} for tool in tools[-1:])]


def _unmarked(message: JsonObject) -> JsonObject:
    """Return a message whose blocks have no mark; it is the same where none has one."""
    content = message["content"]
    if not _marked_blocks(content):
        return message
    return {**message, "content": [_unmarked_block(block) for block in content]}


def _unmarked_block(block: JsonValue) -> JsonValue:
    if not isinstance(block, dict):
        return block
    found = {key: value for key, value in block.items() if key != MARK}
    inner: JsonValue = found.get("content")
    if found.get("type") == "tool_result" and is_json_list(inner):
        found["content"] = [_unmarked_block(each) for each in inner]
    return found


def _marked(message: JsonObject) -> JsonObject:
    """Return a user's message whose last block is marked."""
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return {**message, "content": [*content[:-1], {**content[-1], **_new_mark()}]}


def _new_mark() -> JsonObject:
    """Return a mark, an object of its own: the caller may change the request."""
    return {MARK: {"type": "ephemeral"}}
