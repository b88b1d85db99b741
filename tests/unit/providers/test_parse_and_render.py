"""Providers' messages in and out: what the forms hold, and the SDKs' own objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from eventstore import (
    Completed,
    Conversation,
    EventStore,
    Failed,
    MessageAdded,
    Opaque,
    Text,
    ToolPending,
    validate,
)
from eventstore.wire import parse
from projections import model_history, repair_messages


@pytest.fixture
def chat() -> Iterator[Conversation]:
    """An empty conversation."""
    with EventStore.open("sqlite://") as store:
        yield store.conversation("c")


def calling(*ids: str | None, name: str = "f", arguments: Any = "{}") -> dict[str, Any]:
    """An assistant message in OpenAI's form, with a call for each id."""
    calls = [
        {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
        for i in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str | None, content: Any) -> dict[str, Any]:
    """A tool message in OpenAI's form."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def texts(chat: Conversation) -> dict[str, Any]:
    """Call id to the result that the log holds."""
    return {
        tool.id: tool.status.response.result
        for tool in chat.tools.values()
        if isinstance(tool.status, Completed)
    }


def test_a_repeated_id_is_qualified_on_both_halves(chat: Conversation) -> None:
    """The second call of an id is another call, and its result finds it."""
    for n, answer in enumerate(("one", "two", "three"), 1):
        (call,) = chat.record(calling("call_0", arguments=f'{{"n": {n}}}'))
        assert call.provider_call_id == "call_0"
        chat.record(result("call_0", answer))
    assert texts(chat) == {"call_0": "one", "call_0_2": "two", "call_0_3": "three"}


def test_a_missing_id_is_minted_the_same_every_time() -> None:
    """By conversation and place: unique elsewhere, and the same when it is read again."""
    with EventStore.open("sqlite://") as store:
        minted = [store.conversation(name).record(calling(None))[0].id for name in ("a", "b")]
        assert minted[0] != minted[1]
    with EventStore.open("sqlite://") as store:
        assert store.conversation("a").record(calling(""))[0].id == minted[0]


def test_results_without_ids_are_paired_by_position_and_name(chat: Conversation) -> None:
    """In order; a name, where one is given, goes first."""
    chat.record(calling(None, name="a"))
    chat.record(result(None, "A"))
    chat.record_messages([
        {"role": "assistant", "tool_calls": [
            {"function": {"name": "x", "arguments": "{}"}},
            {"function": {"name": "y", "arguments": "{}"}},
        ]},
        {"role": "tool", "name": "y", "content": "Y"},
        {"role": "tool", "content": "X"},
    ])  # fmt: skip
    assert list(texts(chat).values()) == ["A", "X", "Y"]


def test_ids_on_the_results_alone_are_paired_by_position(chat: Conversation) -> None:
    """Nothing else is known of them."""
    chat.record_messages([calling(None, ""), result("p", "P"), result("q", "Q")])
    assert list(texts(chat).values()) == ["P", "Q"]


def test_results_after_two_messages_find_each_its_own(chat: Conversation) -> None:
    """Two assistant messages in a row with one id: results go in order."""
    chat.record_messages([calling("c"), calling("c"), result("c", "1"), result("c", "2")])
    assert texts(chat) == {"c": "1", "c_2": "2"}


def test_an_equal_result_again_changes_nothing(chat: Conversation) -> None:
    """At-least-once delivery: of a call that is settled, and looked up in the log."""
    chat.record(calling("c"))
    chat.record(result("c", "R"))
    version = chat.version
    assert chat.record(result("c", "R")) == []
    assert chat.version == version


def test_another_result_for_a_settled_call_is_kept_as_text(chat: Conversation) -> None:
    """The first completion stands, and nothing real is lost."""
    chat.record(calling("c"))
    chat.record(result("c", "first"))
    chat.record(result("c", "second"))
    shown = model_history(chat.events()).render("openai")["messages"]
    assert shown[1]["content"] == "first"
    assert "second" in shown[2]["content"]
    assert validate(shown, "openai") == []


def test_a_real_result_beats_an_error_that_came_first(chat: Conversation) -> None:
    """Also when the two are recorded one by one."""
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    error = {"type": "tool_result", "tool_use_id": "t", "content": "E", "is_error": True}
    chat.record({"role": "assistant", "content": [call]}, "anthropic")
    chat.record({"role": "user", "content": [error]}, "anthropic")
    assert isinstance(chat.tools["t"].status, Failed)
    chat.record({"role": "user", "content": [{**error, "content": "R", "is_error": False}]},
                "anthropic")  # fmt: skip
    assert texts(chat) == {"t": "R"}
    chat.record({"role": "user", "content": [error]}, "anthropic")
    assert texts(chat) == {"t": "R"}


def test_the_caller_says_what_an_error_is(chat: Conversation) -> None:
    """OpenAI's form has no flag: the text may tell, to who knows the tools."""
    chat.record_messages(
        [calling("a", "b"), result("a", "Error: no"), result("b", "fine")],
        is_error=lambda message: message["content"].startswith("Error:"),
    )
    assert isinstance(chat.tools["a"].status, Failed)
    assert isinstance(chat.tools["b"].status, Completed)


@pytest.mark.parametrize(
    ("given", "arguments", "raw"),
    [
        ('{"a": 1}', {"a": 1}, None),
        ({"a": 1}, {"a": 1}, None),
        ("", {}, None),
        (" ", {}, None),
        (None, {}, None),
        ("null", {}, None),
        ("[1]", [1], "[1]"),
        ("nope", None, "nope"),
        ('{"a": NaN}', None, '{"a": NaN}'),
        ("[" * 5000, None, "[" * 5000),
    ],
)
def test_arguments_are_read_for_what_they_are(given: Any, arguments: Any, raw: Any) -> None:
    """An object, nothing, or text that is no object, kept as it is."""
    (item,) = parse([calling("c", arguments=given)], "openai")
    call = item.calls[0].call  # type: ignore[union-attr]
    assert (call.arguments, call.raw) == (arguments, raw)


def test_older_and_other_forms_of_calls_are_read(chat: Conversation) -> None:
    """`function_call` with a `function` message, custom tools, and calls without a wrapper."""
    chat.record_messages([
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "F"},
        {"role": "assistant", "tool_calls": [
            {"id": "k", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}}]},
        result("k", "out"),
        {"role": "assistant", "tool_calls": [{"id": "n", "name": "bare", "arguments": {"x": 1}}]},
        result("n", None),
    ])  # fmt: skip
    tools = list(chat.tools.values())
    assert [tool.call.name for tool in tools] == ["f", "sh", "bare"]
    assert tools[1].call.raw == "ls -l"
    assert [tool.status.response.result for tool in tools] == ["F", "out", ""]  # type: ignore[union-attr]
    for provider in ("openai", "anthropic"):
        shown = model_history(chat.events()).render(provider)["messages"]
        assert validate(shown, provider) == []


