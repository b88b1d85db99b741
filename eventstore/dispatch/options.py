"""`DispatcherOptions`: the options of a dispatcher, checked before anything runs."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from eventstore.attempt import Pauses, checked_pauses
from eventstore.clock import system_clock
from eventstore.dispatch.after_hooks import AfterHook
from eventstore.dispatch.failures import ModelText, Redact
from eventstore.domain.arguments import (
    checked,
    checked_each,
    checked_list,
    checked_minimum,
    has_method,
)
from eventstore.domain.equal_calls import EqualCalls, check_equal_calls
from eventstore.domain.events import Recorded
from eventstore.domain.tool import Tool
from eventstore.policies.gate_checks import check_gate, check_sync_gate
from eventstore.policies.gates import AsyncToolGate, DenialPolicy, OnAllEmpty, ToolGateContext
from eventstore.policies.retry import DefaultRetryClassifier, RetryClassifier
from eventstore.policies.termination import ToolErrorPolicy

Hook: TypeAlias = Callable[[Tool], object]
"""Decides on a call; see `Dispatcher`. The answer may be awaitable."""

GateContext: TypeAlias = Callable[[Iterable[Recorded], Sequence[str]], ToolGateContext]
"""Makes the context of the gates from the events and the names of the tools."""

Sleep: TypeAlias = Callable[[float], Awaitable[object] | object]


class DispatcherOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a dispatcher; see `Dispatcher`.

    `awaits_gates`: the gates may be async. `lease` is in microseconds. `resolve` waits for an
    awaitable in a thread.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: a number is below its minimum.
    """

    gates: Sequence[AsyncToolGate] = ()
    awaits_gates: bool = False
    hooks: Sequence[Hook] = ()
    after_hooks: Sequence[AfterHook] = ()
    approver: Hook | None = None
    pauses: Pauses = ()
    policy: ToolErrorPolicy = ToolErrorPolicy()
    model_text: ModelText = "raw"
    tracebacks: bool = False
    redact: Redact | None = None
    retry_classifier: RetryClassifier = msgspec.field(default_factory=DefaultRetryClassifier)
    equal_calls: EqualCalls = "refuse"
    lease: int | None = None
    max_calls_per_turn: int | None = None
    max_parallel: int = 10
    on_all_empty: OnAllEmpty = "open"
    denial: DenialPolicy | None = None
    gate_context: GateContext = ToolGateContext.after
    clock: Callable[[], int] = system_clock
    chance: Callable[[], float] = random.random
    sleep: Sleep | None = None
    resolve: Callable[[Any], Any] = lambda answer: answer

    def __post_init__(self) -> None:
        """Refuse invalid options, and keep copies of the lists."""
        gates = checked_list("gates", self.gates)
        for gate in gates:
            check_gate(gate)
            if not self.awaits_gates:
                check_sync_gate(gate)
        hooks = checked_each("hooks", self.hooks, callable, "pass a function of the Tool")
        force_setattr(self, "gates", gates)
        force_setattr(self, "hooks", hooks)
        remedy = "pass a function of the Tool and its result"
        after_hooks = checked_each("after_hooks", self.after_hooks, callable, remedy)
        force_setattr(self, "after_hooks", after_hooks)
        if self.approver is not None:
            checked("approver", self.approver, callable, "pass a function of the Tool, or None")
        checked_pauses(self.pauses)
        checked("policy", self.policy, _is_policy, "pass a ToolErrorPolicy")
        checked("model_text", self.model_text, _is_model_text, "pass 'raw', 'kind' or a function")
        if self.redact is not None:
            checked("redact", self.redact, callable, "pass a function of the Failure, or None")
        checked(
            "retry_classifier",
            self.retry_classifier,
            has_method("classify"),
            "pass a RetryClassifier",
        )
        check_equal_calls("equal_calls", self.equal_calls)
        if self.max_calls_per_turn is not None:
            checked_minimum("max_calls_per_turn", self.max_calls_per_turn, 0)
        checked_minimum("max_parallel", self.max_parallel, 1)
        checked(
            "on_all_empty",
            self.on_all_empty,
            get_args(OnAllEmpty).__contains__,
            "pass 'open' or 'deny'",
        )
        if self.denial is not None:
            remedy = "pass a function of the tool's name and the GateDecision, or None"
            checked("denial", self.denial, callable, remedy)


def _is_model_text(value: object) -> bool:
    return value in ("raw", "kind") or callable(value)


def _is_policy(value: object) -> bool:
    return isinstance(value, ToolErrorPolicy)
