"""Events of OpenHands: of V0 (a list, or the `history` of a run a line), and of V1's SDK.

In V0 an action and its observation share a provider's call id; the arguments as the model wrote
them stand in the response that the action carries. Times without a zone are taken for UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.programs.openhands_condensations import Condensations
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import items, member, objects, text
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.providers.model import ParsedCall

_V1_KINDS = ("Event", "Observation", "Condensation")


class OpenHandsEvents:
    """The file format: events one by one, or runs with their events."""

    name = "openhands"
    about = About(
        program="OpenHands",
        files="events of V0 and V1, folders of them, `output.jsonl`",
        failures="marked, exit codes",
        places=("~/.openhands/conversations/*/events", "~/.openhands/sessions/*/events"),
        listing=Listing(call=r'"tool_call_id":\s{0,9}"([^"\\]{1,200})"'),
        kept="condensations, thoughts before a call, the system prompt",
        lost="the program's state, costs, what a critic said",
        tried="SDK 1.58",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is an event, or a run that has events."""
        if not is_json_object(value):
            return False
        if _is_run(value):
            return True
        return unit != "file" and is_event(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield a conversation for each run, and one for the events that stand alone."""
        alone = _Events()
        for number, value in content.values:
            if is_json_object(value) and _is_run(value):
                run = _Events()
                for event in _events(value):
                    run.add(event)
                name = text(value, "instance_id", "session_id", "id") or f"{content.stem}/{number}"
                named = f"{content.name}/{name}" if content.name else name
                yield run.dialogue().transcript(content.unused_name(named))
            elif is_json_object(value) and is_event(value):
                alone.add(value)
            else:
                content.report("not an event of OpenHands", number)
        if dialogue := alone.dialogue():
            yield dialogue.transcript(content.unused_name(content.stem))


def is_event(value: object) -> bool:
    """Return whether a value is an event, of V0 or V1."""
    return _is_v0(value) or _is_v1(value)


def _is_v0(value: object) -> bool:
    return (
        is_json_object(value)
        and ("action" in value or "observation" in value)
        and "source" in value
        and ("args" in value or "content" in value or "extras" in value)
        and "kind" not in value
    )


def _is_v1(value: object) -> bool:
    if not is_json_object(value) or "source" not in value or "timestamp" not in value:
        return False
    return text(value, "kind").endswith(_V1_KINDS)


def _is_run(value: JsonObject) -> bool:
    return any(map(is_event, _events(value)))


def _events(run: JsonObject) -> list[JsonObject]:
    """Return the events of a run; older ones have pairs of an action and its observation."""
    for key in ("history", "trajectory", "events", "items"):
        if found := items(run, key):
            pairs = (each if is_json_list(each) else [each] for each in found)
            return [event for pair in pairs for event in pair if is_json_object(event)]
    return []


class _Events:
    """The events of one conversation so far."""

    def __init__(self) -> None:
        self._dialogue = Dialogue()
        self._condensations = Condensations()
        self._running: dict[str, tuple[JsonObject, int | None]] = {}  # calls over ACP, by id

    def add(self, event: JsonObject) -> None:
        """Take in one event."""
        time = time_of(event.get("timestamp"))
        kind = text(event, "kind")
        if kind == "Condensation" or event.get("action") == "condensation":
            facts = event if kind else member(event, "args")
            for compaction in self._condensations.condensed(facts):
                self._dialogue.add(compaction, time)
        else:
            self._add(event, kind, time)
            self._condensations.add(event, len(self._dialogue))

    def _add(self, event: JsonObject, kind: str, time: int | None) -> None:
        if kind == "ACPToolCallEvent":
            self._add_acp_call(event, time)
        elif kind in _V1:
            _V1[kind](self._dialogue, event, time)
        elif "kind" not in event and "action" in event:
            _add_action(self._dialogue, event, time)
        elif "kind" not in event and "observation" in event:
            _add_observation(self._dialogue, event, time)

    def dialogue(self) -> Dialogue:
        """Return what was said; calls that have not ended come last."""
        for event, time in self._running.values():
            self._dialogue.reply_piece("", [_acp_call(event)], time)
        self._running.clear()
        return self._dialogue

    def _add_acp_call(self, event: JsonObject, time: int | None) -> None:
        """Keep a call as its last event tells it, and add it once it has ended."""
        call_id = text(event, "tool_call_id")
        _, begun = self._running.get(call_id, (event, time))
        status = event.get("status")
        if status not in ("completed", "failed"):
            self._running[call_id] = event, begun
        elif not self._dialogue.has_call(call_id):
            self._running.pop(call_id, None)
            took = time - begun if time is not None and begun is not None else None
            self._dialogue.reply_piece("", [_acp_call(event)], begun)
            self._dialogue.answer(
                call_id,
                _said_by_acp_call(event),
                time,
                is_error=status == "failed",
                duration=took or None,
            )


# V0


def _add_action(dialogue: Dialogue, event: JsonObject, time: int | None) -> None:
    metadata, arguments = member(event, "tool_call_metadata"), member(event, "args")
    call_id = text(metadata, "tool_call_id")
    if call_id:
        response = member(metadata, "model_response")
        made = _made(response, call_id)
        given: JsonValue = member(made, "function").get("arguments")
        own = {key: each for key, each in arguments.items() if key not in _NOT_ARGUMENTS}
        call = call_of(call_id, metadata.get("function_name"), own if given is None else given)
        dialogue.reply(text(arguments, "thought"), [call], time, text(response, "id") or None)
    elif event["action"] == "system":
        dialogue.say("system", text(arguments, "content"), time)
    elif event["action"] == "message":
        said = text(arguments, "content") or text(event, "message")
        if event.get("source") == "agent":
            dialogue.reply(said, (), time)
        else:
            dialogue.say("user", said, time)
    elif event.get("source") == "agent" and text(event, "action") not in _OWN_ACTIONS:
        own = {key: each for key, each in arguments.items() if key not in _NOT_ARGUMENTS}
        call = call_of(_numbered(event.get("id")), event["action"], own)
        dialogue.reply(text(arguments, "thought"), [call], time)


_NOT_ARGUMENTS = frozenset({"thought", "confirmation_state", "security_risk"})
_OWN_ACTIONS = frozenset({"change_agent_state", "recall", "null", "condensation", "finish"})
"""Actions of the program itself, which call no tool."""


def _made(response: JsonObject, call_id: str) -> JsonObject:
    """Return the call as the model's response has it."""
    for choice in objects(response, "choices"):
        for made in objects(member(choice, "message"), "tool_calls"):
            if made.get("id") == call_id:
                return made
    return {}


def _add_observation(dialogue: Dialogue, event: JsonObject, time: int | None) -> None:
    metadata, extras = member(event, "tool_call_metadata"), member(event, "extras")
    kind = text(event, "observation")
    call_id = text(metadata, "tool_call_id") or _numbered(event.get("cause"))
    said = text(event, "content") or text(event, "message")
    if not dialogue.has_call(call_id):
        if kind == "error":
            dialogue.say("user", said, time)  # the model is told so
        return
    code: JsonValue = member(extras, "metadata").get("exit_code", extras.get("exit_code"))
    failed = isinstance(code, int) and code > 0  # it is -1 while the command runs
    said_so = kind == "error" or (kind in ("read", "edit") and said.startswith("ERROR:"))
    dialogue.answer(
        call_id,
        said,
        time,
        name=text(metadata, "function_name"),
        is_error=failed or said_so or extras.get("success") is False,
        rejected=kind == "user_rejected",
    )


def _numbered(event_id: object) -> str:
    return f"event-{event_id}" if isinstance(event_id, int) else ""


# V1


def _tell_v1_system(dialogue: Dialogue, event: JsonObject, time: int | None) -> None:
    dialogue.say("system", event.get("system_prompt"), time)


def _tell_v1_message(dialogue: Dialogue, event: JsonObject, time: int | None) -> None:
    message = member(event, "llm_message")
    if message.get("role") == "assistant":
        dialogue.reply(message.get("content"), (), time, text(event, "llm_response_id") or None)
    else:
        dialogue.say(text(message, "role"), message.get("content"), time)


def _tell_v1_action(dialogue: Dialogue, event: JsonObject, time: int | None) -> None:
    made, action = member(event, "tool_call"), member(event, "action")
    given: JsonValue = made.get("arguments", member(made, "function").get("arguments"))
    if given is None:
        given = {key: each for key, each in action.items() if key != "kind"}
    call = call_of(text(event, "tool_call_id"), text(event, "tool_name"), given)
    thought = event.get("thought")
    dialogue.reply(thought or "", [call], time, text(event, "llm_response_id") or None)


def _tell_v1_result(dialogue: Dialogue, event: JsonObject, time: int | None) -> None:
    observation = member(event, "observation")
    said: JsonValue = observation.get("content", observation.get("output"))
    code: JsonValue = observation.get("exit_code", member(observation, "metadata").get("exit_code"))
    kind = event.get("kind")
    rejected = kind == "UserRejectObservation"
    failed = observation.get("is_error") is True or kind == "AgentErrorEvent"
    exited = isinstance(code, int) and code > 0
    dialogue.answer(
        text(event, "tool_call_id"),
        text(event, "rejection_reason", "error") or said,
        time,
        name=text(event, "tool_name"),
        is_error=not rejected and (failed or exited),
        rejected=rejected,
    )


def _acp_call(event: JsonObject) -> ParsedCall:
    """Return a call that an agent made over the Agent Client Protocol.

    The protocol names no tool: a call has a kind, and a title for people.
    """
    title = text(event, "title")
    given: JsonValue = event.get("raw_input") or {"title": title}
    return call_of(text(event, "tool_call_id"), text(event, "tool_kind") or title, given)


def _said_by_acp_call(event: JsonObject) -> JsonValue:
    blocks = objects(event, "content")
    words = [text(member(each, "content"), "text") or text(each, "text") for each in blocks]
    return "\n".join(filter(None, words)) or event.get("raw_output") or event.get("content")


_V1: dict[str, Callable[[Dialogue, JsonObject, int | None], None]] = {
    "SystemPromptEvent": _tell_v1_system,
    "MessageEvent": _tell_v1_message,
    "ActionEvent": _tell_v1_action,
    "ObservationEvent": _tell_v1_result,
    "AgentErrorEvent": _tell_v1_result,
    "UserRejectObservation": _tell_v1_result,
}
