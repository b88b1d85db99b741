"""The library's public use, checked by mypy and pyright; nothing here runs."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, assert_type

from eventstore import (
    AgentError,
    AsyncAttempt,
    AsyncConversation,
    AsyncDispatcher,
    AsyncEventStore,
    AsyncToolGate,
    Attempt,
    Completed,
    Conversation,
    ConversationCursor,
    Cursor,
    Defer,
    Dispatcher,
    Erasure,
    ErrorEnvelope,
    ErrorKind,
    EventStore,
    Failure,
    FunctionCall,
    FunctionResponse,
    FunctionTool,
    GateClass,
    GateDecision,
    IllegalTransition,
    KeyFile,
    ModelRetry,
    OpeningGate,
    ProviderError,
    ProviderErrorKind,
    Recorded,
    Replace,
    ResultLimits,
    RetryPolicy,
    SubjectKeys,
    Tool,
    Toolbox,
    ToolCompleted,
    ToolEffect,
    ToolErrorPolicy,
    ToolErrorTerminal,
    ToolGate,
    ToolGateContext,
    VersionConflict,
    Violation,
    compose_gates,
    fingerprint,
    validate,
)
from eventstore.seals import (
    FileAnchor,
    Finding,
    Inclusion,
    Seal,
    Sealer,
    SigningKey,
    check,
    prove,
)
from projections import (
    HistoryEntry,
    ModelHistory,
    Repair,
    Step,
    current_tools,
    error_statistics,
    gate_context,
    model_history,
    repair_history,
    repair_messages,
    repeats,
    replay,
    resume_plan,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection


def loop(store: EventStore, message: object, run: dict[str, Any]) -> dict[str, Any]:
    """Run a turn of an agent loop."""
    chat = store.conversation("support-42")
    assert_type(chat, Conversation)
    chat.add_message("user", "Where is my order?")
    for tool in chat.record(message, provider="openai"):
        assert_type(tool, Tool)
        with chat.running(tool.id) as attempt:
            assert_type(attempt, Attempt)
            attempt.complete(run[tool.call.name](**attempt.arguments))
    history = model_history(chat.events(), collapse="failed", open_calls="answer")
    assert_type(history, ModelHistory)
    assert_type(history.repairs, list[Repair])
    return history.render("openai")


def primitives(chat: Conversation) -> Tool:
    """Call each method of a conversation, with its answer."""
    tool = chat.request("refund", {"order": 7})
    tool = chat.approve(tool.id, edited_arguments={"order": 8}, by="ada")
    tool = chat.start(tool.id)
    try:
        tool = chat.fail(tool.id, Failure(ErrorKind.TRANSIENT, "timeout"), delay=0.5)
        tool = chat.complete(tool.id, {"ok": True})
    except IllegalTransition as error:
        assert_type(error.call_id, str)
    if isinstance(tool.status, Completed):
        assert_type(tool.status.response, FunctionResponse)
    assert_type(tool.effective_call, FunctionCall)
    return tool


def reading(store: EventStore, messages: list[dict[str, Any]]) -> None:
    """Use projections over anything that gives events."""
    for recorded in store.read(limit=10):
        assert_type(recorded, Recorded)
        if isinstance(recorded.event, ToolCompleted):
            assert_type(recorded.event.attempt, int)
    chat = store.conversation("support-42")
    try:
        chat.append(expected_version=3)
    except VersionConflict as conflict:
        assert_type(conflict.actual, int)
    assert_type(chat.tools, dict[str, Tool])
    assert_type(current_tools(chat.events()), dict[str, Tool])
    print(error_statistics(store.read()), repeats(chat.events()), resume_plan(chat.events()))
    for frame in replay(chat.events(), until=4):
        print(frame)
    repaired = repair_messages(messages, "anthropic", "openai")
    assert_type(repaired.system, str | None)
    assert_type(validate(repaired.messages, "openai"), list[Violation])
    assert_type(fingerprint("refund", {"order": 7}), str)
    kept = repair_history([HistoryEntry.completed(FunctionCall("f", {}), 1)])
    assert_type(kept, list[HistoryEntry])


class Planning(ToolGate):
    """A gate of a user: derived, with members that are not the defaults."""

    name = "planning"
    priority = 100
    gate_class = GateClass.ADVISORY

    def allowlist(self, context: ToolGateContext, /) -> AbstractSet[str] | None:
        """Allow only planning at first."""
        return None if context.iteration else {"plan"}


class Licensed(AsyncToolGate):
    """An async gate of one's own, for an `AsyncDispatcher`."""

    async def allowlist(self, context: ToolGateContext, /) -> set[str]:
        """Return what a service allows."""
        return set(context.available_tool_names)


