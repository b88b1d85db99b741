"""Cache breaks: which requests of a log do not begin with the one before."""

from __future__ import annotations

import timeit
from time import process_time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from eventstore import Conversation, EventStore, MessageAdded, ToolPending
from eventstore.providers import PROVIDERS
from projections import cache_breaks, model_history

Step = tuple[str, int]

STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(["ask", "fail", "complete"]), st.integers(0, 1)), max_size=12
)


def play(chat: Conversation, steps: list[Step]) -> None:
    """Record the user's questions, and turns of one call that is answered before the next."""
    chat.add_message("user", "begin")
    for kind, number in steps:
        if kind == "ask":
            chat.add_message("user", f"question {number}")
            continue
        chat.add_message("assistant", "I try.")
        call = chat.request("find", {"number": number})
        chat.start(call.id)
        if kind == "fail":
            chat.fail(call.id, f"busy {number}")
        else:
            chat.complete(call.id, "found")


@settings(max_examples=examples(30))
@given(steps=STEPS)
def test_a_tool_loop_never_rewrites_what_the_model_has_seen(steps: list[Step]) -> None:
    """A request begins with the one before, but for what is left out when the user speaks."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        play(chat, steps)
        events = list(chat.events())
    provider: Any
    for provider in PROVIDERS:
        assert cache_breaks(events, provider, collapse="none", prefill=True) == []
        for broken in cache_breaks(events, provider, prefill=True):
            last = events[broken.version - 1].event
            assert isinstance(last, MessageAdded)
            assert last.role == "user"
            assert "collapsed" in {repair.what for repair in broken.repairs}
            assert broken.lost > 0


@settings(max_examples=examples(30))
@given(steps=STEPS)
def test_a_call_that_was_left_out_stays_left_out(steps: list[Step]) -> None:
    """The history before a user's message is the same for ever."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        play(chat, steps)
        chat.add_message("user", "and then?")
        before = model_history(chat.events()).render("openai")["messages"]
        play(chat, steps)
        assert model_history(chat.events()).render("openai")["messages"][: len(before)] == before


def test_a_break_names_its_version_and_what_is_new(chat: Conversation) -> None:
    """A break counts the bytes of the request before, without the brackets at its end."""
    play(chat, [("fail", 1), ("complete", 1)])
    events = list(chat.events())
    assert cache_breaks(events, "openai") == []
    (broken,) = cache_breaks(events, "openai", collapse="failed")
    assert broken.version == len(events)
    assert [repair.what for repair in broken.repairs] == ["collapsed"]
    assert broken.kept > 0
    assert broken.lost > 0


def test_a_late_answer_is_a_break(chat: Conversation) -> None:
    """The answer takes the place of the words that stood for it, whose repair is the reason."""
    chat.add_message("user", "go")
    call = chat.request("slow")
    chat.add_message("assistant", "It takes long.")
    chat.add_message("user", "Is it done?")
    chat.complete(call.id, "yes")
    (broken,) = cache_breaks(chat.events(), "openai", prefill=True)
    assert broken.version == chat.version
    assert [(repair.call_id, repair.what) for repair in broken.repairs] == [(call.id, "answered")]


def test_an_empty_log_has_no_breaks() -> None:
    """There is no request before the first."""
    assert cache_breaks([], "openai") == []


def test_wrong_options_are_refused(chat: Conversation) -> None:
    """The options are those of `model_history`."""
    with pytest.raises(ValueError, match="collapse"):
        cache_breaks(chat.events(), "openai", collapse="some")  # type: ignore[arg-type]


LOOPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(["ask", "say", "fail", "complete", "open", "late", "system"]),
        st.integers(0, 1),
    ),
    max_size=30,
)

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"collapse": "failed"},
    {"collapse": "all"},
    {"last_turns": 3},
    {"last_turns": (2, 5), "summary": "Much was said."},
    {"max_tokens": (20, 60), "count_tokens": len, "prefill": True},
)


def play_all(chat: Conversation, steps: list[Step]) -> None:
    """Record turns of every kind: with calls that stay open, and answers that come late."""
    chat.add_message("user", "begin")
    waiting: list[str] = []
    for kind, number in steps:
        if kind in ("ask", "system"):
            chat.add_message("user" if kind == "ask" else "system", f"words {number}")
        elif kind == "say":
            chat.add_message("assistant", "I think.")
        elif kind == "late" and waiting:
            chat.complete(waiting.pop(0), "found late")
        else:
            call = chat.request("find", {"number": number})
            chat.start(call.id)
            if kind == "fail":
                chat.fail(call.id, f"busy {number}")
            elif kind == "complete":
                chat.complete(call.id, "found")
            else:
                waiting.append(call.id)


def compared_whole(events: list[Any], provider: Any, options: Any) -> list[tuple[int, int, int]]:
    """Return the breaks by requests that are each made anew and compared as a whole."""
    turns: set[int | None] = {None}
    versions: list[int] = []
    for recorded in events[1:]:
        event = recorded.event
        is_turn = isinstance(event, ToolPending)
        is_turn = is_turn or (isinstance(event, MessageAdded) and event.role == "assistant")
        if is_turn and (event.turn is None or event.turn not in turns):
            versions.append(recorded.version - 1)
            turns.add(event.turn)
    found, before = [], None
    for version in [*versions, len(events)]:
        request = model_history(events[:version], **options).render(provider)
        in_order = sorted(request.items(), key=lambda member: isinstance(member[1], list))
        text = msgspec.json.encode(in_order)
        if before is not None and not text.startswith(before):
            pairs = zip(before, text, strict=False)
            kept = next((n for n, (one, two) in enumerate(pairs) if one != two), len(text))
            found.append((version, kept, len(before) - kept))
        before = text.rstrip(b"]}")
    return found


@settings(max_examples=examples(15))
@given(steps=LOOPS, number=st.integers(0, len(OPTIONS) - 1))
def test_each_break_is_found_and_no_other(steps: list[Step], number: int) -> None:
    """Requests that are rendered in part give what whole requests give, for every provider."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        play_all(chat, steps)
        events = list(chat.events())
    provider: Any
    for provider in PROVIDERS:
        breaks = cache_breaks(events, provider, **OPTIONS[number])
        listed = [(each.version, each.kept, each.lost) for each in breaks]
        assert listed == compared_whole(events, provider, OPTIONS[number])


def test_four_times_the_calls_take_four_times_as_long() -> None:
    """At most six times, by the CPU of one run after the other."""

    def seconds(calls: int) -> float:
        with EventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            play(chat, [("complete", number) for number in range(calls)])
            events = list(chat.events())
        return min(
            timeit.repeat(
                lambda: cache_breaks(events, "openai"), timer=process_time, repeat=3, number=1
            )
        )

    assert seconds(800) < 6 * seconds(200)
