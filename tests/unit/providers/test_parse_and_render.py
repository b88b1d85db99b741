"""Providers' messages parsed and rendered: their forms, and the SDKs' own objects."""

from __future__ import annotations

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
from eventstore.providers import is_valid, parse
from projections import model_history, repair_messages


def calling(*ids: str | None, name: str = "f", arguments: Any = "{}") -> dict[str, Any]:
    """Return an assistant message in OpenAI's form, with a call for each id."""
    calls = [
        {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
        for i in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str | None, content: Any) -> dict[str, Any]:
    """Return a tool message in OpenAI's form."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def texts(chat: Conversation) -> dict[str, Any]:
    """Return the result text of each call in the log, by call id."""
    return {
        tool.id: tool.status.response.result
        for tool in chat.tools.values()
        if isinstance(tool.status, Completed)
    }


def test_a_repeated_id_is_qualified_on_both_halves(chat: Conversation) -> None:
    """A second call with a used id is another call, and its result is paired with it."""
    for n, answer in enumerate(("one", "two", "three"), 1):
        (call,) = chat.record(calling("call_0", arguments=f'{{"n": {n}}}'))
        assert call.provider_call_id == "call_0"
        chat.record(result("call_0", answer))
    assert texts(chat) == {"call_0": "one", "call_0_2": "two", "call_0_3": "three"}


TWICE = '{"amount":1,"amount":2}'


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("openai", calling("c1", arguments=TWICE)),
        ("mistral", calling("abcdefghi", arguments=TWICE)),
        ("cohere", calling("c1", arguments=TWICE)),
        ("ollama", calling("c1", arguments=TWICE)),
        (
            "openai-responses",
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": TWICE},
        ),
    ],
)
def test_arguments_with_a_key_twice_stay_the_text_that_they_are(
    chat: Conversation, provider: str, message: dict[str, Any]
) -> None:
    """A parser would choose one of the two amounts, and a person would approve that one."""
    (tool,) = chat.record(message, provider=provider)
    assert (tool.call.arguments, tool.call.raw) == (None, TWICE)


def test_a_missing_id_is_minted_the_same_every_time() -> None:
    """The id depends on conversation and place, so a second read gives the same id."""
    with EventStore.open("sqlite://") as store:
        minted = [store.conversation(name).record(calling(None))[0].id for name in ("a", "b")]
        assert minted[0] != minted[1]
    with EventStore.open("sqlite://") as store:
        assert store.conversation("a").record(calling(""))[0].id == minted[0]


def test_results_without_ids_are_paired_by_position_and_name(chat: Conversation) -> None:
    """The name is compared first, then the order."""
    chat.record(calling(None, name="a"))
    chat.record(result(None, "A"))
    chat.record_messages(
        [
            {
                "role": "assistant",
                "tool_calls": [
                    {"function": {"name": "x", "arguments": "{}"}},
                    {"function": {"name": "y", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "name": "y", "content": "Y"},
            {"role": "tool", "content": "X"},
        ]
    )
    assert list(texts(chat).values()) == ["A", "X", "Y"]


@pytest.mark.parametrize("names", [["mail"], ["mail", "pay"]])
@pytest.mark.parametrize("call_id", [None, "p"])
@pytest.mark.parametrize("provider", ["ollama", "openai", "gemini"])
def test_a_result_is_no_answer_to_another_tool(
    chat: Conversation, provider: str, call_id: str | None, names: list[str]
) -> None:
    """A result whose tool no open call has is kept as text, and the call of the other stays."""
    called = [{"function": {"name": name, "arguments": {}}} for name in names]
    asked: Any = {"role": "assistant", "tool_calls": called}
    said: Any = {"role": "tool", "content": "paid", "tool_call_id": call_id}
    said["tool_name" if provider == "ollama" else "name"] = "refund"
    if provider == "gemini":
        asked = {"role": "model", "parts": [{"functionCall": {"name": n}} for n in names]}
        body = {"id": call_id, "name": "refund", "response": {"output": "paid"}}
        said = {"role": "user", "parts": [{"functionResponse": body}]}
    chat.record_messages([asked, said], provider=provider)
    assert [tool.is_pending for tool in chat.tools.values()] == [True] * len(names)
    *_, kept = (each.event for each in chat.events())
    assert isinstance(kept, MessageAdded)
    assert (kept.role, "paid" in str(kept.parts)) == ("tool", True)


def test_ids_on_the_results_alone_are_paired_by_position(chat: Conversation) -> None:
    """Such ids identify no call, so the order decides."""
    chat.record_messages([calling(None, ""), result("p", "P"), result("q", "Q")])
    assert list(texts(chat).values()) == ["P", "Q"]


def test_results_after_two_messages_find_each_its_own(chat: Conversation) -> None:
    """If two assistant messages share an id, the results are paired in order."""
    chat.record_messages([calling("c"), calling("c"), result("c", "1"), result("c", "2")])
    assert texts(chat) == {"c": "1", "c_2": "2"}


def test_an_equal_result_again_changes_nothing(chat: Conversation) -> None:
    """A message that is delivered twice does not settle the call twice."""
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
    """This holds if the two are recorded one by one, too."""
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    error = {"type": "tool_result", "tool_use_id": "t", "content": "E", "is_error": True}
    chat.record({"role": "assistant", "content": [call]}, "anthropic")
    chat.record({"role": "user", "content": [error]}, "anthropic")
    assert isinstance(chat.tools["t"].status, Failed)
    chat.record(
        {"role": "user", "content": [{**error, "content": "R", "is_error": False}]}, "anthropic"
    )
    assert texts(chat) == {"t": "R"}
    chat.record({"role": "user", "content": [error]}, "anthropic")
    assert texts(chat) == {"t": "R"}


def test_the_caller_says_what_an_error_is(chat: Conversation) -> None:
    """OpenAI's form has no flag for errors, so a function of the text may decide."""
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
    """An object is kept, nothing becomes an empty object, and other text is kept as text."""
    (item,) = parse([calling("c", arguments=given)], "openai")
    call = item.calls[0].call  # type: ignore[union-attr]
    assert (call.arguments, call.raw) == (arguments, raw)


def test_older_and_other_forms_of_calls_are_read(chat: Conversation) -> None:
    """`function_call`, custom tools and calls without a wrapper are read."""
    chat.record_messages(
        [
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "f", "arguments": "{}"},
            },
            {"role": "function", "name": "f", "content": "F"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "k", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}}
                ],
            },
            result("k", "out"),
            {
                "role": "assistant",
                "tool_calls": [{"id": "n", "name": "bare", "arguments": {"x": 1}}],
            },
            result("n", None),
        ]
    )
    tools = list(chat.tools.values())
    assert [tool.call.name for tool in tools] == ["f", "sh", "bare"]
    assert tools[1].call.raw == "ls -l"
    assert [tool.status.response.result for tool in tools] == ["F", "out", ""]  # type: ignore[union-attr]
    for provider in ("openai", "anthropic"):
        shown = model_history(chat.events()).render(provider)["messages"]
        assert validate(shown, provider) == []