def test_a_refusal_stays_a_refusal_and_crosses_as_text(chat: Conversation) -> None:
    """Back to OpenAI as it was; to others as what was said."""
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}
    chat.record(refusal)
    history = model_history(chat.events())
    assert history.render("openai")["messages"] == [refusal]
    assert history.render("anthropic")["messages"][1]["content"] == "I will not."


def test_what_a_message_holds_beside_its_content_is_not_lost() -> None:
    """Members that we do not know stay with a message that had to be mended."""
    broken = {**calling("c", arguments="nope"), "reasoning_content": "hm"}
    (message, _) = repair_messages([broken], "openai").messages
    assert message["reasoning_content"] == "hm"
    alone = {"role": "assistant", "content": None, "reasoning_content": "hm"}
    (kept,) = repair_messages([alone], "openai").messages
    assert kept == {"role": "assistant", "content": "", "reasoning_content": "hm"}


def test_tool_content_in_parts_is_read_as_text() -> None:
    """Text parts are joined; other parts are named, not dumped into the prompt."""
    parts = [{"type": "text", "text": "a"}, {"type": "image", "source": {"data": "x" * 99}}, "b"]
    (item,) = parse([result("c", parts)], "openai")
    assert item.text == "a\n[image]\nb"  # type: ignore[union-attr]


def test_foreign_reasoning_is_left_out_and_listed(chat: Conversation) -> None:
    """It is for the provider that made it alone."""
    chat.add_message("user", "q")
    chat.add_message("assistant", [Opaque("anthropic", {"type": "thinking", "thinking": "hm"}),
                                   Text("so")])  # fmt: skip
    history = model_history(chat.events())
    assert "hm" not in str(history.render("openai"))
    assert [repair.rule for repair in history.repairs_for("openai")] == ["reasoning"]


