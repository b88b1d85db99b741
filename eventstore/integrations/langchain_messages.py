"""LangChain's messages: what the log keeps of them, and the log's turns as messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from eventstore.domain.arguments import in_microseconds
from eventstore.domain.events import ModelResponded
from eventstore.domain.messages import Audio, Document, Image, Part, Text
from eventstore.domain.usage import Usage
from eventstore.integrations.recorded_calls import shown_text
from eventstore.providers.call_arguments import function_call
from eventstore.providers.finish_reason import finish_reason_of
from eventstore.providers.model import ParsedCall
from eventstore.providers.parts_as_text import plain_text

if TYPE_CHECKING:
    from eventstore.domain.json_types import JsonObject
    from eventstore.providers.model import Answer, Call, Turn

FRAMEWORK = "langchain"
"""The `provider` of its messages in the log."""

# to the log


def said_after_response(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages after the model's last response."""
    after: list[BaseMessage] = []
    for message in messages:
        after = [] if isinstance(message, AIMessage) else [*after, message]
    return after


def words_of(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that are someone's words, and not a tool's answer."""
    return [message for message in messages if not isinstance(message, ToolMessage)]


def calls_made(messages: Iterable[BaseMessage]) -> list[str]:
    """Return the ids of the calls that messages make."""
    made: list[str] = []
    for message in messages:
        if isinstance(message, AIMessage):
            made += [str(call["id"]) for call in message.tool_calls]
            made += [str(call["id"]) for call in message.invalid_tool_calls]
    return made


def recorded_parts(message: AIMessage) -> tuple[list[Part], list[ParsedCall], JsonObject]:
    """Return the text of a response, its calls, and the response as LangChain has it."""
    calls = [
        ParsedCall(call["id"], function_call(call["name"], call["args"]))
        for call in message.tool_calls
    ]
    calls += [
        ParsedCall(call["id"], function_call(call["name"], call["args"] or ""))
        for call in message.invalid_tool_calls
    ]
    text = str(message.text)
    native: JsonObject = message.model_dump(mode="json", by_alias=True, fallback=str)
    return [Text(text)] if text else [], calls, native


def stated_facts(message: AIMessage, latency: float) -> ModelResponded:
    """Return what a response says of itself, and the `latency` in seconds with which it came."""
    said, used = message.response_metadata, message.usage_metadata
    usage = None
    if used is not None:
        read, written = used.get("input_token_details", {}), used.get("output_token_details", {})
        usage = Usage.stated(
            [used["input_tokens"]],
            [used["output_tokens"]],
            [read.get("cache_read")],
            [written.get("reasoning")],
        )
    return ModelResponded(
        provider=_first(said, "model_provider"),
        model=_first(said, "model_name", "model"),
        response_id=_first(said, "id"),
        finish_reason=_finish_reason(said),
        usage=usage,
        latency=in_microseconds("latency", latency),
    )


def _finish_reason(said: dict[str, Any]) -> str | None:
    """Return why a response ended, in whichever member of a provider its package left it.

    LangChain joins the texts of chunks: a reason that each of them gave is there several times.
    """
    reason = finish_reason_of(said, None)
    # A text that is another one several times stands in two of itself before the second, too.
    return None if reason is None else reason[: (reason * 2).find(reason, 1)]


def _first(said: dict[str, Any], *names: str) -> str | None:
    """Return the first member that is a text."""
    return next((said[name] for name in names if isinstance(said.get(name), str)), None)


# from the log


def trailing_words(turns: Sequence[Turn]) -> list[str]:
    """Return the text of what was said after the model's last response."""
    said: list[str] = []
    for turn in turns:
        if turn.role == "assistant":
            said = []
        elif not turn.hidden:
            said.append("".join(part.text for part in turn.parts if isinstance(part, Text)))
    return said


def shown_messages(turns: Sequence[Turn]) -> list[AnyMessage]:
    """Return turns as messages; the answers of a turn's calls follow it."""
    return list(_messages(turn for turn in turns if not turn.hidden))


def shown_response(turn: Turn) -> AIMessage:
    """Return a response as LangChain had it, without the calls that are not shown."""
    calls = [call for call in turn.calls if not call.hidden]
    if turn.provider == FRAMEWORK and isinstance(turn.native, dict):
        own = AIMessage.model_validate(turn.native)
        shown = {call.provider_id or call.id for call in calls}
        return own.model_copy(
            update={"tool_calls": [call for call in own.tool_calls if call["id"] in shown]}
        )
    return AIMessage(
        plain_text(turn.parts, []),
        tool_calls=[
            {
                "name": call.name,
                "args": call.arguments if isinstance(call.arguments, dict) else {},
                "id": call.provider_id or call.id,
                "type": "tool_call",
            }
            for call in calls
        ],
    )


def with_answers(
    messages: Sequence[AnyMessage], missing: Collection[str], turns: Sequence[Turn]
) -> list[AnyMessage]:
    """Return messages with what `turns` have as the answers to the `missing` calls."""
    answers = {
        call_id: _answered(call)
        for turn in turns
        for call in turn.calls
        if not call.hidden and (call_id := call.provider_id or call.id) in missing
    }
    shown: list[AnyMessage] = []
    for message in messages:
        if not isinstance(message, ToolMessage) or message.tool_call_id not in answers:
            shown.append(message)
        shown += [answers[call_id] for call_id in calls_made([message]) if call_id in answers]
    return shown


def _messages(turns: Iterable[Turn]) -> Iterator[AnyMessage]:
    for turn in turns:
        if turn.role == "system":
            yield SystemMessage(plain_text(turn.parts, []))
        elif turn.role != "assistant":
            yield HumanMessage(_content(turn.parts))
        else:
            yield shown_response(turn)
            yield from (_answered(call) for call in turn.calls if not call.hidden)


def _answered(call: Call) -> ToolMessage:
    return shown_answer(call.answer, call.provider_id or call.id, call.name)


def shown_answer(answer: Answer, call_id: str, name: str) -> ToolMessage:
    """Return an answer of the log to a call of a tool with this name."""
    status: Literal["success", "error"] = "error" if answer.is_error else "success"
    return ToolMessage(shown_text(answer), tool_call_id=call_id, name=name, status=status)


def _content(parts: Sequence[Part]) -> Any:
    if all(isinstance(part, Text) for part in parts):
        return plain_text(tuple(parts), [])
    return [_block(part) for part in parts]


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Audio):
        return {"type": "audio", "base64": part.data, "mime_type": part.media_type}
    if not isinstance(part, Image | Document):
        return {"type": "text", "text": plain_text((part,), [])}
    kind = "image" if isinstance(part, Image) else "file"
    if part.url is not None:
        return {"type": kind, "url": part.url}
    media_type = part.media_type if isinstance(part, Image) else "application/pdf"
    return {"type": kind, "base64": part.data, "mime_type": media_type or "image/png"}
