"""`DispatcherSetup`: what both dispatchers are made of."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from eventstore.attempt import Pauses
from eventstore.dispatch.after_hooks import AfterHook
from eventstore.dispatch.call_log import CallLog
from eventstore.dispatch.failures import ModelText, Redact
from eventstore.dispatch.function_tool import Tools, registry
from eventstore.dispatch.options import DispatcherOptions, GateContext, Hook, Sleep
from eventstore.dispatch.resume import ResumeWorkflow
from eventstore.dispatch.threads import resolve_awaitable
from eventstore.dispatch.workflow import DispatchWorkflow
from eventstore.domain.equal_calls import EqualCalls
from eventstore.domain.leases import DEFAULT_LEASE_SECONDS, Lease, lease_in_microseconds
from eventstore.domain.tool import Tool
from eventstore.policies.gates import AsyncToolGate, DenialPolicy, OnAllEmpty, ToolGateContext
from eventstore.policies.retry import DefaultRetryClassifier, RetryClassifier
from eventstore.policies.termination import ToolErrorPolicy

if TYPE_CHECKING:
    from eventstore.conversation import Conversation
    from eventstore.session import LogSession

C = TypeVar("C")
G = TypeVar("G", bound=AsyncToolGate)


class DispatcherSetup(Generic[C, G]):
    """The conversation, the tools, the options and the workflows of a dispatcher.

    `C` is the type of its conversation, `G` that of its gates.
    """

    _awaits_gates: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913 - each with a default
        self,
        conversation: C,
        tools: Tools,
        *,
        gates: Sequence[G] = (),
        hooks: Sequence[Hook] = (),
        after_hooks: Sequence[AfterHook] = (),
        approver: Hook | None = None,
        pauses: Pauses = (),
        policy: ToolErrorPolicy | None = None,
        model_text: ModelText = "raw",
        tracebacks: bool = False,
        redact: Redact | None = None,
        retry_classifier: RetryClassifier | None = None,
        equal_calls: EqualCalls = "refuse",
        lease: Lease = DEFAULT_LEASE_SECONDS,
        max_calls_per_turn: int | None = None,
        max_parallel: int = 10,
        on_all_empty: OnAllEmpty = "open",
        denial: DenialPolicy | None = None,
        gate_context: GateContext | None = None,
        clock: Callable[[], int] | None = None,
        chance: Callable[[], float] = random.random,
        sleep: Sleep | None = None,
    ) -> None:
        self._conversation = conversation
        self._blocking, session = self._log_of(conversation)
        self._tools = registry(tools)
        self._options = DispatcherOptions(
            gates=gates,
            awaits_gates=self._awaits_gates,
            hooks=hooks,
            after_hooks=after_hooks,
            approver=approver,
            pauses=pauses,
            policy=policy or ToolErrorPolicy.new(),
            model_text=model_text,
            tracebacks=tracebacks,
            redact=redact,
            retry_classifier=retry_classifier or DefaultRetryClassifier(),
            equal_calls=equal_calls,
            lease=lease_in_microseconds(lease),
            max_calls_per_turn=max_calls_per_turn,
            max_parallel=max_parallel,
            on_all_empty=on_all_empty,
            denial=denial,
            gate_context=gate_context or ToolGateContext.after,
            clock=clock or session.clock,
            chance=chance,
            sleep=sleep,
            resolve=resolve_awaitable,
        )
        log = CallLog(session, self._blocking.id)
        self._workflow = DispatchWorkflow(self._blocking, log, self._tools, self._options)
        self._resume_workflow = ResumeWorkflow(self._workflow)

    def _log_of(self, conversation: C) -> tuple[Conversation, LogSession]:
        """Return the blocking conversation to read, and the session of its log.

        Raises:
            TypeError: it is not a conversation of the kind that the driver takes.
            EventStoreError: it is inside a host's transaction.
        """
        raise NotImplementedError

    @property
    def conversation(self) -> C:
        """Conversation whose calls are dispatched."""
        return self._conversation

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the tools, in the order in which they were passed."""
        return tuple(self._tools)

    def ends_run(self, tools: Iterable[Tool]) -> bool:
        """Return whether the calls of a turn let the run end.

        Calls whose tool has `ends_run=None` do not vote. Of the others all must vote for the end,
        and there must be at least one. Only a completed call votes for it; a call of an unknown
        tool votes against.
        """
        votes = [
            definition.ends_run and tool.response is not None if definition else False
            for tool in tools
            if (definition := self._tools.get(tool.call.name)) is None
            or definition.ends_run is not None
        ]
        return bool(votes) and all(votes)
