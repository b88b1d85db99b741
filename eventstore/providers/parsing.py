"""Parsing of a provider's messages into items, before calls are paired with results."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import length_hint
from typing import Any, Final

import msgspec

from eventstore.domain.failure import Failure
from eventstore.domain.finish_reasons import why_not_whole
from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.domain.messages import Text
from eventstore.domain.own_texts import error_of_text
from eventstore.providers.adapter_protocol import ResultTest
from eventstore.providers.detection import MESSAGE_LABEL, is_foreign, listed, refuse_foreign
from eventstore.providers.failed_responses import FailedResponse, failure_of, says_nothing
from eventstore.providers.finish_reason import finish_reason_of
from eventstore.providers.json_values import as_text
from eventstore.providers.model import Change, ParsedItem, ParsedMessage, ParsedResult
from eventstore.providers.registry import adapter_of, list_key
from eventstore.providers.responses import refuse_several
from eventstore.providers.sdk_objects import json_of, plain

_FRAME: Final = frozenset(
    {
        *("id", "role", "type", "status", "name", "call_id", "tool_call_id"),
        *("model", "usage", "stop_reason", "stop_sequence", "stop_details", "finish_reason"),
        *("done_reason", "service_tier", "system_fingerprint", "object", "created", "created_at"),
    }
)
"""Members of a message, or of a whole response, that say nothing by themselves."""


def parse(
    messages: Sequence[Any] | JsonObject,
    name: str,
    is_error: ResultTest | None = None,
    is_rejection: ResultTest | None = None,
) -> list[ParsedItem]:
    """Return the items of messages in a provider's form: dicts, or the SDK's own objects.

    `messages` may be a whole request, whose messages are then taken. `is_error` returns whether a
    result, as the provider wrote it, is a failure; by default, the member `is_error` says so, and
    `{"error":"..."}` as its text does, where the provider has no mark for it.
    `is_rejection` returns whether a person refused the call. No message raises an error.
    """
    given = _without_silent(listed(messages, list_key(name)), name)
    return _parsed(given, [plain(message) for message in given], name, is_error, is_rejection)[0]


def parse_plain(
    message: JsonValue,
    name: str,
    is_error: ResultTest | None = None,
    is_rejection: ResultTest | None = None,
    failure: FailedResponse | None = None,
) -> list[ParsedItem]:
    """Return the items of one message, which is plain JSON already; see `parse` and `plain`.

    `failure` is what `failure_of` says of it.
    """
    taken: list[Any] = [None if says_nothing(message, name, failure) else message]
    return _parsed(taken, taken, name, is_error, is_rejection)[0]


def parse_own(
    messages: Sequence[Any] | JsonObject,
    name: str,
    is_error: ResultTest | None = None,
    is_rejection: ResultTest | None = None,
    label: str = MESSAGE_LABEL,
    failures: Sequence[FailedResponse | None] | None = None,
) -> list[ParsedItem]:
    """Return the items of messages that will be stored; see `parse`.

    Raises:
        ValueError: the calls, or results, are in another provider's form.
    """
    return parse_own_numbered(messages, name, is_error, is_rejection, label, failures)[0]


def parse_own_numbered(
    messages: Sequence[Any] | JsonObject,
    name: str,
    is_error: ResultTest | None = None,
    is_rejection: ResultTest | None = None,
    label: str = MESSAGE_LABEL,
    failures: Sequence[FailedResponse | None] | None = None,
) -> tuple[list[ParsedItem], list[int]]:
    """Return the items of messages, and for each the number of its message; see `parse_own`."""
    listing = [*listed(messages, list_key(name))]
    for number, message in enumerate(listing):
        refuse_several(message, label.format(number))
    given = _without_silent(listing, name, failures)
    taken = [plain(message) for message in given]
    items, numbers = _parsed(given, taken, name, is_error, is_rejection)
    refuse_foreign(taken, items, name, label)
    return items, numbers


def _without_silent(
    messages: Iterable[object],
    name: str,
    failures: Sequence[FailedResponse | None] | None = None,
) -> list[object]:
    """Return messages with None for each response that says nothing."""
    given = [*messages]
    known = [failure_of(each, name) for each in given] if failures is None else failures
    return [
        None if says_nothing(message, name, failed) else message
        for message, failed in zip(given, known, strict=True)
    ]


def _parsed(
    given: list[object],
    taken: list[JsonValue],
    name: str,
    is_error: ResultTest | None,
    is_rejection: ResultTest | None,
) -> tuple[list[ParsedItem], list[int]]:
    messages = iter(taken)
    parsed = _parse_json(given, messages, messages, name, is_error, is_rejection)
    return parsed.items, parsed.numbers


class Parsed(msgspec.Struct):
    """The items of messages, for each the number of its message, and what was changed in which."""

    items: list[ParsedItem]
    numbers: list[int]
    changes: list[tuple[int, Change]]


def parse_in_place(messages: list[Any], name: str, is_error: ResultTest | None = None) -> Parsed:
    """Return the items of messages, with the places that they come from; see `parse`."""
    if any(map(_is_no_message, messages)):
        messages = _without_silent(messages, name)
    given = iter(messages)
    json = json_of(messages) if {*map(type, messages)} == {dict} else None
    taken = map(plain, given) if json is None else given
    return _parse_json(messages, given, taken, name, is_error, None, json)


def _is_no_message(message: object) -> bool:
    """Return whether it may be a response that says nothing: what has a speaker says something."""
    if not is_json_object(message):  # an SDK's object, which may be a whole response
        return hasattr(type(message), "model_dump")
    return not isinstance(message.get("role"), str) and message.get("type") in _UNTYPED


_UNTYPED: Final = (None, "error")


def _parse_json(
    messages: Sequence[Any],
    given: Iterator[Any],
    taken: Iterator[JsonValue],
    name: str,
    is_error: ResultTest | None,
    is_rejection: ResultTest | None,
    json: bytes | None = None,
) -> Parsed:
    """Return the items of `messages`, over which `given` goes, and `taken` as JSON values.

    `json` is the JSON text of all of them, where it is known.
    """
    last = len(messages) - 1
    items: list[ParsedItem] = []
    numbers: list[int] = []
    tests = (is_error or bears_error_mark, is_rejection or _never)
    adapter = adapter_of(name)
    has_mark = is_error is not None or adapter.error_flag
    changes: list[tuple[int, Change]] = []

    def as_on_wire() -> Iterator[JsonValue]:
        made: list[Change] = []
        for message in taken:
            wired = adapter.as_on_wire(message, made)
            if made:
                changes.extend((last - length_hint(given), change) for change in made)
                made.clear()
            yield wired

    is_on_wire = json is not None and adapter.is_on_wire(json)
    for item in adapter.parse(taken if is_on_wire else as_on_wire(), *tests):
        items.append(item if has_mark or type(item) is ParsedMessage else _error_by_text(item))
        numbers.append(last - length_hint(given))  # every adapter takes one after the other
    doubtful = [item for item in items if not item.well_formed]
    if len({*numbers}) < len(messages) or any(map(_is_silent, doubtful)):
        spoken = (
            number for item, number in zip(items, numbers, strict=True) if not _is_silent(item)
        )
        for number in sorted({*range(len(messages))}.difference(spoken), reverse=True):
            _keep_as_text(messages[number], number, items, numbers)
    _mark_not_whole(items, numbers, messages, name)
    return Parsed(items, numbers, changes)


def _mark_not_whole(
    items: list[ParsedItem], numbers: Sequence[int], messages: Sequence[Any], name: str
) -> None:
    """Mark the items with calls whose response is not whole, as the response says, or one of them.

    See `eventstore.domain.finish_reasons`.
    """
    why: dict[int, Failure | None] = {}
    members = {path[0] for path in adapter_of(name).response_members.finish_reason}
    for item, number in zip(items, numbers, strict=True):
        if type(item) is not ParsedMessage:
            continue
        if item.calls and number not in why:
            message: object = messages[number]
            if not is_json_object(message) or not members.isdisjoint(message):
                why[number] = why_not_whole(name, finish_reason_of(message, name))
        if item.not_whole is not None:
            why[number] = why.get(number) or item.not_whole
    if not any(why.values()):
        return
    for index, (item, number) in enumerate(zip(items, numbers, strict=True)):
        failure = why.get(number)
        if type(item) is ParsedMessage and item.calls and failure is not item.not_whole:
            items[index] = msgspec.structs.replace(item, not_whole=failure)


def _is_silent(item: ParsedItem) -> bool:
    if item.well_formed or item.parts:
        return False
    return not (item.text if isinstance(item, ParsedResult) else item.calls)


def _keep_as_text(
    message: object, number: int, items: list[ParsedItem], numbers: list[int]
) -> None:
    """Keep a message as text, instead of its items, if it has the members of another provider."""
    given = plain(message)
    if not isinstance(given, dict) or not is_foreign(given):
        return
    content = {key: value for key, value in given.items() if key not in _FRAME and _has_text(value)}
    if not content:
        return
    text = as_text(next(iter(content.values())) if len(content) == 1 else content)
    start, end = bisect_left(numbers, number), bisect_right(numbers, number)
    made = next((each for each in items[start:end] if isinstance(each, ParsedResult)), None)
    if made is not None:
        items[start:end] = [msgspec.structs.replace(made, text=text)]
    else:
        role = "assistant" if given.get("role") in ("assistant", "model") else "user"
        items[start:end] = [ParsedMessage(role, (Text(text),))]
    numbers[start:end] = [number]


def _has_text(value: JsonValue) -> bool:
    """Return whether there is a text in a value that is more than a name."""
    open_values = [value]
    while open_values:
        each: JsonValue = open_values.pop()
        if isinstance(each, str) and each.strip():
            return True
        if isinstance(each, list):
            open_values += each
        elif isinstance(each, dict):
            open_values += [inner for key, inner in each.items() if key not in _FRAME]
    return False


def _error_by_text(item: ParsedItem) -> ParsedItem:
    """Return an item; a result that is an error by its text says what the error does."""
    if not isinstance(item, ParsedResult) or item.is_error or item.rejected:
        return item
    said = error_of_text(item.text)
    return item if said is None else msgspec.structs.replace(item, text=said, is_error=True)


def bears_error_mark(result: JsonObject) -> bool:
    """Return whether a result has `is_error: true`."""
    return result.get("is_error") is True


def _never(_: JsonObject) -> bool:
    return False
