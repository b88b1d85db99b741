"""Why: ten lines that name the cause, on real logs with a seeded failure."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from support.transcripts import DATA, REPEATS

from eventstore import (
    Conversation,
    ErrorKind,
    Event,
    EventStore,
    Failure,
    FunctionCall,
    FunctionResponse,
    MessageAdded,
    ModelResponded,
    Recorded,
    RunEnded,
    RunStarted,
    Text,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRunning,
    UnknownEvent,
    Usage,
    UsageLimitBreach,
)
from eventstore.testing.builders import log
from projections import Diagnosis, current_tools, error_statistics, model_history, why

Messages = list[dict[str, Any]]
Seed = Callable[[Messages], tuple[Messages, Callable[[Conversation], object] | None]]

LARGE = DATA / "pi-sessions" / "large-session.messages.json"


def read(path: Any) -> Messages:
    """Return the messages of a transcript."""
    content = json.loads(path.read_text("utf-8"))
    return content if isinstance(content, list) else content["messages"]


def played(messages: Messages, then: Callable[[Conversation], object] | None) -> list[Recorded]:
    """Return the log of imported messages and of what came after them."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        chat.import_messages(messages, "openai")
        if then is not None:
            then(chat)
        return list(chat.events())


def ending(messages: Messages, after: int) -> Messages:
    """Return the session up to the answer of a call that was alone in its turn."""
    at = next(
        n
        for n, message in enumerate(messages)
        if n >= after
        and message["role"] == "tool"
        and not message.get("is_error")
        and len(messages[n - 1].get("tool_calls") or ()) == 1
    )
    return copy.deepcopy(messages[: at + 1])


def with_last_result(content: str, **more: Any) -> Seed:
    """Return the seed that gives the last call another answer."""

    def seed(messages: Messages) -> Any:
        messages[-1] |= {"content": content, **more}
        return messages, None

    return seed


def with_events(*events: Event) -> Seed:
    """Return the seed that appends events."""
    return lambda messages: (messages, lambda chat: chat.append(*events))


def aborted_approval(messages: Messages) -> Any:
    """A person aborts the approval of the next call."""

    def then(chat: Conversation) -> None:
        call = chat.request("deploy", {"to": "production"}, call_id="seeded")
        chat.reject(call.id, reason="Permission prompt was aborted.")

    return messages, then


def looping(messages: Messages) -> Any:
    """The last call is made six more times."""
    *_, ask, answer = messages
    for n in range(6):
        again = copy.deepcopy([ask, answer])
        again[0]["tool_calls"][0]["id"] = again[1]["tool_call_id"] = f"seeded_{n}"
        messages += again
    return messages, None


def unanswered(messages: Messages) -> Any:
    """The last call has no answer, and the model goes on."""
    messages.pop()
    return [*messages, {"role": "assistant", "content": "That is done."}], None


def truncated_arguments(messages: Messages) -> Any:
    """The arguments of the last call break off."""
    function = messages[-2]["tool_calls"][0]["function"]
    function["arguments"] = function["arguments"][:-4]
    return messages, None


def doubled_result(messages: Messages) -> Any:
    """The last call has a second answer."""
    return [*messages, {**messages[-1], "content": "quite another answer"}], None


def wrong_result(messages: Messages) -> Any:
    """A tool answers for another order."""

    def then(chat: Conversation) -> None:
        call = chat.request("find_order", {"order_id": "A-7"}, call_id="seeded")
        chat.start(call.id)
        chat.complete(call.id, {"order_id": "B-9", "status": "paid"})
        chat.add_message("assistant", "It is paid.")

    return messages, then


def crash(messages: Messages) -> Any:
    """The process dies in the next call."""

    def then(chat: Conversation) -> None:
        call = chat.request("deploy", {"to": "production"}, call_id="seeded")
        chat.start(call.id)

    return messages, then


PUBLISH = (
    "> app@1 publish\n"
    + "npm warn old\n" * 300
    + ("src/a.ts(1,2): error TS2305: no member.\nnpm error code 1\n\nCommand exited with code 1")
)
EXPIRED = "Error: 401 Unauthorized: the access token expired at 2025-01-02T03:04:05Z"
OVERFLOW = "prompt is too long: 213462 tokens > 200000 maximum"

SEEDS: dict[str, tuple[Seed, str, int]] = {
    # the seed, the kind of the cause, and its place from the end of the log
    "aborted approval": (aborted_approval, "refused", 0),
    "loop": (looping, "loop", 19),
    "unanswered call": (unanswered, "open", 1),
    "expired auth": (with_last_result(EXPIRED), "auth", 0),
    "truncated JSON": (truncated_arguments, "json", 1),
    "doubled result": (doubled_result, "doubled", 0),
    "publish that fails": (with_last_result(PUBLISH, is_error=True), "error", 0),
    "crash in a call": (crash, "crash", 0),
    "wrong tool result": (wrong_result, "mismatch", 1),
    "context overflow": (
        with_events(RunEnded("error", Failure(ErrorKind.VALIDATION, OVERFLOW))),
        "context",
        0,
    ),
}


