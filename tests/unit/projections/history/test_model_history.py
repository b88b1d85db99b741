"""What the model sees: answers, collapsed calls and windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from eventstore import (
    Conversation,
    ErrorKind,
    EventStore,
    Failure,
    Image,
    MessageAdded,
    NonResolvedToolError,
    Opaque,
    Recorded,
    Text,
    ToolCompleted,
    UnknownEvent,
    validate,
)
from eventstore.domain.calls import FunctionResponse
from eventstore.domain.own_texts import is_own_text
from eventstore.providers import AnyProvider
from projections import History, Repair, model_history


def answers(chat: Conversation, **options: Any) -> list[str]:
    """Return the tool messages that OpenAI is shown."""
    messages = model_history(chat.events(), **options).render("openai")["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


def ran(chat: Conversation, name: str, arguments: Any, end: Callable[[Any], Any]) -> str:
    """Return the events of a call that ran and ended with `end`."""
    call = chat.request(name, arguments)
    with chat.running(call.id) as attempt:
        end(attempt)
    return call.id


def fails(text: str) -> Callable[[Any], Any]:
    """Return an end that fails."""
    return lambda attempt: attempt.fail(Failure(ErrorKind.TRANSIENT, text))


def gives(result: Any) -> Callable[[Any], Any]:
    """Return an end that completes."""
    return lambda attempt: attempt.complete(result)


def test_only_a_call_that_needs_a_person_awaits_approval(chat: Conversation) -> None:
    """The log alone does not know which tools need an approval; neither text is an error."""
    waits, free = chat.request("pay"), chat.request("find")
    assert answers(chat) == ["[Not started: this call has not run.]"] * 2
    shown = model_history(chat, needs_approval=lambda tool: tool.call.name == "pay").turns
    texts = {call.id: call.answer.text for turn in shown for call in turn.calls}
    assert texts[waits.id] == "[Awaiting approval: this call has not run.]"
    assert texts[free.id] == "[Not started: this call has not run.]"


@pytest.mark.parametrize("needs", [None, lambda tool: True])
def test_every_placeholder_is_known_when_it_comes_back(chat: Conversation, needs: Any) -> None:
    """A framework that hands one back as a result has no result, with a note or without."""
    chat.request("f")
    chat.approve(chat.request("f").id)
    chat.start(chat.request("f").id)
    chat.defer(chat.request("f").id, until=10**16)
    for until in (None, 10**16):
        with chat.running(chat.request("f").id) as attempt:
            attempt.pause(until)
    approved = chat.request("f")
    with chat.running(approved.id) as attempt:
        attempt.pause()
    chat.approve(approved.id)
    chat.request("f", "no object")
    function = {"name": "f", "arguments": "{}"}
    called = {"id": "imported", "type": "function", "function": function}
    chat.record_messages([{"role": "assistant", "content": None, "tool_calls": [called]}])
    shown = model_history(chat.events(), collapse="none", needs_approval=needs)
    texts = [call.answer.text for turn in shown.turns for call in turn.calls]
    assert len(texts) == 9
    for text in texts:
        assert is_own_text(text), text
        assert is_own_text(f"{text}\na note"), text
    for text in ("refunded", "it said: [Not started: this call has not run.]"):
        assert not is_own_text(text)


def test_an_approved_call_is_answered_as_not_started(chat: Conversation) -> None:
    """The approval is known, the start is not."""
    chat.approve(chat.request("f").id)
    assert answers(chat) == ["[Approved, but not started: this call has not run.]"]


def test_a_running_call_is_answered_as_of_unknown_outcome(chat: Conversation) -> None:
    """The answer says that the call may have taken effect."""
    chat.start(chat.request("f").id)
    assert "outcome unknown" in answers(chat)[0]
    shown = model_history(chat.events()).render("anthropic")["messages"]
    assert shown[-1]["content"][0]["is_error"] is True


def test_arguments_that_are_not_an_object_are_named_and_wrapped(chat: Conversation) -> None:
    """The raw text stays visible, and the call was not executed."""
    chat.request("f", '{"city": "Os')
    shown = model_history(chat.events()).render("anthropic")["messages"]
    assert shown[1]["content"][0]["input"] == {"raw_arguments": '{"city": "Os'}
    assert "could not be parsed" in shown[2]["content"][0]["content"]


@pytest.mark.parametrize(
    ("source", "by", "reason", "reported"),
    [
        ("human", None, None, "User rejected this tool call"),
        ("human", None, "", "User rejected this tool call: "),
        ("human", None, "too dangerous", "User rejected this tool call: too dangerous"),
        ("human", "ada", None, "User ada rejected this tool call"),
        ("human", "ada", "not now", "User ada rejected this tool call: not now"),
        ("gate", "opening", "Look at the order first.", "Look at the order first."),
        ("gate", "opening", None, "A gate (opening) rejected this tool call"),
        ("gate", None, "", "A gate rejected this tool call"),
        ("hook", "policy", "no refunds on Sunday", "no refunds on Sunday"),
        ("rule", "cancelled", "not executed: cancelled", "not executed: cancelled"),
        ("limit", None, "not executed: 1 call a turn", "not executed: 1 call a turn"),
        ("sibling", None, "not executed: `f` failed", "not executed: `f` failed"),
    ],
)
def test_the_prompt_and_the_pair_say_the_same_of_a_rejection(
    chat: Conversation, source: str, by: str | None, reason: str | None, reported: str
) -> None:
    """A person is named; the reason of everything else reaches the model alone, as given."""
    tool = chat.reject(chat.request("f").id, reason, source=source, by=by)
    assert tool.try_to_tuple()[1].result == {"error": reported}
    assert answers(chat) == [msgspec.json.encode({"error": reported}).decode()]


def test_the_model_reads_the_model_message_of_a_failure(chat: Conversation) -> None:
    """`model_message` wins over the operator's text."""
    chat.fail(chat.request("f").id, Failure(ErrorKind.AUTH, "key sk-1 expired", "not allowed"))
    assert answers(chat) == ['{"error":"not allowed"}']


