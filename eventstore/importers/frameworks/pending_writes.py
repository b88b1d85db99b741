"""What tasks of LangGraph wrote after a thread's last checkpoint: the step did not end.

1. A message that a task wrote is part of the conversation: its call has run.
2. An error is the end of the one call that its task had. A task that was sent to run one call has
   the number of that call in its path. Of another task it is known where one call alone is open.
3. A task that was interrupted waits: its call stays open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.reading.json_members import member, text, text_of

MESSAGES: Final = "messages"
SENT: Final = "__pregel_tasks"
"""The channel with what is sent to tasks: a node, and what it is given."""
ERROR: Final = "__error__"
_INTERRUPT: Final = "__interrupt__"
CHANNELS: Final = (MESSAGES, ERROR, _INTERRUPT)

_PUSHED: Final = re.compile(r"~__pregel_push, 0*(\d{1,9})\b")


class Write(NamedTuple):
    """A value that a task wrote to a channel."""

    task: str
    path: str
    channel: str
    value: JsonValue


def messages_of(writes: Sequence[Write]) -> Iterator[JsonObject]:
    """Yield the messages that tasks wrote, one or a list each time."""
    for write in writes:
        if write.channel == MESSAGES:
            listed = write.value if is_json_list(write.value) else [write.value]
            for each in listed:
                if is_json_object(each):
                    yield each
                elif is_json_list(each) and len(each) == len(("role", "content")):
                    yield {"type": each[0], "content": each[1]}


def errors_of(
    writes: Sequence[Write], sent: JsonValue, open_calls: Sequence[str]
) -> Iterator[tuple[str | None, str]]:
    """Yield the errors of tasks, each with the call that it ended; None where that is not known."""
    sent_calls = [_calls_of(packet) for packet in sent] if is_json_list(sent) else []
    waiting = {write.task for write in writes if write.channel == _INTERRUPT}
    for write in writes:
        if write.channel != ERROR or write.task in waiting:
            continue
        pushed = _PUSHED.match(write.path)
        number = int(pushed[1]) if pushed else len(sent_calls)
        calls = sent_calls[number] if number < len(sent_calls) else open_calls
        ended = [call for call in open_calls if call in calls]
        yield (ended[0] if len(ended) == 1 else None), text_of(write.value)


def _calls_of(packet: JsonValue) -> list[str]:
    """Return the ids of the calls that a task is given, in the forms of three versions."""
    given: JsonValue = packet[-1] if is_json_list(packet) and packet else None
    listed = given if is_json_list(given) else [given]
    held = (each for each in listed if is_json_object(each))
    return [text(member(each, "tool_call") or each, "id") for each in held]
