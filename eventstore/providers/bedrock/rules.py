"""The rules of Amazon Bedrock's Converse, BE01 to BE07.

The service merges neighbouring assistant messages before it pairs calls with results, but wants
all results of a turn in one message. Calls of the service's own tools (`server_tool_use`) and their
results stand inside one assistant turn, and are not paired.

A star after a code marks the part of the rule that only some refuse: a model, or a literal reading
of the documentation. The service was seen to answer blank and empty results (except errors), and
some models refuse JSON that is not an object. Since 2026 ids may hold `.` and `:`. One page of the
service says that a message holds 20 images, another that the model decides: repair leaves them.

A fault without a row of its own in the table is reported under the nearest one:

- BE01 also covers calls and reasoning in a user message, results, images, documents and videos in
  an assistant message, and a `toolUseId` that two turns have;
- BE02 also covers content, blocks and results of a wrong type, errors that say nothing, and
  documents without a text beside them;
- BE03 also covers names of tools, roles that do not exist, and a history that is not a list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from eventstore.providers.bedrock.history import (
    ROLE_OF_BLOCK,
    Block,
    History,
    Message,
    Turn,
    blocks_of,
)
from eventstore.providers.bedrock.shapes import (
    BLOCKS,
    GEMINI_MEMBERS,
    UNREAD,
)
from eventstore.providers.bedrock.shown_rules import (
    check_images,
    check_shown,
    check_shown_strictly,
)
from eventstore.providers.rules_reader import (
    apply_checks,
    is_list,
    is_object,
    listed,
    members_of,
    quoted,
    readable,
    repeated,
)
from eventstore.providers.shapes import misshapen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eventstore.providers.rule_book import Finding, Rule
    from eventstore.providers.rules_reader import Fault

__all__ = ["RULES", "findings"]

_ONE_MESSAGE: Final = "put the toolResult blocks of a turn into the one user message right after it"
_WORDS: Final = "send arguments as an object; leave out what is blank, or write a word in its place"

RULES: Final[dict[str, Rule]] = {
    "BE01": ("hard", "{detail}", _ONE_MESSAGE),
    "BE01*": ("strict", "{detail}", _ONE_MESSAGE),
    "BE02": ("hard", "{detail}", _WORDS),
    "BE02*": ("strict", "{detail}", _WORDS),
    "BE03": (
        "hard",
        "{detail}",
        (
            "begin with a user message, give call and result the same id of 1 to 64 characters "
            "of [a-zA-Z0-9_.:-], and each tool a name of 1 to 64 characters of [a-zA-Z0-9_-]"
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
        "send system text as the `system` parameter",
    ),
    "BE04": (
        "hard",
        "{detail}",
        "keep the 4 newest cache points, none of them right after reasoning",
    ),
    "BE05": (
        "strict",
        "A conversation must end with a user message: this model does not continue from {path}.",
        "end with what the model is to answer; `prefill=False` adds that nothing was said since",
    ),
    "BE06": (
        "strict",
        "{path}: all content must be text if the status is error.",
        "show what an error shows beside its text behind the results",
    ),
    "BE07": (
        "hard",
        "{detail}",
        (
            "give each document a name of its own, of letters, digits, single spaces, hyphens, "
            "parentheses and square brackets, and a format that Converse knows; send 5 at most"
        ),
    ),
    "BE07*": (
        "strict",
        "{detail}",
        "put the cache point before the document, and let no two names differ in case alone",
    ),
    "BE07**": (
        "strict",
        "{detail}",
        "show fewer images in one message",
    ),
}
"""Code to level, the service's words and the remedy."""

