"""Importing: the same list adds nothing, a longer one adds its tail, a different one is refused."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from eventstore import (
    Conversation,
    Event,
    EventStore,
    FunctionCall,
    Pending,
    Rejected,
    RunStarted,
    Text,
    ToolCompleted,
    ToolPending,
    ToolRejected,
    validate,
)
from eventstore.domain import own_texts
from eventstore.errors import ImportConflict
from eventstore.importers.reading.transcript import is_refusal
from eventstore.provider_messages.batches import BATCH_MESSAGES, ImportSizes
from eventstore.provider_messages.history_import import Import, Imported, ImportSource
from eventstore.providers.model import CopiedMessage, ParsedCall, ParsedMessage, ParsedResult
from projections import error_statistics, pending_approvals, resume_plan
from projections.history.projection import model_history


def ask(text: str) -> dict[str, Any]:
    """Return a message of the user."""
    return {"role": "user", "content": text}


def import_in_batches(
    chat: Conversation, messages: Iterable[dict[str, Any]], **sizes: int
) -> Imported:
    """Import messages in batches of other sizes than the usual ones."""
    importing = Import(chat.session, chat.id, "openai", ImportSource(), ImportSizes(**sizes))
    return importing.run(messages)


def call(call_id: str | None, name: str = "find") -> dict[str, Any]:
    """Return a message with a call, in OpenAI's form."""
    made = {"type": "function", "function": {"name": name, "arguments": '{"n":1}'}}
    return {"role": "assistant", "content": None, "tool_calls": [made | {"id": call_id}]}


