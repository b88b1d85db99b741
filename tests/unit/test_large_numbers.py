"""Numbers of more than 64 bits, and times that will not come, are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from eventstore import (
    Conversation,
    ConversationCursor,
    Cursor,
    Dispatcher,
    ErrorKind,
    EventStore,
    Failed,
    Failure,
    FunctionTool,
    MessageAdded,
    RetryPolicy,
    Tool,
)

BIG = 2**70


def cursor_at(store: EventStore, position: int) -> Cursor:
    """Return a cursor of the store at a position of its first lane."""
    return Cursor(store.end().epoch, ((0, position),), ())


@pytest.mark.parametrize(
    ("use", "named"),
    [
        (lambda _, c, __: c.append(MessageAdded("user"), occurred_at=[2**63]), "occurred_at is 92"),
        (lambda _, c, __: c.append(MessageAdded("user"), expected_version=BIG), "expected_version"),
        (lambda _, c, __: list(c.events(after=BIG)), "after is 11805"),
        (lambda _, c, __: c.follow(BIG), "after is 11805"),
        (lambda _, c, __: c.follow(f"{BIG}"), "after is 11805"),
        (lambda _, c, __: c.follow(ConversationCursor(BIG)), "after is 11805"),
        (lambda _, c, __: c.fork(BIG, "fork"), "at is 11805"),
        (lambda _, c, tool: c.defer(tool.id, until=BIG), "until is 11805"),
        (lambda _, c, tool: c.approve(tool.id, expires=BIG), "expires is 11805"),
        (lambda _, c, tool: c.approve(tool.id, expires=timedelta.max), "expires is datetime"),
        (lambda _, c, tool: c.fail(tool.id, "busy", delay=1e300), "delay is 1e"),
        (lambda s, _, __: list(s.read(cursor_at(s, BIG))), "has a position that no log has"),
        (lambda s, _, __: list(s.read(cursor_at(s, -1))), "has a position that no log has"),
        (lambda s, _, __: s.follow(cursor_at(s, BIG)), "has a position that no log has"),
    ],
)
def test_a_number_that_no_log_holds_is_refused(
    use: Callable[[EventStore, Conversation, Tool], object], named: str
) -> None:
    """The error names the argument and its value, and nothing is stored."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        tool = chat.request("f")
        with pytest.raises(ValueError, match=named):
            use(store, chat, tool)
        assert chat.version == 1


def test_a_wait_that_does_not_end_is_no_wait() -> None:
    """The failure is recorded, and no attempt is announced."""

    def busy() -> None:
        raise ConnectionRefusedError

    def classify(_: BaseException) -> Failure:
        return Failure(ErrorKind.RATE_LIMIT, "busy", retry_after=1e300)

    tool = FunctionTool(busy, retry=RetryPolicy(3, 1, 1e301), classify=classify, idempotent=True)
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        (done,) = Dispatcher(chat, [tool]).dispatch([chat.request("busy")])
        assert isinstance(done.status, Failed)
        assert done.attempts == 1