@pytest.mark.parametrize("name", SEEDS)
@pytest.mark.parametrize("after", [60, 400, 860])
def test_a_seeded_failure_is_named_in_the_first_three_lines(name: str, after: int) -> None:
    """The cause is the first one, whatever else happened in the session."""
    seed, kind, from_end = SEEDS[name]
    messages = ending(read(LARGE), after)
    events = played(*seed(messages))
    diagnosis = why(events)
    assert diagnosis.causes[0].kind == kind
    assert events[-1].version - from_end in diagnosis.causes[0].versions
    assert re.search(
        rf"\bversions? {diagnosis.causes[0].version}\b", "\n".join(diagnosis.lines[:3])
    )
    assert diagnosis.look_at == diagnosis.causes[0].version


def test_a_publish_that_failed_in_a_real_session_is_named() -> None:
    """The compiler's first error is told, though the failure begins with npm's noise."""
    events = played(read(LARGE), None)
    diagnosis = why(events)
    assert "1275" in "\n".join(diagnosis.lines[:3])
    assert "error TS2305" in diagnosis.lines[1]
    assert diagnosis.failure is not None
    assert diagnosis.failure.first_version == 1275
    assert "18 calls open since version 46, the last from version 1046" in diagnosis.ended


def test_a_loop_in_a_real_session_is_named() -> None:
    """The cause is the first call of the loop."""
    diagnosis = why(played(read(REPEATS), None))
    assert (diagnosis.causes[0].kind, diagnosis.look_at) == ("loop", 4)
    assert "41 times" in diagnosis.lines[1]


def story(*events: Event) -> Diagnosis:
    """Return the diagnosis of a conversation that begins with a user's message."""
    return why(log(MessageAdded("user", (Text("Go."),)), *events))


def call(call_id: str, name: str = "search", **arguments: Any) -> ToolPending:
    """Return a request."""
    return ToolPending(FunctionCall(name, arguments or {"q": call_id}, call_id))


def done(call_id: str, result: Any = "fine") -> ToolCompleted:
    """Return a completion."""
    return ToolCompleted(call_id, FunctionResponse("search", result, call_id))


def failed(call_id: str, message: str, kind: ErrorKind = ErrorKind.INTERNAL) -> ToolFailed:
    """Return a failure."""
    return ToolFailed(call_id, Failure(kind, message))


ANSWER = MessageAdded("assistant", (Text("Done."),))


def test_a_sound_conversation_has_no_cause() -> None:
    """Every line is there, and says that there is nothing."""
    diagnosis = story(call("a"), done("a"), ANSWER)
    assert (diagnosis.causes, diagnosis.look_at, diagnosis.command) == ((), None, None)
    assert [line[:10].strip() for line in diagnosis.lines] == [
        "ended",
        "cause",
        "or else",
        "failure",
        "first",
        "open",
        "loops",
        "refused",
        "recovered",
        "look at",
    ]
    assert "nothing in the log says that it failed" in str(diagnosis)


def test_a_failure_that_was_retried_is_not_the_cause() -> None:
    """Neither a later attempt of the call nor an equal call leaves the failure a cause."""
    diagnosis = story(
        call("a"),
        ToolRunning("a", 1),
        failed("a", "no answer", ErrorKind.TRANSIENT),
        ToolRunning("a", 2),
        done("a"),
        call("b", "save", path="x"),
        failed("b", "the disk is full"),
        call("c", "save", path="x"),
        ToolCompleted("c", FunctionResponse("save", "saved", "c")),
        ANSWER,
    )
    assert diagnosis.causes == ()
    assert [(place.call_id, place.ended) for place in diagnosis.recovered] == [("a", 4), ("b", 8)]
    assert diagnosis.failure is not None
    assert diagnosis.failure.version == 8


def test_the_failure_that_ended_the_run_is_the_cause() -> None:
    """The call is named, and not the event that ended the run."""
    failure = Failure(ErrorKind.AUTH, "the key has expired")
    diagnosis = story(
        call("a"),
        ToolFailed("a", failure),
        call("b"),
        failed("b", "a typo"),
        RunEnded("terminated", failure),
    )
    assert (diagnosis.look_at, diagnosis.causes[0].kind) == (3, "auth")
    assert "the run ended at version 6: terminated (auth)" in diagnosis.ended


