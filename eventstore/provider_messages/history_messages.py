"""The messages of a history as an import takes them: what each says, and its stem.

The stem is a digest over a message and all messages before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from eventstore.append.stored_once import stem_of
from eventstore.domain.events import ModelResponded
from eventstore.domain.finish_reasons import why_not_whole
from eventstore.domain.json_types import JsonValue, is_json_object
from eventstore.domain.jsonable import readable
from eventstore.domain.messages import Text
from eventstore.providers.adapter_protocol import ResultTest
from eventstore.providers.failed_responses import failure_of, says_nothing
from eventstore.providers.finish_reason import finish_reason_of
from eventstore.providers.model import (
    CopiedMessage,
    ParsedCall,
    ParsedCompaction,
    ParsedEnd,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
)
from eventstore.providers.native_form import without_restorable_native
from eventstore.providers.parsing import parse_plain
from eventstore.providers.registry import known_provider
from eventstore.providers.response_facts import model_responded
from eventstore.providers.responses import count_of_answers
from eventstore.providers.sdk_objects import plain

_ITEMS = (ParsedMessage, ParsedResult)
_encode = msgspec.json.Encoder(order="deterministic").encode


class HistoryMessage(msgspec.Struct, frozen=True):
    """A message, its stem, and what it says."""

    stem: bytes
    items: list[ParsedItem]
    given: object = msgspec.UNSET
    """The message as JSON; unset for an item of the neutral model, which has no provider's form."""
    failed: ModelResponded | None = None
    """What it says of itself, if it is a response that failed before it said anything."""
    answers: int = 1
    """How many answers the response has, of which the first is taken."""
    compaction: ParsedCompaction | None = None
    ended: ParsedEnd | None = None
    """The compaction that stands here in place of a message."""
    is_copy: bool = False
    """Whether it happened in another conversation."""
    size: int = 0
    """How many bytes it takes as JSON."""

    @property
    def calls(self) -> int:
        """How many calls the message makes."""
        return sum(len(item.calls) for item in self.items if isinstance(item, ParsedMessage))

    @property
    def makes_calls(self) -> bool:
        """Whether the message makes a call."""
        return self.calls > 0

    @property
    def is_of_user(self) -> bool:
        """Whether it is the user's: no results of earlier calls are expected after it."""
        said = (isinstance(item, ParsedMessage) and item.role == "user" for item in self.items)
        return self.compaction is None and self.ended is None and all(said)

    @property
    def may_be_continued(self) -> bool:
        """Whether a further piece of the assistant's message may follow."""
        last = self.items[-1:]
        return any(isinstance(item, ParsedMessage) and item.is_continuation for item in last)


class HistoryReader:
    """Reads the messages of one history, one after the other."""

    def __init__(
        self,
        provider: str,
        is_error: ResultTest | None,
        is_rejection: ResultTest | None,
        error_pattern: str | re.Pattern[str] | None,
        full_text: Callable[[str], str | None] | None = None,
    ) -> None:
        self._provider = provider
        self._tests = (is_error, is_rejection)
        self._error_pattern = None if error_pattern is None else re.compile(error_pattern)
        self._full_text = full_text
        self._stem = b""  # of the last message

    def read(self, message: object) -> HistoryMessage:
        """Return the next message; it is JSON, an SDK's object, or an item of the neutral model.

        Of a `CopiedMessage` it is the message itself, which has the same stem.
        """
        is_copy = isinstance(message, CopiedMessage)
        if isinstance(message, CopiedMessage):
            message = message.message
        given: object = msgspec.UNSET
        failed, answers = None, 1
        if isinstance(message, ParsedCompaction):
            return self._compaction(message, is_copy=is_copy)
        if isinstance(message, ParsedEnd):
            self._stem = stem_of(self._stem, _encode(("ended", message.reason)))
            return HistoryMessage(self._stem, [], ended=message, is_copy=is_copy)
        if isinstance(message, _ITEMS):
            item, form = _encodable(message)
            items = [item]
        else:
            why = failure_of(message, self._provider)
            if why is not None and not why.says_something:
                failed = model_responded(message, known_provider(self._provider))
            answers = count_of_answers(message)
            reason = finish_reason_of(message, self._provider)
            is_whole = why_not_whole(self._provider, reason) is None
            given, form = _encodable_json(_plain(message, is_whole=is_whole))
            is_silent = not is_json_object(message) and says_nothing(message, self._provider, why)
            heard = None if is_silent else given
            parsed = parse_plain(heard, self._provider, *self._tests, failure=why)
            items = [
                without_restorable_native(item, self._provider) for item in map(self._whole, parsed)
            ]
            items = items if is_whole else [_with_reason(item, reason) for item in items]
        self._stem = stem_of(self._stem, form)
        if self._error_pattern is not None:
            items = [_judged_by_text(item, self._error_pattern) for item in items]
        return HistoryMessage(
            self._stem, items, given, failed, answers, is_copy=is_copy, size=len(form)
        )

    def _compaction(self, given: ParsedCompaction, *, is_copy: bool) -> HistoryMessage:
        messages = tuple(map(_encodable, given.messages))
        form = ("compaction", given.first, given.end, [form for _, form in messages])
        self._stem = stem_of(self._stem, _encode(form))
        kept = tuple(item for item, _ in messages if isinstance(item, ParsedMessage))
        compaction = msgspec.structs.replace(given, messages=kept)
        return HistoryMessage(self._stem, [], compaction=compaction, is_copy=is_copy)

    def _whole(self, item: ParsedItem) -> ParsedItem:
        """Return an item; a result that stands cut in its message with the whole of its text."""
        if self._full_text is None or not isinstance(item, ParsedResult):
            return item
        whole = self._full_text(item.text)
        return item if whole is None else msgspec.structs.replace(item, text=whole)