_ROLES: Final = frozenset({"user", "assistant", "system"})
_ROLE_OF_OTHERS: Final = {
    "reasoningContent": "assistant",
    "image": "user",
    "document": "user",
    "video": "user",
}
_NOT_IN_RESULTS: Final = frozenset({"reasoningContent", "cachePoint"})
_SHOWN: Final = frozenset({"image", "document", "video", "searchResult"})
_MAX_CACHE_POINTS: Final = 4
_LATE_POINT: Final = (
    "Cache point cannot be inserted after reasoning block. Please remove the invalid cache point "
    "and try again."
)
_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def findings(messages: object) -> Iterator[Finding]:
    """Yield code, place and detail of everything in `messages` that breaks a rule."""
    if is_list(messages):
        yield from apply_checks(_CHECKS, History(messages))
    else:
        yield "BE03", "messages", f"messages must be a list, but is {quoted(messages)}."


def _unpaired(history: History) -> Iterator[Fault]:
    """Check BE01: the message after a turn holds one result for each call of it, and no other."""
    asked: set[object] = set()
    for turn in history.turns:
        for message in turn.messages:
            yield from _excess_results(message, asked)
        calls = turn.calls
        asked = {call.key for call in calls}
        answered = {result.key for result in turn.after.paired("toolResult")}
        for message in turn.messages:
            missing = [call.key for call in message.paired("toolUse") if call.key not in answered]
            if missing:
                yield (
                    message.place,
                    (
                        f"Expected toolResult blocks at {_path_of_results(turn)}.content for the "
                        f"following Ids: {listed(missing)}"
                    ),
                )
        for call in repeated(calls):
            yield call.place, f"Duplicate toolUseId {listed([call.key])} at {call.path}."
    for message in history.messages:
        for block in message.blocks:
            role = _ROLE_OF_OTHERS.get(block.kind or "", message.role)
            if message.role in _ROLES and role != message.role:
                yield block.place, f"{block.path}: {block.kind} belongs in {role} messages."
            if block.is_paired and message.role != (role := ROLE_OF_BLOCK[block.kind or ""]):
                yield block.place, f"{block.path}: {block.kind} belongs in {role} messages."


def _path_of_results(turn: Turn) -> str:
    """Return where the results should stand, also where the history ends before it."""
    return turn.after.path or f"{turn.messages[-1].path} + 1"


def _excess_results(message: Message, asked: set[object]) -> Iterator[Fault]:
    results = message.paired("toolResult")
    words = (
        f"The number of toolResult blocks at {message.path}.content exceeds the number of toolUse "
        "blocks of previous turn."
    )
    for result in results:
        if result.key not in asked:
            yield result.place, f"{words} ({listed([result.key])} answers no call there)"
    for result in repeated(results):
        yield result.place, f"{words} ({listed([result.key])} comes twice)"


def _split_calls(history: History) -> Iterator[Fault]:
    """Check BE01*: the message directly after a call's holds its result, without any merging.

    And no two turns share the id of a call, which Claude refuses.
    """
    former: set[object] = set()
    for turn in history.turns:
        for call in turn.calls:
            if isinstance(call.key, str) and call.key in former:
                yield call.place, f"Duplicate toolUseId {listed([call.key])} at {call.path}."
        former |= {call.key for call in turn.calls}
        if turn.after.path:
            yield from _open_server_calls(turn)
        for message in turn.messages[:-1]:
            calls = message.paired("toolUse")
            if calls:
                ids = listed(call.key for call in calls)
                yield (
                    message.place,
                    (
                        f"Expected toolResult blocks right after {message.path} for the following "
                        f"Ids: {ids}"
                    ),
                )


def _open_server_calls(turn: Turn) -> Iterator[Fault]:
    """Yield the calls of the service's own that have no result, and results that have no call."""
    own = [
        block
        for message in turn.messages
        for block in message.blocks
        if block.kind in ROLE_OF_BLOCK and not block.is_paired
    ]
    asked = {block.key for block in own if block.kind == "toolUse"}
    answered = {block.key for block in own if block.kind == "toolResult"}
    for block in own:
        if block.key not in asked & answered:
            yield block.place, f"{block.path}: a call of the service stands with its result."


