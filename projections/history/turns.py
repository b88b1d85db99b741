"""From what the log holds to what the model sees: entries to turns, each call with its answer.

1. A turn has what its message says, and its calls in their order; each call has one answer.
2. The answer is the recorded one. It is the provider's own form where there is one.
3. A call without a recorded answer gets a placeholder: what the log knows about it. That is an
   error for the model unless the call simply has not run yet.
4. An answer that exceeds the host's limits is cut (`bounded_results`).
5. A provider's message goes back as it is (`well_formed`) only where nothing in it was changed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from eventstore import (
    Approved,
    Failed,
    MessageAdded,
    NonResolvedToolError,
    Part,
    Pending,
    Rejected,
    Running,
    Text,
    Tool,
    ToolCompleted,
    ToolRejected,
)
from eventstore.domain.json_types import is_json_object
from eventstore.domain.own_texts import (
    APPROVED,
    APPROVED_AFTER_PAUSE,
    AWAITING_APPROVAL,
    DEFERRED,
    NAMELESS_ORPHAN,
    NOT_KNOWN_TO_HAVE_RUN,
    NOT_STARTED,
    ORPHAN,
    PAUSED,
    UNKNOWN_OUTCOME,
    UNPARSED,
    UNREADABLE_START,
)
from eventstore.providers import (
    PROVIDERS,
    ROLES,
    Answer,
    Call,
    ResultsMessage,
    Turn,
    adapter_of,
    shown_text,
    stored_parts,
)
from projections.formatting import utc_text
from projections.history.bounded_results import (
    ResultLimitsByTool,
    bound_answer,
    bound_parts,
    limits_of,
    shortened,
)
from projections.history.entries import Entry, LoggedCall, Repair
from projections.history.options import HistoryOptions

_encode = msgspec.json.Encoder().encode


def turn_of(
    entry: Entry,
    options: HistoryOptions,
    notes: Mapping[str, str | None],
    repairs: list[Repair],
) -> Turn:
    """Return the turn of an entry; what had to be changed for it is added to `repairs`.

    `notes` are those of `CollapsedCalls`.

    Raises:
        NonResolvedToolError: a call is open and `open_calls` is "raise".
    """
    if entry.misplaced_result:
        parts = _bounded_parts(entry, entry.misplaced_result, options, repairs)
        return Turn("user", parts, version=entry.version)
    message = entry.message
    if message is None:
        turn = Turn(entry.role, version=entry.version)
    elif entry.role == "tool":
        return _orphan_turn(entry, message, options, repairs)
    else:
        turn = message_turn(entry, message)
    if entry.calls:
        free_texts = _free_texts(turn)
        turn.calls = [
            _call(call, turn, options, notes, repairs, free_texts.get(call.tool.index))
            for call in entry.calls
        ]
        if turn.calls[-1].hidden and all(call.hidden for call in turn.calls):
            turn.hidden = not any(isinstance(part, Text) for part in turn.parts)
        if entry.results_message is not None:
            turn.results_message = _results_message(entry.results_message, turn)
    return turn


def message_turn(entry: Entry, message: MessageAdded) -> Turn:
    """Return the turn of a message, without calls."""
    role = message.role if message.role in ROLES else "user"
    turn = Turn(
        role, message.parts, [], message.provider, message.native, message.exact, message.joined
    )
    turn.version = entry.version
    if entry.role == "assistant" and len(entry.calls) != message.calls:
        turn.well_formed = False
    return turn


def _orphan_turn(
    entry: Entry, message: MessageAdded, options: HistoryOptions, repairs: list[Repair]
) -> Turn:
    """Return the turn of a result without a call here: text, unless its server keeps the call."""
    text = Text(orphan_text(message.call_id, _text_of(message)))
    others = (part for part in message.parts if not isinstance(part, Text))
    parts: tuple[Part, ...] = (text, *others)
    if not entry.may_be_server_call:
        parts = _bounded_parts(entry, parts, options, repairs)
    turn = Turn("user", parts, version=entry.version)
    if entry.may_be_server_call:
        turn.provider, turn.native = message.provider, message.native
        turn.server_call = _server_call(message)
        turn.is_continued = entry.is_continued
    else:
        why = "the result answers no call of this history"
        repairs.append(Repair("wrapped", "orphan", why, message.call_id, (entry.version,)))
    return turn


def _bounded_parts(
    entry: Entry, parts: tuple[Part, ...], options: HistoryOptions, repairs: list[Repair]
) -> tuple[Part, ...]:
    """Return the parts of a result whose tool is not known, within the limits of all tools."""
    limits = limits_of(options.limits, None)
    if limits is None:
        return parts
    shown, left_out = bound_parts(parts, limits)
    if left_out:
        repairs.append(shortened(left_out, None, (entry.version,)))
    return shown


def _bound(
    answer: Answer, logged: LoggedCall, by_tool: ResultLimitsByTool, repairs: list[Repair]
) -> None:
    limits = limits_of(by_tool, logged.tool.call.name)
    if limits is not None and (repair := bound_answer(answer, logged, limits)):
        repairs.append(repair)


def _text_of(message: MessageAdded) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _server_call(message: MessageAdded) -> Call:
    """Return the call that the provider's server keeps, with the result of it that is here."""
    answer = Answer(_text_of(message), provider=message.provider, native=message.native)
    return Call(message.call_id or "", "", {}, answer)


def _results_message(message: MessageAdded, turn: Turn) -> ResultsMessage | None:
    """Return the message of a turn's results, if it holds exactly the results that are shown."""
    if message.provider is None or not message.exact:
        return None
    if sorted(message.results) != sorted(call.id for call in turn.calls if not call.hidden):
        return None
    return ResultsMessage(message.provider, message.results, message.native)


