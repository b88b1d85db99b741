"""The rules of Anthropic Messages, AN01 to AN19.

The API merges neighbouring messages of the same role into one turn before it pairs calls with
results. AN01 to AN04 look at turns, AN15 at the messages as they stand. A system message ends a
turn: where the API accepts one at all, it may not stand between a call and its result.

AN01 to AN05 pair `tool_use` with `tool_result`. Calls that the API's own servers run
(`server_tool_use`, `mcp_tool_use`) have their results in an assistant message, the same or a later
one. The specification names no code for them; here they are AN16.

A fault without a row of its own in the table is reported under the nearest one:

- AN08 also covers an `is_error` that is not a boolean;
- AN09 also covers content that is missing or of a wrong type, and text at the end of a final
  assistant message that ends in white space;
- AN13 also covers a history that is not a list, messages and blocks that are not objects, roles
  that do not exist, calls or results inside the content of a result, thinking without its signature
  or in a user message, and images and documents in an assistant message.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import dropwhile, groupby, starmap
from typing import TYPE_CHECKING, Final

import msgspec

from eventstore.providers.anthropic.shapes import FOREIGN_KINDS
from eventstore.providers.rules_reader import (
    Members,
    apply_checks,
    is_list,
    is_object,
    listed,
    members_of,
    pairing_key,
    readable,
    repeated,
    text_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from eventstore.providers.rule_book import Finding, Rule
    from eventstore.providers.rules_reader import Fault

__all__ = ["RULES", "findings"]

RULES: Final[dict[str, Rule]] = {
    "AN01": (
        "hard",
        (
            "{path}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            "{detail}. Each `tool_use` block must have a corresponding `tool_result` block in the "
            "next message."
        ),
        (
            "put a tool_result for each of these ids at the front of the next user message, "
            "or take the calls out"
        ),
    ),
    "AN02": (
        "hard",
        (
            "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {detail}. "
            "Each `tool_result` block must have a corresponding `tool_use` block "
            "in the previous message."
        ),
        "move the result to the user message right after its call, or keep its text as text",
    ),
    "AN03": (
        "hard",
        (
            "{path}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            "{detail}. Each `tool_use` block must have a corresponding `tool_result` block in the "
            "next message."
        ),
        "move the tool_result blocks of the turn in front of its other blocks",
    ),
    "AN04": (
        "hard",
        (
            "{path}: each tool_use must have a single result. Found multiple `tool_result` blocks "
            "with id: {detail}"
        ),
        "keep one tool_result per call; where two calls share the id, give each its own",
    ),
    "AN05": (
        "hard",
        "{path}: `tool_use` ids must be unique: {detail}",
        "give the later call and its result an id of their own",
    ),
    "AN06": (
        "hard",
        "{path}: String should match pattern '{detail}'",
        (
            "replace every other character by '_' in the same way on call and result, "
            "keeping different ids different"
        ),
    ),
    "AN07": (
        "hard",
        "{path}: Input should be a valid dictionary",
        "send the arguments as an object; wrap any other value in one",
    ),
    "AN08": (
        "hard",
        "{path}: {detail}",
        "say in the content what went wrong, and show what else there is behind the results",
    ),
    "AN09": (
        "hard",
        "{path}: {detail}",
        "leave the blank text or the empty message out, or write a word in its place",
    ),
    "AN10": (
        "hard",
        (
            '{path}: Unexpected role "system". The Messages API accepts a top-level `system` '
            "parameter."
        ),
        "send the text as the `system` parameter",
    ),
    "AN11": (
        "strict",
        (
            '{path}: Unexpected role "system". Models without mid-conversation system messages '
            "refuse it."
        ),
        "send the text as the `system` parameter, or as a user message",
    ),
    "AN20": (
        "hard",
        (
            "{path}: a system message must follow a user message, or an assistant message that "
            "ends with a tool of the server, and an assistant message must follow it."
        ),
        "move it after what the user said, or send its text as a user message",
    ),
    "AN11*": (
        "strict",
        '{path}: Unexpected role "system". Models without changes of tools refuse it.',
        "declare the tools in the `tools` parameter alone",
    ),
    "AN12": (
        "strict",
        "{path}: the first message must have role `user`",
        "begin the messages with what the user said",
    ),
    "AN13": (
        "hard",
        "{path}: {detail}",
        (
            "keep calls in assistant messages and results in user messages, each block an object "
            "with a type"
        ),
    ),
    "AN14": (
        "hard",
        "{path}: String should have between 1 and 200 characters",
        "send the name under which the tool was offered",
    ),
    "AN15": (
        "strict",
        "{path}: the next message alone does not hold the `tool_result` blocks of: {detail}",
        "merge same-role neighbours, so that one message holds all the results",
    ),
    "AN16": (
        "hard",
        "{path}: {detail}",
        (
            "keep a call that the provider's own servers ran and its result together, "
            "or leave both out"
        ),
    ),
    "AN17": (
        "hard",
        "{path}: The final block in an assistant message cannot be `{detail}`.",
        "leave out reasoning that nothing came of",
    ),
    "AN18": (
        "strict",
        (
            "{path}: This model does not support assistant message prefill. The conversation must "
            "end with a user message."
        ),
        "end with what the model is to answer; `prefill=False` adds that nothing was said since",
    ),
    "AN19": (
        "hard",
        "{path}: {detail}",
        "keep the 4 newest marks, none of them on reasoning, and none of 1h after one of 5m",
    ),
}
"""Code to level, the API's words and the remedy."""

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
_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_MAX_NAME_LENGTH: Final = 200
_NO_KEYS: Final[frozenset[object]] = frozenset()

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


