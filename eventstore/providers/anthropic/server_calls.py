"""Calls that the provider's own servers ran: which pairs of call and result stay.

1. A call and its one result stand in assistant messages, the result after the call.
2. A call stays without its result while that may still come: only results have followed it.
3. Whatever has no counterpart becomes text in its place.
4. Ids are of the form that the servers write; the input of a call is an object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeGuard

from eventstore.domain.fingerprint import content_id
from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.model import Change
from eventstore.providers.parts import as_text

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
    """Turn server calls without a result, and server results without a call, into text."""
    blocks = list(_server_blocks(messages))
    if not blocks:
        return
    for _, block in blocks:
        _rename(block, changes)
        if is_server_call(block) and not isinstance(block.get("input"), dict):
            given = block.get("input")
            block["input"] = {} if given is None else {"raw_arguments": given}
            changes.append(Change("wrapped", "AN07", "the input of a server's call is an object"))
    paired, waiting = _pairs(blocks)
    running = True
    for message in reversed(messages):
        content: JsonValue = message["content"]
        if isinstance(content, list):
            kept = paired | waiting if running else paired
            message["content"] = [_kept_or_text(block, kept, changes) for block in content]
        running = running and isinstance(content, list) and _is_answer(message["role"], content)


def _server_blocks(messages: list[JsonObject]) -> Iterator[tuple[str, JsonObject]]:
    """Yield the calls that the servers ran and their results, each with its message's role."""
    for message in messages:
        content: JsonValue = message["content"]
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict):
                continue
            kind = block.get("type")
            if isinstance(kind, str) and (kind in SERVED or kind.endswith("_tool_result")):
                yield message["role"], block


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


def _kept_or_text(block: JsonValue, kept: set[int], changes: list[Change]) -> JsonValue:
    if id(block) in kept:
        return block
    if is_server_result(block):
        text = f"[{block['type']}] {as_text(block.get('content'))}"
    elif is_server_call(block):
        text = f"[{block.get('name')} was called, no result came: {as_text(block.get('input'))}]"
    else:
        return block
    changes.append(Change("wrapped", "AN16", f"{block['type']} has no counterpart: kept as text"))
    return {"type": "text", "text": text}


def _is_answer(role: str, content: list[JsonValue]) -> bool:
    """Return whether a message holds nothing but results of the client's own tools."""
    return (
        role == "user"
        and bool(content)
        and all(isinstance(block, dict) and block.get("type") == "tool_result" for block in content)
    )
