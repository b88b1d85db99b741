"""The contents of ADK's sessions, and which of them the log has."""

from __future__ import annotations

from collections import deque
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from google.genai import types

from eventstore.domain.media_types import PDF
from eventstore.domain.messages import Audio, Document, Image
from eventstore.integrations.recorded_wordings import wording_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.adk.events import Event
    from google.adk.runners import Runner
    from google.adk.sessions import Session

    from eventstore.domain.tool import Tool
    from eventstore.domain.wording import Wording
    from eventstore.providers.model import Turn

PROVIDER: Final = "gemini"
"""The form of the contents of ADK, whichever model it asks."""

REPLAYED: Final = "toolledger_replayed"
"""Marks a response that came from the log."""

_MINTED: Final = "adk-"  # begins the id of a call to which the model gave none
_CONTROL: Final = "adk_request_"  # begins the names of ADK's own calls, which ask the host


# results


def wording_of(call_id: str, name: str, result: object) -> Wording | None:
    """Return what the model is told of a result that tells of an error."""
    response = {"id": call_id, "name": name, "response": result}
    return wording_in({"role": "user", "parts": [{"functionResponse": response}]}, PROVIDER)


def recorded_result(value: object, depth: int = 5) -> object:
    """Return what is recorded of a result: its images, documents and sounds as such."""
    if isinstance(value, types.Part):
        blob = value.inline_data
        return value if blob is None or blob.data is None else _media(blob.data, blob.mime_type)
    if depth and isinstance(value, dict):
        return {key: recorded_result(each, depth - 1) for key, each in value.items()}
    if depth and isinstance(value, list | tuple):
        return [recorded_result(each, depth - 1) for each in value]
    return value


def _media(data: bytes, media_type: str | None) -> object:
    if media_type == PDF:
        return Document(None, data)
    if (media_type or "").startswith("audio/"):
        return Audio(data, media_type or "")
    return Image(None, data, media_type) if (media_type or "").startswith("image/") else data


def as_returned(contents: Sequence[types.Content], turns: Sequence[Turn]) -> None:
    """Give the results of the log in contents as ADK gives what a tool returns."""
    answers = [c.answer for turn in turns for c in turn.calls if not c.hidden]
    responses = [p.function_response for c in contents for p in parts_of(c) if p.function_response]
    if len(answers) != len(responses):
        return
    for answer, response in zip(answers, responses, strict=True):
        if answer.is_error or answer.note or answer.stored_parts or answer.native is not None:
            continue
        data = answer.text if answer.data is None else answer.data
        response.response = data if isinstance(data, dict) else {"result": data}


# sessions


async def rewound(runner: Runner, user_id: str, session_id: str, message: types.Content) -> Session:
    """Return a session as it was before its last message, if that is `message`; its state stays."""
    service, app = runner.session_service, runner.app_name
    kept = await service.get_session(app_name=app, user_id=user_id, session_id=session_id)
    if kept is None:
        return await service.create_session(app_name=app, user_id=user_id, session_id=session_id)
    words = _words_of(kept)
    if not words or _text(words[-1].content) != _text(message):
        return kept  # the crash came before ADK had the message
    last = words[-1].invocation_id
    await runner.rewind_async(
        user_id=user_id, session_id=session_id, rewind_before_invocation_id=last
    )
    again = await service.get_session(app_name=app, user_id=user_id, session_id=session_id)
    return kept if again is None else again.model_copy(update={"state": kept.state})


def _words_of(session: Session) -> list[Event]:
    """Return the messages of a session's user that have not been rewound."""
    events: list[Event] = []
    for event in session.events:
        undone = event.actions.rewind_before_invocation_id
        if undone is not None:
            ids = [earlier.invocation_id for earlier in events]
            del events[ids.index(undone) if undone in ids else len(ids) :]
        events.append(event)
    return [
        event
        for event in events
        if event.author == "user" and event.content and not event.get_function_responses()
    ]


def history_before(session: Session, contents: list[types.Content]) -> list[types.Content]:
    """Return what was said before a session, whose messages are the last of `contents`."""
    words = words_in(contents)
    own = len(_words_of(session))
    return contents[: words[max(len(words) - own, 0)]] if own and words else contents


# contents


def words_in(contents: list[types.Content]) -> list[int]:
    """Return the indices of the user's words, which are not answers to calls."""
    return [
        index
        for index, content in enumerate(contents)
        if content.role == "user" and not any(part.function_response for part in parts_of(content))
    ]


def waits_for_the_model(contents: list[types.Content]) -> bool:
    """Return whether a run has begun, and the model has not had the last word."""
    if not words_in(contents):
        return False
    last = contents[-1]
    return last.role != "model" or any(part.function_call for part in parts_of(last))


def responses_in(
    contents: list[types.Content], tools: list[Tool]
) -> deque[tuple[types.Content, list[Tool]]]:
    """Return the model's responses with their calls; those in a row are one."""
    responses = [
        types.Content(role="model", parts=[part for content in run for part in parts_of(content)])
        for role, run in groupby(contents, lambda content: content.role)
        if role == "model"
    ]
    counts = [sum(part.function_call is not None for part in parts_of(r)) for r in responses]
    calls = iter(tools[len(tools) - sum(counts) :])
    return deque(
        (response, list(islice(calls, count)))
        for response, count in zip(responses, counts, strict=True)
    )


def response_of(event: Event) -> types.GenerateContentResponse:
    """Return an event of the model as the response that it came from."""
    said = types.Candidate(content=event.content, finish_reason=event.finish_reason)
    return types.GenerateContentResponse(
        candidates=[said],
        usage_metadata=event.usage_metadata,
        model_version=event.model_version,
    )


def is_response(event: Event) -> bool:
    """Return whether an event is a response that the log does not have yet."""
    if event.content is None or event.content.role != "model" or not event.content.parts:
        return False
    if (event.custom_metadata or {}).get(REPLAYED):
        return False
    return not any((call.name or "").startswith(_CONTROL) for call in event.get_function_calls())


def without_minted_ids(content: types.Content) -> types.Content:
    """Return a copy without the ids that ADK gave to calls, which no model knows."""
    copy = content.model_copy(deep=True)
    for part in parts_of(copy):
        for body in (part.function_call, part.function_response):
            if body is not None and (body.id or "").startswith(_MINTED):
                body.id = None
    return copy


def text_of(response: dict[str, Any]) -> str:
    """Return the text of an answer, as the history gives it to the model."""
    return "\n".join(str(value) for value in response.values())


def _text(content: types.Content | None) -> list[str | None]:
    """Return the words of a message."""
    return [part.text for part in parts_of(content)]


def parts_of(content: types.Content | None) -> list[types.Part]:
    """Return the parts of a content, which may have none."""
    return (content and content.parts) or []