def test_a_refusal_stays_a_refusal_and_crosses_as_text(chat: Conversation) -> None:
    """OpenAI gets the refusal back, other providers get its text."""
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}
    chat.record(refusal)
    history = model_history(chat.events())
    assert history.render("openai")["messages"] == [refusal]
    assert history.render("anthropic")["messages"][1]["content"] == "I will not."


def test_unknown_members_stay_with_a_mended_message() -> None:
    """The repair keeps members that we do not know."""
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
    """Reasoning is only for the provider that made it."""
    chat.add_message("user", "q")
    chat.add_message(
        "assistant", [Opaque("anthropic", {"type": "thinking", "thinking": "hm"}), Text("so")]
    )
    history = model_history(chat.events())
    assert "hm" not in str(history.render("openai"))
    assert [repair.rule for repair in history.repairs_for("openai")] == ["reasoning"]


def test_ids_and_names_are_mapped_to_what_a_provider_takes(chat: Conversation) -> None:
    """Ids and names are legal, short, unique, and equal in call and result.

    Each change is listed.
    """
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
    """The SDK's objects are recorded, and rendered without members that are null."""
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
    """A whole response and lists of its blocks are recorded."""
    types = pytest.importorskip("anthropic.types", reason="anthropic is not installed")
    message = types.Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [
                {"type": "text", "text": "hi", "citations": None},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )
    (call,) = chat.record(message, "anthropic")
    chat.complete(call.id, "R")
    chat.record({"role": "assistant", "content": message.content[:1]}, "anthropic")
    shown = model_history(chat.events()).render("anthropic")["messages"]
    assert validate(shown, "anthropic") == []
    assert [block["type"] for block in shown[1]["content"]] == ["text", "tool_use"]
    assert shown[-2]["content"] == "hi" or shown[-2]["content"][0]["text"] == "hi"