def test_ids_and_names_are_mapped_to_what_a_provider_takes(chat: Conversation) -> None:
    """Legal, short, different, and the same on both halves; each change is listed."""
    long = "x" * 60
    for call_id in (f"{long}1", f"{long}2", "functions.f:0"):
        chat.record(calling(call_id, name="get weather!"))
        chat.record(result(call_id, call_id))
    history = model_history(chat.events())
    for provider in ("openai", "anthropic"):
        shown = history.render(provider)["messages"]
        assert validate(shown, provider) == []
        assert {r.rule for r in history.repairs_for(provider)} >= {"id", "name"}
    made = history.render("openai")["messages"]
    ids = [message["tool_calls"][0]["id"] for message in made[::2]]
    assert len(set(ids)) == 3
    assert ids == [message["tool_call_id"] for message in made[1::2]]


def test_openais_own_objects_are_recorded(chat: Conversation) -> None:
    """What the SDK gives goes in as it is, and back without what says nothing."""
    types = pytest.importorskip("openai.types.chat", reason="openai is not installed")
    message = types.ChatCompletionMessage.model_validate(
        {**calling("call_1", arguments='{"a": 1}'), "refusal": None, "annotations": []}
    )
    (call,) = chat.record(message)
    assert call.call.arguments == {"a": 1}
    chat.complete(call.id, "R")
    shown = model_history(chat.events()).render("openai")["messages"]
    assert validate(shown, "openai") == []
    assert set(shown[0]) == {"role", "content", "tool_calls"}
    assert shown[0]["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'


def test_anthropics_own_objects_are_recorded(chat: Conversation) -> None:
    """A whole response, and lists of its blocks."""
    types = pytest.importorskip("anthropic.types", reason="anthropic is not installed")
    message = types.Message.model_validate({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "hi", "citations": None},
                    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}],
        "stop_reason": "tool_use", "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    })  # fmt: skip
    (call,) = chat.record(message, "anthropic")
    chat.complete(call.id, "R")
    chat.record({"role": "assistant", "content": message.content[:1]}, "anthropic")
    shown = model_history(chat.events()).render("anthropic")["messages"]
    assert validate(shown, "anthropic") == []
    assert [block["type"] for block in shown[1]["content"]] == ["text", "tool_use"]
    assert shown[-1]["content"] == "hi" or shown[-1]["content"][0]["text"] == "hi"


def test_what_no_json_can_say_is_recorded_readably(chat: Conversation) -> None:
    """Bytes, half surrogates and foreign objects do not stop a recording."""
    chat.record_messages([
        {"role": "user", "content": "a\ud800b", "extra": object()},
        {"role": "user", "content": b"bytes"},
        "just text",
        None,
        17,
    ])  # fmt: skip
    said = [recorded.event for recorded in chat.events()]
    assert [text.text for event in said if isinstance(event, MessageAdded)
            for text in event.parts if isinstance(text, Text)] == [
        "a\\ud800b", "bytes", "just text", "17",
    ]  # fmt: skip


def test_a_history_from_elsewhere_is_marked_as_such(chat: Conversation) -> None:
    """A call without a result may have run there; one of our own has not."""
    chat.record_messages([calling("a")])
    chat.record(calling("b"))
    marks = [r.event.imported for r in chat.events() if isinstance(r.event, ToolPending)]
    assert marks == [True, False]
    shown = model_history(chat.events()).render("openai")["messages"]
    assert "whether it ran is not known" in shown[1]["content"]
    assert "Awaiting approval" in shown[3]["content"]


@pytest.mark.parametrize("messages", [None, 5, "text", {"role": "user", "content": "hi"}, ()])
def test_anything_at_all_can_be_repaired(messages: Any) -> None:
    """What is no list is taken as one message."""
    for provider in ("openai", "anthropic"):
        repaired = repair_messages(messages, provider)
        assert validate(repaired.messages, provider) == []


