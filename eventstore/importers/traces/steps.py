"""Traces: steps of models and of tools with their times, as one conversation.

1. Steps are added in the order in which they began.
2. A model's step repeats the messages before it: only what is new in it is added.
3. Of model steps inside one another the innermost is added.
4. A tool's step answers the call with its id. Without an id it answers the first call of its name
   that waits, one with its arguments before others; where none waits, the step is a call itself.
5. A call without an id gets the id of its run: the first of its name, one with its arguments before
   others. A result without one answers the first call of its name that waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from eventstore.domain.json_types import JsonValue, is_json_object
from eventstore.domain.messages import Text
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.json_members import parsed, text_of
from eventstore.providers.model import ParsedCall, ParsedItem, ParsedResult


class ModelStep(msgspec.Struct, kw_only=True):
    """A request to a model: the messages it was sent, and those it answered."""

    id: str
    parent_id: str = ""
    start: int | None = None
    end: int | None = None
    inputs: list[ParsedItem] = []
    outputs: list[ParsedItem] = []


class ToolStep(msgspec.Struct, kw_only=True):
    """The run of a tool; `call_id` is the provider's, where the trace has it."""

    id: str
    parent_id: str = ""
    start: int | None = None
    end: int | None = None
    name: str = ""
    call_id: str = ""
    arguments: JsonValue = None
    result: JsonValue = None
    is_error: bool = False


Step = ModelStep | ToolStep


def trace_as_dialogue(steps: Sequence[Step], parents: dict[str, str]) -> Dialogue:
    """Return the conversation that steps tell; `parents` has the parent of every span."""
    outer = set(_outer(steps, parents))
    reader = _TraceReader(step for step in steps if isinstance(step, ToolStep))
    for step in sorted(steps, key=lambda each: each.start or 0):
        if isinstance(step, ToolStep):
            reader.run(step)
        elif step.id not in outer:
            reader.request(step)
    return reader.dialogue


def _outer(steps: Iterable[Step], parents: dict[str, str]) -> Iterator[str]:
    """Yield the spans around a model's step."""
    for step in steps:
        if isinstance(step, ModelStep):
            above, seen = step.parent_id, {step.id}
            while above and above not in seen:
                yield above
                seen.add(above)
                above = parents.get(above, "")