def result(call_id: str, text: str = "here") -> dict[str, Any]:
    """Return a result, in OpenAI's form."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


HISTORY = [
    ask("one"),
    call("a"),
    result("a"),
    ask("ok"),
    ask("ok"),
    call("a", "again"),
    result("a"),
    result("a"),
    {"role": "assistant", "content": "done"},
    ask(""),
    result("nobody"),
]


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """Return a new conversation."""
    return store.conversation("chat")


def events(chat: Conversation) -> list[Event]:
    """Return the events of the log."""
    return [recorded.event for recorded in chat.events()]


def test_an_import_is_what_recording_gives(store: EventStore, chat: Conversation) -> None:
    """The events are the same, except for their ids."""
    done = chat.import_messages(HISTORY)
    whole = store.conversation("chat")
    other = store.conversation("other")
    other.record_messages(HISTORY)
    assert events(whole) == events(other)
    assert (done.added, done.skipped, done.events) == (len(HISTORY) - 1, 0, chat.version)
    assert (done.silent, done.messages) == (1, len(HISTORY))  # one result is there twice


def test_the_same_messages_again_add_nothing(chat: Conversation) -> None:
    """This holds for any number of imports, and in another process."""
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
    """An older copy of the transcript is accepted and adds nothing."""
    chat.import_messages(HISTORY)
    done = chat.import_messages(HISTORY[:4])
    assert (done.added, done.skipped) == (0, 4)


@given(st.lists(st.sampled_from(HISTORY), max_size=12), st.lists(st.integers(0, 12), max_size=4))
@settings(max_examples=examples(60))
def test_any_list_in_any_pieces_is_imported_once(
    messages: list[dict[str, Any]], cuts: list[int]
) -> None:
    """Repeated messages are distinguished by the messages before them."""
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
    """The error names the first message that differs, and its version in the log."""
    chat.import_messages(HISTORY)
    before = chat.version
    with pytest.raises(ImportConflict, match="differs from message 3 on") as refusal:
        chat.import_messages([*HISTORY[:2], ask("something else")])
    assert (refusal.value.message, refusal.value.version) == (3, 4)
    assert chat.version == before
    copy = pickle.loads(pickle.dumps(refusal.value))  # noqa: S301 - our own
    assert str(copy) == str(refusal.value)


def test_another_result_is_another_history(chat: Conversation) -> None:
    """The import is refused; the result is not added as text."""
    chat.import_messages(HISTORY[:3])
    with pytest.raises(ImportConflict, match="from message 3 on"):
        chat.import_messages([*HISTORY[:2], result("a", "something else")])
    assert chat.version == 4


def test_a_conversation_made_otherwise_is_refused(chat: Conversation) -> None:
    """The conversation holds messages that were not imported, even if their text is equal."""
    chat.add_message("user", "one")
    with pytest.raises(ImportConflict, match="from message 1 on"):
        chat.import_messages(HISTORY)
    assert chat.version == 1


def test_an_import_adds_nothing_before_messages_appended_later(chat: Conversation) -> None:
    """The same list again is accepted; a longer one would have to go in between."""
    chat.import_messages(HISTORY[:3])
    chat.add_message("user", "and now by ourselves")
    assert chat.import_messages(HISTORY[:3]).events == 0
    with pytest.raises(ImportConflict):
        chat.import_messages(HISTORY)


def test_decisions_after_an_import_are_no_contradiction(chat: Conversation) -> None:
    """A call that was imported open may be decided and run here; its result is not doubled."""
    chat.import_messages(HISTORY[:2])
    chat.approve("a", by="ann")
    with chat.running("a", attempt=1) as attempt:
        attempt.complete("here")
    chat.import_messages(HISTORY[:5])
    assert [event.tag for event in events(chat)] == [
        "message",
        "message",
        "pending",
        "approved",
        "running",
        "completed",
        "message",
        "message",
    ]


@pytest.mark.parametrize("imported", [True, False])
def test_messages_are_of_elsewhere_or_of_now(store: EventStore, imported: bool) -> None:
    """An open call may have run elsewhere, and waits then for nobody; one of now may be started."""
    chat = store.conversation("chat")
    (call,) = chat.record_messages(HISTORY[:2], imported=imported)
    plan = resume_plan(chat.events(), lambda _: False)
    assert [step.id for step in (plan.unknown if imported else plan.safe)] == [call.id]
    assert [waiting.call.id for waiting in pending_approvals(store)] == ([], [call.id])[
        not imported
    ]
    other = store.conversation("other")
    for message in HISTORY[:2]:
        other.record(message)
    same = [each.event for each in other.events()] == [each.event for each in chat.events()]
    assert same is not imported


def test_two_imports_at_once_double_nothing(tmp_path: Path) -> None:
    """Each import is decided inside the transaction, on the events of the other one."""
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


def test_a_long_list_is_appended_in_batches(chat: Conversation, store: EventStore) -> None:
    """Each batch is whole and ends before a user message; together they equal one append."""
    taken: list[int] = []

    def messages() -> Iterator[dict[str, Any]]:
        for message in HISTORY:
            taken.append(chat.version)
            yield message

    import_in_batches(chat, messages(), batch_messages=3)
    assert sorted(set(taken)) == [0, 4, 10]
    other = store.conversation("other")
    other.import_messages(HISTORY)
    assert events(chat) == events(other)


@pytest.mark.parametrize("cut", range(len(HISTORY) + 1))
def test_batches_do_not_change_a_resumed_import(
    chat: Conversation, store: EventStore, cut: int
) -> None:
    """The result is the same wherever the earlier import ended."""
    open_call = [ask("one"), call("a"), ask("two"), call("b"), ask("three"), *HISTORY]
    import_in_batches(chat, open_call[:cut], batch_messages=1)
    done = import_in_batches(chat, open_call, batch_messages=1)
    assert done.messages == len(open_call)
    assert import_in_batches(chat, open_call, batch_messages=1).events == 0
    assert chat.import_messages(open_call).events == 0
    other = store.conversation("other")
    other.import_messages(open_call)
    assert events(chat) == events(other)


def test_a_batch_has_a_maximum_size(chat: Conversation) -> None:
    """A batch ends even if the user never speaks."""
    calls = [message for n in range(10) for message in (call(f"c{n}"), result(f"c{n}"))]
    versions: list[int] = []

    def messages() -> Iterator[dict[str, Any]]:
        for message in calls:
            versions.append(chat.version)
            yield message

    done = import_in_batches(chat, messages(), batch_messages=2, max_batch_messages=4)
    assert done.added == 20
    assert len(set(versions)) == 5
    assert {tool.status.name for tool in chat.tools.values()} == {"Completed"}


def test_an_import_that_was_broken_off_goes_on(chat: Conversation) -> None:
    """Appended batches stay, and are not appended again."""

    def broken() -> Iterator[dict[str, Any]]:
        yield from HISTORY[:5]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_in_batches(chat, broken(), batch_messages=1)
    assert chat.version > 0
    done = import_in_batches(chat, HISTORY, batch_messages=1)
    assert done.skipped > 0
    assert len({recorded.event_id for recorded in chat.events()}) == chat.version


def test_each_finding_names_its_message(chat: Conversation) -> None:
    """Findings are a repeated id, a second result and a result without a call."""
    done = chat.import_messages(HISTORY)
    assert [(finding.item, finding.rule) for finding in done.findings] == [
        (5, "used-id"),
        (7, "two-results"),
        (10, "orphan"),
    ]
    assert chat.import_messages(HISTORY).findings in ([], done.findings[-1:])


def test_an_imported_run_names_its_parent_once(store: EventStore) -> None:
    """A sub-agent's conversation begins with the link to its parent."""
    side = store.conversation("chat/sidechain-1")
    for _ in range(2):
        side.import_messages([ask("look")], started=RunStarted(None, "chat", "a"))
    assert [event.tag for event in events(side)] == ["run_started", "message"]


