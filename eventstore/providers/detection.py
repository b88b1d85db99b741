"""What callers hand over: a request for its list of messages, or messages in another's form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from eventstore.wire.items import WireItem, WireMessage, WireResult

LISTS = ("messages", "contents", "input")
"""The members of a request that hold its messages, whosever request it is."""

_WRAPPED = ("body", "params", "request")  # around it in the lines of a batch, or of a proxy's log


def request_of(value: Any) -> dict[str, Any] | None:
    """The arguments of a request, wrapped or not; None of what is none."""
    if not isinstance(value, dict):
        return None
    inside = [value.get(key) for key in _WRAPPED]
    for arguments in (value, *inside):
        if isinstance(arguments, dict) and any(_is_list(arguments, key) for key in LISTS):
            return arguments
    return None


def key_of(arguments: dict[str, Any], key: str | None) -> str:
    """The member that holds the messages of a request: `key`, where that does."""
    if key is not None and _is_list(arguments, key):
        return key
    return next(each for each in LISTS if _is_list(arguments, each))


def _is_list(arguments: dict[str, Any], key: str) -> bool:
    given = arguments.get(key)
    if isinstance(given, str):  # a whole input, or that of a call
        return key == "input" and "type" not in arguments
    return isinstance(given, list)


def unwrapped(given: Any, key: str) -> Any:
    """The messages of a request, or what was given in its place."""
    arguments = request_of(given)
    return given if arguments is None else arguments[key_of(arguments, key)]


def listed(given: Any, key: str) -> Iterable[Any]:
    """The messages of a list or a request, or the one that was given in its place."""
    messages: Iterable[Any] = unwrapped(given, key)
    if isinstance(messages, str | dict) or hasattr(messages, "model_dump"):
        return [messages]  # which would be taken to pieces
    return messages


# whose form

MESSAGES = "messages[{}]"
"""The place of a message in a list."""

_CHAT = ("openai", "mistral", "ollama")

_MEMBERS = {
    "tool_calls": (_CHAT, True),
    "functionCall": (("gemini",), True), "functionResponse": (("gemini",), False),
    "function_response": (("gemini",), False),
    "toolUse": (("bedrock",), True), "toolResult": (("bedrock",), False),
}  # fmt: skip
"""Member to those who write it, and whether it is a call."""

_TYPES = {
    "tool_use": (("anthropic",), True), "tool_result": (("anthropic",), False),
    "function_call": (("openai-responses",), True),
    "custom_tool_call": (("openai-responses",), True),
    "function_call_output": (("openai-responses",), False),
    "custom_tool_call_output": (("openai-responses",), False),
}  # fmt: skip

_HOLDERS = ("choices", "candidates", "output", "message", "content", "parts")
_DEPTH = 8  # a block is no deeper in a response


class ForeignForm(ValueError):
    """Calls or results in another provider's form; `whose` it may be, likeliest first."""

    def __init__(self, found: str, whose: tuple[str, ...]) -> None:
        others = f" (or {', '.join(whose[1:])})" if whose[1:] else ""
        super().__init__(f"{found}: pass provider={whose[0]!r}{others}")
        self.found = found
        self.whose = whose


def refuse_foreign(
    messages: Sequence[Any],
    items: Iterable[WireItem],
    provider: str,
    place: str = MESSAGES,
    first: int = 0,
) -> bool:
    """Refuse messages whose calls or results are in another's form; whether they hold calls.

    Judged over all `items`, which were read from the messages as those of `provider`: where that
    found a call, the odd block in another form is no more than that. `first` is the number of the
    first message.

    Raises:
        ForeignForm: no call was found, but there are some as others write them; likewise results.
    """
    results = False
    for item in items:
        if isinstance(item, WireMessage) and item.calls:
            return True
        results = results or isinstance(item, WireResult)
    for number, message in enumerate(messages, first):
        for sign, whose, is_call in _signs(message):
            if provider not in whose and (is_call or not results):
                found = f"{place.format(number)} has {sign}, which {provider} does not"
                raise ForeignForm(found, whose)
    return False


_Sign = tuple[str, tuple[str, ...], bool]


def _signs(given: Any, depth: int = _DEPTH) -> Iterator[_Sign]:
    """What of calls and results only some providers write: what, who, and whether it is a call."""
    if not depth:
        return
    if isinstance(given, list):
        for each in given:
            yield from _signs(each, depth - 1)
    elif isinstance(given, dict):
        yield from _signs_of(given)
        for holder in _HOLDERS:
            if holder in given:
                yield from _signs(given[holder], depth - 1)


def _signs_of(given: dict[str, Any]) -> Iterator[_Sign]:
    for member, told in _MEMBERS.items():
        if given.get(member):
            yield member, *told
    kind, role = given.get("type"), given.get("role")
    if isinstance(given.get("function_call"), dict):  # once OpenAI's, too
        yield "function_call", ("gemini",) if role is None else ("openai",), True
    if isinstance(kind, str) and kind in _TYPES:
        yield kind, *_TYPES[kind]
    if role in ("tool", "function") and "parts" not in given:
        yield f"role {role!r}", _CHAT, False
