"""The items of OpenAI Responses: parsed and rendered."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from eventstore import (
    Completed,
    Conversation,
    EventStore,
    Image,
    MessageAdded,
    Opaque,
    Text,
    validate,
)
from eventstore.providers import PROVIDERS, Answer, Call, Turn, list_key, parse, render
from eventstore.providers.crossing import DONE
from projections import model_history, repair_messages

Item = dict[str, Any]
OURS = "openai-responses"
URL = "https://example.com/a.png"


def says(role: str = "user", content: Any = "hello", **more: Any) -> Item:
    """Return a message."""
    return {"role": role, "content": content, **more}


def call(call_id: str = "call_1", name: str = "f", arguments: Any = "{}", **more: Any) -> Item:
    """Return a call of a function."""
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        **more,
    }


def output(call_id: str = "call_1", text: Any = "R", **more: Any) -> Item:
    """Return the output of a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": text, **more}


def reasoning(item_id: str | None = "rs_1") -> Item:
    """Return a reasoning item."""
    given = {} if item_id is None else {"id": item_id}
    return {"type": "reasoning", **given, "summary": [], "encrypted_content": "gAAAA"}


def output_text(text: str = "so", **more: Any) -> Item:
    """Return an assistant's message as the API gives it."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
        **more,
    }


SHELL = {"type": "custom_tool_call", "call_id": "call_9", "name": "shell", "input": "ls -l"}
SHELL_OUTPUT = {"type": "custom_tool_call_output", "call_id": "call_9", "output": "a b"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
FIND = {"type": "tool_search_call", "call_id": "t", "execution": "client", "arguments": {"q": "x"}}
FOUND = {"type": "tool_search_output", "call_id": "t", "execution": "client", "tools": []}
TOOLS = {"type": "additional_tools", "role": "developer", "tools": []}


def shown(chat: Conversation) -> Any:
    """Return the input that the log renders."""
    return model_history(chat.events()).render(OURS)["input"]


def mended(*items: Any, **options: Any) -> list[Item]:
    """Return the repaired items, which must be valid and stay as they are."""
    repaired = repair_messages(list(items), OURS, **options)
    assert validate(repaired.messages, OURS) == []
    assert repair_messages(repaired.messages, OURS).messages == repaired.messages
    return repaired.messages


HISTORIES = [
    pytest.param(
        [says(), reasoning(), call(id="fc_1"), output(), output_text(id="msg_1")],
        id="reasoning and ids",
    ),
    pytest.param(
        [says(), call("a"), call("b"), output("a"), output("b"), says("assistant")],
        id="parallel calls",
    ),
    pytest.param(
        [
            says(),
            reasoning("rs_1"),
            call("a"),
            reasoning("rs_2"),
            call("b"),
            output("a"),
            output("b", [{"type": "input_image", "image_url": URL, "detail": "low"}]),
        ],
        id="reasoning between calls, an image given",
    ),
    pytest.param(
        [
            says("system", "s"),
            says("developer", "d"),
            says(),
            FIND,
            FOUND,
            call(),
            output(),
            TOOLS,
            says(),
        ],
        id="a search for tools",
    ),
    pytest.param(
        [
            says(),
            reasoning(),
            SEARCH,
            output_text(id="msg_1", phase="final_answer"),
            says(),
            SHELL,
            SHELL_OUTPUT,
        ],
        id="a server's search, a custom tool",
    ),
    pytest.param(
        [says(), says("assistant", ""), call(namespace="n", status=None), output()],
        id="empty words, unknown members",
    ),
    pytest.param(
        [
            says("user", [{"type": "input_text", "text": "a"}, {"type": "input_file"}]),
            says("assistant", [{"type": "refusal", "refusal": "no"}]),
            says("user", id="msg_7"),
        ],
        id="parts",
    ),
]


@pytest.mark.parametrize("items", HISTORIES)
def test_unchanged_items_go_back_as_they_came(chat: Conversation, items: list[Item]) -> None:
    """The log, too, gives back every byte, even if the items were imported one by one."""
    assert validate(items, OURS) == []
    chat.record_messages(items, OURS)
    assert json.dumps(shown(chat)) == json.dumps(items)
    for cut in range(len(items)):
        with EventStore.open("sqlite://") as store:
            imported = store.conversation("i")
            imported.import_messages(items[:cut], OURS)
            imported.import_messages(items, OURS)
            assert json.dumps(shown(imported)) == json.dumps(items)


def test_items_that_follow_each_other_are_one_turn(chat: Conversation) -> None:
    """Therefore parallel calls are parallel for every other provider."""
    chat.record_messages(
        [
            says(),
            reasoning(),
            output_text(),
            call("a"),
            call("b"),
            output("b"),
            output("a"),
            call("c"),
            output("c"),
        ],
        OURS,
    )
    assert [(t.turn, t.index) for t in chat.tools.values()] == [(1, 0), (1, 1), (2, 0)]
    messages = model_history(chat.events()).render("openai")["messages"]
    assert [m["role"] for m in messages] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "tool",
    ]
    assert messages[1]["content"] == [{"type": "text", "text": "so"}]
    assert [m["tool_call_id"] for m in messages[2:4]] == ["a", "b"]


def test_an_item_between_two_calls_separates_their_turns(chat: Conversation) -> None:
    """A user's message or an output begins a new turn."""
    chat.record_messages([call("a"), says(), call("b")], OURS)
    assert [tool.turn for tool in chat.tools.values()] == [1, 2]


