"""Streamed responses: events in, one after the other, and the whole message at the end.

Each provider has a `streaming.py` next to its adapter. It keeps two rules:

1. What came is in `response()` at any time. Of a stream that breaks off, an unfinished text is kept
   as far as it came, and an unfinished call with the text of its arguments; other unfinished parts,
   such as thinking without its signature, would be refused by the provider and are left out.
2. `is_finished` says whether the provider ended the message. Without that the stream broke off,
   even if no error was raised.

`streamed_response` adds a third: an error in the stream, in any provider's form, is part of the
response, which has failed then. So has one that ended, and said nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, Protocol, cast, get_args

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.nesting import nests_too_deeply
from eventstore.providers.failed_responses import error_of_event
from eventstore.providers.registry import ProviderName, adapter_of
from eventstore.providers.sdk_objects import member

_BUILT_IN: Final[tuple[str, ...]] = get_args(ProviderName)

_decode = msgspec.json.Decoder().decode


class StreamedResponse(Protocol):
    """The message that the events of one stream add up to."""

    @property
    def is_finished(self) -> bool:
        """Whether the provider ended the message."""
        ...

    @property
    def envelope(self) -> JsonObject:
        """A response that says nothing: what came of it, without the words and the calls."""
        ...

    def add(self, event: object) -> None:
        """Take in an event: a dict, or the SDK's own object. Unknown events are passed over."""
        ...

    def response(self) -> JsonObject | None:
        """Return the response as far as it came; None if nothing did."""
        ...


def streamed_response(provider: str) -> StreamedResponse:
    """Return an empty response, for the events of one stream of a provider.

    Raises:
        ValueError: the provider is unknown, or not built in.
    """
    adapter_of(provider)
    if provider not in _BUILT_IN:
        raise ValueError(
            f"streams of {provider!r} are not read, only those of {', '.join(_BUILT_IN)}: "
            "join the chunks and pass the whole message to `record`"
        )
    folder = provider.replace("-", "_")
    response = import_module(f"eventstore.providers.{folder}.streaming").Response
    return _WithError(cast("StreamedResponse", response()))


class _WithError:
    """A streamed response, and the error that ended it, if one came."""

    def __init__(self, response: StreamedResponse) -> None:
        self._response = response
        self._error: JsonValue = None

    @property
    def is_finished(self) -> bool:
        """Whether the provider ended the message."""
        return self._response.is_finished and self._error is None

    @property
    def envelope(self) -> JsonObject:
        """A response that says nothing, with the error."""
        error = {} if self._error is None else {"error": self._error}
        return {**self._response.envelope, **error}

    def add(self, event: object) -> None:
        """Take in an event."""
        error = error_of_event(event)
        self._error = error or self._error
        if error is None or member(event, "choices") is not None:
            self._response.add(event)

    def response(self) -> JsonObject | None:
        """Return the response as far as it came, also one that ended and said nothing."""
        came = self._response.response()
        if self._error is not None:
            return {**(came or self._response.envelope), "error": self._error}
        return self._response.envelope if came is None and self.is_finished else came


def arguments_of(text: str) -> JsonValue:
    """Return the arguments that a text is; the text itself if it is not JSON."""
    if nests_too_deeply(text):
        return text
    try:
        arguments: JsonValue = _decode(text)
    except msgspec.DecodeError:
        return text
    return arguments
