"""The rules of Amazon Bedrock's Converse, BE01 to BE03.

The service merges neighbours of the assistant before it pairs calls with results, but wants all
results of a turn in one message. Calls of the service's own tools (`server_tool_use`) and their
results come and go inside one assistant turn, and are paired with nothing.

A starred code is the same rule where only some refuse: a model, an older service model, or a
literal reading. The service was seen to answer blank and empty results (not of errors), some
models refuse JSON that is no object, and since 2026 the service model takes `.` and `:` in ids. A
fault for which the table has no row of its own goes to the nearest one:

- BE01 also takes calls of a user and results of an assistant;
- BE02 also takes content, blocks and results that are none, errors that say nothing, and documents
  without a text beside them;
- BE03 also takes names of tools, roles that do not exist, and a history that is no list.
"""

from __future__ import annotations

import re
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Fault = tuple[str, str]  # place and detail

__all__ = ["RULES", "TOLERATED", "findings"]

_ONE_MESSAGE: Final = "put the toolResult blocks of a turn into the one user message right after it"
_WORDS: Final = "send arguments as an object; leave out what is blank, or write a word in its place"

RULES: Final[dict[str, tuple[Literal["hard", "strict"], str, str]]] = {
    "BE01": ("hard", "{detail}", _ONE_MESSAGE),
    "BE01*": ("strict", "{detail}", _ONE_MESSAGE),
    "BE02": ("hard", "{detail}", _WORDS),
    "BE02*": ("strict", "{detail}", _WORDS),
    "BE03": (
        "hard",
        "{detail}",
        (
            "begin with a user message, give call and result the same id of 1 to 64 characters "
            "of [a-zA-Z0-9_-], and each tool such a name"
        ),
    ),
    "BE03**": (
        "strict",
        "{detail}",
        "declare the tools in `toolConfig` alone",
    ),
    "BE03*": (
        "strict",
        "{detail}",
        (
            "replace every other character than [a-zA-Z0-9_-] in the same way on call and result, "
            "and send system text as the `system` parameter"
        ),
    ),
}
"""Code to level, the service's words and the remedy."""

TOLERATED: Final = frozenset({"BE03**"})
"""A change of tools has no other form: the models that know it answer it."""

_ROLES: Final = frozenset({"user", "assistant", "system"})
_HOME: Final = {"toolUse": "assistant", "toolResult": "user"}
_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_OLD_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_SHOWN: Final = 80


def findings(messages: object) -> Iterator[tuple[str, str, str]]:
    """Code, place and detail of everything in `messages` that breaks a rule."""
    if not isinstance(messages, list):
        yield "BE03", "messages", f"messages must be a list, but is {_shown(messages)}."
        return
    history = _History(messages)
    for code, check in _CHECKS.items():
        for place, detail in check(history):
            yield code, place, detail


class _Block(NamedTuple):
    """A content block: a union, whose one member names its kind."""

    place: str
    path: str
    kind: str | None
    body: Any
    raw: object

    @property
    def inner(self) -> dict[object, Any]:
        return self.body if isinstance(self.body, dict) else {}

    @property
    def is_ours(self) -> bool:
        """Whether it is a call, or a result, of a tool that the service does not run itself."""
        if self.kind == "toolUse":
            return self.inner.get("type") != "server_tool_use"
        return self.kind == "toolResult" and self.inner.get("type") is None

    @property
    def key(self) -> object:
        """What pairs call and result: the id, or its type where it is no text (or absent)."""
        value = self.inner.get("toolUseId")
        return value if isinstance(value, str) else type(value)


class _Message(NamedTuple):
    """A message; what is no object is read as an empty one."""

    place: str
    path: str
    role: str | None
    body: dict[object, Any]
    blocks: list[_Block]

    def ours(self, kind: str) -> list[_Block]:
        """The calls or results that are paired, where the role may hold them."""
        if self.role != _HOME[kind]:
            return []
        return [block for block in self.blocks if block.kind == kind and block.is_ours]


