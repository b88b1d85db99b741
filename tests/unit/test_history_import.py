"""Importing: again adds nothing, longer adds its tail, other messages are refused."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventstore import (
    Conversation,
    Event,
    EventStore,
    Rejected,
    RunStarted,
    ToolPending,
    ToolRejected,
    validate,
)
from eventstore import importing as imports
from eventstore.errors import ImportConflict
from projections.history import model_history
from projections.sources import is_refusal


def ask(text: str) -> dict[str, Any]:
    """The user speaks."""
    return {"role": "user", "content": text}


def call(call_id: str | None, name: str = "find") -> dict[str, Any]:
    """The model makes a call, in OpenAI's form."""
    made = {"type": "function", "function": {"name": name, "arguments": '{"n":1}'}}
    return {"role": "assistant", "content": None, "tool_calls": [made | {"id": call_id}]}


def result(call_id: str, text: str = "here") -> dict[str, Any]:
    """A tool answers."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


HISTORY = [
    ask("one"), call("a"), result("a"), ask("ok"), ask("ok"), call("a", "again"), result("a"),
    result("a"), {"role": "assistant", "content": "done"}, ask(""), result("nobody"),
]  # fmt: skip


@pytest.fixture
def store() -> Iterator[EventStore]:
    """A store in memory."""
    with EventStore.open("sqlite://") as opened:
        yield opened


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """A new conversation."""
    return store.conversation("chat")


def events(chat: Conversation) -> list[Event]:
    """What the log holds."""
    return [recorded.event for recorded in chat.events()]


def test_an_import_is_what_recording_gives(store: EventStore, chat: Conversation) -> None:
    """The events are the same, only their ids say where they are from."""
    done = chat.import_messages(HISTORY)
    whole = store.conversation("chat")
    other = store.conversation("other")
    other.record_messages(HISTORY)
    assert events(whole) == events(other)
    assert (done.added, done.skipped, done.events) == (len(HISTORY), 0, chat.version)


def test_the_same_messages_again_add_nothing(chat: Conversation) -> None:
    """However often, by this handle or by another process."""
    chat.import_messages(HISTORY)
    before = list(chat.events())
    for _ in range(3):
        done = chat.import_messages(HISTORY)
        assert (done.added + done.skipped, done.events) == (len(HISTORY), 0)
    assert list(chat.events()) == before


@pytest.mark.parametrize("cut", range(len(HISTORY) + 1))
def test_a_longer_list_adds_its_tail(store: EventStore, chat: Conversation, cut: int) -> None:
    """Wherever the first import ended, the log is that of one import."""
    chat.import_messages(HISTORY[:cut])
    chat.import_messages(HISTORY)
    other = store.conversation("other")
    other.import_messages(HISTORY)
    assert events(chat) == events(other)


def test_a_shorter_list_is_there_already(chat: Conversation) -> None:
    """An older copy of the transcript is no contradiction."""
    chat.import_messages(HISTORY)
    done = chat.import_messages(HISTORY[:4])
    assert (done.added, done.skipped) == (0, 4)


@given(st.lists(st.sampled_from(HISTORY), max_size=12), st.lists(st.integers(0, 12), max_size=4))
@settings(deadline=None, max_examples=60)
def test_any_list_in_any_pieces_is_imported_once(
    messages: list[dict[str, Any]], cuts: list[int]
) -> None:
    """Repeated messages are told apart by what came before them."""
    with EventStore.open("sqlite://") as store:
        whole, pieces = store.conversation("whole"), store.conversation("pieces")
        whole.import_messages(messages)
        for cut in sorted(cuts):
            pieces.import_messages(messages[:cut])
        pieces.import_messages(messages)
        before = pieces.version
        pieces.import_messages(messages)
        assert pieces.version == before
        for provider in ("openai", "anthropic"):
            history = model_history(pieces.events())
            assert validate(history.render(provider)["messages"], provider) == []


def test_other_messages_are_refused_and_nothing_is_written(chat: Conversation) -> None:
    """The first message that differs is named, and where the log departs."""
    chat.import_messages(HISTORY)
    before = chat.version
    with pytest.raises(ImportConflict, match="differs from message 3 on") as refusal:
        chat.import_messages([*HISTORY[:2], ask("something else")])
    assert (refusal.value.message, refusal.value.version) == (3, 4)
    assert chat.version == before
    copy = pickle.loads(pickle.dumps(refusal.value))  # noqa: S301 - our own
    assert str(copy) == str(refusal.value)


def test_another_result_is_another_history(chat: Conversation) -> None:
    """It is not slipped in as text."""
    chat.import_messages(HISTORY[:3])
    with pytest.raises(ImportConflict, match="from message 3 on"):
        chat.import_messages([*HISTORY[:2], result("a", "something else")])
    assert chat.version == 4


def test_a_conversation_made_otherwise_is_refused(chat: Conversation) -> None:
    """It holds messages that are not those of the list, be they equal or not."""
    chat.add_message("user", "one")
    with pytest.raises(ImportConflict, match="from message 1 on"):
        chat.import_messages(HISTORY)
    assert chat.version == 1


def test_what_was_said_after_an_import_stays_the_last_word(chat: Conversation) -> None:
    """The same list again is fine; a longer one would have to go in between."""
    chat.import_messages(HISTORY[:3])
    chat.add_message("user", "and now by ourselves")
    assert chat.import_messages(HISTORY[:3]).events == 0
    with pytest.raises(ImportConflict):
        chat.import_messages(HISTORY)


def test_decisions_after_an_import_are_no_contradiction(chat: Conversation) -> None:
    """A call that was imported open may be decided and run here; its result is not doubled."""
    chat.import_messages(HISTORY[:2])
    chat.approve("a", by="ann")
    with chat.running("a") as attempt:
        attempt.complete("here")
    chat.import_messages(HISTORY[:5])
    assert [event.tag for event in events(chat)] == [
        "message", "message", "pending", "approved", "running", "completed", "message", "message",
    ]  # fmt: skip


def test_two_imports_at_once_double_nothing(tmp_path: Path) -> None:
    """Each decides on what the other has written, inside the transaction."""
    url = f"sqlite:///{tmp_path}/log.db"
    EventStore.open(url).close()
    begin = Barrier(4)

    def run() -> None:
        with EventStore.open(url) as store:
            begin.wait()
            for cut in range(1, len(HISTORY) + 1):
                store.conversation("chat").import_messages(HISTORY[:cut])

    threads = [Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with EventStore.open(url) as store:
        alone = store.conversation("alone")
        alone.import_messages(HISTORY)
        assert events(store.conversation("chat")) == events(alone)


def test_a_long_list_is_appended_in_batches(
    chat: Conversation, store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is whole, ends where the user speaks, and together they are as one append."""
    monkeypatch.setattr(imports, "BATCH", 3)
    taken: list[int] = []

    def messages() -> Iterator[dict[str, Any]]:
        for message in HISTORY:
            taken.append(chat.version)
            yield message

    chat.import_messages(messages())
    assert sorted(set(taken)) == [0, 4, 10]
    monkeypatch.undo()
    other = store.conversation("other")
    other.import_messages(HISTORY)
    assert events(chat) == events(other)