def test_a_late_result_takes_the_placeholders_place(chat: Conversation) -> None:
    """The result stands right after its call, in whichever turn it arrived."""
    call = chat.request("f")
    chat.start(call.id)
    chat.add_message("user", "still there?")
    before = answers(chat)
    chat.complete(call.id, "LATE")
    messages = model_history(chat.events()).render("openai")["messages"]
    assert [m["role"] for m in messages] == ["assistant", "tool", "user"]
    assert before != answers(chat) == ["LATE"]


def test_results_stand_in_call_order_whatever_order_they_came_in(chat: Conversation) -> None:
    """Parallel calls that end in reverse are shown in order."""
    calls = [chat.request("f", {"n": n}) for n in range(3)]
    for call in reversed(calls):
        chat.complete(call.id, call.call.arguments["n"])
    assert answers(chat) == ["0", "1", "2"]


def test_open_calls_can_be_refused_or_left_out(chat: Conversation) -> None:
    """`raise` names the call and its state; `drop` leaves out the call and its turn."""
    chat.add_message("user", "go")
    call = chat.request("f")
    with pytest.raises(NonResolvedToolError) as refused:
        model_history(chat.events(), open_calls="raise")
    assert (refused.value.id, refused.value.state) == (call.id, "Pending")
    history = model_history(chat.events(), open_calls="drop")
    assert history.render("openai") == {"messages": [{"role": "user", "content": "go"}]}
    assert [repair.what for repair in history.repairs] == ["dropped"]


def test_a_failed_call_that_is_repeated_is_replaced_by_a_note(chat: Conversation) -> None:
    """Call and result go together; the survivor says how often and why the others failed."""
    chat.add_message("user", "go")
    ran(chat, "f", {"a": 1}, fails("timeout"))
    ran(chat, "f", {"a": 1}, fails("503"))
    ran(chat, "f", {"a": 1}, gives("OK"))
    noted = ["OK\n[2 other attempts failed: timeout; 503]"]
    assert answers(chat, collapse="failed") == noted
    assert len(answers(chat, collapse="none")) == 3
    assert answers(chat) == answers(chat, collapse="none")  # the model has seen them in this loop
    chat.add_message("user", "and then?")
    assert answers(chat) == noted
    assert answers(chat, collapse="earlier") == noted


