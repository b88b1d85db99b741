"""Rollouts of Codex CLI: a record a line, with the items of OpenAI Responses as payloads.

A result has no mark of a failure: an event before it may say how its call ended, or else the exit
code in it, or the text. Turns that were rolled back are shown to the model no more: they are a
conversation of their own. A history that was compacted continues with what took its place. What a
fork or a sub-agent repeats of its parent is marked as copied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.domain.messages import Opaque
from eventstore.importers.programs.codex_copies import CopiedTurns, rollout_of, shared
from eventstore.importers.programs.codex_ends import Ends
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.dialogue import Dialogue, call_of, spoken
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_lines import TextFile
from eventstore.importers.reading.json_members import member, objects, parsed, text, text_of
from eventstore.importers.reading.problems import Problems, SourceError
from eventstore.importers.reading.times import duration_of, time_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.providers.model import ParsedCompaction, ParsedMessage
from eventstore.providers.openai_responses.client_items import (
    asked,
    id_of_call,
    id_of_output,
    is_client_call,
    is_client_output,
    said_by,
)

_RECORDS = frozenset(
    {"session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state"}
)
_EXIT_CODE = re.compile(
    r"\A(?:(?!Output:)[A-Z][A-Za-z ]{1,40}: [^\n]*\n){0,8}"
    r"(?:Process exited with code|Exit code:?) (-?\d+)"
)
"""The exit code of a command stands above its output, which may have the like in it."""
_FAILED = re.compile(
    r"\A(?:failed in sandbox|execution error|unsupported (?:custom tool )?call|failed to parse"
    r"|unable to (?:locate|read|process) |(?:exec_command|write_stdin|MCP) (?:tool call )?failed"
    r"|apply_patch (?:verification|handler) |patch rejected|(?:MCP )?tool call error:|Script failed"
    r"|[Uu]nknown process id|Error\b|error:)"
)
_CONTEXT = re.compile(
    r"\A\s*(?:# AGENTS\.md instructions|<(?:environment_context|user_instructions|turn_aborted"
    r"|permissions instructions|skills?_?(?:instructions)?|subagent_notification"
    r"|user_shell_command)\b)"
)
"""The beginning of a message that the program adds in the user's name."""
_COMPACTIONS = frozenset({"compaction", "compaction_summary", "context_compaction"})
_KEPT_CHARACTERS = 80_000
"""Of what the user said; the program keeps 20,000 tokens, each of which it takes for 4 bytes."""
_REJECTED = re.compile(r"\A(?:exec command |patch )?(?:rejected|denied|aborted) by (?:the )?user")


