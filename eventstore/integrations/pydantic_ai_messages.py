"""pydantic-ai's messages: what the log keeps of them, and the log's turns as messages."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import exceptions, messages

from eventstore.domain.arguments import in_microseconds
from eventstore.domain.events import MessageAdded, ModelResponded
from eventstore.domain.media_types import PDF
from eventstore.domain.messages import Audio, Document, Image, Opaque, Part, Text
from eventstore.domain.usage import Usage
from eventstore.domain.wording import Wording
from eventstore.integrations.recorded_calls import shown_text
from eventstore.providers.call_arguments import function_call
from eventstore.providers.model import ParsedCall
from eventstore.providers.parts_as_text import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eventstore.providers.model import Answer, Call, Turn

FRAMEWORK = "pydantic-ai"
"""The `provider` of its messages in the log."""

WORDS = (messages.SystemPromptPart, messages.UserPromptPart)
"""The parts of a request that are someone's words."""

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
    shown = _media(item) if isinstance(item, messages.BinaryContent) else None
    return shown or Opaque(FRAMEWORK, _user_content().dump_python([item], mode="json")[0])


def _media(item: messages.BinaryContent) -> Part | None:
    """Return the image, the PDF or the sound that bytes are, if nothing else is said of them."""
    if item.vendor_metadata:
        return None
    if item.is_image:
        return Image(None, item.data, item.media_type)
    if item.media_type == PDF:
        return Document(None, item.data)
    return Audio(item.data, item.media_type) if item.is_audio else None


# from the log


def _content(part: Part) -> messages.UserContent:
    if isinstance(part, Image | Document) and part.url is not None:
        is_image = isinstance(part, Image)
        return messages.ImageUrl(part.url) if is_image else messages.DocumentUrl(part.url)
    if isinstance(part, Image | Document | Audio):
        media_type = PDF if isinstance(part, Document) else part.media_type
        return messages.BinaryContent(b64decode(part.data or ""), media_type=media_type or _PNG)
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


def wording_by(part: object) -> Wording | None:
    """Return what an answer that is no success tells the model; None of anything else."""
    if not isinstance(part, messages.ToolReturnPart) or part.outcome == "success":
        return None
    text = part.model_response_str(wrap_if_error=False)
    if part.outcome != "denied" and isinstance(part.content, str):
        return Wording(text)
    (request,) = _request.dump_python([messages.ModelRequest([part])], mode="json")
    return Wording(text, FRAMEWORK, request["parts"][0])


def wording_of(error: BaseException, call: messages.ToolCallPart) -> Wording | None:
    """Return what pydantic-ai tells the model of an error; None where the run ends with it."""
    if isinstance(error, exceptions.ToolRetryError):
        return wording_by(error.tool_retry)
    if isinstance(error, exceptions.ToolFailedError):
        return wording_by(error.tool_failed)
    if isinstance(error, exceptions.ToolFailed):
        return Wording(error.message)
    if not isinstance(error, exceptions.ModelRetry | ValidationError):
        return None
    try:  # nothing public makes the part that the agent will
        from pydantic_ai._output import build_retried_tool_return
    except ImportError:
        return None
    name, call_id = call.tool_name, call.tool_call_id
    return wording_by(build_retried_tool_return(error, tool_name=name, tool_call_id=call_id))


def recorded_value(value: object) -> object:
    """Return what is recorded of a tool's result: its images, documents and sounds as such."""
    items: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(item, (str, *_SHOWN)) for item in items) or isinstance(value, str):
        return value
    parts = [_part(item) for item in items]
    return value if any(isinstance(part, Opaque) for part in parts) else parts


def value_of(answer: Answer) -> Any:
    """Return an answer of the log as what a tool returns.

    Raises:
        ToolFailed: it is an error.
    """
    if answer.is_error:
        raise exceptions.ToolFailed(shown_text(answer))
    if answer.note is None and answer.data is not None:
        return answer.data
    if not answer.stored_parts:
        return shown_text(answer)
    shown: list[Any] = [_content(part) for part in answer.stored_parts]
    if answer.note is not None:
        shown.append(answer.note)
    return shown[0] if len(shown) == 1 else shown


def _returned(call: Call) -> messages.ToolReturnPart:
    answer, call_id = call.answer, call.provider_id or call.id
    if answer.provider == FRAMEWORK and answer.native is not None and answer.note is None:
        native = {**answer.native, "tool_call_id": call_id}
        (request,) = _request.validate_python([{"kind": "request", "parts": [native]}])
        (part,) = request.parts
        if isinstance(part, messages.ToolReturnPart):
            return part
    if answer.is_error:
        outcome: Any = "denied" if answer.is_refusal else "failed"
        return messages.ToolReturnPart(call.name, shown_text(answer), call_id, outcome=outcome)
    return messages.ToolReturnPart(call.name, value_of(answer), call_id)


_SHOWN = (messages.BinaryContent, messages.ImageUrl, messages.DocumentUrl)
_request = messages.ModelMessagesTypeAdapter
