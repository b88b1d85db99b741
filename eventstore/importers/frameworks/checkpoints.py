"""LangGraph's checkpoints, wherever they are stored: a thread's last state, and what came after.

A message has the time of the first checkpoint that has it. Objects of Python are taken as
the members that they were packed with; none is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.domain.jsonable import safe_repr
from eventstore.importers.frameworks.pending_writes import SENT, Write, errors_of, messages_of
from eventstore.importers.reading.dialogue import Dialogue
from eventstore.importers.reading.json_lines import decode_noting
from eventstore.importers.reading.json_members import member, objects, text
from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.traced_messages import items_of
from eventstore.importers.reading.transcript import Transcript

_ARGUMENT_PLACE: Final = 2
"""Where the members stand in a Python object that was packed: after its module and class."""

_SNAPSHOT: Final = 7
"""The code of a channel's whole value: a list is its messages, not the members of an object."""


class Thread:
    """A thread so far, or a subgraph in it (its `namespace`), checkpoint by checkpoint."""

    def __init__(self, thread: str, namespace: str, problems: Problems) -> None:
        self._thread = thread
        self._namespace = namespace
        self._problems = problems
        self._seen: dict[str, int | None] = {}
        self._messages: list[JsonObject] = []
        self._sent: JsonValue = None
        self._writes: list[Write] = []

    @property
    def name(self) -> str:
        """What its conversation is named."""
        return f"{self._thread}/{self._namespace}" if self._namespace else self._thread

    def add_state(self, checkpoint_id: str, kind: object, data: bytes) -> None:
        """Take in a whole checkpoint, as it is packed."""
        try:
            state = self._unpacked(checkpoint_id, kind, data)
        except ValueError:
            self._problems.add(f"{self.name}: checkpoint {checkpoint_id} cannot be read")
            return
        known: JsonObject = state if is_json_object(state) else {}
        channels = member(known, "channel_values")
        self._sent = channels.get(SENT)
        self._add(objects(channels, "messages"), known.get("ts"))

    def add_messages(self, checkpoint_id: str, kind: object, data: bytes, time: object) -> None:
        """Take in the messages of a checkpoint, packed by themselves."""
        try:
            messages = self._unpacked(checkpoint_id, kind, data)
        except ValueError:
            self._problems.add(f"{self.name}: checkpoint {checkpoint_id} cannot be read")
            return
        self._add(objects({"messages": messages}, "messages"), time)

    def add_sent(self, kind: object, data: bytes) -> None:
        """Take in what the last checkpoint sends to tasks, packed by itself."""
        with suppress(ValueError):
            self._sent = self._unpacked("", kind, data)

    def add_write(self, task: str, path: str, channel: str, kind: object, data: bytes) -> None:
        """Take in what a task wrote after the last checkpoint."""
        if kind == "null":
            return
        try:
            value = self._unpacked("", kind, data)
        except ValueError:
            self._problems.add(f"{self.name}: what a task wrote to {channel} cannot be read")
            return
        self._writes.append(Write(task, path, channel, value))

    def transcripts(self) -> Iterator[Transcript]:
        """Yield the conversation, if anything was said."""
        dialogue = Dialogue()
        for message in self._messages:
            self._say(dialogue, message)
        for message in messages_of(self._writes):
            if _key(message) not in self._seen:
                self._say(dialogue, message)
        for call_id, said in errors_of(self._writes, self._sent, dialogue.open_calls()):
            if call_id is None:
                self._problems.add(f"{self.name}: a task of several calls failed", detail=said)
            else:
                dialogue.answer(call_id, said, is_error=True)
        if dialogue:
            yield dialogue.transcript(self.name, self._thread if self._namespace else None)

    def _say(self, dialogue: Dialogue, message: JsonObject) -> None:
        for item in items_of([message]):
            dialogue.add(item, self._seen.get(_key(message)))

    def _unpacked(self, checkpoint_id: str, kind: object, data: bytes) -> JsonValue:
        """Return what was packed.

        Raises:
            ValueError: it is written in another way.
        """
        if kind == "msgpack":
            try:
                unpacked: JsonValue = msgspec.msgpack.decode(data, ext_hook=_members)
            except RecursionError as error:
                raise ValueError("nested too deeply") from error
            return unpacked
        if kind == "json":
            where = f"{self.name}: checkpoint {checkpoint_id}"
            return decode_noting(data, self._problems, where=where)
        raise ValueError(kind)

    def _add(self, messages: list[JsonObject], time: object) -> None:
        self._messages = messages
        for message in messages:
            self._seen.setdefault(_key(message), time_of(time))


def _key(message: JsonObject) -> str:
    inner = member(message, "kwargs") or message
    return text(inner, "id") or safe_repr((inner.get("type"), inner.get("content")))


def _members(code: int, data: memoryview) -> JsonValue:
    inner: JsonValue = msgspec.msgpack.decode(data, ext_hook=_members)
    if code == _SNAPSHOT:
        return inner
    if is_json_list(inner) and len(inner) > _ARGUMENT_PLACE:
        return inner[_ARGUMENT_PLACE]
    return inner