def test_a_call_that_is_left_out_removes_the_reasoning_of_its_turn() -> None:
    """The ids that require the reasoning are removed with it."""
    items = [
        says(),
        reasoning(),
        output_text(id="msg_1"),
        SEARCH,
        call("a", id="fc_1"),
        call("b", name="g", id="fc_2"),
        output("a", '{"error":"no"}', is_error=True),
        output("b"),
        call("c", id="fc_3"),
        output("c"),
    ]
    repaired = repair_messages(items, OURS, collapse="failed")
    assert validate(repaired.messages, OURS) == []
    assert repaired.messages == [
        says(),
        output_text(),
        call("b", name="g"),
        output("b"),
        call("c", id="fc_3"),
        output("c", 'R\n[1 other attempt failed: {"error":"no"}]'),
    ]
    assert ("dropped", "OR04") in {(r.what, r.rule) for r in repaired.repairs}


def test_an_edited_call_is_written_anew(chat: Conversation) -> None:
    """The call has the edited arguments, and the reasoning of its turn is dropped."""
    made = chat.record_messages([says(), reasoning(), call(id="fc_1")], OURS)
    chat.approve(made[0].id, edited_arguments={"x": 2})
    chat.complete(made[0].id, "R")
    assert shown(chat) == [says(), call(arguments='{"x":2}'), output()]


def test_reasoning_before_a_message_without_an_id_loses_its_own_id() -> None:
    """The API would use the id to look for the message that belongs to it."""
    kept = {"type": "reasoning", "id": "rs_1", "summary": []}
    nameless = {"type": "reasoning", "summary": []}
    assert mended(says(), kept, says("assistant")) == [says(), nameless, says("assistant")]


def test_encrypted_reasoning_needs_no_id_after_it(chat: Conversation) -> None:
    """A real answer with `store` set to false has this form."""
    items = [says(), reasoning(), says("assistant")]
    assert repair_messages(items, OURS).repairs == []
    chat.record_messages(items, OURS)
    assert shown(chat) == items


def test_parts_in_the_wrong_place_are_sent_in_the_form_of_their_place() -> None:
    """Parts of Chat Completions, of the other speaker and of messages in outputs are converted."""
    shown = {"type": "image_url", "image_url": {"url": URL}}
    assert mended(says("user", [{"type": "text", "text": "a"}, shown])) == [
        says(
            "user",
            [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": URL, "detail": "auto"},
            ],
        ),
    ]
    given = [{"type": "input_text", "text": "a"}, {"type": "input_file", "filename": "f.pdf"}]
    assert mended(says(), says("assistant", given))[1:] == [
        says("assistant", "a"),
        says("assistant", "[input_file of openai-responses: f.pdf]"),
    ]
    (_, answered) = mended(call(), output(text=[{"type": "output_text", "text": "a"}]))
    assert answered == output(text="a")


