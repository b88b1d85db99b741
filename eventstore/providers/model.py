"""The neutral model: what messages say, item by item, and the turns that a request is made of.

Parsing gives items, before calls are paired with results. Rendering takes turns, in which every
call stands with its answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from eventstore.domain.calls import FunctionCall
from eventstore.domain.failure import Failure
from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Part, Text

NativeMessage: TypeAlias = JsonObject | list[JsonValue]
"""A message as its provider wrote it; a list where it is made of items, as in OpenAI Responses."""

TURN_ROLES: Final[Mapping[str, str]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "user",
}
"""The role of a turn for each role of a message, where the user's turns hold the results."""


class ParsedCall(msgspec.Struct, frozen=True, gc=False):
    """A call as the provider gave it."""

    id: str | None
    """None where the provider gave none."""
    call: FunctionCall


class ParsedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message with the calls it makes."""

    role: str
    parts: tuple[Part, ...] = ()
    calls: tuple[ParsedCall, ...] = ()
    native: NativeMessage | None = None
    """The provider's own message; a list of items where `is_continuation`."""
    well_formed: bool = False
    """`native` may go back to the provider as it is."""
    shares_message: bool = False
    """The results right before it came in the same message."""
    message_id: str | None = None
    """The provider's id of the message."""
    is_continuation: bool = False
    """It continues the assistant's message right before it, where there is one."""
    result_count: int = 0
    """How many items before it are results of the same message; `native` has None for each."""
    not_whole: Failure | None = None
    """Why none of its calls may run: its response was cut off, or broke off."""
    finish_reason: str | None = None
    """Why its response was not whole, where nothing else will be recorded of that."""


class ParsedResult(msgspec.Struct, frozen=True, gc=False):
    """A result; `id` and `name` name the call that it answers, where the provider says."""

    id: str | None
    name: str | None
    text: str
    """The content as text."""
    is_error: bool = False
    native: JsonObject | None = None
    """The provider's own form, where it is well formed."""
    rejected: bool | str = False
    """Whether the call was refused: True by a person, otherwise its `ToolRejected.source`."""
    well_formed: bool = False
    parts: tuple[Part, ...] = ()
    """What it shows besides text, where it is not well formed."""
    duration: int | None = None
    """How long the call ran, in microseconds, where the source says."""
    keeps_form: bool = False
    """Its call would get an answer of another form, so that `native` is needed."""


class ParsedCompaction(msgspec.Struct, frozen=True, gc=False):
    """A compaction among the messages of a history; see `HistoryCompacted`.

    Messages are counted as the history has them, from 0, with its compactions. Hidden are those
    from `first` on that are before `end`; None means all before the compaction.
    """

    messages: tuple[ParsedMessage, ...] = ()
    """What stands in their place."""
    first: int = 0
    end: int | None = None
    hides_system: bool = False
    trigger: str | None = None
    tokens_before: int | None = None


class ParsedEnd(msgspec.Struct, frozen=True, gc=False):
    """The end of a run among the messages of a history; see `RunEnded`."""

    reason: str
    failure: Failure | None = None


ParsedItem: TypeAlias = ParsedMessage | ParsedResult

HistoryItem: TypeAlias = ParsedItem | ParsedCompaction | ParsedEnd
"""What a source gives that is no provider's messages."""


class CopiedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message of a history, in whichever form, that happened in another conversation."""

    message: object


def parts_beyond_text(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts of a result that shows more than text; of any other, nothing."""
    return () if all(isinstance(part, Text) for part in parts) else parts


def stored_parts(result: object) -> tuple[Part, ...]:
    """Return the parts of a result that is stored in parts; no parts if it is damaged."""
    try:
        return msgspec.convert(result, tuple[Part, ...])
    except msgspec.ValidationError:
        return ()


