"""Files of messages in any provider's form, as lists, objects and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeGuard

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.foreign_shapes import foreign_shape, refuse_unread
from eventstore.importers.messages_in_form import in_form
from eventstore.importers.programs import cline, droid
from eventstore.importers.reading.dialogue import ERROR_TEXT
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.problems import SourceError
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.importers.signs_of_calls import call_in
from eventstore.providers.detection import LIST_KEYS, likely_provider_of, provider_of
from eventstore.providers.registry import PROVIDERS, adapter_of

MAX_DETECTED_VALUES = 200
"""Messages that are looked at to detect their form."""

_NAMES = ("conversation_id", "session_id", "thread_id", "id")
_TIMES = ("timestamp", "created_at", "created", "time", "ts", "date")


def is_conversation(value: object) -> TypeGuard[JsonObject]:
    """Return whether a value is an object with a list of messages."""
    if not is_json_object(value) or foreign_shape(value) or cline.is_session(value):
        return False
    messages = _messages_of(value)
    return messages is not None and (not messages or any(map(is_message, messages)))


def is_message(value: object) -> TypeGuard[JsonObject]:
    """Return whether a value is a message, or an item of OpenAI Responses."""
    if not is_json_object(value):
        return False
    return isinstance(value.get("role"), str) or ("call_id" in value and "type" in value)


def _messages_of(value: JsonObject) -> list[Any] | None:
    """Return the list of messages in an object, by whatever name a provider gives it."""
    lists = (value.get(key) for key in LIST_KEYS)
    return next((found for found in lists if is_json_list(found)), None)


def form_of(messages: Sequence[object], *named: object, has_system: bool = False) -> str:
    """Return the provider whose form messages have: the first of those `named`, or the likeliest.

    `has_system`: a system text stands next to them, as in requests to Anthropic.
    """
    for name in named:
        if isinstance(name, str) and name in PROVIDERS:
            return name
    found = provider_of(messages[:MAX_DETECTED_VALUES]) or likely_provider_of(messages)
    return found or ("anthropic" if has_system else "openai")


def _of_object(value: JsonObject, conversation_id: str, provider: str | None) -> Transcript:
    """Return the transcript of an object with `messages` (and `system`)."""
    messages: list[Any] = _messages_of(value) or []
    system: JsonValue = value.get("system")
    has_system = isinstance(system, (str, list)) and system not in ("", [])
    form = form_of(messages, provider, value.get("provider"), has_system=has_system)
    if has_system:
        messages = [{"role": "system", "content": system}, *messages]
    return _transcript(conversation_id, form, messages)


def _of_list(values: list[Any], conversation_id: str, provider: str | None) -> Transcript:
    """Return the transcript of a list of messages."""
    return _transcript(conversation_id, form_of(values, provider), values)


def _transcript(conversation_id: str, form: str, messages: list[Any]) -> Transcript:
    return Transcript(
        conversation_id,
        form,
        in_form(messages, (), form),
        times=[_time(message) for message in messages],
        error_pattern=_pattern(form),
    )


def _pattern(form: str) -> str | None:
    """Return the text of a failure, where the results of a provider have no mark for one."""
    return None if adapter_of(form).error_flag else ERROR_TEXT


def _time(message: object) -> int | None:
    """Return when a message was written, where the file says so next to the message's own."""
    if not is_json_object(message):
        return None
    return next((time for key in _TIMES if (time := time_of(message.get(key)))), None)


class Messages:
    """Files of one conversation: each line, or each item of the JSON list, is a message."""

    name = "messages"

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line or an item is a message."""
        if unit == "file" or cline.is_task_message(value) or droid.is_record(value):
            return False
        return is_message(value) and foreign_shape(value) is None

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the one conversation; lines are read as its messages are taken."""
        times: list[int | None] = []

        def messages() -> Iterator[JsonObject]:
            for number, value in content.values:
                if is_message(value):
                    times.append(_time(value))
                    yield value
                elif (lost := call_in(value)) is not None:
                    raise SourceError(
                        f"{content.unit} {number} is {lost!r}, not in a message: put it there"
                    )
                else:
                    content.report("not a message: it has no role", number)
            refuse_unread(content)

        if content.unit == "line":
            remaining = messages()
            head = list(islice(remaining, MAX_DETECTED_VALUES))
            refuse_unread(content)
            form = form_of(head, content.provider)
            # Messages that were only looked at must not count as read.
            yield Transcript(
                content.stem,
                form,
                in_form(head, remaining, form),
                times=times,
                error_pattern=_pattern(form),
            )
        elif found := list(messages()):
            yield _of_list(found, content.stem, content.provider)


class Conversations:
    """Files of conversations: objects with `messages` (and `system`), or lists of messages."""

    name = "conversations"

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a conversation; a list is one only on a line of its own."""
        if unit == "line" and is_json_list(value):
            return any(map(is_message, value)) and foreign_shape(value) is None
        return is_conversation(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the conversations."""
        for number, value in content.values:
            if is_conversation(value):
                yield _of_object(value, self._name(value, number, content), content.provider)
            elif is_json_list(value) and any(map(is_message, value)):
                name = content.unused_name(f"{content.stem}/{number}")
                yield _of_list(value, name, content.provider)
            else:
                content.report("not a conversation: it has no messages", number)

    def _name(self, value: JsonObject, number: int, content: FileContent) -> str:
        numbers = () if content.unit == "file" else (number,)
        name, is_own = name_of(value, content.stem, numbers)
        if content.unit == "file":
            return content.name or (name if is_own else content.stem)
        if is_own:
            return f"{content.name}/{name}" if content.name else name
        return content.unused_name(name)


def name_of(value: JsonObject, stem: str, numbers: Sequence[object]) -> tuple[str, bool]:
    """Return the id of a conversation object, and whether the object itself names it.

    Otherwise the id is made of `stem` and `numbers`.
    """
    for key in _NAMES:
        own = value.get(key)
        if isinstance(own, str) and own.strip():
            return own, True
    task = value.get("task_id")
    if isinstance(task, str | int) and str(task).strip():
        name = task if isinstance(task, str) else f"task-{task}"
        trial = value.get("trial")
        return f"{stem}/{name}" + (f"/trial-{trial}" if isinstance(trial, int) else ""), False
    return "/".join(map(str, (stem, *numbers))), False