def test_reasoning_gets_the_summary_that_the_api_asks_for() -> None:
    """Reasoning without a summary gets an empty one."""
    bare = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAA"}
    assert mended(says(), bare, says("assistant"))[1] == {**bare, "summary": []}
    (change,) = repair_messages([says(), bare, says("assistant")], OURS).repairs
    assert (change.what, change.rule) == ("added", "OR05")


@pytest.mark.parametrize("follower", [[], [says()], [output("zz")]])
def test_reasoning_without_its_output_is_left_out(follower: list[Item]) -> None:
    """The run ended before the model's output was recorded."""
    assert reasoning() not in mended(says(), reasoning(), *follower)


def test_used_and_invalid_ids_are_left_out() -> None:
    """Items that need an id are dropped whole, and their reasoning with them."""
    assert mended(says(id="item_1"), says(id="msg_1"), says(id="msg_1")) == [
        says(),
        says(id="msg_1"),
        says(),
    ]
    assert mended(says(), reasoning("x"), call(id="fc_1"), output()) == [says(), call(), output()]
    own = "76f8b89e-4a41-46fb-86ae-546cc1e4ba6c"  # as a compatible server gives them
    assert mended(says(), reasoning(own), call(), output(), output())[1] == reasoning(own)
    assert mended(says(), reasoning(), call("a"), output("a"), reasoning(), call("b"), output("b"))[
        4:
    ] == [call("b"), output("b")]
    assert mended(says(), SEARCH, SEARCH, output_text()) == [says(), SEARCH, output_text()]
    assert mended(says(), {**SEARCH, "id": []}, output_text(id=7)) == [
        says(),
        says("assistant", "so"),
    ]
    asked = {**SEARCH, "id": 7, "action": {"type": "search", "query": "otters"}}
    (_, reported, answer) = mended(says(), reasoning(), asked, output_text(id="msg_1"))
    assert (reported["role"], "otters" in reported["content"]) == ("assistant", True)
    assert answer == {key: value for key, value in output_text().items() if key != "id"}


def test_an_output_moves_to_its_call_and_text_after_it() -> None:
    """No message stands between a call and its output."""
    said = [reasoning(), output_text(id="msg_1"), says()]
    assert mended(says(), call(), *said, output(), output()) == [says(), call(), output(), *said]
    assert mended(output(), call(), says(), output("zz", "lost"))[:2] == [call(), output()]
    assert "lost" in str(mended(output("zz", "lost")))


@pytest.mark.parametrize(
    ("broken", "arguments"),
    [
        (call(arguments={"a": 1}), '{"a":1}'),
        (call(arguments=None), "{}"),
        (call(arguments=[1]), '{"raw_arguments":"[1]"}'),
        (call(name="a b"), "{}"),
        (call(call_id=None), "{}"),  # type: ignore[arg-type]
        (call(call_id="x" * 65), "{}"),
        (call(id="call_1"), "{}"),
    ],
)
def test_a_call_of_a_wrong_form_is_mended(broken: Item, arguments: str) -> None:
    """Its output is still paired with it."""
    repaired = mended(says(), reasoning(), broken, output(broken["call_id"]))
    made = next(item for item in repaired if item.get("type") == "function_call")
    assert (made["arguments"], len(repaired)) == (
        arguments,
        3 + (len(broken["call_id"] or "") > 64),
    )
    assert repaired[-1] == output(made["call_id"])


def test_arguments_that_are_not_an_object_stay_as_the_model_wrote_them(chat: Conversation) -> None:
    """The text is in an object, as vLLM demands; the input of a custom tool is any text."""
    items = [says(), call(arguments="not json"), output(), SHELL, SHELL_OUTPUT]
    chat.record_messages(items, OURS)
    kept = [says(), call(arguments='{"raw_arguments":"not json"}'), *items[2:]]
    assert shown(chat) == kept == mended(*items)
    other = model_history(chat.events()).render("anthropic")["messages"]
    assert other[1]["content"][0]["input"] == {"raw_arguments": "not json"}
    assert other[3]["content"][0]["input"] == {"input": "ls -l"}


