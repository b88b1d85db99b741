"""What a provider's adapter declares and does: everything that differs between providers.

Each provider's folder has one, `ADAPTER` in `adapter.py`. Adapters inherit the defaults here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Audio, Document, Image, Part
from eventstore.domain.value_paths import Path
from eventstore.providers.client_members import ClientMembers
from eventstore.providers.kept_messages import KeptMessages
from eventstore.providers.model import Call, Change, NativeMessage, ParsedItem, Rendered, Turn
from eventstore.providers.tool_definition import ToolDefinition

ResultTest: TypeAlias = Callable[[JsonObject], bool | str]
"""Answers a question about a result as the provider wrote it.

Whether a call was refused may be answered with its `ToolRejected.source`.
"""


class FormatSignature(msgspec.Struct, frozen=True, kw_only=True):
    """What tells a provider's calls and results from those of other providers."""

    calls: tuple[str, ...] = ()
    """Members that only a call has, or only what makes one."""
    results: tuple[str, ...] = ()
    """Members that only a result has."""
    message_calls: tuple[str, ...] = ()
    """Members that make a call where they stand next to a `role`."""
    part_calls: tuple[str, ...] = ()
    """Members that make a call where there is no `role` next to them."""
    call_types: tuple[str, ...] = ()
    """Values of `type` that only calls have."""
    result_types: tuple[str, ...] = ()
    """Values of `type` that only results have."""
    result_roles: tuple[str, ...] = ()
    """Roles of messages that are results."""
    part_types: tuple[str, ...] = ()
    """Values of `type` of other parts, by which a file is taken for this provider's."""
    served_types: frozenset[str] = frozenset()
    """Values of `type` of what else may look like a call or a result: the provider's servers ran
    it, or it tells of tools."""
    served_members: frozenset[str] = frozenset()
    """Members that hold such."""
    shared_members: frozenset[str] = frozenset()
    """Members of calls and results that others' forms have, too: they do not tell the form."""


class ResponseMembers(msgspec.Struct, frozen=True, kw_only=True):
    """Where a whole response says what it is, and the tokens of it.

    Each is a list of paths of members, from the response on, also through lists. Of texts the
    first that is there counts; numbers of tokens are added up.
    """

    response_id: tuple[Path, ...] = (("id",),)
    model: tuple[Path, ...] = (("model",),)
    finish_reason: tuple[Path, ...] = ()
    said: tuple[Path, ...] = ()
    """What was said. Without it, no response of the provider is known to have failed."""
    input: tuple[Path, ...] = ()
    """The whole prompt, cached tokens included."""
    output: tuple[Path, ...] = ()
    """All that was written, reasoning included."""
    cached: tuple[Path, ...] = ()
    reasoning: tuple[Path, ...] = ()


class ProviderAdapter(Protocol):
    """Reads and writes the message format of one provider."""

    name: str
    """What callers pass as `provider`, and what events store."""

    list_key: str
    """The keyword argument of the SDK's call that holds the message list."""

    signature: FormatSignature

    system_key: str | None = None
    """The keyword argument that holds the system text, where messages do not."""

    results_key: str | None = None
    """The member that holds the results of a user message with several, None where each is one."""

    call_ids: Literal["required", "optional"] = "required"

    error_flag: bool = False
    """Results say in a member of their own that they are failures."""

    keeps_server_calls: bool = False
    """The provider's server may keep a call, so that a list refers to it or only has its result."""

    image_details: frozenset[str] = frozenset()
    """Levels of detail that an image may ask for."""

    response_members: ResponseMembers = ResponseMembers()

    client_members: ClientMembers | None = None
    """What the SDK's client puts into messages, where that is anything."""

    def is_on_wire(self, json: bytes) -> bool:
        """Return whether `as_on_wire` changes no message of this JSON."""
        return self.client_members is None or not self.client_members.may_be_in(json)

    def as_on_wire(self, message: JsonValue, changes: list[Change]) -> JsonValue:
        """Return a message with the members of the wire, before it is read; often the same.

        What is changed goes to `changes`.
        """
        client = self.client_members
        return message if client is None else client.without(message, "form", changes)

    def parse(
        self, messages: Iterable[JsonValue], is_error: ResultTest, is_rejection: ResultTest
    ) -> Iterator[ParsedItem]:
        """Yield the items of messages, taking one message after the other.

        Never raises on a message, whatever it is; a message that says nothing is left out.
        """
        ...

    def render(self, turns: Sequence[Turn]) -> Rendered:
        """Return the request for `turns`, valid and with every visible call answered."""
        ...

    def render_next(self, turns: Sequence[Turn], kept: KeptMessages) -> Rendered:
        """Return what `render` returns; `kept` is of the last request, and for the next one.

        By default every message is made anew.
        """
        del kept
        return self.render(turns)

    def finish_request(self, rendered: Rendered, *, prefill: bool) -> None:
        """Mend what only a whole request shows, such as that it ends with the assistant's words.

        With `prefill` it may: the model continues them. By default nothing is changed.
        """
        del rendered, prefill

    def mark_for_cache(self, rendered: Rendered) -> None:
        """Mark what the next request can read from the provider's cache.

        By default nothing is marked: the provider caches what requests begin with in common.
        """
        del rendered

    def mark_tools_for_cache(self, tools: list[JsonObject]) -> list[JsonObject]:
        """Return a request's tools, marked like the messages; by default as they are."""
        return tools

    def render_result(self, call: Call, call_id: str) -> JsonObject:
        """Return what answers `call`, whose id in the request is `call_id`."""
        ...

    def tool_definition(self, tool: ToolDefinition) -> JsonObject:
        """Return what tells the model of a tool; by default as Chat Completions has it."""
        return {"type": "function", "function": tool.with_schema_as("parameters")}

    def tool_list(self, definitions: list[JsonObject]) -> list[JsonObject]:
        """Return what a request lists as its tools."""
        return definitions

    def provider_only_members(self, native: NativeMessage) -> Iterator[str]:
        """Yield the members of a native message or result that only this provider takes."""
        ...

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image or document that a native part shows, if others can show it too."""
        del part
        return None

    def audio(self, part: JsonObject) -> Audio | None:
        """Return the sound that a native part holds, if others can play it too."""
        del part
        return None

    def audio_part(self, audio: Audio) -> JsonObject | None:
        """Return the part of a user's message that plays a sound; None where there is none."""
        del audio
        return None

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed native result shows; nothing where it can only be text."""
        del native
        return ()

    def is_made_of(self, native: JsonObject, text: str, *, is_error: bool) -> bool:
        """Return whether a native result is the form that a result of this text has here.

        By default it is not. A provider whose form has a text other than the log's says when.
        """
        del native, text, is_error
        return False

    def free_texts(self, native: NativeMessage) -> Mapping[int, str]:
        """Return what the calls of a native message give to custom tools, by their places.

        A custom tool takes any text, a function the JSON text of its arguments.
        """
        del native
        return {}

    def takes_document_name(self, document: Document) -> bool:
        """Return whether the document may carry a name."""
        del document
        return True

    def is_own_message(self, message: JsonObject) -> bool:
        """Return whether only this provider writes such a message."""
        del message
        return False

    def system_text(self, arguments: JsonObject) -> str | None:
        """Return the system text of a rendered request, where it stands outside the messages."""
        return arguments.get(self.system_key) if self.system_key is not None else None