def findings(messages: object) -> Iterator[Finding]:
    """Yield code, place and detail of everything in `messages` that breaks a rule."""
    if is_list(messages):
        yield from apply_checks(_CHECKS, _History(messages))
    elif is_list(held := _messages_of_thread(messages)):
        yield from apply_checks(_CHECKS, _History(held, is_continued=True))
    else:
        yield "AN13", "messages", "Input should be a valid list"


def _messages_of_thread(request: object) -> object:
    """Return the messages of a whole request that goes on from a thread which the server keeps."""
    members = members_of(request)
    is_continued = members_of(members.get("thread")).get("type") == "continue"
    return members.get("messages") if is_continued else None


class _Block(msgspec.Struct, frozen=True, gc=False):
    """A content block; content that is one text counts as one text block."""

    parent: str
    item: int | None
    kind: str | None
    body: Members
    key: object
    """What pairs a call with its result."""
    inner: Sequence[_Block] = ()
    """The blocks in a result; text alone is not one of them, as it may be blank there."""

    @property
    def place(self) -> str:
        """Return the path to the block; only a fault asks for it."""
        return self.parent if self.item is None else f"{self.parent}[{self.item}]"


def _blocks(parent: str, content: object) -> Iterator[_Block]:
    if isinstance(content, str) and content:
        yield _Block(parent, None, "text", {"type": "text", "text": content}, None)
    if not is_list(content):
        return
    for index, block in enumerate(content):
        body = members_of(block)
        kind = text_or_none(body.get("type"))
        if kind == "tool_use":
            yield _Block(parent, index, kind, body, pairing_key(body.get("id")))
            continue
        key = pairing_key(body.get("tool_use_id"))
        inner: Sequence[_Block] = ()
        if kind == "tool_result" and is_list(body.get("content")):
            inner = list(_blocks(f"{parent}[{index}].content", body.get("content")))
        yield _Block(parent, index, kind, body, key, inner)


class _Message:
    """A message; a value that is not an object is read as a message without members.

    `asked` and `answered` are the pairing keys of its calls and of its results; none where its role
    may not hold them.
    """

    __slots__ = ("answered", "asked", "blocks", "body", "calls", "place", "results", "role")

    def __init__(self, index: int, message: object) -> None:
        self.place = f"messages[{index}]"
        self.body = members_of(message)
        self.role = text_or_none(self.body.get("role"))
        self.blocks = list(_blocks(f"{self.place}.content", self.body.get("content")))
        self.calls = [block for block in self.blocks if block.kind == "tool_use"]
        self.results = [block for block in self.blocks if block.kind == "tool_result"]
        self.asked = _keys(self.calls) if self.role == "assistant" else _NO_KEYS
        self.answered = _keys(self.results) if self.role == "user" else _NO_KEYS