def test_every_change_is_listed() -> None:
    """What was dropped, moved, re-keyed, wrapped and answered, and in which message."""
    repaired = repair_messages(
        [
            {"role": "user", "content": ""},
            {"role": "user", "content": []},
            None,
            result("zz", "orphan"),
            calling("a", "a", None, name="f g", arguments="nope"),
            {"role": "user", "content": "wait"},
            result("a", "late"),
            result("early", "E"),
            calling("early"),
        ],
        "openai",
    )
    assert validate(repaired.messages, "openai") == []
    listed = {(repair.what, repair.rule) for repair in repaired.repairs}
    assert listed >= {
        ("dropped", "empty"), ("moved", "late-result"), ("moved", "early-result"),
        ("re-keyed", "id"), ("re-keyed", "no-id"), ("re-keyed", "name"), ("wrapped", "arguments"),
        ("wrapped", "orphan"), ("answered", "open-call"), ("rewritten", "form"),
    }  # fmt: skip
    assert any(repair.why.startswith("messages[6]: ") for repair in repaired.repairs)


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"hit": 1}]}
ADD = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}
SUM = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "4"}


def said(*blocks: Any) -> dict[str, Any]:
    """An assistant message of Anthropic's."""
    return {"role": "assistant", "content": list(blocks)}


def test_anthropics_blocks_stay_where_the_api_takes_them() -> None:
    """Thinking signed and of the assistant, images of the user; the rest says what it is."""
    text, image = {"type": "text", "text": "a"}, {"type": "image", "source": {"type": "url"}}
    shown = {**image, "source": {"type": "url", "url": "https://a.b/c.png"}}
    signed = {"type": "thinking", "thinking": "hm", "signature": "s"}
    unsigned = {"type": "thinking", "thinking": "so", "signature": ""}
    user = {"role": "user", "content": [signed, text, shown]}
    repaired = repair_messages(
        [user, said(signed, unsigned, text, shown, image), user], "anthropic"
    )
    assert validate(repaired.messages, "anthropic") == []
    assert repaired.messages[1] == said(
        text,
        {"type": "text", "text": "[image https://a.b/c.png]"},
        {"type": "text", "text": "[image of anthropic, not shown here]"},
    )
    assert (
        repaired.messages[0] == repaired.messages[2] == {"role": "user", "content": [text, shown]}
    )
    assert {(change.what, change.rule) for change in repaired.repairs} >= {("wrapped", "AN13")}


