"""Which responses of a model have failed: an error in place of an answer, or no answer. Pure.

The rule:

1. An error has failed, in the form of any provider or gateway: they answer for each other. So has a
   response that ended by an error, whatever was said before.
2. A response that is not whole, or does not say how it ended, has failed if nothing was said: no
   words and no calls. Reasoning alone is neither, where it says how it ended.
3. A whole response without words is an answer, as Claude's at times. It is no message, either.
4. What has a speaker is a message, and what has a type is an item: neither is a response, unless it
   says how it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

from eventstore.agent_errors.response_failed import ResponseFailed
from eventstore.domain.credentials import without_credentials
from eventstore.domain.finish_reasons import EMPTY, ERROR, ending_of, is_word, with_word
from eventstore.domain.foreign_errors import ERROR_STATUSES
from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.domain.value_paths import Path, values_at
from eventstore.providers.adapter_protocol import ResponseMembers
from eventstore.providers.detection import request_of
from eventstore.providers.finish_reason import finish_reason_of
from eventstore.providers.registry import adapter_of
from eventstore.providers.sdk_objects import member, plain


class FailedResponse(msgspec.Struct, frozen=True):
    """Why a response failed, and whether it said anything before.

    `words` are those of the provider for the error, the most telling first.
    """

    provider: str
    reason: str
    says_something: bool
    message: str | None = None
    words: tuple[str, ...] = ()
    status: int | None = None

    def exception(self) -> ResponseFailed:
        """Return what is raised of it."""
        return ResponseFailed(
            self.reason,
            self.message,
            provider=self.provider,
            words=self.words,
            status=self.status,
        )


_UNFINISHED: Final = (None, "queued", "in_progress")
"""What a response says of its end before there is one: a stream may break off there."""


def failure_of(response: object, provider: str) -> FailedResponse | None:
    """Return why a response failed; None of any other, of a message, an item and a request."""
    members = adapter_of(provider).response_members
    if not members.said:  # a provider of the host's own, whose errors are not known
        return None
    error = error_in(response)
    if error is None and not _is_response(response, members):
        return None
    given = finish_reason_of(response, provider)
    ending = ending_of(provider, given)
    if ending == "whole" and given is not None and given.endswith(_NO_WORD):
        given = None  # it says nothing of what came
    if error is None and given is not None and ending == "whole":
        return None
    reasoning_counts = given in _UNFINISHED and error is None  # it may have broken off there
    said = () if error is not None and _is_error(response) else _said_in(response)
    says_something = any(_speaks(value, reasoning_counts=reasoning_counts) for value in said)
    if error is None:
        is_answer = says_something and ending != "broken"
        if is_answer or (given is None and member(response, "done") is True):
            return None
        return FailedResponse(provider, given or EMPTY, says_something)
    words = tuple(_words_of(error))
    reason = ERROR if given is None or ending in ("whole", "truncated") else given
    code = words[0] if words else _status_of(error)
    return FailedResponse(
        provider,
        with_word(reason, None if code is None else str(code)),
        says_something,
        _sentence_of(error),
        words,
        _status_of(error),
    )


def says_nothing(response: object, provider: str, failed: FailedResponse | None) -> bool:
    """Return whether a response has neither words nor calls, nor reasoning if it is an answer.

    `failed` is what `failure_of` says of it.
    """
    if failed is not None:
        return not failed.says_something
    members = adapter_of(provider).response_members
    if not members.said or not _is_response(response, members):
        return False
    return not any(_speaks(value, reasoning_counts=True) for value in _said_in(response))


# Errors

_ERRORS: Final = ("error", "errors", "Error")
_CODES: Final = ("code", "type", "status", "__type", "Code", "error_type", "errorType")
_STATUSES: Final = (
    *("code", "status", "statusCode", "status_code", "http_status", "error_code"),
    "raw_status_code",
)
_SENTENCES: Final = ("message", "Message", "detail", "error_description", "error", "msg", "title")
_NO_WORD: Final = "_UNSPECIFIED"
"""How a reason ends that says nothing."""
_DETAILS: Final[tuple[Path, ...]] = (("details", "violations", "quotaId"), ("details", "reason"))
_BESIDE: Final = frozenset(
    {
        *("id", "request_id", "requestId", "object", "param", "instance", "path", "timestamp"),
        *("ResponseMetadata", "sequence_number", "event_id", "data"),
    }
)
"""Members of errors beside the words and the sentence."""
_OF_ERRORS: Final = _BESIDE.union(_CODES, _STATUSES, _SENTENCES)
_BARE: Final = ("message", "Message", "detail", "__type")
"""One of these an error has that no member calls so."""
_OF_LINES: Final = ("custom_id", "key", "recordId")
"""Members of the lines of a batch's results, which are refused as such."""