def _plain(message: Any, *, is_whole: bool) -> JsonValue:
    """Return a message as JSON; a response that is not whole keeps what says so."""
    if not is_whole and hasattr(message, "model_dump"):
        message = message.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain(message)


def _with_reason(item: ParsedItem, reason: str | None) -> ParsedItem:
    """Return an item that says why its response was not whole, if it is the assistant's."""
    if not isinstance(item, ParsedMessage) or item.role != "assistant":
        return item
    return msgspec.structs.replace(item, finish_reason=reason)


def content_of(item: ParsedItem) -> tuple[object, ...]:
    """Return what an item says, for digests: members that are added later do not change it."""
    if isinstance(item, ParsedMessage):
        calls = [
            (call.id, call.call.name, call.call.arguments, call.call.raw) for call in item.calls
        ]
        return ("message", item.role, item.parts, calls, item.message_id)
    return ("result", item.id, item.name, item.text, item.parts)


def _judged_by_text(item: ParsedItem, error_pattern: re.Pattern[str]) -> ParsedItem:
    """Return the item; a result whose text says so is a failure."""
    if not isinstance(item, ParsedResult) or item.is_error or item.rejected:
        return item
    return msgspec.structs.replace(item, is_error=bool(error_pattern.search(item.text)))


def _encodable_json(message: JsonValue) -> tuple[JsonValue, bytes]:
    """Return a message that can be written as JSON, and that JSON."""
    try:
        return message, _encode(message)
    except TypeError:  # keys of objects that are not text
        message = readable(message)[0]
        return message, _encode(message)


def _encodable(item: ParsedItem) -> tuple[ParsedItem, bytes]:
    """Return an item that can be written as JSON, and what it says in JSON."""
    try:
        return item, _encode(content_of(item))
    except ValueError:  # half of a surrogate pair
        item = _without_surrogates(item)
        return item, _encode(content_of(item))


def _without_surrogates(item: ParsedItem) -> ParsedItem:
    """Return an item of text alone whose halves of surrogate pairs are written out."""
    if isinstance(item, ParsedResult):
        return msgspec.structs.replace(
            item, id=_escaped(item.id), name=_escaped(item.name), text=_escaped(item.text) or ""
        )
    calls = [
        ParsedCall(
            _escaped(made.id),
            msgspec.structs.replace(
                made.call,
                name=_escaped(made.call.name),
                arguments=readable(made.call.arguments)[0],
                id=_escaped(made.call.id),
                raw=_escaped(made.call.raw),
            ),
        )
        for made in item.calls
    ]
    parts = [
        Text(_escaped(part.text) or "") if isinstance(part, Text) else part for part in item.parts
    ]
    return msgspec.structs.replace(
        item, parts=tuple(parts), calls=tuple(calls), message_id=_escaped(item.message_id)
    )


def _escaped(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()
