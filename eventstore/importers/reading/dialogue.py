"""`Dialogue`: a conversation of a source, built up message by message in the neutral model.

Sources that are not a provider's messages (session logs, traces, trajectories) become one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from eventstore.domain.calls import is_tool_name
from eventstore.domain.json_types import JsonValue
from eventstore.domain.messages import Text
from eventstore.importers.reading.json_members import text_of
from eventstore.importers.reading.kept_items import KeptItems
from eventstore.importers.reading.transcript import Transcript
from eventstore.providers.call_arguments import function_call
from eventstore.providers.model import (
    HistoryItem,
    ParsedCall,
    ParsedCompaction,
    ParsedMessage,
    ParsedResult,
)

ERROR_TEXT = (
    r"\A\s*(?:[\w.]*(?:Error|Exception)\s*:|(?:ERROR|error)\b\s*:|Error\b"
    r"|Traceback \(most recent call last\)|<(?:tool_use_)?error>"
    r"|An error occurred while (?:running|parsing) (?:the )?tool"  # what openai-agents says
    r"|\{\s*\"error\"\s*:\s*(?!null|false|\"\"|\{\}|\[\])\S)"
    # a result of MCP, as Python shows it: its own mark is at the end, after all that a tool said
    r"|\Ameta=[\s\S]*(?: isError=True| is_error=True result_type='\w{1,20}')\s*\Z"
)
"""The beginning of a result that failed, for sources that have no mark for it."""

_ROLES = {"system": "system", "developer": "developer", "human": "user", "user": "user"}


class Dialogue:
    """The items of a conversation so far, with their times.

    The first `copied` ones happened in another conversation; see `Transcript`.
    """

    def __init__(self) -> None:
        self._items: KeptItems[HistoryItem] = KeptItems()
        self._times: list[int | None] = []
        self._pieces = 0
        self._calls: set[str | None] = set()
        self.copied = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[tuple[HistoryItem, int | None]]:
        return zip(self._items, self._times, strict=True)

    def taken_from(self, start: int) -> Dialogue:
        """Take away the items from an index on; return them as a conversation of their own."""
        taken = Dialogue()
        for item, time in zip(self._items.taken_from(start), self._times[start:], strict=True):
            taken.add(_moved_back(item, start), time)
        del self._times[start:]
        self._calls -= taken._calls
        taken.copied, self.copied = max(self.copied - start, 0), min(self.copied, start)
        return taken

    def has_call(self, call_id: str) -> bool:
        """Return whether a call with this id was made."""
        return call_id in self._calls

    def open_calls(self) -> list[str]:
        """Return the ids of the calls that have no result, in their order."""
        messages = (item for item in self._items if isinstance(item, ParsedMessage))
        made = (call.id for message in messages for call in message.calls if call.id)
        ended = {item.id for item in self._items if isinstance(item, ParsedResult)}
        return [call_id for call_id in made if call_id not in ended]

    def say(self, role: str, content: JsonValue, time: int | None = None) -> None:
        """Add what a person or the system said; nothing where it is empty, or spaces alone."""
        self._pieces += 1
        for message in spoken(_ROLES.get(role, "user"), content):
            self._add(message, time)

    def reply(
        self,
        content: JsonValue,
        calls: Sequence[ParsedCall] = (),
        time: int | None = None,
        message_id: str | None = None,
    ) -> None:
        """Add a message of the model with the calls that it makes; nothing where it is empty.

        Messages with one `message_id` are pieces of one.
        """
        said = _words_of(content)
        self._calls.update(call.id for call in calls)
        if said or calls:
            parts = (Text(said),) if said else ()
            item = ParsedMessage(
                "assistant", parts, tuple(calls), well_formed=True, message_id=message_id
            )
            self._add(item, time)

    def reply_piece(
        self, content: JsonValue, calls: Sequence[ParsedCall] = (), time: int | None = None
    ) -> None:
        """Add a piece of the model's message: it continues until another speaks."""
        self.reply(content, calls, time, f"piece-{self._pieces}")

    def answer(
        self,
        call_id: str | None,
        content: JsonValue,
        time: int | None = None,
        *,
        name: str | None = None,
        is_error: bool = False,
        rejected: bool | str = False,
        duration: int | None = None,
    ) -> None:
        """Add the result of a call.

        Where it names its tool and the source has not told of the call, the call is added, too.
        """
        if name and call_id and not self.has_call(call_id):
            self.reply("", [call_of(call_id, name, None)], time)
        self._pieces += 1
        item = ParsedResult(
            call_id or None,
            name or None,
            text_of(content),
            is_error,
            rejected=rejected,
            well_formed=True,
            duration=duration,
        )
        self._add(item, time)

    def transcript(
        self, conversation_id: str, parent_id: str | None = None, error_pattern: str | None = None
    ) -> Transcript:
        """Return the conversation."""
        return Transcript(
            conversation_id,
            "openai",  # whose rules for calls and results are the plainest
            self._items,
            parent_id=parent_id,
            times=self._times,
            error_pattern=error_pattern,
            copied=self.copied,
        )

    def add(self, item: HistoryItem, time: int | None = None) -> None:
        """Add an item as it is; a compaction counts the items so far, with other compactions."""
        if isinstance(item, ParsedMessage):
            self._calls.update(call.id for call in item.calls)
        self._pieces += 1
        self._add(item, time)

    def compact(
        self, messages: Iterable[ParsedMessage], time: int | None = None, *, end: int | None = None
    ) -> None:
        """Let messages stand in the place of the items before `end`, or of all so far."""
        self.add(ParsedCompaction(tuple(messages), end=end), time)

    def _add(self, item: HistoryItem, time: int | None) -> None:
        self._items.append(item)
        self._times.append(time)


def spoken(role: str, content: JsonValue) -> Iterator[ParsedMessage]:
    """Yield a message of text; none where it is empty, or spaces alone."""
    words = _words_of(content)
    if words.strip():
        yield ParsedMessage(role, (Text(words),), well_formed=True)


def _moved_back(item: HistoryItem, places: int) -> HistoryItem:
    """Return an item of a conversation that begins so many places later."""
    if not isinstance(item, ParsedCompaction):
        return item  # the other items count nothing
    end = None if item.end is None else max(item.end - places, 0)
    return replace(item, first=max(item.first - places, 0), end=end)


def _words_of(content: JsonValue) -> str:
    """Return what a message says as text; one without parts says nothing."""
    return "" if content == [] else text_of(content)


def call_of(call_id: object, name: object, arguments: JsonValue) -> ParsedCall:
    """Return a call as a source names it; one without a name is called `unknown`."""
    own = name if is_tool_name(name) else "unknown"
    given = arguments if isinstance(arguments, str | dict | None) else text_of(arguments)
    known = call_id if isinstance(call_id, str) and call_id else None
    return ParsedCall(known, replace(function_call(own, given), id=known))
