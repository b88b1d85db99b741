"""Calls that the provider's own servers ran: which pairs of call and result stay.

1. A call and its one result stand in assistant messages, the result after the call.
2. A call stays without its result while that may still come: only results have followed it.
3. Whatever has no counterpart is told in a note of the user's, after the turn: the assistant never
   said it.
4. Ids are of the form that the servers write; the input of a call is an object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeGuard

from eventstore.domain.fingerprint import content_id
from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.own_texts import DONE
from eventstore.providers.json_values import as_text
from eventstore.providers.model import Change

_ORDINARY = ("text", "tool_use", "tool_result")  # most blocks
SERVED: Final = ("server_tool_use", "mcp_tool_use")
_SERVED_ID = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")


def is_server_result(block: JsonValue) -> TypeGuard[JsonObject]:
    """Return whether a block is the result of a call that the provider's own servers ran."""
    kind = block.get("type") if isinstance(block, dict) else None
    return isinstance(kind, str) and kind.endswith("_tool_result")


def is_server_call(block: JsonValue) -> TypeGuard[JsonObject]:
    """Return whether a block is a call that the provider's own servers ran."""
    return isinstance(block, dict) and block.get("type") in SERVED


def pair_server_calls(messages: list[JsonObject], changes: list[Change]) -> None:
    """Tell of server calls without a result, and of server results without a call, in notes."""
    blocks = _server_blocks(messages)
    if not blocks:
        return
    for _, block in blocks:
        _rename(block, changes)
        if is_server_call(block) and not isinstance(block.get("input"), dict):
            given = block.get("input")
            block["input"] = {} if given is None else {"raw_arguments": given}
            changes.append(Change("wrapped", "AN07", "the input of a server's call is an object"))
    paired, waiting = _pairs(blocks)
    kept = paired | {id(block) for block in _last_blocks(messages) if id(block) in waiting}
    if any(_is_alone(block, kept) for block in _blocks_since_user_spoke(messages)):
        kept = paired  # the note on it stands behind the calls that wait
    if any(id(block) not in kept for _, block in blocks):
        messages[:] = _with_notes(messages, kept, changes)


def _last_blocks(messages: list[JsonObject]) -> list[JsonValue]:
    """Return the blocks of the last message that is more than an answer of the client's tools."""
    for message in reversed(messages):
        if not _is_answer(message):
            return list(_blocks(message))
    return []


def _blocks_since_user_spoke(messages: list[JsonObject]) -> Iterator[JsonValue]:
    for message in reversed(messages):
        if message["role"] == "user" and not _is_answer(message):
            return
        yield from _blocks(message)


def _blocks(message: JsonObject) -> Iterator[JsonValue]:
    content: JsonValue = message["content"]
    yield from content if isinstance(content, list) else ()


def _with_notes(
    messages: list[JsonObject], kept: set[int], changes: list[Change]
) -> Iterator[JsonObject]:
    """Yield the messages, what is not `kept` of them in a note of the user's next message."""
    notes: list[str] = []
    for message in messages:
        content: JsonValue = message["content"]
        if isinstance(content, list):
            notes += (_note_of(block, changes) for block in content if _is_alone(block, kept))
            message["content"] = [block for block in content if not _is_alone(block, kept)]
        if notes and message["role"] == "user":
            message["content"] = _noted(message["content"], notes)
            notes = []
        if message["content"] or not content:
            yield message
    if notes:
        yield {"role": "user", "content": _noted([], notes)}


def _is_alone(block: JsonValue, kept: set[int]) -> TypeGuard[JsonObject]:
    return id(block) not in kept and (is_server_call(block) or is_server_result(block))


def _note_of(block: JsonObject, changes: list[Change]) -> str:
    changes.append(Change("moved", "AN16", f"{block['type']} has no counterpart: told in a note"))
    if is_server_result(block):
        return f"[{block['type']}] {as_text(block.get('content'))}"
    return f"[{block.get('name')} was called, no result came: {as_text(block.get('input'))}]"


def _noted(content: str | list[JsonValue], notes: list[str]) -> list[JsonValue]:
    """Return the content of a user's message with a note in it, right after the results."""
    said: list[JsonValue] = content if isinstance(content, list) else []
    if isinstance(content, str) and content.strip():
        said = [{"type": "text", "text": content}]
    results = [block for block in said if _is_result(block)]
    note = {"type": "text", "text": "\n".join([DONE.format("anthropic"), *notes])}
    return [*results, note, *(block for block in said if not _is_result(block))]


def _is_result(block: JsonValue) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _server_blocks(messages: list[JsonObject]) -> list[tuple[str, JsonObject]]:
    """Return the calls that the servers ran and their results, each with its message's role."""
    found: list[tuple[str, JsonObject]] = []
    for message in messages:
        content: JsonValue = message["content"]
        for block in content if isinstance(content, list) else ():
            is_rare = isinstance(block, dict) and block.get("type") not in _ORDINARY
            if is_rare and (is_server_call(block) or is_server_result(block)):
                found.append((message["role"], block))
    return found


def _rename(block: JsonObject, changes: list[Change]) -> None:
    """Give a server's call or result an id of the form that the servers write."""
    key = "id" if block.get("type") == "server_tool_use" else "tool_use_id"
    given = block.get(key)
    own = key == "id" or (is_server_result(block) and block["type"] != "mcp_tool_result")
    if own and isinstance(given, str) and not _SERVED_ID.fullmatch(given):
        mark = content_id(given.encode("utf-8", "surrogatepass")).hex()[:24]
        block[key] = f"srvtoolu_{mark}"
        changes.append(Change("re-keyed", "AN06", f"id {given!r} is {block[key]!r} here"))


def _pairs(blocks: list[tuple[str, JsonObject]]) -> tuple[set[int], set[int]]:
    """Return which blocks (by identity) are a call and its result, and which calls wait for one."""
    waiting: dict[str, JsonObject] = {}
    seen: set[str] = set()
    paired: set[int] = set()
    for role, block in blocks:
        is_call = is_server_call(block)
        call_id: JsonValue = block.get("id" if is_call else "tool_use_id")
        if role != "assistant" or not isinstance(call_id, str):
            continue
        if is_call and call_id not in seen:
            seen.add(call_id)
            waiting[call_id] = block
        elif not is_call and call_id in waiting:
            paired |= {id(waiting.pop(call_id)), id(block)}
    return paired, {id(block) for block in waiting.values()}


def _is_answer(message: JsonObject) -> bool:
    """Return whether a message holds nothing but results of the client's own tools."""
    content = message["content"]
    return message["role"] == "user" and bool(content) and all(map(_is_result, content))
