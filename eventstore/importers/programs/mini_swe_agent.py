"""Runs of mini-swe-agent (`.traj.json`): messages whose `extra` has actions, exit codes and times.

Models with tools have a provider's calls; others write a command in a block of `bash`, which
becomes a call of `bash`. A run that ended well ends with the command that handed its work in: that
command completed, though some agents write of it, as of those after it, that it was not executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, text, text_of
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.providers.model import ParsedCall, ParsedEnd

_LIMITS = ("LimitsExceeded", "TimeExceeded")
_NOT_EXECUTED = "action was not executed"
_FENCE = re.compile(r"```(?:bash|mswea_bash_command)\s*\n")
_EXIT_CODE = re.compile(r"\A(?:<exception>.*?</exception>\s*)?<returncode>(-?\d+)</", re.DOTALL)


class MiniSweAgentRuns:
    """The file format: one run a document."""

    name = "mini-swe-agent"
    about = About(
        program="mini-swe-agent",
        files="`.traj.json`",
        failures="exit codes",
        places=("$MSWEA_GLOBAL_CONFIG_DIR/*.traj.json", "{config}/mini-swe-agent/*.traj.json"),
        listing=Listing(call=r'"type":\s{0,9}"function(?:_call)?"'),
        kept="commands in text as calls of `bash`",
        lost="costs, settings, the patch",
        tried="2.4.6",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a document is a run."""
        del unit
        if not is_json_object(value) or not isinstance(value.get("messages"), list):
            return False
        return text(value, "trajectory_format").startswith("mini-swe-agent")

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the run."""
        for number, value in content.values:
            if not is_json_object(value) or not self.looks_like(value, content.unit):
                content.report("not a run of mini-swe-agent", number)
                continue
            run = _Run()
            for message in objects(value, "messages"):
                run.add(message)
            run.end()
            name = content.name or content.file_stem.removesuffix(".traj")
            yield run.dialogue.transcript(content.unused_name(name))


class _Run:
    def __init__(self) -> None:
        self.dialogue = Dialogue()
        self._open: list[str] = []
        self._not_executed: list[tuple[str, JsonValue, int | None]] = []
        self._steps = 0

    def add(self, message: JsonObject) -> None:
        """Tell a message."""
        extra = member(message, "extra")
        time = time_of(extra.get("timestamp"))
        said = message.get("content", message.get("output"))
        call_id = text(message, "tool_call_id", "call_id")
        if call_id and extra.get("exception_info") == _NOT_EXECUTED:
            self._not_executed.append((call_id, said, time))
            return
        status = text(extra, "exit_status")
        if status == "Submitted":
            self._submit(said, time)
        self.end()
        if message.get("role") == "exit":
            self.dialogue.add(_end_of_run(status, extra), time)
            return
        if message.get("role") == "assistant" or message.get("object") == "response":
            self._steps += 1
            calls = self._calls(message, extra)
            self.dialogue.reply(_said(message), calls, time)
            self._open = [call.id for call in calls if call.id]
        elif call_id or (self._open and _states_exit_code(message)):
            known = call_id or self._open[0]
            self._open = [each for each in self._open if each != known]
            self.dialogue.answer(known, said, time, is_error=_failed(message))
        else:
            self.dialogue.say(text(message, "role"), said, time)

    def end(self) -> None:
        """Tell of the actions that were not executed."""
        for call_id, said, time in self._not_executed:
            self.dialogue.answer(call_id, said, time, is_error=True)
        self._not_executed.clear()

    def _submit(self, submission: JsonValue, time: int | None) -> None:
        """Tell that the run ended with its submission, the output of a command."""
        waiting = [*self._not_executed]
        self._not_executed = waiting[1:]
        if waiting or self._open:
            call_id, _, ended = waiting[0] if waiting else (self._open[-1], None, time)
            self.dialogue.answer(call_id, submission, ended)

    def _calls(self, message: JsonObject, extra: JsonObject) -> list[ParsedCall]:
        made = [
            call_of(each.get("id"), function.get("name"), function.get("arguments"))
            for each in objects(message, "tool_calls")
            if (function := member(each, "function"))
        ]
        made += [
            call_of(each.get("call_id"), each.get("name"), each.get("arguments"))
            for each in objects(message, "output")
            if each.get("type") == "function_call"
        ]
        if made:
            return made
        commands = [each.get("command") for each in objects(extra, "actions")]
        if "actions" not in extra:
            commands = [*_blocks(text(message, "content"))]
        ids = (f"step-{self._steps}-{number}" for number in range(1, len(commands) + 1))
        return [
            call_of(own, "bash", {"command": command})
            for own, command in zip(ids, commands, strict=True)
        ]


def _end_of_run(status: str, extra: JsonObject) -> ParsedEnd:
    """Return how a run ended: with its submission, by a limit, or with an error."""
    if status == "Submitted":
        return ParsedEnd("completed")
    failure = Failure(ErrorKind.INTERNAL, text(extra, "exception_str") or status)
    return ParsedEnd("terminated" if status in _LIMITS else "error", failure)


def _said(message: JsonObject) -> JsonValue:
    items = [each.get("content") for each in objects(message, "output")]
    return message.get("content") or "\n".join(text_of(each) for each in items if each)


def _states_exit_code(message: JsonObject) -> bool:
    """Return whether a message says how a command ended."""
    stated = bool(_EXIT_CODE.match(text(message, "content")))
    return stated or "returncode" in member(message, "extra")


def _blocks(said: str) -> list[str]:
    """Return the commands in a reply: what stands between the fences of each block."""
    found: list[str] = []
    end = 0
    while (fence := _FENCE.search(said, end)) is not None:
        end = said.find("\n```", fence.end() - 1)
        if end < 0:
            break
        found.append(said[fence.end() : end])
        end += len("\n```")
    return found


def _failed(message: JsonObject) -> bool:
    extra = member(message, "extra")
    code: JsonValue = extra.get("returncode")
    stated = _EXIT_CODE.match(text_of(message.get("content", message.get("output"))))
    if not isinstance(code, int) and stated:
        code = int(stated[1])
    return bool(extra.get("exception_info")) or (isinstance(code, int) and code != 0)