def _call(
    logged: LoggedCall,
    turn: Turn,
    options: HistoryOptions,
    notes: Mapping[str, str | None],
    repairs: list[Repair],
    free_text: str | None,
) -> Call:
    tool = logged.tool
    asked = tool.edit or tool.call
    if tool.edit is not None:
        turn.well_formed = False
    answer = _answer(logged, options, is_custom=free_text is not None)
    call = Call(tool.id, asked.name, asked.arguments, answer, tool.provider_call_id, asked.raw)
    if free_text is not None:
        call.free_text = _edited(free_text, tool)
    if tool.id in notes:
        answer.note = notes[tool.id]
        call.hidden = answer.note is None
    if not call.hidden and (by_tool := options.limits) is not None:
        _bound(answer, logged, by_tool, repairs)
    if not call.hidden and not tool.is_resolved:
        if options.open_calls == "raise":
            raise NonResolvedToolError(tool.id, tool.status.name)
        call.hidden = options.open_calls == "drop"
        what = "dropped" if call.hidden else "answered"
        repairs.append(Repair(what, "open-call", answer.text, tool.id, tuple(logged.versions)))
    return call


def _free_texts(turn: Turn) -> Mapping[int, str]:
    """Return what the calls of a turn give to custom tools, by their places."""
    if turn.provider is None or turn.provider not in PROVIDERS or turn.native is None:
        return {}
    return adapter_of(turn.provider).free_texts(turn.native)


def _edited(free_text: str, tool: Tool) -> str:
    """Return what a custom tool is called with: an edit has its text as the member `input`."""
    if tool.edit is None:
        return free_text
    edited: object = tool.edit.arguments
    if is_json_object(edited) and edited.keys() == {"input"}:
        edited = edited["input"]
    return result_text(edited)


def _answer(logged: LoggedCall, options: HistoryOptions, *, is_custom: bool) -> Answer:
    event = logged.answer
    if event is None:
        is_refused = logged.tool.call.raw is not None and not is_custom
        return Answer(
            _placeholder(logged, options, is_refused=is_refused),
            is_error=not _has_not_run(logged, is_refused=is_refused),
        )
    provider, native = event.provider, event.native
    if isinstance(event, ToolCompleted):
        result = event.response.result
        if type(result) is str:
            return Answer(result, is_error=False, provider=provider, native=native)
        text, parts = shown_result(event)
        answer = Answer(text, provider=provider, native=native, stored_parts=parts)
        answer.data = None if parts else result
        return answer
    answer = Answer(_error_text(logged), is_error=True, provider=provider, native=native)
    answer.is_refusal = isinstance(event, ToolRejected)
    return answer


def _error_text(logged: LoggedCall) -> str:
    event, status = logged.answer, logged.tool.status
    if isinstance(event, ToolRejected) and event.native is not None:
        return event.reason or ""  # an imported rejection has its own words, whole
    return status.model_text if isinstance(status, Failed | Rejected) else ""


def shown_result(event: ToolCompleted) -> tuple[str, tuple[Part, ...]]:
    """Return what the model reads of a result, and the parts of one that was given in parts."""
    result: object = event.response.result
    parts = stored_parts(result) if event.in_parts else ()
    return shown_text(parts) if parts else result_text(result), parts


def result_text(result: object) -> str:
    """Return a result as the model reads it: text as it is, everything else as JSON."""
    return result if isinstance(result, str) else _encode(result).decode()


def orphan_text(call_id: str | None, text: str) -> str:
    """Return the text that stands for a result that has no place."""
    head = ORPHAN.format(call_id) if call_id else NAMELESS_ORPHAN
    return f"{head}\n{text}"


def _has_not_run(logged: LoggedCall, *, is_refused: bool) -> bool:
    """Return whether the call simply has not run yet, or paused, which is not an error."""
    tool = logged.tool
    if type(tool.status) not in (Pending, Approved):
        return False
    if _is_in_doubt(logged):
        return False
    return tool.attempts > 0 or not (is_refused or logged.imported)


def _is_in_doubt(logged: LoggedCall) -> bool:
    """Return whether a call without an end may have taken effect; imported ones are apart."""
    tool = logged.tool
    return type(tool.status) is Running or (tool.ended_in_doubt and not logged.imported)


def _placeholder(logged: LoggedCall, options: HistoryOptions, *, is_refused: bool) -> str:
    tool, status = logged.tool, logged.tool.status
    if not _is_in_doubt(logged):
        if type(status) is Approved:
            return APPROVED_AFTER_PAUSE if tool.attempts else APPROVED
        if isinstance(status, Pending):
            return _placeholder_of_pending(logged, status, options, is_refused=is_refused)
    return UNKNOWN_OUTCOME.format(tool.attempts) if tool.attempts else UNREADABLE_START


def _placeholder_of_pending(
    logged: LoggedCall, status: Pending, options: HistoryOptions, *, is_refused: bool
) -> str:
    tool = logged.tool
    if is_refused and not tool.is_paused:
        return UNPARSED
    if status.until is not None:
        text = PAUSED if tool.attempts else DEFERRED
        return text.format(f"{utc_text(status.until)} UTC")
    if tool.attempts:
        return PAUSED.format("a person decides")
    if logged.imported and not status.needs_decision:
        return NOT_KNOWN_TO_HAVE_RUN
    asks = options.needs_approval
    waits = status.needs_decision or (asks is not None and asks(tool))
    return AWAITING_APPROVAL if waits else NOT_STARTED