def test_an_error_of_the_provider_ends_the_run_by_itself() -> None:
    """Where no call failed, the end of the run is the cause."""
    diagnosis = story(ANSWER, RunEnded("error", Failure(ErrorKind.AUTH, "invalid x-api-key")))
    assert (diagnosis.look_at, diagnosis.causes[0].kind) == (3, "auth")


def test_a_full_context_names_the_result_that_filled_it() -> None:
    """The version of the largest result and its share are told with the error."""
    diagnosis = story(
        call("a"),
        done("a", "x" * 300_000),
        ANSWER,
        RunEnded("error", Failure(ErrorKind.VALIDATION, OVERFLOW)),
    )
    assert diagnosis.causes[0].versions == (3, 5)
    assert "the largest result is version 3, 300,000 characters, 99% of all" in diagnosis.lines[1]


def test_an_old_crash_is_a_cause_though_the_run_went_on() -> None:
    """Nothing else that failed is heavier than an attempt without an end."""
    diagnosis = story(
        call("a"),
        ToolRunning("a", 1),
        RunStarted("again"),
        MessageAdded("user", (Text("And now?"),)),
        call("b"),
        done("b"),
        ANSWER,
    )
    assert (diagnosis.causes[0].kind, diagnosis.look_at) == ("crash", 3)
    assert "since version 2" in diagnosis.ended


def test_a_sub_agent_names_its_parent() -> None:
    """The conversation and the call that started it are in the first line."""
    diagnosis = story(RunStarted("helper", "main", "call_7"), ANSWER)
    assert "a sub-agent of main, call call_7" in diagnosis.ended


def test_the_same_lines_come_again() -> None:
    """The lines depend on the events alone."""
    events = played(read(LARGE), None)
    assert why(events) == why(list(events)) == why(iter(events))


def test_a_conversation_that_went_well_ended_with_an_answer() -> None:
    """Nothing failed: neither the first line nor the heading says so."""
    diagnosis = story(call("a"), done("a"), ANSWER)
    assert diagnosis.ended == f"the assistant answered at version {diagnosis.last_version}"
    assert diagnosis.markdown().startswith("### How chat ended\n\n")


def test_the_diagnosis_is_data_and_markdown() -> None:
    """JSON has every field, and Markdown shows foreign text as it is."""
    diagnosis = story(call("a"), failed("a", "<b>no *stars*</b> | `x`"), ANSWER)
    data = msgspec.json.decode(msgspec.json.encode(diagnosis))
    assert data["causes"][0]["version"] == 3
    text = diagnosis.markdown()
    assert text.startswith("### Why chat failed\n\n- **ended**")
    assert "\\<b\\>no \\*stars\\*\\</b\\>" in text


def test_the_result_of_another_call_is_a_cause() -> None:
    """Two calls with other arguments got the same data; a constant answer says nothing."""
    data = '{"name": "ada", "orders": [' + '{"id": 1},' * 20 + '{"id": 2}]}'
    same = story(call("a", n=1), done("a", data), call("b", n=2), done("b", data))
    assert [cause.kind for cause in same.causes if cause.call_id] == ["mismatch"]
    saved = "The list was saved. " * 20
    same = story(call("a", n=1), done("a", saved), call("b", n=2), done("b", saved))
    assert [cause.kind for cause in same.causes if cause.call_id] == []


def test_several_conversations_are_refused() -> None:
    """Versions of several conversations would not name one event."""
    events = [*log(ANSWER), *log(ANSWER, conversation_id="other")]
    with pytest.raises(ValueError, match=r"pass those of one, as why\(chat.events\(\)\) does"):
        why(events)


def test_an_empty_log_is_reported() -> None:
    """There is nothing to look at."""
    assert why([]).lines[0] == "ended      the log is empty"


HOSTILE: list[Event] = [
    done("never asked"),
    failed("never asked", "\x00\ud800 odd".encode("utf-8", "replace").decode()),
    ToolPending(FunctionCall("f", None, "a", "{")),
    ToolPending(FunctionCall("f", object(), "b")),
    ToolCompleted("b", FunctionResponse("g", object(), "b")),
    ToolCompleted("b", FunctionResponse("g", [None], "b")),
    ToolRunning("a", 7),
    MessageAdded("tool", (Text("lost"),), call_id="zz"),
    MessageAdded("", ()),
    UnknownEvent("pending", 1, "{"),
    RunEnded("?"),
]


