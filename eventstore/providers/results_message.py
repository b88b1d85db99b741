"""The message of a user that holds the results of a turn's calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.json_values import copy
from eventstore.providers.model import Turn


def results_message_for(
    turn: Turn,
    provider: str,
    key: str,
    results: list[JsonObject],
    copied: Callable[[Any], Any] = copy,
) -> JsonObject:
    """Return the user message with a turn's results, one for each call that is shown.

    It is the provider's own message where that is known. Its blocks are the member `key`.
    """
    results_message = turn.results_message
    if results_message is None or results_message.provider != provider:
        return {"role": "user", key: results}
    shown = (call.id for call in turn.calls if not call.hidden)
    by_call = dict(zip(shown, results, strict=True))
    ordered = [by_call[call_id] for call_id in results_message.call_ids]
    native = results_message.native if isinstance(results_message.native, dict) else {}
    blocks: JsonValue = native.get(key)
    if not isinstance(blocks, list) or blocks.count(None) != len(ordered):
        return {"role": "user", key: ordered}
    waiting = iter(ordered)
    filled = [next(waiting) if block is None else copied(block) for block in blocks]
    return {name: filled if name == key else copied(value) for name, value in native.items()}
