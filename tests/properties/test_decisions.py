"""The pure decisions: total, deterministic and consistent."""

from __future__ import annotations

import builtins
import copy
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    DefaultRetryClassifier,
    ErrorEnvelope,
    ErrorKind,
    Failure,
    FunctionCall,
    GateClass,
    ProviderError,
    ProviderErrorKind,
    RetryClass,
    ToolGate,
    ToolGateContext,
    ToolsOffered,
    UnhashableArguments,
    classify,
    compose_gates,
)
from projections import HistoryEntry, repair_history

DEFAULT = DefaultRetryClassifier()

# --- gates

NAMES = "abcdef"
tool_sets = st.frozensets(st.sampled_from(NAMES))


class Fixed(ToolGate):
    """A gate with fixed answers."""

    def __init__(
        self, name: str, allow: Any, priority: int, gate_class: Any, suppresses: bool
    ) -> None:
        self.name = name
        self.allow = allow
        self.priority = priority
        self.gate_class = gate_class
        self.suppresses = suppresses

    def allowlist(self, context: ToolGateContext, /) -> Any:
        """Return the given answer."""
        return self.allow

    def suppresses_advisory_gates(self, context: ToolGateContext, /) -> bool:
        """Return the other given answer."""
        return self.suppresses


gates = st.lists(
    st.builds(
        Fixed,
        st.text(min_size=1, max_size=3),
        st.none() | tool_sets,
        st.integers(-2, 2),
        st.sampled_from(GateClass),
        st.booleans(),
    ),
    max_size=6,
    unique_by=lambda gate: gate.name,
)
contexts = st.builds(
    ToolGateContext, st.integers(0, 3), st.just(()), st.none(), st.permutations(NAMES)
)


def expected(asked: list[Fixed], *, deny: bool) -> frozenset[str] | None:
    """Return the result of the written rule, implemented a second time."""
    answered = [gate for gate in asked if gate.allow is not None]
    suppressors = [gate.priority for gate in answered if gate.suppresses]
    if suppressors:
        answered = [
            gate
            for gate in answered
            if gate.gate_class == "required" or gate.priority >= max(suppressors)
        ]
    if not answered:
        return None
    common = set(NAMES)
    for gate in answered:
        common &= gate.allow
    if common:
        return frozenset(common)
    owners = [gate for gate in answered if gate.allow]
    if not owners:
        return frozenset() if deny else None
    owners.sort(key=lambda gate: gate.name)
    owners.sort(key=lambda gate: len(gate.allow))
    owners.sort(key=lambda gate: gate.priority, reverse=True)
    return owners[0].allow  # type: ignore[no-any-return]


@given(gates, contexts, st.booleans())
def test_gates_compose_by_the_written_rule(
    asked: list[Fixed], context: ToolGateContext, deny: bool
) -> None:
    """Every answer is recorded, in the order in which the gates were asked."""
    decision = compose_gates(asked, context, on_all_empty="deny" if deny else "open")
    assert decision.allowed == expected(asked, deny=deny)
    assert [(a.gate, a.allow) for a in decision.answers] == [
        (gate.name, None if gate.allow is None else tuple(sorted(gate.allow))) for gate in asked
    ]
    assert decision.visible == tuple(
        name for name in context.available_tool_names if decision.allows(name)
    )


@given(gates, contexts, st.randoms(use_true_random=False))
def test_gate_composition_depends_only_on_its_inputs(
    asked: list[Fixed], context: ToolGateContext, order: Any
) -> None:
    """Equal inputs give equal decisions; the order of the gates decides nothing."""
    decision = compose_gates(asked, context)
    assert compose_gates(copy.deepcopy(asked), copy.deepcopy(context)) == decision
    shuffled = list(asked)
    order.shuffle(shuffled)
    assert compose_gates(shuffled, context).allowed == decision.allowed
    silent = [gate for gate in asked if gate.allow is not None]
    assert compose_gates(silent, context).allowed == decision.allowed


@given(gates, contexts)
def test_a_recorded_decision_reads_back_equal(asked: list[Fixed], context: ToolGateContext) -> None:
    """The event that the log gives back is equal, so that a replay can be compared."""
    offered = compose_gates(asked, context).offered
    assert msgspec.json.decode(msgspec.json.encode(offered), type=ToolsOffered) == offered


