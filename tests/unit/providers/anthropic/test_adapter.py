"""What a whole request to Anthropic may hold, and how what it may not is repaired."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import Conversation, validate
from eventstore.providers import PROVIDERS, is_valid
from projections import Repair, model_history, repair_messages

Message = dict[str, Any]
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
PIXEL = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
IMAGE = {"type": "image", "source": PIXEL}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
SERVED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def text(said: str = "hello", **more: Any) -> Message:
    """Return a text block."""
    return {"type": "text", "text": said, **more}


def user(*blocks: Any) -> Message:
    """Return a user message."""
    return {"role": "user", "content": list(blocks)}


def says(*blocks: Any) -> Message:
    """Return an assistant message."""
    return {"role": "assistant", "content": list(blocks)}


def result(*content: Any, **more: Any) -> Message:
    """Return the result of the call."""
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": list(content), **more}


def reported(repairs: list[Repair]) -> list[tuple[str, str]]:
    """Return what was done, by which rule."""
    return [(repair.what, repair.rule) for repair in repairs]


def mended(*messages: Message) -> tuple[list[Message], list[tuple[str, str]]]:
    """Return messages as they are repaired, valid and for good, and what was done."""
    before = repr(messages)
    repaired = repair_messages(messages, "anthropic")
    assert repr(messages) == before
    assert validate(repaired.messages, "anthropic") == []
    again = repair_messages(repaired.messages, "anthropic")
    assert (again.messages, again.repairs) == (repaired.messages, [])
    return repaired.messages, reported(repaired.repairs)


def test_the_newest_cache_marks_stay(chat: Conversation) -> None:
    """The API takes 4: a log whose user marked every turn is told so, and stays as it was said."""
    for number in range(6):
        chat.record_messages([user(text(f"q{number}", **MARK)), says(text("a"))], "anthropic")
    chat.record_messages([user(text("last"))], "anthropic")
    history = model_history(chat.events())
    asked = [each for each in history.render("anthropic")["messages"] if each["role"] == "user"]
    assert validate(history.render("anthropic")["messages"], "anthropic") == []
    marked = ["cache_control" in each["content"][0] for each in asked[:-1]]
    assert marked == [False, False, True, True, True, True]
    assert reported(history.repairs_for("anthropic")) == [("dropped", "AN19")]
    assert "6 cache marks" in history.repairs_for("anthropic")[0].why


def test_the_marks_inside_of_a_result_count() -> None:
    """The marks of its blocks come before that of the result itself."""
    blocks = [text(str(number), **MARK) for number in range(4)]
    shown, done = mended(user(text()), says(CALL), user(result(*blocks, **MARK)))
    (answer,) = shown[2]["content"]
    assert ["cache_control" in block for block in answer["content"]] == [False, True, True, True]
    assert "cache_control" in answer
    assert done == [("dropped", "AN19")]


def test_reasoning_bears_no_cache_mark() -> None:
    """The reasoning itself stays as it was signed."""
    shown, done = mended(user(text()), says(THOUGHT | MARK, text("so")), user(text()))
    assert shown[1]["content"] == [THOUGHT, text("so")]
    assert done == [("dropped", "AN19")]


def test_a_mark_of_an_hour_does_not_follow_one_of_five_minutes() -> None:
    """The later one becomes one of five minutes: the mark itself stays."""
    shown, done = mended(user(text(**HOUR), text(**MARK), text(**HOUR)))
    assert [block["cache_control"] for block in shown[0]["content"]] == [
        HOUR["cache_control"],
        MARK["cache_control"],
        MARK["cache_control"],
    ]
    assert done == [("rewritten", "AN19")]


def test_an_image_of_an_error_follows_the_results() -> None:
    """An error holds only text: the image is shown by the user, and nothing is lost."""
    second = CALL | {"id": "toolu_2"}
    shown, done = mended(
        user(text()),
        says(CALL, second),
        user(
            result(text("FAILED"), IMAGE, is_error=True),
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "fine"},
            text("and?"),
        ),
    )
    failed, fine, *behind = shown[2]["content"]
    assert (failed["content"], failed["is_error"]) == ([text("FAILED")], True)
    assert fine["content"] == "fine"
    assert behind == [text("[Shown by look:]"), IMAGE, text("and?")]
    assert done == [("moved", "AN08")]


@pytest.mark.parametrize("target", sorted(PROVIDERS - {"bedrock", "cohere", "ollama"}))
def test_the_image_of_an_error_goes_to_every_provider(target: Any) -> None:
    """Each that is shown the images of results is shown this one, in place or behind them."""
    history = [user(text()), says(CALL), user(result(text("FAILED"), IMAGE, is_error=True))]
    repaired = repair_messages(history, "anthropic", target)
    assert validate(repaired.messages, target) == []
    assert PIXEL["data"] in repr(repaired.messages)
    assert "FAILED" in repr(repaired.messages)


def test_an_error_that_only_shows_says_that_it_is_one() -> None:
    """The content of an error may not be empty."""
    shown, done = mended(user(text()), says(CALL), user(result(IMAGE, is_error=True)))
    assert shown[2]["content"][0]["content"] == "error"
    assert shown[2]["content"][2] == IMAGE
    assert done == [("moved", "AN08")]


def test_a_turn_does_not_end_with_reasoning() -> None:
    """The reasoning of an interrupted turn led to nothing; what was said before it stays."""
    shown, done = mended(user(text()), says(THOUGHT), user(text("x")))
    assert shown == [user(text()), user(text("x"))]
    assert done == [("dropped", "AN17")]
    shown, done = mended(user(text()), says(text("a"), THOUGHT), user(text("x")))
    assert shown == [user(text()), says(text("a")), user(text("x"))]
    apart = [user(text()), says(THOUGHT), says(text("a")), user(text("x"))]
    assert mended(*apart) == (apart, [])


NOTED = "[Note, not said by the assistant: tools of anthropic did this while it answered.]"


@pytest.mark.parametrize(
    ("messages", "kept", "reported", "rule"),
    [
        pytest.param(
            [says(SERVED, FOUND, FOUND | {"content": "AGAIN"}, text())],
            [SERVED, FOUND, text()],
            "[web_search_tool_result] AGAIN",
            "AN16",
            id="a second result",
        ),
        pytest.param(
            [says(FOUND, SERVED, text())],
            [text()],
            '[web_search_tool_result] []\n[web_search was called, no result came: {"q":"x"}]',
            "AN16",
            id="a result before its call",
        ),
        pytest.param(
            [says({**SERVED, "input": None}, FOUND, text())],
            [SERVED | {"input": {}}, FOUND, text()],
            None,
            "AN07",
            id="a call without input",
        ),
    ],
)
def test_calls_of_the_servers_are_paired(
    messages: list[Message], kept: list[Message], reported: str | None, rule: str
) -> None:
    """One call, one result after it, both the assistant's; a note of the user's tells the rest."""
    shown, done = mended(user(text()), *messages, user(text()))
    assert shown[1]["content"] == kept
    assert shown[2] == (
        user(text()) if reported is None else user(text(f"{NOTED}\n{reported}"), text())
    )
    assert {code for _, code in done} == {rule}


def test_a_result_of_the_servers_is_not_the_users() -> None:
    """A note tells it, and the call."""
    shown, _ = mended(user(text()), says(SERVED, text()), user(FOUND, text()), says(text()))
    assert shown[1] == says(text())
    note, said = shown[2]["content"]
    assert note["text"].startswith(NOTED)
    assert "[web_search was called" in note["text"]
    assert "[web_search_tool_result] []" in note["text"]
    assert said == text()


def test_a_note_on_a_call_of_the_servers_stands_behind_the_results() -> None:
    """The thinking stays before its call, and results come first in the user's message."""
    shown, _ = mended(
        user(text("q")), says(THOUGHT, SERVED, CALL), user(result(text("12C"))), says(text("a"))
    )
    assert shown[1] == says(THOUGHT, CALL)
    answer, note = shown[2]["content"]
    assert answer["type"] == "tool_result"
    assert note["text"].startswith(NOTED)


