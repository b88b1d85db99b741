"""Calls that code of Anthropic's servers makes, toolsets, and turns that the API paused."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import Conversation, Pending, validate
from projections import model_history, repair_messages

Json = dict[str, Any]
ASK: Json = {"role": "user", "content": "Sum the orders."}
RUN: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
RAN: Json = {
    "type": "code_execution_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "code_execution_result",
        "stdout": "3",
        "stderr": "",
        "return_code": 0,
        "content": [],
    },
}
CALLER: Json = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
CALL: Json = {"type": "tool_use", "id": "toolu_1", "name": "orders", "input": {}, "caller": CALLER}
TOOLSET = {"toolset_name": "shop"}


def says(*blocks: Json) -> Json:
    """Return an assistant message."""
    return {"role": "assistant", "content": [*blocks]}


def user(*blocks: Json) -> Json:
    """Return a user message."""
    return {"role": "user", "content": [*blocks]}


def text(said: str) -> Json:
    """Return a text block."""
    return {"type": "text", "text": said}


def result(content: str = "3 orders", **more: Any) -> Json:
    """Return the result of the call."""
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **more}


def response(message_id: str, stop_reason: str, *blocks: Json) -> Json:
    """Return a whole response."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": message_id, "type": "message", "model": "m", "stop_sequence": None}
    return {**head, **says(*blocks), "stop_reason": stop_reason, "usage": usage}


def prompt(chat: Conversation) -> list[Json]:
    """Return the messages of the next request, which break no hard rule."""
    messages: list[Json] = model_history(chat.events()).render("anthropic")["messages"]
    assert [found for found in validate(messages, "anthropic") if found.level == "hard"] == []
    return messages


def repaired(*given: Json) -> tuple[list[Json], list[tuple[str, str]]]:
    """Return repaired messages, which stay when they are repaired again, and what was done."""
    done = repair_messages([*given], "anthropic")
    assert validate(done.messages, "anthropic") == []
    assert repair_messages(done.messages, "anthropic").repairs == []
    return done.messages, [(repair.what, repair.rule) for repair in done.repairs]


def test_a_call_does_not_name_a_caller_that_is_not_there() -> None:
    """The server's call becomes a note, because the user spoke; the call stays one of the model."""
    messages, done = repaired(ASK, says(RUN, CALL), user(result(), text("Only those of May.")))
    plain = {key: value for key, value in CALL.items() if key != "caller"}
    assert messages[1] == says(plain)
    assert messages[2]["content"][0] == result()
    assert messages[2]["content"][-1] == text("Only those of May.")
    assert done == [("moved", "AN16"), ("dropped", "AN22")]


@pytest.mark.parametrize("together", [True, False])
def test_words_beside_the_results_of_code_follow_its_answer(together: bool) -> None:
    """Results alone answer calls of code; what the user said goes into the next message."""
    words = text("Only May.")
    beside = [user(result(), words)] if together else [user(result()), user(words)]
    after = says(RAN, text("3"))
    messages, done = repaired(ASK, says(RUN, CALL), *beside, after, user(text("Thanks.")))
    assert messages == [
        ASK,
        says(RUN, CALL),
        user(result()),
        after,
        user(text("Only May."), text("Thanks.")),
    ]
    assert done == [("moved", "AN22")]
    messages, _ = repaired(ASK, says(RUN, CALL), *beside, after)
    assert messages[-1] == user(text("Only May."))


def test_a_turn_that_is_paused_with_a_call_of_the_client_goes_on(chat: Conversation) -> None:
    """The call waits, is answered alone, and the code goes on with it."""
    chat.record(ASK, "anthropic")
    (tool,) = chat.record(response("msg_1", "pause_turn", RUN, CALL), "anthropic")
    assert isinstance(tool.status, Pending)
    open_ = prompt(chat)
    assert open_[1] == says(RUN, CALL)
    assert [block["type"] for block in open_[2]["content"]] == ["tool_result"]
    chat.start(tool.id)
    chat.complete(tool.id, "3 orders")
    assert prompt(chat) == [ASK, says(RUN, CALL), user(result())]
    chat.record(response("msg_2", "end_turn", RAN, text("3")), "anthropic")
    assert prompt(chat)[:4] == [ASK, says(RUN, CALL), user(result()), says(RAN, text("3"))]


def test_the_user_may_speak_while_a_turn_is_paused_with_a_call(chat: Conversation) -> None:
    """The code does not go on: its call becomes a note, and no call names it."""
    chat.record(ASK, "anthropic")
    chat.record(response("msg_1", "pause_turn", RUN, CALL), "anthropic")
    chat.add_message("user", "Stop that.")
    messages = prompt(chat)
    assert [block["type"] for block in messages[1]["content"]] == ["tool_use"]
    assert "caller" not in messages[1]["content"][0]


TOOLSET_CALL = {key: value for key, value in CALL.items() if key != "caller"} | TOOLSET