def _malformed(history: History) -> Iterator[Fault]:
    """Check BE02: messages hold blocks, text says something, and a call's input is an object."""
    for raw, message in zip(history.raw, history.messages, strict=True):
        content, place = message.body.get("content"), f"{message.place}.content"
        if not is_object(raw):
            yield message.place, f"{message.path} must be an object, but is {quoted(raw)}."
        elif not is_list(content):
            yield place, f"{message.path}.content must be a list, but is {quoted(content)}."
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
    for message in history.messages:
        yield from _malformed_blocks(message.blocks)
    for call in history.calls:
        if not is_object(call.body.get("input")):
            yield (
                f"{call.place}.toolUse.input",
                f"The value at {call.path}.toolUse.input is invalid. Provide a json object.",
            )
    for result in history.results:
        yield from _malformed_result(result)


def _malformed_blocks(blocks: list[Block]) -> Iterator[Fault]:
    for block in blocks:
        yield from _malformed_block(block)
        yield from _misplaced_block(block, blocks)


def _is_separator(block: Block, blocks: list[Block]) -> bool:
    """Return whether a blank text parts a document from a cache point, which the service takes."""
    near = [each.kind for each in blocks[max(block.item - 1, 0) : block.item + 2]]
    return bool(block.value) and near == ["document", "text", "cachePoint"]


def _misplaced_block(block: Block, blocks: list[Block]) -> Iterator[Fault]:
    """Yield what a result may hold, but a message may not."""
    if block.kind == "json":
        yield block.place, f"{block.path}: only a result holds json."
    if _is_blank_text(block) and not _is_separator(block, blocks):
        yield (
            block.place,
            (
                f"The text field in the ContentBlock object at {block.path} is blank. Add text "
                "to the text field, and try again."
            ),
        )


def _is_blank_text(block: Block) -> bool:
    return block.kind == "text" and isinstance(block.value, str) and not block.value.strip()


def _malformed_block(block: Block) -> Iterator[Fault]:
    if block.kind is None:
        yield block.place, f"{block.path} must be a ContentBlock, but is {quoted(block.raw)}."
    elif block.kind == "text" and not isinstance(block.value, str):
        yield block.place, f"{block.path}.text must be a string, but is {quoted(block.value)}."
    elif block.kind in GEMINI_MEMBERS or block.kind == UNREAD:
        yield block.place, f"Unknown parameter in {block.path}: {block.kind!r}."
    elif len(members_of(block.raw)) > 1:
        yield block.place, f"{block.path} is a union: one of its members must be set, not more."
    elif block.kind not in ("text", "json") and not is_object(block.value):
        yield (
            block.place,
            f"{block.path}.{block.kind} must be an object, but is {quoted(block.value)}.",
        )
    elif block.kind in BLOCKS and (fault := misshapen(block.value, BLOCKS[block.kind])):
        yield block.place, f"{block.path}.{block.kind}{fault.place}: {fault.detail}."


def _malformed_result(result: Block) -> Iterator[Fault]:
    content, status = result.body.get("content"), result.body.get("status", "success")
    place, path = f"{result.place}.toolResult", f"{result.path}.toolResult"
    if not is_list(content):
        yield f"{place}.content", f"{path}.content must be a list, but is {quoted(content)}."
    elif status == "error" and not content:
        yield (
            f"{place}.content",
            f"The content field at {path} cannot be empty when status value is error.",
        )
    if status not in ("success", "error"):
        yield f"{place}.status", f"{path}.status must be success or error."
    for block in blocks_of(f"{place}.content", f"{path}.content", content):
        yield from _malformed_block(block)
        if block.kind in ROLE_OF_BLOCK or block.kind in _NOT_IN_RESULTS:
            yield block.place, f"{block.path}: a result cannot hold {block.kind}."