@given(gates, contexts)
def test_a_tool_is_allowed_or_denied_with_a_reason(
    asked: list[Fixed], context: ToolGateContext
) -> None:
    """Exactly one of the two is true."""
    decision = compose_gates(asked, context)
    for name in (*NAMES, "other"):
        assert (decision.denial(name, asked) is None) == decision.allows(name)


# --- errors

provider_errors = st.builds(
    ProviderError,
    st.sampled_from(ProviderErrorKind),
    st.text(max_size=5),
    status=st.none() | st.integers(0, 1000),
    retry_after=st.none() | st.floats(0, 1000),
) | st.builds(
    ProviderError.from_http_status,
    st.integers(0, 1000),
    st.text(max_size=5),
    retry_after=st.none() | st.floats(0.1, 1000),
)


@given(provider_errors)
def test_kind_retry_class_and_retryable_of_a_provider_error_agree(error: ProviderError) -> None:
    """The loop, the host and the statistics read it in the same way."""
    kind = classify(error)
    assert kind is error.error_kind
    assert kind.is_retryable == error.retryable
    assert (DEFAULT.classify(error) is RetryClass.TRANSIENT) == error.retryable
    assert error.retryable or error.retry_after is None
    assert Failure.from_exception(error).kind is kind


class Anything(Exception):
    """An exception with any attributes."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        super().__init__(*attributes.values())
        self.__dict__.update(attributes)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
attributes = st.dictionaries(
    st.sampled_from(
        [
            "response",
            "status",
            "status_code",
            "code",
            "headers",
            "error_kind",
            "retry_after",
            "model_message",
        ]
    ),
    values | st.sampled_from(ErrorKind),
)
plain = [
    cls
    for cls in vars(builtins).values()
    if isinstance(cls, type)
    and issubclass(cls, BaseException)
    and not issubclass(cls, BaseExceptionGroup | UnicodeError | SyntaxError)  # want certain args
]
exceptions = st.recursive(
    st.builds(lambda cls, args: cls(*args), st.sampled_from(plain), st.lists(values, max_size=2))
    | st.builds(Anything, attributes)
    | provider_errors,
    lambda inner: st.builds(
        BaseExceptionGroup, st.text(max_size=3), st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=4,
)


@given(exceptions)
def test_every_exception_has_a_kind_a_class_and_a_failure(error: BaseException) -> None:
    """The failure can be stored and has an error envelope."""
    assert isinstance(classify(error), ErrorKind)
    assert isinstance(DEFAULT.classify(error), RetryClass)
    failure = Failure.from_exception(error)
    assert failure.kind is classify(error)
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure
    assert ErrorEnvelope.of(failure).code
    assert isinstance(failure.model_text, str)


# --- repair_history

calls = st.builds(
    FunctionCall,
    st.sampled_from(["search", "fetch"]),
    st.dictionaries(st.sampled_from("ab"), st.none() | st.integers(0, 1) | st.floats(0, 1))
    | st.just({"a": float("nan")}),
) | st.builds(FunctionCall, st.just("search"), st.none(), raw=st.sampled_from(["{", "[1]"]))
entries = st.lists(
    st.builds(HistoryEntry.completed, calls, st.text(max_size=2))
    | st.builds(
        lambda call, cls, text: HistoryEntry.failed(call, cls, message=text),
        calls,
        st.sampled_from(RetryClass),
        st.text(max_size=2),
    ),
    max_size=12,
)


def mark(entry: HistoryEntry) -> object:
    """Return the identity of a call; a call without a fingerprint equals no other."""
    try:
        return entry.fingerprint
    except UnhashableArguments:
        return id(entry)


@given(entries)
def test_repair_is_total_deterministic_and_idempotent(history: list[HistoryEntry]) -> None:
    """Its input is not changed."""
    before = repr(history)
    kept = repair_history(history)
    assert repr(history) == before
    assert repr(repair_history(copy.deepcopy(history))) == repr(kept)
    assert repr(repair_history(kept)) == repr(kept)


@given(entries)
def test_repair_keeps_one_entry_a_call_in_the_order_of_first_occurrence(
    history: list[HistoryEntry],
) -> None:
    """The entry is the first completion of a call, otherwise its last failure."""
    kept = repair_history(history)
    assert [mark(entry) for entry in kept] == list(dict.fromkeys(map(mark, history)))
    for entry in kept:
        group = [other for other in history if mark(other) == mark(entry)]
        completed = [other for other in group if other.is_completed]
        assert entry is (completed[0] if completed else group[-1])
