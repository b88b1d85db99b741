"""Detection: the message list in a request, and messages that are in another provider's form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.domain.value_paths import Path, values_at
from eventstore.providers.adapter_protocol import ProviderAdapter
from eventstore.providers.model import ParsedItem, ParsedMessage, ParsedResult
from eventstore.providers.registry import PROVIDERS, adapter_of

# Responses

RESPONSE_MEMBERS: Final = frozenset(
    {
        *("choices", "output", "candidates", "message", "stop_reason"),
        *("promptFeedback", "prompt_feedback"),
    }
)
"""One of these a whole response has; a message has none, except for Anthropic's."""

# Requests

LIST_KEYS: Final = ("messages", "contents", "input")
"""The members of a request that may hold its messages."""

_WRAPPERS: Final = ("body", "params", "request")
"""Members that hold a request in the lines of a batch, or of a proxy's log."""


_MEMBERS_OF_REQUESTS: Final = frozenset({*LIST_KEYS, *_WRAPPERS})

_SERVER_STATE: Final = ("previous_response_id", "conversation")
"""Members of a request that name what the server keeps."""


def request_of(value: object) -> JsonObject | None:
    """Return the arguments of a request, wrapped or not; None if the value is not a request."""
    if not is_json_object(value) or _MEMBERS_OF_REQUESTS.isdisjoint(value):
        return None
    inside: list[JsonValue] = [value.get(key) for key in _WRAPPERS]
    for arguments in (value, *inside):
        if isinstance(arguments, dict) and any(_holds_list(arguments, key) for key in LIST_KEYS):
            return arguments
    return None


def list_key_of(arguments: JsonObject, preferred: str | None) -> str:
    """Return the member that holds the messages of a request; `preferred` comes first."""
    if preferred is not None and _holds_list(arguments, preferred):
        return preferred
    return next(key for key in LIST_KEYS if _holds_list(arguments, key))


def _holds_list(arguments: JsonObject, key: str) -> bool:
    value = arguments.get(key)
    if isinstance(value, str):  # a whole input of OpenAI Responses, or the input of a call
        return key == "input" and "type" not in arguments
    return isinstance(value, list)


def is_continued(given: object) -> bool:
    """Return whether a request continues messages that the provider's server keeps.

    Its results may answer calls that are kept there.
    """
    arguments = request_of(given)
    if arguments is None:
        return False
    thread: JsonValue = arguments.get("thread")  # Anthropic's
    continues = isinstance(thread, dict) and thread.get("type") == "continue"
    return continues or any(arguments.get(key) is not None for key in _SERVER_STATE)


def unwrapped(given: object, key: str) -> Any:
    """Return the messages of a request, or `given` where it is not a request."""
    arguments = request_of(given)
    return given if arguments is None else arguments[list_key_of(arguments, key)]


def listed(given: object, key: str) -> Iterable[object]:
    """Return the messages of a list or a request; a single message as a list of one."""
    messages: Iterable[object] = unwrapped(given, key)
    return [messages] if _is_one_message(messages) else messages


def _is_one_message(given: object) -> bool:
    """Return whether iterating over it would yield its parts."""
    return isinstance(given, str | dict) or hasattr(given, "model_dump")


# Results of batches

_LINE_IDS: Final = ("custom_id", "key", "recordId")
_IN_LINES: Final[tuple[Path, ...]] = (
    ("response", "body"),  # OpenAI, Mistral
    ("result", "message"),  # Anthropic
    ("response",),  # Gemini
    ("modelOutput",),  # Bedrock
)
"""Where a line of a batch's results holds its response, by the first provider that does so."""


def _refuse_batch_line(message: JsonObject, label: str) -> None:
    """Refuse a line of a batch's results: its response would be kept as JSON, its calls lost.

    Raises:
        ValueError: it is one; the error names the member that is the response.
    """
    if "role" in message or all(message.get(name) is None for name in _LINE_IDS):
        return
    for path in _IN_LINES:
        if any(isinstance(value, dict) for value in values_at(message, path)):
            raise ValueError(
                f"{label} is a line of a batch's results: pass its {'.'.join(path)!r} alone, which "
                "is the response"
            )
    if "custom_id" in message and ("result" in message or "response" in message):
        raise ValueError(f"{label} is a line of a batch's results, and has no response: leave it")