def test_a_note_gives_three_reasons(chat: Conversation) -> None:
    """Each is given once; all failures are counted."""
    for reason in ("one", "two", "two", "three", "four"):
        ran(chat, "f", {"a": 1}, fails(reason))
    ran(chat, "f", {"a": 1}, gives("OK"))
    noted = ["OK\n[5 other attempts failed: one; two; three]"]
    assert answers(chat, collapse="failed") == noted


def test_collapse_stops_where_the_user_speaks(chat: Conversation) -> None:
    """A failure that the user may have commented on stays in the history."""
    ran(chat, "f", {}, fails("timeout"))
    chat.add_message("user", "again")
    ran(chat, "f", {}, gives("OK"))
    assert answers(chat) == ['{"error":"timeout"}', "OK"]
    assert answers(chat, collapse="all") == ["OK\n[1 other attempt failed: timeout]"]


def test_completed_calls_are_not_merged_unless_asked(chat: Conversation) -> None:
    """A second read may differ; `all` keeps the first completion, as `repair_history` does."""
    ran(chat, "read", {}, gives("one"))
    ran(chat, "read", {}, gives("two"))
    assert answers(chat) == ["one", "two"]
    assert answers(chat, collapse="all") == ["one"]


def test_the_last_failure_stays_where_nothing_completed(chat: Conversation) -> None:
    """With `all` and with `failed`, the last of the failures is shown."""
    ran(chat, "f", {}, fails("first"))
    ran(chat, "f", {}, fails("last"))
    for collapse in ("all", "failed"):
        (shown,) = answers(chat, collapse=collapse)
        assert shown.startswith('{"error":"last"}')
        assert "first" in shown


def test_reasoning_goes_with_a_turn_that_loses_a_call(chat: Conversation) -> None:
    """A turn is shown with its reasoning and all its calls, or without the reasoning."""
    thinking = Opaque("anthropic", {"type": "thinking", "thinking": "hm", "signature": "s"})
    chat.add_message("assistant", [thinking, Text("trying")])
    chat.fail(chat.request("f").id, "no")
    chat.add_message("assistant", "again")
    chat.complete(chat.request("f").id, "yes")
    collapsed = model_history(chat.events(), collapse="failed").render("anthropic")
    assert "thinking" not in str(collapsed)
    assert "thinking" in str(model_history(chat.events()).render("anthropic"))


def test_an_edited_call_is_shown_as_it_ran(chat: Conversation) -> None:
    """The edit is what the model reads as its own call."""
    call = chat.request("send", {"to": "all"})
    chat.approve(call.id, {"to": "ada"})
    chat.complete(call.id, "sent")
    shown = model_history(chat.events()).render("anthropic")["messages"]
    assert shown[1]["content"][0]["input"] == {"to": "ada"}


def test_windows_cut_whole_turns_and_keep_the_system(chat: Conversation) -> None:
    """The system's words stay; a window starts with the user's words before its first turn."""
    chat.add_message("system", "be brief")
    for n in range(4):
        chat.add_message("user", f"q{n}")
        ran(chat, "f", {"n": n}, gives(f"r{n}"))
    history = model_history(chat.events(), last_turns=2)
    shown = history.render("openai")["messages"]
    assert [m["content"] for m in shown if m["role"] != "assistant"] == [
        "be brief",
        "q2",
        "r2",
        "q3",
        "r3",
    ]
    assert history.repairs[-1].what == "dropped"
    assert len(history.turns) == 5


def test_a_token_budget_keeps_the_longest_run_of_last_turns(chat: Conversation) -> None:
    """Turns are whole; the last one stays even where it alone is too long."""
    chat.add_message("user", "a" * 50)
    chat.add_message("assistant", "b" * 20)
    chat.add_message("user", "c" * 20)

    def shown(most: int) -> list[str]:
        history = model_history(chat.events(), max_tokens=most, count_tokens=len)
        return [m["content"][0] for m in history.render("openai")["messages"]]

    assert shown(1000) == ["a", "b", "c"]
    assert shown(40) == ["b", "c"]
    assert shown(1) == ["c"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"collapse": "some"}, "'some'"),
        ({"pinned": [0]}, "versions of messages"),
        ({"pinned": 3}, "versions of messages"),
        ({"open_calls": "maybe"}, "'maybe'"),
        ({"last_turns": 0}, "last_turns is 0"),
        ({"count_tokens": len}, "max_tokens"),
        ({"since": 0}, "since is 0"),
        ({"summary": " "}, "summary is blank"),
    ],
)
def test_options_that_make_no_sense_are_named(
    chat: Conversation, options: dict[str, Any], named: str
) -> None:
    """Each wrong option has one clear error."""
    with pytest.raises(ValueError, match=named):
        model_history(chat.events(), **options)


