"""One event of every tag, each member set to something that is not its default.

`payloads.json` holds what is stored of them. They are written with keywords, so that they say
which member each value belongs to.
"""

from __future__ import annotations

from decimal import Decimal

from eventstore import (
    Document,
    ErrorKind,
    Event,
    EventsArchived,
    EventsRestored,
    Failure,
    FunctionCall,
    FunctionResponse,
    GateAnswer,
    HistoryCompacted,
    HookAnswer,
    HookRaised,
    Image,
    MessageAdded,
    ModelResponded,
    Opaque,
    PayloadsRedacted,
    RedactedPayload,
    RunEnded,
    RunStarted,
    Text,
    ToolApproved,
    ToolCompleted,
    ToolEndedLate,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRenewed,
    ToolRunning,
    ToolsOffered,
    UnknownEvent,
    Usage,
    UsageLimitBreach,
)

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A PNG image of one pixel."""

PDF = "JVBERi0xLjQKJSVFT0YK"
"""The least that calls itself a PDF document."""

FAILURE = Failure(
    kind=ErrorKind.RATE_LIMIT,
    message="429: slow down, Zoë",
    model_message="The service is busy.",
    code="too_many_requests",
    http_status=429,
    retry_after=1.5,
    exception="httpx.HTTPStatusError",
    traceback="Traceback (most recent call last):\n  …\n",
)

RUN_STARTED = RunStarted(
    agent="researcher", parent_conversation_id="parent", parent_call_id="call_parent"
)
TOOLS_OFFERED = ToolsOffered(
    iteration=3,
    available=("drop_table", "search"),
    allowed=("search",),
    gates=(
        GateAnswer(gate="budget", allow=("search",)),
        GateAnswer(gate="office hours", allow=()),
        GateAnswer(gate="no opinion"),
    ),
    conflict={"gates": ["budget", "office hours"], "resolved": "open"},
)
MESSAGE_ADDED = MessageAdded(
    role="user",
    parts=(
        Text(text='Naïve "text" 🙂\u2028\n'),
        Image(url="https://example.com/a.png", detail="low"),
        Image(data=PIXEL, media_type="image/png", detail="high"),
        Document(url="https://example.com/a.pdf", name="a.pdf"),
        Document(data=PDF, name="b.pdf"),
        Opaque(provider="anthropic", data={"type": "search_result", "z": 1, "a": [None, 1.5]}),
    ),
    turn=2,
    calls=1,
    provider="anthropic",
    native={"content": [None, {"text": "as it came", "type": "text"}], "role": "user"},
    exact=True,
    joined=True,
    call_id="call_unknown",
    results=("call_every",),
)
PENDING = ToolPending(
    call=FunctionCall(
        name="search", arguments=["no", "object"], id="call_every", raw='["no","object"]'
    ),
    provider_call_id="toolu_1",
    turn=2,
    index=1,
    imported=True,
)
APPROVED = ToolApproved(
    call_id="call_every",
    edited_call=FunctionCall(
        name="search", arguments={"q": "rig", "deep": {"n": 1, "x": 1.0}}, id="call_every"
    ),
    by="grace",
    reason="looks right",
)
RUNNING = ToolRunning(
    call_id="call_every", attempt=1, arguments={"q": "rig", "deep": {"n": 1, "x": 1.0}}
)
FAILED = ToolFailed(
    call_id="call_every",
    failure=FAILURE,
    attempt=1,
    duration=250_000,
    delay=1_500_000,
    provider="anthropic",
    native={"is_error": True, "content": "429", "type": "tool_result", "tool_use_id": "toolu_1"},
)
RUNNING_AGAIN = ToolRunning(call_id="call_every", attempt=2, arguments={"q": "rig"})
COMPLETED = ToolCompleted(
    call_id="call_every",
    response=FunctionResponse(
        name="search", result=["a chart", {"type": "image", "data": PIXEL}], id="call_every"
    ),
    attempt=2,
    duration=1_000_001,
    synthetic=True,
    lossy=True,
    provider="anthropic",
    native={"type": "tool_result", "content": [], "tool_use_id": "toolu_1"},
    in_parts=True,
)
REFUSED = ToolPending(
    call=FunctionCall(name="drop_table", arguments={"name": "orders"}, id="call_refused"),
    provider_call_id="toolu_2",
    turn=2,
    index=2,
    imported=True,
)
REJECTED = ToolRejected(
    call_id="call_refused",
    reason="not in production",
    source="gate",
    by="grace",
    details={"gate": "budget", "left": 0},
    provider="anthropic",
    native={"type": "tool_result", "tool_use_id": "toolu_2", "content": "refused"},
)
RUN_ENDED = RunEnded(reason="terminated", failure=FAILURE)
UNKNOWN = UnknownEvent(
    tag="of_a_later_version", schema=7, payload='{"z":1,"a":{"nested":[1,2.50]}}'
)
NEWER_FORM = UnknownEvent(tag="message", schema=99, payload='{"role":"user","said":"later"}')

EVENTS: tuple[Event, ...] = (
    RUN_STARTED,
    TOOLS_OFFERED,
    MESSAGE_ADDED,
    PENDING,
    APPROVED,
    RUNNING,
    FAILED,
    RUNNING_AGAIN,
    COMPLETED,
    REFUSED,
    REJECTED,
    UNKNOWN,
    RUN_ENDED,
)
"""In an order in which a log takes them."""

SKIPPED = ToolCompleted(
    call_id="call_skipped",
    response=FunctionResponse(name="search", result="as before", id="call_skipped"),
    synthetic=True,
    by="cache",
    reason="asked for a minute ago",
)

PAUSED = ToolPaused(
    call_id="call_every",
    attempt=2,
    until=1_767_355_200_000_000,
    reason="the bank opens tomorrow, Zoë",
    duration=12_345,
)

BROKEN_OFF = MessageAdded(
    role="assistant",
    parts=(Text(text="The order 7 is"),),
    turn=3,
    provider="openai",
    broken_off=True,
)

CUT_OFF = MessageAdded(
    role="assistant",
    parts=(Text(text="Once upon a"),),
    turn=3,
    provider="anthropic",
    finish_reason="max_tokens",
)

HOOKS = (
    HookAnswer(hook="stuck_loop"),
    HookAnswer(hook="ask Zoë", decision="approve", reason="looks right", approver=True),
)
AFTER_HOOKS: tuple[Event, ...] = (
    ToolApproved(call_id="call_asked", hooks=HOOKS),
    ToolRunning(call_id="call_asked", attempt=1, hooks=HOOKS),
    ToolPaused(call_id="call_asked", attempt=1, hooks=HOOKS),
    ToolFailed(call_id="call_asked", failure=FAILURE, hooks=HOOKS),
    ToolCompleted(
        call_id="call_asked",
        response=FunctionResponse(name="search", result=None, id="call_asked"),
        hooks=HOOKS,
    ),
    ToolRejected(call_id="call_asked", hooks=HOOKS),
)
"""Steps that followed from the answers of hooks."""

RESPONDED = ModelResponded(
    provider="openai",
    model="gpt-5",
    response_id="chatcmpl-1",
    finish_reason="length",
    usage=Usage(
        input_tokens=1200,
        output_tokens=80,
        cached_tokens=1024,
        reasoning_tokens=64,
        cost=Decimal("0.0042"),
    ),
    latency=1_250_000,
)

BREACH = UsageLimitBreach(axis="cost", limit=Decimal("0.50"), observed=Decimal("0.5042"))

FORKED = RunStarted(parent_conversation_id="parent", forked_at=7)

COMPLETING = ModelResponded(
    provider="openai", response_id="chatcmpl-1", usage=Usage(cost=Decimal("0.0042")), completes=9
)

ANOTHER = ModelResponded(provider="openai", response_id="17", is_another=True)

RESPONSE_FAILED = ModelResponded(
    provider="openai", response_id="18", finish_reason="error: server_error", failed=True
)

HOOK_RAISED = HookRaised(
    hook="limit",
    asked="hook",
    failure=FAILURE,
    call_id="call_asked",
    hooks=HOOKS,
    gates=(GateAnswer(gate="night", allow=("search",)),),
)

IN_DOUBT = ToolFailed(
    call_id="call_every",
    failure=Failure(kind=ErrorKind.TRANSIENT, message="read timed out", in_doubt=True),
    attempt=2,
)

EXPIRING = ToolApproved(call_id="call_asked", by="grace", expires_at=1_767_355_200_000_000)

SETTLING = ToolFailed(
    call_id="call_every",
    failure=Failure(
        kind=ErrorKind.PERMANENT, message="no such payment", code="settled", in_doubt=False
    ),
    attempt=2,
    delay=0,
    by="grace",
    reason="asked the bank",
)

LEASED = ToolRunning(
    call_id="call_asked", attempt=2, lease=30_000_000, worker="0123456789abcdef-4711-90210"
)

RENEWED = ToolRenewed(call_id="call_asked", attempt=2, lease=30_000_000)

ENDED_LATE: tuple[Event, ...] = (
    ToolEndedLate(
        call_id="call_asked",
        attempt=1,
        response=FunctionResponse(name="search", result=[1, 2.5], id="call_asked"),
        duration=31_000_000,
        lossy=True,
        in_parts=True,
    ),
    ToolEndedLate(call_id="call_asked", attempt=1, failure=FAILURE),
    ToolEndedLate(call_id="call_asked", attempt=1, reason="asks a person"),
)

OF_A_STEP = ToolPending(FunctionCall("refund", {}, "call_step"), "call_step", 9, step="order-7 1")

REDACTED = PayloadsRedacted(
    by="mia",
    payloads=(
        RedactedPayload(version=3, marker="6c1dcd1d5a7bbc5c9c1a4b6d4ea1ac7b", call_id="call_1"),
    ),
    reason="asked for by the customer",
    rule="cards",
    paths=("/call/arguments/card",),
)

REDACTED_IN_ORIGIN = PayloadsRedacted(
    by="mia",
    payloads=(RedactedPayload(version=3, marker="6c1dcd1d5a7bbc5c9c1a4b6d4ea1ac7b"),),
    origin="support-1",
)

ARCHIVED = (
    EventsArchived(by="nightly", version=7, place="/archive/a.jsonl", rule="keep 6 months"),
    EventsRestored(by="mia", version=7),
)

COMPACTED = HistoryCompacted(
    until=41,
    messages=(MessageAdded(role="user", parts=(Text("What was said: …"),)),),
    after=1,
    hides_system=True,
    trigger="auto",
    tokens_before=150_000,
)

LATER: tuple[Event, ...] = (
    SKIPPED,
    PAUSED,
    BROKEN_OFF,
    *AFTER_HOOKS,
    RESPONDED,
    BREACH,
    FORKED,
    COMPLETING,
    ANOTHER,
    HOOK_RAISED,
    IN_DOUBT,
    EXPIRING,
    SETTLING,
    LEASED,
    RENEWED,
    *ENDED_LATE,
    OF_A_STEP,
    REDACTED,
    REDACTED_IN_ORIGIN,
    *ARCHIVED,
    RESPONSE_FAILED,
    CUT_OFF,
    COMPACTED,
)
"""Events with the members that came after the first golden log."""