def test_values_that_json_cannot_hold_are_recorded_readably(chat: Conversation) -> None:
    """Bytes, half surrogates and foreign objects do not stop a recording."""
    chat.record_messages(
        [
            {"role": "user", "content": "a\ud800b", "extra": object()},
            {"role": "user", "content": b"bytes"},
            "just text",
            None,
            17,
        ]
    )
    said = [recorded.event for recorded in chat.events()]
    assert [
        text.text
        for event in said
        if isinstance(event, MessageAdded)
        for text in event.parts
        if isinstance(text, Text)
    ] == [
        "a\\ud800b",
        "bytes",
        "just text",
        "17",
    ]


def test_a_history_from_elsewhere_is_marked_as_such(chat: Conversation) -> None:
    """An imported call without a result may have run; an own call that never started has not."""
    chat.record_messages([calling("a")])
    chat.record(calling("b"))
    marks = [r.event.imported for r in chat.events() if isinstance(r.event, ToolPending)]
    assert marks == [True, False]
    shown = model_history(chat.events()).render("openai")["messages"]
    assert "whether it ran is not known" in shown[1]["content"]
    assert "Not started" in shown[3]["content"]


@pytest.mark.parametrize("messages", [None, 5, "text", {"role": "user", "content": "hi"}, ()])
def test_anything_at_all_can_be_repaired(messages: Any) -> None:
    """A value that is not a list is taken as one message."""
    for provider in ("openai", "anthropic"):
        repaired = repair_messages(messages, provider)
        assert validate(repaired.messages, provider) == []


def test_every_change_is_listed() -> None:
    """A repair says what was dropped, moved, renamed, wrapped or answered, and in which message."""
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
        ("dropped", "empty"),
        ("moved", "late-result"),
        ("moved", "early-result"),
        ("re-keyed", "id"),
        ("re-keyed", "no-id"),
        ("re-keyed", "name"),
        ("wrapped", "arguments"),
        ("wrapped", "orphan"),
        ("answered", "open-call"),
        ("rewritten", "form"),
    }
    assert any(repair.why.startswith("messages[6]: ") for repair in repaired.repairs)


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"hit": 1}]}
ADD = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}
SUM = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "4"}


def said(*blocks: Any) -> dict[str, Any]:
    """Return an assistant message of Anthropic's."""
    return {"role": "assistant", "content": list(blocks)}


def test_anthropics_blocks_stay_where_the_api_takes_them() -> None:
    """Signed thinking stays with the assistant, images with the user; other parts become text."""
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
    """Parts that the API does not take in their place become text."""
    text, url = {"type": "text", "text": "a"}, "https://a.b/c.png"
    shown = {"type": "image_url", "image_url": {"url": url}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    user = {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "a"},
            {"type": "input_image", "image_url": url},
            sound,
        ],
    }
    asked = {"type": "tool_use", "id": "t", "name": "f", "input": {"q": "b"}}
    history = [
        {"role": "system", "content": [text, shown]},
        user,
        {"role": "assistant", "content": [text, shown, sound, asked]},
    ]
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
    """Blanks are replaced, and an empty name is left out."""
    for role in ("user", "assistant"):
        repaired = repair_messages([{"role": role, "name": given, "content": "a"}], "openai")
        assert validate(repaired.messages, "openai") == []
        assert repaired.messages[0].get("name") == made


@pytest.mark.parametrize("content", ["It is\n", [{"type": "text", "text": "It is "}]])
def test_a_final_text_does_not_end_in_a_blank(content: Any) -> None:
    """The API refuses to continue from such a text; before the end it is allowed."""
    asked, last = {"role": "user", "content": "q"}, {"role": "assistant", "content": content}
    repaired = repair_messages([asked, last], "anthropic", prefill=True)
    assert is_valid(repaired.messages, "anthropic")
    assert [(change.what, change.rule) for change in repaired.repairs] == [("rewritten", "AN09")]
    ended = repair_messages([asked, last], "anthropic")
    assert ended.messages[:2] == [asked, last]
    assert ended.messages[2]["content"].endswith("nothing was said after the message above.]")
    assert [(change.what, change.rule) for change in ended.repairs] == [("added", "AN18")]
    assert repair_messages([asked, last, asked], "anthropic").messages == [asked, last, asked]


def test_a_search_that_the_servers_still_run_goes_back_as_it_is() -> None:
    """Its result may still come while only results of our own tools follow it."""
    running = [{"role": "user", "content": "go"}, said(SEARCH, ADD)]
    repaired = repair_messages(running, "anthropic")
    assert repaired.messages[1] == running[1]
    assert [repair.what for repair in repaired.repairs] == ["answered"]


