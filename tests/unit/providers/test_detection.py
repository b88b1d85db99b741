"""Foreign values instead of a message list: responses, requests, messages of another provider."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from eventstore import Conversation, EventStore
from eventstore.providers import parse
from eventstore.providers.detection import listed, refuse_foreign, request_of
from projections import model_history, repair_messages
from projections.cli import app

ASKED = {"role": "user", "content": "q"}
FUNCTION = {"name": "f", "arguments": "{}"}
OPENAI = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": FUNCTION}],
}
OPENAI_RESULT = {"role": "tool", "tool_call_id": "c", "content": "R"}
ANTHROPIC = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}],
}
ANTHROPIC_RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "c", "content": "R"}],
}
GEMINI = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
GEMINI_RESULT = {
    "role": "user",
    "parts": [{"functionResponse": {"name": "f", "response": {"output": "R"}}}],
}
BEDROCK = {
    "role": "assistant",
    "content": [{"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}],
}
BEDROCK_RESULT = {
    "role": "user",
    "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "R"}]}}],
}
RESPONSES = {"type": "function_call", "call_id": "c", **FUNCTION}
RESPONSES_RESULT = {"type": "function_call_output", "call_id": "c", "output": "R"}

CHAT = "'openai' (or mistral, cohere, ollama)"
FORMS = {
    "openai": ("tool_calls", OPENAI, "role 'tool'", OPENAI_RESULT, CHAT),
    "anthropic": ("tool_use", ANTHROPIC, "tool_result", ANTHROPIC_RESULT, "'anthropic'"),
    "gemini": ("functionCall", GEMINI, "functionResponse", GEMINI_RESULT, "'gemini'"),
    "bedrock": ("toolUse", BEDROCK, "toolResult", BEDROCK_RESULT, "'bedrock'"),
    "openai-responses": (
        "function_call",
        RESPONSES,
        "function_call_output",
        RESPONSES_RESULT,
        "'openai-responses'",
    ),
}
SPOKEN = {"cohere": "openai", "mistral": "openai", "ollama": "openai"}


# responses


@pytest.mark.parametrize("which", ["response", "choice", "message"])
@pytest.mark.parametrize("as_dict", [False, True])
def test_a_whole_completion_is_its_message(chat: Conversation, which: str, as_dict: bool) -> None:
    """The SDK's object, its JSON and one of its choices are all read as the message."""
    types = pytest.importorskip("openai.types.chat", reason="openai is not installed")
    answer = types.ChatCompletion.model_validate(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": OPENAI, "finish_reason": "tool_calls"}],
        }
    )
    choice = answer.choices[0]
    given: Any = {"response": answer, "choice": choice, "message": choice.message}[which]
    if as_dict:
        given = json.loads(given.model_dump_json(exclude_unset=True))
    chat.add_message("user", "q")
    (made,) = chat.record(given)
    assert (made.id, made.call.name) == ("c", "f")
    chat.complete("c", "R")
    shown = model_history(chat.events()).render("openai")["messages"]
    assert shown == [ASKED, OPENAI, OPENAI_RESULT]


@pytest.mark.parametrize(
    ("response", "provider"),
    [
        ({"choices": [{"message": OPENAI}]}, "openai"),
        ({"choices": [{"message": OPENAI}]}, "mistral"),
        ({"message": OPENAI}, "mistral"),
        ({"model": "m", "message": OPENAI, "done": True}, "ollama"),
        ({"output": {"message": BEDROCK}, "stopReason": "tool_use"}, "bedrock"),
        ({"message": BEDROCK}, "bedrock"),
        ({"candidates": [{"content": GEMINI}]}, "gemini"),
        ({"content": GEMINI, "finishReason": "STOP"}, "gemini"),
        ({"object": "response", "output": [RESPONSES]}, "openai-responses"),
        ({"type": "message", **ANTHROPIC, "stop_reason": "tool_use"}, "anthropic"),
    ],
)
def test_each_layer_of_a_response_is_read(
    chat: Conversation, response: dict[str, Any], provider: str
) -> None:
    """The call in the response is recorded at every layer."""
    (made,) = chat.record(response, provider)
    assert made.call.name == "f"


@pytest.mark.parametrize("choices", [[], [5], [{}], [{"message": 5}], 5])
def test_a_response_that_holds_no_message_says_nothing(choices: Any) -> None:
    """Its members are nobody's words."""
    assert parse([{"choices": choices}], "openai") == []


