"""Windows and summaries: older turns are left out whole, and a summary may replace them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken import registry

from eventstore import Conversation, EventStore, Recorded, validate
from eventstore.providers import PROVIDERS, list_key
from projections import model_history, token_counter


@pytest.fixture
def chat() -> Iterator[Conversation]:
    """Return a conversation of the system and three questions; the first call is answered last."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.add_message("system", "Be brief.")  # version 1
        chat.add_message("user", "first?")  # 2
        late = chat.request("slow", {"n": 1}, call_id="late")  # 3
        chat.add_message("user", "second?")  # 4
        quick = chat.request("quick", {"n": 2}, call_id="quick")  # 5
        chat.complete(quick.id, "two")  # 6
        chat.add_message("user", "third?")  # 7
        chat.complete(late.id, "one")  # 8
        yield chat


def texts(events: Any, **options: Any) -> list[str]:
    """Return the texts of OpenAI's messages, in order."""
    shown = model_history(events, **options).render("openai")["messages"]
    assert validate(shown, "openai") == []
    return [message["content"] or message["tool_calls"][0]["id"] for message in shown]


def test_a_window_since_a_version_keeps_turns_with_later_events(chat: Conversation) -> None:
    """A turn whose result came after that version stays whole, with everything after it."""
    events = list(chat.events())
    assert texts(events[:7], since=7) == ["Be brief.", "third?"]
    assert texts(events, since=7) == ["Be brief.", *texts(events)[2:]]
    assert texts(events, since=1) == texts(events)


def test_without_turns_since_a_version_only_the_summary_is_shown(chat: Conversation) -> None:
    """No turn lies after the end of the log."""
    assert texts(chat.events(), since=9) == ["Be brief."]
    assert texts(chat.events(), since=9, summary="All said.") == ["Be brief.", "All said."]


def test_a_summary_stands_where_the_older_turns_stood(chat: Conversation) -> None:
    """The repair lists the turns that it replaces; without such turns there is no summary."""
    history = model_history(chat.events(), last_turns=1, summary="Two calls came before.")
    said = [message["content"] for message in history.render("openai")["messages"]]
    assert said == ["Be brief.", "Two calls came before.", "second?", None, "two", "third?"]
    (cut,) = [repair for repair in history.repairs if repair.rule == "window"]
    assert (cut.what, cut.versions) == ("collapsed", (2, 3))
    assert "last 1 turn" in cut.why
    assert "Nothing." not in texts(chat.events(), last_turns=2, summary="Nothing.")


def test_a_window_without_a_summary_names_the_dropped_turns(chat: Conversation) -> None:
    """The repair has the versions of the turns."""
    (cut,) = model_history(chat.events(), last_turns=1).repairs
    assert (cut.what, cut.rule, cut.versions) == ("dropped", "window", (2, 3))


def test_a_pinned_message_stays_in_every_window(chat: Conversation) -> None:
    """A pinned turn stays with its call and result; its tokens are counted first."""
    events = list(chat.events())
    pinned = texts(events, last_turns=1, pinned=[2])
    assert pinned == ["Be brief.", "first?", "second?", "quick", "two", "third?"]
    whole = texts(events, since=9, pinned={3}, summary="Late.")
    assert whole == ["Be brief.", "late", "one", "Late."]
    room = len("Be brief.") + len("third?") + len("first?")

    def within(most: int) -> list[str]:
        return texts(events, max_tokens=most, count_tokens=len, pinned=[2])

    assert within(room + len("second?")) == ["Be brief.", "first?", "third?"]
    (cut,) = model_history(events, last_turns=1, pinned=[2]).repairs
    assert cut.versions == (3,)


def test_a_budget_counts_the_summary_too(chat: Conversation) -> None:
    """The tokens of the summary are not available for turns; several limits hold all at once."""

    def within(most: int, **options: Any) -> list[str]:
        return texts(chat.events(), max_tokens=most, count_tokens=len, **options)[1:]

    system, last = len("Be brief."), len("third?")
    assert within(system + last + 22) == ["quick", "two", "third?"]
    assert within(system + last + 22, summary="Hm. Hm.") == ["Hm. Hm.", "third?"]
    assert within(1000, summary="unused", last_turns=2)[0] == "first?"
    assert within(1000, summary="reported", last_turns=1)[0] == "reported"


