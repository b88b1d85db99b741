"""Runs of LangSmith: those of its export, of its API, or of `langsmith.Client`.

A run of a model has the messages that it was sent and its answer, mostly as LangChain serialises
them. A run of a tool has the id of its call beside it, in newer versions, or in its result.
"""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.reading.about import About
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import items, member, objects, text, text_of
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.traced_messages import items_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.importers.traces.steps import ModelStep, Step, ToolStep, trace_as_dialogue
from eventstore.providers.model import ParsedItem

_NAMES = ("thread_id", "session_id", "conversation_id")
"""Members of a run's metadata that name a thread, as LangSmith knows them."""
_PAUSES = ("GraphInterrupt(", "GraphBubbleUp(", "NodeInterrupt(")
"""The beginnings of errors by which a tool of LangGraph waits for an answer."""


class LangSmithRuns:
    """The file format: a run a line, a list of runs, or an object with them."""

    name = "langsmith"
    about = About(
        program="LangSmith",
        files="runs, `.json` and `.jsonl`",
        failures="`error`, status of the result",
        kept="threads, as conversations",
        lost="runs of chains and retrievers, feedback",
        tried="runs of langsmith 0.15.1 with langchain 1.4",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:  # noqa: ARG002 - wherever it stands
        """Return whether a value is a run, or has some."""
        return is_json_object(value) and (_is_run(value) or any(map(_is_run, _held(value))))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield a conversation for each thread, or each trace without one."""
        runs: dict[str, JsonObject] = {}
        for number, value in content.values:
            found = [*_all(value)] if is_json_object(value) else []
            if not found:
                content.report("not a run", number)
            for run in found:
                own = text(run, "id")
                runs[own] = {**runs.get(own, {}), **run}  # an end may stand by itself
        named: dict[str, list[JsonObject]] = {}
        threads = {_trace(run): thread for run in runs.values() if (thread := _thread(run))}
        for run in runs.values():
            named.setdefault(threads.get(_trace(run)) or f"trace-{_trace(run)}", []).append(run)
        for name, own_runs in named.items():
            steps = [step for run in own_runs for step in _steps(run)]
            parents = {text(run, "id"): text(run, "parent_run_id") for run in own_runs}
            if dialogue := trace_as_dialogue(steps, parents):
                whole = f"{content.name}/{name}" if content.name else name
                transcript = dialogue.transcript(content.unused_name(whole))
                transcript.part_id = f"{transcript.id}/trace-{_trace(own_runs[0])}"
                yield transcript


def _is_run(value: JsonObject) -> bool:
    return "run_type" in value and ("dotted_order" in value or "trace_id" in value)


def _held(value: JsonObject) -> list[JsonObject]:
    return objects(value, "runs") or objects(value, "data")


def _all(value: JsonObject) -> Iterator[JsonObject]:
    """Yield a run and the runs inside of it, or those that an object holds."""
    waiting = [value] if _is_run(value) else _held(value)
    while waiting:
        run = waiting.pop(0)
        if _is_run(run):
            yield {key: run[key] for key in run if key != "child_runs"}
            waiting = [*objects(run, "child_runs"), *waiting]


def _trace(run: JsonObject) -> str:
    return text(run, "trace_id") or text(run, "dotted_order").partition(".")[0] or text(run, "id")


def _thread(run: JsonObject) -> str:
    return text(member(run, "extra", "metadata"), *_NAMES)


def _steps(run: JsonObject) -> Iterator[Step]:
    kind, own, parent = run.get("run_type"), text(run, "id"), text(run, "parent_run_id")
    start, end = time_of(run.get("start_time")), time_of(run.get("end_time"))
    if kind == "llm":
        yield ModelStep(
            id=own,
            parent_id=parent,
            start=start,
            end=end,
            inputs=items_of(run.get("inputs")),
            outputs=_answer(member(run, "outputs")),
        )
    elif kind == "tool":
        error = text(run, "error").replace("Traceback (most", "\nTraceback (most", 1).lstrip()
        waits = error.startswith(_PAUSES)
        result = _result(member(run, "outputs"))
        said = member(result, "message")
        yield ToolStep(
            id=own,
            parent_id=parent,
            start=start,
            end=None if waits else end,
            name=text(run, "name"),
            call_id=text(member(run, "extra"), "tool_call_id") or text(said, "tool_call_id"),
            arguments=_arguments(member(run, "inputs")),
            result=None if waits else error or result.get("content"),
            is_error=(bool(error) and not waits) or said.get("status") == "error",
        )


def _answer(outputs: JsonObject) -> list[ParsedItem]:
    """Return what a model answered: the first of LangChain's generations, or a provider's own."""
    batches = items(outputs, "generations")
    first: JsonValue = batches[0] if batches else None
    generation: JsonValue = first[0] if is_json_list(first) and first else first
    if is_json_object(generation):
        message = member(generation, "message")
        said = message or {"role": "assistant", "content": generation.get("text")}
        return items_of([said], "assistant")
    return items_of(outputs, "assistant")


def _result(outputs: JsonObject) -> JsonObject:
    """Return a tool's `content`, and the `message` that has it."""
    given: JsonValue = outputs.get("output", outputs or None)
    message = member({"given": given}, "given")
    message = member(message, "kwargs") or message
    if "tool_call_id" in message:
        return {"content": text_of(message.get("content")), "message": message}
    return {"content": given}


def _arguments(inputs: JsonObject) -> JsonValue:
    """Return what a tool was given; older versions write it as one text."""
    return inputs["input"] if inputs.keys() == {"input"} else inputs