class CodexRollouts:
    """The file format: one record a line."""

    name = "codex"
    about = About(
        program="Codex CLI",
        files="rollouts, `.jsonl`",
        failures="events, exit codes, text",
        places=(
            "$CODEX_HOME/sessions/*/*/*/rollout-*.jsonl",
            "$CODEX_HOME/archived_sessions/rollout-*.jsonl",
            "~/.codex/sessions/*/*/*/rollout-*.jsonl",
            "~/.codex/archived_sessions/rollout-*.jsonl",
        ),
        listing=Listing(
            call=r'"call_id": ?"([^"\\]{1,200})"',
            id=r'\A\{[^\n]{0,200}"payload": ?\{"id": ?"([\w-]{1,100})"',
            parent=r'\A[^\n]{0,4000}"parent_thread_id": ?"([\w-]{1,100})"',
        ),
        kept="compactions, rolled-back turns, forks and sub-agents under their parent, durations",
        lost="reasoning, token counts, searches at the provider, the past of forks of 0.171",
        tried="0.171.0",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line is a record of a rollout."""
        if unit != "line" or not is_json_object(value):
            return False
        if text(value, "type") in _RECORDS and isinstance(value.get("payload"), dict):
            return True
        return _is_old_header(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the session."""
        rollout = _Rollout()
        for number, value in content.values:
            if not isinstance(value, dict) or not rollout.add(value):
                content.report("not a record of a rollout", number)
        rollout.finish(content.path)
        if rollout.lacks_past:
            content.problems.add(
                f"it continues {rollout.parent}, from which it was forked: what the model had from "
                "there is not in this file"
            )
        name = content.name or rollout.session or content.stem
        parent = rollout.parent
        _, is_segment, segment = content.file_stem.partition(f"{rollout.session}_")
        if rollout.continues and is_segment:  # after a revert the thread has one more file
            name, parent = f"{name}/{segment}", name
        transcript = rollout.dialogue.transcript(name, parent)
        if rollout.rolled_back:  # an earlier import may have had the turns
            transcript.part_id = f"{name}/{content.file_stem}"
        yield transcript
        for number, dialogue in enumerate(rollout.rolled_back, 1):
            yield dialogue.transcript(f"{name}/rolled-back-{number}", name)


def _is_old_header(value: JsonObject) -> bool:
    """Return whether a line opens a rollout of the first versions, whose lines are the items."""
    return {"id", "timestamp", "instructions"} <= value.keys() and "type" not in value


def _is_quiet(value: JsonObject) -> bool:
    """Return whether a line of those versions holds nothing to tell."""
    return "record_type" in value or text(value, "type") in ("reasoning", "web_search_call")


def _parent(header: JsonObject) -> str | None:
    """Return the thread that a rollout was forked from, or whose sub-agent wrote it.

    A sub-agent's `session_id` is that of the session which began it all; `id` is its own.
    """
    spawned = member(header, "source", "subagent", "thread_spawn")
    found = text(header, "forked_from_id", "parent_thread_id") or text(spawned, "parent_thread_id")
    return found or None


class _Rollout:
    """A session so far."""

    def __init__(self) -> None:
        self.session = ""
        self.parent: str | None = None
        self.continues = False
        self.lacks_past = False
        """Whether it names the past that it continues, and does not repeat it."""
        self.dialogue = Dialogue()
        self.rolled_back: list[Dialogue] = []
        self._ends = Ends()
        self._copied = CopiedTurns()
        self._turns: list[tuple[int, JsonObject]] = []  # where each begins, and with what words
        self._context: int | None = None

    def add(self, record: JsonObject) -> bool:
        """Take in one record; return whether it is one."""
        payload: JsonValue = record.get("payload")
        if not isinstance(payload, dict):
            return self._add_old(record)
        kind = record.get("type")
        if self._copied.ends_with(payload):
            self._mark_copies(len(self.dialogue))
        if kind == "session_meta":
            if self.session:  # a fork repeats its parent's records, with their header
                self._copied.are_there = self.parent is not None
            else:
                self.session = text(payload, "id", "session_id")
                self.parent = _parent(payload)
                self.continues = record.get("ordinal") not in (None, 0)
                self.lacks_past = payload.get("forked_from_ordinal_exclusive") not in (None, 0)
                self._copied.begin(payload)
        elif kind == "response_item":
            self._add_item(payload, record)
        elif kind == "compacted":
            self._compact(payload, time_of(record.get("timestamp")))
        elif payload.get("type") == "thread_rolled_back":
            self._roll_back(payload.get("num_turns"))
        elif kind == "event_msg":
            self._ends.add(payload)
            if payload.get("type") == "mcp_tool_call_end":
                _add_mcp_call(self.dialogue, payload, time_of(record.get("timestamp")))
        return True

    def finish(self, path: Path | None) -> None:
        """Mark the copies where no turn of its own tells; the rollout lies at `path`."""
        if not self._copied.are_there or self._copied.are_over:
            return
        if self._copied.are_named:
            self._mark_copies(len(self.dialogue))
            return
        count = self._copied.before_the_thread(self.dialogue)
        if not count and path is not None and (found := rollout_of(self.parent or "", path)):
            with suppress(SourceError):  # it is empty, or no text
                count = shared(self.dialogue, _read(found).dialogue)
        self.dialogue.copied = count

    def _mark_copies(self, count: int) -> None:
        """Mark the first items as copies, and all that was rolled back before."""
        self.dialogue.copied = count
        for each in self.rolled_back:
            each.copied = len(each)

    def _add_old(self, line: JsonObject) -> bool:
        """Take in a line of the first versions; return whether it is one."""
        if _is_old_header(line):
            self.session = self.session or text(line, "id")
        elif text(line, "type") in _ITEMS.keys() | _RESULTS:
            self._add_item(line, line)
        else:
            return _is_quiet(line)
        return True

    def _add_item(self, item: JsonObject, record: JsonObject) -> None:
        if text(item, "type") in _RESULTS:
            self._mark(item)
            _add_result(self.dialogue, item, time_of(record.get("timestamp")), self._ends)
            return
        add = _ITEMS.get(text(item, "type"))
        if add is not None:
            self._mark(item)
            add(self.dialogue, item, time_of(record.get("timestamp")))

    def _mark(self, item: JsonObject) -> None:
        """Keep where a turn begins: with what the program has put before the user's words."""
        if _is_context(item):
            self._context = len(self.dialogue) if self._context is None else self._context
            return
        if item.get("role") == "user" or item.get("type") == "agent_message":
            context = self._context if self._turns else None  # the first begins with the user
            self._turns.append((context or len(self.dialogue), item))
        self._context = None

    def _roll_back(self, count: JsonValue) -> None:
        """Take the last turns away, as Codex does before it asks the model again."""
        if not isinstance(count, int) or count <= 0 or not self._turns:
            return
        first = max(len(self._turns) - count, 0)
        start, _ = self._turns[first]
        del self._turns[first:]
        self._context = None
        if taken := self.dialogue.taken_from(start):
            self.rolled_back.append(taken)

    def _compact(self, payload: JsonObject, time: int | None) -> None:
        """Let the history continue with what took the place of it.

        Older versions tell the summary alone. They keep what the user said last, and put what the
        program says of itself before it.
        """
        is_whole = isinstance(payload.get("replacement_history"), list)
        kept = objects(payload, "replacement_history") if is_whole else self._last_words()
        messages = [message for item in kept for message in _standing(item)]
        if not is_whole:
            messages += spoken("user", payload.get("message"))
        compaction = ParsedCompaction(tuple(messages), hides_system=is_whole)
        self.dialogue.add(compaction, time)
        self._turns, self._context = [], None

    def _last_words(self) -> list[JsonObject]:
        """Return what the user said, as far back as the program keeps it."""
        kept: list[JsonObject] = []
        left = _KEPT_CHARACTERS
        for _, item in reversed(self._turns):
            left -= len(text_of(item.get("content")))
            if left < 0:
                break
            kept.append(item)
        return kept[::-1]


def _standing(item: JsonObject) -> Iterator[ParsedMessage]:
    """Yield the message of an item that takes the place of a history."""
    kind, role = text(item, "type"), text(item, "role")
    if kind == "message":
        known = role if role in ("assistant", "system", "developer") else "user"
        yield from spoken(known, item.get("content"))
    elif kind in _COMPACTIONS:
        yield ParsedMessage("assistant", (Opaque("openai-responses", item),))


def _read(path: Path) -> _Rollout:
    """Return the rollout at a path, as far as it can be read."""
    rollout = _Rollout()
    for _, value in TextFile(path, Problems()).values():
        if is_json_object(value):
            rollout.add(value)
    return rollout


def _is_context(item: JsonObject) -> bool:
    if item.get("type") != "message" or item.get("role") == "assistant":
        return False
    return item.get("role") != "user" or bool(_CONTEXT.match(text_of(item.get("content"))))


def _add_message(dialogue: Dialogue, item: JsonObject, time: int | None) -> None:
    if item.get("role") == "assistant":
        dialogue.reply_piece(item.get("content"), (), time)
    else:
        dialogue.say(text(item, "role"), item.get("content"), time)


def _add_call(dialogue: Dialogue, item: JsonObject, time: int | None) -> None:
    given: JsonValue = item.get("arguments")
    if given is None:
        given = item.get("input")
    name = text(item, "name") or text(item, "type").removesuffix("_call")
    if given is None and is_json_object(item.get("action")):
        given = item["action"]
    if text(item, "type") == "custom_tool_call" and not is_json_object(parsed(given)):
        given = {"input": given}  # a tool that takes any text
    dialogue.reply_piece("", [call_of(text(item, "call_id", "id"), name, given)], time)


def _add_client_call(dialogue: Dialogue, item: JsonObject, time: int | None) -> None:
    """Add a call that has a form of its own, such as a shell's."""
    if is_client_call(item):
        made = asked(item)
        call_id = id_of_call(item) or text(item, "id")
        dialogue.reply_piece("", [call_of(call_id, made.name, made.arguments)], time)


def _add_client_result(dialogue: Dialogue, item: JsonObject, time: int | None) -> None:
    if not is_client_output(item):
        return
    said = said_by(item)
    dialogue.answer(
        id_of_output(item) or "",
        said.text,
        time,
        is_error=said.is_error,
        rejected=said.rejected or bool(_REJECTED.match(said.text)),
    )


def _add_result(dialogue: Dialogue, item: JsonObject, time: int | None, ends: Ends) -> None:
    call_id = text(item, "call_id", "id")
    output: JsonValue = item.get("output", item.get("tools"))
    decoded = parsed(output)
    metadata: JsonObject = {}
    success: JsonValue = None
    if is_json_object(decoded) and "output" in decoded:
        metadata, output = member(decoded, "metadata"), decoded["output"]
    elif is_json_object(decoded) and "content" in decoded:
        success, output = decoded.get("success"), decoded["content"]
    said = text_of(output)
    code: JsonValue = metadata.get("exit_code")
    if not isinstance(code, int) and (stated := _EXIT_CODE.match(said)):
        code = int(stated[1])
    failed = ends.failed(call_id)
    if failed is None:
        failed = code != 0 if isinstance(code, int) else bool(_FAILED.match(said))
    dialogue.answer(
        call_id,
        said,
        time,
        is_error=failed or success is False,
        rejected=ends.declined(call_id) or bool(_REJECTED.match(said)),
        duration=duration_of(metadata.get("duration_seconds")),
    )


def _add_mcp_call(dialogue: Dialogue, event: JsonObject, time: int | None) -> None:
    """Add a call of an MCP server, which some versions write as an event only."""
    made = member(event, "invocation")
    call_id = text(event, "call_id")
    if dialogue.has_call(call_id):
        return
    good = member(event, "result", "Ok")
    failed = not good or good.get("isError") is True
    name = "__".join(filter(None, ("mcp", text(made, "server"), text(made, "tool"))))
    dialogue.reply_piece("", [call_of(call_id, name, made.get("arguments"))], time)
    dialogue.answer(
        call_id,
        good.get("content") if good else member(event, "result").get("Err"),
        time,
        is_error=failed,
        duration=_duration(member(event, "duration")),
    )


def _duration(took: JsonObject) -> int | None:
    """Return a duration as Rust writes it, in microseconds."""
    seconds: JsonValue = took.get("secs")
    nanoseconds: JsonValue = took.get("nanos")
    if isinstance(seconds, int) and isinstance(nanoseconds, int):
        return seconds * 1_000_000 + nanoseconds // 1000
    return None


_RESULTS = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "local_shell_call_output",
        "tool_search_output",
    }
)
_ITEMS: dict[str, Callable[[Dialogue, JsonObject, int | None], None]] = {
    "message": _add_message,
    "agent_message": lambda dialogue, item, time: dialogue.say("user", item.get("content"), time),
    "function_call": _add_call,
    "custom_tool_call": _add_call,
    "local_shell_call": _add_call,
    "tool_search_call": _add_call,
    **dict.fromkeys(("shell_call", "apply_patch_call", "computer_call"), _add_client_call),
    **dict.fromkeys(
        ("shell_call_output", "apply_patch_call_output", "computer_call_output"),
        _add_client_result,
    ),
}
"""The function that adds an item; searches of the web and made images run at the provider."""