def gated(chat: Conversation, other: AsyncConversation) -> None:
    """Gates of both kinds, where they are taken."""
    Dispatcher(chat, [primitives], gates=[Planning()])
    AsyncDispatcher(other, [primitives], gates=[Planning(), Licensed()])
    Dispatcher(chat, [primitives], gates=[Licensed()])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


def deciding(chat: Conversation, error: ToolErrorTerminal) -> float | None:
    """Decide: may it run, may it run again, must the run end."""
    context = gate_context(chat.events(), ["plan", "shell"])
    decision = compose_gates([Planning(), OpeningGate(["plan"])], context, on_all_empty="deny")
    assert_type(decision, GateDecision)
    assert_type(decision.visible, tuple[str, ...])
    chat.append(decision.offered)
    policy = ToolErrorPolicy.operator_safe().add_terminal_kind(ErrorKind.INTERNAL)
    assert_type(policy.classifies_terminal(error.failure.kind), bool)
    assert_type(ErrorEnvelope.of(error.failure).retry_after_secs, int | None)
    asked: AgentError = ProviderError(ProviderErrorKind.RATE_LIMIT, "slow down", status=429)
    assert_type(AgentError.decode(asked.encode()).suggestion, str | None)
    assert_type(Tool.decode(error.tool.encode()), Tool)
    return RetryPolicy(max_attempts=5).delay(1, asked.retry_after, chance=0.5)


def paused(chat: Conversation) -> Tool:
    """Attempts that pause, and calls that wait for a time."""
    with chat.running("call_1", pauses=KeyError) as attempt:
        assert_type(attempt.pause(reason="a person decides"), Tool)
    with chat.running("call_1", pauses=(KeyError, OSError)) as attempt:
        attempt.pause(datetime.now(UTC))
    assert_type(resume_plan(chat.events(), now=datetime.now(UTC)).scheduled, list[Step])
    Dispatcher(chat, [primitives], hooks=[lambda _: Defer(datetime.now(UTC), "closed")])
    return chat.defer("call_1", 1_767_355_200_000_000, "closed")


async def dispatched(store: EventStore, chat: Conversation, message: object) -> list[Tool]:
    """Run a turn through both dispatchers."""
    tool = FunctionTool(primitives, "primitives", parallel=True)
    assert_type(tool.function(chat), Tool)
    dispatcher = Dispatcher(chat, [tool, len], max_calls_per_turn=3)
    assert_type(dispatcher.offer(), GateDecision)
    assert_type(dispatcher.dispatch(chat.record(message)), list[Tool])
    later = AsyncDispatcher(AsyncEventStore(store).conversation("support-42"), {"named": tool})
    assert_type(dispatcher.conversation, Conversation)
    assert_type(later.conversation, AsyncConversation)
    return await later.resume()


