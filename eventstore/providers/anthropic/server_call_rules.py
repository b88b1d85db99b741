"""The rules of Anthropic about calls that its own servers run or make, and about toolsets.

AN16: each call that the servers run has its one result after it.
AN21: the result of a call names the toolset of the call.
AN22: a call that the code of a server made stands behind the call that runs this code, and the user
says nothing beside its result: the code goes on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eventstore.providers.rules_reader import listed, members_of, readable, text_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventstore.providers.anthropic.history import Block, History, Message
    from eventstore.providers.rules_reader import Fault

SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_TOOLSET: Final = "toolset_name"


def unpaired_server_calls(history: History) -> Iterator[Fault]:
    """Check AN16: each call that the API's servers run has its one result after it.

    The result may still be missing while only results of the client's own tools follow the call.
    """
    results = (block for block in history.blocks if is_server_result(block))
    answered = set(map(server_call_id, results)) - {None}
    asked: set[str | None] = set()
    seen: set[str | None] = set()
    last = _number_of_last_turn(history)
    for number, message in enumerate(history.messages, 1):
        for block in message.blocks:
            is_call = block.kind in SERVER_CALLS
            if not is_call and not is_server_result(block):
                continue
            call_id = server_call_id(block)
            if message.role != "assistant":
                yield block.place, f"`{block.kind}` blocks can only be in `assistant` messages"
            elif is_call and number < last and call_id not in answered:
                yield block.place, _missing_server_result(block)
            elif is_call and call_id in asked:
                yield block.place, f"`{block.kind}` ids must be unique: {listed([call_id])}"
            elif not is_call and (call_id is None or call_id not in asked):
                yield block.place, _missing_server_call(block)
            elif not is_call and call_id in seen:
                yield block.place, f"a second result of {listed([call_id])}"
            (asked if is_call else seen).add(call_id)


def unnamed_toolsets(history: History) -> Iterator[Fault]:
    """Check AN21: a result names the toolset of its call, and none where the call has none."""
    if not any(_TOOLSET in block.body for block in (*history.calls, *history.results)):
        return
    for before, turn in history.pairs():
        calls = [block for message in before.messages for block in message.calls]
        toolsets = {call.key: call.body.get(_TOOLSET) for call in calls}
        for result in turn.results:
            named, toolset = result.body.get(_TOOLSET), toolsets.get(result.key)
            if result.key in toolsets and named != toolset:
                yield f"{result.place}.{_TOOLSET}", f"{readable(toolset)}, not {readable(named)}"


def misplaced_programs(history: History) -> Iterator[Fault]:
    """Check AN22: the caller of a call is there, and only results answer such calls."""
    if history.is_continued or not any("caller" in block.body for block in history.calls):
        return
    ran: set[str] = set()
    for turn, after in history.pairs():
        made: set[object] = set()
        for block in turn.blocks:
            if block.kind in SERVER_CALLS:
                ran.add(server_call_id(block) or "")
            caller = _caller_of(block) if block.kind == "tool_use" else None
            if caller is None:
                continue
            made.add(block.key)
            if caller not in ran:
                yield f"{block.place}.caller", f"no call {listed([caller])} is before it"
        beside = [block for block in after.blocks if block.kind != "tool_result"]
        if beside and not made.isdisjoint(after.answered):
            yield beside[0].place, "only results may answer the calls that code has made"


def _caller_of(block: Block) -> str | None:
    """Return the call of the server that made a call; None where the model made it."""
    return text_or_none(members_of(block.body.get("caller")).get("tool_id"))


def _number_of_last_turn(history: History) -> int:
    """Return the number of the last message that holds more than results of the client's tools."""
    number = len(history.messages)
    while number and _holds_only_results(history.messages[number - 1]):
        number -= 1
    return number


def _missing_server_result(block: Block) -> str:
    name = block.body.get("name") if block.kind == "server_tool_use" else block.kind
    return (
        f"`{readable(name)}` tool use with id {listed([server_call_id(block)])} was found "
        "without a corresponding result block"
    )


def _missing_server_call(block: Block) -> str:
    return (
        f"unexpected `tool_use_id` found in `{block.kind}` blocks: "
        f"{listed([server_call_id(block)])}. Each must have its call before it."
    )


def is_server_result(block: Block) -> bool:
    """Return whether a block is the result of a call that the API's servers ran."""
    return (block.kind or "").endswith("_tool_result")


def server_call_id(block: Block) -> str | None:
    """Return the id of a call of the API's servers, or that which a result of theirs names."""
    return text_or_none(block.body.get("id" if block.kind in SERVER_CALLS else "tool_use_id"))


def _holds_only_results(message: Message) -> bool:
    return (
        message.role == "user"
        and bool(message.blocks)
        and all(block.kind == "tool_result" for block in message.blocks)
    )
