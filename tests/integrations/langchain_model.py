"""A model of LangChain's that follows the script of a scene."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from integrations.scenes import Played, note_request
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import Command
from pydantic import Field

if TYPE_CHECKING:
    from integrations.scenes import Play, Said, Tools
    from langchain_core.messages.ai import UsageMetadata

    from eventstore.integrations.langgraph import Ledger

USED: UsageMetadata = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
"""What each response says of itself."""


class ScriptedModel(BaseChatModel):
    """Says next what the script says after the responses in its prompt."""

    script: list[Any]
    play: Any = None
    seen: list[list[BaseMessage]] = Field(default_factory=list)
    said_of_end: dict[str, Any] = Field(default_factory=dict)
    """What a response with calls says of its end."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> ScriptedModel:
        """Return the model: the script knows its calls."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        said = self._next(messages)
        calls = [
            {"name": n, "args": json.loads(a), "id": i, "type": "tool_call"}
            for n, a, i in said.calls
        ]
        message = AIMessage(said.text, tool_calls=calls, usage_metadata=USED)
        message.response_metadata = self.said_of_end if calls else {}
        if said.cut_off:
            message.response_metadata = {"finish_reason": "length"}
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        said = self._next(messages)
        for letter in said.text:
            yield ChatGenerationChunk(message=AIMessageChunk(letter))
        yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=USED))
        for number, (name, arguments, call_id) in enumerate(said.calls):
            for text in (arguments[:5], arguments[5:]):
                first = text == arguments[:5]
                chunk = tool_call_chunk(
                    name=name if first else None,
                    args=text,
                    id=call_id if first else None,
                    index=number,
                )
                message = AIMessageChunk("", tool_call_chunks=[chunk])
                yield ChatGenerationChunk(message=message)

    @property
    def asked(self) -> str:
        """The text of the last request."""
        return "\n".join(str(message.text) for message in self.seen[-1]) if self.seen else ""

    def _next(self, messages: list[BaseMessage]) -> Said:
        self.seen.append(messages)
        if self.play is not None:
            note_request(self.play, [*map(plain_message, messages)])
        said: Said = self.script[sum(isinstance(message, AIMessage) for message in messages)]
        return said


def plain_message(message: BaseMessage) -> dict[str, Any]:
    """Return what a provider's package reads of a message."""
    read = ("type", "content", "tool_calls", "tool_call_id", "status")
    return {name: getattr(message, name) for name in read if getattr(message, name, None)}


def lang_tools(tools: Tools) -> list[BaseTool]:
    """Return the tools of a scene as LangChain has them."""
    return [
        StructuredTool.from_function(tools.find_order),
        StructuredTool.from_function(tools.refund),
        StructuredTool.from_function(tools.mail),
        StructuredTool.from_function(coroutine=tools.ponder),
        StructuredTool.from_function(coroutine=tools.consult),
        StructuredTool.from_function(tools.audit),
    ]


async def played(
    play: Play, tools: Tools, ledger: Ledger, graph: Any, model: ScriptedModel
) -> Played:
    """Play a scene, or its second half, with a graph of LangGraph or an agent of LangChain."""
    config: Any = {"configurable": {"thread_id": play.chat}}
    if play.kill:
        config["max_concurrency"] = 1
    given: Any = {"messages": [("user", play.prompt)]}
    if play.prompt is None:
        result = await ledger.aresume(graph, config)
        if result is None:
            return Played()
    elif play.streamed:
        stream = graph.astream(given, config, stream_mode="messages")
        chunks = [chunk async for chunk, _ in stream if isinstance(chunk, AIMessageChunk)]
        return Played("".join(chunk.text for chunk in chunks))
    else:
        result = await graph.ainvoke(given, config)
    if play.answer is not None:
        tools.change_mail()
        result = await graph.ainvoke(Command(resume=play.answer), config)
        return Played(shown=str([asked.value for asked in result.get("__interrupt__", ())]))
    text = "" if "__interrupt__" in result else str(result["messages"][-1].text)
    return Played(text, model.asked)
