"""A decision is bound to what was seen, an approval may expire, and each is used once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    ApprovalExpired,
    AsyncEventStore,
    CallChanged,
    Conversation,
    EventStore,
    IllegalTransition,
    Pending,
    Revision,
    Tool,
    UnparsedArguments,
)
from eventstore.testing import NOON, FrozenClock
from projections import Projector, pending_approvals, replay, resume_plan

HOUR = timedelta(hours=1)


class Desk:
    """The verbs of a blocking or an async handle, called without `await`."""

    def __init__(self, kind: str, store: EventStore) -> None:
        self._kind = kind
        self._store = store

    def __call__(self, verb: str, *args: Any, **options: Any) -> Tool:
        """Call a verb of the conversation."""
        if self._kind == "sync":
            done = getattr(self._store.conversation("c"), verb)(*args, **options)
        else:

            async def go() -> Any:
                chat = AsyncEventStore(self._store).conversation("c")
                return await getattr(chat, verb)(*args, **options)

            done = asyncio.run(go())
        return getattr(done, "tool", done)  # type: ignore[no-any-return]


@pytest.fixture(params=["sync", "async"])
def desk(request: pytest.FixtureRequest, store: EventStore) -> Desk:
    """Return the verbs of one kind of handle."""
    return Desk(request.param, store)


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """Return the conversation of the desk, with a call that waits."""
    chat = store.conversation("c")
    chat.request("pay", {"euros": 1}, "c1")
    return chat


def is_edited(chat: Conversation) -> None:
    """Another desk approves it with other arguments."""
    chat.approve("c1", {"euros": 9000})


def is_started(chat: Conversation) -> None:
    """Another desk approves it, and it starts."""
    chat.approve("c1")
    chat.start("c1")


def has_paused(chat: Conversation) -> None:
    """It starts, and its tool asks again for the same."""
    chat.approve("c1")
    chat.begin("c1").pause(reason="more than 1,000")


def is_deferred(chat: Conversation) -> None:
    """It waits for a time."""
    chat.defer("c1", NOON + 1)


# bound to what was seen


@pytest.mark.parametrize("as_text", [False, True], ids=["Tool", "text"])
@pytest.mark.parametrize("verb", ["approve", "reject"])
@pytest.mark.parametrize("change", [is_edited, is_started, has_paused, is_deferred])
def test_a_call_that_has_changed_is_not_decided_on(
    desk: Desk, chat: Conversation, change: Callable[[Conversation], None], verb: str, as_text: bool
) -> None:
    """The error has the call as it is, with which the decision can be made again."""
    seen = chat.tool("c1")
    change(chat)
    before = chat.version
    with pytest.raises(CallChanged, match=r"look at it again, and decide") as caught:
        desk(verb, "c1", seen=str(seen.revision) if as_text else seen)
    assert (chat.version, caught.value.now) == (before, chat.tool("c1"))
    assert caught.value.seen == seen.revision
    if caught.value.now.is_pending:
        again = desk(verb, "c1", seen=caught.value.now)
        assert again.status.name in ("Approved", "Rejected")


def test_the_same_decision_may_come_twice(desk: Desk, chat: Conversation) -> None:
    """The same edit may, too; another decision is refused, and the first stands."""
    seen = chat.tool("c1")
    first = desk("approve", "c1", {"euros": 2}, "ann", seen=seen)
    assert desk("approve", "c1", {"euros": 2}, "bob", seen=seen) == first
    with pytest.raises(CallChanged, match="other arguments"):
        desk("approve", "c1", seen=seen)
    with pytest.raises(IllegalTransition, match="the first decision stands"):
        desk("approve", "c1", {"euros": 3}, seen=first)


def test_a_decision_without_an_edit_leaves_the_revision(chat: Conversation) -> None:
    """A refusal before the start is heard, though an approval was faster."""
    seen = chat.tool("c1")
    assert chat.approve("c1", by="ann").revision == seen.revision
    assert chat.reject("c1", by="bob", seen=seen).status.name == "Rejected"


def test_a_revision_is_of_one_call_and_its_exact_arguments(chat: Conversation) -> None:
    """The order of members does not count; 1, 1.0 and true differ, and so do two ids."""
    texts = ['{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"a": 1.0, "b": 2}', '{"a": true, "b": 2}']
    asked = [chat.request("f", text, "x").revision for text in texts[:2]]
    asked += [chat.request("f", text).revision for text in texts]
    assert (asked[0], len(set(asked))) == (asked[1], 5)
    assert Revision.parse(str(asked[0])) == asked[0]


@pytest.mark.parametrize(
    ("seen", "error", "complaint"),
    [
        ("another", ValueError, "seen is call 'c2', and the decision is on 'c1': pass"),
        ("0.0.", ValueError, "which is no revision of a call: pass"),
        ("-1.0." + "0" * 32, ValueError, "which is no revision of a call: pass"),
        ("", ValueError, "which is no revision of a call: pass"),
        (7, TypeError, "seen is 7: pass the Tool that was shown"),
    ],
)
def test_another_call_and_a_damaged_revision_are_refused(
    desk: Desk, chat: Conversation, seen: Any, error: type[Exception], complaint: str
) -> None:
    """Nothing is written."""
    if seen == "another":
        seen = chat.request("pay", {"euros": 1}, "c2")
    before = chat.version
    with pytest.raises(error, match=complaint):
        desk("approve", "c1", seen=seen)
    assert chat.version == before


def test_an_error_shows_no_arguments(chat: Conversation) -> None:
    """Arguments may be secret; `error.now` has the call for the person to see."""
    seen = chat.tool("c1")
    chat.approve("c1", {"password": "hunter2"})
    with pytest.raises(CallChanged) as caught:
        chat.approve("c1", seen=seen)
    assert "hunter2" not in f"{caught.value!s} {caught.value!r}"
    assert caught.value.now.effective_call.arguments == {"password": "hunter2"}


def test_arguments_that_are_no_object_are_approved_with_an_edit_alone(
    desk: Desk, chat: Conversation
) -> None:
    """The tool could not run with them."""
    chat.request("pay", '{"euros": ', "raw")
    with pytest.raises(UnparsedArguments):
        desk("approve", "raw")
    assert desk("approve", "raw", {"euros": 1}).status.name == "Approved"


STEPS: list[Callable[[Conversation], object]] = [
    lambda chat: chat.approve("c1"),
    lambda chat: chat.approve("c1", {"euros": 2}),
    lambda chat: chat.approve("c1", {"euros": 1}),
    lambda chat: chat.start("c1"),
    lambda chat: chat.defer("c1", NOON),
    lambda chat: chat.session.run(pause_of("c1", 0)),
    lambda chat: chat.session.run(pause_of("c1", chat.tool("c1").attempts)),
    lambda chat: chat.fail("c1", "no", delay=1),
]


def pause_of(call_id: str, attempt: int) -> Any:
    """Return the command of a pause until a person decides."""
    from eventstore.append.commands import attempts

    return attempts.pause("c", call_id, attempt=attempt)


@given(st.lists(st.integers(0, len(STEPS) - 1), max_size=12), st.data())
def test_a_decision_stands_only_on_what_was_seen(steps: list[int], data: st.DataObject) -> None:
    """A refusal by someone who saw the call at any time counts unless it changed since.

    It has changed if its arguments differ, or the log has a start or a pause since then.
    """
    with EventStore.open("sqlite://", clock=FrozenClock()) as store:
        chat = store.conversation("c")
        seen = [(chat.request("pay", {"euros": 1}, "c1"), chat.version)]
        for step in steps:
            try:
                STEPS[step](chat)
            except IllegalTransition:
                continue
            seen.append((chat.tool("c1"), chat.version))
        shown, version = data.draw(st.sampled_from(seen))
        now = chat.tool("c1")
        since = [recorded.event.tag for recorded in chat.events(version)]
        same = (
            now.effective_call == shown.effective_call
            and "running" not in since
            and "paused" not in since
        )
        try:
            chat.reject("c1", seen=str(shown.revision))
        except CallChanged:
            assert not same
        except IllegalTransition:
            assert now.status.name in ("Running", "Failed")
        else:
            assert same


# approvals that expire


@pytest.mark.parametrize("expires", [HOUR, NOON + 3_600_000_000, "datetime"])
def test_nothing_starts_on_an_approval_that_has_expired(
    desk: Desk, chat: Conversation, clock: FrozenClock, store: EventStore, expires: Any
) -> None:
    """The call waits for a decision again: in the log, in the inbox and in the plan."""
    if expires == "datetime":
        expires = datetime.fromtimestamp(clock.now / 1_000_000, UTC) + HOUR
    seen = chat.tool("c1")
    given_ = desk("approve", "c1", {"euros": 2}, "ann", seen=seen, expires=expires)
    assert given_.expires_at == clock.now + 3_600_000_000
    clock.advance(3600)
    with pytest.raises(ApprovalExpired, match=r"has expired: approve\(\) or reject\(\) it") as late:
        desk("start", "c1")
    assert late.value.now == chat.tool("c1")
    (waiting,) = pending_approvals(store)
    assert (waiting.arguments, waiting.reason) == ({"euros": 2}, "the approval by ann has expired")
    assert [step.action for step in resume_plan(chat.events()).steps] == ["waiting"]
    desk("approve", "c1", by="bob", seen=waiting.revision, expires=HOUR)
    clock.advance(3599)
    assert desk("start", "c1").status.name == "Running"


def test_an_old_decision_does_not_renew_an_approval(
    desk: Desk, chat: Conversation, clock: FrozenClock
) -> None:
    """A form that is sent twice is one decision; one on the call as it is renews it."""
    seen = chat.tool("c1")
    desk("approve", "c1", seen=seen, expires=HOUR)
    clock.advance(3600)
    with pytest.raises(ApprovalExpired):
        desk("approve", "c1", seen=seen, expires=HOUR)
    with pytest.raises(CallChanged, match="waited again 1 times, not 0"):
        desk("approve", "c1", seen=seen, expires=HOUR)
    desk("approve", "c1", expires=HOUR)
    clock.advance(3600)
    assert desk("approve", "c1", by="bob").expires_at is None
    assert desk("start", "c1").status.name == "Running"


EXPIRED = "its approval has expired"


def approved_calls(chat: Conversation) -> None:
    """Approve two calls for an hour: "c1" is deferred, and "c2" has failed, to be tried again."""
    chat.request("pay", {}, "c2")
    for call_id in ("c1", "c2"):
        chat.approve(call_id, expires=HOUR)
    chat.defer("c1", NOON + 2 * 3_600_000_000, "rates")
    chat.start("c2")
    chat.fail("c2", "busy", delay=3600)


def test_an_approval_expires_for_a_deferred_call_and_for_a_retry(
    desk: Desk, chat: Conversation, clock: FrozenClock
) -> None:
    """A deferral keeps it in force no longer, and an announced attempt is asked about again."""
    approved_calls(chat)
    clock.advance(3600)
    for call_id in ("c1", "c2"):
        with pytest.raises(ApprovalExpired, match="has expired: approve") as late:
            desk("start", call_id, 2 if call_id == "c2" else None)
        assert late.value.now.status == Pending(None, True, "the approval has expired")
        assert late.value.now == chat.tool(call_id)
    desk("approve", "c2", by="bob")
    assert desk("start", "c2").attempts == 2


def test_a_call_whose_approval_has_expired_waits_everywhere(
    store: EventStore, chat: Conversation, clock: FrozenClock
) -> None:
    """The log has that only from the first try to start it on.

    It was approved, deferred to a later time, or failed with an attempt to come.
    """
    approved_calls(chat)
    chat.request("pay", {}, "c3")
    chat.approve("c3", expires=HOUR)
    with Projector(store) as projector:
        projector.catch_up()
        for seconds, inbox, actions in (
            (3599, {"c1": "rates"}, ["scheduled", "retry", "start"]),
            (1, dict.fromkeys(("c1", "c2", "c3"), EXPIRED), ["waiting"] * 3),
        ):
            clock.advance(seconds)
            for found in (pending_approvals(store), projector.pending_approvals()):
                assert {each.call_id: each.reason for each in found} == inbox
                assert all(each.until is None or each.reason == "rates" for each in found)
            steps = resume_plan(chat.events(), now=store.now()).steps
            assert [step.action for step in steps] == actions
    waiting = [step for step in steps if step.action == "waiting"]
    assert [(step.reason, step.not_before) for step in waiting] == [
        (f"{EXPIRED}: it waits for a decision", None)
    ] * 3


@pytest.mark.parametrize("fails", [False, True])
def test_an_idempotent_call_in_doubt_is_not_started_on_an_approval_that_has_expired(
    store: EventStore, chat: Conversation, clock: FrozenClock, fails: bool
) -> None:
    """The plan knows what a start would refuse: the outside system is to be asked."""
    chat.approve("c1", expires=HOUR)
    chat.start("c1")
    if fails:
        chat.fail("c1", TimeoutError())
    for seconds, action in ((3599, "retry"), (1, "unknown")):
        clock.advance(seconds)
        plan = resume_plan(chat.events(), now=store.now(), is_idempotent=lambda _: True)
        assert [step.action for step in plan.steps] == [action]
    with pytest.raises(ApprovalExpired):
        chat.start("c1", 2)


@pytest.mark.parametrize("ends", [(None, HOUR), (HOUR, None)])
def test_a_second_approval_does_not_seem_to_change_the_end_of_the_first(
    chat: Conversation, ends: tuple[timedelta | None, timedelta | None]
) -> None:
    """The same decision may be told again."""
    first, second = ends
    chat.approve("c1", by="ann", expires=first)
    with pytest.raises(IllegalTransition, match="the first decision stands"):
        chat.approve("c1", by="bob", expires=second)
    assert chat.approve("c1", by="ann", expires=first).status == chat.tool("c1").status


@pytest.mark.parametrize(
    ("expires", "error"),
    [
        (timedelta(), ValueError),
        (NOON, ValueError),
        (3600.0, TypeError),
        (datetime(2030, 1, 1), ValueError),  # noqa: DTZ001 - without a zone
    ],
)
def test_an_expiry_lies_in_the_future_and_has_a_unit(
    desk: Desk, chat: Conversation, expires: Any, error: type[Exception]
) -> None:
    """Seconds are a `timedelta`, because a number is microseconds since 1970."""
    with pytest.raises(error, match="expires is"):
        desk("approve", "c1", expires=expires)
    assert chat.tool("c1").is_pending


def test_a_replay_shows_when_an_approval_ends(chat: Conversation) -> None:
    """`toolledger replay` prints the same line."""
    chat.approve("c1", by="ann", expires=HOUR)
    assert "c1 by ann until 2023-11-14 23:13:20" in "\n".join(map(str, replay(chat.events())))


# used once


def test_an_approval_is_used_by_its_attempt_and_those_announced_after_it(
    desk: Desk, chat: Conversation
) -> None:
    """Any other one needs its number: a person allowed the first, which failed."""
    desk("approve", "c1", by="ann")
    desk("start", "c1")
    desk("fail", "c1", "busy", delay=1)
    assert desk("start", "c1").attempts == 2
    desk("fail", "c1", "refused")
    with pytest.raises(IllegalTransition, match=r"approval was for what has failed.*attempt=3"):
        desk("start", "c1")
    assert desk("start", "c1", 3).attempts == 3


def test_a_call_that_needed_no_approval_is_started_again_as_before(
    desk: Desk, chat: Conversation
) -> None:
    """Nobody decided on it."""
    desk("start", "c1")
    desk("fail", "c1", "refused")
    assert desk("start", "c1").attempts == 2