def _blank_results(history: History) -> Iterator[Fault]:
    """Check BE02*: a result's content is not empty, its text not blank, and its JSON an object."""
    for result in history.results:
        content, status = result.body.get("content"), result.body.get("status")
        place, path = f"{result.place}.toolResult.content", f"{result.path}.toolResult.content"
        if content == [] and status != "error":
            yield place, f"{path} is empty."
        for block in blocks_of(place, path, content):
            if _is_blank_text(block):
                yield block.place, f"The text field at {block.path} is blank."
            if block.kind == "json" and not is_object(block.value):
                yield (
                    block.place,
                    (
                        f"The format of the value at {block.path}.json is invalid. Provide a json "
                        "object for the field and try again."
                    ),
                )


def _illegal(history: History) -> Iterator[Fault]:
    """Check BE03: ids and names are legal, roles exist, and the first message has the role user."""
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
        if is_object(raw) and message.role not in _ROLES:
            yield f"{message.place}.role", f"{message.path}.role must be user or assistant."
    for block in (*history.calls, *history.results):
        if not isinstance(block.key, str) or not _ID.fullmatch(block.key):
            yield (
                f"{block.place}.{block.kind}.toolUseId",
                (
                    f"{block.path}.{block.kind}.toolUseId must be 1 to 64 characters of "
                    f"[a-zA-Z0-9_.:-], but is {listed([block.key])}."
                ),
            )
    for call in history.calls:
        name = call.body.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield (
                f"{call.place}.toolUse.name",
                (
                    f"{call.path}.toolUse.name must be 1 to 64 characters of [a-zA-Z0-9_-], "
                    f"but is {readable(name)}."
                ),
            )


def _inner_system(history: History) -> Iterator[Fault]:
    """Check BE03*: no system message, which older service models refuse."""
    for message in history.messages:
        if message.role == "system" and not _changes_tools(message):
            yield f"{message.place}.role", f"{message.path}.role must be user or assistant."


def _tool_changes(history: History) -> Iterator[Fault]:
    """Check BE03**: no system message changes the tools, which older models refuse."""
    for message in history.messages:
        if message.role == "system" and _changes_tools(message):
            yield f"{message.place}.role", f"{message.path}.role must be user or assistant."


def _cache_points(history: History) -> Iterator[Fault]:
    """Check BE04: at most 4 cache points, and none right after reasoning."""
    count = 0
    for message in history.messages:
        before = None
        for block in message.blocks:
            if block.kind == "cachePoint":
                count += 1
                if before == "reasoningContent":
                    yield block.place, _LATE_POINT
            before = block.kind
    if count > _MAX_CACHE_POINTS:
        yield "messages", f"{count} cachePoint blocks, and {_MAX_CACHE_POINTS} is the maximum."


def _errors_that_show(history: History) -> Iterator[Fault]:
    """Check BE06: an error holds text or JSON, as Claude on Bedrock refuses anything else."""
    for result in history.results:
        place, path = f"{result.place}.toolResult", f"{result.path}.toolResult"
        inner = blocks_of(f"{place}.content", f"{path}.content", result.body.get("content"))
        if result.body.get("status") == "error" and any(block.kind in _SHOWN for block in inner):
            yield f"{place}.content", ""


def _prefill(history: History) -> Iterator[Fault]:
    """Check BE05: the last message is not the assistant's, except one that waits for results."""
    for message in history.messages[-1:]:
        kinds = {block.kind for block in message.blocks[-1:]} | {
            block.kind for block in message.paired("toolUse")
        }
        if message.role == "assistant" and not kinds & {"toolUse", "toolResult"}:
            yield message.place, ""


def _changes_tools(message: Message) -> bool:
    return any(block.kind in ("toolAddition", "toolRemoval") for block in message.blocks)


_CHECKS: Final[dict[str, Callable[[History], Iterator[Fault]]]] = {
    "BE01": _unpaired,
    "BE01*": _split_calls,
    "BE02": _malformed,
    "BE02*": _blank_results,
    "BE03": _illegal,
    "BE03*": _inner_system,
    "BE03**": _tool_changes,
    "BE04": _cache_points,
    "BE05": _prefill,
    "BE06": _errors_that_show,
    "BE07": check_shown,
    "BE07*": check_shown_strictly,
    "BE07**": check_images,
}
