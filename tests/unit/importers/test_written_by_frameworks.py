"""Messages that further frameworks write: each in its newest version, without a model.

They are in an environment of their own (`.ci/long messages`), for their requirements are many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.frameworks import required
from support.importing import Importer, states

from eventstore import EventStore

for _module in ("haystack", "llama_index.core", "semantic_kernel", "autogen_core"):
    required(_module)

import autogen_core
import autogen_core.models as autogen_models
from haystack.dataclasses import ChatMessage, ToolCall
from llama_index.core.base.llms import types as llama_index
from llama_index.core.storage.chat_store import SimpleChatStore
from semantic_kernel import contents


@pytest.fixture
def importer(tmp_path: Path) -> Iterator[Importer]:
    """Yield an importer into an empty store."""
    with EventStore.open("sqlite://") as store:
        yield Importer(store, tmp_path)


def test_messages_of_haystack(importer: Importer) -> None:
    """A result has its own mark."""
    call = ToolCall("f", {"n": 1}, id="a")
    messages = [
        ChatMessage.from_user("go"),
        ChatMessage.from_assistant("I look.", tool_calls=[call]),
        ChatMessage.from_tool("gone", origin=call, error=True),
    ]
    tools = importer.document("messages.json", [each.to_dict() for each in messages])
    assert states(tools) == [("f", "Failed")]


def test_a_chat_store_of_llama_index(importer: Importer) -> None:
    """As it is persisted."""
    call = llama_index.ToolCallBlock(tool_call_id="a", tool_name="f", tool_kwargs={"n": 1})
    store = SimpleChatStore()
    messages = [
        llama_index.ChatMessage(role="user", content="go"),
        llama_index.ChatMessage(role="assistant", blocks=[call]),
        llama_index.ChatMessage(role="tool", content="x", additional_kwargs={"tool_call_id": "a"}),
    ]
    store.set_messages("ann", messages)
    store.persist(str(importer.folder / "store.json"))
    assert states(importer.file(importer.folder / "store.json")) == [("f", "Completed")]


def test_a_history_of_semantic_kernel(importer: Importer) -> None:
    """Failures are told by texts of its own."""
    history = contents.ChatHistory()
    history.add_user_message("go")
    call = contents.FunctionCallContent(id="a", name="shop-f", arguments='{"n": 1}')
    said = "An error occurred while invoking the function shop-f: gone"
    end = contents.FunctionResultContent(id="a", name="shop-f", result=said)
    for role, item in (("assistant", call), ("tool", end)):
        history.add_message(contents.ChatMessageContent(role=role, items=[item]))
    tools = importer.document("history.json", json.loads(history.serialize()))
    assert states(tools) == [("shop-f", "Failed")]


def test_a_context_of_autogen(importer: Importer) -> None:
    """A result says whether it is an error."""
    call = autogen_core.FunctionCall(id="a", name="f", arguments='{"n": 1}')
    end = autogen_models.FunctionExecutionResult(
        content="gone", name="f", call_id="a", is_error=True
    )
    messages = [
        autogen_models.UserMessage(content="go", source="user"),
        autogen_models.AssistantMessage(content=[call], source="shop"),
        autogen_models.FunctionExecutionResultMessage(content=[end]),
    ]
    dumped = [json.loads(message.model_dump_json()) for message in messages]
    state = {"type": "AssistantAgentState", "llm_context": {"messages": dumped}}
    assert states(importer.document("state.json", state)) == [("f", "Failed")]
