"""What a dispatcher does with the calls of a turn, step by step, without doing any of it.

A procedure is a generator of effects (see `effect`). A driver performs each and sends back what
came of it, so that one procedure serves threads and asyncio alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

import msgspec

from eventstore.conversation import Attempt, Conversation
from eventstore.dispatch import settings
from eventstore.dispatch.decision import (
    Approve,
    Decision,
    Reject,
    Skip,
    Terminate,
    decision_of,
    outcome_of,
)
from eventstore.dispatch.effect import Ask, Ran, Read, Run, Steps, Together, Wait, Write
from eventstore.dispatch.function_tool import Classify, FunctionTool, Tools, registry
from eventstore.dispatch.resumption import Resumption
from eventstore.dispatch.turn import Call, Stop, Turn, name_of, over_limit, preflight
from eventstore.errors import EventStoreError, IllegalTransition, UnknownCall
from eventstore.events import Recorded, RunEnded
from eventstore.failure import ErrorKind, Failure
from eventstore.gate import (
    DenialPolicy,
    GateDecision,
    OnAllEmpty,
    ToolGate,
    ToolGateContext,
    compose_gates,
)
from eventstore.policy import ToolErrorPolicy, ToolErrorTerminal
from eventstore.recovery import outcome_unknown, unknown_outcome
from eventstore.retry import DefaultRetryClassifier, RetryClass, RetryClassifier
from eventstore.store import system_clock
from eventstore.tool import Failed, Pending, Running, Tool

if TYPE_CHECKING:
    from collections.abc import Mapping

MAY_HAVE_TAKEN_EFFECT = "This call may have taken effect: check before running it again."

Hook = Callable[[Tool], Any]
GateContext = Callable[[Iterable[Recorded], Sequence[str]], ToolGateContext]
Chat = TypeVar("Chat")


class Procedure(Generic[Chat]):
    """The settings of a dispatcher (see `Dispatcher`), and its procedures."""

    def __init__(  # noqa: PLR0913 - each with a default
        self,
        conversation: Chat,
        tools: Tools,
        *,
        gates: Sequence[ToolGate] = (),
        hooks: Sequence[Hook] = (),
        approver: Callable[[Tool], Any] | None = None,
        policy: ToolErrorPolicy | None = None,
        retry_classifier: RetryClassifier | None = None,
        max_calls_per_turn: int | None = None,
        max_parallel: int = 10,
        on_all_empty: OnAllEmpty = "open",
        denial: DenialPolicy | None = None,
        gate_context: GateContext | None = None,
        clock: Callable[[], int] = system_clock,
        chance: Callable[[], float] = random.random,
        sleep: Callable[[float], Any] | None = None,
    ) -> None:
        self._given = conversation
        # What is read, and what is written to: what its verbs give, the driver knows.
        self._chat, self._verbs = self._log_of(conversation)
        self._tools = registry(tools)
        self._names = tuple(self._tools)
        self._gates = settings.each(
            "gates", gates, settings.has("allowlist"), "pass a ToolGate, or what has its allowlist"
        )
        self._hooks = settings.each("hooks", hooks, callable, "pass a function of the Tool")
        self._approver = approver
        if approver is not None:
            settings.one("approver", approver, callable, "pass a function of the Tool, or None")
        self._policy = settings.one(
            "policy", policy or ToolErrorPolicy.new(),
            lambda given: isinstance(given, ToolErrorPolicy), "pass a ToolErrorPolicy",
        )  # fmt: skip
        self._retry_classifier = settings.one(
            "retry_classifier", retry_classifier or DefaultRetryClassifier(),
            settings.has("classify"), "pass a RetryClassifier",
        )  # fmt: skip
        self._most = settings.at_least("max_calls_per_turn", max_calls_per_turn, 0)
        self._max_parallel = settings.at_least("max_parallel", max_parallel, 1) or 1
        self._on_all_empty = settings.one(
            "on_all_empty", on_all_empty, get_args(OnAllEmpty).__contains__, "pass 'open' or 'deny'"
        )
        self._denial = denial
        if denial is not None:
            remedy = "pass a function of the tool's name and the GateDecision, or None"
            settings.one("denial", denial, callable, remedy)
        self._gate_context = gate_context or ToolGateContext.after
        self._clock = clock
        self._chance = chance
        self._sleep = sleep
        self._offer: GateDecision | None = None
        self._offer_turn: int | None = None

    @property
    def conversation(self) -> Chat:
        """The conversation whose calls are dispatched."""
        return self._given

    def _log_of(self, given: Any) -> tuple[Conversation, Any]:
        remedy = (
            "pass store.conversation(id) of an EventStore; AsyncDispatcher takes those of an "
            "AsyncEventStore"
        )
        settings.one("conversation", given, lambda one: isinstance(one, Conversation), remedy)
        if not given.durable:
            raise EventStoreError(
                "a dispatcher's steps must be on disk before they happen, and not wait for a "
                f"host's commit: pass store.conversation({given.id!r}), without a connection"
            )
        return given, given

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools by name, in the order they were given."""
        return self._names

    def ends_run(self, tools: Iterable[Tool]) -> bool:
        """Whether all of a turn's calls that have a say (`ends_run`) let the run end.

        Only a completed call can; one of an unknown tool has a say, and does not.
        """
        votes = [
            spec.ends_run and tool.response is not None if spec else False
            for tool in tools
            if (spec := self._tools.get(tool.call.name)) is None or spec.ends_run is not None
        ]
        return bool(votes) and all(votes)

    # which tools the model sees

    def _offering(self, context: ToolGateContext | None) -> Steps[GateDecision]:
        if context is None:
            context = yield Read(lambda: self._gate_context(self._chat.events(), self._names))
        decision = yield from self._gating(context)
        self._offer, self._offer_turn = decision, None
        return decision

    def _gating(self, context: ToolGateContext) -> Steps[GateDecision]:
        decision = compose_gates(self._gates, context, on_all_empty=self._on_all_empty)
        yield Write(partial(self._verbs.append, decision.offered))
        return decision

    def _seen_in(
        self, number: int, offered: dict[int, GateDecision] | None
    ) -> Steps[GateDecision | None]:
        """What the gates let the model see when it made the calls of a turn.

        `offered` is what the log says of that, after a crash.
        """
        if self._offer is not None and offered is None and self._offer_turn is None:
            self._offer_turn = number
        if self._offer is not None and self._offer_turn == number:
            return self._offer
        if offered and number in offered:
            return offered[number]
        if not self._gates:
            return None
        context = yield Read(lambda: self._gate_context(self._before(number), self._names))
        decision = yield from self._gating(context)
        if offered is None:
            self._offer, self._offer_turn = decision, number
        else:
            offered[number] = decision
        return decision

    def _before(self, number: int) -> list[Recorded]:
        """The events before an assistant turn."""
        events: list[Recorded] = []
        for recorded in self._chat.events():
            if getattr(recorded.event, "turn", None) == number:
                break
            events.append(recorded)
        return events

    # the calls of a turn

    def _turn(self, tools: Iterable[Tool | str], stopping: Any) -> Turn:
        given = list(tools)
        if not all(isinstance(tool, Tool | str) for tool in given):
            raise TypeError("dispatch() takes the Tools that record() or request() gave, or ids")
        return Turn(given, stopping)

    def _look_up(self, turn: Turn) -> Steps[None]:
        """Find the calls that were given by their ids."""
        known: Mapping[str, Tool] = {}
        if any(isinstance(tool, str) for tool in turn.given):
            known = yield Read(lambda: self._chat.tools)
        for tool in turn.given:
            if isinstance(tool, str) and tool not in known:
                raise UnknownCall(tool, self._chat.id)
        turn.calls = self._calls(turn, known)

    def _calls(self, turn: Turn, known: Mapping[str, Tool]) -> list[Call]:
        found = (known.get(tool) if isinstance(tool, str) else tool for tool in turn.given)
        return [self._call(tool) for tool in found if tool is not None]

    def _call(self, tool: Tool) -> Call:
        return Call(tool, self._tools.get(tool.call.name))

    def _dispatching(self, turn: Turn) -> Steps[list[Tool]]:
        """The calls that have not started, from there to their end; others stay as they are."""
        yield from self._look_up(turn)
        refusals = yield from self._refusals(turn.calls)
        for batch in turn.batches():
            if len(batch) == 1 and batch[0].has_not_started and self._is_free(batch[0], refusals):
                yield from self._execute(turn, batch[0])
            else:
                yield from self._together(turn, [c for c in batch if c.has_not_started], refusals)
        return (yield from self._ended(turn))

    def _together(
        self, turn: Turn, batch: Sequence[Call], refusals: Mapping[str, Failure | Reject]
    ) -> Steps[None]:
        ready: list[Call] = []
        for call in batch:
            if turn.stop is not None:
                break
            if self._is_free(call, refusals) or (yield from self._prepare(turn, call, refusals)):
                ready.append(call)
        if len(ready) == 1:
            yield from self._execute(turn, ready[0])
        elif ready:
            yield Together(turn, [self._execute(turn, call) for call in ready])

    def _ended(self, turn: Turn) -> Steps[list[Tool]]:
        if turn.stop is not None:
            yield from self._refuse_rest(turn, turn.stop)
            if turn.stop.error is not None:
                if isinstance(turn.stop.error, ToolErrorTerminal):
                    yield from self._end_run(turn, turn.stop.error)
                raise turn.stop.error
        if turn.unverified:
            raise turn.unverified[0]
        return [call.tool for call in turn.calls]

    def _end_run(self, turn: Turn, error: ToolErrorTerminal) -> Steps[None]:
        # a hook ended the run before the call was closed
        error.tool = next(c.tool for c in turn.calls if c.tool.id == error.tool.id)
        ended = RunEnded("terminated", error.failure)
        try:
            yield Write(partial(self._verbs.append, ended))
        except EventStoreError as unrecorded:
            error.add_note(f"the end of the run was not recorded: {unrecorded}")

    def _refusals(
        self,
        calls: Sequence[Call],
        resumption: Resumption | None = None,
    ) -> Steps[dict[str, Failure | Reject]]:
        """Why calls that have not started cannot, by id."""
        offered = resumption.offered if resumption else None
        refusals: dict[str, Failure | Reject] = {}
        fit: dict[int, list[Call]] = {}
        seen: dict[int, GateDecision | None] = {}
        for call in calls:
            if call.waits or not call.has_not_started:
                continue
            number = call.tool.turn
            if number not in seen:
                seen[number] = yield from self._seen_in(number, offered)
                fit[number] = []
            refusal = preflight(call, seen[number], self._gates, self._names, self._denial)
            if refusal is not None:
                refusals[call.tool.id] = refusal
            else:
                fit[number].append(call)
        if self._most is not None:
            for number, some in fit.items():
                spent = resumption.spent[number] if resumption else 0
                refusals |= over_limit(self._most, some, spent)
        return refusals

    # one call, before it starts

    def _is_free(self, call: Call, refusals: Mapping[str, Failure | Reject]) -> bool:
        """Whether nobody has to be asked: most calls, and it saves them the asking."""
        spec, tool = call.spec, call.tool
        if spec is None or self._hooks or tool.id in refusals or tool.edit is not None:
            return False
        return spec.needs_approval is False

    def _prepare(
        self, turn: Turn, call: Call, refusals: Mapping[str, Failure | Reject]
    ) -> Steps[bool]:
        """Whether the call may start now; else it has its answer, or waits for a person."""
        refusal = refusals.get(call.tool.id)
        if isinstance(refusal, Failure):
            yield from self._fail_unstarted(turn, call, refusal)
            return False
        if refusal is not None:
            yield from self._reject(call, refusal)
            return False
        assert call.spec is not None  # noqa: S101 - preflight fails calls of unknown tools
        for hook in self._hooks:
            decision = decision_of((yield Ask(hook, call.tool, outside=False)), name_of(hook))
            if decision is not None:
                if not (yield from self._settle(turn, call, decision, name_of(hook), "hook")):
                    return False
                break
        if type(call.tool.status) is Pending and call.spec.needs_approval_for(call.tool):
            # Somebody may have decided since the call was recorded; nobody is asked twice.
            call.tool = yield from self._current(call)
            if type(call.tool.status) is Pending and not (yield from self._approval(turn, call)):
                return False
        if call.tool.edit is not None and (failure := call.spec.invalid(call.tool.edit)):
            yield from self._fail_unstarted(turn, call, failure)
        return call.has_not_started

    def _approval(self, turn: Turn, call: Call) -> Steps[bool]:
        if self._approver is None:
            call.waits = True
            return False
        decision = decision_of((yield Ask(self._approver, call.tool, outside=True)), "the approver")
        if decision is None:
            call.waits = True
            return False
        who = name_of(self._approver)
        return (yield from self._settle(turn, call, decision, who, "human"))

    def _settle(
        self, turn: Turn, call: Call, decision: Decision, who: str, source: str
    ) -> Steps[bool]:
        """Record a decision; whether the call may start."""
        chat, tool = self._verbs, call.tool
        if isinstance(decision, Approve):
            if type(tool.status) is not Pending:
                return True  # a person has approved it
            by = decision.by or (who if source == "hook" else None)
            approve = partial(chat.approve, tool.id, decision.edited_arguments, by, decision.reason)
            return (yield from self._write(call, approve)) or call.has_not_started
        if isinstance(decision, Skip):
            answer = partial(chat.complete, tool.id, decision.output, synthetic=True)
            yield from self._write(call, answer)
            return False
        if isinstance(decision, Terminate):
            failure = Failure(ErrorKind.PERMANENT, decision.reason, code="terminated")
            stop = Stop.terminated(decision.reason, who, ToolErrorTerminal(failure, tool))
            turn.halt(stop)
            return False
        by = decision.by or (who if source == "hook" else None)
        changes = {"by": by, "source": decision.source or source}
        yield from self._reject(call, msgspec.structs.replace(decision, **changes))
        return False

    def _reject(self, call: Call, refusal: Reject) -> Steps[None]:
        source = refusal.source or "human"
        verb = partial(
            self._verbs.reject, call.tool.id, refusal.reason, source, refusal.by, refusal.details
        )
        yield from self._write(call, verb)

    def _fail_unstarted(self, turn: Turn, call: Call, failure: Failure) -> Steps[None]:
        if (yield from self._fail(call, failure)):
            self._judge(turn, call, failure)

    # one call, from its start to its end

    def _execute(self, turn: Turn, call: Call) -> Steps[None]:
        """Attempt after attempt, each recorded before and after, until one settles the call."""
        spec = call.spec
        assert spec is not None  # noqa: S101 - calls of unknown tools never get here
        while turn.stop is None:
            call.began = call.tool.attempts + 1
            try:
                call.tool = yield Write(partial(self._verbs.start, call.tool.id, call.began))
            except IllegalTransition:  # another worker has it, or somebody has decided otherwise
                call.began = None
                call.tool = yield from self._current(call)
                return
            attempt = Attempt(self._verbs, call.tool)
            late = partial(_complete_late, Attempt(self._chat, call.tool))
            first = (call.tool,) if spec.takes_tool else ()
            function = partial(spec.function, *first, **attempt.arguments)
            ran: Ran = yield Run(spec, function, late)
            if ran.error is None and type(ran.result) is not Failure:
                yield from self._write(call, partial(attempt.complete, ran.result))
                return
            failure = self._failure(spec, ran)
            delay = self._delay(turn, call, ran, failure)
            yield from self._record_failure(call, ran, partial(attempt.fail, failure, delay=delay))
            if ran.error is not None and ran.ends_run:
                if turn.stop is not None and turn.stop.aborts:
                    return  # a sibling ended the turn, and this call with it
                raise ran.error
            if delay is None and outcome_unknown(failure) and turn.stop is None:
                delay = yield from self._delay_once_verified(turn, call, failure)
            if delay is None:
                self._judge(turn, call, failure)
                return
            yield Wait(turn, delay)

    def _record_failure(self, call: Call, ran: Ran, verb: Callable[[], Tool]) -> Steps[None]:
        try:
            yield from self._write(call, verb)
        except EventStoreError as unrecorded:
            if not ran.ends_run or ran.error is None:
                raise
            ran.error.add_note(
                f"the failure of call {call.tool.id!r} was not recorded: {unrecorded}"
            )
            raise ran.error from None

    def _failure(self, spec: FunctionTool, ran: Ran) -> Failure:
        error = ran.error
        if error is None or type(ran.result) is Failure:
            given: Failure = ran.result  # what a tool gave in place of raising
            return given
        given = Failure.from_exception(error)
        if spec.classify is not None:
            given = _classified(spec.classify, error, given)
        code = unknown_outcome(error)
        if code is None:
            return given
        told = given.model_message or f"{given.message}. {MAY_HAVE_TAKEN_EFFECT}"
        return msgspec.structs.replace(given, code=code, model_message=told)

    def _delay(self, turn: Turn, call: Call, ran: Ran, failure: Failure) -> float | None:
        """The seconds to wait before the next attempt; None where none may follow (yet)."""
        spec = call.spec
        if spec is None or spec.retry is None or ran.ends_run or turn.stop is not None:
            return None
        if outcome_unknown(failure) and not spec.idempotent:
            return None
        judged = failure.kind if ran.error is None or spec.classify else ran.error
        if self._retry_classifier.classify(judged) is not RetryClass.TRANSIENT:
            return None
        return spec.retry.delay(call.tool.attempts, failure.retry_after, self._chance())

    def _delay_once_verified(self, turn: Turn, call: Call, failure: Failure) -> Steps[float | None]:
        """The same for an attempt of unknown outcome, where the outside system is asked first."""
        spec = call.spec
        if spec is None or spec.verify is None or spec.idempotent:
            return None
        if not (yield from self._verify(turn, call, spec)) or spec.retry is None:
            return None
        return spec.retry.delay(call.tool.attempts, failure.retry_after, self._chance())

    def _judge(self, turn: Turn, call: Call, failure: Failure) -> None:
        """Whether a failure that has settled ends the run, or the turn."""
        if type(call.tool.status) is not Failed:
            return  # the outside system knew better
        if self._policy.classifies_terminal(failure.kind):
            turn.halt(Stop.failed(call, ToolErrorTerminal(failure, call.tool)))
        elif call.spec is not None and call.spec.abort_siblings:
            turn.halt(Stop.failed(call))

    # after a crash

    def _resumption(self, stopping: Any) -> Steps[tuple[Turn, Resumption]]:
        resumption: Resumption = yield Read(lambda: Resumption(self._chat.events(), self._tools))
        turn = Turn(resumption.open, stopping)
        turn.calls = self._calls(turn, {})
        for call in turn.calls:
            # It may have taken effect elsewhere: that it cannot start is not for us to say.
            call.waits = call.has_not_started and call.tool.id in resumption.doubtful
        return turn, resumption

    def _resuming(self, turn: Turn, resumption: Resumption) -> Steps[list[Tool]]:
        """The open calls, as far as it is safe: see `resume_plan`."""
        refusals = yield from self._refusals(turn.calls, resumption)
        for batch in turn.batches():
            fresh = [call for call in batch if call.has_not_started and not call.waits]
            yield from self._together(turn, fresh, refusals)
            for call in batch:
                if turn.stop is None and call.tool.id in resumption.started:
                    yield from self._continue(turn, call, resumption)
        return (yield from self._ended(turn))

    def _continue(self, turn: Turn, call: Call, resumption: Resumption) -> Steps[None]:
        spec, call_id = call.spec, call.tool.id
        if spec is None:
            return  # a tool that this process does not have: whoever has it goes on
        if call_id in resumption.doubtful:
            may_run = spec.idempotent and not _is_used_up(spec, call.tool)
            if not may_run and not (yield from self._verify(turn, call, spec)):
                return
        elif due := resumption.due.get(call_id):
            seconds = max(0, due - self._clock()) / 1_000_000
            # a clock that was set back is no reason to wait for longer than was announced
            yield Wait(turn, min(seconds, spec.retry.max_backoff) if spec.retry else seconds)
        if spec.invalid(call.tool.effective_call) is None:
            yield from self._execute(turn, call)

    def _verify(self, turn: Turn, call: Call, spec: FunctionTool) -> Steps[bool]:
        """Ask the outside system and record what it says; whether the call may be run again."""
        if spec.verify is None:
            return False
        try:
            given = yield Ask(spec.verify, call.tool, outside=True)
            outcome = outcome_of(given, spec.name)
        except Exception as error:  # noqa: BLE001 - the call stays open; the others go on
            turn.unverified.append(error)
            return False
        chat, call_id = self._verbs, call.tool.id
        if outcome.found == "done":
            yield from self._write(call, partial(chat.complete, call_id, outcome.result))
        elif outcome.found == "failed" and type(call.tool.status) is Running:
            yield from self._fail(call, outcome.failure)
        return outcome.found == "not_done"

    # closing

    def _closing(self, turn: Turn, error: BaseException) -> Steps[None]:
        """Close what an error has left: nothing more starts, and the log says how things stand.

        Where the host or the store failed, calls that have not started stay open: they can be
        dispatched again. Where the run was cut short, they are rejected.
        """
        is_known = turn.stop is not None and error is turn.stop.error
        turn.halt(Stop.cancelled())
        if is_known or isinstance(error, Exception):
            return
        tools = yield Read(lambda: self._chat.tools)
        turn.calls = turn.calls or self._calls(turn, tools)  # cut short before they were looked up
        for call in turn.calls:
            call.tool = tools.get(call.tool.id, call.tool)
        # A start that nobody waited for may yet be carried out: whoever refuses it finds out.
        yield from self._refuse_rest(turn, Stop.cancelled())
        for call in turn.calls:
            status = call.tool.status
            if type(status) is Running and status.attempt == call.began:
                cut = "the run was cut short while it was under way"
                told = f"{cut}. {MAY_HAVE_TAKEN_EFFECT}"
                failure = Failure(ErrorKind.INTERNAL, cut, told, code="interrupted")
                yield from self._fail(call, failure)

    def _refuse_rest(self, turn: Turn, stop: Stop) -> Steps[None]:
        for call in turn.calls:
            if call.has_not_started and not call.waits:
                yield from self._reject(call, stop.refusal)

    # the log

    def _write(self, call: Call, verb: Callable[[], Tool]) -> Steps[bool]:
        """Record a step; False, and the call as it stands, where somebody else was first."""
        try:
            call.tool = yield Write(verb)
        except IllegalTransition:
            call.tool = yield from self._current(call)
            return False
        return True

    def _fail(self, call: Call, failure: Failure) -> Steps[bool]:
        """Record a failure, unless another worker has meanwhile begun the next attempt."""
        verb = partial(
            self._verbs._fail,  # noqa: SLF001 - which attempt it is, as `Attempt` says it
            call.tool.id, failure, None, attempt=call.tool.attempts,
        )  # fmt: skip
        return (yield from self._write(call, verb))

    def _current(self, call: Call) -> Steps[Tool]:
        # Of this one call: to read the whole conversation for each would take its square.
        read = partial(self._chat._appender.tool_now, self._chat.id, call.tool.id)  # noqa: SLF001
        _, tool = yield Read(read)
        return tool  # type: ignore[no-any-return]


def _complete_late(attempt: Attempt, result: Any) -> None:
    """Record what a tool gave after nobody waited any more: it did its work all the same."""
    if type(result) is not Failure and not hasattr(result, "__await__"):
        with suppress(EventStoreError):  # it has its answer by now, or the store is closed
            attempt.complete(result)


def _is_used_up(spec: FunctionTool, tool: Tool) -> bool:
    """Whether the tool has had all the attempts that its policy allows."""
    return spec.retry is not None and tool.attempts >= spec.retry.max_attempts


def _classified(classify: Classify, error: BaseException, given: Failure) -> Failure:
    """The failure as the tool's own `classify` sees it; `given` where that raises."""
    try:
        found = classify(error)
        if isinstance(found, Failure):
            return found
        return msgspec.structs.replace(given, kind=ErrorKind(found))
    except Exception:  # noqa: BLE001 - what went wrong gets recorded, whatever else does
        return given