@pytest.mark.parametrize("cut", range(len(HISTORY) + 1))
def test_batches_do_not_matter_to_what_is_known(
    chat: Conversation, store: EventStore, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """Wherever the former import ended, in batches of one or of many."""
    open_call = [ask("one"), call("a"), ask("two"), call("b"), ask("three"), *HISTORY]
    monkeypatch.setattr(imports, "BATCH", 1)
    chat.import_messages(open_call[:cut])
    assert chat.import_messages(open_call).messages == len(open_call)
    assert chat.import_messages(open_call).events == 0
    monkeypatch.undo()
    assert chat.import_messages(open_call).events == 0
    other = store.conversation("other")
    other.import_messages(open_call)
    assert events(chat) == events(other)


def test_a_batch_is_not_without_end(chat: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user never speaks, it ends all the same."""
    monkeypatch.setattr(imports, "BATCH", 2)
    monkeypatch.setattr(imports, "MOST", 4)
    calls = [message for n in range(10) for message in (call(f"c{n}"), result(f"c{n}"))]
    assert chat.import_messages(calls).added == 20
    assert {tool.status.name for tool in chat.tools.values()} == {"Completed"}


def test_an_import_that_was_broken_off_goes_on(
    chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was appended stays, and is not appended again."""
    monkeypatch.setattr(imports, "BATCH", 1)

    def broken() -> Iterator[dict[str, Any]]:
        yield from HISTORY[:5]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chat.import_messages(broken())
    assert chat.version > 0
    done = chat.import_messages(HISTORY)
    assert done.skipped > 0
    assert len({recorded.event_id for recorded in chat.events()}) == chat.version


def test_what_was_wrong_is_told_with_its_message(chat: Conversation) -> None:
    """An id used twice, a result twice, a result of no call."""
    done = chat.import_messages(HISTORY)
    assert [(finding.item, finding.rule) for finding in done.findings] == [
        (5, "used-id"), (7, "two-results"), (10, "orphan"),
    ]  # fmt: skip
    assert chat.import_messages(HISTORY).findings in ([], done.findings[-1:])


def test_a_run_names_whom_it_serves_once(store: EventStore) -> None:
    """A sub-agent's conversation begins with the link to its parent."""
    side = store.conversation("chat/sidechain-1")
    for _ in range(2):
        side.import_messages([ask("look")], started=RunStarted(None, "chat", "a"))
    assert [event.tag for event in events(side)] == ["run_started", "message"]


def test_event_ids_are_uuids_and_in_order(chat: Conversation) -> None:
    """Version 8, so that other programs take them for what they are."""
    chat.import_messages(HISTORY)
    for recorded in chat.events():
        assert recorded.event_id[12] == "8"
        assert recorded.event_id[16] in "89ab"


# pieces of one message


def piece(key: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    """A piece of an assistant message, in Anthropic's form."""
    return {"role": "assistant", "id": key, "content": list(blocks)}


def use(call_id: str) -> dict[str, Any]:
    """A block that makes a call."""
    return {"type": "tool_use", "id": call_id, "name": "find", "input": {}}


def answer(call_id: str, **fields: Any) -> dict[str, Any]:
    """A result, in Anthropic's form."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": f"result of {call_id}"}
    return {"role": "user", "content": [block | fields]}


PIECES = [
    ask("go"),
    piece("m1", {"type": "text", "text": "two at once"}),
    piece("m1", use("a")),
    answer("a"),
    piece("m1", use("b"), {"type": "text", "text": "and more"}),
    answer("b"),
    piece("m2", use("c")),
    answer("c"),
]


@pytest.mark.parametrize("cut", range(len(PIECES) + 1))
def test_pieces_of_a_message_are_one_turn(chat: Conversation, cut: int) -> None:
    """Parallel calls belong together, wherever their results came and imports ended."""
    chat.import_messages(PIECES[:cut], "anthropic")
    chat.import_messages(PIECES, "anthropic")
    places = [(e.call_id, e.turn, e.index) for e in events(chat) if isinstance(e, ToolPending)]
    assert places == [("a", 1, 0), ("b", 1, 1), ("c", 2, 0)]
    messages = model_history(chat.events()).render("anthropic")["messages"]
    assert validate(messages, "anthropic") == []
    assert [m["role"] for m in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert [block["type"] for block in messages[1]["content"]] == [
        "text", "text", "tool_use", "tool_use",
    ]  # fmt: skip


# refusals


REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


def test_a_refusal_is_a_rejection_by_a_human(chat: Conversation) -> None:
    """It goes back to its provider byte for byte, and to another without doubled words."""
    given = [ask("go"), piece("m", use("a")), answer("a", content=REFUSED, is_error=True)]
    chat.import_messages(given, "anthropic", is_rejection=is_refusal)
    assert chat.tools["a"].status == Rejected(REFUSED, "human")
    history = model_history(chat.events())
    assert history.render("anthropic")["messages"][-1] == given[-1]
    (told,) = [m for m in history.render("openai")["messages"] if m["role"] == "tool"]
    assert told["content"].count("user") == 1


def test_recording_takes_the_same_hook(chat: Conversation) -> None:
    """In OpenAI's form, too, where the caller knows the words."""
    chat.record_messages(
        [call("a"), result("a", "denied")], is_rejection=lambda given: given["content"] == "denied"
    )
    assert isinstance(events(chat)[-1], ToolRejected)


def test_a_refusal_is_final_but_loses_nothing(chat: Conversation) -> None:
    """Told again it is left out; what else comes is kept as text."""
    no = answer("a", content=REFUSED, is_error=True)
    given = [piece("m", use("a")), no, no, answer("a", content="it ran all the same")]
    chat.import_messages(given, "anthropic", is_rejection=is_refusal)
    assert [event.tag for event in events(chat)] == ["message", "pending", "rejected", "message"]
    assert "it ran all the same" in str(model_history(chat.events()).render("openai"))


@pytest.mark.parametrize("failed", [True, False])
def test_what_was_started_here_is_not_rejected_any_more(
    chat: Conversation, *, failed: bool
) -> None:
    """The words are then the failure of the attempt, or a text."""
    chat.import_messages([piece("m", use("a"))], "anthropic")
    chat.start("a")
    if failed:
        chat.fail("a", "no")
    no = answer("a", content=REFUSED, is_error=True)
    chat.import_messages([piece("m", use("a")), no], "anthropic", is_rejection=is_refusal)
    assert chat.tools["a"].status.name == "Failed"
    assert REFUSED in str(model_history(chat.events()).render("anthropic"))


# messages in another's form

FOREIGN = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f"}]}
TALK = [ask(str(number)) for number in range(2 * imports.BATCH)]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("place", [0, imports.BATCH - 1, imports.BATCH, 2 * imports.BATCH])
def test_another_form_is_seen_before_anything_is_written(
    chat: Conversation, place: int, streamed: bool
) -> None:
    """However late in the messages it shows."""
    history = [*TALK[:place], FOREIGN, *TALK[place:]]
    told = rf"messages\[{place}\] has tool_use, which openai does not: pass provider='anthropic'"
    with pytest.raises(ValueError, match=told):
        chat.import_messages(iter(history) if streamed else history)
    assert chat.version == 0
    assert chat.import_messages(history, "anthropic").added == len(history)


def test_an_odd_block_before_the_first_call_is_kept(store: EventStore, chat: Conversation) -> None:
    """As it is by those that record a list in one append."""
    history = [FOREIGN, *TALK, call("a"), result("a")]
    chat.import_messages(history)
    store.conversation("whole").record_messages(history)
    assert events(chat) == events(store.conversation("whole"))


def test_a_long_talk_is_not_held_back_for_ever(
    chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is judged is written, and what follows is judged by itself."""
    monkeypatch.setattr(imports, "HELD", imports.BATCH)
    with pytest.raises(ValueError, match=rf"messages\[{imports.BATCH + 1}\] has tool_use"):
        chat.import_messages([*TALK[: imports.BATCH + 1], FOREIGN])
    assert chat.version == imports.BATCH
