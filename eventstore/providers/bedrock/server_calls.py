"""Calls of the service's own tools, which stand with their results in the assistant's turn."""

from __future__ import annotations

from itertools import groupby

from eventstore.domain.json_types import JsonObject
from eventstore.providers.bedrock.reading import is_client_block
from eventstore.providers.json_values import members_of
from eventstore.providers.model import Change


def leave_out_open_server_calls(messages: list[JsonObject], changes: list[Change]) -> None:
    """Take out calls whose result did not come, and results whose call is not there.

    In the last turn they stay: the service goes on with it.
    """
    turns = [[*run] for _, run in groupby(messages, lambda message: message["role"])]
    for turn in turns[:-1]:
        blocks = [block for message in turn for block in message["content"]]
        if turn[0]["role"] != "assistant" or not _ids(blocks):
            continue
        pairs = _ids(blocks, "toolUse") & _ids(blocks, "toolResult")
        for message in turn:
            whole: list[JsonObject] = message["content"]
            kept = [block for block in whole if _ids([block]) <= pairs]
            if len(kept) < len(whole):
                why = "a call of the service's own goes with its result, or not at all"
                changes.append(Change("dropped", "BE01", why))
                message["content"] = kept
    messages[:] = [message for message in messages if message["content"]]


def _ids(blocks: list[JsonObject], *kinds: str) -> set[str]:
    """Return the ids of the service's own calls, results, or both."""
    return {
        str(members_of(block[kind]).get("toolUseId"))
        for block in blocks
        for kind in kinds or ("toolUse", "toolResult")
        if kind in block and not is_client_block(block, kind)
    }
