"""One conversation of a file, as a provider's messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import msgspec

from eventstore.domain.json_types import is_json_list, is_json_object
from eventstore.providers.model import CopiedMessage

_REFUSALS = (
    "The user doesn't want to proceed with this tool use.",
    "The user doesn't want to take this action right now.",
    "Permission prompt was aborted.",
    "Permission denied by user",
)


class Transcript(msgspec.Struct):
    """A conversation: a provider's messages under a stable id.

    `messages` may be an iterator that reads the file as it goes; they are in the form of
    `provider`, or items of the neutral model (`ParsedItem`). `times` are their times at the source,
    of the messages read so far, in microseconds since 1970 UTC. A result whose text matches
    `error_pattern` is a failure. The transcript of a sub-agent names the conversation and the call
    that started it. `part_id` names what may be one part of several, where the log has another part
    under the id itself. `is_rejection` says what refused the call of a result, where the file has
    marks of its own for it; otherwise `is_refusal` does. `full_text` gives the whole of a result
    that stands cut in its message.

    The first `copied` messages happened in another conversation, as where a fork repeats its
    parent: they become `CopiedMessage`s, and their events copies (`Recorded.is_copy`). Where
    `may_repeat`, a beginning that the log has in another conversation is a copy, too: nothing but
    a copy can be equal, as the program's ids are unique.
    """

    id: str
    provider: str
    messages: Iterable[Any]
    parent_id: str | None = None
    parent_call_id: str | None = None
    times: list[int | None] = []
    error_pattern: str | None = None
    part_id: str | None = None
    is_rejection: Callable[[Any], bool | str] | None = None
    full_text: Callable[[str], str | None] | None = None
    copied: int = 0
    may_repeat: bool = False

    def __post_init__(self) -> None:
        if self.copied:
            self.messages = _marked(self.messages, self.copied)


def _marked(messages: Iterable[Any], copied: int) -> Iterable[Any]:
    if isinstance(messages, Iterator):
        return chain(map(CopiedMessage, islice(messages, copied)), messages)
    return _Marked(messages, copied)


class _Marked(msgspec.Struct):
    """Messages of which the first are copied; they can be read again."""

    messages: Iterable[Any]
    copied: int

    def __iter__(self) -> Iterator[Any]:
        for number, message in enumerate(self.messages):
            yield CopiedMessage(message) if number < self.copied else message


def is_refusal(result: object) -> bool:
    """Return whether a `tool_result` block of Anthropic says that a person refused the call."""
    if not is_json_object(result) or result.get("is_error") is not True:
        return False
    content = result.get("content")
    if is_json_list(content) and content and is_json_object(content[0]):
        content = content[0].get("text")
    return isinstance(content, str) and content.startswith(_REFUSALS)