WHOLE_RESPONSES: dict[str, tuple[dict[str, Any], str]] = {
    "openai": (
        {
            "id": "r",
            "object": "chat.completion",
            "choices": [
                {"finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}
            ],
        },
        "choices.finish_reason, which {} does not: pass provider='openai' (or mistral, litellm)",
    ),
    "anthropic": (
        {
            "id": "r",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "hi"}],
            "stop_reason": "end_turn",
        },
        "stop_reason, which {} does not: pass provider='anthropic'",
    ),
    "gemini": (
        {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]},
        "candidates.finishReason, which {} does not: pass provider='gemini'",
    ),
    "openai-responses": (
        {
            "id": "r",
            "object": "response",
            "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": "hi"}],
        },
        "status, which {} does not: pass provider='openai-responses'",
    ),
    "bedrock": (
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "hi"}]}},
            "stopReason": "end_turn",
        },
        "stopReason, which {} does not: pass provider='bedrock'",
    ),
}
"""Whole responses of text alone, and what of them is named."""


@pytest.mark.parametrize("whose", WHOLE_RESPONSES)
@pytest.mark.parametrize("provider", [*FORMS, *SPOKEN])
def test_a_whole_response_of_another_provider_is_refused(
    chat: Conversation, whose: str, provider: str
) -> None:
    """Nothing is stored; the right provider's name, or that of a like one, is taken."""
    response, named = WHOLE_RESPONSES[whose]
    if provider == whose or (whose, provider) == ("openai", "mistral"):
        chat.record(response, provider)
        assert model_history(chat.events()).render("openai")["messages"][-1]["role"] == "assistant"
        return
    for record in (chat.record, lambda given, name: chat.record_messages([given], name)):
        with pytest.raises(ValueError, match=re.escape(named.format(provider))):
            record(response, provider)
    assert list(chat.events()) == []


# another's form


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("provider", [*FORMS, *SPOKEN])
def test_a_call_in_anothers_form_is_refused(chat: Conversation, form: str, provider: str) -> None:
    """Every method that records refuses it, and nothing is written."""
    member, call, _, result, fits = FORMS[form]
    if SPOKEN.get(provider, provider) == form:
        assert chat.record(call, provider)
        return
    reported = f"has {member}, which {provider} does not: pass provider={fits}"
    with pytest.raises(ValueError, match="has ") as refused:
        chat.record(call, provider)
    assert str(refused.value) == f"the message {reported}"
    for record in (chat.record_messages, chat.import_messages):
        with pytest.raises(ValueError, match="has ") as refused:
            record([ASKED, call, result], provider)
        assert str(refused.value) == f"messages[1] {reported}"
    assert chat.version == 0
    repair_messages([ASKED, call, result], provider)  # a bad history raises no error


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("provider", [*FORMS, *SPOKEN])
def test_a_result_in_anothers_form_is_refused(chat: Conversation, form: str, provider: str) -> None:
    """A result is refused unless it can be read as a result of the given provider."""
    _, _, member, result, fits = FORMS[form]
    if SPOKEN.get(provider, provider) == form or (form, provider) == ("openai", "openai-responses"):
        chat.record(result, provider)
        return
    with pytest.raises(ValueError, match="has ") as refused:
        chat.record(result, provider)
    reported = f"has {member}, which {provider} does not: pass provider={fits}"
    assert str(refused.value) == f"the message {reported}"
    assert chat.version == 0


@pytest.mark.parametrize(
    ("given", "sign", "fits"),
    [
        ({"candidates": [{"content": GEMINI}]}, "functionCall", "gemini"),
        ({"output": [RESPONSES]}, "function_call", "openai-responses"),
        ({"output": {"message": BEDROCK}}, "toolUse", "bedrock"),
        ({"choices": [{"message": OPENAI}]}, "tool_calls", "openai"),
        ({"role": "assistant", "function_call": FUNCTION}, "function_call", "openai"),
        ({"role": "model", "parts": [{"function_call": {"name": "f"}}]}, "function_call", "gemini"),
        ({"role": "function", "name": "f", "content": "R"}, "role 'function'", "openai"),
    ],
)
def test_calls_are_found_wherever_they_stand(
    chat: Conversation, given: dict[str, Any], sign: str, fits: str
) -> None:
    """Calls are found in whole responses and in older forms of calls."""
    with pytest.raises(ValueError, match=f"has {sign}, which anthropic .* provider='{fits}'"):
        chat.record(given, "anthropic")


def test_objects_that_only_look_like_calls_are_not_refused(chat: Conversation) -> None:
    """Empty lists of calls, unknown types and values nested too deeply are accepted."""
    deep: Any = OPENAI
    for _ in range(9):
        deep = [deep]
    given = [
        {"role": "assistant", "content": "none", "tool_calls": []},
        {"role": "assistant", "content": [{"type": ["tool_use"], "text": "odd"}]},
        {"role": "user", "content": [deep]},
        {"role": "tool", "parts": []},
    ]
    assert refuse_foreign(given, [], "anthropic") is False


def test_an_odd_block_among_calls_is_kept_as_before(chat: Conversation) -> None:
    """The first call that can be read decides the provider of the list."""
    chat.record_messages([ASKED, OPENAI, OPENAI_RESULT, ANTHROPIC])
    assert list(chat.tools) == ["c"]