def test_a_custom_call_is_carried_to_the_other_api_and_back() -> None:
    """The text is as it was, also where it is JSON."""
    text = '{ "a":1}'
    items = [says(), {**SHELL, "input": text}, SHELL_OUTPUT]
    chat = repair_messages(items, OURS, "openai").messages
    made = {"id": SHELL["call_id"], "type": "custom", "custom": {"name": "shell", "input": text}}
    assert chat[1]["tool_calls"] == [made]
    assert validate(chat, "openai") == []
    assert repair_messages(chat, "openai", OURS).messages == items


def test_an_edited_custom_call_stays_one(chat: Conversation) -> None:
    """The text that the person approved takes the place of the model's."""
    (tool,) = chat.record(SHELL, OURS)
    chat.approve(tool.id, edited_arguments={"input": "ls"})
    made = shown(chat)
    assert [item["type"] for item in made] == ["custom_tool_call", "custom_tool_call_output"]
    assert made[0]["input"] == "ls"
    assert "has not run" in made[1]["output"]


def test_an_open_custom_call_is_not_said_to_be_unparsed(chat: Conversation) -> None:
    """Its text need not be JSON: the call waits like any other."""
    chat.record(SHELL, OURS)
    assert shown(chat)[1]["output"] == "[Not started: this call has not run.]"
    unparsed = model_history(chat.events()).render("openai")
    assert "parsed" not in str(unparsed)


def test_images_in_an_output_of_another_form_stay_in_it() -> None:
    """Images and files of Chat Completions become those of this API, in place."""
    url = "data:image/png;base64,iVBORw0KGgo="
    broken = output() | {
        "output": [
            {"type": "text", "text": "SHOT"},
            {"type": "image_url", "image_url": {"url": url}},
        ]
    }
    assert mended(says(), call(), broken)[2]["output"] == [
        {"type": "input_text", "text": "SHOT"},
        {"type": "input_image", "image_url": url, "detail": "auto"},
    ]


def test_events_of_a_stream_are_no_items() -> None:
    """The event that ends an item holds it; the others say the same in pieces, or nothing."""
    words = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    words["content"] = [{"type": "output_text", "text": "FOUND", "annotations": []}]
    given = [
        says(),
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_text.delta", "delta": "FOU"},
        {"type": "response.output_item.done", "item": words},
    ]
    repaired = repair_messages(given, OURS)
    assert repaired.messages == [says(), words]
    assert "input[1] says nothing" in str(repaired.repairs)


def test_an_item_of_an_unknown_type_stays_as_text() -> None:
    """The API would refuse the whole request for it."""
    repaired = repair_messages([says(), {"type": "tool_result", "content": "FOUND"}], OURS)
    assert [message["role"] for message in repaired.messages] == ["user", "assistant"]
    assert "FOUND" in repaired.messages[1]["content"]
    assert "tool_result is not the type of an item" in str(repaired.repairs)


def test_a_message_of_an_unknown_type_is_read_by_its_members() -> None:
    """Its role and content say what it is."""
    assert mended(says(type="text"), says(type="x", role="assistant")) == [
        says(),
        says(role="assistant"),
    ]


