"""Trajectories in ATIF, the interchange format of Harbor: steps with calls and observations.

A result stands in the step of its call. A mark of a failure is there only where the converter of an
agent keeps one; the text of others tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eventstore.domain.json_types import JsonObject, is_json_object
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import ERROR_TEXT, Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, text, text_of
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript, is_refusal

_ERROR_TEXT = (
    ERROR_TEXT + r"|\[error\] tool reported failure\s*\Z|\A<returncode>(?!0<)"
    r"|\A(?:(?!Output:)[A-Z][A-Za-z ]{1,40}: [^\n]*\n){0,5}Process exited with code (?!0\b)"
    r"|\Aunsupported (?:custom tool )?call:"
)


class AtifTrajectories:
    """The file format: one trajectory a document, or a line."""

    name = "atif"
    about = About(
        program="ATIF (Harbor)",
        files="`trajectory.json`",
        failures="text",
        times="where the file has them",
        kept="embedded sub-agents, parts that continue",
        lost="reasoning, metrics, logprobs",
        tried="1.8",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a trajectory."""
        del unit
        if not is_json_object(value) or not isinstance(value.get("steps"), list):
            return False
        return text(value, "schema_version").startswith("ATIF-")

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield a conversation for each trajectory."""
        for number, value in content.values:
            if not is_json_object(value) or not self.looks_like(value, content.unit):
                content.report("not a trajectory", number)
                continue
            name = content.name or text(value, "session_id", "trajectory_id") or content.stem
            yield from _transcripts(content, value, content.unused_name(name))


def _transcripts(content: FileContent, value: JsonObject, name: str) -> Iterator[Transcript]:
    """Yield a trajectory, and the trajectories of its sub-agents that stand inside of it."""
    dialogue = Dialogue()
    callers: dict[str, str] = {}
    for step in objects(value, "steps"):
        if step.get("is_copied_context") is True and dialogue.copied == len(dialogue):
            _add_step(dialogue, step)
            dialogue.copied = len(dialogue)
        else:
            _add_step(dialogue, step)
        for result in objects(member(step, "observation"), "results"):
            for reference in objects(result, "subagent_trajectory_ref"):
                callers[text(reference, "trajectory_id")] = text(result, "source_call_id")
    transcript = dialogue.transcript(name, error_pattern=_ERROR_TEXT)
    transcript.part_id = f"{name}/{content.file_stem}"  # one that continues
    yield transcript
    for number, inner in enumerate(objects(value, "subagent_trajectories"), 1):
        own = text(inner, "trajectory_id")
        for found in _transcripts(content, inner, f"{name}/{own or number}"):
            if found.parent_id is None:
                found.parent_id, found.parent_call_id = name, callers.get(own) or None
            yield found


def _add_step(dialogue: Dialogue, step: JsonObject) -> None:
    time = time_of(step.get("timestamp"))
    made = objects(step, "tool_calls")
    results = objects(member(step, "observation"), "results")
    if made or text(step, "source") == "agent":
        calls = [
            call_of(call.get("tool_call_id"), call.get("function_name"), call.get("arguments"))
            for call in made
        ]
        dialogue.reply(step.get("message"), calls, time)
    else:
        dialogue.say(text(step, "source"), step.get("message"), time)
    in_order = len(made) == len(results) and not any(each.get("source_call_id") for each in results)
    for index, result in enumerate(results):
        call_id = text(made[index], "tool_call_id") if in_order else text(result, "source_call_id")
        if call_id or len(made) == 1:
            known, said = call_id or text(made[0], "tool_call_id"), text_of(result.get("content"))
            failed = _is_marked(member(result, "extra"))
            rejected = is_refusal({"is_error": True, "content": said})
            dialogue.answer(known, said, time, is_error=failed and not rejected, rejected=rejected)
        else:
            dialogue.say("user", result.get("content"), time)


def _is_marked(extra: JsonObject) -> bool:
    """Return whether what an agent's converter kept of a result says that it failed."""
    marks = (extra, member(extra, "tool_result_metadata"), member(extra, "metadata"))
    codes: list[Any] = [each.get("exit_code") for each in marks]
    failed = any(isinstance(code, int) and code > 0 for code in codes)
    return failed or any(
        True in (each.get("is_error"), each.get("tool_result_is_error")) for each in marks
    )