def test_a_damaged_log_never_raises() -> None:
    """Every prefix and every hole of a hostile log has ten lines."""
    recorded = log(*(event for event in HOSTILE if not _holds_object(event)))
    for at in range(len(recorded) + 1):
        assert len(why(recorded[:at]).lines) == 10
        assert len(why([*recorded[at:], *recorded[:at]]).lines) == 10
    foreign = [
        Recorded(0, n, "chat", n, f"{n:032x}", n, getattr(event, "call_id", None), None, event)
        for n, event in enumerate(HOSTILE, 1)
    ]
    assert len(why(foreign).lines) == 10


def _holds_object(event: Event) -> bool:
    return type(event) is ToolPending and type(event.call.arguments) is object


def long_log(count: int) -> list[Recorded]:
    """Return a log of calls with their attempts, one in ten of which fails."""

    def events() -> Iterable[Event]:
        for n in range(count // 4):
            yield MessageAdded("assistant", (Text("I look."),), turn=n + 1, calls=1)
            yield call(f"c{n}")
            yield ToolRunning(f"c{n}", 1, {"q": n})
            yield failed(f"c{n}", f"no answer {n}") if n % 10 == 9 else done(f"c{n}", {"hits": [n]})

    return log(*events())


def test_a_long_log_takes_less_than_two_folds() -> None:
    """The events are read once, and nothing grows faster than they do."""
    events = long_log(10_000)

    def seconds(fold: Callable[[list[Recorded]], object]) -> float:
        def once() -> float:
            began = time.process_time()
            fold(events)
            return time.process_time() - began

        return min(once() for _ in range(5))

    assert current_tools(events)
    assert seconds(why) < 2 * max(seconds(model_history), seconds(error_statistics))


def test_a_usage_limit_that_ended_the_run_is_the_cause() -> None:
    """The last event of the log is a breach, and nothing was done after it."""
    breach = UsageLimitBreach("requests", Decimal(3), Decimal(4))
    responded = ModelResponded("openai", "gpt-5", "r1", "stop", Usage(100, 20))
    found = why(log(MessageAdded("user"), MessageAdded("assistant", (), 1), responded, breach))
    assert (found.causes[0].kind, found.causes[0].version) == ("limit", 4)
    assert "the usage limit was reached: requests 4, the limit is 3" in str(found.causes[0])
    assert "1 response: 120 tokens (100 in; 20 out)" in found.ended


def test_a_usage_limit_that_was_raised_afterwards_weighs_little() -> None:
    """The run went on, and failed for another reason."""
    breach = UsageLimitBreach("requests", Decimal(3), Decimal(4))
    failed = ToolFailed("1", Failure(ErrorKind.AUTH, "401 Unauthorized: token expired"))
    asked = ToolPending(FunctionCall("f", {}, "1"), turn=1)
    found = why(log(breach, MessageAdded("user"), asked, failed))
    assert [cause.kind for cause in found.causes if cause.kind != "silence"] == ["auth", "limit"]


def test_a_response_that_was_completed_is_one_response() -> None:
    """Its tokens are counted once; the reason that it ended may be told later."""
    responded = ModelResponded("openai", "gpt-5", "r1", usage=Usage(100, 20))
    cost, reason = Usage(cost=Decimal(7)), "length"
    later = ModelResponded("openai", "gpt-5", "r1", reason, cost, completes=3)
    stray = ModelResponded("openai", "gpt-5", "r0", completes=1)
    events = (MessageAdded("user"), MessageAdded("assistant", (), 1), responded, later, stray)
    found = why(log(*events))
    assert "1 response: 120 tokens (100 in; 20 out), cost 7" in found.ended
    assert (found.causes[0].kind, found.causes[0].version) == ("truncated", 3)


@pytest.mark.parametrize(
    ("reason", "kind", "text"),
    [
        ("length", "truncated", "the model's response was cut off after 20 tokens (length)"),
        ("MAX_TOKENS", "truncated", "was cut off after 20 tokens (MAX_TOKENS)"),
        ("refusal", "refused", "was withheld after 20 tokens (refusal)"),
    ],
)
def test_a_response_that_is_not_whole_is_a_suspect(reason: str, kind: str, text: str) -> None:
    """Each provider has its own words for it."""
    responded = ModelResponded("openai", "gpt-5", "r1", reason, Usage(100, 20))
    found = why(log(MessageAdded("user"), MessageAdded("assistant", (), 1), responded))
    assert found.causes[0].kind == kind
    assert text in str(found.causes[0])


@pytest.mark.parametrize("reason", [None, "stop", "tool_calls", "end_turn", "STOP"])
def test_a_whole_response_is_no_suspect(reason: str | None) -> None:
    """The model was done, or asked for calls."""
    responded = ModelResponded("openai", "gpt-5", "r1", reason)
    assert why(log(MessageAdded("user"), MessageAdded("assistant", (), 1), responded)).causes == ()