def error_in(response: object) -> JsonValue:
    """Return the error that a response, or an event of a stream, holds or is; None of none."""
    kind, speaks = member(response, "type"), isinstance(member(response, "role"), str)
    if speaks and not _has(response, "stop_reason"):
        return None
    if _is_error(response):
        return plain(member(response, "error") or response)
    is_part = isinstance(kind, str) and not speaks  # an item, or an event
    if is_part or any(member(response, key) is not None for key in _OF_LINES):
        return None
    held = next((found for name in _ERRORS if (found := member(response, name))), None)
    if held is not None and not callable(held):
        return plain(response if held is True else held)
    choices = member(response, "choices")
    inner = [member(each, ERROR) for each in choices] if is_json_list(choices) else []
    return next((plain(each) for each in (*inner, member(response, "Output")) if each), None)


def _is_error(response: object) -> bool:
    """Return whether it is an error itself, and not a response that holds one."""
    named = (member(response, "type"), member(response, "object"))
    return ERROR in named or _is_bare(response)


def error_of_event(event: object) -> JsonValue:
    """Return the error that an event of a stream brings; None of any other event.

    An SDK may have the chunk in an event. Bedrock names an error by its only member.
    """
    if is_json_object(event) and len(event) == 1:
        ((name, held),) = event.items()
        if name.endswith("Exception"):
            return {"type": name, **(held if isinstance(held, dict) else {"message": held})}
    kind = member(event, "type")
    if isinstance(kind, str) and kind not in (ERROR, "chunk") and not is_json_object(event):
        return None
    for name in ("chunk", "data"):
        held = member(event, name)
        if held is not None and not isinstance(held, str):
            event = held
    return error_in(event) if kind == ERROR or _may_hold_error(event) else None


def _may_hold_error(chunk: object) -> bool:
    """Return whether a chunk has members that its SDK does not declare, such as an error."""
    if is_json_object(chunk):
        return True
    choices = getattr(chunk, "choices", None)
    parts = [chunk, *(choices if is_json_list(choices) else ())]
    return any(getattr(part, "model_extra", None) for part in parts)


def _is_bare(response: object) -> bool:
    """Return whether it is an error by its members alone: no other says so."""
    given = response if is_json_object(response) else getattr(response, "model_extra", None)
    if not is_json_object(given) or not any(given.get(name) for name in _BARE):
        return False
    whole: JsonValue = plain(response)
    if not is_json_object(whole):
        return False
    held = {name: value for name, value in whole.items() if value is not None}
    return held.keys() <= _OF_ERRORS.union(given) and any(
        isinstance(held.get(name), str) or (name == "detail" and is_json_list(held.get(name)))
        for name in _BARE
    )


def _objects_in(error: JsonValue) -> Iterator[JsonObject]:
    """Yield an error's objects: itself, and those that it wraps."""
    if is_json_list(error):
        for each in error:
            yield from _objects_in(each)
    elif is_json_object(error):
        yield error
        for name in ("error", "detail", "message"):
            held: JsonValue = error.get(name)
            if isinstance(held, dict | list):
                yield from _objects_in(held)


def _words_of(error: JsonValue) -> list[str]:
    """Return the provider's words for an error, the most telling first; numbers come last."""
    found: list[str] = []
    for each in _objects_in(error):
        found += [w for path in _DETAILS for w in values_at(each, path) if isinstance(w, str)]
        given = (each.get(name) for name in _CODES)
        found += [w.rpartition("#")[2].partition(":")[0] for w in given if isinstance(w, str)]
    words = dict.fromkeys(w for w in found if is_word(w) and w != ERROR)
    known = [word for word in words if without_credentials(word) == word]
    return sorted(known, key=str.isdigit)


