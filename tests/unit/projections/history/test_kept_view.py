"""The next prompt of a handle: it takes up the last one, and changes where it must."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine

from eventstore import Conversation, EventStore, NonResolvedToolError, ResultLimits
from eventstore.testing import FrozenClock
from projections import model_history


def prompt(chat: Conversation, **options: Any) -> Any:
    """Return the next prompt of a handle, which must be that of all its events."""
    kept = model_history(chat, **options)
    new = model_history(chat.events(), **options)
    assert kept.repairs == new.repairs
    assert kept.turns == new.turns
    assert kept.explain("openai") == new.explain("openai")
    shown = kept.render("openai")
    assert (
        shown
        == new.render("openai")
        == model_history(chat, cached=False, **options).render("openai")
    )
    return shown["messages"]


@contextmanager
def closing_engine(url: str) -> Iterator[Engine]:
    """Give the host's own engine."""
    engine = create_engine(url)
    yield engine
    engine.dispose()


def failed(chat: Conversation, name: str) -> None:
    """Record a call that failed."""
    chat.fail(chat.start(chat.request(name).id).id, "broken")


def test_a_late_result_is_shown_in_its_turn(chat: Conversation) -> None:
    """The turn is an earlier one, which another prompt has shown already."""
    call = chat.request("f")
    chat.start(call.id)
    chat.add_message("user", "Still there?")
    assert "outcome unknown" in prompt(chat)[1]["content"]
    chat.complete(call.id, "late")
    assert prompt(chat)[1]["content"] == "late"


def test_a_call_that_was_collapsed_since_is_left_out(chat: Conversation) -> None:
    """A failed call leaves its turn, which did not change, once the user has spoken again."""
    failed(chat, "f")
    chat.complete(chat.request("f").id, "done")
    assert len(prompt(chat)) == 4
    chat.add_message("user", "Thanks.")
    assert [message["role"] for message in prompt(chat)] == ["assistant", "tool", "user"]


def test_other_options_are_kept_to(chat: Conversation) -> None:
    """Each prompt has its own, also where the caller changed a mapping that it passed before."""
    chat.complete(chat.request("f").id, "x" * 5000)
    whole = prompt(chat)[1]["content"]
    limits = {"f": ResultLimits()}
    cut = prompt(chat, result_limits=limits)[1]["content"]
    limits["f"] = ResultLimits(characters=200)
    assert len(prompt(chat, result_limits=limits)[1]["content"]) < 400 < len(cut) < len(whole)
    open_call = chat.request("g")
    assert len(prompt(chat)) == 4
    with pytest.raises(NonResolvedToolError):
        model_history(chat, open_calls="raise")
    assert len(prompt(chat, open_calls="drop")) == 2
    chat.complete(open_call.id, "done")
    assert len(prompt(chat, open_calls="raise")) == 4


def test_a_window_that_hid_a_turn_shows_it_to_the_next_prompt(chat: Conversation) -> None:
    """The window hid a copy of the turn."""
    for number in range(6):
        chat.add_message("user" if number % 2 == 0 else "assistant", f"message {number}")
    assert len(prompt(chat, last_turns=1)) == 2
    assert len(prompt(chat)) == 6


def test_a_caller_may_change_the_prompt(chat: Conversation) -> None:
    """Neither messages nor turns nor repairs are those that the next prompt is made of."""
    chat.record({"role": "user", "content": [{"type": "text", "text": "Look."}]})
    chat.start(chat.request("f", {"deep": {"list": [1]}}).id)
    history = model_history(chat)
    first = history.render("openai")
    before = copy.deepcopy(first)
    first["messages"][0]["content"][0]["text"] = "Pay 1,000."
    first["messages"].clear()
    history.turns[1].calls[0].arguments["deep"]["list"].append(2)
    history.turns[0].native["content"].clear()
    history.repairs.clear()
    assert {"messages": prompt(chat)} == before


def test_threads_may_ask_through_one_handle_while_the_log_grows(store: EventStore) -> None:
    """Each gets the prompt of one state of the log, and none older than the one before."""
    chat = store.conversation("c")
    chat.add_message("user", "message 0")
    lengths: dict[int, list[int]] = {0: [], 1: []}
    done = threading.Event()

    def ask(number: int) -> None:
        while not done.is_set():
            messages = model_history(chat).render(("openai", "anthropic")[number])["messages"]
            said = str(messages)
            count = said.count("message ")
            assert all(f"message {place}" in said for place in range(count))
            lengths[number].append(count)

    threads = [threading.Thread(target=ask, args=(number,)) for number in lengths]
    for thread in threads:
        thread.start()
    for number in range(1, 60):
        chat.add_message("user", f"message {number}")
    done.set()
    for thread in threads:
        thread.join()
    assert all(seen == sorted(seen) for seen in lengths.values())
    assert len(prompt(chat)) == 60


def test_an_event_that_a_host_rolled_back_is_forgotten(tmp_path: Path) -> None:
    """A handle inside a transaction showed an event that another one took the place of."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    with (
        EventStore.open(url, clock=FrozenClock()) as store,
        closing_engine(url) as engine,
        engine.begin() as connection,
    ):
        chat = store.conversation("c", connection=connection)
        chat.add_message("user", "begin")
        for text in ("taken back", "instead"):
            savepoint = connection.begin_nested()
            chat.add_message("user", text)
            assert [message["content"] for message in prompt(chat)] == ["begin", text]
            savepoint.rollback()
            if text == "instead":
                assert len(prompt(chat)) == 1