def test_event_ids_are_uuids_and_in_order(chat: Conversation) -> None:
    """The ids are UUIDs of version 8, which other programs accept."""
    chat.import_messages(HISTORY)
    for recorded in chat.events():
        assert recorded.event_id[12] == "8"
        assert recorded.event_id[16] in "89ab"


# pieces of one message


def piece(key: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a piece of an assistant message, in Anthropic's form."""
    return {"role": "assistant", "id": key, "content": list(blocks)}


def use(call_id: str) -> dict[str, Any]:
    """Return a block that makes a call."""
    return {"type": "tool_use", "id": call_id, "name": "find", "input": {}}


def answer(call_id: str, **fields: Any) -> dict[str, Any]:
    """Return a result, in Anthropic's form."""
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
    """Parallel calls share a turn, wherever their results stand and imports end."""
    chat.import_messages(PIECES[:cut], "anthropic")
    chat.import_messages(PIECES, "anthropic")
    places = [(e.call_id, e.turn, e.index) for e in events(chat) if isinstance(e, ToolPending)]
    assert places == [("a", 1, 0), ("b", 1, 1), ("c", 2, 0)]
    messages = model_history(chat.events()).render("anthropic")["messages"]
    assert validate(messages, "anthropic") == []
    assert [m["role"] for m in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert [block["type"] for block in messages[1]["content"]] == [
        "text",
        "text",
        "tool_use",
        "tool_use",
    ]


# refusals


REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


def test_a_refusal_is_a_rejection_by_a_human(chat: Conversation) -> None:
    """Its provider gets it back byte for byte, and others without repeated text."""
    given = [ask("go"), piece("m", use("a")), answer("a", content=REFUSED, is_error=True)]
    chat.import_messages(given, "anthropic", is_rejection=is_refusal)
    assert chat.tools["a"].status == Rejected(REFUSED, "human")
    history = model_history(chat.events())
    assert history.render("anthropic")["messages"][-1] == given[-1]
    (reported,) = [m for m in history.render("openai")["messages"] if m["role"] == "tool"]
    assert reported["content"].count("user") == 1


def test_recording_takes_the_same_hook(chat: Conversation) -> None:
    """The caller's function works for OpenAI's form, too."""
    chat.record_messages(
        [call("a"), result("a", "denied")], is_rejection=lambda given: given["content"] == "denied"
    )
    assert isinstance(events(chat)[-1], ToolRejected)


def test_a_refusal_is_final_but_loses_nothing(chat: Conversation) -> None:
    """A repeated refusal is left out; any other later result is kept as text."""
    no = answer("a", content=REFUSED, is_error=True)
    given = [piece("m", use("a")), no, no, answer("a", content="it ran all the same")]
    chat.import_messages(given, "anthropic", is_rejection=is_refusal)
    assert [event.tag for event in events(chat)] == ["message", "pending", "rejected", "message"]
    assert "it ran all the same" in str(model_history(chat.events()).render("openai"))


@pytest.mark.parametrize("failed", [True, False])
def test_an_imported_rejection_of_a_started_call_is_recorded_as_its_failure(
    chat: Conversation, *, failed: bool
) -> None:
    """If the call has its result, the rejection is recorded as text."""
    chat.import_messages([piece("m", use("a"))], "anthropic")
    chat.start("a", attempt=1)
    if failed:
        chat.fail("a", "no")
    no = answer("a", content=REFUSED, is_error=True)
    chat.import_messages([piece("m", use("a")), no], "anthropic", is_rejection=is_refusal)
    assert chat.tools["a"].status.name == "Failed"
    assert REFUSED in str(model_history(chat.events()).render("anthropic"))


# times at the source, and failures that only their text tells


def test_the_times_of_the_messages_are_kept(chat: Conversation) -> None:
    """Each event has the time of its message; the list may grow while messages are taken."""
    times: list[int | None] = []

    def messages() -> Iterator[dict[str, Any]]:
        for number, message in enumerate([ask("one"), call("a"), result("a"), ask("two")], 1):
            times.append(number * 1_000_000 if number < 4 else None)
            yield message

    chat.import_messages(messages(), occurred_at=times, started=RunStarted("run"))
    found = [(recorded.event.tag, recorded.occurred_at) for recorded in chat.events()]
    assert found == [
        ("run_started", 1_000_000),
        ("message", 1_000_000),
        ("message", 2_000_000),
        ("pending", 2_000_000),
        ("completed", 3_000_000),
        ("message", None),
    ]
    tool = chat.tools["a"]
    assert (tool.requested_at, tool.ended_at) == (2_000_000, 3_000_000)


def test_results_that_match_the_pattern_are_failures(chat: Conversation) -> None:
    """Others are as their provider's form says."""
    history = [call("a"), result("a", "Error: none"), call("b"), result("b", "an Error: in it")]
    chat.import_messages(history, error_pattern="^Error")
    assert {name: tool.status.name for name, tool in chat.tools.items()} == {
        "a": "Failed",
        "b": "Completed",
    }


def test_items_of_the_neutral_model_are_imported(chat: Conversation) -> None:
    """Calls get their results, failures, durations and refusals; the same again adds nothing."""
    calls = tuple(ParsedCall(name, FunctionCall.of("find", {"n": 1}, name)) for name in "abc")
    items = [
        ParsedMessage("user", (Text("go"),), well_formed=True),
        ParsedMessage("assistant", (), calls, well_formed=True),
        ParsedResult("a", "find", "here", well_formed=True, duration=1500),
        ParsedResult("b", "find", "gone", is_error=True, well_formed=True),
        ParsedResult("c", "find", "no", rejected=True, well_formed=True),
    ]
    done = chat.import_messages(items)
    assert (done.added, done.events, done.findings) == (5, 8, [])
    statuses = [tool.status.name for tool in chat.tools.values()]
    assert statuses == ["Completed", "Failed", "Rejected"]
    completed = next(r.event for r in chat.events() if isinstance(r.event, ToolCompleted))
    assert (completed.duration, completed.provider, completed.native) == (1500, None, None)
    assert chat.import_messages([*items, items[0]]).added == 1
    assert chat.import_messages([*items, items[0]]).added == 0


# messages in another's form

FOREIGN = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f"}]}
TALK = [ask(str(number)) for number in range(2 * BATCH_MESSAGES)]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("place", [0, BATCH_MESSAGES - 1, BATCH_MESSAGES, 2 * BATCH_MESSAGES])
def test_another_form_is_refused_before_anything_is_written(
    chat: Conversation, place: int, streamed: bool
) -> None:
    """This holds wherever in the list the other form appears."""
    history = [*TALK[:place], FOREIGN, *TALK[place:]]
    reported = (
        rf"messages\[{place}\] has tool_use, which openai does not: pass provider='anthropic'"
    )
    with pytest.raises(ValueError, match=reported):
        chat.import_messages(iter(history) if streamed else history)
    assert chat.version == 0
    assert chat.import_messages(history, "anthropic").added == len(history)


def test_an_odd_block_before_the_first_call_is_kept(store: EventStore, chat: Conversation) -> None:
    """Methods that record a list in one append keep it, too."""
    history = [FOREIGN, *TALK, call("a"), result("a")]
    chat.import_messages(history)
    store.conversation("whole").record_messages(history)
    assert events(chat) == events(store.conversation("whole"))


def test_messages_without_calls_are_written_in_batches(chat: Conversation) -> None:
    """Messages that were checked are written, and later ones are checked separately."""
    talk = [*TALK[: BATCH_MESSAGES + 1], FOREIGN]
    with pytest.raises(ValueError, match=rf"messages\[{BATCH_MESSAGES + 1}\] has tool_use"):
        import_in_batches(chat, talk, max_unjudged_messages=BATCH_MESSAGES)
    assert chat.version == BATCH_MESSAGES


@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize(
    "shown",
    [
        own_texts.NOT_STARTED,
        own_texts.error_as_text(own_texts.UNKNOWN_OUTCOME.format(1)),
        f'"{own_texts.APPROVED}"',
        f'[{{"type": "text", "text": "{own_texts.NOT_STARTED}", "annotations": []}}]',
        f'{{"result": {{"error": "{own_texts.AWAITING_APPROVAL}"}}}}',
    ],
)
def test_the_librarys_own_text_is_no_result(chat: Conversation, has_ids: bool, shown: str) -> None:
    """A front end sends back what the model was shown: the call has no result by that."""
    answers = [result("a", shown), result("b", "done")]
    if not has_ids:
        for answer in answers:
            del answer["tool_call_id"]
    both = call("a")
    both["tool_calls"] += call("b")["tool_calls"]
    chat.import_messages([ask("go"), both, *answers])
    first, second = chat.tools.values()
    assert isinstance(first.status, Pending)
    assert second.response is not None
    assert second.response.result == "done"
    assert shown not in str([recorded.event for recorded in chat.events()])


# Copies


COPIED = [
    ask("hi"),
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "found"},
]


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("second", [0, 1, 3])
def test_a_copied_message_is_known_again_however_it_was_stored(
    store: EventStore, first: int, second: int
) -> None:
    """A file may say one day what it did not say before; the log keeps what it has."""

    def marked(copied: int, *more: Any) -> list[Any]:
        return [*map(CopiedMessage, COPIED[:copied]), *COPIED[copied:], *more]

    chat = store.conversation("chat")
    assert chat.import_messages(marked(first)).added == 3
    marks = [recorded.is_copy for recorded in chat.events()]
    assert marks.count(True) == {0: 0, 1: 1, 3: 4}[first]
    assert chat.import_messages(marked(second, ask("more"))).added == 1
    assert [recorded.is_copy for recorded in chat.events()] == [*marks, False]
    with pytest.raises(ImportConflict):
        chat.import_messages(marked(second, ask("else")))
    assert import_in_batches(chat, marked(second, ask("more")), batch_messages=1).skipped == 4


def test_the_end_of_a_copied_call_is_its_conversations_own(store: EventStore) -> None:
    """The call was asked for elsewhere, and answered here."""
    chat = store.conversation("chat")
    chat.import_messages([*map(CopiedMessage, COPIED[:2]), COPIED[2]])
    overall = error_statistics(store.read()).overall
    assert (overall.calls, overall.completions) == (0, 1)
    assert chat.tools["a"].status.name == "Completed"
