"""The verbs of a call's life, one after the other, and what they refuse."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from eventstore import EventStore
from eventstore.conversation import Conversation
from eventstore.errors import (
    EventStoreError,
    IllegalTransition,
    SilentAttempt,
    StoreFull,
    UnencodableEvent,
    UnhashableArguments,
    UnknownCall,
    UnparsedArguments,
)
from eventstore.events import (
    MessageAdded,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRunning,
    UnknownEvent,
)
from eventstore.failure import ErrorKind, Failure
from eventstore.message import Image, Text
from eventstore.storage import Append, Appended
from eventstore.testing import FrozenClock, completed, failed, message, pending, running
from eventstore.tool import FunctionCall, Tool


@pytest.fixture
def clock() -> FrozenClock:
    """The store's clock."""
    return FrozenClock()


@pytest.fixture
def store(clock: FrozenClock) -> Iterator[EventStore]:
    """A store in memory."""
    with EventStore.open("sqlite://", clock=clock) as store:
        yield store


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """A conversation."""
    return store.conversation("support-42")


def last(chat: Conversation) -> Any:
    """The last event."""
    return list(chat.events())[-1].event


# messages


def test_a_message_is_text_or_parts(chat: Conversation) -> None:
    """And only an assistant's begins a turn."""
    chat.add_message("user", "hello")
    chat.add_message("user", Image("https://example.org/a.png"))
    recorded = chat.add_message("assistant", ["look", Text("here")])
    assert recorded.event == MessageAdded("assistant", (Text("look"), Text("here")), 1)
    assert [r.event.turn for r in chat.events()] == [None, None, 1]  # type: ignore[union-attr]
    assert chat.add_message("assistant", "again").event.turn == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("role", ["tool", "robot", "", None])
def test_a_message_has_a_role_that_people_and_models_have(chat: Conversation, role: Any) -> None:
    """A tool's answer is no message."""
    with pytest.raises(ValueError, match=r"role is .*: pass system, developer, user or assistant"):
        chat.add_message(role, "hello")


def test_a_part_of_another_kind_is_refused(chat: Conversation) -> None:
    """The error says what it is and what to pass."""
    with pytest.raises(
        TypeError, match="a message part is int 5: pass text, Text, Image, Document or Opaque"
    ):
        chat.add_message("user", ["hello", 5])  # type: ignore[list-item]


# requests


def test_calls_get_ids_of_their_own(chat: Conversation) -> None:
    """The same for the same place, in another conversation others."""
    one, two = chat.request("search"), chat.request("search")
    assert one.id != two.id
    assert one.id.startswith("call_")
    assert (one.turn, one.index, two.turn, two.index) == (1, 0, 1, 1)
    assert chat._store.conversation("other").request("search").id != one.id
    with EventStore.open("sqlite://") as again:
        assert again.conversation("support-42").request("search").id == one.id


def test_a_minted_id_avoids_those_in_use(chat: Conversation) -> None:
    """Also one that somebody made up before."""
    with EventStore.open("sqlite://") as elsewhere:
        taken = elsewhere.conversation("support-42").request("search").id
    chat.append(ToolPending(FunctionCall("search", {}, taken), turn=9))
    chat.append(MessageAdded("assistant", turn=1), MessageAdded("user"))
    minted = {chat.request("search").id for _ in range(5)}
    assert len(minted - {taken}) == 5


def test_a_request_again_is_the_same_call(chat: Conversation) -> None:
    """Whatever became of it; another call needs another id."""
    first = chat.request("search", {"q": "x"}, call_id="1")
    assert chat.request("search", '{"q": "x"}', call_id="1") == first
    with pytest.raises(IllegalTransition, match="use a new id"):
        chat.request("search", {"q": "y"}, call_id="1")
    assert chat.version == 1


@pytest.mark.parametrize(
    ("name", "call_id", "complaint"),
    [
        ("", None, "a tool's name is text and not empty, got ''"),
        (None, None, "a tool's name is text and not empty, got None"),
        ("search", "", "call_id is '': pass text, or None"),
        ("search", 7, "call_id is 7: pass text, or None"),
    ],
)
def test_a_call_needs_a_name_and_its_id_is_text(
    chat: Conversation, name: Any, call_id: Any, complaint: str
) -> None:
    """The error names the value."""
    with pytest.raises(ValueError, match=complaint):
        chat.request(name, {}, call_id)


