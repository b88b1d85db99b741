"""The methods for the lifecycle of a call: what each records, and what it refuses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from eventstore import AsyncEventStore, EventStore
from eventstore.conversation import Conversation
from eventstore.domain.calls import FunctionCall
from eventstore.domain.events import (
    MessageAdded,
    ModelResponded,
    ToolApproved,
    ToolCompleted,
    ToolEndedLate,
    ToolFailed,
    ToolPending,
    ToolRunning,
    UnknownEvent,
)
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.messages import Image, Text
from eventstore.domain.statuses import Failed, Running
from eventstore.domain.tool import Tool
from eventstore.domain.usage import Usage
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
from eventstore.storage.interface import Append, AppendOutcome
from eventstore.testing import completed, failed, message, pending, running
from projections import replay, resume_plan, why


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """Return a conversation."""
    return store.conversation("support-42")


def last(chat: Conversation) -> Any:
    """Return the last event."""
    return list(chat.events())[-1].event


# messages


def test_a_message_is_text_or_parts(chat: Conversation) -> None:
    """Only an assistant's message begins a turn."""
    chat.add_message("user", "hello")
    chat.add_message("user", Image("https://example.org/a.png"))
    recorded = chat.add_message("assistant", ["look", Text("here")])
    assert recorded.event == MessageAdded("assistant", (Text("look"), Text("here")), 1)
    assert [r.event.turn for r in chat.events()] == [None, None, 1]  # type: ignore[union-attr]
    assert chat.add_message("assistant", "again").event.turn == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("role", ["tool", "robot", "", None])
def test_a_message_has_a_role_that_people_and_models_have(chat: Conversation, role: Any) -> None:
    """The role `tool` is refused, because a tool's result is not a message."""
    with pytest.raises(ValueError, match=r"role is .*: pass system, developer, user or assistant"):
        chat.add_message(role, "hello")


def test_a_part_of_another_kind_is_refused(chat: Conversation) -> None:
    """The error shows the value and says what to pass."""
    with pytest.raises(
        TypeError,
        match="a message part is int 5: pass text, Text, Image, Document, Audio or Opaque",
    ):
        chat.add_message("user", ["hello", 5])  # type: ignore[list-item]


# requests


def test_calls_get_ids_of_their_own(store: EventStore, chat: Conversation) -> None:
    """The same place gives the same id; another conversation gives other ids."""
    one, two = chat.request("search"), chat.request("search")
    assert one.id != two.id
    assert one.id.startswith("call_")
    assert (one.turn, one.index, two.turn, two.index) == (1, 0, 1, 1)
    assert store.conversation("other").request("search").id != one.id
    with EventStore.open("sqlite://") as again:
        assert again.conversation("support-42").request("search").id == one.id


def test_a_minted_id_avoids_those_in_use(chat: Conversation) -> None:
    """An id that the caller chose before is avoided, too."""
    with EventStore.open("sqlite://") as elsewhere:
        taken = elsewhere.conversation("support-42").request("search").id
    chat.append(ToolPending(FunctionCall("search", {}, taken), turn=9))
    chat.append(MessageAdded("assistant", turn=1), MessageAdded("user"))
    minted = {chat.request("search").id for _ in range(5)}
    assert len(minted - {taken}) == 5


def test_a_repeated_request_is_the_same_call(chat: Conversation) -> None:
    """This holds in every status of the call; a different call needs another id."""
    first = chat.request("search", {"q": "x"}, call_id="1")
    assert chat.request("search", '{"q": "x"}', call_id="1") == first
    with pytest.raises(IllegalTransition, match="use a new id"):
        chat.request("search", {"q": "y"}, call_id="1")
    assert chat.version == 1


