"""The rules of Anthropic Messages, AN01 to AN22.

The API merges neighbouring messages of the same role into one turn before it pairs calls with
results. AN01 to AN04 look at turns, AN15 at the messages as they stand. A system message ends a
turn: where the API accepts one at all, it may not stand between a call and its result.

AN01 to AN05 pair `tool_use` with `tool_result`. Calls that the API's own servers run
(`server_tool_use`, `mcp_tool_use`) have their results in an assistant message, the same or a later
one. The specification names no code for them; here they are AN16, and calls of their code AN22.

A fault without a row of its own in the table is reported under the nearest one:

- AN08 also covers an `is_error` that is not a boolean;
- AN09 also covers content that is missing or of a wrong type, and text at the end of a final
  assistant message that ends in white space;
- AN13 also covers a history that is not a list, messages and blocks that are not objects, roles
  that do not exist, calls or results inside the content of a result, thinking without its signature
  or its text or in a user message, images and documents in an assistant message, and members that
  the client has added or renamed.
"""

from __future__ import annotations

import re
from itertools import dropwhile
from typing import TYPE_CHECKING, Final

from eventstore.providers.anthropic.history import NO_TURN, Block, History, Message, Turn, blocks_of
from eventstore.providers.anthropic.refusals import RULES
from eventstore.providers.anthropic.server_call_rules import (
    SERVER_CALLS,
    is_server_result,
    misplaced_programs,
    server_call_id,
    unnamed_toolsets,
    unpaired_server_calls,
)
from eventstore.providers.anthropic.shapes import CLIENT_MEMBERS, FOREIGN_KINDS, KINDS, RENAMED
from eventstore.providers.rules_reader import (
    apply_checks,
    is_list,
    is_object,
    listed,
    members_of,
    readable,
    repeated,
    text_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eventstore.providers.rule_book import Finding
    from eventstore.providers.rules_reader import Fault

__all__ = ["RULES", "findings"]

_MEMBERS: Final = frozenset({"role", "content"})
_UNKNOWN_TAG: Final = (
    "Input tag '{}' found using 'type' does not match any of the expected tags: 'text', 'image', …"
)
_ROLES: Final = frozenset({"user", "assistant", "system"})
_ROLE_OF_BLOCK: Final = {
    "tool_use": "assistant",
    "tool_result": "user",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "image": "user",
    "document": "user",
}
_MEDIA: Final = frozenset({"image", "document"})  # a result may hold them, too
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_SERVER_CALL_ID: Final = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
_MAX_NAME_LENGTH: Final = 200

_TEXT_MEMBERS: Final = 2  # of most texts: `type` and `text`
_WRONG_CONTENT: Final = "Input should be a valid string or list of content blocks"
_MARK: Final = "cache_control"
_MAX_MARKS: Final = 4
_TOO_MANY_MARKS: Final = "A maximum of 4 blocks with cache_control may be provided. Found {}."
_LATE_HOUR: Final = (
    "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
)
_REASONING: Final = frozenset({"thinking", "redacted_thinking"})
_NO_CONTENT: Final = (
    "all messages must have non-empty content except for the optional final assistant message"
)


_NAMED_KINDS: Final = KINDS | FOREIGN_KINDS | {None}
"""Types that are known, and those that AN13 names."""


def findings(messages: object) -> Iterator[Finding]:
    """Yield code, place and detail of everything in `messages` that breaks a rule."""
    if is_list(messages):
        yield from apply_checks(_CHECKS, History(messages))
    elif is_list(held := _messages_of_thread(messages)):
        yield from apply_checks(_CHECKS, History(held, is_continued=True))
    else:
        yield "AN13", "messages", "Input should be a valid list"


def _messages_of_thread(request: object) -> object:
    """Return the messages of a whole request that continues a thread which the server keeps."""
    members = members_of(request)
    is_continued = members_of(members.get("thread")).get("type") == "continue"
    return members.get("messages") if is_continued else None


def _unanswered_calls(history: History) -> Iterator[Fault]:
    """Check AN01: every call is answered in the user turn right after it."""
    for turn, after in history.pairs():
        for message in turn.messages:
            keys = (block.key for block in message.calls)
            unanswered = [key for key in keys if key not in after.answered]
            if unanswered:
                yield message.place, listed(unanswered)


def _results_without_calls(history: History) -> Iterator[Fault]:
    """Check AN02: every result answers a call of the assistant turn right before it.

    The first turn of a request that continues from a thread answers what the server keeps.
    """
    for before, turn in history.pairs():
        if history.is_continued and before is NO_TURN:
            continue
        for block in turn.results:
            if block.key not in before.asked:
                yield block.place, listed([block.key])


def _late_results(history: History) -> Iterator[Fault]:
    """Check AN03: in the turn that answers, the results come before any other block."""
    for before, turn in history.pairs():
        answering = turn.blocks if before.asked else ()
        for block in dropwhile(_is_result, answering):
            if _is_result(block):
                yield block.place, listed([block.key])


def _second_results(history: History) -> Iterator[Fault]:
    """Check AN04: no id is answered twice in one turn."""
    for turn in history.turns:
        for block in repeated(turn.results):
            yield block.place, listed([block.key])


def _repeated_calls(history: History) -> Iterator[Fault]:
    """Check AN05: the ids of calls are unique in the whole request.

    The id of a call whose result is tool references (a search for tools) must be unique within its
    turn only: the API was seen to answer requests that took such an id from an earlier turn.
    """
    seen: set[object] = set()
    for turn, after in history.pairs():
        here: set[object] = set()
        for message in turn.messages:
            for block in message.calls:
                if not isinstance(block.key, str):
                    continue
                if block.key in here or (block.key in seen and not _found_tools(after, block.key)):
                    yield block.place, listed([block.key])
                here.add(block.key)
        seen |= here


def _found_tools(turn: Turn, key: str) -> bool:
    """Return whether a turn answers a call with tool references."""
    return any(
        result.key == key
        and bool(result.inner)
        and all(each.kind == "tool_reference" for each in result.inner)
        for result in turn.results
    )


def _illegal_ids(history: History) -> Iterator[Fault]:
    """Check AN06: ids are text of legal characters; the API's own servers have a form of theirs."""
    for block in (*history.calls, *history.results):
        if not isinstance(block.key, str) or not _ID.fullmatch(block.key):
            member = "id" if block.kind == "tool_use" else "tool_use_id"
            yield f"{block.place}.{member}", r"^[a-zA-Z0-9_-]+$"
    for block in history.blocks:
        server_id = server_call_id(block) if block.kind == "server_tool_use" else None
        if server_id is not None and not _SERVER_CALL_ID.fullmatch(server_id):
            yield f"{block.place}.id", r"^srvtoolu_[a-zA-Z0-9_]+$"


def _untyped_inputs(history: History) -> Iterator[Fault]:
    """Check AN07: the input of a call is an object, also of one that the API's servers run."""
    served = (block for block in history.blocks if block.kind in SERVER_CALLS)
    for block in (*history.calls, *served):
        if not isinstance(block.body.get("input"), dict):
            yield f"{block.place}.input", ""


def _silent_errors(history: History) -> Iterator[Fault]:
    """Check AN08: a result that is an error says something, and shows nothing else."""
    for block in history.results:
        flag = block.body.get("is_error")
        if flag is True and _is_blank(block.body.get("content")):
            yield f"{block.place}.content", "content cannot be empty if `is_error` is true"
        elif flag is True and any(each.kind not in ("text", None) for each in block.inner):
            yield f"{block.place}.content", "all content must be type `text` if `is_error` is true"
        elif flag is not None and not isinstance(flag, bool):
            yield f"{block.place}.is_error", "Input should be a valid boolean"


def _is_blank(content: object) -> bool:
    """Return whether content says nothing: it is missing, blank text, or only blank text blocks."""
    if isinstance(content, str):
        return not content.strip()
    if is_list(content):
        return all(
            block.kind == "text" and _text_fault(block.body.get("text")) is not None
            for block in blocks_of("", content)
        )
    return content is None


def _empty_content(history: History) -> Iterator[Fault]:
    """Check AN09: messages hold content, except a final assistant one; text blocks hold text."""
    for message in history.messages:
        if message.role in _ROLES:
            yield from _message_content_faults(message, is_last=message is history.messages[-1])
    for block in history.results:
        content = block.body.get("content")
        if not (content is None or isinstance(content, (str, list))):
            yield f"{block.place}.content", _WRONG_CONTENT
    for block in (*history.blocks, *history.inner):
        fault = _text_fault(block.body.get("text")) if block.kind == "text" else None
        if fault is not None:
            yield block.place, fault
    for message in history.messages[-1:]:
        last = message.blocks[-1:] if message.role == "assistant" else []
        for block in last:
            text = block.body.get("text")
            if isinstance(text, str) and text.strip() and text[-1].isspace():
                yield block.place, "final assistant content cannot end with trailing whitespace"


def _message_content_faults(message: Message, *, is_last: bool) -> Iterator[Fault]:
    content = message.body.get("content")
    if not isinstance(content, (str, list)):
        yield f"{message.place}.content", _WRONG_CONTENT
    elif not content and not (is_last and message.role == "assistant"):
        yield message.place, _NO_CONTENT


def _text_fault(text: object) -> str | None:
    if not isinstance(text, str):
        return "Input should be a valid string"
    if not text:
        return "text content blocks must be non-empty"
    if not text.strip():
        return "text content blocks must contain non-whitespace text"
    return None


def _leading_system(history: History) -> Iterator[Fault]:
    """Check AN10: the first message is not a system message."""
    for message in history.messages[:1]:
        if message.role == "system":
            yield message.place, ""


def _any_system(history: History) -> Iterator[Fault]:
    """Check AN11: no message is a system message."""
    for message in history.messages:
        if message.role == "system" and not _changes_tools(message):
            yield message.place, ""


def _misplaced_system(history: History) -> Iterator[Fault]:
    """Check AN20: system messages inside stand between the user's turn and the assistant's."""
    for number, turn in enumerate(history.turns):
        if turn.messages[0].role != "system" or not number:
            continue
        before = history.turns[number - 1].messages[-1]
        after = history.turns[number + 1 :][:1]
        is_last = not after or after[0].messages[0].role == "assistant"
        if is_last and (before.role == "user" or _is_paused(before)):
            continue
        for message in turn.messages:
            if not _changes_tools(message):
                yield message.place, ""


def _any_tool_change(history: History) -> Iterator[Fault]:
    """Check AN11*: no message changes the tools."""
    for message in history.messages:
        if message.role == "system" and _changes_tools(message):
            yield message.place, ""


def _changes_tools(message: Message) -> bool:
    return any(block.kind in ("tool_addition", "tool_removal") for block in message.blocks)


def _leading_other(history: History) -> Iterator[Fault]:
    """Check AN12: the first message has the role user, or is a compaction of those before it."""
    for message in history.messages[:1]:
        if message.role != "user" and not _begins_with_compaction(message):
            yield message.place, ""


def _begins_with_compaction(message: Message) -> bool:
    kinds = [block.kind for block in message.blocks[:1]]
    return message.role == "assistant" and kinds == ["compaction"]


def _misplaced(history: History) -> Iterator[Fault]:
    """Check AN13: messages and blocks are well formed, and blocks stand under the right role."""
    for raw, message in zip(history.raw, history.messages, strict=True):
        if not isinstance(raw, dict):
            yield message.place, "Input should be an object"
        elif message.role not in _ROLES:
            yield f"{message.place}.role", 'Allowed roles are "user" or "assistant"'
        elif message.body.keys() != _MEMBERS:
            for extra in sorted(message.body.keys() - _MEMBERS, key=repr):
                yield f"{message.place}.{extra}", "Extra inputs are not permitted"
    yield from _misplaced_blocks(history)
    yield from _malformed_blocks(history)


def _malformed_blocks(history: History) -> Iterator[Fault]:
    for block in (*history.blocks, *history.inner):
        if block.kind is None:
            yield block.place, "Input should be an object with a `type`"
        elif block.kind == "text":
            is_plain = len(block.body) == _TEXT_MEMBERS
            for member in () if is_plain else CLIENT_MEMBERS.intersection(block.body):
                yield f"{block.place}.{member}", "Extra inputs are not permitted"
        elif block.kind == "thinking" and not text_or_none(block.body.get("signature")):
            yield f"{block.place}.signature", "Field required"
        elif block.kind == "thinking" and not isinstance(block.body.get("thinking"), str):
            yield f"{block.place}.thinking", "Field required"
        elif block.kind == "redacted_thinking" and not text_or_none(block.body.get("data")):
            yield f"{block.place}.data", "Field required"
        elif block.kind in FOREIGN_KINDS:
            yield block.place, _UNKNOWN_TAG.format(block.kind)
        elif (renamed := RENAMED.get(block.kind)) in block.body:
            yield f"{block.place}.{renamed}", "Extra inputs are not permitted"


def _unknown_kinds(history: History) -> Iterator[Fault]:
    """Check AN13*: each block has a type that the API's types list."""
    for block in (*history.blocks, *history.inner):
        if block.kind not in _NAMED_KINDS:
            yield block.place, _UNKNOWN_TAG.format(readable(block.kind))


def _misplaced_blocks(history: History) -> Iterator[Fault]:
    for message in history.messages:
        for block in message.blocks:
            role = _ROLE_OF_BLOCK.get(block.kind or "", message.role)
            if role != message.role:
                yield block.place, f"`{block.kind}` blocks can only be in `{role}` messages"
    for block in history.inner:
        if block.kind in _ROLE_OF_BLOCK and block.kind not in _MEDIA:
            yield block.place, f"`{block.kind}` blocks cannot be inside a `tool_result` block"


def _illegal_names(history: History) -> Iterator[Fault]:
    """Check AN14: a call names its tool."""
    for block in history.calls:
        name = block.body.get("name")
        if not isinstance(name, str) or not 1 <= len(name) <= _MAX_NAME_LENGTH:
            yield f"{block.place}.name", ""


def _split_results(history: History) -> Iterator[Fault]:
    """Check AN15: the message directly after a call's holds its result, without any merging.

    A call that has no result after merging either is reported as AN01 only.
    """
    for turn, after in history.pairs():
        followers = [*turn.messages[1:], after.messages[0]]
        for message, follower in zip(turn.messages, followers, strict=True):
            late = (message.asked & after.answered) - follower.answered
            if late:
                keys = (call.key for call in message.calls)
                yield message.place, listed(key for key in keys if key in late)


def _final_reasoning(history: History) -> Iterator[Fault]:
    """Check AN17: no turn of the assistant ends with reasoning."""
    for turn in history.turns:
        for block in turn.blocks[-1:]:
            if turn.messages[0].role == "assistant" and block.kind in _REASONING:
                yield block.place, block.kind or ""


def _cache_marks(history: History) -> Iterator[Fault]:
    """Check AN19: at most 4 blocks bear a cache mark, no reasoning does, and hours come first."""
    marked: list[Block] = []
    for block in history.blocks:
        if block.kind in _REASONING and _MARK in block.body:
            yield f"{block.place}.{_MARK}", "Extra inputs are not permitted"
        elif block.kind == "tool_result":
            marked += filter(_is_marked, block.inner)
        if block.kind not in _REASONING and _is_marked(block):
            marked.append(block)
    if len(marked) > _MAX_MARKS:
        yield "messages", _TOO_MANY_MARKS.format(len(marked))
    short = False
    for block in marked:
        mark = block.body[_MARK]
        is_long = is_object(mark) and mark.get("ttl") == "1h"
        if is_long and short:
            yield f"{block.place}.{_MARK}.ttl", _LATE_HOUR
        short = short or not is_long


def _is_marked(block: Block) -> bool:
    return block.body.get(_MARK) is not None


def _prefill(history: History) -> Iterator[Fault]:
    """Check AN18: the last message is not the assistant's, except one that the API had paused."""
    for message in history.messages[-1:]:
        kinds = [block.kind for block in message.blocks]
        if message.role == "assistant" and "tool_use" not in kinds and not _is_paused(message):
            yield message.place, ""


def _is_paused(message: Message) -> bool:
    return any(
        block.kind in SERVER_CALLS or block.kind == "compaction" or is_server_result(block)
        for block in message.blocks[-1:]
    )


def _is_result(block: Block) -> bool:
    return block.kind == "tool_result"


_CHECKS: Final[dict[str, Callable[[History], Iterator[Fault]]]] = {
    "AN01": _unanswered_calls,
    "AN02": _results_without_calls,
    "AN03": _late_results,
    "AN04": _second_results,
    "AN05": _repeated_calls,
    "AN06": _illegal_ids,
    "AN07": _untyped_inputs,
    "AN08": _silent_errors,
    "AN09": _empty_content,
    "AN10": _leading_system,
    "AN11": _any_system,
    "AN11*": _any_tool_change,
    "AN12": _leading_other,
    "AN13": _misplaced,
    "AN13*": _unknown_kinds,
    "AN14": _illegal_names,
    "AN15": _split_results,
    "AN16": unpaired_server_calls,
    "AN17": _final_reasoning,
    "AN18": _prefill,
    "AN19": _cache_marks,
    "AN20": _misplaced_system,
    "AN21": unnamed_toolsets,
    "AN22": misplaced_programs,
}