@pytest.mark.parametrize("bad", [{"n": float("nan")}, {"what": object()}, {1: 2}, [object()]])
def test_arguments_that_json_cannot_say_are_refused(chat: Conversation, bad: Any) -> None:
    """In a request and in an edit, and nothing is written."""
    tool = chat.request("search")
    for attempt in (
        lambda: chat.request("search", bad),
        lambda: chat.approve(tool.id, edited_arguments=bad),
        lambda: chat.append(pending("2"), ToolPending(FunctionCall("search", bad, "3"))),
    ):
        with pytest.raises(UnhashableArguments, match="pass plain JSON values"):
            attempt()
    assert chat.version == 1


# decisions


def test_an_approval_names_who_and_why_and_what_instead(chat: Conversation) -> None:
    """The edit is in force; the original stays to be seen."""
    tool = chat.request("pay", {"amount": 100})
    after = chat.approve(tool.id, {"amount": 10}, by="ada", reason="too much")
    assert (after.status.by, after.status.reason) == ("ada", "too much")  # type: ignore[union-attr]
    assert (after.call.arguments, after.effective_call.arguments) == (
        {"amount": 100},
        {"amount": 10},
    )
    assert chat.start(tool.id).status.arguments == {"amount": 10}  # type: ignore[union-attr]


def test_the_first_decision_stands(chat: Conversation) -> None:
    """The same again is no event; another is refused."""
    tool = chat.request("pay", {"amount": 100})
    chat.approve(tool.id)
    assert chat.approve(tool.id).status.name == "Approved"
    with pytest.raises(IllegalTransition):
        chat.approve(tool.id, {"amount": 1})
    assert chat.version == 2


def test_a_rejection_names_its_source_and_is_final(chat: Conversation) -> None:
    """Nothing follows it."""
    tool = chat.request("pay")
    after = chat.reject(tool.id, "not at night", source="gate", details={"gate": "clock"})
    assert (after.status.reason, after.status.source) == ("not at night", "gate")  # type: ignore[union-attr]
    assert last(chat).details == {"gate": "clock"}
    for attempt in (
        lambda: chat.start(tool.id),
        lambda: chat.complete(tool.id, 1),
        lambda: chat.fail(tool.id, "x"),
        lambda: chat.approve(tool.id),
    ):
        with pytest.raises(IllegalTransition, match="is Rejected"):
            attempt()


@pytest.mark.parametrize("verb", ["approve", "reject", "start", "complete", "fail"])
def test_every_verb_names_a_call_that_is_not_there(chat: Conversation, verb: str) -> None:
    """With its conversation; it is a LookupError, too."""
    arguments = {"complete": ("found",), "fail": ("broken",)}.get(verb, ())
    with pytest.raises(UnknownCall, match="'support-42' has no call 'nobody'") as caught:
        getattr(chat, verb)("nobody", *arguments)
    assert isinstance(caught.value, LookupError)
    assert chat.version == 0


# attempts


def test_an_attempt_with_no_known_end_is_not_repeated_by_accident(chat: Conversation) -> None:
    """It may have taken effect: the next one has to be named."""
    tool = chat.request("pay")
    chat.start(tool.id)
    with pytest.raises(IllegalTransition, match=r"it may have taken effect; .* pass attempt=2"):
        chat.start(tool.id)
    for wrong in (0, 1, 3):
        with pytest.raises(IllegalTransition, match="the next attempt is 2"):
            chat.start(tool.id, attempt=wrong)
    assert chat.start(tool.id, attempt=2).attempts == 2


def test_a_failed_call_may_be_started_again(chat: Conversation) -> None:
    """And completed, late, without a start."""
    tool = chat.request("search")
    chat.start(tool.id)
    assert chat.fail(tool.id, "no answer", delay=1.5).status.name == "Failed"
    assert last(chat).delay == 1_500_000
    assert chat.start(tool.id).attempts == 2
    chat.fail(tool.id, Failure(ErrorKind.AUTH, "no key"))
    assert chat.complete(tool.id, "late").status.name == "Completed"


