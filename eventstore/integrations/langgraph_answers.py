"""Which call of a step a host's answer is for.

LangGraph gives the n-th `interrupt()` of a task the task's n-th answer, and a `ToolNode` runs all
calls of a message in one task. The places move as calls end, so no answer is given by place:

1. A step asks one question at a time, for its first waiting call in the order of the calls.
2. Before a question, a note among the task's answers has its call and the revision that was shown.
   The checkpoint keeps both. The answer after a note is for the call in the note, as it was then.
3. The tool of a call sees the answers to its own questions about the arguments in force, in a
   scratchpad of its own.
4. The note keeps the questions of the other waiting calls. Their tools do not run again before
   they are answered.
5. An answer without the id of its question (`Command(resume=value)`) stays in the checkpoint until
   the step ends, and would answer the next question, too. So it is taken out before that is asked.
6. A step ends when the calls that began have ended.

LangGraph has no public way to tell the calls of a task apart. The names of the members of its
configuration stand here, and nowhere else.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    NoReturn,
    Protocol,
    TypeAlias,
    TypeGuard,
    cast,
)

from langchain_core.runnables.config import set_config_context
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt import ToolNode
from langgraph.types import Interrupt, interrupt

from eventstore.domain.revision import Revision
from eventstore.integrations.host_answers import seen_at_pause, shown_revision

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.tool import Tool

Kind: TypeAlias = Literal["approval", "tool", "nested"]
"""The asker: the ledger, the tool of the call, or a graph that the tool runs."""

_SCRATCHPAD = "__pregel_scratchpad"  # what is known of a task: its answers, and how many it asked
_SEND = "__pregel_send"
_RESUME = "__resume__"
_RESUME_MAP = "__pregel_resume_map"
_SAVER = "__pregel_checkpointer"
_CHECKPOINTS = "checkpoint_map"  # the id of the checkpoint of each namespace
_NO_TASK = "00000000-0000-0000-0000-000000000000"  # answers without an id are written as its own
_CALL, _KIND, _SEEN, _WAITING = "toolledger_call", "kind", "seen", "waiting"  # members of a note


class _Scratchpad(Protocol):
    """What LangGraph knows of a task: its answers, and how many it has asked for."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    resume: list[Any]

    def get_null_resume(self, *, consume: bool = ...) -> object:
        """Return the answer that names no question, and take it out to `consume` it."""


class HostAnswer(NamedTuple):
    """The host's answer to a question of a call, and what was shown of the call then."""

    kind: Kind
    seen: Revision
    value: object = None
    """None if the graph that the tool runs has it."""


class _Question(NamedTuple):
    """What a call asks."""

    kind: Kind
    seen: Revision
    interrupts: tuple[Interrupt[Any], ...]

    def encoded(self) -> list[Any]:
        return [self.kind, str(self.seen), self.interrupts]

    @classmethod
    def decoded(cls, kept: list[Any]) -> _Question:
        kind, seen, interrupts = kept
        return cls(kind, Revision.parse(seen), tuple(interrupts))


class UsedAnswer(NamedTuple):
    """An answer without an id that a checkpoint keeps, although its question has it."""

    saver: BaseCheckpointSaver[Any]
    config: RunnableConfig

    def forget(self) -> None:
        """Take it out of the checkpoint."""
        self.saver.put_writes(self.config, [(_RESUME, None)], _NO_TASK)

    async def aforget(self) -> None:
        """Take it out of the checkpoint."""
        await self.saver.aput_writes(self.config, [(_RESUME, None)], _NO_TASK)


