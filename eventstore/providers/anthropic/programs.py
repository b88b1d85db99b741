"""Calls that the code of a provider's server made: the client runs them, and the code goes on.

1. The `caller` of a call names the server's call that runs the code; it stands before the call.
2. Nothing but results answers such calls. What the user said beside them follows the code's answer.
   Where nothing follows, as the code has answered before, the caller goes.
"""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.anthropic.reading import is_of_kind
from eventstore.providers.anthropic.server_calls import SERVED, is_server_call
from eventstore.providers.model import Change


def settle_programs(messages: list[JsonObject], changes: list[Change]) -> None:
    """Take out callers that are not there, and move the words beside results of code's calls."""
    if any(_drop_callers(messages, changes)):
        messages[:] = _with_words_later(messages, changes)


def _drop_callers(messages: list[JsonObject], changes: list[Change]) -> list[bool]:
    """Take out the callers that are not there; return a value for each caller that is."""
    ran: set[JsonValue] = set()
    found: list[bool] = []
    for block in _callers_and_called(messages):
        if is_server_call(block):
            if isinstance(block.get("id"), str):
                ran.add(block["id"])
            continue
        caller = _caller_of(block)
        if caller is not None and caller not in ran:
            del block["caller"]
            why = f"{caller!r} made the call, and is not there any more"
            changes.append(Change("dropped", "AN22", why))
        elif caller is not None:
            found.append(True)
    return found


def _callers_and_called(messages: list[JsonObject]) -> list[JsonObject]:
    """Return the server's calls, and the calls that name what made them."""
    found: list[JsonObject] = []
    for message in messages:
        content: JsonValue = message["content"]
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict):
                kind = block.get("type")
                if kind in SERVED or (kind == "tool_use" and "caller" in block):
                    found.append(block)
    return found


def _caller_of(block: JsonObject) -> str | None:
    """Return the server's call whose code made a call; None where the model made it."""
    caller: JsonValue = block.get("caller")
    name = caller.get("tool_id") if isinstance(caller, dict) else None
    return name if isinstance(name, str) else None


def _with_words_later(messages: list[JsonObject], changes: list[Change]) -> Iterator[JsonObject]:
    """Yield the messages, what stands beside results of code's calls in the next of the user."""
    made: list[JsonObject] = []  # calls by code, in the turn before
    words: list[JsonValue] = []
    for message in messages:
        content: JsonValue = message["content"]
        blocks: list[JsonValue] = content if isinstance(content, list) else []
        if message["role"] == "assistant":
            made = [b for b in blocks if is_of_kind(b, "tool_use") and _caller_of(b)]
        elif made and message["role"] == "user":
            results = [block for block in blocks if is_of_kind(block, "tool_result")]
            rest = _as_blocks(content)[len(results) :]
            if rest:
                changes.append(Change("moved", "AN22", "only results answer the calls of code"))
                words += rest
                message["content"] = results
        elif words:
            results = [block for block in blocks if is_of_kind(block, "tool_result")]
            message["content"] = [*results, *words, *_as_blocks(content)[len(results) :]]
            words = []
        if message["content"]:
            yield message
    if words:
        for call in made:
            why = f"{_caller_of(call)!r} made the call, and has answered before"
            changes.append(Change("dropped", "AN22", why))
            del call["caller"]
        yield {"role": "user", "content": words}


def _as_blocks(content: JsonValue) -> list[JsonValue]:
    """Return the blocks of a content, the results first."""
    if not isinstance(content, list):
        return [{"type": "text", "text": content}]
    return sorted(content, key=lambda block: not is_of_kind(block, "tool_result"))
