"""agent-framework's messages: what the log keeps of them, and the log's turns as messages."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from agent_framework import ChatResponse, Content, Message

from eventstore.domain.arguments import in_microseconds
from eventstore.domain.events import MessageAdded, ModelResponded
from eventstore.domain.media_types import PDF
from eventstore.domain.messages import ROLES, Document, Image, Opaque, Part, Text
from eventstore.domain.usage import Usage
from eventstore.integrations.recorded_calls import shown_text
from eventstore.providers.call_arguments import function_call
from eventstore.providers.model import ParsedCall
from eventstore.providers.parts_as_text import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eventstore.domain.json_types import JsonObject
    from eventstore.providers.model import Call, Turn

FRAMEWORK: Final = "agent-framework"
"""The `provider` of its messages in the log."""

_CONTROLS: Final = ("function_approval_request", "function_approval_response", "function_result")
_PNG: Final = "image/png"

# to the log


def contents_of(messages: Iterable[Message], kind: str) -> list[Content]:
    """Return the contents of one type, in order."""
    return [content for m in messages for content in m.contents if content.type == kind]


def calls_in(messages: Iterable[Message]) -> list[Content]:
    """Return the calls that agent-framework is to run, and no server of a provider."""
    made = contents_of(messages, "function_call")
    return [call for call in made if not (call.informational_only or call.hosted)]


def results_in(messages: Iterable[Message]) -> dict[str, Content]:
    """Return the results of calls, by the ids of these."""
    results = contents_of(messages, "function_result")
    return {content.call_id: content for content in results if content.call_id}


def words_added(messages: Iterable[Message]) -> list[MessageAdded]:
    """Return the events of what people say in a run's input."""
    events: list[MessageAdded] = []
    for message in messages:
        parts = tuple(_part(c) for c in message.contents if c.type not in _CONTROLS)
        if parts:
            events.append(MessageAdded(message.role if message.role in ROLES else "user", parts))
    return events


def recorded_parts(messages: Sequence[Message]) -> tuple[list[Part], list[ParsedCall], JsonObject]:
    """Return the text of a response, its calls, and its messages as agent-framework has them."""
    parts: list[Part] = [Text(c.text) for c in contents_of(messages, "text") if c.text]
    calls = [
        ParsedCall(call.call_id, function_call(call.name, call.arguments or {}))
        for call in calls_in(messages)
    ]
    native = json.dumps([message.to_dict() for message in messages], default=str)
    return parts, calls, {"messages": json.loads(native)}


def stated_facts(
    response: ChatResponse[Any], provider: object, latency: float | None
) -> ModelResponded:
    """Return what a response says of itself, and the `latency` in seconds with which it came."""
    used = response.usage_details or {}
    return ModelResponded(
        provider=provider if isinstance(provider, str) else None,
        model=response.model,
        response_id=response.response_id,
        finish_reason=response.finish_reason,
        usage=Usage.stated(
            [used.get("input_token_count")],
            [used.get("output_token_count")],
            [used.get("cache_read_input_token_count")],
            [used.get("reasoning_output_token_count")],
        ),
        latency=in_microseconds("latency", latency),
    )


def result_of(result: object) -> object:
    """Return what a tool returned: a text, text with images and documents, or any other value."""
    if not (isinstance(result, list) and all(isinstance(item, Content) for item in result)):
        return result
    parts = [_part(content) for content in result]
    if all(isinstance(part, Text) for part in parts):
        return "\n".join(content.text or "" for content in result)
    if any(isinstance(part, Opaque) for part in parts):
        return [content.to_dict() for content in result]
    return parts


def _part(content: Content) -> Part:
    uri, media_type = content.uri or "", content.media_type or ""
    if content.type == "text":
        return Text(content.text or "")
    if content.additional_properties or not (media_type.startswith("image/") or media_type == PDF):
        return Opaque(FRAMEWORK, json.loads(json.dumps(content.to_dict(), default=str)))
    _, marker, data = uri.partition(";base64,")
    if media_type == PDF:
        return Document(data=data) if marker else Document(url=uri)
    return Image(data=data, media_type=media_type) if marker else Image(url=uri)


