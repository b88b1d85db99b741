"""Messages that are made of blocks: one reader, and a table of what each framework calls them."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list
from eventstore.importers.frameworks.saved_messages import (
    ANY,
    SavedMessages,
    end_call,
    media_shown,
    role_of,
    time_of_message,
)
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import ERROR_TEXT, Dialogue, call_of
from eventstore.importers.reading.json_members import member, objects, text, text_of
from eventstore.providers.model import ParsedCall, ParsedResult

_DATE: Final = "2026-11-28"
_MODELS: Final = ("assistant", "model")


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What a framework calls the members of its messages and of their blocks."""

    blocks: str
    """The member of a message that holds its blocks."""
    kind: str | None
    """The member of a block that names its kind; None where the block's own member does."""
    calls: tuple[str, ...]
    results: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    """Kinds that are no words of the model's, and no calls."""
    call_id: tuple[str, ...]
    tool: tuple[str, ...]
    arguments: tuple[str, ...]
    output: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """Members of a result one of which is set where the call failed."""
    origin: str = ""
    """The member of a result that holds the call."""
    approval: str = ""
    """The kind of block with which a person answers whether a call may run."""
    answers: tuple[str, str] = ("", "")
    """Where a message that is a result as a whole names its call."""
    marks: frozenset[str] = frozenset()
    """Further members of a message that only this framework writes."""


class _Pieces(NamedTuple):
    """What a message says, calls and answers."""

    words: list[str]
    calls: list[ParsedCall]
    ends: list[ParsedResult]


class BlockMessages(SavedMessages):
    """The file format of a framework whose messages have a `Shape`."""

    def __init__(
        self,
        name: str,
        about: About,
        shape: Shape,
        *,
        roots: tuple[tuple[str, ...], ...] = (("messages",),),
        error_pattern: str | None = None,
    ) -> None:
        self.name = name
        self.about = about
        self.roots = roots  # type: ignore[misc]
        self.error_pattern = error_pattern
        self._shape = shape

    def is_message(self, value: JsonObject) -> bool:
        """Return whether a message has blocks of this framework, or a mark of it."""
        shape = self._shape
        if not role_of(value) or "role" not in value:
            return False
        if shape.marks and shape.marks <= value.keys():
            return True
        blocks = objects(value, shape.blocks)
        if shape.kind is None:
            return any({*shape.calls, *shape.results} & block.keys() for block in blocks)
        own = shape.blocks not in ("content", "parts")  # a member that no provider has
        kinds = [text(block, shape.kind) for block in blocks]
        return (own and any(kinds)) or any(
            kind in shape.calls or kind in shape.results for kind in kinds
        )

    def add(self, dialogue: Dialogue, message: JsonObject) -> None:
        """Add what a message says, its calls, and the answers to calls."""
        shape, role, time = self._shape, role_of(message), time_of_message(message)
        pieces = _Pieces([], [], [])
        given = message.get(shape.blocks, message.get("content"))
        for block in _blocks(given):
            self._take(block, pieces)
        words = "\n".join(filter(None, pieces.words))
        answered = text(member(message, shape.answers[0]), shape.answers[1])
        if role == "tool" and answered:
            dialogue.answer(answered, words, time)
            return
        if role in _MODELS or pieces.calls:
            dialogue.reply(words, pieces.calls, time)
        elif words or not pieces.ends:
            dialogue.say(role, words, time)
        for end in pieces.ends:
            end_call(dialogue, end, time)

    def _take(self, block: JsonObject, pieces: _Pieces) -> None:
        """Sort what a block holds into pieces."""
        shape = self._shape
        kind = text(block, shape.kind) if shape.kind else next(iter(block), "")
        held = block if shape.kind else member(block, kind)
        words = block.get("text")
        if kind in shape.calls:
            pieces.calls.append(self._call(held, kind))
        elif kind in shape.results:
            pieces.ends.append(self._end(held))
        elif kind and kind == shape.approval:
            if held.get("approved") is False:
                pieces.ends.append(self._end(member(held, "function_call"), denied=True))
        elif kind not in shape.silent:
            is_text = isinstance(words, str)
            shown = words if is_text else media_shown(block, kind, self.about.program)
            pieces.words.append(str(shown))

    def _call(self, held: JsonObject, kind: str) -> ParsedCall:
        shape = self._shape
        given: JsonValue = next((held[key] for key in shape.arguments if key in held), None)
        hosted = kind.removesuffix("_tool_call") if kind.endswith("_tool_call") else None
        return call_of(text(held, *shape.call_id), text(held, *shape.tool) or hosted, given)

    def _end(self, held: JsonObject, *, denied: bool = False) -> ParsedResult:
        shape = self._shape
        origin = member(held, shape.origin) if shape.origin else held
        output: JsonValue = next((held[key] for key in shape.output if key in held), None)
        codes = (each.get("exit_code") for each in objects(held, "outputs"))
        return ParsedResult(
            text(origin, *shape.call_id) or None,
            text(origin, *shape.tool) or None,
            "The call was not approved." if denied else text_of(output),
            any(map(held.get, shape.failed)) or any(code not in (None, 0) for code in codes),
            rejected=denied,
            well_formed=True,
        )