NOTE = {"role": "system", "content": "Be brief."}


def test_a_system_message_before_an_answer_stays_what_it_is(chat: Conversation) -> None:
    """Claude Opus 4.8 and later take it; an option tells earlier models as the user's text."""
    messages = [user(text("q")), NOTE, says(text("a")), user(text("r"))]
    repaired = repair_messages(messages, "anthropic")
    assert (repaired.messages, repaired.repairs) == (messages, [])
    chat.record_messages(messages, "anthropic")
    history = model_history(chat.events())
    assert history.render("anthropic")["messages"] == messages
    assert history.repairs_for("anthropic") == []
    older = model_history(chat.events(), later_system="user")
    shown = older.render("anthropic")["messages"]
    assert validate(shown, "anthropic") == []
    assert "[system] Be brief." in repr(shown)
    assert reported(older.repairs_for("anthropic")) == [("moved", "AN11")]
    again = repair_messages(messages, "anthropic", later_system="user")
    assert again.messages == shown


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([user(text("q")), says(text("a")), NOTE], id="after the assistant"),
        pytest.param([user(text("q")), NOTE, user(text("r"))], id="before the user"),
    ],
)
def test_a_system_message_elsewhere_becomes_the_users_text(messages: list[Message]) -> None:
    """Every model refuses it there, and what it says is kept."""
    shown, done = mended(*messages)
    assert "[system] Be brief." in repr(shown)
    assert ("moved", "AN11") in done