class _Turn(NamedTuple):
    """Neighbours of the assistant, merged, or one other message; and the message after it."""

    messages: list[_Message]
    after: _Message

    @property
    def calls(self) -> list[_Block]:
        return [block for message in self.messages for block in message.ours("toolUse")]


_NO_MESSAGE: Final = _Message("", "", None, {}, [])


class _History:
    """A message list, read once into what the checks look at."""

    def __init__(self, raw: list[object]) -> None:
        self.raw = raw
        self.messages = [_message(index, message) for index, message in enumerate(raw)]
        self.blocks = [block for message in self.messages for block in message.blocks]
        self.calls = [block for block in self.blocks if block.kind == "toolUse"]
        self.results = [block for block in self.blocks if block.kind == "toolResult"]
        self.turns = list(_turns(self.messages))


def _message(index: int, message: object) -> _Message:
    body: dict[object, Any] = message if isinstance(message, dict) else {}
    place, path = f"messages[{index}]", f"messages.{index}"
    content, role = body.get("content"), body.get("role")
    blocks = list(_blocks(f"{place}.content", f"{path}.content", content))
    return _Message(place, path, role if isinstance(role, str) else None, body, blocks)


def _blocks(place: str, path: str, content: object) -> Iterator[_Block]:
    for index, block in enumerate(content if isinstance(content, list) else ()):
        kind, body = next(iter(block.items()), (None, None)) if isinstance(block, dict) else _NONE
        name = kind if isinstance(kind, str) else None
        yield _Block(f"{place}[{index}]", f"{path}.{index}", name, body, block)


_NONE: Final = (None, None)


def _turns(messages: list[_Message]) -> Iterator[_Turn]:
    groups: list[list[_Message]] = []
    for role, run in groupby(messages, lambda each: each.role):
        neighbours = list(run)
        groups += [neighbours] if role == "assistant" else [[each] for each in neighbours]
    for group, after in zip_longest(groups, groups[1:]):
        yield _Turn(group, after[0] if after else _NO_MESSAGE)


def _unpaired(history: _History) -> Iterator[Fault]:
    """BE01: the message after a turn holds one result for each of its calls, and no other."""
    asked: set[object] = set()
    for turn in history.turns:
        for message in turn.messages:
            yield from _unasked(message, asked)
        calls = turn.calls
        asked = {call.key for call in calls}
        answered = {result.key for result in turn.after.ours("toolResult")}
        for message in turn.messages:
            missing = [call.key for call in message.ours("toolUse") if call.key not in answered]
            if missing:
                yield (
                    message.place,
                    (
                        f"Expected toolResult blocks at {_next(turn)}.content for the "
                        f"following Ids: {_listed(missing)}"
                    ),
                )
        yield from _repeated(calls, "Duplicate toolUseId {} at {}.")
    for message in history.messages:
        for block in message.blocks:
            if block.is_ours and message.role != _HOME[block.kind or ""]:
                home = _HOME[block.kind or ""]
                yield block.place, f"{block.path}: {block.kind} belongs in {home} messages."


def _next(turn: _Turn) -> str:
    """Where the results should stand: also where there is no such message."""
    return turn.after.path or f"{turn.messages[-1].path} + 1"


def _unasked(message: _Message, asked: set[object]) -> Iterator[Fault]:
    results = message.ours("toolResult")
    words = (
        f"The number of toolResult blocks at {message.path}.content exceeds the number of toolUse "
        "blocks of previous turn."
    )
    for result in results:
        if result.key not in asked:
            yield result.place, f"{words} ({_listed([result.key])} answers no call there)"
    yield from _repeated(results, words + " ({} comes twice)")


def _repeated(blocks: Iterable[_Block], words: str) -> Iterator[Fault]:
    seen: set[object] = set()
    for block in blocks:
        if block.key in seen and isinstance(block.key, str):
            yield block.place, words.format(_listed([block.key]), block.path)
        seen.add(block.key)