class _Turn:
    """Neighbouring messages of one role, which the API merges."""

    __slots__ = ("answered", "asked", "blocks", "messages", "results")

    def __init__(self, messages: Sequence[_Message]) -> None:
        self.messages = messages
        only = messages[0]
        self.blocks: Sequence[_Block] = only.blocks
        self.results: Sequence[_Block] = only.results
        self.asked, self.answered = only.asked, only.answered
        if len(messages) > 1:
            self.blocks = [block for message in messages for block in message.blocks]
            self.results = [block for message in messages for block in message.results]
            self.asked = _NO_KEYS.union(*(message.asked for message in messages))
            self.answered = _NO_KEYS.union(*(message.answered for message in messages))


def _keys(blocks: list[_Block]) -> frozenset[object]:
    return frozenset([block.key for block in blocks]) if blocks else _NO_KEYS


_NO_MESSAGE: Final = _Message(0, None)
_NO_TURN: Final = _Turn([_NO_MESSAGE])


class _History:
    """A message list, read turn by turn as the checks ask for it.

    So the first check finds a fault without the messages behind it.
    """

    def __init__(self, raw: list[object], *, is_continued: bool = False) -> None:
        self.raw = raw
        self.is_continued = is_continued
        self._turns: list[_Turn] = []
        groups = groupby(starmap(_Message, enumerate(raw)), lambda each: each.role)
        self._unread = (_Turn(list(group)) for _, group in groups)

    def pairs(self) -> Iterator[tuple[_Turn, _Turn]]:
        """Yield each turn with the one after it, an empty turn at either end."""
        before = _NO_TURN
        for turn in self._each_turn():
            yield before, turn
            before = turn
        yield before, _NO_TURN

    def _each_turn(self) -> Iterator[_Turn]:
        yield from self._turns
        for turn in self._unread:
            self._turns.append(turn)
            yield turn

    @cached_property
    def turns(self) -> list[_Turn]:
        return list(self._each_turn())

    @cached_property
    def messages(self) -> list[_Message]:
        return [message for turn in self.turns for message in turn.messages]

    @cached_property
    def blocks(self) -> list[_Block]:
        return [block for turn in self.turns for block in turn.blocks]

    @cached_property
    def calls(self) -> list[_Block]:
        return [block for message in self.messages for block in message.calls]

    @cached_property
    def results(self) -> list[_Block]:
        return [block for turn in self.turns for block in turn.results]

    @cached_property
    def inner(self) -> list[_Block]:
        return [block for result in self.results for block in result.inner]


def _unanswered_calls(history: _History) -> Iterator[Fault]:
    """Check AN01: every call is answered in the user turn right after it."""
    for turn, after in history.pairs():
        for message in turn.messages:
            keys = (block.key for block in message.calls)
            unanswered = [key for key in keys if key not in after.answered]
            if unanswered:
                yield message.place, listed(unanswered)


def _results_without_calls(history: _History) -> Iterator[Fault]:
    """Check AN02: every result answers a call of the assistant turn right before it.

    The first turn of a request that goes on from a thread answers what the server keeps.
    """
    for before, turn in history.pairs():
        if history.is_continued and before is _NO_TURN:
            continue
        for block in turn.results:
            if block.key not in before.asked:
                yield block.place, listed([block.key])


def _late_results(history: _History) -> Iterator[Fault]:
    """Check AN03: in the turn that answers, the results come before any other block."""
    for before, turn in history.pairs():
        answering = turn.blocks if before.asked else ()
        for block in dropwhile(_is_result, answering):
            if _is_result(block):
                yield block.place, listed([block.key])