def test_a_call_may_be_answered_without_an_attempt(chat: Conversation) -> None:
    """By a hook, or because it cannot be started."""
    one, two = chat.request("search"), chat.request("search")
    assert chat.complete(one.id, "from the cache", synthetic=True).status.synthetic  # type: ignore[union-attr]
    assert chat.fail(two.id, ValueError("no such tool")).attempts == 0
    assert [r.event.attempt for r in chat.events(after=2)] == [0, 0]  # type: ignore[union-attr]


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf")])
def test_a_delay_is_a_number_of_seconds(chat: Conversation, delay: float) -> None:
    """The error names the value."""
    tool = chat.request("search")
    with pytest.raises(ValueError, match=f"delay is {delay!r}: pass seconds, 0 or more"):
        chat.fail(tool.id, "broken", delay=delay)


# running


def test_a_run_is_started_before_it_runs_and_its_end_is_recorded(chat: Conversation) -> None:
    """With the arguments in force, a number, and how long it took."""
    tool = chat.request("search", {"q": "x"})
    with chat.running(tool.id) as attempt:
        assert chat.tools[tool.id].status.name == "Running"
        assert (attempt.number, attempt.arguments) == (1, {"q": "x"})
        done = attempt.complete("found")
    assert attempt.tool == done == chat.tools[tool.id]
    assert last(chat).duration >= 0


class Cancelled(BaseException):
    """Some framework's own."""


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (ValueError("bad"), ErrorKind.INTERNAL, None),
        (ConnectionError("gone"), ErrorKind.TRANSIENT, None),
        (TimeoutError("slow"), ErrorKind.TRANSIENT, "timeout"),
        (KeyboardInterrupt(), ErrorKind.INTERNAL, "interrupted"),
        (SystemExit(3), ErrorKind.INTERNAL, "interrupted"),
        (GeneratorExit(), ErrorKind.INTERNAL, "interrupted"),
        (asyncio.CancelledError(), ErrorKind.INTERNAL, "cancelled"),
        (StopIteration("done"), ErrorKind.INTERNAL, None),
        (Cancelled("by the host"), ErrorKind.INTERNAL, None),
    ],
)
def test_an_exception_is_recorded_and_raised_again(
    chat: Conversation, error: BaseException, kind: ErrorKind, code: str | None
) -> None:
    """Whatever it is, it comes out as it went in."""
    tool = chat.request("search")
    with pytest.raises(type(error)) as caught, chat.running(tool.id):
        raise error
    assert caught.value is error
    failure = last(chat).failure
    assert (failure.kind, failure.code) == (kind, code)
    assert failure.message == (str(error) or failure.exception)


def test_a_cancelled_task_is_recorded(chat: Conversation) -> None:
    """`running()` works in a coroutine, too."""
    tool = chat.request("search")

    async def run(started: asyncio.Event) -> None:
        with chat.running(tool.id):
            started.set()
            await asyncio.Event().wait()

    async def main() -> None:
        started = asyncio.Event()
        task = asyncio.create_task(run(started))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert last(chat).failure.code == "cancelled"


def test_an_abandoned_generator_is_recorded(chat: Conversation) -> None:
    """Closing it ends the attempt."""
    tool = chat.request("search")

    def stream() -> Iterator[int]:
        with chat.running(tool.id) as attempt:
            yield 1
            attempt.complete("never reached")

    running = stream()
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert last(chat).failure.code == "interrupted"


def test_a_silent_attempt_has_failed_and_says_so(chat: Conversation) -> None:
    """A forgotten `complete()` is a mistake, and not a success."""
    tool = chat.request("search")
    with (
        pytest.raises(SilentAttempt, match=r"call attempt.complete\(result\)"),
        chat.running(tool.id),
    ):
        pass
    assert (last(chat).failure.code, chat.tools[tool.id].status.name) == ("no_result", "Failed")


def test_what_is_raised_behind_a_result_does_not_undo_it(chat: Conversation) -> None:
    """The tool took effect; the error is the host's."""
    tool = chat.request("pay")

    def pay() -> None:
        with chat.running(tool.id) as attempt:
            attempt.complete("paid")
            raise ValueError("afterwards")

    with pytest.raises(ValueError, match="afterwards"):
        pay()
    assert chat.tools[tool.id].status.name == "Completed"
    assert chat.version == 3