@pytest.mark.parametrize("state", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
def test_outputs_for_what_the_server_keeps_stay_outputs(state: dict[str, str]) -> None:
    """The request says so, whole or in a wrapper; what else is wrong is mended."""
    request = {**state, "input": [output(), says()]}
    assert repair_messages(request, OURS).messages == request["input"]
    assert repair_messages({"body": request}, OURS).repairs == []
    broken = {**state, "input": [output(), call("call_2"), says()]}
    repaired = repair_messages(broken, OURS)
    assert repaired.messages[0] == output()
    assert [repair.rule for repair in repaired.repairs] == ["open-call"]
    assert validate({**broken, "input": repaired.messages}, OURS) == []
    alone = repair_messages({"input": [output()]}, OURS).messages
    assert [message["role"] for message in alone] == ["user"]


def test_reasoning_of_deepseek_keeps_its_ids() -> None:
    """Its server takes them back, several before several calls."""
    items = [
        says(),
        reasoning("rs-a"),
        reasoning("rs-b"),
        call(),
        call("call_2"),
        output(),
        output("call_2"),
    ]
    repaired = repair_messages(items, OURS)
    assert (repaired.messages, repaired.repairs) == (items, [])


def test_a_custom_call_without_an_output_gets_one_of_its_kind() -> None:
    """Both halves are a custom tool's, if the call had to be rewritten, too."""
    repaired = mended(says(), SHELL)
    assert repaired[2]["type"] == "custom_tool_call_output"
    rewritten = mended(says(), {**SHELL, "name": "s h"}, SHELL_OUTPUT)
    assert [item.get("type") for item in rewritten[1:]] == [
        "custom_tool_call",
        "custom_tool_call_output",
    ]


def test_turns_from_elsewhere_become_items() -> None:
    """Parts fit the role of their message, and foreign reasoning is dropped."""
    thinking = Opaque("anthropic", {"type": "thinking", "thinking": "hm"})
    image = Image(URL)
    turns = [
        Turn("system", (Text("s"),)),
        Turn("user", (Text("q"), image, Image(None, "AA"))),
        Turn(
            "assistant",
            (thinking, Text("so"), image),
            [
                Call("a", "f", {"x": 1}, Answer("R")),
                Call("b", "g.h", {}, Answer("E", is_error=True, note="[note]")),
            ],
        ),
        Turn("assistant", (thinking,)),
        Turn("assistant", (Text("a"), Text("b"))),
        Turn("user", (), hidden=True),
    ]
    rendered = render(turns, OURS)
    items = rendered.arguments["input"]
    assert validate(items, OURS) == []
    name = items[5]["name"]
    assert items == [
        says("system", "s"),
        says(
            "user",
            [
                {"type": "input_text", "text": "q"},
                {"type": "input_image", "image_url": URL, "detail": "auto"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto"},
            ],
        ),
        says("assistant", "so"),
        says("assistant", f"[image {URL}]"),
        call("a", arguments='{"x":1}'),
        call("b", name=name),
        output("a"),
        output("b", '{"error":"E"}\n[note]'),
        says("assistant", "a"),
        says("assistant", "b"),
    ]
    assert {change.rule for change in rendered.changes} == {"reasoning", "foreign-part", "name"}


def test_own_parts_without_their_native_form_are_items_again() -> None:
    """This is the case in a turn whose calls were changed in the log."""
    parts = (
        Opaque(OURS, reasoning(None)),
        Opaque(OURS, {"type": "refusal", "refusal": "no"}),
        Text("x"),
        Opaque(OURS, SEARCH),
    )
    turn = Turn("assistant", parts, [Call("a", "f", {}, Answer("R"))], OURS)
    assert render([turn], OURS).arguments["input"] == [
        reasoning(None),
        says(
            "assistant",
            [
                {"type": "refusal", "refusal": "no"},
                {"type": "output_text", "text": "x", "annotations": []},
            ],
        ),
        SEARCH,
        call("a"),
        output("a"),
    ]


def test_items_about_openais_own_tools_do_not_cross() -> None:
    """Each is listed; the work of a server is named in a note of the user's."""
    found = [each | {"execution": "server", "call_id": None} for each in (FIND, FOUND)]
    items = [says(), reasoning(), *found, TOOLS, SEARCH, output_text(), says()]
    repaired = repair_messages(items, OURS, "anthropic")
    assert repaired.messages[0]["content"][-1] == {
        "type": "text",
        "text": f"{DONE.format(OURS)}\n[web_search_call of openai-responses, not shown here]",
    }
    assert repaired.messages[1] == {"role": "assistant", "content": "so"}
    kinds = [repair.what for repair in repaired.repairs]
    assert (kinds.count("dropped"), kinds.count("wrapped")) == (4, 1)


def test_images_of_a_result_cross_where_they_can_be_shown() -> None:
    """Images go to Anthropic and back; for Gemini they stand after the response."""
    parts = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": URL, "detail": "auto"},
    ]
    items = [says(), call(), output(text=parts)]
    there = repair_messages(items, OURS, "anthropic").messages
    assert there[2]["content"][0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"type": "url", "url": URL}},
    ]
    assert repair_messages(there, "anthropic", OURS).messages == items
    gemini = repair_messages(items, OURS, "gemini").messages
    assert gemini[3]["parts"][1] == {"fileData": {"fileUri": URL}}
    noted = repair_messages(
        [
            *there[:2],
            {"role": "user", "content": [{**there[2]["content"][0], "is_error": True}]},
            {**there[1], "content": [{**there[1]["content"][0], "id": "b"}]},
            {"role": "user", "content": [{**there[2]["content"][0], "tool_use_id": "b"}]},
        ],
        "anthropic",
        OURS,
        collapse="failed",
    ).messages
    assert [part["type"] for part in noted[2]["output"]] == [
        "input_text",
        "input_image",
        "input_text",
    ]
    file = [{"type": "input_file", "file_id": "file_1"}]
    repaired = repair_messages([says(), call(), output(text=file)], OURS, "anthropic")
    assert ("wrapped", "foreign-part") in {(r.what, r.rule) for r in repaired.repairs}