def _second_results(history: _History) -> Iterator[Fault]:
    """Check AN04: no id is answered twice in one turn."""
    for turn in history.turns:
        for block in repeated(turn.results):
            yield block.place, listed([block.key])


def _repeated_calls(history: _History) -> Iterator[Fault]:
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


def _found_tools(turn: _Turn, key: str) -> bool:
    """Return whether a turn answers a call with tool references."""
    return any(
        result.key == key
        and bool(result.inner)
        and all(each.kind == "tool_reference" for each in result.inner)
        for result in turn.results
    )


def _illegal_ids(history: _History) -> Iterator[Fault]:
    """Check AN06: ids are text of legal characters; the API's own servers have a form of theirs."""
    for block in (*history.calls, *history.results):
        if not isinstance(block.key, str) or not _ID.fullmatch(block.key):
            member = "id" if block.kind == "tool_use" else "tool_use_id"
            yield f"{block.place}.{member}", r"^[a-zA-Z0-9_-]+$"
    for block in history.blocks:
        server_id = _server_call_id(block) if block.kind == "server_tool_use" else None
        if server_id is not None and not _SERVER_CALL_ID.fullmatch(server_id):
            yield f"{block.place}.id", r"^srvtoolu_[a-zA-Z0-9_]+$"


def _untyped_inputs(history: _History) -> Iterator[Fault]:
    """Check AN07: the input of a call is an object, also of one that the API's servers run."""
    served = (block for block in history.blocks if block.kind in _SERVER_CALLS)
    for block in (*history.calls, *served):
        if not isinstance(block.body.get("input"), dict):
            yield f"{block.place}.input", ""


def _silent_errors(history: _History) -> Iterator[Fault]:
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
            for block in _blocks("", content)
        )
    return content is None


def _empty_content(history: _History) -> Iterator[Fault]:
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


def _message_content_faults(message: _Message, *, is_last: bool) -> Iterator[Fault]:
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


def _leading_system(history: _History) -> Iterator[Fault]:
    """Check AN10: the first message is not a system message."""
    for message in history.messages[:1]:
        if message.role == "system":
            yield message.place, ""


def _any_system(history: _History) -> Iterator[Fault]:
    """Check AN11: no message is a system message."""
    for message in history.messages:
        if message.role == "system" and not _changes_tools(message):
            yield message.place, ""


def _misplaced_system(history: _History) -> Iterator[Fault]:
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


def _any_tool_change(history: _History) -> Iterator[Fault]:
    """Check AN11*: no message changes the tools."""
    for message in history.messages:
        if message.role == "system" and _changes_tools(message):
            yield message.place, ""


def _changes_tools(message: _Message) -> bool:
    return any(block.kind in ("tool_addition", "tool_removal") for block in message.blocks)


def _leading_other(history: _History) -> Iterator[Fault]:
    """Check AN12: the first message has the role user, or is a compaction of those before it."""
    for message in history.messages[:1]:
        if message.role != "user" and not _begins_with_compaction(message):
            yield message.place, ""


def _begins_with_compaction(message: _Message) -> bool:
    kinds = [block.kind for block in message.blocks[:1]]
    return message.role == "assistant" and kinds == ["compaction"]


def _misplaced(history: _History) -> Iterator[Fault]:
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


def _malformed_blocks(history: _History) -> Iterator[Fault]:
    for block in (*history.blocks, *history.inner):
        if block.kind is None:
            yield block.place, "Input should be an object with a `type`"
        elif block.kind == "thinking" and not text_or_none(block.body.get("signature")):
            yield f"{block.place}.signature", "Field required"
        elif block.kind == "redacted_thinking" and not text_or_none(block.body.get("data")):
            yield f"{block.place}.data", "Field required"
        elif block.kind in FOREIGN_KINDS:
            yield block.place, _UNKNOWN_TAG.format(block.kind)


