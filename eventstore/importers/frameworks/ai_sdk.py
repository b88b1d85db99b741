"""Messages of the AI SDK (npm `ai`), of versions 4 to 7: those of its interface, and the model's.

A message of the interface has `parts`, and a call has its end in the same part, by its `state`. A
message of the model has its calls and results in `content`.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list
from eventstore.importers.frameworks.saved_messages import (
    SavedMessages,
    end_call,
    media_shown,
    role_of,
    time_of_message,
)
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.json_members import member, objects, text, text_of
from eventstore.providers.model import ParsedCall, ParsedResult

_PROGRAM: Final = "AI SDK"
_STATIC: Final = "tool-"
_INVOCATION: Final = "tool-invocation"
"""Up to version 4, a part that holds the call; later a tool might have this name."""
_RESULT: Final = "tool-result"
_SILENT: Final = frozenset({"reasoning", "step-start", "source", "source-url", "source-document"})
_ASKED: Final = frozenset({"tool-approval-request", "tool-approval-response"})
_TOLD: Final = _SILENT | {"dynamic-tool", "reasoning-file", "steering-message"}
"""Parts that only messages of the interface have."""


class InterfaceMessages(SavedMessages):
    """The file format: messages of the interface, or an object that holds them."""

    name = "ai-sdk-ui"
    about = About(
        program=_PROGRAM,
        files="messages of the interface (`parts`), as JSON",
        failures="marked",
        times="where the file has them",
        kept="denied calls as rejections",
        lost="reasoning, sources, data parts",
        tried="7.0.173",
        on="2026-11-28",
    )
    roots = (("messages",), ("chat", "messages"))

    def is_message(self, value: JsonObject) -> bool:
        """Return whether a message has parts with a type and, of a text, its own member."""
        if not isinstance(value.get("role"), str):
            return False
        if objects(value, "toolInvocations"):
            return True
        kinds = [(text(part, "type"), part) for part in objects(value, "parts")]
        return any(
            _is_call(kind) or kind in _TOLD or kind.startswith("data-") or _is_words(kind, part)
            for kind, part in kinds
        )

    def add(self, dialogue: Dialogue, message: JsonObject) -> None:
        """Add what a message says, step by step, with its calls and their ends."""
        role, time = role_of(message), time_of_message(message)
        parts = objects(message, "parts")
        if not any(map(_invocation_of, parts)):  # version 3 has them beside its text
            made = objects(message, "toolInvocations")
            parts = parts or [{"type": "text", "text": text(message, "content")}]
            parts = [*parts, *({"type": _INVOCATION, "toolInvocation": each} for each in made)]
        said: list[str] = []
        steps: list[JsonObject] = []
        for part in parts:
            kind = text(part, "type")
            invocation = _invocation_of(part)
            if invocation is not None:
                steps.append(invocation)
            elif kind in _SILENT or kind.startswith("data-"):
                _flush(dialogue, said, steps, time) if kind == "step-start" else None
            elif kind == "steering-message":
                _flush(dialogue, said, steps, time)
                dialogue.say("user", part.get("parts"), time)
            elif kind == "text":
                _flush(dialogue, said, steps, time) if steps else None
                said.append(text(part, "text"))
            else:
                said.append(media_shown(part, kind, _PROGRAM))
        if role == "assistant":
            _flush(dialogue, said, steps, time)
        else:
            dialogue.say(role, "\n".join(filter(None, said)), time)


def _flush(dialogue: Dialogue, said: list[str], steps: list[JsonObject], time: int | None) -> None:
    """Add a step of the assistant's message: its words and calls, then the ends of the calls."""
    dialogue.reply("\n".join(filter(None, said)), [_call(each) for each in steps], time)
    for invocation in steps:
        if (end := _end_of(invocation)) is not None:
            end_call(dialogue, end, time)
    said.clear()
    steps.clear()


def _is_call(kind: str) -> bool:
    return kind == "dynamic-tool" or (kind.startswith(_STATIC) and kind not in _ASKED)


def _is_words(kind: str, part: JsonObject) -> bool:
    """Return whether a part is a text of this SDK; Gemini's have no type, spans a `content`."""
    return kind == "text" and isinstance(part.get("text"), str)


def _invocation_of(part: JsonObject) -> JsonObject | None:
    """Return the call that a part is, with the name of its tool; None for another part."""
    kind = text(part, "type")
    held = member(part, "toolInvocation")
    if kind == _INVOCATION and held:
        return held
    if not _is_call(kind) or "toolCallId" not in part:
        return None
    return {"toolName": kind.removeprefix(_STATIC), **part} if kind != "dynamic-tool" else part


