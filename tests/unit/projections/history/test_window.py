"""Windows and summaries: older turns are left out whole, and a summary may replace them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mistral_common
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from tiktoken import registry

from eventstore import Conversation, EventStore, Recorded, Text, validate
from eventstore.providers import PROVIDERS, Turn, list_key
from projections import cache_breaks, estimate_tokens, model_history, token_counter

ROOT = Path(__file__).resolve().parents[4]
TEKKEN = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
"""The tokenizer of a current model, which comes with a package."""


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


def test_a_budget_without_a_counter_is_estimated(
    chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is loaded or fetched: 3 bytes a token, and a digit counts for two of them."""
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert [estimate_tokens(text) for text in ("", "abc", "abcd", "12", "één")] == [0, 1, 2, 2, 2]
    events = list(chat.events())
    for most in range(5, 60):
        counted = texts(events, max_tokens=most, count_tokens=estimate_tokens)
        assert texts(events, max_tokens=most) == counted


def test_the_estimate_is_rather_too_high() -> None:
    """Prose, Python and JSON have fewer tokens, but at least two thirds of the estimate."""
    counted = Tekkenizer.from_file(str(TEKKEN))
    for file in ("docs/repair.md", "projections/replay.py", "tests/data/histories.json"):
        text = (ROOT / file).read_text("utf-8")[:50_000]
        tokens = len(counted.encode(text, bos=False, eos=False))
        assert tokens <= estimate_tokens(text) <= 1.5 * tokens, file


def test_an_encoding_that_cannot_be_loaded_is_named() -> None:
    """The error says what to do instead."""
    with pytest.raises(ValueError, match=r"cannot load 'runes' .*: pass count_tokens"):
        token_counter("runes")


def test_without_tiktoken_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error also says that the caller may pass a counter."""
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ValueError, match=r"toolledger\[tiktoken\]', or pass count_tokens"):
        token_counter()


def of_many_turns(chat: Conversation) -> list[Recorded]:
    """Return the events of 40 questions, each with a call and an answer of many words."""
    for number in range(40):
        chat.add_message("user", f"question {number}")
        call = chat.request("find", {"number": number})
        chat.complete(call.id, "found " * 10)
        chat.add_message("assistant", "It is there. " * (number % 5 + 1))
    return list(chat.events())


@pytest.mark.parametrize(
    "window", [{"last_turns": (10, 30)}, {"max_tokens": (400, 1_000)}], ids=["turns", "tokens"]
)
def test_a_window_with_two_marks_keeps_the_cache(window: Any) -> None:
    """At most one of ten requests of a long run breaks; with one mark nearly every one does."""
    with EventStore.open("sqlite://") as store:
        events = of_many_turns(store.conversation("c"))
    (name, marks), requests = next(iter(window.items())), 80
    assert 1 < len(cache_breaks(events, "openai", **window)) <= requests / 10
    assert len(cache_breaks(events, "openai", **{name: marks[1]})) > requests / 3


def test_a_window_grows_to_its_upper_mark_and_is_cut_to_the_lower() -> None:
    """The model never sees more turns than the upper mark, nor fewer than the lower."""
    with EventStore.open("sqlite://") as store:
        events = of_many_turns(store.conversation("c"))
    seen: list[int] = []
    for recorded in events:
        shown = model_history(events[: recorded.version], last_turns=(3, 5)).turns
        turns = sum(turn.role == "assistant" for turn in shown)
        seen += [turns] if seen[-1:] != [turns] else []
    assert seen[:12] == [0, 1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5]


def test_a_budget_with_two_marks_is_kept() -> None:
    """No prompt has more tokens than the upper mark; right after a cut at most the lower."""
    with EventStore.open("sqlite://") as store:
        events = of_many_turns(store.conversation("c"))
    before = 0
    for end in range(1, len(events) + 1):
        history = model_history(
            events[:end], max_tokens=(400, 900), count_tokens=len, summary="Much was said."
        )
        (cut,) = [each for each in history.repairs if each.rule == "window"] or [None]
        tokens = sum(len("".join(texts_of(turn))) for turn in history.turns)
        is_new = cut is not None and len(cut.versions) > before
        before = before if cut is None else len(cut.versions)
        assert tokens <= (400 if is_new else 900)
    assert before


def texts_of(turn: Turn) -> Iterator[str]:
    """Yield what of a turn is counted at least."""
    yield from (part.text for part in turn.parts if isinstance(part, Text))
    for call in turn.calls:
        yield from (call.name, call.answer.text)


@given(marks=st.tuples(st.integers(1, 6), st.integers(0, 6)), most=st.integers(5, 400))
def test_equal_marks_are_one_limit(marks: tuple[int, int], most: int) -> None:
    """`(n, n)` cuts where `n` does, by turns and by tokens."""
    limit, _ = marks
    assert texts(LOG, last_turns=(limit, limit)) == texts(LOG, last_turns=limit)
    same: Any = {"count_tokens": len, "summary": "s"}
    assert texts(LOG, max_tokens=(most, most), **same) == texts(LOG, max_tokens=most, **same)


@pytest.mark.parametrize("marks", [(3, 2), (0, 2), (1, 2, 3), (), [1, 2], ("1", "2"), True, 0])
@pytest.mark.parametrize("name", ["last_turns", "max_tokens"])
def test_marks_that_are_none_are_refused(name: str, marks: Any) -> None:
    """The error names the value and shows a pair."""
    with pytest.raises(ValueError, match=rf"{name} is .*: pass 1 or more, .* such as \(10, 30\)"):
        model_history([], **{name: marks})