def test_a_system_message_between_call_and_result_moves_behind_them() -> None:
    """There it stands before an answer, and stays what it is."""
    messages = [user(text("q")), says(CALL), NOTE, user(result(text("12C")))]
    repaired = repair_messages(messages, "anthropic")
    assert is_valid(repaired.messages, "anthropic")
    assert [each["role"] for each in repaired.messages] == ["user", "assistant", "user", "system"]


def test_results_for_a_thread_that_the_server_keeps_stay_results() -> None:
    """The request of a tool runner holds the results alone: their calls are in the thread."""
    messages = [user(result(text("12C")))]
    thread = {"type": "continue", "previous_message_id": "msg_1"}
    request = {"model": "m", "max_tokens": 9, "messages": messages, "thread": thread}
    assert validate(request, "anthropic") == []
    repaired = repair_messages(request, "anthropic")
    assert (repaired.messages, repaired.repairs) == (messages, [])
    later = [user(text("q")), says(text("a")), *messages]
    assert [found.code for found in validate({**request, "messages": later}, "anthropic")] == [
        "AN02"
    ]
    created = {**request, "thread": {"type": "create"}}
    assert repair_messages(created, "anthropic").messages != messages


def test_an_error_and_a_later_success_under_its_id_are_both_reported() -> None:
    """Turns later the model has read the error; in the same turn the success is the result."""
    failed = result(text("TIMEOUT"), is_error=True)
    late = [user(text("q")), says(CALL), user(failed), says(text("no")), user(result(text("12C")))]
    shown, done = mended(*late)
    assert shown[2] == user(failed)
    assert "12C" in repr(shown[4])
    assert ("wrapped", "two-results") in done
    shown, _ = mended(user(text("q")), says(CALL), user(failed), user(result(text("12C"))))
    answer, failure = shown[2]["content"]
    assert answer == result(text("12C"))
    assert failure["text"].endswith("TIMEOUT")


def test_a_system_message_of_anything_but_text_becomes_the_users() -> None:
    """The API takes only text there."""
    shown, _ = mended(
        user(text("q")), {"role": "system", "content": [IMAGE, text("n")]}, says(CALL)
    )
    assert [each["role"] for each in shown] == ["user", "user", "assistant", "user"]


def test_a_call_of_the_servers_does_not_wait_once_the_user_spoke() -> None:
    """Where a closing line follows, its result cannot come any more."""
    shown, _ = mended(user(text("q")), says(SERVED, FOUND | {"tool_use_id": "srvtoolu_9"}))
    note = shown[1]["content"][0]["text"]
    assert [each["role"] for each in shown] == ["user", "user"]
    assert "[web_search was called" in note
    assert "[web_search_tool_result]" in note


def test_a_system_message_whose_answer_is_left_out_becomes_the_users() -> None:
    """Only reasoning followed it, so that the user's message would."""
    shown, _ = mended(user(text("q")), NOTE, says(THOUGHT), user(text("r")))
    assert [each["role"] for each in shown] == ["user", "user", "user"]