def test_an_unknown_provider_is_refused_with_the_known_ones(chat: Conversation) -> None:
    """The error names the value and what may stand there."""
    with pytest.raises(ValueError, match=r"'opnai': pass one of anthropic, .*openai"):
        model_history(chat.events()).render("opnai")


def test_the_same_log_gives_the_same_bytes(chat: Conversation) -> None:
    """Changing a returned prompt does not change the next one."""
    chat.add_message("user", [Text("look"), Image("https://example.com/a.png")])
    ran(chat, "f", {"deep": {"a": [1]}}, gives({"b": [2]}))
    events = list(chat.events())
    first = model_history(events).render("openai")
    copy = repr(first)
    first["messages"][1]["tool_calls"].clear()
    first["messages"][0]["content"].clear()
    assert repr(model_history(events).render("openai")) == copy


def test_a_message_goes_back_as_its_provider_wrote_it(chat: Conversation) -> None:
    """Members that we do not know, spaces in arguments and blocks' extras survive."""
    openai = {
        "content": "x",
        "role": "assistant",
        "reasoning_content": "hm",
        "tool_calls": [
            {
                "type": "function",
                "id": "call_1",
                "function": {"arguments": '{"a":  1}', "name": "f"},
            },
        ],
    }
    result = {"role": "tool", "tool_call_id": "call_1", "name": "f", "content": "R"}
    chat.record(openai)
    chat.record(result)
    shown = model_history(chat.events()).render("openai")["messages"]
    assert [repr(message) for message in shown] == [repr(openai), repr(result)]


def test_anthropics_messages_go_back_as_they_came(chat: Conversation) -> None:
    """Thinking, cache marks, the form of content and merged results stay as they were."""
    messages = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "q", "cache_control": {"type": "e"}}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1, "a": 2}},
                {"type": "tool_use", "id": "t2", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "1"}],
                },
                {"type": "tool_result", "tool_use_id": "t2", "content": "2"},
                {"type": "text", "text": "go on"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        {"role": "user", "content": "thanks"},
    ]
    chat.record_messages(messages, "anthropic")
    shown = model_history(chat.events()).render("anthropic")["messages"]
    assert repr(shown) == repr(messages)


def test_only_messages_that_the_neutral_form_changes_are_kept_as_written(
    chat: Conversation,
) -> None:
    """A plain message costs no second copy in the log."""
    chat.record_messages(
        [{"role": "user", "content": "hi"}, {"role": "user", "content": "hi", "name": "ada"}]
    )
    plain, named = (recorded.event for recorded in chat.events())
    assert isinstance(plain, MessageAdded)
    assert isinstance(named, MessageAdded)
    assert plain.native is None
    assert named.native == {"role": "user", "content": "hi", "name": "ada"}


def test_a_turn_cut_off_in_the_middle_is_not_written_back_whole(chat: Conversation) -> None:
    """If the log has one of a turn's two calls, the turn shows one."""
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "f", "arguments": "{ }"}}
        for n in range(2)
    ]
    chat.record({"role": "assistant", "content": None, "tool_calls": calls})
    events = list(chat.events())
    for end in range(len(events) + 1):
        shown = model_history(events[:end]).render("openai")["messages"]
        assert validate(shown, "openai") == []
        made = sum(len(message.get("tool_calls", ())) for message in shown)
        assert made == max(end - 1, 0)


def recorded(version: int, event: Any, call_id: str | None = None) -> Recorded:
    """Return an event as a log of our own making has it."""
    return Recorded(0, version, "c", version, "", version, call_id, None, event)


def test_a_result_without_a_call_becomes_text_and_is_explained() -> None:
    """A log that lost its beginning still shows the result."""
    done = ToolCompleted("gone", FunctionResponse("f", {"paid": 7}, "gone"))
    history = model_history([recorded(5, done, "gone")])
    (message,) = history.render("openai")["messages"]
    assert '{"paid":7}' in message["content"]
    assert history.repairs[0] == Repair(
        "wrapped", "transition", history.repairs[0].why, "gone", (5,)
    )


