"""What the frameworks themselves save, with scripted models, is imported with every end."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.frameworks import required
from support.importing import Importer, states

required("langgraph.checkpoint.sqlite")
required("langchain")
required("pydantic_ai")
required("agent_framework")

import agent_framework
from integrations.langchain_model import ScriptedModel
from integrations.scenes import DONE, Said
from langchain.agents import create_agent
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_to_dict
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import interrupt
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from eventstore import EventStore

THREAD: Any = {"configurable": {"thread_id": "t"}}
SCRIPT = [Said("", (("refund", "{}", "a"), ("mail", "{}", "b"))), Said(DONE)]


@pytest.fixture
def importer(tmp_path: Path) -> Any:
    """Yield an importer into an empty store."""
    with EventStore.open("sqlite://") as store:
        yield Importer(store, tmp_path)


def refund() -> str:
    """Pay back."""
    return "paid back"


def mail() -> str:
    """Send a mail; the server is away."""
    raise ConnectionError("the mail server is away")


def mail_if_sure() -> str:
    """Send a mail, if somebody says so."""
    return f"sent, {interrupt('sure?')}"


@pytest.mark.parametrize(("send", "ended"), [(mail, "Failed"), (mail_if_sure, "Pending")])
def test_a_step_of_langgraph_that_did_not_end(importer: Importer, send: Any, ended: str) -> None:
    """Its finished result is kept; the error, or the interrupt, is the other call's."""
    path = importer.folder / "checkpoints.db"
    tools = [
        StructuredTool.from_function(refund, name="refund"),
        StructuredTool.from_function(send, name="mail"),
    ]
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        model = ScriptedModel(script=SCRIPT)
        agent: Any = create_agent(model, tools, checkpointer=SqliteSaver(connection))
        try:
            agent.invoke({"messages": [("user", "go")]}, THREAD)
        except ConnectionError:
            assert send is mail
    assert states(importer.file(path)) == [("refund", "Completed"), ("mail", ended)]
    assert importer.problems == []


def test_messages_of_langchain(importer: Importer) -> None:
    """As dictionaries, and as what `dumps` writes."""
    call = {"name": "f", "args": {"n": 1}, "id": "a"}
    messages = [
        HumanMessage("go"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("gone", tool_call_id="a", status="error"),
    ]
    assert states(importer.document("dicts.json", messages_to_dict(messages))) == [("f", "Failed")]
    (importer.folder / "dumps.json").write_text(dumps(messages))
    assert states(importer.file(importer.folder / "dumps.json")) == [("f", "Failed")]
    dumped = [message.model_dump(mode="json") for message in messages]
    assert states(importer.document("models.json", {"messages": dumped})) == [("f", "Failed")]


def test_messages_of_pydantic_ai(importer: Importer) -> None:
    """A tool that there is not, one that asks for another try, and one that returns."""

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        names = ("nosuch", "again", "fine")
        return ModelResponse(parts=[ToolCallPart(name, {}, name) for name in names])

    def again() -> str:
        raise ModelRetry("the order is closed")

    def fine() -> str:
        return "found"

    agent = Agent(FunctionModel(model), tools=[again, fine])
    result = asyncio.run(agent.run("go"))  # `run_sync` would leave its event loop open
    written = ModelMessagesTypeAdapter.dump_json(result.all_messages())
    assert states(importer.document("messages.json", json.loads(written))) == [
        ("nosuch", "Failed"),
        ("again", "Failed"),
        ("fine", "Completed"),
    ]


def test_a_session_of_agent_framework(importer: Importer) -> None:
    """Its messages hold calls, a result, and one that failed."""
    content = agent_framework.Content
    calls = [content.from_function_call(name, name, arguments="{}") for name in ("boom", "fine")]
    ended = [
        content.from_function_result("boom", result="Error: gone", exception="RuntimeError"),
        content.from_function_result("fine", result="found"),
    ]
    messages = [
        agent_framework.Message("user", ["go"]),
        agent_framework.Message("assistant", calls),
        agent_framework.Message("tool", ended),
    ]
    written = [message.to_dict() for message in messages]
    expected = [("boom", "Failed"), ("fine", "Completed")]
    assert states(importer.lines("history.jsonl", *written)) == expected
    session = {"type": "session", "session_id": "s", "state": {"memory": {"messages": written}}}
    assert states(importer.document("session.json", session)) == expected