@pytest.mark.parametrize("target", [OURS, "gemini", "anthropic", "openai"])
def test_an_image_of_a_result_without_a_call_is_kept(target: str) -> None:
    """The image follows the text that the result becomes."""
    parts = [{"type": "input_image", "image_url": URL, "detail": "auto"}]
    repaired = repair_messages([says(), output(text=parts)], OURS, target)
    assert URL in json.dumps(repaired.messages[-1])
    assert validate(repaired.messages, target) == []
    assert repair_messages(repaired.messages, target).messages == repaired.messages


@pytest.mark.parametrize(
    ("item", "role", "parts"),
    [
        ("hello", "user", (Text("hello"),)),
        (b"hello", "user", (Text("hello"),)),
        (says("human"), "user", (Text("hello"),)),
        (says("wizard"), "user", (Text("hello"),)),
        (says(5), "user", (Text("hello"),)),  # type: ignore[arg-type]
        ({"content": "hello"}, "user", (Text("hello"),)),
        (says("ai", 7), "assistant", (Text("7"),)),
        (
            says("user", ["a", "", {"type": "input_text"}, {"x": 1}, {}, 3]),
            "user",
            (Text("a"), Text('{"x":1}'), Text("3")),
        ),
        (says("user", [{"type": "input_image", "image_url": URL}]), "user", (Image(URL),)),
        (
            says("user", [{"type": "input_image", "image_url": "data:image/gif;base64,AA"}]),
            "user",
            (Image(None, "AA", "image/gif"),),
        ),
        (
            says("user", [{"type": "input_image", "file_id": "f"}]),
            "user",
            (Opaque(OURS, {"type": "input_image", "file_id": "f"}),),
        ),
        ({"x": 1}, "assistant", (Text('{"x":1}'),)),
        ({"output": [output_text()]}, "assistant", (Text("so"),)),
    ],
)
def test_anything_that_says_something_is_read(item: Any, role: str, parts: Any) -> None:
    """Text, other roles, other content and whole responses are read."""
    (found,) = parse([item], OURS)
    assert (found.role, found.parts) == (role, parts)  # type: ignore[union-attr]
    mended(item, call(), says())


@pytest.mark.parametrize("item", [None, "", {}, says(content=None)])
def test_empty_items_are_left_out(item: Any) -> None:
    """Empty items and empty messages are left out."""
    assert parse([item], OURS) == []


def test_annotations_stay_and_say_their_text() -> None:
    """A cited text is one part for us, and text for other providers."""
    cited = {"type": "output_text", "text": "so", "annotations": [{"type": "url_citation"}]}
    items = [says(), says("assistant", [cited])]
    (_, found) = parse(items, OURS)
    assert found.parts == (Opaque(OURS, cited),)  # type: ignore[union-attr]
    assert repair_messages(items, OURS, "openai").messages[1]["content"] == [
        {"type": "text", "text": "so"}
    ]


def test_messages_of_chat_completions_lose_no_result() -> None:
    """A list that mixes both forms is repaired without a loss."""
    items = [says(), call(), {"role": "tool", "tool_call_id": "call_1", "content": "R"}]
    assert mended(*items) == [says(), call(), output()]