def test_a_second_different_completion_becomes_text() -> None:
    """The first completion stands, and the other one is not lost."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        call = chat.request("f")
        chat.complete(call.id, "first")
        events = list(chat.events())
    second = ToolCompleted(call.id, FunctionResponse("f", "second", call.id))
    shown = model_history([*events, recorded(9, second, call.id)]).render("openai")["messages"]
    assert shown[1]["content"] == "first"
    assert "second" in shown[2]["content"]


def test_events_of_another_conversation_are_left_out_and_named() -> None:
    """A history is of one conversation, the first that the log names."""
    history = History()
    history.apply(recorded(1, MessageAdded("user", (Text("mine"),))))
    foreign = Recorded(0, 2, "other", 1, "", 2, None, None, MessageAdded("user", (Text("no"),)))
    history.apply(foreign)
    view = history.view()
    assert view.render("openai")["messages"] == [{"role": "user", "content": "mine"}]
    assert view.repairs[0].rule == "conversation"


def test_unknown_events_and_roles_are_shown_validly() -> None:
    """An older reader skips newer events, and shows foreign roles as the user's."""
    log = [
        recorded(1, UnknownEvent("hologram", 9, "{}")),
        recorded(2, MessageAdded("narrator", (Text("once"),))),
    ]
    for provider in ("openai", "anthropic"):
        shown = model_history(log).render(provider)["messages"]
        assert validate(shown, provider) == []
        assert shown[0]["content"] == "once"


def test_images_are_rendered_for_every_provider(chat: Conversation) -> None:
    """An image goes by URL or as data.

    A part that a provider does not take becomes text, and is listed.
    """
    chat.add_message(
        "user",
        [Text("see"), Image("https://e.com/a.png"), Image(data="aGk=", media_type="image/gif")],
    )
    chat.add_message("user", Opaque("anthropic", {"type": "document", "source": {}}))
    history = model_history(chat.events())
    said = history.render("openai")["messages"]
    assert said[0]["content"][2]["image_url"]["url"] == "data:image/gif;base64,aGk="
    assert "document" in said[1]["content"][0]["text"]
    assert [r.rule for r in history.repairs_for("openai")] == ["foreign-part"]
    shown = history.render("anthropic")["messages"][0]["content"]
    assert shown[1]["source"] == {"type": "url", "url": "https://e.com/a.png"}
    assert shown[2]["source"]["media_type"] == "image/gif"
    assert history.repairs_for("anthropic") == []


@pytest.mark.parametrize(("provider", "rule"), [("anthropic", "AN18"), ("bedrock", "BE05")])
def test_a_history_that_stops_on_the_assistants_words_says_so(
    store: EventStore, provider: AnyProvider, rule: str
) -> None:
    """Newer models do not go on from these words: they stay, and the next speaker is told."""
    chat = store.conversation("stopped")
    chat.add_message("user", "Is it cold?")
    chat.add_message("assistant", "Yes.")
    history = model_history(chat.events())
    ended = history.render(provider)["messages"]
    assert validate(ended, provider) == []
    assert [message["role"] for message in ended] == ["user", "assistant", "user"]
    assert "nothing was said after" in str(ended[-1]["content"])
    assert [(repair.what, repair.rule) for repair in history.repairs_for(provider)] == [
        ("added", rule)
    ]
    going_on = model_history(chat.events(), prefill=True)
    assert going_on.render(provider)["messages"] == ended[:2]
    assert going_on.repairs_for(provider) == []
    chat.add_message("user", "And there?")
    asked = model_history(chat.events()).render(provider)["messages"]
    assert (asked[:2], len(asked)) == (ended[:2], 3)


def test_other_providers_answer_a_history_that_stops_on_the_assistants_words(
    store: EventStore,
) -> None:
    """Nothing is added where no model refuses it."""
    chat = store.conversation("stopped")
    chat.add_message("user", "Is it cold?")
    chat.add_message("assistant", "Yes.")
    assert len(model_history(chat.events()).render("openai")["messages"]) == 2