# Formats

MESSAGE_LABEL: Final = "messages[{}]"
"""A message in a list, as errors name it."""

_CONTAINERS: Final = ("choices", "candidates", "output", "message", "content", "parts")
_MAX_DEPTH: Final = 8
"""A block is not deeper than this in a response."""

_TEXT_MEMBERS: Final = frozenset({"role", "content"})


class ForeignForm(ValueError):
    """Calls or results in another provider's form; `whose` lists the likeliest first."""

    def __init__(self, found: str, whose: tuple[str, ...]) -> None:
        others = f" (or {', '.join(whose[1:])})" if whose[1:] else ""
        super().__init__(f"{found}: pass provider={whose[0]!r}{others}")
        self.found = found
        self.whose = whose


def refuse_foreign(
    messages: Sequence[Any],
    items: Iterable[ParsedItem],
    provider: str,
    label: str = MESSAGE_LABEL,
    first: int = 0,
) -> bool:
    """Refuse messages in another provider's form; return whether they hold calls.

    What tells is a call, a result, or what is around the message in a whole response.

    `items` are what was read from the messages as those of `provider`. Where that found a call,
    a single block in another form is kept as it is. `first` is the number of the first message.

    Raises:
        ForeignForm: no call was found, but there are some in another provider's form; likewise
            results; or there is another provider's response.
        ValueError: a message is a line of a batch's results.
    """
    results = False
    for item in items:
        if isinstance(item, ParsedMessage) and item.calls:
            return True
        results = results or isinstance(item, ParsedResult)
    for number, message in enumerate(messages, first):
        if _is_plain_text(message):
            continue
        if is_json_object(message):
            _refuse_batch_line(message, label.format(number))
            _refuse_foreign_response(message, provider, label.format(number))
        for sign in _signs_in(message):
            if provider not in sign.providers and (sign.is_call or not results):
                found = f"{label.format(number)} has {sign.what}, which {provider} does not"
                raise ForeignForm(found, sign.providers)
    return False


def is_foreign(message: JsonObject) -> bool:
    """Return whether a message that says nothing as it is may say something to another provider.

    It has a speaker, or is a call or a result in another form; an event of a stream, which has a
    type, is neither.
    """
    return "role" in message or "type" not in message or any(_signs_in(message))


def provider_of(messages: Iterable[object]) -> str | None:
    """Return the only provider that writes such messages; None where several may."""
    adapters = [adapter_of(name) for name in PROVIDERS]
    for message in messages:
        if is_json_object(message):
            for adapter in adapters:
                if adapter.is_own_message(message):
                    return adapter.name
    return None


def likely_provider_of(messages: Iterable[object]) -> str | None:
    """Return the likeliest provider by the first call, result or part that tells it apart.

    None where nothing does.
    """
    signs = _signs_of(tuple(PROVIDERS))
    for message in messages:
        if _is_plain_text(message) or not is_json_object(message):
            continue
        for sign in _search(message, signs, _MAX_DEPTH):
            return sign.providers[0]
        content: JsonValue = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind in signs.part_types:
                return signs.part_types[kind]
    return None


def provider_of_list_key(key: str) -> str | None:
    """Return the only provider whose messages are in the member `key`; None where several are."""
    names = [name for name in PROVIDERS if adapter_of(name).list_key == key]
    return names[0] if len(names) == 1 else None