def _status_of(error: JsonValue) -> int | None:
    """Return the HTTP status that an error names."""
    for each in _objects_in(error):
        for name in _STATUSES:
            given: JsonValue = each.get(name)
            number = int(given) if isinstance(given, str) and given.isdecimal() else given
            if type(number) is int and number in ERROR_STATUSES:
                return number
    return None


def _sentence_of(error: JsonValue) -> str | None:
    """Return the provider's own sentence."""
    if isinstance(error, str):
        return error
    sentences = (
        text
        for each in _objects_in(error)
        for name in _SENTENCES
        if isinstance(text := each.get(name), str) and text
    )
    texts = [each for each in error if isinstance(each, str)] if is_json_list(error) else []
    return next(sentences, None) or "; ".join(texts) or None


# What is said

_SAYING: Final[tuple[Path, ...]] = (
    *(("choices", "message"), ("choices", "text"), ("candidates", "content")),
    *(("output",), ("message",), ("content",), ("parts",), ("text",)),
)
"""Where a response, or a part of one, holds words and calls."""

_SILENT: Final = frozenset(
    {
        *("role", "type", "status", "id", "index", "phase", "annotations", "object", "created_at"),
        *("thoughtSignature", "thought_signature", "logprobs"),
    }
)
"""Members that are neither words nor calls."""
_REASONING: Final = frozenset(
    {"reasoning", "reasoning_content", "reasoning_details", "reasoningContent", "thinking"}
)
"""Members that hold reasoning."""
_REASONING_TYPES: Final = frozenset({"reasoning", "thinking", "redacted_thinking"})


@cache
def _names_in(members: ResponseMembers) -> frozenset[str]:
    """Return the members of the provider's responses that messages and items do not have."""
    own = (*members.said, *members.finish_reason, *members.input, *members.output)
    names = {path[0] for path in (*own, *members.response_id, *members.model)}
    return frozenset(names - {"id", "model", "content"})


def _is_response(response: object, members: ResponseMembers) -> bool:
    """Return whether it is a response of the provider, and not a message or an item."""
    names = _names_in(members)
    if isinstance(member(response, "role"), str):
        return "stop_reason" in names and _has(response, "stop_reason")
    if isinstance(member(response, "type"), str) or _has(response, "call_id"):
        return False
    speaker = member(member(response, "message"), "role")
    if speaker not in (None, "assistant"):
        return False
    is_named = member(response, "object") in _OBJECTS
    if not is_named and not _has_any(response, names):
        return False
    return request_of(response) is None


_OBJECTS: Final = ("chat.completion", "response")
"""What whole responses call themselves."""


def _has_any(response: object, names: frozenset[str]) -> bool:
    if is_json_object(response):
        return not names.isdisjoint(response)
    return any(_has(response, name) for name in names)


def _has(response: object, name: str) -> bool:
    if is_json_object(response):
        return name in response
    return callable(getattr(response, "model_dump", None)) and hasattr(response, name)


def _said_in(response: object) -> Iterator[JsonValue]:
    for path in _SAYING:
        for value in values_at(response, path):
            if not isinstance(value, str) or path in (("content",), ("text",), ("choices", "text")):
                yield value if isinstance(value, str | dict | list) else plain(value)


def _speaks(value: Any, *, reasoning_counts: bool) -> bool:
    """Return whether there is a word or a call in a value."""
    silent = _SILENT if reasoning_counts else _SILENT | _REASONING
    passed_over = frozenset[str]() if reasoning_counts else _REASONING_TYPES
    open_values = [value]
    while open_values:
        each: Any = open_values.pop()
        if isinstance(each, str) and each:
            return True
        if is_json_list(each):
            open_values += each
        elif is_json_object(each):
            is_thought = each.get("thought") is True and not reasoning_counts
            kind: JsonValue = each.get("type")
            is_thought = is_thought or (isinstance(kind, str) and kind in passed_over)
            if not is_thought:
                open_values += [inner for key, inner in each.items() if key not in silent]
        elif callable(getattr(each, "model_dump", None)):
            open_values.append(plain(each))
    return False