def test_parts_stand_where_chat_completions_takes_them() -> None:
    """What only a user can show, and what only another API knows, says what it is."""
    text, url = {"type": "text", "text": "a"}, "https://a.b/c.png"
    shown = {"type": "image_url", "image_url": {"url": url}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    user = {"role": "user", "content": [
        {"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": url}, sound,
    ]}  # fmt: skip
    asked = {"type": "tool_use", "id": "t", "name": "f", "input": {"q": "b"}}
    history = [{"role": "system", "content": [text, shown]}, user,
               {"role": "assistant", "content": [text, shown, sound, asked]}]  # fmt: skip
    repaired = repair_messages(history, "openai")
    assert validate(repaired.messages, "openai") == []
    assert repair_messages(repaired.messages, "openai").messages == repaired.messages
    system, user, answer = (message["content"] for message in repaired.messages)
    assert system == [text, {"type": "text", "text": f"[image {url}]"}]
    assert user == [text, shown, sound]
    assert answer[:2] == system
    assert [part["type"] for part in answer] == ["text"] * 4
    assert '{"q":"b"}' in answer[3]["text"]


@pytest.mark.parametrize(("given", "made"), [("John Smith", "John_Smith"), (7, None), ("", None)])
def test_a_speaker_has_a_name_that_the_api_takes(given: Any, made: str | None) -> None:
    """Without blanks; nobody has one that says nothing."""
    for role in ("user", "assistant"):
        repaired = repair_messages([{"role": role, "name": given, "content": "a"}], "openai")
        assert validate(repaired.messages, "openai") == []
        assert repaired.messages[0].get("name") == made


@pytest.mark.parametrize("content", ["It is\n", [{"type": "text", "text": "It is "}]])
def test_a_final_text_ends_in_no_blank(content: Any) -> None:
    """The API refuses to go on from one; before the end it may."""
    asked, last = {"role": "user", "content": "q"}, {"role": "assistant", "content": content}
    repaired = repair_messages([asked, last], "anthropic")
    assert validate(repaired.messages, "anthropic") == []
    assert [(change.what, change.rule) for change in repaired.repairs] == [("rewritten", "AN09")]
    assert repair_messages([asked, last, asked], "anthropic").messages == [asked, last, asked]


def test_a_search_that_the_servers_still_run_goes_back_as_it_is() -> None:
    """While nothing but results of our own tools has followed the call, its result may come."""
    running = [{"role": "user", "content": "go"}, said(SEARCH, ADD)]
    repaired = repair_messages(running, "anthropic")
    assert repaired.messages[1] == running[1]
    assert [repair.what for repair in repaired.repairs] == ["answered"]


def test_a_search_with_its_result_stays_where_the_rest_is_mended() -> None:
    """The pair is the provider's own; the call of ours beside it is answered."""
    history = [{"role": "user", "content": "go"}, said(SEARCH, FOUND, ADD), said()]
    repaired = repair_messages(history, "anthropic")
    assert repaired.messages[1] == history[1]
    assert {repair.rule for repair in repaired.repairs} == {"empty", "open-call"}


@pytest.mark.parametrize(
    ("history", "kept"),
    [
        ([said(SEARCH, ADD), {"role": "user", "content": [SUM]}, said(), "more"], '{"q":"x"}'),
        ([said(SEARCH), "more"], "[web_search was called, no result came"),
        ([said(FOUND), "more"], '[web_search_tool_result] {"hit":1}'),
        ([said({**SEARCH, "id": 7}, {**FOUND, "tool_use_id": 7}), "more"], "hit"),
    ],
)
def test_what_the_servers_left_unpaired_becomes_text(history: list[Any], kept: str) -> None:
    """Neither a call without its result nor a result without its call is taken; nothing is lost."""
    given = [{"role": "user", "content": "go"}]
    given += [{"role": "user", "content": m} if isinstance(m, str) else m for m in history]
    assert "AN16" in {found.code for found in validate(given, "anthropic")}
    repaired = repair_messages(given, "anthropic")
    assert validate(repaired.messages, "anthropic") == []
    assert "AN16" in {repair.rule for repair in repaired.repairs}
    assert any(kept in block.get("text", "") for message in repaired.messages
               for block in message["content"] if isinstance(block, dict))  # fmt: skip


@pytest.mark.parametrize(
    ("member", "rule", "kept"),
    [
        ({"refusal": "I will not."}, None, "I will not."),
        ({"reasoning_content": "Hm."}, "reasoning", None),
        ({"audio": {"id": "audio_1"}}, "foreign-part", "audio of openai"),
    ],
)
def test_what_stands_beside_the_content_crosses_or_is_listed(
    member: dict[str, Any], rule: str | None, kept: str | None
) -> None:
    """A refusal is text to others; reasoning stays with its provider; audio is named."""
    said = {"role": "assistant", "content": None if "refusal" in member else "Well.", **member}
    history = [{"role": "user", "content": "go"}, said, {"role": "user", "content": "on"}]
    moved = repair_messages(history, "openai", "anthropic")
    assert {repair.rule for repair in moved.repairs} == ({rule} if rule else set())
    assert kept is None or kept in str(moved.messages[1])
    broken = [*history, calling("c", arguments="nope")]
    assert repair_messages(broken, "openai").messages[1] == said
    mended = {**said, "tool_calls": calling("c", arguments="nope")["tool_calls"]}
    (*_, again, _) = repair_messages([*history[:1], mended], "openai").messages
    assert {key: again.get(key) for key in said} == said


def test_reasoning_goes_with_a_call_that_is_left_out(chat: Conversation) -> None:
    """As a unit; a refusal beside it stays."""
    chat.record({**calling("c"), "content": "Well.", "reasoning": "Hm.", "refusal": "No."})
    (shown,) = model_history(chat.events(), open_calls="drop").render("openai")["messages"]
    assert shown["content"] == [{"type": "refusal", "refusal": "No."},
                                {"type": "text", "text": "Well."}]  # fmt: skip
    assert "reasoning" not in shown


ADDED = {"type": "tool_addition", "tool": {"type": "tool_reference", "tool_name": "g"}}
BLOCKS = {"anthropic": ADDED, "bedrock": {"toolAddition": {"tool": {"name": "g"}}}}


@pytest.mark.parametrize("provider", sorted(BLOCKS))
def test_a_change_of_tools_stays_where_it_is(provider: str) -> None:
    """The models that know it take it nowhere else, and a repair around it keeps it."""
    says = {"type": "text", "text": "q"} if provider == "anthropic" else {"text": "q"}
    messages = [
        {"role": "user", "content": [says]},
        {"role": "system", "content": [BLOCKS[provider]]},
        {"role": "assistant", "content": [says]},
    ]
    assert {found.level for found in validate(messages, provider)} == {"strict"}
    repaired = repair_messages(messages, provider)
    assert (repaired.messages, repaired.repairs) == (messages, [])
    blank = {"text": " "} if provider == "bedrock" else {"type": "text", "text": " "}
    broken = [*messages, {"role": "user", "content": [blank]}]
    assert repair_messages(broken, provider).messages == messages


def test_a_compaction_may_open_a_conversation(chat: Conversation) -> None:
    """Anthropic reads nothing before one, so that people leave that out."""
    summary = {"type": "compaction", "content": "It went well."}
    messages = [{"role": "assistant", "content": [summary]}, {"role": "user", "content": "q"}]
    assert repair_messages(messages, "anthropic").messages == messages
    chat.record_messages(messages, provider="anthropic")
    assert model_history(chat.events()).render("anthropic")["messages"] == messages


def test_an_item_reference_may_have_no_type() -> None:
    """Neither absent nor null makes it another item."""
    output = {"type": "function_call_output", "call_id": "c", "output": "done"}
    for reference in ({"id": "fc_1"}, {"type": None, "id": "fc_1"}):
        assert validate([reference, output], "openai-responses") == []
        twice = [reference, {"role": "user", "content": "q"}, reference]
        shown = repair_messages(twice, "openai-responses").messages
        assert shown[0] == reference


def test_the_linter_reads_the_objects_of_the_sdks() -> None:
    """What a client gave back is sent as it is, in a list or in a tuple."""
    openai = pytest.importorskip("openai.types.chat")
    anthropic = pytest.importorskip("anthropic.types")
    message = openai.ChatCompletionMessage.model_validate(calling("c"))
    chat = ({"role": "user", "content": "q"}, message, result("c", "done"))
    assert validate(chat, "openai") == []
    assert [found.code for found in validate([*chat[:2]], "openai")] == ["OA01"]
    block = anthropic.ToolUseBlock(type="tool_use", id="t", name="f", input={})
    answer = {"type": "tool_result", "tool_use_id": "t", "content": "done"}
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [block]},
        {"role": "user", "content": [answer]},
    ]
    assert validate(turns, "anthropic") == []
    assert turns[1]["content"] == [block]


