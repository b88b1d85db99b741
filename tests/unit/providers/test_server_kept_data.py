"""With `server_kept="note"` no request names what the provider's server may keep no more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eventstore import EventStore, validate
from eventstore.providers import AnyProvider
from projections import model_history, repair_messages

WORDS = {"role": "user", "content": "Plot it."}
THANKS = {"role": "user", "content": "Thanks."}
OUTPUT = {"type": "code_execution_output", "file_id": "file_9"}
RAN: dict[str, Any] = {
    "type": "code_execution_result",
    "stdout": "42\n",
    "stderr": "",
    "return_code": 0,
    "content": [OUTPUT],
}
USED = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "code_execution",
    "input": {"code": "print(42)"},
}
ANTHROPIC = [
    WORDS,
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            USED,
            {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": RAN},
            {"type": "text", "text": "It is plotted."},
        ],
    },
    THANKS,
]
CITED = {
    "type": "container_file_citation",
    "container_id": "cntr_1",
    "file_id": "cfile_1",
    "filename": "plot.png",
    "start_index": 0,
    "end_index": 0,
}
RESPONSES = [
    {"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "code": "print(42)",
        "container_id": "cntr_1",
        "outputs": [{"type": "logs", "logs": "42"}],
        "status": "completed",
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "It is plotted.", "annotations": [CITED]}],
    },
    THANKS,
]
HISTORIES: list[tuple[AnyProvider, list[Any]]] = [
    ("anthropic", ANTHROPIC),
    ("openai-responses", RESPONSES),
]
GONE = ("file_9", "cntr_1", "rs_1", "ci_1", "srvtoolu_1", "c2ln")


@pytest.mark.parametrize(("provider", "history"), HISTORIES)
def test_a_note_tells_what_ran_in_a_container(provider: AnyProvider, history: list[Any]) -> None:
    """The words stay, the code and its print are told, and no name of the server's is sent."""
    repaired = repair_messages(history, provider, server_kept="note")
    text = json.dumps(repaired.messages)
    assert not [name for name in GONE if f'"{name}"' in text]
    for said in ("print(42)", "42", "It is plotted.", "not said by the assistant"):
        assert said in text
    assert "told in a note" in str(repaired)
    assert validate(repaired.messages, provider) == []
    assert (
        repair_messages(repaired.messages, provider, server_kept="note").messages
        == repaired.messages
    )


@pytest.mark.parametrize(("provider", "history"), HISTORIES)
def test_all_is_named_as_it_was_by_default(provider: AnyProvider, history: list[Any]) -> None:
    """The server may have it still."""
    assert repair_messages(history, provider).messages == history
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages(history, provider)
        kept = json.dumps(model_history(chat).render(provider))
        repaired = json.dumps(model_history(chat, server_kept="note").render(provider))
    assert [name for name in GONE if f'"{name}"' in kept]
    assert not [name for name in GONE if f'"{name}"' in repaired]


def test_a_turn_that_names_nothing_goes_as_it_was() -> None:
    """A search keeps nothing at the server."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    done = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    said = {**done, "content": [{"type": "output_text", "text": "x", "annotations": []}]}
    history = [WORDS, search, said, THANKS]
    assert repair_messages(history, "openai-responses", server_kept="note").messages == history


def test_a_result_of_a_call_that_the_server_keeps_becomes_text() -> None:
    """Its call may be gone."""
    history = [
        {"type": "item_reference", "id": "fc_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "found"},
        THANKS,
    ]
    repaired = repair_messages(history, "openai-responses", server_kept="note")
    assert "item_reference" not in str(repaired.messages)
    assert "found" in str(repaired.messages[0]["content"])
    assert validate(repaired.messages, "openai-responses") == []


def test_another_value_of_the_option_is_refused() -> None:
    """The error names the values."""
    other: Any = "drop"
    with pytest.raises(ValueError, match="server_kept is 'drop': pass one of keep, note"):
        repair_messages(ANTHROPIC, "anthropic", server_kept=other)