def test_a_system_message_stands_where_it_stood() -> None:
    """`system` and `developer` messages are items, not a parameter of the request."""
    items = [says("system"), says(), says("developer")]
    repaired = repair_messages(items, "openai", OURS)
    assert (repaired.messages, repaired.system) == (items, None)


def test_a_log_cut_anywhere_gives_a_valid_input(chat: Conversation) -> None:
    """The input breaks no rule, and repairing the list gives the same."""
    chat.record_messages(
        [
            says(),
            reasoning(),
            call("a"),
            SEARCH,
            call("b"),
            says("assistant"),
            says(),
            output("b"),
            reasoning("rs_2"),
            SHELL,
            output_text(id="msg_1"),
            SHELL_OUTPUT,
        ],
        OURS,
    )
    events = list(chat.events())
    for count in range(len(events) + 1):
        items = model_history(events[:count]).render(OURS)["input"]
        assert validate(items, OURS) == []


def test_openais_own_objects_are_recorded(chat: Conversation) -> None:
    """A whole response and single items are recorded."""
    types = pytest.importorskip("openai.types.responses", reason="openai is not installed")
    response = types.Response.model_validate(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "tools": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "output": [reasoning(), output_text(id="msg_1"), call(id="fc_1")],
        }
    )
    chat.record(says(), OURS)
    (made,) = chat.record(response, OURS)
    chat.record(output(), OURS)
    assert isinstance(chat.tools[made.id].status, Completed)
    items = shown(chat)
    assert validate(items, OURS) == []
    assert [item.get("id") for item in items] == [None, "rs_1", "msg_1", "fc_1", None]
    assert items[1:4] == [
        item.model_dump(mode="json", exclude_none=True) for item in response.output
    ]
    again = chat.record_messages(response.output, OURS)
    assert [tool.id for tool in again] == ["call_1_2"]


def test_plain_text_of_a_user_is_stored_once(chat: Conversation) -> None:
    """The log needs no second copy of a message that our own form gives back."""
    chat.record_messages([says(), call(), output(), says("user", id="msg_1")], OURS)
    natives = [r.event.native for r in chat.events() if isinstance(r.event, MessageAdded)]
    assert natives == [None, [call()], says("user", id="msg_1")]


HELD = [
    says(),
    {"type": "item_reference", "id": "fc_1"},
    {"type": "function_call_output", "call_id": "held", "output": "held words"},
    says(),
]


@pytest.mark.parametrize("more", [{}, {"status": "completed"}])
def test_the_output_of_a_call_that_the_server_keeps_stays_one(
    chat: Conversation, more: dict[str, Any]
) -> None:
    """An item reference stands for the call; for other providers it is text."""
    items = copy.deepcopy(HELD)
    items[2] |= more
    assert validate(items, OURS) == []
    chat.record_messages(items, OURS)
    history = model_history(chat.events())
    assert history.render(OURS) == {"input": items}
    assert history.repairs_for(OURS) == []
    for other in PROVIDERS:
        reported, repairs = history.rendered(other)
        assert json.dumps(reported).count("held words") == 1
        assert validate(reported[list_key(other)], other) == []
        assert other == OURS or ("wrapped", "orphan") in {(r.what, r.rule) for r in repairs}


def test_an_output_is_text_where_its_reference_is_not_shown(chat: Conversation) -> None:
    """Without the reference the API would not find the call."""
    chat.record_messages(HELD, OURS)
    cut = model_history(chat.events(), since=3)
    shown, repairs = cut.rendered(OURS)
    assert validate(shown["input"], OURS) == []
    assert [item["role"] for item in shown["input"]] == ["user", "user"]
    assert "held words" in shown["input"][0]["content"]
    assert ("wrapped", "orphan") in {(repair.what, repair.rule) for repair in repairs}
    repaired = repair_messages([HELD[0], HELD[2]], OURS)
    assert "held words" in repaired.messages[1]["content"]
    assert [(repair.what, repair.rule) for repair in repaired.repairs] == [("wrapped", "orphan")]


def test_a_text_is_a_whole_input(chat: Conversation) -> None:
    """An unchanged text stays a text; a log shows it as a message."""
    assert repair_messages("hello", OURS).messages == "hello"  # type: ignore[arg-type]
    assert repair_messages("hello", OURS, "openai").messages == [says(content="hello")]  # type: ignore[arg-type]
    chat.record_messages("hello", OURS)  # type: ignore[arg-type]
    assert shown(chat) == [says(content="hello")]