class Hostile:
    """An object that gives nothing away."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_an_object_that_answers_nothing_is_judged_and_repaired(provider: str) -> None:
    """Foreign code that raises is not let through."""
    for messages in ([Hostile()], Hostile(), [{"role": "user", "content": [Hostile()]}]):
        assert validate(messages, provider) != []
        assert validate(repair_messages(messages, provider).messages, provider) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("call_id", ["toolu_1", "a-b", "", 5, None])
def test_a_call_of_the_servers_bears_their_kind_of_id(call_id: Any) -> None:
    """Another id is refused: call and result get the same one, or become text."""
    call = {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}}
    answer = {"type": "web_search_tool_result", "tool_use_id": call_id, "content": []}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [call, answer]},
    ]
    code = "AN06" if isinstance(call_id, str) else "AN16"  # no id pairs with none
    assert code in [found.code for found in validate(messages, "anthropic")]
    repaired = repair_messages(messages, "anthropic")
    assert validate(repaired.messages, "anthropic") == []
    shown = repaired.messages[1]["content"]
    if isinstance(call_id, str) and call_id:
        assert shown[0]["id"] == shown[1]["tool_use_id"] != call_id
    assert repaired.repairs
    assert repair_messages(repaired.messages, "anthropic").messages == repaired.messages


@pytest.mark.parametrize("item_id", ["fc_" + "a" * 62, "fc_a|b"])
def test_the_id_of_an_item_is_short_and_plain(item_id: str) -> None:
    """OpenAI takes 64 letters, numbers, underscores and dashes: an id may be left out."""
    call = {"type": "function_call", "id": item_id, "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "done"}
    assert [found.code for found in validate([call, output], "openai-responses")] == ["OR03"]
    repaired = repair_messages([call, output], "openai-responses").messages
    assert repaired == [{key: call[key] for key in call if key != "id"}, output]
