"""Trajectories of SWE-agent (`.traj`): steps of a text action and what was observed.

Runs with function calling have provider's calls in `history`; older ones have only steps, whose
action becomes a call of its first word. There are no times and no mark of a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import ERROR_TEXT, Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import items, member, objects, text
from eventstore.importers.reading.times import duration_of
from eventstore.importers.reading.transcript import Transcript

_ERROR_TEXT = (
    ERROR_TEXT + r"|^Traceback \(most recent call last\)|^(?:bash|/bin/\w+): .*(?:not found|error)"
    r"|(?m:^\w*(?:Error|Exception): )|Your (?:proposed edit|command) .{0,300}"
    r"(?:error|denied|blocked)"
    r"|\A\s*+(?:Usage:|No such file|File .+ not found|.*: No such file or directory)"
)


class SweAgentTrajectories:
    """The file format: one run a document."""

    name = "swe-agent"
    about = About(
        program="SWE-agent",
        files="`.traj`",
        failures="text",
        times="none",
        kept="durations of steps",
        lost="the state of the environment, costs, the patch",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a document is a trajectory with its steps."""
        del unit
        if not is_json_object(value) or not isinstance(value.get("trajectory"), list):
            return False
        steps = objects(value, "trajectory")
        return any("action" in each and "observation" in each for each in steps) and any(
            isinstance(each.get("response"), str) or "state" in each for each in steps
        )

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the run."""
        for number, value in content.values:
            if not is_json_object(value) or not self.looks_like(value, content.unit):
                content.report("not a trajectory", number)
                continue
            dialogue = Dialogue()
            history = objects(value, "history")
            steps = objects(value, "trajectory")
            if any(each.get("tool_calls") for each in history):
                _add_history(dialogue, history, steps)
            else:
                _add_steps(dialogue, history, steps)
            yield dialogue.transcript(content.unused_name(content.stem), error_pattern=_ERROR_TEXT)


def _add_opening(dialogue: Dialogue, history: list[JsonObject]) -> None:
    """Add what was said before the model spoke."""
    for message in history:
        if message.get("role") == "assistant":
            break
        dialogue.say(text(message, "role"), message.get("content"))


def _add_steps(dialogue: Dialogue, history: list[JsonObject], steps: list[JsonObject]) -> None:
    _add_opening(dialogue, [each for each in history if not each.get("is_demo")])
    for number, step in enumerate(steps, 1):
        action = text(step, "action").strip()
        said = text(step, "thought", "response")
        if not action:
            dialogue.reply(said)
            dialogue.say("user", step.get("observation"))
            continue
        call_id = f"step-{number}"
        name = action.split(maxsplit=1)[0]
        dialogue.reply(said, [call_of(call_id, name, {"action": action})])
        _answer(dialogue, call_id, name, step.get("observation"), step)


def _add_history(dialogue: Dialogue, history: list[JsonObject], steps: list[JsonObject]) -> None:
    own = [each for each in history if not each.get("is_demo")]
    _add_opening(dialogue, own)
    spoke = False
    left = iter(steps)
    step: JsonObject = {}
    for message in own:
        role = message.get("role")
        if role == "assistant":
            spoke = True
            step = next(left, step)
            calls = [
                call_of(
                    made.get("id"),
                    member(made, "function").get("name"),
                    member(made, "function").get("arguments"),
                )
                for made in objects(message, "tool_calls")
            ]
            dialogue.reply(text(message, "thought") or message.get("content"), calls)
        elif role == "tool":
            ids: list[Any] = items(message, "tool_call_ids") or [message.get("tool_call_id")]
            for call_id in ids:
                known = call_id if isinstance(call_id, str) else ""
                _answer(dialogue, known, "", message.get("content"), step)
        elif spoke:
            dialogue.say(text(message, "role"), message.get("content"))


def _answer(
    dialogue: Dialogue, call_id: str, name: str, content: JsonValue, step: JsonObject
) -> None:
    duration = duration_of(step.get("execution_time"))
    dialogue.answer(call_id, content, name=name, duration=duration)