def test_items_become_text_when_their_reasoning_is_dropped() -> None:
    """Their ids would require the reasoning, so they become text without ids."""
    done = {
        "type": "mcp_call",
        "id": "mcp_1",
        "name": "f",
        "server_label": "s",
        "arguments": "{}",
        "output": "real words",
    }
    asked = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "name": "f",
        "server_label": "s",
        "arguments": '{"a": "asked words"}',
    }
    given = {
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_1",
        "approve": True,
        "reason": "given words",
    }
    items = mended(says(), reasoning("null"), done, asked, given, output_text(id="msg_1"))
    assert not [item for item in items if item.get("type") in ("mcp_call", given["type"])]
    for words in ("real words", "asked words", "given words"):
        assert words in json.dumps(items)


@pytest.mark.parametrize(
    "item", [{"role": "model", "content": "hello"}, {"type": {"a": {}}, "id": "ig_1"}]
)
def test_an_invalid_item_becomes_a_valid_one(item: dict[str, Any]) -> None:
    """This holds for a role of another provider and for an invalid type."""
    mended(says(), item)


@pytest.mark.parametrize("item_id", [7, "ws_1"])
def test_a_search_with_an_illegal_or_used_id_becomes_text(item_id: Any) -> None:
    """The query of the search is kept as text."""
    first, second = (
        {
            "type": "web_search_call",
            "id": given,
            "status": "completed",
            "action": {"type": "search", "query": f"otters {given}"},
        }
        for given in ("ws_1", item_id)
    )
    second["action"]["query"] = "otters in oslo"
    items = mended(says(), first, second, output_text(id="msg_1"))
    assert "otters in oslo" in json.dumps(items)
    assert len([item for item in items if item.get("type") == "web_search_call"]) <= 1


def test_the_output_of_a_call_that_is_here_too_is_text_beside_a_reference() -> None:
    """A call in the list is not kept by the server, so a second output of its id becomes text."""
    kept = {"type": "item_reference", "id": "fc_kept"}
    items = [says(), call(), output(), kept, output(text="held words"), call(), output(text="S")]
    shown = mended(*items)
    outputs = [item["output"] for item in shown if item.get("type") == output()["type"]]
    assert outputs == ["R", "S"]
    assert json.dumps(shown).count("held words") == 1


@pytest.mark.parametrize("kind", ["message", "function_call", "custom_tool_call"])
def test_an_output_of_a_wrong_type_is_read_as_an_output(kind: str) -> None:
    """The members of an item decide what it is."""
    shown = mended(says(), call(), output(text="real words", type=kind), says())
    assert [item["output"] for item in shown if "output" in item] == ["real words"]


@pytest.mark.parametrize("role", ["assistant", "system", "user"])
def test_a_message_with_the_type_of_a_call_is_read_as_a_message(role: str) -> None:
    """The item has a role and content, and calls nothing."""
    shown = mended(says(), says(role, "real words", type="function_call"))
    assert [item for item in shown if item.get("content") == "real words"] != []
    assert not [item for item in shown if item.get("type") == "function_call"]


@pytest.mark.parametrize("message", [{}, {"id": "fc_1"}])
def test_content_without_a_role_is_a_message_whatever_its_type(message: dict[str, Any]) -> None:
    """The item has content, and does not name a call."""
    shown = mended(says(), {"type": "function_call", "content": "real words", **message})
    assert shown == [says(), says(content="real words")]


def test_a_message_for_an_item_whose_id_is_used_comes_after_the_outputs() -> None:
    """Otherwise the message would separate the calls from their outputs."""
    item = {"type": "mcp_call", "id": "x_1", "name": "real words"}
    item |= {"arguments": "{}", "server_label": "s"}
    shown = mended(says(), call(), item, item, call("call_2"), output(), output("call_2"))
    assert shown[:4] == [says(), call(), output(), item]
    assert "real words" in shown[4]["content"]
    assert shown[5:] == [call("call_2"), output("call_2")]