class Answer(msgspec.Struct, gc=False):
    """What the model reads as a call's result."""

    text: str
    is_error: bool = False
    provider: str | None = None
    native: JsonObject | None = None
    """The result as `provider` wrote it."""
    note: str | None = None
    """A line that the library adds under the result."""
    stored_parts: tuple[Part, ...] = ()
    """What the result shows, where it is more than text and not a provider's own form."""
    shown_parts: tuple[Part, ...] = ()
    """What the result shows to the provider that it is rendered for; set while rendering."""
    data: JsonValue = None
    """The result, where it is JSON that is not a text, and is shown whole."""
    is_refusal: bool = False
    """The call was rejected."""


class Call(msgspec.Struct, gc=False):
    """A call in a turn, with its answer."""

    id: str
    name: str
    arguments: JsonValue
    answer: Answer
    provider_id: str | None = None
    """The id that the provider gave it."""
    raw: str | None = None
    hidden: bool = False
    free_text: str | None = None
    """What a custom tool was called with, which takes any text; None for a function."""


class ResultsMessage(msgspec.Struct, frozen=True, gc=False):
    """The message of `provider` that held all results of a turn's calls."""

    provider: str
    call_ids: tuple[str, ...]
    native: JsonObject | None = None
    """It has None for each result; without it, the message holds nothing else."""


class Turn(msgspec.Struct, gc=False):
    """A message to show the model: what was said, and the calls made with it."""

    role: str
    parts: tuple[Part, ...] = ()
    calls: list[Call] = []
    provider: str | None = None
    native: NativeMessage | None = None
    """The message as `provider` wrote it; a list of items where several continue one message."""
    well_formed: bool = False
    """`native` may go back to `provider` as it is."""
    shares_message: bool = False
    """It stands in one message with the results before it."""
    hidden: bool = False
    """It is not shown, but its calls keep their ids, as hidden calls do."""
    results_message: ResultsMessage | None = None
    """The message that the results of the calls came in."""
    server_call: Call | None = None
    """A call that the provider's server keeps, whose result this turn says."""
    is_continued: bool = False
    """The request itself says that the server keeps what came before."""
    version: int | None = None
    """The version of the event that the turn began with."""

    @property
    def is_plain_text(self) -> bool:
        """Whether every part is text."""
        for part in self.parts:  # a loop is faster than a generator, and every turn is asked
            if type(part) is not Text:
                break
        else:
            return True
        return False

    def own_message(self, provider: str) -> JsonObject | None:
        """Return the message as `provider` wrote it, where all but its calls may go back."""
        if self.provider == provider and self.well_formed and isinstance(self.native, dict):
            return self.native
        return None


class Change(msgspec.Struct, frozen=True, gc=False):
    """One thing that a renderer had to change: what, by which rule, why, of which call or turn."""

    what: str
    rule: str
    why: str
    call_id: str | None = None
    version: int | None = None
    """The version of the turn."""


class Rendered(msgspec.Struct, gc=False):
    """A request's keyword arguments, and what was changed to make them valid."""

    arguments: JsonObject
    changes: list[Change]


def visible_turns(
    turns: Sequence[Turn], ids: Sequence[list[str]], changes: list[Change]
) -> Iterator[tuple[Turn, list[str]]]:
    """Yield the turns that are shown, with the ids of their calls.

    A change that is appended to `changes` while a turn is worked on gets the turn's version.
    """
    for turn, names in zip(turns, ids, strict=True):
        if turn.hidden:
            continue
        known = len(changes)
        yield turn, names
        if len(changes) > known:
            changes[known:] = [with_turn_version(change, turn) for change in changes[known:]]


def visible_calls(turn: Turn, ids: Sequence[str]) -> list[tuple[Call, str]]:
    """Return the calls of a turn that are shown, each with its id in the request."""
    return [(call, name) for call, name in zip(turn.calls, ids, strict=True) if not call.hidden]


def with_turn_version(change: Change, turn: Turn) -> Change:
    """Return `change` with the version of the turn it was made in, unless it is about a call."""
    if change.call_id is not None:
        return change
    return msgspec.structs.replace(change, version=turn.version)