class StepAnswers:
    """The answers that one task has got, by call, and the questions that its calls ask now."""

    def __init__(self, config: RunnableConfig, *, is_of_one_call: bool = False) -> None:
        self._config = config
        self._is_of_one_call = is_of_one_call
        own: dict[str, Any] = config.get("configurable", {})
        self._pad: _Scratchpad | None = own.get(_SCRATCHPAD)
        self._send = cast("Callable[[list[tuple[str, Any]]], None]", own.get(_SEND))
        self._resume_map: dict[str, Any] = own.get(_RESUME_MAP) or {}
        self._answers: dict[str, list[HostAnswer]] = {}
        self._waiting: dict[str, _Question] = {}
        self._nested: tuple[str, HostAnswer] | None = None  # the call whose graph was asked last
        self._questions: list[tuple[tuple[int, int], str, _Question]] = []  # by place and call
        self._has_answer_without_id = False  # to a question of this task
        self._tasks: set[asyncio.Task[Any]] = set()
        self._has_ended = False
        if self._pad is not None:
            self._read(self._pad)

    def is_of(self, config: RunnableConfig) -> bool:
        """Return whether this is the step of a call with this configuration."""
        return bool(config.get("configurable", {}).get(_SCRATCHPAD) is self._pad)

    # answers

    def answer(self, tool: Tool) -> HostAnswer | None:
        """Return the host's answer to the last question of a call; None if it was not asked.

        Raises:
            GraphInterrupt: its tool has asked, and has no answer yet: it is asked again.
        """
        waiting = self._waiting.get(tool.id)
        if waiting is not None:
            self._ask(tool, waiting)
            raise GraphInterrupt(waiting.interrupts)
        if self._nested is not None and self._nested[0] == tool.id:
            return self._nested[1]
        return next(reversed(self._answers.get(tool.id, [])), None)

    @contextmanager
    def of_call(self, tool: Tool, config: RunnableConfig) -> Iterator[None]:
        """Let the tool of a call that runs ask, and see its own answers, in the block."""
        if self._pad is None:
            yield
            return
        self._waiting.pop(tool.id, None)
        before = config["configurable"]
        in_force = tool.revision.digest
        given = self._answers.get(tool.id, [])
        own = [a.value for a in given if a.kind == "tool" and a.seen.digest == in_force]
        asked = 0

        def count() -> int:
            nonlocal asked
            asked += 1
            return asked - 1

        pad = dataclasses.replace(self._pad, interrupt_counter=count, resume=own)
        if self._nested is None or self._nested[0] != tool.id:
            pad = dataclasses.replace(pad, get_null_resume=_no_answer)
        config["configurable"] = {**before, _SCRATCHPAD: pad, _SEND: self._send_others}
        try:
            yield
        except GraphInterrupt as paused:
            kind: Kind = "tool" if asked > len(own) else "nested"
            self._ask(tool, _Question(kind, seen_at_pause(tool), tuple(paused.args[0])))
            raise
        finally:
            config["configurable"] = before

    # questions

    def ask(self, tool: Tool, edited: JsonObject | None = None) -> NoReturn:
        """Ask the host whether a call may run, with its arguments in force or `edited` ones.

        Raises:
            GraphInterrupt: always.
        """
        arguments = tool.effective_call.arguments if edited is None else edited
        asked = Interrupt({"call_id": tool.id, "name": tool.call.name, "args": arguments})
        self._ask(tool, _Question("approval", shown_revision(tool, edited), (asked,)))
        raise GraphInterrupt((asked,))

    def question(self) -> GraphInterrupt | None:
        """Return the interrupt that asks the question of the first call; None if none asks.

        Raises:
            RuntimeError: the calls of a `ToolNode` of another make share the task.
        """
        if not self._questions or self._pad is None:
            return None
        _, call_id, first = min(self._questions, key=lambda asked: asked[0])
        asked_now = {other: question for _, other, question in self._questions}
        others = {  # a step that ends early leaves some that wait unasked
            other: question.encoded()
            for other, question in {**self._waiting, **asked_now}.items()
            if question.kind != "approval"
        }
        note = {_CALL: call_id, _KIND: first.kind, _SEEN: str(first.seen), _WAITING: others}
        answers = self._pad.resume
        asked = {entry[_CALL] for entry in answers if _is_note(entry)}
        if self._is_of_one_call and asked - {call_id}:
            raise RuntimeError(
                f"calls {sorted(asked | {call_id})} of one ToolNode wait, and no answer says "
                "which it is for: make the node with ledger.tool_node(tools)"
            )
        if answers and _is_note(answers[-1]) and answers[-1][_CALL] == call_id:
            answers[-1] = note
        else:
            answers.append(note)
        self._send([(_RESUME, list(answers))])
        if first.kind == "nested":
            return GraphInterrupt(first.interrupts)
        return self._interrupt(self._pad, first.interrupts[0])

    def _ask(self, tool: Tool, question: _Question) -> None:
        self._questions.append(((tool.turn or 0, tool.index or 0), tool.id, question))

    def _interrupt(self, pad: _Scratchpad, asked: Interrupt[Any]) -> GraphInterrupt:
        """Return an interrupt with the id that LangGraph gives to the task's next question."""
        number = len(pad.resume)
        pad = dataclasses.replace(pad, interrupt_counter=lambda: number, get_null_resume=_no_answer)
        config = cast("RunnableConfig", dict(self._config))
        config["configurable"] = {**self._config["configurable"], _SCRATCHPAD: pad}
        try:
            with set_config_context(config) as context:
                context.run(_interrupt, asked)
        except GraphInterrupt as raised:
            return raised
        raise AssertionError("LangGraph had an answer to a question that was just asked")

    def used_answer(self) -> UsedAnswer | None:
        """Return the answer without an id that the checkpoint still has, once; None for none."""
        own: dict[str, Any] = self._config.get("configurable", {})
        saver, checkpoints = own.get(_SAVER), own.get(_CHECKPOINTS) or {}
        is_kept, self._has_answer_without_id = self._has_answer_without_id, False
        if not is_kept or saver is None or "" not in checkpoints:
            return None
        place = {"checkpoint_ns": "", "checkpoint_id": checkpoints[""]}
        place["thread_id"] = own["thread_id"]
        return UsedAnswer(saver, {"configurable": place})

    # the task's own list

    def _read(self, pad: _Scratchpad) -> None:
        """Give each answer to the call in the note before it; one without a note is dropped."""
        self._take_new_answer(pad)
        for place, entry in enumerate(pad.resume):
            if _is_note(entry):
                kept = entry[_WAITING].items()
                self._waiting = {call: _Question.decoded(question) for call, question in kept}
                asked = HostAnswer(entry[_KIND], Revision.parse(entry[_SEEN]))
                self._nested = (entry[_CALL], asked) if asked.kind == "nested" else None
            elif place and _is_note(before := pad.resume[place - 1]):
                answer = HostAnswer(before[_KIND], Revision.parse(before[_SEEN]), entry)
                self._answers.setdefault(before[_CALL], []).append(answer)
                self._waiting.pop(before[_CALL], None)
        if self._nested is not None and self._is_answered_inside(pad, self._nested[0]):
            self._waiting.pop(self._nested[0], None)

    def _take_new_answer(self, pad: _Scratchpad) -> None:
        """Take an answer that names no question, if one of this task was asked last."""
        last = pad.resume[-1] if pad.resume else None
        if not _is_note(last):
            return
        self._has_answer_without_id = pad.get_null_resume() is not None
        if last[_KIND] != "nested":
            answer = pad.get_null_resume(consume=True)
            if answer is not None:
                pad.resume.append(answer)
                self._send([(_RESUME, list(pad.resume))])

    def _is_answered_inside(self, pad: _Scratchpad, call_id: str) -> bool:
        """Return whether the graph that a call's tool runs is given an answer."""
        kept = self._waiting.get(call_id)
        asked = () if kept is None else kept.interrupts
        return pad.get_null_resume() is not None or any(
            each.id in self._resume_map for each in asked
        )

    def _send_others(self, writes: Iterable[tuple[str, Any]]) -> None:
        """Send what a tool writes, without its own list of answers: the task's is another."""
        others = [write for write in writes if write[0] != _RESUME]
        if others:
            self._send(others)

    # the end of a step

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the current task as one that runs a call.

        Raises:
            asyncio.CancelledError: the step has ended; the call has not begun.
        """
        task = asyncio.current_task()
        if task is None or self._has_ended:
            raise asyncio.CancelledError
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    async def rest(self) -> None:
        """Wait until the calls that began have ended; a cancel meanwhile is passed on to them."""
        self._has_ended = True
        cancelled: asyncio.CancelledError | None = None
        while tasks := self._tasks - {asyncio.current_task()}:
            try:
                await asyncio.wait(tasks)
            except asyncio.CancelledError as error:
                cancelled = error
                for task in tasks:
                    task.cancel()
        if cancelled is not None:
            raise cancelled


_STEP: ContextVar[StepAnswers | None] = ContextVar("toolledger_step", default=None)
"""The step whose calls run in this context."""


@contextmanager
def step_of(config: RunnableConfig) -> Iterator[StepAnswers]:
    """Give the step of a call: its node's, or one of its own; its question leaves the block.

    Raises:
        GraphInterrupt: a call of a step of its own waits.
    """
    step = _STEP.get()
    if step is not None and step.is_of(config):
        yield step
        return
    with _asking(StepAnswers(config, is_of_one_call=True)) as step:
        yield step


class RecordedToolNode(ToolNode):
    """A `ToolNode` that ends when its calls have ended, and asks one question at a time."""

    def invoke(
        self, input: object, config: RunnableConfig | None = None, **kwargs: object
    ) -> object:
        """Run the calls of a message."""
        with _asking(StepAnswers(config or {})):
            return super().invoke(input, config, **kwargs)

    async def ainvoke(
        self, input: object, config: RunnableConfig | None = None, **kwargs: object
    ) -> object:
        """Run the calls of a message."""
        with _asking(StepAnswers(config or {})) as step:
            try:
                return await super().ainvoke(input, config, **kwargs)
            finally:
                await step.rest()


@contextmanager
def _asking(step: StepAnswers) -> Iterator[StepAnswers]:
    token = _STEP.set(step)
    try:
        yield step
    except GraphInterrupt:
        question = step.question()
        if question is None:
            raise
        raise question from None
    finally:
        _STEP.reset(token)


def _interrupt(asked: Interrupt[Any]) -> None:
    schema: Any = asked.response_schema
    interrupt(asked.value, response_schema=schema)


def _no_answer(*_: bool, **__: bool) -> None:
    """Return no answer without an id: LangGraph asks with `consume`, and without it."""


def _is_note(entry: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(entry, dict) and entry.keys() == {_CALL, _KIND, _SEEN, _WAITING}