@pytest.mark.parametrize(
    ("name", "call_id", "complaint"),
    [
        ("", None, "a tool's name is text and not blank, got ''"),
        (" \n", None, r"a tool's name is text and not blank, got ' \\n'"),
        (None, None, "a tool's name is text and not blank, got None"),
        ("\u200b ", None, r"a tool's name is text and not blank, got '\\u200b '"),
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
    """This holds for a request and an edit, and nothing is written."""
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


def test_an_approval_records_its_author_its_reason_and_its_edit(chat: Conversation) -> None:
    """The edit is in force; the original stays visible."""
    tool = chat.request("pay", {"amount": 100})
    after = chat.approve(tool.id, {"amount": 10}, by="ada", reason="too much")
    assert (after.status.by, after.status.reason) == ("ada", "too much")  # type: ignore[union-attr]
    assert (after.call.arguments, after.effective_call.arguments) == (
        {"amount": 100},
        {"amount": 10},
    )
    assert chat.start(tool.id).status.arguments == {"amount": 10}  # type: ignore[union-attr]


def test_the_first_decision_stands(chat: Conversation) -> None:
    """The same decision again adds no event, and a different one is refused."""
    tool = chat.request("pay", {"amount": 100})
    chat.approve(tool.id)
    assert chat.approve(tool.id).status.name == "Approved"
    with pytest.raises(IllegalTransition):
        chat.approve(tool.id, {"amount": 1})
    assert chat.version == 2


def test_an_edit_that_names_another_tool_is_refused(chat: Conversation) -> None:
    """An edit changes the arguments alone; the error names both tools, and nothing is written."""
    tool = chat.request("pay", {"amount": 100})
    edit = FunctionCall("pay_all", {}, tool.id)
    message = "names the tool 'pay_all', and the call is of 'pay'.*request.. the other tool"
    with pytest.raises(IllegalTransition, match=message):
        chat.append(ToolApproved(tool.id, edit))
    other = pending("2")
    with pytest.raises(IllegalTransition, match=message.replace("pay'", f"{other.call.name}'")):
        chat.append(other, ToolApproved("2", FunctionCall("pay_all", {}, "2")))
    assert chat.version == 1
    assert chat.tools[tool.id].is_pending


def test_a_rejection_names_its_source_and_is_final(chat: Conversation) -> None:
    """No event may follow it."""
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
    """The error names the conversation, too, and is also a LookupError."""
    arguments = {"complete": ("found",), "fail": ("broken",)}.get(verb, ())
    with pytest.raises(UnknownCall, match="'support-42' has no call 'nobody'") as caught:
        getattr(chat, verb)("nobody", *arguments)
    assert isinstance(caught.value, LookupError)
    assert chat.version == 0


# attempts


def test_an_attempt_with_no_known_end_is_not_repeated_by_accident(chat: Conversation) -> None:
    """The attempt may have taken effect, so the caller has to give the next number."""
    tool = chat.request("pay")
    chat.start(tool.id)
    with pytest.raises(IllegalTransition, match=r"it may have taken effect; .* pass attempt=2"):
        chat.start(tool.id)
    for wrong in (0, 1, 3):
        with pytest.raises(IllegalTransition, match="pass the next attempt, 2"):
            chat.start(tool.id, attempt=wrong)
    assert chat.start(tool.id, attempt=2).attempts == 2


def test_a_failed_call_may_be_started_again(chat: Conversation) -> None:
    """A late completion without a start is accepted, too."""
    tool = chat.request("search")
    chat.start(tool.id)
    assert chat.fail(tool.id, "no answer", delay=1.5).status.name == "Failed"
    assert last(chat).delay == 1_500_000
    assert chat.start(tool.id).attempts == 2
    chat.fail(tool.id, Failure(ErrorKind.AUTH, "no key"))
    assert chat.complete(tool.id, "late").status.name == "Completed"


def test_a_call_may_be_answered_without_an_attempt(chat: Conversation) -> None:
    """A hook may answer it, or it cannot be started."""
    one, two = chat.request("search"), chat.request("search")
    assert chat.complete(one.id, "from the cache", synthetic=True).status.synthetic  # type: ignore[union-attr]
    assert chat.fail(two.id, ValueError("no such tool")).attempts == 0
    assert [r.event.attempt for r in chat.events(after=2)] == [0, 0]  # type: ignore[union-attr]


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf")])
def test_a_delay_is_a_number_of_seconds(chat: Conversation, delay: float) -> None:
    """The error names the value."""
    tool = chat.request("search")
    with pytest.raises(
        ValueError, match=f"delay is {delay!r}: pass seconds, from 0 to 1,000,000,000"
    ):
        chat.fail(tool.id, "broken", delay=delay)


# running


def test_a_run_is_started_before_it_runs_and_its_end_is_recorded(chat: Conversation) -> None:
    """The log has the arguments in force, the attempt's number and its duration."""
    tool = chat.request("search", {"q": "x"})
    with chat.running(tool.id) as attempt:
        assert chat.tools[tool.id].status.name == "Running"
        assert (attempt.number, attempt.arguments) == (1, {"q": "x"})
        done = attempt.complete("found")
    assert attempt.tool == done == chat.tools[tool.id]
    assert last(chat).duration >= 0


class Cancelled(BaseException):
    """The cancellation error of some framework."""


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
    """Any exception is raised unchanged."""
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
    """Closing the generator ends the attempt."""
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
    """A block without `complete()` is recorded as failed, and raises."""
    tool = chat.request("search")
    with (
        pytest.raises(SilentAttempt, match=r"call attempt.complete\(result\)"),
        chat.running(tool.id),
    ):
        pass
    assert (last(chat).failure.code, chat.tools[tool.id].status.name) == ("no_result", "Failed")


def test_an_error_raised_after_a_result_does_not_undo_it(chat: Conversation) -> None:
    """The tool took effect; the error belongs to the host."""
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
    """The failure may have a delay, and the block then records nothing more."""
    tool = chat.request("search")
    with chat.running(tool.id) as attempt:
        attempt.fail("no answer", delay=2)
    assert (last(chat).delay, last(chat).attempt) == (2_000_000, 1)
    assert chat.version == 3


@pytest.fixture
def full(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function: after `full(tag)` there is no space for events of this tag."""

    def full(tag: str) -> None:
        append = store.session.storage.append

        def no_space(requests: Sequence[Append]) -> list[AppendOutcome]:
            if requests[0].drafts[0].tag == tag:
                raise StoreFull("no space")
            return append(requests)

        monkeypatch.setattr(store.session.storage, "append", no_space)

    return full


def test_a_result_that_cannot_be_recorded_is_not_recorded_as_a_failure(
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
    """The tool's own error is raised, with a note."""
    tool = chat.request("search")
    full("failed")
    with pytest.raises(ValueError, match="broken") as caught, chat.running(tool.id):
        raise ValueError("broken")
    assert caught.value.__notes__ == [f"the failure of call {tool.id!r} was not recorded: no space"]


def test_a_late_end_is_kept_and_does_not_end_the_next_attempt(chat: Conversation) -> None:
    """A worker that was replaced can neither fail nor complete the next attempt."""
    tool = chat.request("pay")

    def pay() -> None:
        with chat.running(tool.id):
            chat.start(tool.id, attempt=2)
            raise ValueError("dead")

    with pytest.raises(ValueError, match="dead"):
        pay()
    assert last(chat).failure.message == "dead"
    with chat.running(tool.id, attempt=3) as third:
        chat.start(tool.id, attempt=4)
        after = third.complete({"paid", "back"})
    late = last(chat)
    assert (type(late), late.attempt, late.lossy) == (ToolEndedLate, 3, True)
    assert sorted(late.response.result) == ["back", "paid"]
    assert after.status == chat.tools[tool.id].status == Running(4, {})
    chat.complete(tool.id, "paid")
    plan = resume_plan(chat.events())
    assert plan.done[0].reason == "it completed; attempt 3 completed after others had taken over"
    assert "attempt 3, after others had taken over" in str(list(replay(chat.events()))[6])
    assert "a late result of attempt 3, which others had taken over, of pay" in str(
        why(chat.events())
    )


def test_the_arguments_of_an_attempt_are_a_copy(chat: Conversation) -> None:
    """A tool that changes them changes neither the log nor a later attempt."""
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


def test_arguments_that_are_not_an_object_run_no_tool(chat: Conversation) -> None:
    """The failure shows the model its own text; an edit makes the call runnable."""
    tool = chat.request("search", '{"q": ')
    with (
        pytest.raises(UnparsedArguments, match="not a JSON object"),
        chat.running(tool.id) as attempt,
    ):
        attempt.complete(attempt.arguments)
    assert last(chat).failure.kind is ErrorKind.VALIDATION
    other = chat.request("search", "[1]", call_id="2")
    chat.approve(other.id, {"q": "x"})
    with chat.running("2") as attempt:
        attempt.complete(attempt.arguments)
    assert chat.tools["2"].response.result == {"q": "x"}  # type: ignore[union-attr]


def test_time_in_an_attempt_is_measured(chat: Conversation) -> None:
    """The duration is in microseconds, by a monotonic clock."""
    tool = chat.request("search")
    began = time.monotonic_ns()
    with chat.running(tool.id) as attempt:
        inside = time.monotonic_ns()
        while (ended := time.monotonic_ns()) < inside + 2_500_000:
            pass
        attempt.complete("found")
    longest = time.monotonic_ns() - began
    assert (ended - inside) // 1000 <= last(chat).duration <= longest // 1000


# results


@pytest.mark.parametrize(
    ("result", "stored"),
    [(b"\xff", "ff"), (float("nan"), "nan"), ({1: {2}}, {"1": [2]}), (10**5000, hex(10**5000))],
    ids=lambda value: type(value).__name__,
)
def test_a_result_is_kept_whatever_it_is(chat: Conversation, result: Any, stored: Any) -> None:
    """The tool took effect, so its result is stored and losses are marked."""
    tool = chat.request("shoot")
    with chat.running(tool.id) as attempt:
        done = attempt.complete(result)
    assert done.response is not None
    assert done.response.result == stored
    assert last(chat).lossy
    assert chat.complete(tool.id, result) == done


def test_a_repeated_completion_is_a_no_op(chat: Conversation) -> None:
    """A different one is refused; the settled call is read from the log."""
    tool = chat.request("search")
    done = chat.complete(tool.id, {"n": 1})
    assert chat.complete(tool.id, {"n": 1}) == done == chat.tools[tool.id]
    with pytest.raises(IllegalTransition, match="the first completion stands"):
        chat.complete(tool.id, {"n": 2})


# append


@pytest.mark.parametrize("thing", ["text", None, [message()], {"role": "user"}])
def test_only_events_are_appended(chat: Conversation, thing: Any) -> None:
    """The error shows the other value."""
    with pytest.raises(TypeError, match=r"append\(\) takes events, got .*: pass for example"):
        chat.append(message(), thing)


def test_a_list_of_events_is_refused_by_its_beginning(chat: Conversation) -> None:
    """However long it is, the message is short and says how to pass its items."""
    with pytest.raises(TypeError, match=r"pass for example \*events") as caught:
        chat.append([message()] * 10_000)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 400


def test_a_pending_event_has_a_call(chat: Conversation) -> None:
    """The name of a tool alone is refused."""
    with pytest.raises(TypeError, match="ToolPending takes a FunctionCall, got 'search'"):
        chat.append(ToolPending("search"))  # type: ignore[arg-type]


def test_a_member_of_the_wrong_type_is_refused(chat: Conversation) -> None:
    """The stored event would be read back as unknown."""
    with pytest.raises(UnencodableEvent, match=r"MessageAdded .* at `\$\.role`"):
        chat.append(message(), MessageAdded(5))  # type: ignore[arg-type]
    assert chat.version == 0


def test_an_append_of_no_events_stores_nothing(chat: Conversation) -> None:
    """This holds with an expected version, too."""
    assert chat.append() == []
    assert chat.append(expected_version=0, event_ids=[]) == []
    assert chat.version == 0


def test_events_without_a_place_are_given_one(chat: Conversation) -> None:
    """A call gets a turn and an id, an assistant's message gets a turn."""
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
        (["nonsense", uuid4()], "event id 'nonsense' is not a UUID"),
        ([b"short", uuid4()], "event id b'short' is not a UUID"),
        ([7, uuid4()], "event id 7 is not a UUID"),
        ([uuid4()], "1 distinct event_ids for 2 events: pass one each"),
        ([uuid4().hex] * 2, "1 distinct event_ids for 2 events: pass one each"),
    ],
)
def test_event_ids_are_uuids_one_each(chat: Conversation, ids: Any, complaint: str) -> None:
    """The error names the value that is not a UUID."""
    if "distinct" in complaint and len(ids) == 2:
        ids = [ids[0], ids[0]]
    with pytest.raises(ValueError, match=complaint):
        chat.append(message("a"), message("b"), event_ids=ids)


def test_event_ids_are_stored_and_may_have_any_form(chat: Conversation) -> None:
    """A UUID may be given as an object, as text or as bytes."""
    a, b, c = uuid4(), uuid4(), uuid4()
    chat.append(message(), message(), message(), event_ids=[a, str(b), c.bytes])
    assert [r.event_id for r in chat.events()] == [a.hex, b.hex, c.hex]


def test_a_repeated_append_leaves_out_the_same_no_ops(chat: Conversation) -> None:
    """Events that added nothing the first time add nothing again."""
    chat.append(pending())
    ids = [uuid4(), uuid4()]
    first = chat.append(pending(), running(), event_ids=ids)
    assert [r.event for r in first] == [running()]
    assert chat.append(pending(), running(), event_ids=ids) == first
    assert chat.version == 2


def test_a_known_event_in_disguise_is_held_to_the_rules(chat: Conversation) -> None:
    """An unknown event with a known tag is checked; a really unknown one is kept."""
    chat.append(pending())
    disguised = UnknownEvent("running", 1, '{"call_id":"call_1","attempt":1}')
    assert chat.append(disguised)[0].event == ToolRunning("call_1", 1)
    with pytest.raises(IllegalTransition):
        chat.append(disguised)
    newer = UnknownEvent("running", 9, '{"call_id":"call_1"}')
    assert chat.append(newer)[0].event == newer


def test_given_values_and_returned_values_are_not_the_logs(chat: Conversation) -> None:
    """Changing a passed or returned value does not change later decisions."""
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


def test_tools_are_read_from_the_log_also_from_a_damaged_one(
    store: EventStore, chat: Conversation
) -> None:
    """Events that break the rules are skipped."""
    chat.request("search", call_id="1")
    storage = store.session.storage
    from eventstore.testing import append  # past the store

    append(storage, "support-42", completed("2"), completed("1"), running("1"), version=1)
    assert {name: tool.status.name for name, tool in chat.tools.items()} == {"1": "Completed"}
    with EventStore(storage) as fresh:
        assert fresh.conversation("support-42").complete("1", "found").status.name == "Completed"


def test_a_handle_says_which_conversation_it_is(chat: Conversation) -> None:
    """The repr is meant for debugging."""
    assert repr(chat) == "<Conversation 'support-42'>"


# provider messages


def test_a_providers_message_is_recorded_with_its_calls(chat: Conversation) -> None:
    """`record` returns the pending calls, and results complete them."""
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
    """One `except EventStoreError` catches every refusal of the log."""
    for error in (IllegalTransition, UnknownCall, SilentAttempt, UnparsedArguments, StoreFull):
        assert issubclass(error, EventStoreError)
    chat.append(pending(), failed(attempt=0))
    with pytest.raises(EventStoreError):
        chat.append(ToolFailed("call_1", Failure(ErrorKind.INTERNAL, "x")))
    assert not any(isinstance(r.event, ToolCompleted) for r in chat.events())


def test_an_edit_is_the_arguments_and_not_a_call(chat: Conversation) -> None:
    """A call could name another tool, and its members would be taken for arguments."""
    asked = chat.request("look", {"x": 1})
    with pytest.raises(TypeError, match="pass its arguments; an edit changes the arguments alone"):
        chat.approve(asked.id, FunctionCall("pay", {"amount": 5}))  # type: ignore[arg-type]
    assert chat.tools[asked.id].is_pending


def test_a_date_in_retry_after_counts_from_the_failure(chat: Conversation) -> None:
    """The response has no Date header, so the clock of the process says when it failed."""

    class Limited(Exception):
        headers: ClassVar[dict[str, str]] = {
            "Retry-After": format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
        }
        status_code = 429

    asked = chat.request("look")
    with pytest.raises(Limited), chat.running(asked.id):
        raise Limited("slow down")
    status = chat.tools[asked.id].status
    assert isinstance(status, Failed)
    assert 3_500 < (status.failure.retry_after or 0) <= 3_600
    assert status.failure.kind is ErrorKind.RATE_LIMIT


def test_an_attempt_may_begin_in_one_hook_and_end_in_another(chat: Conversation) -> None:
    """Its end has its number and its duration; a second end is refused."""
    call = chat.request("refund", {"order": 7})
    first = chat.begin(call.id)
    assert first.arguments == {"order": 7}
    with pytest.raises(IllegalTransition):
        chat.begin(call.id)
    first.fail(ConnectionRefusedError("down"))
    second = chat.begin(call.id)
    second.complete("paid")
    with pytest.raises(IllegalTransition):
        second.complete("paid again")
    ends = [e.event for e in chat.events() if isinstance(e.event, ToolFailed | ToolCompleted)]
    assert [end.attempt for end in ends] == [1, 2]
    assert all(end.duration is not None for end in ends)


def test_with_asyncio_an_attempt_may_end_in_another_hook() -> None:
    """Another task may end it, as long as the store is open."""

    async def run() -> Tool:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("support-42")
            call = await chat.request("refund")
            attempt = await asyncio.create_task(chat.begin(call.id))
            await asyncio.create_task(attempt.complete("paid"))
            return await chat.tool(call.id)

    tool = asyncio.run(run())
    assert (tool.status.name, tool.attempts) == ("Completed", 1)


def test_a_response_is_stored_once_with_its_usage(chat: Conversation) -> None:
    """The usage comes last; a message that says nothing of itself has no event of it."""
    chat.record({"role": "user", "content": "Hi"})
    response = {
        "id": "r1",
        "model": "m",
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Yes"}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4},
    }
    for _ in range(2):
        chat.record(response)
    *said, facts = [recorded.event for recorded in chat.events()]
    assert [type(event) for event in said] == [MessageAdded, MessageAdded]
    assert facts == ModelResponded("openai", "m", "r1", "stop", Usage(9, 4))
    chat.record({**response, "id": "r2"}, usage=False, latency=1.5)
    assert (chat.version, len(list(chat.events(after=4)))) == (4, 0)


def test_the_latency_of_a_response_is_stored_in_microseconds(chat: Conversation) -> None:
    """A latency that is not a time in seconds is refused, and nothing is stored."""
    reply = {"role": "assistant", "content": "Yes"}
    with pytest.raises(ValueError, match="latency is -1: pass seconds, from 0 to 1,000,000,000"):
        chat.record(reply, latency=-1)
    assert chat.version == 0
    chat.record(reply, latency=1.25)
    *_, facts = [recorded.event for recorded in chat.events()]
    assert facts == ModelResponded("openai", latency=1_250_000)
