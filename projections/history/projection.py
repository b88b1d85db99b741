"""`model_history`, and `History`: the fold from recorded events to what was said and called.

1. Messages and calls become entries, in the order of the log; a call stands in its turn, in the
   order in which the model made the calls.
2. An event moves its call along the table of transitions (`evolve`).
3. A result that the table has no place for becomes text. Any other event that does not fit is
   left out, and a repair says so.
4. Events of another conversation than the first are left out.
5. What is redacted after it was read is covered, and nothing of it is kept for a next view.

The rule of what is then shown is in the package's docstring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, Self

from msgspec.structs import replace

from eventstore import (
    Conversation,
    Event,
    Failed,
    HistoryCompacted,
    HookRaised,
    IllegalTransition,
    MessageAdded,
    ModelResponded,
    Part,
    PayloadsRedacted,
    Recorded,
    RedactedPayload,
    Text,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRenewed,
    ToolsOffered,
    UnknownEvent,
    evolve,
)
from eventstore.domain.covered import covered_call, covered_event
from eventstore.domain.redaction import REDACTED
from eventstore.domain.unreadable_steps import left_in_doubt
from eventstore.domain.wording import later_wording, reworded
from eventstore.providers import LaterSystem, Reasoning, ServerKept, references_server_call
from projections.history.bounded_results import ResultLimitsByTool
from projections.history.compaction import Compactions
from projections.history.entries import Entries, Entry, LoggedCall, Repair
from projections.history.model_history import KeptView, ModelHistory, history_to_show
from projections.history.options import (
    Collapse,
    HistoryOptions,
    Marks,
    NeedsApproval,
    OpenCalls,
    Results,
)
from projections.history.token_counter import TokenCounter
from projections.history.trace import Trace
from projections.history.turns import orphan_text, shown_result
from projections.kept_folds import KeptFolds
from projections.projection import NO_CALL_ID, TOOL_EVENTS
from projections.redactions import ReadMarkers

_ANSWERS = frozenset({ToolCompleted, ToolFailed, ToolRejected})
_FORM = "it was not in its provider's form"
_LATE = "the result did not follow its call: moved after it"


def model_history(  # noqa: PLR0913 - each with a default
    events: Iterable[Recorded] | Conversation,
    *,
    cached: bool = True,
    open_calls: OpenCalls = "answer",
    collapse: Collapse = "earlier",
    result_limits: ResultLimitsByTool | None = None,
    results: Results = "whole",
    last_turns: Marks | None = None,
    max_tokens: Marks | None = None,
    count_tokens: TokenCounter | None = None,
    since: int | None = None,
    pinned: Collection[int] = (),
    summary: str | None = None,
    prefill: bool = False,
    later_system: LaterSystem = "keep",
    model: str | None = None,
    reasoning: Reasoning = "drop",
    server_kept: ServerKept = "keep",
    needs_approval: NeedsApproval | None = None,
) -> ModelHistory:
    """Return the history to show the model next: valid for any provider, from any part of a log.

    Of a `Conversation` it reads what was appended since the handle was last asked, and takes up
    what it made then; the history is the one that `conversation.events()` gives. The handle keeps
    the events and turns in memory. With `cached=False` all is read again, and nothing is kept.

    A call without a result is answered with what the log knows; `open_calls="raise"` refuses
    instead, `"drop"` leaves the call out. One that has not started is told as one that waits for
    an approval only where `needs_approval` says so (`Toolbox.needs_approval_for`), because the log
    does not know which tools need one. `collapse="failed"` leaves out failed calls that a later
    one with the same arguments repeats before the user speaks again, and `"earlier"` does so once
    the user has spoken again: a tool loop keeps its thinking, and its prompts fit the provider's
    cache (`cache_breaks`). `"all"` keeps one call of each fingerprint, as `repair_history` does;
    `"none"` keeps everything.

    `result_limits` cut the results that are longer in the middle, with a mark that says how much is
    left out: of every tool, or of those of a mapping by name (`Toolbox.result_limits`). With
    `max_tokens`, `results="shorten"` does so where one result alone takes more than a quarter of
    it. The log keeps every result whole.

    Windows cut off older turns as a whole: `last_turns` keeps that many turns of the model,
    `max_tokens` those that fit (counted by `count_tokens`, otherwise by `estimate_tokens`),
    `since` those to which something happened from that version on. With two marks, such as
    `last_turns=(10, 30)`, a window grows to the upper one and is then cut to the lower one: between
    two cuts the provider's cache fits. `summary` is shown in place of what is cut off. `pinned`
    messages, by their versions, stay; a turn stays with its calls.

    A history that stops on the assistant's words ends, where newer models refuse that, with a
    user's message which says that nothing was said since. With `prefill` the model continues from
    these words instead. A system message inside goes back to its provider as it is, or as text of
    the user with `later_system="user"`, as models before Claude Opus 4.8 want it. With the name of
    the `model`, what is known of it decides both; see `ModelHistory.render`.

    Reasoning of another provider is left out, or told in a note of the user's with
    `reasoning="note"`. A provider's server keeps code containers, files and items for a time, and
    refuses a request that names one that is gone: `server_kept="note"` tells of them in a note.

    The same events give the same bytes.

    Raises:
        NonResolvedToolError: a call is open and `open_calls` is "raise".
        ValueError: an option makes no sense.
    """
    options = HistoryOptions(
        open_calls=open_calls,
        collapse=collapse,
        result_limits=result_limits,
        results=results,
        last_turns=last_turns,
        max_tokens=max_tokens,
        count_tokens=count_tokens,
        since=since,
        pinned=pinned,
        summary=summary,
        prefill=prefill,
        later_system=later_system,
        model=model,
        reasoning=reasoning,
        server_kept=server_kept,
        needs_approval=needs_approval,
    )
    if not isinstance(events, Conversation):
        return History().extend(events).last_view(options)
    if not cached:
        return History().extend(events.events()).last_view(options)
    return _HISTORIES.ask(events, lambda history: history.view_with(options))


class History:
    """The fold: what was said and called in one conversation, from any prefix of any log.

    `is_continued` means that a provider's server keeps what came before: results may answer calls
    that are kept there.
    """

    def __init__(self, *, is_continued: bool = False) -> None:
        self.conversation_id: str | None = None
        self.repairs: list[Repair] = []
        self._entries = Entries()
        self._last: Entry | None = None  # the last message, or turn, that is no result
        self._turns: dict[int, Entry] = {}
        self._calls: dict[str, LoggedCall] = {}
        self._said: dict[int, Entry] = {}  # by the versions of messages and of misplaced results
        self._markers = ReadMarkers()
        self._entry_of_call: dict[str, Entry] = {}
        self._trace = Trace()
        self._compactions = Compactions()
        self._kept = KeptView()
        self._is_continued = is_continued
        self._has_references = is_continued  # to calls that the provider's server keeps

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in events."""
        for recorded in events:
            self.apply(recorded)
        return self

    def apply(self, recorded: Recorded) -> None:
        """Take in one event; what breaks the rules becomes text or a repair, never an error."""
        if recorded.conversation_id != self.conversation_id:
            if self.conversation_id is not None:
                why = "of another conversation"
                self._add_repair("dropped", "conversation", why, recorded.call_id, recorded.version)
                return
            self.conversation_id = recorded.conversation_id
        self._markers.take(recorded)
        if type(recorded.event) is PayloadsRedacted:
            for payload in self._markers.gone(recorded):
                self._cover(payload)
        self.take(recorded.event, recorded.version, recorded.time, recorded.fingerprint)

    def take(
        self, event: Event, version: int, at: int | None = None, fingerprint: str | None = None
    ) -> None:
        """Take in one event of this conversation without an envelope; see `apply`."""
        if type(event) is MessageAdded:
            self._add_message(version, event)
        elif type(event) is ToolPending:
            self._add_call(version, event, at, fingerprint)
        elif type(event) in TOOL_EVENTS:
            self._advance_call(version, event, at, fingerprint)
        elif type(event) is UnknownEvent:
            self._doubt_calls(version, event, fingerprint)
        elif type(event) is ToolsOffered:
            self._trace.add_offer(event, self._entries)
        elif type(event) is HookRaised:
            if event.call_id is not None:
                self._trace.add_raised(event.call_id, event)
        elif type(event) is ModelResponded:
            self._trace.add_response(event, version)
        elif type(event) is HistoryCompacted:
            self._compactions.add(version, event)
            self._trace.end_turn()

    def _cover(self, payload: RedactedPayload) -> None:
        """Give up what is kept of an event; see `redactions`."""
        self._kept = KeptView()
        self._compactions.cover(payload.version)
        call = self._calls.get(payload.call_id or "")
        if call is not None:
            call.tool = covered_call(call.tool)
            call.answer = None if call.answer is None else covered_event(call.answer)
            self._trace.answers.pop(call.tool.id, None)
            entry = self._entry_of_call[call.tool.id]
            entry.message = entry.message and covered_event(entry.message)  # it may hold the call
            entry.results_message = None
            self._entries.note_change(entry)
        if (said := self._said.get(payload.version)) is not None:
            said.message = said.message and covered_event(said.message)
            said.results_message = None
            if said.misplaced_result:
                said.misplaced_result = (Text(orphan_text(payload.call_id, REDACTED)),)
            self._entries.note_change(said)

    def _add_message(self, version: int, event: MessageAdded) -> None:
        if event.results:
            self._take_results(version, event)
            if not event.parts or event.role == "tool":
                return
        if event.native is not None and not event.exact and event.role != "tool":
            self._add_repair("rewritten", "form", _FORM, None, version)
        if type(event.native) is list and not self._has_references:
            self._has_references = references_server_call(event.parts)
        if event.role == "assistant" and event.turn is not None and event.turn in self._turns:
            # Its calls came first (a log out of order), or it is a further piece of the message.
            entry = self._turns[event.turn]
            first = entry.message
            entry.message = event if first is None else first.continued_by(event)
            entry.last_piece = version
            self._said[version] = entry
            self._entries.note_change(entry)
            return
        entry = self._said[version] = self._entries.add(Entry(event.role, event, version))
        if event.role != "tool":
            self._last = entry
        else:
            entry.is_continued = self._is_continued
            entry.may_be_server_call = (
                self._has_references and event.provider is not None and bool(event.call_id)
            )
        if event.role == "user":
            self._trace.end_turn()
        if event.role == "assistant":
            self._trace.begin_turn(version)
            if event.turn is not None:
                self._turns.setdefault(event.turn, entry)

    def _take_results(self, version: int, event: MessageAdded) -> None:
        text = later_wording(event)
        if text is None:
            self._keep_results_message(version, event)
        else:
            self._tell(version, event.results[0], text)

    def _tell(self, version: int, call_id: str, text: str) -> None:
        """Take in what the model was told of a call after its end."""
        call = self._calls.get(call_id)
        if call is None or call.answer is None:
            return
        call.answer = reworded(call.answer, text)
        if isinstance(call.answer, ToolFailed):
            call.tool = replace(call.tool, status=Failed(call.answer.failure))
        call.versions.append(version)
        self._entries.note_change(self._entry_of_call[call_id])

    def _keep_results_message(self, version: int, event: MessageAdded) -> None:
        """Keep the message in which results came with their turn, if it may go back there."""
        call = self._calls.get(event.results[0])
        entry = self._turns.get(call.tool.turn) if call is not None else None
        if entry is None:
            return
        came = event.results
        if any(call.answer is not None and call.tool.id not in came for call in entry.calls):
            why = "the results of one turn came in several messages"
            self._add_repair("merged", "results", why, None, version)
        if not event.parts or self._entries[-1] is entry:
            entry.results_message = event
            self._said[version] = entry
            self._entries.note_change(entry)

    def _add_call(
        self, version: int, event: ToolPending, at: int | None, fingerprint: str | None
    ) -> None:
        call_id = event.call.id
        if not call_id:
            self._add_repair("dropped", "no-id", NO_CALL_ID, call_id, version)
            return
        known = self._calls.get(call_id)
        try:
            tool = evolve(known.tool if known else None, event, at, fingerprint)
        except IllegalTransition as error:
            self._add_repair("dropped", "transition", str(error), call_id, version)
            return
        if known is not None:
            return
        call = self._calls[call_id] = LoggedCall(tool, [version], event.imported)
        entry = None if event.turn is None else self._turns.get(event.turn)
        if entry is None:
            entry = self._last = self._entries.add(Entry("assistant", None, version))
            self._trace.begin_turn(version)
            if event.turn is not None:
                self._turns[event.turn] = entry
        self._entry_of_call[call_id] = entry
        self._entries.note_change(entry)
        entry.calls.append(call)
        if len(entry.calls) > 1 and entry.calls[-2].tool.index > tool.index:
            entry.calls.sort(key=lambda each: each.tool.index)

    def _advance_call(
        self, version: int, event: Any, at: int | None, fingerprint: str | None
    ) -> None:
        call = self._calls.get(event.call_id)
        try:
            tool = evolve(call.tool if call else None, event, at, fingerprint)
        except IllegalTransition as error:
            self._keep_as_text(version, event, error)
            return
        if call is None:  # never: `evolve` refuses a step of a call that is not there
            return
        if type(event) is ToolRenewed:  # nothing that is shown changes
            call.tool = tool
            return
        call.versions.append(version)
        self._entries.note_change(self._entry_of_call[event.call_id])
        if event.hooks:
            self._trace.add_answers(event.call_id, event.hooks)
        if tool is call.tool:
            return
        call.tool = tool
        if type(event) in _ANSWERS:
            call.answer = event
            turn = self._entry_of_call[event.call_id]
            if turn is not self._last and _came_as_message(event, turn):
                self._add_repair("moved", "late-result", _LATE, event.call_id, version)
        elif type(event) is not ToolApproved:
            call.answer = None

    def _doubt_calls(self, version: int, event: UnknownEvent, fingerprint: str | None) -> None:
        """Take in that a step of a call cannot be read; see `unreadable_steps`."""
        tools = {call_id: call.tool for call_id, call in self._calls.items()}
        for tool in left_in_doubt(event, fingerprint, tools):
            call = self._calls[tool.id]
            call.tool = tool
            call.versions.append(version)
            self._entries.note_change(self._entry_of_call[tool.id])

    def _keep_as_text(self, version: int, event: ToolEvent, error: IllegalTransition) -> None:
        """Keep what an event says that the lifecycle has no place for, if it says anything."""
        text, parts = "", tuple[Part, ...]()
        if isinstance(event, ToolFailed):
            text = event.failure.model_text
        elif isinstance(event, ToolCompleted):
            text, parts = shown_result(event)
        what = "wrapped" if text else "dropped"
        if text:
            entry = self._said[version] = Entry("user", None, version)
            others = (part for part in parts if not isinstance(part, Text))
            entry.misplaced_result = (Text(orphan_text(event.call_id, text)), *others)
            self._entries.add(entry)
        self._add_repair(what, "transition", str(error), event.call_id, version)

    def forget_repairs(self, rules: Collection[str]) -> None:
        """Leave out the repairs that are made by these rules: the caller names them itself."""
        self.repairs = [repair for repair in self.repairs if repair.rule not in rules]

    def _add_repair(
        self, what: str, rule: str, why: str, call_id: str | None, version: int
    ) -> None:
        self.repairs.append(Repair(what, rule, why, call_id, (version,)))

    def view(  # noqa: PLR0913 - each with a default
        self,
        *,
        open_calls: OpenCalls = "answer",
        collapse: Collapse = "earlier",
        result_limits: ResultLimitsByTool | None = None,
        results: Results = "whole",
        last_turns: Marks | None = None,
        max_tokens: Marks | None = None,
        count_tokens: TokenCounter | None = None,
        since: int | None = None,
        pinned: Collection[int] = (),
        summary: str | None = None,
        prefill: bool = False,
        later_system: LaterSystem = "keep",
        model: str | None = None,
        reasoning: Reasoning = "drop",
        server_kept: ServerKept = "keep",
        needs_approval: NeedsApproval | None = None,
    ) -> ModelHistory:
        """Return what the model sees; the options and errors are those of `model_history`."""
        options = HistoryOptions(
            open_calls=open_calls,
            collapse=collapse,
            result_limits=result_limits,
            results=results,
            last_turns=last_turns,
            max_tokens=max_tokens,
            count_tokens=count_tokens,
            since=since,
            pinned=pinned,
            summary=summary,
            prefill=prefill,
            later_system=later_system,
            model=model,
            reasoning=reasoning,
            server_kept=server_kept,
            needs_approval=needs_approval,
        )
        return self.view_with(options)

    def view_with(self, options: HistoryOptions) -> ModelHistory:
        """Return what the model sees; see `view`."""
        return self._view(options, self._kept)

    def last_view(self, options: HistoryOptions) -> ModelHistory:
        """Return what the model sees, and keep nothing of it for a next view; see `view`."""
        return self._view(options, None)

    def _view(self, options: HistoryOptions, kept: KeptView | None) -> ModelHistory:
        trace = self._trace.copy()
        return history_to_show(self._entries, self.repairs, options, trace, kept, self._compactions)


def _came_as_message(event: ToolCompleted | ToolFailed | ToolRejected, turn: Entry) -> bool:
    """Return whether a result came with a provider's messages: no attempt made it here."""
    if event.native is not None:
        return True
    is_recorded = turn.message is not None and turn.message.provider is not None
    return is_recorded and type(event) is ToolCompleted and not (event.attempt or event.synthetic)


_HISTORIES: Final = KeptFolds(History)