def _misplaced_blocks(history: _History) -> Iterator[Fault]:
    for message in history.messages:
        for block in message.blocks:
            role = _ROLE_OF_BLOCK.get(block.kind or "", message.role)
            if role != message.role:
                yield block.place, f"`{block.kind}` blocks can only be in `{role}` messages"
    for block in history.inner:
        if block.kind in _ROLE_OF_BLOCK and block.kind not in _MEDIA:
            yield block.place, f"`{block.kind}` blocks cannot be inside a `tool_result` block"


def _illegal_names(history: _History) -> Iterator[Fault]:
    """Check AN14: a call names its tool."""
    for block in history.calls:
        name = block.body.get("name")
        if not isinstance(name, str) or not 1 <= len(name) <= _MAX_NAME_LENGTH:
            yield f"{block.place}.name", ""


def _split_results(history: _History) -> Iterator[Fault]:
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


def _unpaired_server_calls(history: _History) -> Iterator[Fault]:
    """Check AN16: each call that the API's servers run has its one result after it.

    The result may still be missing while only results of the client's own tools follow the call.
    """
    results = (block for block in history.blocks if _is_server_result(block))
    answered = set(map(_server_call_id, results)) - {None}
    asked: set[str | None] = set()
    seen: set[str | None] = set()
    last = _number_of_last_turn(history)
    for number, message in enumerate(history.messages, 1):
        for block in message.blocks:
            is_call = block.kind in _SERVER_CALLS
            if not is_call and not _is_server_result(block):
                continue
            call_id = _server_call_id(block)
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


def _final_reasoning(history: _History) -> Iterator[Fault]:
    """Check AN17: no turn of the assistant ends with reasoning."""
    for turn in history.turns:
        for block in turn.blocks[-1:]:
            if turn.messages[0].role == "assistant" and block.kind in _REASONING:
                yield block.place, block.kind or ""


def _cache_marks(history: _History) -> Iterator[Fault]:
    """Check AN19: at most 4 blocks bear a cache mark, no reasoning does, and hours come first."""
    marked: list[_Block] = []
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


def _is_marked(block: _Block) -> bool:
    return block.body.get(_MARK) is not None


def _prefill(history: _History) -> Iterator[Fault]:
    """Check AN18: the last message is not the assistant's, except one that the API had paused."""
    for message in history.messages[-1:]:
        kinds = [block.kind for block in message.blocks]
        if message.role == "assistant" and "tool_use" not in kinds and not _is_paused(message):
            yield message.place, ""


def _is_paused(message: _Message) -> bool:
    return any(
        block.kind in _SERVER_CALLS or block.kind == "compaction" or _is_server_result(block)
        for block in message.blocks[-1:]
    )


def _number_of_last_turn(history: _History) -> int:
    """Return the number of the last message that holds more than results of the client's tools."""
    number = len(history.messages)
    while number and _holds_only_results(history.messages[number - 1]):
        number -= 1
    return number


def _missing_server_result(block: _Block) -> str:
    name = block.body.get("name") if block.kind == "server_tool_use" else block.kind
    return (
        f"`{readable(name)}` tool use with id {listed([_server_call_id(block)])} was found "
        "without a corresponding result block"
    )


def _missing_server_call(block: _Block) -> str:
    return (
        f"unexpected `tool_use_id` found in `{block.kind}` blocks: "
        f"{listed([_server_call_id(block)])}. Each must have its call before it."
    )


def _is_server_result(block: _Block) -> bool:
    return (block.kind or "").endswith("_tool_result")


def _server_call_id(block: _Block) -> str | None:
    return text_or_none(block.body.get("id" if block.kind in _SERVER_CALLS else "tool_use_id"))


def _holds_only_results(message: _Message) -> bool:
    return message.role == "user" and bool(message.blocks) and all(map(_is_result, message.blocks))


def _is_result(block: _Block) -> bool:
    return block.kind == "tool_result"


_CHECKS: Final[dict[str, Callable[[_History], Iterator[Fault]]]] = {
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
    "AN14": _illegal_names,
    "AN15": _split_results,
    "AN16": _unpaired_server_calls,
    "AN17": _final_reasoning,
    "AN18": _prefill,
    "AN19": _cache_marks,
    "AN20": _misplaced_system,
}
