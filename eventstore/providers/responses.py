"""What `record` is given: a whole message, or something that is not one yet.

A response names itself: the same response recorded twice is stored once. Its chunks, its stream and
its text alone are not messages; each is refused with what to pass in its place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import Final

import msgspec

from eventstore.domain.fingerprint import content_id
from eventstore.domain.json_types import is_json_list, is_json_object
from eventstore.providers.detection import RESPONSE_MEMBERS
from eventstore.providers.model import ParsedItem, ParsedMessage
from eventstore.providers.sdk_objects import member

_IDS: Final = ("id", "response_id", "responseId")
_TIMES: Final = ("created", "created_at", "create_time", "createTime")

_CHUNK_TYPES: Final = (
    "message_start",
    "message_delta",
    "message_stop",
    "message-start",
    "message-end",
    "content_block_",
    "content-",
    "tool-call-",
    "response.",
)
"""How the types of stream events begin, for Anthropic, Cohere and OpenAI Responses."""

_BEDROCK_CHUNKS: Final = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop"}
)

_STREAMED: Final = (
    "record the stream with `recording(stream, chat, provider)`, or its last message: what "
    "`stream.get_final_completion()`, `.get_final_response()` or `.get_final_message()` returns"
)

_encode = msgspec.json.Encoder(order="deterministic").encode


def refuse_fragments(message: object) -> None:
    """Refuse what is not a whole message: a chunk, a stream, text, a list, None.

    Raises:
        TypeError: it is one of these.
    """
    kind = type(message).__name__
    if message is None:
        raise TypeError("the message is None: record what the provider's SDK returned")
    if isinstance(message, str | bytes | bytearray):
        raise TypeError(
            f"the message is text, {message[:40]!r}: pass the SDK's whole object, or "
            "`add_message(role, text)` for the text alone"
        )
    if isinstance(message, int | float):
        raise TypeError(f"the message is {message!r}: record what the provider's SDK returned")
    if isinstance(message, list | tuple):
        raise TypeError(f"the message is a {kind}: pass it to `record_messages`")
    if isinstance(message, Awaitable):
        raise TypeError(f"the message is a {kind}: await it first")
    if _is_stream(message):
        raise TypeError(f"the message is a stream ({kind}): {_STREAMED}")
    if _is_chunk(message):
        raise TypeError(f"the message is one chunk of a stream ({kind}): {_STREAMED}")


_SEVERAL: Final[tuple[tuple[str, str], ...]] = (
    ("choices", "`response.choices[n].message`, or ask without `n`"),
    ("candidates", "`response.candidates[n]`, or ask without `candidate_count`"),
)


def refuse_several(response: object, label: str) -> None:
    """Refuse a response with several answers: the conversation goes on after one of them.

    Raises:
        ValueError: it has more than one choice, or candidate.
    """
    for name, remedy in _SEVERAL:
        answers = member(response, name)
        if is_json_list(answers) and len(answers) > 1:
            raise ValueError(f"{label} has {len(answers)} {name}: record one of them, {remedy}")


def count_of_answers(response: object) -> int:
    """Return how many choices or candidates a response has; at least 1."""
    answers = (member(response, name) for name, _ in _SEVERAL)
    return max((len(each) for each in answers if is_json_list(each)), default=1) or 1


def refuse_further(name: str, index: object) -> None:
    """Refuse a chunk of a further answer in one stream; its `index` counts them.

    Raises:
        ValueError: it is not of the first one.
    """
    if isinstance(index, int) and index > 0:
        remedy = next(remedy for several, remedy in _SEVERAL if several == name)
        remedy = remedy.rpartition(", or ")[2]
        raise ValueError(f"the stream has several {name}, one with index {index}: {remedy}")


def is_response(message: object) -> bool:
    """Return whether it is more than a message: no message, item or choice, but what holds them.

    Only Anthropic's responses have a type; items of OpenAI Responses with an output have one, too.
    """
    if member(message, "stop_reason") is not None:
        return True
    if isinstance(member(message, "type"), str):
        return False
    return any(member(message, holder) is not None for holder in RESPONSE_MEMBERS)


def response_digest(message: object, items: Sequence[ParsedItem], provider: str) -> bytes:
    """Return what names a whole response: its id and what it says; empty if it has no id.

    The content counts, because some servers give every response the same id.
    """
    names = [member(message, name) for name in _IDS]
    name = next((found for found in names if isinstance(found, str) and found), None)
    if name is None or all(member(message, holder) is None for holder in RESPONSE_MEMBERS):
        return b""
    times = [member(message, key) for key in _TIMES]
    made = next((found for found in times if isinstance(found, int | float | str)), None)
    said = [
        (item.role, item.parts, [(call.id, call.call) for call in item.calls])
        for item in items
        if isinstance(item, ParsedMessage)
    ]
    return content_id(b"response", _encode((provider, name, made, said)))


def _is_stream(value: object) -> bool:
    if isinstance(value, Iterator | AsyncIterator):
        return True
    # What `client.messages.stream()` returns is a context manager that is not entered yet.
    enters = hasattr(value, "__enter__") or hasattr(value, "__aenter__")
    return enters and not hasattr(value, "model_dump")


def _is_chunk(value: object) -> bool:
    kind = member(value, "type")
    if isinstance(kind, str) and kind.startswith(_CHUNK_TYPES):
        return True
    if member(value, "object") == "chat.completion.chunk" or member(value, "done") is False:
        return True
    data = member(value, "data")  # Mistral has its chunks in events
    choices = member(value if data is None else data, "choices")
    first = choices[0] if is_json_list(choices) and choices else None
    if member(first, "delta") is not None and member(first, "message") is None:
        return True
    return is_json_object(value) and len(value) == 1 and not _BEDROCK_CHUNKS.isdisjoint(value)