# from the log


def shown_messages(turns: Iterable[Turn]) -> list[Message]:
    """Return turns as messages; the answers of a turn's calls follow it."""
    shown: list[Message] = []
    for turn in turns:
        if turn.hidden:
            continue
        if turn.role != "assistant":
            shown.append(Message(turn.role, [_content(part) for part in turn.parts]))
            continue
        shown += shown_response(turn)
        answers = [_answered(call) for call in turn.calls if not call.hidden]
        if answers:
            shown.append(Message("tool", answers))
    return shown


def shown_response(turn: Turn) -> list[Message]:
    """Return a response as agent-framework had it, without the calls that are not shown."""
    calls = {_id(call): call for call in turn.calls if not call.hidden}
    if turn.provider == FRAMEWORK and isinstance(turn.native, dict):
        said: Any = turn.native["messages"]
        messages = [Message.from_dict(message) for message in said]
        known = {call.call_id for call in calls_in(messages)}
        for message in messages:
            message.contents = [
                c for c in message.contents if c.call_id not in known or c.call_id in calls
            ]
        return [message for message in messages if message.contents]
    text = plain_text(turn.parts, [])
    made = [
        Content.from_function_call(call_id, call.name, arguments=_written(call))
        for call_id, call in calls.items()
    ]
    return [Message("assistant", [*([Content.from_text(text)] if text else []), *made])]


def with_answers(messages: Sequence[Message], turns: Iterable[Turn]) -> list[Message]:
    """Return a request's messages in which the log answers each call, right after it.

    An id that several calls have means the latest one, from the end.
    """
    known: defaultdict[str, list[Call]] = defaultdict(list)
    for turn in turns:
        for call in turn.calls:
            if not call.hidden:
                known[_id(call)].append(call)
    holders = {c.call_id: m for m in messages for c in m.contents if c.type == "function_result"}
    shown: list[Message] = []
    for message in reversed(messages):
        made = [c.call_id for c in calls_in([message]) if c.call_id and known.get(c.call_id)]
        if made:
            answers = [_answered(known[call_id].pop()) for call_id in reversed(made)]
            holder = holders.get(made[0]) or Message("tool")
            shown.append(_holding(holder, answers[::-1]))
        kept = [c for c in message.contents if not _is_answered(c, known)]
        if kept or not message.contents:
            shown.append(message if len(kept) == len(message.contents) else _holding(message, kept))
    return shown[::-1]


def _is_answered(content: Content, known: dict[str, list[Call]]) -> bool:
    return content.type == "function_result" and content.call_id in known


def _holding(message: Message, contents: list[Content]) -> Message:
    """Return a message with other contents, and with the marks that a compaction made on it."""
    held = copy.copy(message)
    held.contents = contents
    return held


def _id(call: Call) -> str:
    return call.provider_id or call.id


def _written(call: Call) -> str | JsonObject:
    """Return the arguments of a call as agent-framework takes them."""
    if call.raw is not None:
        return call.raw
    return call.arguments if isinstance(call.arguments, dict) else {}


def _answered(call: Call) -> Content:
    answer = call.answer
    shown: Any = shown_text(answer)
    if answer.stored_parts:
        shown = [_content(part) for part in answer.stored_parts]
        shown += [Content.from_text(answer.note)] if answer.note else []
    failed = shown_text(answer) if answer.is_error else None
    return Content.from_function_result(_id(call), result=shown, exception=failed)


def _content(part: Part) -> Content:
    if isinstance(part, Opaque) and part.provider == FRAMEWORK:
        return Content.from_dict(part.data)
    if isinstance(part, Image | Document):
        media_type = PDF if isinstance(part, Document) else part.media_type or _PNG
        uri = part.url or f"data:{media_type};base64,{part.data}"
        return Content.from_uri(uri, media_type=media_type)
    return Content.from_text(plain_text((part,), []))


def texts_of(results: dict[str, Content]) -> dict[str, str]:
    """Return what results say, by the ids of their calls."""
    return {call_id: str(content.result or "") for call_id, content in results.items()}