def test_a_failure_may_be_recorded_by_hand(chat: Conversation) -> None:
    """With a delay, and then nothing more is."""
    tool = chat.request("search")
    with chat.running(tool.id) as attempt:
        attempt.fail("no answer", delay=2)
    assert (last(chat).delay, last(chat).attempt) == (2_000_000, 1)
    assert chat.version == 3


@pytest.fixture
def full(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`full(tag)`: from now on there is no space for events of this tag."""

    def full(tag: str) -> None:
        append = store._storage.append

        def no_space(request: Append) -> Appended:
            if request.drafts[0].tag == tag:
                raise StoreFull("no space")
            return append(request)

        monkeypatch.setattr(store._storage, "append", no_space)

    return full


def test_a_result_that_cannot_be_recorded_is_no_failure(
    chat: Conversation, full: Callable[[str], None]
) -> None:
    """The tool has run: the attempt stays open, and no retry is invited."""
    tool = chat.request("pay")
    full("completed")
    with pytest.raises(StoreFull), chat.running(tool.id) as attempt:
        attempt.complete("paid")
    assert chat.tools[tool.id].status.name == "Running"


def test_a_failure_that_cannot_be_recorded_is_noted_on_the_error(
    chat: Conversation, full: Callable[[str], None]
) -> None:
    """The tool's error is what comes out."""
    tool = chat.request("search")
    full("failed")
    with pytest.raises(ValueError, match="broken") as caught, chat.running(tool.id):
        raise ValueError("broken")
    assert caught.value.__notes__ == [f"the failure of call {tool.id!r} was not recorded: no space"]


def test_a_late_failure_does_not_end_the_next_attempt(chat: Conversation) -> None:
    """Who was given up for dead cannot say that his successor failed; a late result counts."""
    tool = chat.request("pay")

    def pay() -> None:
        with chat.running(tool.id):
            chat.start(tool.id, attempt=2)
            raise ValueError("dead")

    with pytest.raises(ValueError, match="dead") as caught:
        pay()
    assert "attempt 1 is not the last, which is 2" in caught.value.__notes__[0]
    assert chat.tools[tool.id].status.name == "Running"
    with chat.running(tool.id, attempt=3) as third:
        chat.start(tool.id, attempt=4)
        third.complete("paid")
    assert (chat.tools[tool.id].status.name, last(chat).attempt) == ("Completed", 3)


def test_the_arguments_of_an_attempt_are_a_copy(chat: Conversation) -> None:
    """A tool that changes them changes no later attempt, and not the log."""
    tool = chat.request("search", {"tags": ["a"]})

    def search(number: int) -> None:
        with chat.running(tool.id) as attempt:
            arguments = attempt.arguments
            assert arguments == {"tags": ["a"]}
            arguments["tags"].append(number)
            raise ValueError("again")

    for number in (1, 2):
        with pytest.raises(ValueError, match="again"):
            search(number)
    starts = [r.event.arguments for r in chat.events() if isinstance(r.event, ToolRunning)]
    assert starts == [{"tags": ["a"]}] * 2


def test_arguments_that_are_no_object_run_no_tool(chat: Conversation) -> None:
    """The failure tells the model what it wrote; an edit helps."""
    tool = chat.request("search", '{"q": ')
    with pytest.raises(UnparsedArguments, match="no JSON object"), chat.running(tool.id) as attempt:
        attempt.complete(attempt.arguments)
    assert last(chat).failure.kind is ErrorKind.VALIDATION
    other = chat.request("search", "[1]", call_id="2")
    chat.approve(other.id, {"q": "x"})
    with chat.running("2") as attempt:
        attempt.complete(attempt.arguments)
    assert chat.tools["2"].response.result == {"q": "x"}  # type: ignore[union-attr]


def test_time_in_an_attempt_is_measured(
    chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In microseconds, by a clock that nobody sets."""
    now = iter([1_000_000, 3_500_000])
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(now))
    tool = chat.request("search")
    with chat.running(tool.id) as attempt:
        attempt.complete("found")
    assert last(chat).duration == 2500


# results


@pytest.mark.parametrize(
    ("result", "stored"),
    [(b"\xff", "ff"), (float("nan"), "nan"), ({1: {2}}, {"1": [2]}), (10**5000, hex(10**5000))],
    ids=lambda value: type(value).__name__,
)
def test_a_result_is_kept_whatever_it_is(chat: Conversation, result: Any, stored: Any) -> None:
    """The side effect has happened; what was lost of its result is marked."""
    tool = chat.request("shoot")
    with chat.running(tool.id) as attempt:
        done = attempt.complete(result)
    assert done.response is not None
    assert done.response.result == stored
    assert last(chat).lossy
    assert chat.complete(tool.id, result) == done


def test_a_completion_again_is_the_same(chat: Conversation) -> None:
    """Another is refused; the settled call comes from the log."""
    tool = chat.request("search")
    done = chat.complete(tool.id, {"n": 1})
    assert chat.complete(tool.id, {"n": 1}) == done == chat.tools[tool.id]
    with pytest.raises(IllegalTransition, match="the first completion stands"):
        chat.complete(tool.id, {"n": 2})


# append


@pytest.mark.parametrize("thing", ["text", None, [message()], {"role": "user"}])
def test_only_events_are_appended(chat: Conversation, thing: Any) -> None:
    """The error shows what it was."""
    with pytest.raises(TypeError, match=r"append\(\) takes events, got .*: pass for example"):
        chat.append(message(), thing)


def test_a_pending_event_has_a_call(chat: Conversation) -> None:
    """Not its name alone."""
    with pytest.raises(TypeError, match="ToolPending takes a FunctionCall, got 'search'"):
        chat.append(ToolPending("search"))  # type: ignore[arg-type]


def test_a_member_of_the_wrong_type_is_refused(chat: Conversation) -> None:
    """It would come back as unknown."""
    with pytest.raises(UnencodableEvent, match=r"MessageAdded .* at `\$\.role`"):
        chat.append(message(), MessageAdded(5))  # type: ignore[arg-type]
    assert chat.version == 0


def test_nothing_appended_is_nothing(chat: Conversation) -> None:
    """Also where a version is expected."""
    assert chat.append() == []
    assert chat.append(expected_version=0, event_ids=[]) == []
    assert chat.version == 0


def test_events_without_a_place_are_given_one(chat: Conversation) -> None:
    """A call its turn and id, an assistant's message its turn."""
    done = chat.append(
        message("let me see", "assistant"),
        ToolPending(FunctionCall("search", {})),
        ToolPending(FunctionCall("search", {}, "")),
        message(),
    )
    assert done == list(chat.events())
    assert [r.event.turn for r in done] == [1, 1, 1, None]  # type: ignore[union-attr]
    assert len({r.call_id for r in done[1:3]} - {None, ""}) == 2
    assert set(chat.tools) == {r.call_id for r in done[1:3]}


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        (["nonsense", uuid4()], "event id 'nonsense' is no UUID"),
        ([b"short", uuid4()], "event id b'short' is no UUID"),
        ([7, uuid4()], "event id 7 is no UUID"),
        ([uuid4()], "1 distinct event_ids for 2 events: pass one each"),
        ([uuid4().hex] * 2, "1 distinct event_ids for 2 events: pass one each"),
    ],
)
def test_event_ids_are_uuids_one_each(chat: Conversation, ids: Any, complaint: str) -> None:
    """The error names the one that is none."""
    if "distinct" in complaint and len(ids) == 2:
        ids = [ids[0], ids[0]]
    with pytest.raises(ValueError, match=complaint):
        chat.append(message("a"), message("b"), event_ids=ids)


