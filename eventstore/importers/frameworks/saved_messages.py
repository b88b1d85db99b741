"""The reader that frameworks' saved messages share: a list, lines, or an object that holds lists.

1. A list is one conversation. So are all messages that stand a line each.
2. An object may hold several, at the `roots` of its form: each is one, named for its key.
3. A message of no kind in particular, with a role and a text, belongs to those beside it.
4. What looks like a call or a result and is not known is refused: the log would be without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import Dialogue
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, text
from eventstore.importers.reading.problems import SourceError
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.importers.signs_of_calls import call_in
from eventstore.providers.model import ParsedResult

ANY: Final = "*"
"""In a root: every member."""

_NAMES: Final = ("conversation_id", "session_id", "thread_id", "id")
_TIMES: Final = ("createdAt", "created_at", "timestamp", "created", "date")
_MAX_DETECTED: Final = 200


class SavedMessages:
    """A file format of messages; derive a class that says which they are, and reads one."""

    name: str
    about: About
    roots: ClassVar[tuple[tuple[str, ...], ...]] = (("messages",),)
    """Where an object holds lists of messages."""
    error_pattern: str | None = None
    """The text of a failure, where results have no mark for one."""

    def is_message(self, value: JsonObject) -> bool:
        """Return whether only this framework writes such a message."""
        raise NotImplementedError

    def add(self, dialogue: Dialogue, message: JsonObject) -> None:
        """Add what a message says, calls and answers."""
        raise NotImplementedError

    def add_all(self, dialogue: Dialogue, messages: list[JsonObject]) -> None:
        """Add the messages of a conversation."""
        for message in messages:
            self.add(dialogue, message)

    def belongs(self, value: JsonObject) -> bool:
        """Return whether a value may stand among the messages, if they are this framework's."""
        return self.is_message(value) or (isinstance(value.get("role"), str) and "content" in value)

    def held_in(self, value: JsonObject) -> Iterator[tuple[str, list[Any]]]:
        """Yield the lists that an object holds, each with the keys that tell it from others."""
        for root in self.roots:
            yield from _lists_at(value, root, "")

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a message, or holds a list of them."""
        if is_json_list(value):
            return unit == "line" and self._are_messages(value)
        if not is_json_object(value):
            return False
        if unit != "file" and self.is_message(value):
            return True
        return any(self._are_messages(found) for _, found in self.held_in(value))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the conversation of single messages, and each that a value holds."""
        single: list[JsonObject] = []
        for number, value in content.values:
            if is_json_object(value) and self.belongs(value):
                single.append(value)
                continue
            held = self._conversations(value)
            if not held:
                content.report(f"not a message of {self.about.program}", number)
            for key, messages in held:
                name = _name_of(value, content, number)
                own = f"{name}/{key}" if len(held) > 1 else name
                yield self._transcript(content, own, messages)
        if single and (transcript := self._transcript(content, content.stem, single)).messages:
            yield transcript

    def _conversations(self, value: JsonValue) -> list[tuple[str, list[Any]]]:
        if is_json_list(value):
            return [("", value)] if self._are_messages(value) else []
        if not is_json_object(value):
            return []
        return [each for each in self.held_in(value) if self._are_messages(each[1])]

    def _transcript(self, content: FileContent, name: str, messages: list[Any]) -> Transcript:
        dialogue = Dialogue()
        self.add_all(dialogue, [each for each in messages if is_json_object(each)])
        return dialogue.transcript(content.unused_name(name), error_pattern=self.error_pattern)

    def _are_messages(self, values: list[Any]) -> bool:
        known = (value for value in values[:_MAX_DETECTED] if is_json_object(value))
        return any(map(self.is_message, known))


def _lists_at(value: JsonValue, root: tuple[str, ...], key: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the lists at a root, each with the keys of any member that led there."""
    if not root:
        if is_json_list(value):
            yield key, value
    elif is_json_object(value):
        first, *rest = root
        for each in value if first == ANY else {first} & value.keys():
            own = f"{key}/{each}".strip("/") if first == ANY else key
            yield from _lists_at(value[each], tuple(rest), own)


def _name_of(value: JsonValue, content: FileContent, number: int) -> str:
    own = text(value, *_NAMES) if is_json_object(value) else ""
    if content.unit == "file":
        return content.name or own or content.stem
    if own:
        return f"{content.name}/{own}" if content.name else own
    return f"{content.stem}/{number}"


def time_of_message(message: JsonObject) -> int | None:
    """Return when a message was written, where it says so."""
    holders = (message, member(message, "metadata"), member(message, "meta"))
    times = (time_of(each.get(key)) for each in holders for key in _TIMES)
    return next(filter(None, times), None)


def role_of(message: JsonObject) -> str:
    """Return the role of a message; some write it as an object with a value."""
    return text(message, "role") or text(member(message, "role"), "value") or "user"


def end_call(dialogue: Dialogue, end: ParsedResult, time: int | None) -> None:
    """Add the end of a call, and the call itself where the messages no longer have it."""
    dialogue.answer(
        end.id, end.text, time, name=end.name, is_error=end.is_error, rejected=end.rejected
    )


def media_shown(part: JsonObject, kind: str, program: str) -> str:
    """Return the text that stands for a part other than text.

    Raises:
        SourceError: it is a call or a result that is not known.
    """
    if call_in(part) is not None:
        raise SourceError(
            f"{kind!r} is not a part that is known of {program}, and looks like a call: export the "
            "messages in a form that is read, or take it out"
        )
    return f"[{kind}]"
