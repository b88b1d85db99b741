"""pydantic-ai's messages: what the log keeps of them, and the log's turns as messages."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic_ai import messages

from eventstore.domain.arguments import in_microseconds
from eventstore.domain.events import MessageAdded, ModelResponded
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.domain.usage import Usage
from eventstore.integrations.recorded_calls import shown_text
from eventstore.providers.call_arguments import function_call
from eventstore.providers.model import ParsedCall
from eventstore.providers.parts_as_text import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eventstore.providers.model import Call, Turn

FRAMEWORK = "pydantic-ai"
"""The `provider` of its messages in the log."""

WORDS = (messages.SystemPromptPart, messages.UserPromptPart)
"""The parts of a request that are someone's words."""

_PDF = "application/pdf"
_PNG = "image/png"


# to the log


def last_response(given: Sequence[messages.ModelMessage]) -> messages.ModelResponse | None:
    """Return the model's last response, or None."""
    return next((m for m in reversed(given) if isinstance(m, messages.ModelResponse)), None)


def stated_facts(response: messages.ModelResponse, latency: float | None) -> ModelResponded:
    """Return what a response says of itself, and the `latency` in seconds with which it came."""
    used = response.usage
    own = (response.provider_details or {}).get("finish_reason")  # pydantic-ai has no name for some
    return ModelResponded(
        provider=response.provider_name,
        model=response.model_name,
        response_id=response.provider_response_id,
        finish_reason=response.finish_reason or (own if isinstance(own, str) else None),
        usage=Usage.stated(
            [used.input_tokens],
            [used.output_tokens],
            [used.cache_read_tokens],
            [used.output_reasoning_tokens],
        )
        if used.has_values()
        else None,
        latency=in_microseconds("latency", latency),
    )


def parsed_call(call: messages.ToolCallPart) -> ParsedCall:
    """Return what a response says of a call."""
    return ParsedCall(call.tool_call_id, function_call(call.tool_name, call.args or {}))


@cache
def _user_content() -> TypeAdapter[list[messages.UserContent]]:
    return TypeAdapter(list[messages.UserContent])


def after_response(given: Sequence[messages.ModelMessage]) -> list[messages.ModelMessage]:
    """Return the messages after the model's last response."""
    after: list[messages.ModelMessage] = []
    for message in given:
        after = [] if isinstance(message, messages.ModelResponse) else [*after, message]
    return after


def without_stored(
    said: Sequence[MessageAdded], stored: Sequence[MessageAdded]
) -> Sequence[MessageAdded]:
    """Return words without those at their beginning that are stored."""
    known = 0
    for new, there in zip(said, stored, strict=False):
        if (new.role, new.parts) != (there.role, there.parts):
            break
        known += 1
    return said[known:]


def message_added(part: messages.SystemPromptPart | messages.UserPromptPart) -> MessageAdded:
    """Return the event of someone's words."""
    if isinstance(part, messages.SystemPromptPart):
        return MessageAdded("system", (Text(part.content),))
    content = [part.content] if isinstance(part.content, str) else part.content
    return MessageAdded("user", tuple(_part(item) for item in content))


def _part(item: messages.UserContent) -> Part:
    if isinstance(item, str):
        return Text(item)
    if isinstance(item, messages.ImageUrl):
        return Image(url=item.url)
    if isinstance(item, messages.DocumentUrl):
        return Document(url=item.url)
    if isinstance(item, messages.BinaryContent) and not item.vendor_metadata:
        data = b64encode(item.data).decode()
        if item.is_image:
            return Image(data=data, media_type=item.media_type)
        if item.media_type == _PDF:
            return Document(data=data)
    return Opaque(FRAMEWORK, _user_content().dump_python([item], mode="json")[0])


# from the log


def _content(part: Part) -> messages.UserContent:
    if isinstance(part, Image):
        if part.url is not None:
            return messages.ImageUrl(part.url)
        return messages.BinaryContent(
            b64decode(part.data or ""), media_type=part.media_type or _PNG
        )
    if isinstance(part, Document):
        if part.url is not None:
            return messages.DocumentUrl(part.url)
        return messages.BinaryContent(b64decode(part.data or ""), media_type=_PDF)
    if isinstance(part, Opaque) and part.provider == FRAMEWORK:
        return _user_content().validate_python([part.data])[0]
    return plain_text((part,), [])


def shown_messages(turns: Sequence[Turn]) -> Iterator[messages.ModelMessage]:
    """Yield turns as pydantic-ai's messages; the answers of a turn's calls follow it."""
    for turn in turns:
        if turn.hidden:
            continue
        if turn.role == "system":
            yield messages.ModelRequest([messages.SystemPromptPart(plain_text(turn.parts, []))])
        elif turn.role != "assistant":
            content = [_content(part) for part in turn.parts]
            said = content[0] if len(content) == 1 and isinstance(content[0], str) else content
            yield messages.ModelRequest([messages.UserPromptPart(said)])
        else:
            calls = [call for call in turn.calls if not call.hidden]
            response = _response(turn, calls)
            if response.parts:
                yield response
            if calls:
                yield messages.ModelRequest([_returned(call) for call in calls])


def _response(turn: Turn, calls: Sequence[Call]) -> messages.ModelResponse:
    """Return a response as pydantic-ai had it, without the calls that are not shown."""
    if turn.provider == FRAMEWORK and turn.native is not None:
        (own,) = messages.ModelMessagesTypeAdapter.validate_python([turn.native])
        if isinstance(own, messages.ModelResponse):
            shown = {call.provider_id or call.id for call in calls}
            parts = [
                part
                for part in own.parts
                if not isinstance(part, messages.ToolCallPart) or part.tool_call_id in shown
            ]
            return replace(own, parts=parts)
    text = plain_text(turn.parts, [])
    said = [messages.TextPart(text)] if text else []
    made = [messages.ToolCallPart(c.name, _written(c), c.provider_id or c.id) for c in calls]
    return messages.ModelResponse([*said, *made])


def _written(call: Call) -> str | dict[str, Any]:
    """Return the arguments of a call as pydantic-ai takes them."""
    if call.raw is not None:
        return call.raw
    return call.arguments if isinstance(call.arguments, dict) else {}


def _returned(call: Call) -> messages.ToolReturnPart:
    answer = call.answer
    return messages.ToolReturnPart(
        call.name,
        shown_text(answer),
        call.provider_id or call.id,
        outcome="failed" if answer.is_error else "success",
    )