def test_event_ids_are_stored_and_may_have_any_form(chat: Conversation) -> None:
    """A UUID, its text, its bytes."""
    a, b, c = uuid4(), uuid4(), uuid4()
    chat.append(message(), message(), message(), event_ids=[a, str(b), c.bytes])
    assert [r.event_id for r in chat.events()] == [a.hex, b.hex, c.hex]


def test_a_repeated_append_may_hold_what_was_no_event(chat: Conversation) -> None:
    """What was left out the first time is left out again."""
    chat.append(pending())
    ids = [uuid4(), uuid4()]
    first = chat.append(pending(), running(), event_ids=ids)
    assert [r.event for r in first] == [running()]
    assert chat.append(pending(), running(), event_ids=ids) == first
    assert chat.version == 2


def test_a_known_event_in_disguise_is_held_to_the_rules(chat: Conversation) -> None:
    """What is really unknown is kept as it is."""
    chat.append(pending())
    disguised = UnknownEvent("running", 1, '{"call_id":"call_1","attempt":1}')
    assert chat.append(disguised)[0].event == ToolRunning("call_1", 1)
    with pytest.raises(IllegalTransition):
        chat.append(disguised)
    newer = UnknownEvent("running", 9, '{"call_id":"call_1"}')
    assert chat.append(newer)[0].event == newer