def outcomes(chat: Conversation) -> ModelHistory:
    """What tools do and raise, what after-hooks replace, and how much the model reads."""
    limits = ResultLimits(characters=500, items=None)
    tool = FunctionTool(primitives, effect="destructive", fatal=(OSError,), result_limits=limits)
    FunctionTool(primitives, effect=ToolEffect.READ_ONLY)
    FunctionTool(primitives, effect="none")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    toolbox = Toolbox([tool])

    async def hide(_: Tool, result: object) -> Replace | None:
        return None if result else Replace("***", "hidden")

    Dispatcher(chat, toolbox, after_hooks=[hide, lambda tool, result: None])
    assert_type(ModelRetry("use ISO dates").hint, str)
    assert_type(toolbox.result_limits(), dict[str, ResultLimits])
    assert_type(resume_plan(chat.events(), is_idempotent=toolbox.is_idempotent).safe, list[Step])
    return model_history(chat.events(), result_limits=toolbox.result_limits())


def following(store: EventStore, kept: str) -> Tool:
    """Read events as they come, and the decision of a person."""
    follow = store.follow(kept, timeout=5)
    for recorded in follow:
        assert_type(recorded, Recorded)
    assert_type(follow.cursor, Cursor)
    assert_type(follow.lag().seconds, float)
    chat = store.conversation("support-42")
    assert_type(chat.follow(after=3).cursor, ConversationCursor)
    return chat.decision("call_1", timeout=60)


async def awaited(url: str, message: object) -> None:
    """Do the same with asyncio."""
    async with AsyncEventStore.open(url, tenant="acme") as store:
        chat = store.conversation("support-42")
        assert_type(chat, AsyncConversation)
        for tool in await chat.record(message):
            async with chat.running(tool.id) as attempt:
                assert_type(attempt, AsyncAttempt)
                assert_type(await attempt.complete("done"), Tool)
        assert_type(await chat.request("refund", {"order": 7}), Tool)
        assert_type(await chat.version, int)
        assert_type(await chat.tools(), dict[str, Tool])
        assert_type([recorded async for recorded in chat.events()], list[Recorded])
        async for recorded in store.follow(await store.end(), timeout=5):
            assert_type(recorded, Recorded)
        assert_type(await chat.decision("call_1"), Tool)
    store = await AsyncEventStore.open(url)
    assert_type(await store.conversation("a").append(), list[Recorded])
    await store.close()


def sealed(store: EventStore, key: SigningKey) -> Inclusion:
    """Seal a store, and prove an event of it."""
    with Sealer(store, key, anchors=[FileAnchor("notes")]) as sealer:
        assert_type(sealer.error, Exception | None)
    (seal,) = store.seal(key)
    assert_type(seal, Seal)
    assert_type(check(store, seal.note, [key.verifier]).findings, list[Finding])
    return prove(store, "support-42", 1, [key.verifier])


def hosted(store: EventStore, connection: Connection) -> Tool:
    """Append in a transaction of the host."""
    chat = store.conversation("support-42", connection=connection)
    assert_type(chat, Conversation)
    assert_type(store.conversation("a").append(connection=connection), list[Recorded])
    return chat.request("refund", {"order": 7})


async def hosted_awaited(store: AsyncEventStore, connection: AsyncConnection) -> Tool:
    """Do the same with asyncio."""
    chat = store.conversation("support-42", connection=connection)
    assert_type(chat, AsyncConversation)
    assert_type(await store.conversation("a").append(connection=connection), list[Recorded])
    return await chat.request("refund", {"order": 7})


def forgotten(url: str, keys: SubjectKeys) -> Erasure:
    """Tag events with a person, and erase them."""
    with EventStore.open(url, subjects="subjects.secret", keys=keys) as store:
        assert_type(store.conversation("a", subjects=["ann"]).about("bob"), Conversation)
        assert_type(store.tag_subject("ann", "a", [1]), int)
        return store.erase_subject("ann", by="mia")


async def forgotten_awaited(url: str) -> Erasure:
    """Do the same with asyncio."""
    async with AsyncEventStore.open(url, subjects="subjects.secret", keys=KeyFile("k")) as store:
        assert_type(store.conversation("a").about("ann", "bob"), AsyncConversation)
        return await store.erase_subject("ann", by="mia", dry_run=True)
