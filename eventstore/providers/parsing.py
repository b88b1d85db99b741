"""Parsing of a provider's messages into items, before calls are paired with results."""

from __future__ import annotations

from collections.abc import Sequence
from operator import length_hint
from typing import Any

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.adapter_protocol import ResultTest
from eventstore.providers.detection import MESSAGE_PLACE, listed, refuse_foreign
from eventstore.providers.model import ParsedItem
from eventstore.providers.registry import adapter_of, list_key
from eventstore.providers.sdk_objects import is_json, plain


def parse(
    messages: Sequence[Any] | JsonObject,
    name: str,
    is_error: ResultTest | None = None,
    is_rejection: ResultTest | None = None,
) -> list[ParsedItem]:
    """Return the items of messages in a provider's form: dicts, or the SDK's own objects.

    `messages` may be a whole request, whose messages are then taken. `is_error` returns whether a
    result, as the provider wrote it, is a failure; by default, the member `is_error` says so.
    `is_rejection` returns whether a person refused the call. No message raises an error.
    """
    return _parsed(_plain_list(messages, name), name, is_error, is_rejection)


def parse_own(
    messages: Sequence[Any] | JsonObject,
    name: str,
    is_error: ResultTest | None = None,
    is_rejection: ResultTest | None = None,
    place: str = MESSAGE_PLACE,
) -> list[ParsedItem]:
    """Return the items of messages that will be stored; see `parse`.

    Raises:
        ValueError: the calls, or results, are in another provider's form.
    """
    given = _plain_list(messages, name)
    items = _parsed(given, name, is_error, is_rejection)
    refuse_foreign(given, items, name, place)
    return items


def _parsed(
    given: list[JsonValue],
    name: str,
    is_error: ResultTest | None,
    is_rejection: ResultTest | None,
) -> list[ParsedItem]:
    tests = (is_error or bears_error_mark, is_rejection or _never)
    return list(adapter_of(name).parse(iter(given), *tests))


def _plain_list(messages: object, name: str) -> list[JsonValue]:
    return [plain(message) for message in listed(messages, list_key(name))]


def parse_in_place(
    messages: list[Any], name: str, is_error: ResultTest | None = None
) -> tuple[list[ParsedItem], list[int]]:
    """Return the items of messages, and for each the message that it comes from; see `parse`."""
    given = iter(messages)  # every adapter takes one message after the other
    last = len(messages) - 1
    known = {*map(type, messages)} <= {dict} and is_json(messages)
    items: list[ParsedItem] = []
    places: list[int] = []
    taken = given if known else map(plain, given)
    for item in adapter_of(name).parse(taken, is_error or bears_error_mark, _never):
        items.append(item)
        places.append(last - length_hint(given))
    return items, places


def bears_error_mark(result: JsonObject) -> bool:
    """Return whether a result has `is_error: true`."""
    return result.get("is_error") is True


def _never(_: JsonObject) -> bool:
    return False