def test_given_values_and_returned_values_are_not_the_logs(chat: Conversation) -> None:
    """Neither what was passed nor what was returned changes what is decided later."""
    given = {"list": [1]}
    event = ToolPending(FunctionCall("pay", given, "1"), turn=1)
    (recorded,) = chat.append(event)
    given["list"].append(2)
    recorded.event.call.arguments["list"].append(3)  # type: ignore[union-attr]
    edited = chat.approve("1", {"list": [5]})
    edited.edit.arguments["list"].append(6)  # type: ignore[union-attr]
    edited.status.edited_call.arguments["list"].append(7)  # type: ignore[union-attr]
    (started,) = chat.append(ToolRunning("1", 1, given))
    started.event.arguments["list"].append(8)  # type: ignore[union-attr]
    given["list"].append(9)
    tool = chat.fail("1", "x")
    assert tool == chat.tools["1"]
    assert (tool.call.arguments, tool.edit) == (
        {"list": [1]},
        FunctionCall("pay", {"list": [5]}, "1"),
    )
    (stored,) = (r.event for r in chat.events() if isinstance(r.event, ToolRunning))
    assert stored.arguments == {"list": [1, 2]}


# reading


def test_tools_are_read_from_the_log_also_from_a_damaged_one(chat: Conversation) -> None:
    """What breaks the rules is passed over."""
    chat.request("search", call_id="1")
    storage = chat._store._storage
    from eventstore.testing import append  # noqa: PLC0415 - behind the store's back

    append(storage, "support-42", completed("2"), completed("1"), running("1"), version=1)
    assert {name: tool.status.name for name, tool in chat.tools.items()} == {"1": "Completed"}
    with EventStore(storage) as fresh:
        assert fresh.conversation("support-42").complete("1", "found").status.name == "Completed"


def test_a_handle_says_which_conversation_it_is(chat: Conversation) -> None:
    """For people who debug."""
    assert repr(chat) == "<Conversation 'support-42'>"


# provider messages


def test_a_providers_message_is_recorded_with_its_calls(chat: Conversation) -> None:
    """`record` gives the calls, pending; their results complete them."""
    tools = chat.record(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
            ],
        }
    )
    assert [(t.id, t.call.arguments, t.status.name) for t in tools] == [("c1", {"a": 1}, "Pending")]
    tools[0].call.arguments["a"] = 2
    (done,) = chat.record({"role": "tool", "tool_call_id": "c1", "content": "ok"})
    assert (done.status.name, done.call.arguments) == ("Completed", {"a": 1})
    again = chat.record_messages(
        [
            {"role": "user", "content": "more"},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        ]
    )
    assert again == [] or [type(t) for t in again] == [Tool]


def test_every_error_of_a_verb_is_the_librarys_own(chat: Conversation) -> None:
    """One `except EventStoreError` catches what the log refuses."""
    for error in (IllegalTransition, UnknownCall, SilentAttempt, UnparsedArguments, StoreFull):
        assert issubclass(error, EventStoreError)
    chat.append(pending(), failed(attempt=0))
    with pytest.raises(EventStoreError):
        chat.append(ToolFailed("call_1", Failure(ErrorKind.INTERNAL, "x")))
    assert not any(isinstance(r.event, ToolCompleted) for r in chat.events())