def test_a_search_with_its_result_stays_where_the_rest_is_mended() -> None:
    """The pair stays as it is; our own call beside it is answered."""
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
def test_unpaired_server_calls_and_results_become_text(history: list[Any], kept: str) -> None:
    """The API takes neither half alone, so each becomes text."""
    given = [{"role": "user", "content": "go"}]
    given += [{"role": "user", "content": m} if isinstance(m, str) else m for m in history]
    assert "AN16" in {found.code for found in validate(given, "anthropic")}
    repaired = repair_messages(given, "anthropic")
    assert validate(repaired.messages, "anthropic") == []
    assert "AN16" in {repair.rule for repair in repaired.repairs}
    assert any(
        kept in block.get("text", "")
        for message in repaired.messages
        for block in message["content"]
        if isinstance(block, dict)
    )


@pytest.mark.parametrize(
    ("member", "rule", "kept"),
    [
        ({"refusal": "I will not."}, None, "I will not."),
        ({"reasoning_content": "Hm."}, "reasoning", None),
        ({"audio": {"id": "audio_1"}}, "foreign-part", "audio of openai"),
    ],
)
def test_members_beside_the_content_cross_or_are_listed(
    member: dict[str, Any], rule: str | None, kept: str | None
) -> None:
    """A refusal becomes text, reasoning stays with its provider, audio is named."""
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
    """Reasoning and calls are one unit; a refusal beside them stays."""
    chat.record({**calling("c"), "content": "Well.", "reasoning": "Hm.", "refusal": "No."})
    (shown,) = model_history(chat.events(), open_calls="drop").render("openai")["messages"]
    assert shown["content"] == [
        {"type": "refusal", "refusal": "No."},
        {"type": "text", "text": "Well."},
    ]
    assert "reasoning" not in shown


ADDED = {"type": "tool_addition", "tool": {"type": "tool_reference", "tool_name": "g"}}
BLOCKS = {"anthropic": ADDED, "bedrock": {"toolAddition": {"tool": {"name": "g"}}}}


@pytest.mark.parametrize("provider", sorted(BLOCKS))
def test_a_change_of_tools_stays_where_it_is(provider: str) -> None:
    """Models accept the block only in its place, so a repair around it keeps it."""
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
    assert repair_messages(broken, provider, prefill=True).messages == messages


def test_a_compaction_may_open_a_conversation(chat: Conversation) -> None:
    """Anthropic ignores everything before a compaction block, so clients drop it."""
    summary = {"type": "compaction", "content": "It went well."}
    messages = [{"role": "assistant", "content": [summary]}, {"role": "user", "content": "q"}]
    assert repair_messages(messages, "anthropic").messages == messages
    chat.record_messages(messages, provider="anthropic")
    assert model_history(chat.events()).render("anthropic")["messages"] == messages


def test_an_item_reference_may_have_no_type() -> None:
    """A missing type and a null type both mean a reference."""
    output = {"type": "function_call_output", "call_id": "c", "output": "done"}
    for reference in ({"id": "fc_1"}, {"type": None, "id": "fc_1"}):
        assert validate([reference, output], "openai-responses") == []
        twice = [reference, {"role": "user", "content": "q"}, reference]
        shown = repair_messages(twice, "openai-responses").messages
        assert shown[0] == reference


def test_the_linter_reads_the_objects_of_the_sdks() -> None:
    """The objects are read in a list and in a tuple."""
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
    """An object whose every attribute raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_an_object_whose_attributes_raise_is_validated_and_repaired(provider: str) -> None:
    """The errors of foreign code are not passed on."""
    for messages in ([Hostile()], Hostile(), [{"role": "user", "content": [Hostile()]}]):
        assert validate(messages, provider) != []
        assert validate(repair_messages(messages, provider).messages, provider) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("call_id", ["toolu_1", "a-b", "", 5, None])
def test_a_server_call_has_a_server_id(call_id: Any) -> None:
    """The API refuses another id: call and result get a legal one, or become text."""
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
    """OpenAI accepts 64 letters, numbers, underscores and dashes; other ids are left out."""
    call = {"type": "function_call", "id": item_id, "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "done"}
    assert [found.code for found in validate([call, output], "openai-responses")] == ["OR03"]
    repaired = repair_messages([call, output], "openai-responses").messages
    assert repaired == [{key: call[key] for key in call if key != "id"}, output]