def _blocks(given: JsonValue) -> list[JsonObject]:
    values: list[JsonValue] = given if is_json_list(given) else [given]
    shown = ({"text": each} if isinstance(each, str) else each for each in values)
    return [each for each in shown if isinstance(each, dict)]


LLAMA_INDEX: Final = BlockMessages(
    "llama-index",
    About(
        program="LlamaIndex",
        files="messages, chat stores and memories, as JSON",
        failures="text",
        times="none",
        lost="whether a tool failed, where its text does not say so",
        tried="0.14.25",
        on=_DATE,
    ),
    Shape(
        blocks="blocks",
        kind="block_type",
        calls=("tool_call",),
        silent=("thinking", "cache"),
        call_id=("tool_call_id",),
        tool=("tool_name",),
        arguments=("tool_kwargs",),
        answers=("additional_kwargs", "tool_call_id"),
        marks=frozenset({"additional_kwargs", "blocks"}),
    ),
    roots=(
        ("messages",),
        ("store", ANY),
        ("chat_store", "store", ANY),
        ("chat_history",),
        ("chat_store", "messages"),
    ),
    error_pattern=ERROR_TEXT,
)

_SEMANTIC_KERNEL_ERRORS: Final = ERROR_TEXT + (
    r"|\A(?:An error occurred while invoking the function"
    r"|The tool call with name `|The tool call arguments are malformed)"
)

SEMANTIC_KERNEL: Final = BlockMessages(
    "semantic-kernel",
    About(
        program="Semantic Kernel",
        files="chat histories, as JSON",
        failures="text",
        times="where the file has them",
        lost="reasoning",
        tried="1.45.0",
        on=_DATE,
    ),
    Shape(
        blocks="items",
        kind="content_type",
        calls=("function_call",),
        results=("function_result",),
        silent=("reasoning",),
        call_id=("id", "call_id"),
        tool=("name", "function_name"),
        arguments=("arguments",),
        output=("result",),
    ),
    error_pattern=_SEMANTIC_KERNEL_ERRORS,
)

AGENT_FRAMEWORK: Final = BlockMessages(
    "agent-framework",
    About(
        program="Microsoft Agent Framework",
        files="histories, `.jsonl`, and sessions, `.json`",
        failures="marked",
        times="none",
        lost="reasoning, approvals that were given, other state of a session",
        tried="1.23.0",
        on=_DATE,
    ),
    Shape(
        blocks="contents",
        kind="type",
        calls=(
            *("function_call", "mcp_server_tool_call", "shell_tool_call", "search_tool_call"),
            *("code_interpreter_tool_call", "image_generation_tool_call", "computer_tool_call"),
        ),
        results=(
            *("function_result", "mcp_server_tool_result", "shell_tool_result"),
            *("search_tool_result", "code_interpreter_tool_result"),
            *("image_generation_tool_result", "computer_tool_result"),
        ),
        silent=(
            *("text_reasoning", "usage", "function_approval_request", "oauth_consent_request"),
            *("hosted_file", "hosted_vector_store"),
        ),
        call_id=("call_id", "image_id"),
        tool=("name", "tool_name"),
        arguments=("arguments", "inputs", "commands", "actions"),
        output=("result", "output", "outputs"),
        failed=("exception",),
        approval="function_approval_response",
    ),
    roots=(("messages",), ("state", ANY, "messages"), ("state", "messages")),
)

HAYSTACK: Final = BlockMessages(
    "haystack",
    About(
        program="Haystack",
        files="messages, as JSON",
        failures="marked",
        times="none",
        lost="reasoning, meta data",
        tried="3.4.1",
        on=_DATE,
    ),
    Shape(
        blocks="content",
        kind=None,
        calls=("tool_call",),
        results=("tool_call_result",),
        silent=("reasoning",),
        call_id=("id",),
        tool=("tool_name",),
        arguments=("arguments",),
        output=("result",),
        failed=("error",),
        origin="origin",
        marks=frozenset({"meta", "name", "content"}),
    ),
)

BLOCK_MESSAGES: Final = (LLAMA_INDEX, SEMANTIC_KERNEL, AGENT_FRAMEWORK, HAYSTACK)