def _split_calls(history: _History) -> Iterator[Fault]:
    """BE01*: the message directly after a call's holds its result, without any merging."""
    for turn in history.turns:
        for message in turn.messages[:-1]:
            calls = message.ours("toolUse")
            if calls:
                ids = _listed(call.key for call in calls)
                yield (
                    message.place,
                    (
                        f"Expected toolResult blocks right after {message.path} for the following "
                        f"Ids: {ids}"
                    ),
                )


def _malformed(history: _History) -> Iterator[Fault]:
    """BE02: messages hold blocks, text says something, and the input of a call is an object."""
    for raw, message in zip(history.raw, history.messages, strict=True):
        content, place = message.body.get("content"), f"{message.place}.content"
        if not isinstance(raw, dict):
            yield message.place, f"{message.path} must be an object, but is {_shown(raw)}."
        elif not isinstance(content, list):
            yield place, f"{message.path}.content must be a list, but is {_shown(content)}."
        elif not content:
            yield (
                place,
                (
                    f"The content field in the Message object at {message.path} is empty. Add a "
                    "ContentBlock object to the content field and try again."
                ),
            )
        kinds = {block.kind for block in message.blocks}
        if "document" in kinds and "text" not in kinds:
            yield place, f"{message.path}: A text block must be included when using documents."
    for block in history.blocks:
        yield from _malformed_block(block)
        yield from _unsaid(block)
    for call in history.calls:
        if not isinstance(call.inner.get("input"), dict):
            yield (
                f"{call.place}.toolUse.input",
                (f"The value at {call.path}.toolUse.input is invalid. Provide a json object."),
            )
    for result in history.results:
        yield from _malformed_result(result)


def _unsaid(block: _Block) -> Iterator[Fault]:
    """What a result may hold, but no message."""
    if block.kind == "json":
        yield block.place, f"{block.path}: only a result holds json."
    if block.kind == "text" and isinstance(block.body, str) and not block.body.strip():
        yield (
            block.place,
            (
                f"The text field in the ContentBlock object at {block.path} is blank. Add text "
                "to the text field, and try again."
            ),
        )


def _malformed_block(block: _Block) -> Iterator[Fault]:
    if block.kind is None:
        yield block.place, f"{block.path} must be a ContentBlock, but is {_shown(block.raw)}."
    elif block.kind == "text" and not isinstance(block.body, str):
        yield block.place, f"{block.path}.text must be a string, but is {_shown(block.body)}."
    elif isinstance(block.raw, dict) and len(block.raw) > 1:
        yield block.place, f"{block.path} is a union: one of its members must be set, not more."
    elif block.kind not in ("text", "json") and not isinstance(block.body, dict):
        yield (
            block.place,
            f"{block.path}.{block.kind} must be an object, but is {_shown(block.body)}.",
        )


def _malformed_result(result: _Block) -> Iterator[Fault]:
    content, status = result.inner.get("content"), result.inner.get("status")
    place, path = f"{result.place}.toolResult", f"{result.path}.toolResult"
    if not isinstance(content, list):
        yield f"{place}.content", f"{path}.content must be a list, but is {_shown(content)}."
    elif status == "error" and not content:
        yield (
            f"{place}.content",
            (f"The content field at {path} cannot be empty when status value is error."),
        )
    if status not in ("success", "error", None):
        yield f"{place}.status", f"{path}.status must be success or error."
    for block in _blocks(f"{place}.content", f"{path}.content", content):
        yield from _malformed_block(block)
        if block.kind in _HOME:
            yield block.place, f"{block.path}: a result cannot hold {block.kind}."