def test_each_result_names_the_toolset_of_its_call(chat: Conversation) -> None:
    """A result that came, one that is made up, one that failed, and one that was recorded bare."""
    chat.record(ASK, "anthropic")
    (tool,) = chat.record(response("msg_1", "tool_use", TOOLSET_CALL), "anthropic")
    assert prompt(chat)[2]["content"][0]["toolset_name"] == "shop"
    chat.start(tool.id)
    chat.fail(tool.id, "no")
    failed = prompt(chat)[2]["content"][0]
    assert (failed["is_error"], failed["toolset_name"]) == (True, "shop")
    messages, done = repaired(ASK, says(TOOLSET_CALL), user(result()))
    assert messages == [ASK, says(TOOLSET_CALL), user(result(**TOOLSET))]
    assert done == [("rewritten", "AN21")]
    messages, done = repaired(ASK, says(TOOLSET_CALL), user(text("And?")))
    assert messages[2]["content"][0]["toolset_name"] == "shop"
    assert done == [("answered", "open-call")]


def test_a_result_names_no_toolset_that_its_call_has_not() -> None:
    """The member is taken out, and the repair is named."""
    plain = {key: value for key, value in CALL.items() if key != "caller"}
    messages, done = repaired(ASK, says(plain), user(result(**TOOLSET)))
    assert messages == [ASK, says(plain), user(result())]
    assert done == [("rewritten", "AN21")]


def test_a_call_keeps_its_members_beside_a_block_that_is_repaired() -> None:
    """The blank text is left out; toolset and caller of the call stay."""
    call = {**TOOLSET_CALL, "caller": {"type": "direct"}}
    messages, _ = repaired(ASK, says(text(""), call), user(result(**TOOLSET)))
    assert messages == [
        ASK,
        {"role": "assistant", "content": messages[1]["content"]},
        user(result(**TOOLSET)),
    ]
    assert messages[1]["content"] == [call]


def test_a_text_without_a_type_is_a_text() -> None:
    """In a message and in a result; other blocks beside it stay."""
    image = {"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}
    plain = {key: value for key, value in CALL.items() if key != "caller"}
    bare = {"text": "hi"}
    given = (user(bare, image), says(bare, plain), user({**result(), "content": [bare, image]}))
    messages, done = repaired(*given)
    assert messages == [
        user(text("hi"), image),
        says(text("hi"), plain),
        user({**result(), "content": [text("hi"), image]}),
    ]
    assert done == [("added", "AN13")] * 3


@pytest.mark.parametrize("left_out", [{}, {"thinking": None}])
def test_thinking_whose_text_is_missing_goes_back_with_an_empty_one(left_out: Json) -> None:
    """Its signature is what the API reads; a call behind it stays with it."""
    thought = {"type": "thinking", "signature": "sig", **left_out}
    plain = {key: value for key, value in CALL.items() if key != "caller"}
    messages, done = repaired(ASK, says(thought, plain), user(result()))
    assert messages[1]["content"][0] == {**thought, "thinking": ""}
    assert done == [("added", "AN13")]


def test_a_block_of_a_new_type_goes_back_as_it_came(chat: Conversation) -> None:
    """A later API may know it; `validate` names it by a strict rule."""
    new = {"type": "new_block", "said": "words"}
    given = [user(new), says(new, text("so")), user(text("And?"))]
    done = repair_messages(given, "anthropic")
    assert (done.messages, done.repairs) == (given, [])
    assert {(found.code, found.level) for found in validate(given, "anthropic")} == {
        ("AN13", "strict")
    }
    chat.record_messages(given, "anthropic")
    assert prompt(chat) == given


def test_words_beside_the_last_result_of_code_that_has_answered_free_the_call() -> None:
    """No answer of the code follows that the words could stand behind: the caller goes."""
    late = {**CALL, "id": "toolu_2"}
    beside = user({**result(), "tool_use_id": "toolu_2"}, text("And?"))
    messages, done = repaired(ASK, says(RUN, CALL), user(result()), says(RAN, late), beside)
    assert messages[3]["content"] == [RAN, {k: v for k, v in late.items() if k != "caller"}]
    assert [block for message in messages[4:] for block in message["content"]] == beside["content"]
    assert done == [("moved", "AN22"), ("dropped", "AN22")]


@pytest.mark.parametrize("more", [{"is_error": None}, {"is_error": None, "content": []}])
def test_a_result_with_a_null_flag_goes_back_as_it_came(chat: Conversation, more: Json) -> None:
    """A dump without `exclude_none` has it."""
    plain = {key: value for key, value in CALL.items() if key != "caller"}
    given = [ASK, says(plain), user({**result(), **more})]
    chat.record_messages(given, "anthropic")
    assert prompt(chat) == given


def test_an_id_of_legal_characters_may_have_any_length(chat: Conversation) -> None:
    """Proxies write long ones."""
    plain = {key: value for key, value in CALL.items() if key != "caller"}
    given = [ASK, says({**plain, "id": "x" * 300}), user({**result(), "tool_use_id": "x" * 300})]
    chat.record_messages(given, "anthropic")
    assert prompt(chat) == given
