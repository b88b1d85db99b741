"""The fold of the error statistics: how each step of a call is counted.

1. A call is counted when the model asks for it, and again at each step of its life, under its
   tool and under its fingerprint.
2. A step that the call's status does not allow changes no count. It is noted as an anomaly, and
   so is a missing, late or repeated version.
3. A call that completed or was rejected is forgotten. Of a failed call only its tool, its last
   error kind and its attempts are kept: a retry or a late answer may follow.
4. What a person says of a call in doubt is counted apart, as a settlement: the tool did not fail.
5. After events that were read are redacted, the fingerprints that their conversation asked for are
   forgotten, with the arguments that are shown of them. Other counts hold no content, and stay.
6. What was copied (see `Recorded.is_copy`) is followed and not counted: it is counted in the
   conversation where it happened. A step of a copied call that is no copy counts. `copies` counts
   them all the same, for one conversation by itself.
7. What changes from moment to moment (open, running, terminally failed) is not counted here: see
   `CountedStatus`.

Where the counters are kept, in memory or in tables, is for `Counters` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from eventstore import (
    Recorded,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRenewed,
    ToolRunning,
    UnknownEvent,
    evolve,
)
from eventstore.domain.copies import MARK
from eventstore.domain.lifecycle import TRANSITIONS
from eventstore.domain.settlement import settled_as
from projections.projection import NO_CALL_ID, Anomaly, anomaly, fingerprint_of, version_problem
from projections.redactions import ReadMarkers
from projections.statistics.counters import (
    CountedConversation,
    Counters,
    FingerprintCounter,
    LiveCall,
    Uncounted,
)

MAX_ANOMALIES = 100
"""Anomalies that are kept; all are counted."""


class StatisticsFold:
    """Counts events in `counters`; `events`, copied calls and the anomalies it counts itself."""

    def __init__(self, counters: Counters, *, copies: bool = False) -> None:
        self._counters = counters
        self._counts_copies = copies
        self._uncounted = Uncounted()
        self.events = 0
        self.copied_calls = 0
        self.anomaly_count = 0
        self.anomalies: list[Anomaly] = []
        self._markers = ReadMarkers()

    def extend(self, events: Iterable[Recorded]) -> None:  # noqa: C901 - see below
        """Take in events, each conversation in its order."""
        # Every event of a log goes through this loop: it makes no call that it can do without.
        conversations, steps = self._counters.conversations, self._steps
        for recorded in events:
            self.events += 1
            version = recorded.version
            chat = conversations[recorded.conversation_id]
            if version == chat.version + 1 or not chat.version:
                chat.version = version
            else:
                self._note(recorded, version_problem(recorded, chat.version))
                if version <= chat.version:
                    continue
                chat.version = version
            event: Any = recorded.event
            if recorded.redacted is not None:
                self._markers.take(recorded)
            if type(event) is UnknownEvent:
                self._note(recorded, event.problem)
                continue
            tag = event.tag  # of a whole event, or of its header
            if tag == "pending":
                self._count_request(chat, recorded, event)
            elif tag in steps:
                step, allowed_after = steps[tag]
                call = chat.calls.get(event.call_id) or chat.resume(event.call_id)
                if call is not None and call.status in allowed_after:
                    if call.copied and not recorded.is_copy:
                        self._begin_to_count(call, recorded)
                    step(self, chat, call, recorded, event)
                else:
                    self._note_illegal(recorded, event, call)
            elif tag == "redacted" and self._markers.gone(recorded):
                self._counters.forget(recorded.conversation_id)

    def _note(self, recorded: Recorded, problem: str | None) -> None:
        if problem is None:
            return
        self.anomaly_count += 1
        if len(self.anomalies) < MAX_ANOMALIES:
            self.anomalies.append(anomaly(recorded, problem))

    def _note_illegal(self, recorded: Recorded, event: Any, call: LiveCall | None) -> None:
        """Note why a step cannot follow; a repetition of the last step is not an anomaly."""
        try:
            evolve(call.tool() if call else None, event)
        except Exception as error:  # noqa: BLE001 - IllegalTransition, or a value that is not JSON
            self._note(recorded, str(error))

    # the life of a call

    def _count_request(
        self, chat: CountedConversation, recorded: Recorded, event: ToolPending
    ) -> None:
        asked = event.call
        call_id = asked.id
        if not call_id:
            self._note(recorded, NO_CALL_ID)
            return
        if call := chat.calls.get(call_id) or chat.resume(call_id):
            self._note_illegal(recorded, event, call)
            return
        at = recorded.time
        copied = recorded.event_id[:6] == MARK and recorded.is_copy and not self._counts_copies
        tool = self._uncounted[asked.name] if copied else self._counters.tool(asked.name, at)
        fingerprint = self._counters.fingerprint(
            recorded.fingerprint or fingerprint_of(recorded, asked), asked.name
        )
        is_repeated = fingerprint.number and chat.note_request(fingerprint)
        if copied:
            self.copied_calls += 1
            fingerprint = FingerprintCounter(tool=asked.name)
        chat.calls[call_id] = LiveCall(
            call_id,
            asked,
            at,
            imported=event.imported,
            copied=copied,
            tool_counter=tool,
            fingerprint_counter=fingerprint,
            asked_at=at,
        )
        if fingerprint.calls:
            fingerprint.describe(asked)
        tool.calls += 1
        fingerprint.calls += 1
        if is_repeated:
            tool.repeated += 1
            fingerprint.repeated += 1

    def _begin_to_count(self, call: LiveCall, recorded: Recorded) -> None:
        """Count a copied call from now on: what happened to it before is counted elsewhere.

        A doubt that it still has is counted, as its end will be.
        """
        name, lost = call.asked.name, call.lost if call.in_doubt else 0
        call.copied, call.lost, call.asked_at = False, 0, recorded.time
        call.tool_counter = self._counters.tool(name, recorded.time)
        call.fingerprint_counter = self._counters.fingerprint(recorded.fingerprint, name)
        call.count_lost(lost)

    def _count_approval(
        self, chat: CountedConversation, call: LiveCall, recorded: Recorded, event: ToolApproved
    ) -> None:
        at = recorded.time
        call.tool_counter.waiting.add(at - call.since)
        call.status, call.since = "Approved", at
        call.approval_expires = event.expires_at is not None
        if event.edited_call is not None:
            call.edit = event.edited_call
            fingerprint = fingerprint_of(recorded, call.edit)
            counter = self._counters.fingerprint(fingerprint, call.edit.name)
            if counter.number:
                chat.note_edit(counter)
            if not call.copied:
                call.fingerprint_counter = counter

    def _count_rejection(
        self, chat: CountedConversation, call: LiveCall, recorded: Recorded, event: ToolRejected
    ) -> None:
        if event.source == "human" and call.status == "Pending":
            call.tool_counter.waiting.add(recorded.time - call.since)
        call.fingerprint_counter.describe(call.edit or call.asked)
        for counter in call.counters:
            counter.rejected(event.source)
        del chat.calls[call.id]

    def _count_start(
        self, _: CountedConversation, call: LiveCall, recorded: Recorded, event: ToolRunning
    ) -> None:
        attempt = call.attempts + 1
        if event.attempt != attempt:
            self._note_illegal(recorded, event, call)
            return
        at, tool, fingerprint = recorded.time, call.tool_counter, call.fingerprint_counter
        tool.attempts += 1
        fingerprint.attempts += 1
        follows_failure = call.status == "Failed" or call.retry_announced
        if follows_failure and call.kind is not None:
            call.tool_counter.kind(call.kind).retried += 1
        elif call.status == "Running":  # the end of the last attempt was never recorded
            call.count_first_try_failure()
            call.count_lost(1)
        elif attempt == 1:
            tool.queueing.add(at - call.since)
        if attempt > 1 and (follows_failure or call.status == "Running"):
            tool.retries += 1
            fingerprint.retries += 1
        call.status, call.since, call.attempts = "Running", at, attempt
        call.runs_again = call.retry_announced = False

    def _count_renewal(
        self, _: CountedConversation, call: LiveCall, recorded: Recorded, event: ToolRenewed
    ) -> None:
        if event.attempt != call.attempts:
            self._note_illegal(recorded, event, call)

    def _count_pause(
        self, _: CountedConversation, call: LiveCall, recorded: Recorded, event: ToolPaused
    ) -> None:
        is_running = call.status == "Running"
        may_not_pause = call.status == "Failed" and not call.tool().retries_on_approval
        if may_not_pause or event.attempt != (call.attempts if is_running else 0):
            self._note_illegal(recorded, event, call)
            return
        if is_running:
            for counter in call.counters:
                counter.pauses += 1
        call.status, call.since = "Pending", recorded.time
        if event.until is None:
            call.approval_expires = False

    def _count_completion(
        self, chat: CountedConversation, call: LiveCall, recorded: Recorded, event: ToolCompleted
    ) -> None:
        tool, fingerprint = call.tool_counter, call.fingerprint_counter
        settled = self._count_settlement(call, event)
        tool.completions += 1
        fingerprint.completions += 1
        if not settled:
            self._record_duration(call, recorded, event.duration)
            if call.first_try_failed:
                self._count_recovery(call)
        if call.first_try_failed or event.synthetic or event.lossy:
            for counter in call.counters:
                counter.not_first_try += call.first_try_failed or event.synthetic
                counter.synthetic += event.synthetic and not settled
                counter.lossy += event.lossy
        del chat.calls[call.id]

    def _count_recovery(self, call: LiveCall) -> None:
        """Count a call that completed after all: in a later attempt, or by a late answer."""
        if call.status != "Failed":
            if call.kind is not None:
                call.tool_counter.kind(call.kind).recovered += 1
            for counter in call.counters:
                counter.recovered += 1
        elif call.in_doubt:
            call.count_lost(-1)  # its outcome is known now

    def _count_failure(
        self, _: CountedConversation, call: LiveCall, recorded: Recorded, event: ToolFailed
    ) -> None:
        if call.status == "Failed":
            self._count_end_of_doubt(call, recorded, event)
            return
        call.count_first_try_failure()
        call.fingerprint_counter.describe(call.edit or call.asked)
        if self._count_settlement(call, event):
            call.kind = None
        else:
            self._record_duration(call, recorded, event.duration)
            call.kind = kind = event.failure.kind
            call.in_doubt = event.failure.leaves_doubt
            call.tool_counter.kind(kind).failed(call.asked.name)
            call.count_lost(int(call.in_doubt))
            for counter in call.counters:
                counter.failed(kind)
                counter.not_applicable += event.failure.is_not_applicable
        # The call may stay failed for good: keep what a retry or a late answer needs, and no more.
        call.status, call.asked, call.edit = "Failed", call.tool_counter.name_only, None
        call.retry_announced = event.delay is not None

    def _count_end_of_doubt(self, call: LiveCall, recorded: Recorded, event: ToolFailed) -> None:
        """Count a failed call whose outcome is known now: nothing took effect."""
        if not (call.lost and event.failure.in_doubt is False):
            self._note_illegal(recorded, event, call)
            return
        if not self._count_settlement(call, event):
            self._end_doubt(call)

    def _count_settlement(self, call: LiveCall, event: ToolCompleted | ToolFailed) -> bool:
        """Count what a person said of a call in doubt; return whether one did."""
        outcome = settled_as(event, has_begun=call.has_begun)
        if outcome is None:
            return False
        self._end_doubt(call)
        call.runs_again = outcome == "run_again"
        for counter in call.counters:
            counter.settled(outcome)
        return True

    def _end_doubt(self, call: LiveCall) -> None:
        """Count no attempt as lost any more: what became of the call is known now."""
        call.in_doubt = False
        call.count_lost(-call.lost)

    def _record_duration(self, call: LiveCall, recorded: Recorded, duration: int | None) -> None:
        """Record how long an attempt took: as measured, otherwise by the times in the log."""
        if duration is not None:
            call.tool_counter.took.add(duration)
        elif call.status == "Running":
            call.tool_counter.took.add(recorded.time - call.since)

    _steps: ClassVar[dict[str, tuple[Callable[..., None], tuple[str, ...]]]] = {
        "approved": (_count_approval, TRANSITIONS["approved"]),
        "rejected": (_count_rejection, TRANSITIONS["rejected"]),
        "running": (_count_start, TRANSITIONS["running"]),
        "renewed": (_count_renewal, TRANSITIONS["renewed"]),
        "paused": (_count_pause, TRANSITIONS["paused"]),
        "completed": (_count_completion, TRANSITIONS["completed"]),
        "failed": (_count_failure, TRANSITIONS["failed"]),
    }
    """For each step, how it is counted, and the statuses that it may follow."""