def _blank_results(history: _History) -> Iterator[Fault]:
    """BE02*: a result's content is not empty, no text in it is blank, and its JSON an object."""
    for result in history.results:
        content, status = result.inner.get("content"), result.inner.get("status")
        place, path = f"{result.place}.toolResult.content", f"{result.path}.toolResult.content"
        if content == [] and status != "error":
            yield place, f"{path} is empty."
        for block in _blocks(place, path, content):
            if block.kind == "text" and isinstance(block.body, str) and not block.body.strip():
                yield block.place, f"The text field at {block.path} is blank."
            if block.kind == "json" and not isinstance(block.body, dict):
                yield (
                    block.place,
                    (
                        f"The format of the value at {block.path}.json is invalid. Provide a json "
                        "object for the field and try again."
                    ),
                )


def _illegal(history: _History) -> Iterator[Fault]:
    """BE03: ids and names are legal, roles exist, and the first message is the user's."""
    for message in history.messages[:1]:
        if message.role != "user":
            yield (
                message.place,
                (
                    "A conversation must start with a user message. Try again with a conversation "
                    "that starts with a user message."
                ),
            )
    for raw, message in zip(history.raw, history.messages, strict=True):
        if isinstance(raw, dict) and message.role not in _ROLES:
            yield f"{message.place}.role", f"{message.path}.role must be user or assistant."
    for block in (*history.calls, *history.results):
        if not isinstance(block.key, str) or not _ID.fullmatch(block.key):
            yield (
                f"{block.place}.{block.kind}.toolUseId",
                (
                    f"{block.path}.{block.kind}.toolUseId must be 1 to 64 characters of "
                    f"[a-zA-Z0-9_.:-], but is {_listed([block.key])}."
                ),
            )
    for call in history.calls:
        name = call.inner.get("name")
        if not isinstance(name, str) or not _OLD_ID.fullmatch(name):
            yield (
                f"{call.place}.toolUse.name",
                (
                    f"{call.path}.toolUse.name must be 1 to 64 characters of [a-zA-Z0-9_-], "
                    f"but is {_shown(name)}."
                ),
            )


def _newly_legal(history: _History) -> Iterator[Fault]:
    """BE03*: what older service models refuse: `.` and `:` in ids, and system messages."""
    for message in history.messages:
        if message.role == "system" and not _changes_tools(message):
            yield f"{message.place}.role", f"{message.path}.role must be user or assistant."
    for block in (*history.calls, *history.results):
        key = block.key
        if isinstance(key, str) and _ID.fullmatch(key) and not _OLD_ID.fullmatch(key):
            yield (
                f"{block.place}.{block.kind}.toolUseId",
                (
                    f"{block.path}.{block.kind}.toolUseId must be of [a-zA-Z0-9_-], "
                    f"but is {_listed([key])}."
                ),
            )


def _tool_changes(history: _History) -> Iterator[Fault]:
    """BE03**: what older models refuse: system messages that change the tools."""
    for message in history.messages:
        if message.role == "system" and _changes_tools(message):
            yield f"{message.place}.role", f"{message.path}.role must be user or assistant."


def _changes_tools(message: _Message) -> bool:
    return any(block.kind in ("toolAddition", "toolRemoval") for block in message.blocks)


def _listed(keys: Iterable[object]) -> str:
    """Ids inside a sentence, each once: short and printable, whatever they hold."""
    return ", ".join(dict.fromkeys(_shown(key) for key in keys))


def _shown(value: object) -> str:
    if isinstance(value, str):
        text = value if len(value) <= _MAX_SHOWN else f"{value[: _MAX_SHOWN - 3]}..."
        return text if text and text.isprintable() else repr(text)
    if isinstance(value, type):
        return "(no id)"
    return "null" if value is None else type(value).__name__


_CHECKS: Final[dict[str, Callable[[_History], Iterator[Fault]]]] = {
    "BE01": _unpaired,
    "BE01*": _split_calls,
    "BE02": _malformed,
    "BE02*": _blank_results,
    "BE03": _illegal,
    "BE03*": _newly_legal,
    "BE03**": _tool_changes,
}
