"""Trajectories in ATIF, the interchange format of Harbor: steps with calls and observations.

A result stands in the step of its call. There is no mark of a failure.
"""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject, is_json_object
from eventstore.importers.dialogue import ERROR_TEXT, Dialogue, call_of
from eventstore.importers.file_format import FileContent, Unit
from eventstore.importers.json_members import member, objects, text
from eventstore.importers.times import time_of
from eventstore.importers.transcript import Transcript


class AtifTrajectories:
    """The file format: one trajectory a document, or a line."""

    name = "atif"

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
            dialogue = Dialogue()
            for step in objects(value, "steps"):
                _add_step(dialogue, step)
            name = content.name or text(value, "session_id", "trajectory_id") or content.stem
            transcript = dialogue.transcript(content.unused_name(name), error_pattern=ERROR_TEXT)
            transcript.part_id = f"{transcript.id}/{content.file_stem}"  # one that goes on
            yield transcript


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
    for result in results:
        call_id = text(result, "source_call_id")
        if call_id or len(made) == 1:
            dialogue.answer(call_id or text(made[0], "tool_call_id"), result.get("content"), time)
        else:
            dialogue.say("user", result.get("content"), time)