def test_a_budget_counts_shown_content_only(chat: Conversation) -> None:
    """A collapsed call is not counted; the note on it is."""
    chat.request("f", {"a": 1}, call_id="one")
    chat.add_message("assistant", "again")
    chat.request("f", {"a": 1}, call_id="two")
    chat.start("one")
    chat.fail("one", ValueError("busy"))
    chat.start("two")
    chat.complete("two", "done")
    counted: list[str] = []
    model_history(
        chat.events(),
        collapse="failed",
        max_tokens=1000,
        count_tokens=lambda text: counted.append(text) or 1,  # type: ignore[func-returns-value]
    )
    assert 'f\n{"a":1}\ndone\n[1 other attempt failed: busy]' in "\n".join(counted)
    assert "".join(counted).count('{"a":1}') == 1


@given(
    last_turns=st.none() | st.integers(1, 4),
    most=st.none() | st.integers(1, 120),
    since=st.none() | st.integers(1, 10),
    pinned=st.sets(st.integers(1, 8)),
    summary=st.none() | st.just("Before: this and that."),
    end=st.integers(0, 8),
)
def test_every_window_is_valid_for_every_provider(
    last_turns: int | None,
    most: int | None,
    since: int | None,
    pinned: set[int],
    summary: str | None,
    end: int,
) -> None:
    """Calls keep their results in every window; the same window gives the same bytes."""
    for provider in PROVIDERS:
        history = model_history(
            LOG[:end],
            last_turns=last_turns,
            max_tokens=most,
            since=since,
            pinned=pinned,
            summary=summary,
            count_tokens=None if most is None else len,
        )
        shown = history.render(provider)
        assert shown == history.render(provider)
        messages = shown[list_key(provider)]
        if messages:
            assert validate(messages, provider) == []


def _log() -> list[Recorded]:
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.add_message("user", "first?")
        chat.record(
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
                    {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}},
                ],
            },
            "anthropic",
        )
        chat.complete("toolu_1", "one")
        chat.add_message("user", "second?")
        chat.complete("toolu_2", {"two": 2})
        chat.add_message("assistant", "Done.")
        return list(chat.events())


LOG = _log()


def test_reasoning_is_cut_with_its_turn_or_not_at_all() -> None:
    """A message and its thinking are shown together or left out together."""
    for version in range(1, len(LOG) + 2):
        shown = str(model_history(LOG, since=version, summary="s").render("anthropic"))
        assert ("c2ln" in shown) == ("toolu_1" in shown) == ("toolu_2" in shown)


# counting


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return an encoding of tiktoken's that needs no network: one token per byte."""
    known = tiktoken.Encoding(
        "letters",
        pat_str=r".|\n",
        mergeable_ranks={bytes([n]): n for n in range(256)},
        special_tokens={"<|end|>": 256},
    )
    monkeypatch.setitem(registry.ENCODINGS, "letters", known)
    return "letters"


def test_tiktoken_counts_where_it_is_installed(letters: str) -> None:
    """Text that looks like a special token of the model is counted, too."""
    count = token_counter(letters)
    assert [count(text) for text in ("", "abc", "<|end|>")] == [0, 3, 7]


def test_a_budget_without_a_counter_is_counted_by_tiktoken(
    chat: Conversation, letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoding is that of today's models."""
    get = tiktoken.get_encoding
    asked: list[str] = []
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: asked.append(name) or get(letters))
    assert texts(chat.events(), max_tokens=20) == ["Be brief.", "third?"]
    assert asked == ["o200k_base"]


def test_an_encoding_that_cannot_be_loaded_is_named() -> None:
    """The error says what to do instead."""
    with pytest.raises(ValueError, match=r"cannot load 'runes' .*: pass count_tokens"):
        token_counter("runes")


def test_without_tiktoken_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error also says that the caller may pass a counter."""
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ValueError, match="pip install tiktoken, or pass count_tokens"):
        token_counter()
