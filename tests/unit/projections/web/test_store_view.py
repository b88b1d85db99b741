"""The fold behind the pages: the same in parts as in one piece, and the same as other folds."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from support.played_logs import STEPS, Step, play
from support.tiers import examples

from eventstore import EventStore
from projections import error_statistics, pending_approvals
from projections.debugging.conversation_summary import conversation_summary
from projections.web.store_view import MAX_LINES, MAX_NEWEST, StoreView


@settings(max_examples=examples(30))
@given(one=STEPS, other=STEPS, cut=st.integers(0, 40))
def test_the_view_agrees_with_the_log(one: list[Step], other: list[Step], cut: int) -> None:
    """Its counts are those of the summaries, its approvals those of the inbox."""
    with EventStore.open("sqlite://") as store:
        for name, steps in (("one", one), ("other", other)):
            play(store.conversation(name), steps)
        events = list(store.read())
        view = StoreView()
        view.extend(events[:cut])
        view.extend(events[cut:])
        assert view.approvals(store.now()) == pending_approvals(store)
        for name, version in store.conversations():
            line = view.conversations[name]
            summary = conversation_summary(name, store.conversation(name).events())
            assert (line.version, line.calls, line.open, line.end.name) == (
                version,
                summary.calls,
                summary.open,
                summary.last,
            )
            counted = error_statistics(store.conversation(name).events()).overall
            assert summary.failed == counted.terminal_failures
            assert line.last_at == summary.last_at
    failed = error_statistics(events).overall.failures
    assert sum(each.count for each in view.errors.values()) == failed
    assert sum(view.errors_by_hour.values()) == failed
    assert Counter(line.failed for line in view.conversations.values()).total() == len(
        view.conversations
    )
    assert [(each.conversation_id, each.version) for each in view.newest] == [
        (each.conversation_id, each.version) for each in events[-MAX_NEWEST:]
    ]


def test_calls_are_counted_as_in_the_statistics(store: EventStore) -> None:
    """A later attempt is open, a settlement is no failure, and an imported call may have no end."""
    chat = store.conversation("c")
    tried, settled = chat.request("find"), chat.request("pay")
    for call in (tried, settled, tried):
        chat.start(call.id)
        if call is tried:
            chat.fail(call.id, ValueError("gone"))
    chat.start(tried.id)
    chat.settle(settled.id, seen=chat.tool(settled.id), failed="no such payment", by="ann")
    asked = {"id": "i", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    chat.record_messages([{"role": "assistant", "tool_calls": [asked]}], "openai")
    view = StoreView()
    view.extend(store.read())
    line, counted = view.conversations["c"], error_statistics(store.read()).overall
    assert (line.calls, line.open, line.failed) == (3, 2, 2)
    assert (counted.calls, counted.open, counted.failures) == (3, 2, 2)
    (error,) = view.errors.values()
    assert (error.tool, error.line, error.count) == ("find", "gone", 2)


def test_memory_is_bounded(store: EventStore) -> None:
    """The frequent ones of very many different errors are kept."""
    chat = store.conversation("c")
    for number in range(MAX_LINES + 20):
        call = chat.request(f"tool{number % 7}")
        for _ in range(2 if number < 5 else 1):
            chat.start(call.id)
            chat.fail(
                call.id,
                ValueError(f"broken {'x' * (number % 50)} {chr(97 + number % 26)}{number:x}z"),
            )
    view = StoreView()
    view.extend(store.read())
    assert len(view.errors) <= MAX_LINES
    assert len(view.newest) == MAX_NEWEST
    assert [each.count for each in view.errors.values()].count(2) == 5


def test_an_error_that_was_copied_counts_where_it_happened(store: EventStore) -> None:
    """Each conversation's line has it."""
    chat = store.conversation("c")
    tried = chat.request("find")
    chat.start(tried.id)
    chat.fail(tried.id, ValueError("gone"))
    chat.fork(chat.version, "copy")
    view = StoreView()
    view.extend(store.read())
    assert [(line.id, line.failed) for line in view.conversations.values()] == [
        ("c", 1),
        ("copy", 1),
    ]
    assert [(each.count, each.conversation_id) for each in view.errors.values()] == [(1, "c")]
    assert sum(view.errors_by_hour.values()) == 1