class _TraceReader:
    def __init__(self, tools: Iterable[ToolStep]) -> None:
        self.dialogue = Dialogue()
        unclaimed = sorted(tools, key=lambda each: each.start or 0)
        self._unclaimed = {step.id: step for step in unclaimed}
        self._runs = {step.call_id or step.id: step for step in unclaimed}
        self._calls = 0
        self._added: Counter[Hashable] = Counter()
        self._waiting: dict[str, ParsedCall] = {}
        self._answered: set[str] = set()

    def request(self, step: ModelStep) -> None:
        """Tell what is new in a request, and its answer."""
        seen: Counter[Hashable] = Counter()
        for item in step.inputs:
            if self._is_new(item, seen):
                self._say(self._identified(item, step), step.start)
        for item in step.outputs:
            if self._is_new(item, seen):
                own = self._identified(item, step)
                self._say(own, self._earliest(own, step.end))

    def _is_new(self, item: ParsedItem, seen: Counter[Hashable]) -> bool:
        """Return whether an item stands more often in a request than it was added."""
        key = _key(item)
        seen[key] += 1
        if seen[key] <= self._added[key]:
            return False
        self._added[key] += 1
        return True

    def _say(self, item: ParsedItem, time: int | None) -> None:
        if isinstance(item, ParsedResult):
            self._answer(item, time)
            return
        if item.calls and all(self.dialogue.has_call(call.id or "") for call in item.calls):
            return
        self._waiting.update({call.id: call for call in item.calls if call.id})
        self.dialogue.add(item, time)

    def _identified(self, item: ParsedItem, step: ModelStep) -> ParsedItem:
        """Return an item whose calls have ids: the ids of their runs, where there are runs."""
        if isinstance(item, ParsedResult) or all(call.id for call in item.calls):
            return item
        calls: list[ParsedCall] = []
        for made in item.calls:
            self._calls += 1
            run = None if made.id else self._run_of(made)
            own = made.id or (run and (run.call_id or run.id)) or f"{step.id}-{self._calls}"
            calls.append(call_of(own, made.call.name, made.call.arguments))
        return msgspec.structs.replace(item, calls=tuple(calls))

    def _earliest(self, item: ParsedItem, time: int | None) -> int | None:
        """Return when an answer was there: its step may end after the runs of its calls."""
        if isinstance(item, ParsedResult) or time is None:
            return time
        runs = (self._runs.get(call.id or "") for call in item.calls)
        return min([time, *(run.start for run in runs if run and run.start is not None)])

    def _run_of(self, made: ParsedCall) -> ToolStep | None:
        """Take the run of a call that has no id; no other call has it then."""
        named = [each for each in self._unclaimed.values() if _is_of(each, made.call.name)]
        alike = (each for each in named if made.call.arguments in _forms(each.arguments))
        run = next(alike, named[0] if named else None)
        return self._unclaimed.pop(run.id) if run else None

    def _answer(self, item: ParsedResult, time: int | None) -> None:
        if not item.id and item.name:
            named = (i for i, call in self._waiting.items() if call.call.name == item.name)
            call_id = next(named, "")
            if not call_id:
                return  # its run has told of it
            item = msgspec.structs.replace(item, id=call_id)
        call_id = item.id or ""
        if call_id in self._answered:
            return
        run = self._runs.get(call_id)
        if run is not None:
            self._end(run, call_id, item.text)
        else:
            self._settle(call_id)
            self.dialogue.add(item, time)

    def run(self, step: ToolStep) -> None:
        """Tell a tool's run."""
        waits = step.id if step.id in self._waiting else None
        call_id = step.call_id or waits or self._match(step) or step.id
        if call_id in self._answered:
            return
        if not self.dialogue.has_call(call_id):
            call = call_of(call_id, step.name, step.arguments)
            self.dialogue.reply("", [call], step.start)
        self._end(step, call_id, "")

    def _match(self, step: ToolStep) -> str | None:
        named = [(i, call) for i, call in self._waiting.items() if _is_of(step, call.call.name)]
        forms = _forms(step.arguments)
        alike = (i for i, call in named if call.call.arguments in forms)
        return next(alike, named[0][0] if named else None)

    def _end(self, step: ToolStep, call_id: str, text: str) -> None:
        """Tell the end of a run; one that began and has no end waits still."""
        result = step.result
        if result is None and not text and not step.is_error and step.end is None:
            return
        took = None if step.start is None or step.end is None else max(step.end - step.start, 0)
        said = text if result is None else _unwrapped(result)
        self._settle(call_id)
        self.dialogue.answer(call_id, said, step.end, is_error=_failed(step), duration=took)

    def _settle(self, call_id: str) -> None:
        self._answered.add(call_id)
        self._waiting.pop(call_id, None)


def _key(item: ParsedItem) -> Hashable:
    """Return what tells an item from others."""
    if isinstance(item, ParsedResult):
        return ("result", item.id, None if item.id else item.text)
    ids = [call.id or (call.call.name, text_of(call.call.arguments)) for call in item.calls]
    said = [part.text for part in item.parts if isinstance(part, Text)]
    return (item.role, *(ids or said))


def _is_of(step: ToolStep, name: str) -> bool:
    return step.name == name or step.name.endswith((f" {name}", f"__{name}", f".{name}"))


def _forms(arguments: JsonValue) -> tuple[Any, Any]:
    """Return arguments as they are, and what stands alone inside of a wrapper."""
    given = parsed(arguments)
    if isinstance(given, dict) and len(given) == 1:
        return given, next(iter(given.values()))
    return given, given


def _failed(step: ToolStep) -> bool:
    result = parsed(step.result)
    if not is_json_object(result):
        return step.is_error
    return step.is_error or True in (result.get("isError"), result.get("is_error"))


def _unwrapped(result: JsonValue) -> str:
    """Return a result as text; of MCP's result its content."""
    value = parsed(result)
    if is_json_object(value) and isinstance(value.get("content"), list | str):
        return text_of(value["content"])
    return text_of(result)