def _refuse_foreign_response(response: JsonObject, provider: str, label: str) -> None:
    """Refuse a whole response of another provider: what it says would be lost, or kept as JSON.

    The member that tells why the model stopped gives a response away.

    Raises:
        ForeignForm: only others have such a member.
    """
    own = adapter_of(provider).response_members.finish_reason
    if not own or not _is_response(response) or _has_any(response, own):
        return
    whose: dict[str, str] = {}
    for name in PROVIDERS:
        for path in adapter_of(name).response_members.finish_reason:
            if _has_any(response, (path,)):
                whose.setdefault(name, ".".join(path))
    if whose:
        what = next(iter(whose.values()))
        raise ForeignForm(f"{label} has {what}, which {provider} does not", tuple(whose))


def _is_response(message: JsonObject) -> bool:
    """Return whether it is more than a message; only Anthropic's responses have a role."""
    return "stop_reason" in message or (
        "role" not in message and not RESPONSE_MEMBERS.isdisjoint(message)
    )


def _has_any(response: JsonObject, paths: Iterable[Path]) -> bool:
    found = (value for path in paths for value in values_at(response, path))
    return any(isinstance(value, str) for value in found)


class _Sign(NamedTuple):
    """A feature that only calls or results of some providers have."""

    what: str
    providers: tuple[str, ...]
    is_call: bool


class _Signs(NamedTuple):
    """The signs of all providers, by the feature that reveals them."""

    members: dict[str, _Sign]
    message_members: dict[str, _Sign]
    part_members: dict[str, _Sign]
    types: dict[str, _Sign]
    roles: dict[str, _Sign]
    part_types: dict[str, str]
    """The likeliest provider by the types of its other parts."""


@lru_cache(1)
def _signs_of(providers: tuple[str, ...]) -> _Signs:
    signs = _Signs({}, {}, {}, {}, {}, {})
    for name in providers:
        _add_signs(signs, adapter_of(name))
    return signs


def _add_signs(signs: _Signs, adapter: ProviderAdapter) -> None:
    signature = adapter.signature
    for kind in signature.part_types:
        signs.part_types.setdefault(kind, adapter.name)
    for table, found, is_call in (
        (signs.members, signature.calls, True),
        (signs.members, signature.results, False),
        (signs.message_members, signature.message_calls, True),
        (signs.part_members, signature.part_calls, True),
        (signs.types, signature.call_types, True),
        (signs.types, signature.result_types, False),
        (signs.roles, signature.result_roles, False),
    ):
        for what in found:
            known = table[what].providers if what in table else ()
            label = f"role {what!r}" if table is signs.roles else what
            table[what] = _Sign(label, (*known, adapter.name), is_call)


def _is_plain_text(message: object) -> bool:
    """Return whether a message says text alone, so that no adapter need be loaded to judge it."""
    return (
        isinstance(message, dict)
        and message.keys() == _TEXT_MEMBERS
        and isinstance(message["content"], str)
        and message["role"] in ("user", "assistant", "system")
    )


def _signs_in(given: JsonValue) -> Iterator[_Sign]:
    return _search(given, _signs_of(tuple(PROVIDERS)), _MAX_DEPTH)


def _search(given: JsonValue, signs: _Signs, depth: int) -> Iterator[_Sign]:
    if not depth:
        return
    if isinstance(given, list):
        for each in given:
            yield from _search(each, signs, depth - 1)
    elif isinstance(given, dict):
        yield from _signs_on(given, signs)
        for container in _CONTAINERS:
            if container in given:
                yield from _search(given[container], signs, depth - 1)


def _signs_on(given: JsonObject, signs: _Signs) -> Iterator[_Sign]:
    """Yield the signs that an object itself has."""
    for member, sign in signs.members.items():
        if given.get(member):
            yield sign
    kind, role = given.get("type"), given.get("role")
    members = signs.part_members if role is None else signs.message_members
    for member, sign in members.items():
        if isinstance(given.get(member), dict):
            yield sign
    if isinstance(kind, str) and kind in signs.types:
        yield signs.types[kind]
    is_item = isinstance(kind, str) and kind != "message"  # its role is not a message's
    if isinstance(role, str) and role in signs.roles and "parts" not in given and not is_item:
        yield signs.roles[role]