def _call(invocation: JsonObject) -> ParsedCall:
    given: JsonValue = invocation.get("input", invocation.get("args"))
    raw: JsonValue = invocation.get("rawInput")
    return call_of(
        invocation.get("toolCallId"), invocation.get("toolName"), raw if given is None else given
    )


def _end_of(invocation: JsonObject) -> ParsedResult | None:
    """Return the end of a call; None of one that waits, or runs."""
    state = text(invocation, "state")
    approval = member(invocation, "approval")
    denied = state == "output-denied" or (
        state == "approval-responded" and approval.get("approved") is False
    )
    said: JsonValue = invocation.get("output", invocation.get("result"))
    failed = state == "output-error"
    if denied:
        said = _denial(approval)
    elif failed:
        said = text(invocation, "errorText")
    elif state not in ("output-available", "result") or invocation.get("preliminary") is True:
        return None
    return _result(invocation, said, failed=failed, denied=denied)


def _result(
    part: JsonObject, said: JsonValue, *, failed: bool = False, denied: bool = False
) -> ParsedResult:
    known = text(part, "toolCallId") or None, text(part, "toolName") or None
    return ParsedResult(*known, text_of(said), failed, rejected=denied, well_formed=True)


class ModelMessages(SavedMessages):
    """The file format: messages of the model, as `response.messages` has them."""

    name = "ai-sdk"
    about = About(
        program=_PROGRAM,
        files="messages of the model (`tool-call`, `tool-result`), as JSON",
        failures="marked",
        times="where the file has them",
        kept="denied calls as rejections",
        lost="reasoning",
        tried="7.0.173",
        on="2026-11-28",
    )

    def is_message(self, value: JsonObject) -> bool:
        """Return whether a message has a call or a result as only the AI SDK writes them."""
        parts = objects(value, "content")
        return isinstance(value.get("role"), str) and any(
            text(part, "type") in ("tool-call", "tool-result", *_ASKED) for part in parts
        )

    def add_all(self, dialogue: Dialogue, messages: list[JsonObject]) -> None:
        """Add messages: a call that a person denied is a rejection, whatever its result says."""
        parts = [part for message in messages for part in objects(message, "content")]
        requests = [each for each in parts if "approvalId" in each and "toolCallId" in each]
        asked = {text(each, "approvalId"): text(each, "toolCallId") for each in requests}
        denied = [each for each in parts if each.get("approved") is False]
        calls = {asked.get(text(each, "approvalId"), "") for each in denied} - {""}
        ended = {text(each, "toolCallId") for each in parts if text(each, "type") == _RESULT}
        for message in messages:
            self._add(dialogue, message, calls)
        for each in denied:
            call_id = asked.get(text(each, "approvalId"), "")
            if call_id and call_id not in ended:
                end_call(
                    dialogue, _result({"toolCallId": call_id}, _denial(each), denied=True), None
                )

    def add(self, dialogue: Dialogue, message: JsonObject) -> None:
        """Add what a message says, its calls, and the results in it."""
        self._add(dialogue, message, set())

    def _add(self, dialogue: Dialogue, message: JsonObject, denied: AbstractSet[str]) -> None:
        role, time = role_of(message), time_of_message(message)
        said: list[str] = []
        calls: list[ParsedCall] = []
        ends: list[ParsedResult] = []
        for part in _parts(message.get("content")):
            kind = text(part, "type")
            if kind == "tool-call":
                calls.append(_call(part))
            elif kind == _RESULT:
                ends.append(_ended(part, denied))
            elif kind == "text":
                said.append(text(part, "text"))
            elif kind not in _SILENT and kind not in _ASKED:
                said.append(media_shown(part, kind, _PROGRAM))
        words = "\n".join(filter(None, said))
        if role == "assistant":
            dialogue.reply(words, calls, time)
        elif words:
            dialogue.say(role, words, time)
        for end in ends:
            end_call(dialogue, end, time)


def _parts(content: JsonValue) -> Iterator[JsonObject]:
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif is_json_list(content):
        yield from (each for each in content if isinstance(each, dict))


def _ended(part: JsonObject, denied: AbstractSet[str]) -> ParsedResult:
    """Return a result: up to version 4 a value, later an output whose type says how it ended."""
    output = member(part, "output")
    kind = text(output, "type")
    said: JsonValue = output.get("value", part.get("output", part.get("result")))
    if kind == "execution-denied":
        return _result(part, _denial(output), denied=True)
    if text(part, "toolCallId") in denied:
        return _result(part, said, denied=True)
    return _result(part, said, failed=kind.startswith("error-") or part.get("isError") is True)


def _denial(holder: JsonObject) -> str:
    """Return why a call was denied."""
    return text(holder, "reason") or "The call was denied."