def test_a_long_import_in_the_right_form_is_judged_once(chat: Conversation) -> None:
    """After the first call no later message is refused for its form."""
    asked = [{"role": "user", "content": f"q{number}"} for number in range(600)]
    done = chat.import_messages([ASKED, OPENAI, OPENAI_RESULT, *asked, ANTHROPIC])
    assert done.added == 604


def test_a_long_import_names_the_place_in_the_whole_list(chat: Conversation) -> None:
    """The place is right in a later batch, too."""
    asked = [{"role": "user", "content": f"q{number}"} for number in range(600)]
    with pytest.raises(ValueError, match=r"messages\[600\] has tool_use"):
        chat.import_messages([*asked, ANTHROPIC])


def test_the_command_refuses_a_file_in_anothers_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command prints one line, and its status says that the data was refused."""
    path, url = tmp_path / "chat.json", f"sqlite:///{tmp_path}/x.db"
    path.write_text(json.dumps([ASKED, OPENAI, OPENAI_RESULT]))
    status = app.run(["import", str(path), "--provider", "anthropic", "--url", url])
    (line,) = capsys.readouterr().err.splitlines()
    assert status == app.REFUSED
    assert f"{path}: messages[1] has tool_calls, which anthropic does not: " in line
    with EventStore.open(url) as store:
        assert store.conversation("chat").version == 0


# requests


@pytest.mark.parametrize(
    ("request_", "provider"),
    [
        ({"model": "m", "messages": [ASKED, OPENAI]}, "openai"),
        ({"body": {"messages": [ASKED, OPENAI]}}, "openai"),
        ({"system": "be brief", "messages": [ASKED, ANTHROPIC]}, "anthropic"),
        ({"contents": [{"role": "user", "parts": [{"text": "q"}]}, GEMINI]}, "gemini"),
        ({"input": [ASKED, RESPONSES]}, "openai-responses"),
        ({"messages": [], "input": [ASKED, RESPONSES]}, "openai-responses"),
    ],
)
def test_a_whole_request_is_read_as_its_list(
    chat: Conversation, request_: dict[str, Any], provider: str
) -> None:
    """The list can be recorded, imported and repaired."""
    (made,) = chat.record_messages(request_, provider)
    assert made.call.name == "f"
    sent = request_.get("body", request_)
    messages = sent.get("input") or sent.get("messages") or sent["contents"]
    assert repair_messages(request_, provider) == repair_messages(messages, provider)
    with EventStore.open("sqlite://") as store:
        assert store.conversation("c").import_messages(request_, provider).added == 2
        assert [call.call.name for call in store.conversation("d").record(request_, provider)] == [
            "f"
        ]


def test_a_text_is_a_whole_input(chat: Conversation) -> None:
    """A text is valid as the input of OpenAI Responses."""
    assert repair_messages({"input": "q"}, "openai-responses").messages == "q"
    chat.import_messages({"input": "q"}, "openai-responses")
    assert chat.version == 1


def test_one_message_is_a_list_of_one(chat: Conversation) -> None:
    """This holds for a dict and an SDK's object; a call whose input is text is not a request."""
    types = pytest.importorskip("openai.types.chat", reason="openai is not installed")
    chat.record_messages(types.ChatCompletionMessage.model_validate(OPENAI))
    assert list(chat.tools) == ["c"]
    call = {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}
    assert request_of(call) is None
    assert listed(call, "input") == [call]


@pytest.mark.parametrize(
    ("line", "member"),
    [
        (
            {"custom_id": "1", "response": {"status_code": 200, "body": {"choices": []}}},
            "response.body",
        ),
        (
            {"custom_id": "1", "result": {"type": "succeeded", "message": ANTHROPIC}},
            "result.message",
        ),
        ({"key": "1", "response": {"candidates": [{"content": GEMINI}]}}, "response"),
        ({"recordId": "1", "modelOutput": ANTHROPIC}, "modelOutput"),
        ({"custom_id": "1", "result": {"type": "expired"}}, None),
        ({"custom_id": "1", "response": None, "error": {"code": "batch_expired"}}, None),
    ],
)
def test_a_line_of_a_batch_is_refused_with_the_member_to_pass(
    chat: Conversation, line: dict[str, Any], member: str | None
) -> None:
    """As a user's JSON it would lose its calls."""
    remedy = "has no response" if member is None else f"pass its {member!r} alone"
    for given in (
        lambda: chat.record(line, "anthropic"),
        lambda: chat.record_messages([line], "anthropic"),
        lambda: chat.import_messages([line], "anthropic"),
    ):
        with pytest.raises(ValueError, match=f"is a line of a batch's results.*{remedy}"):
            given()
    assert not chat.version
