"""Mends for single models and servers, which refuse more than the format that they take.

Each is named by the rule that asks for it; the rules themselves stand in `server_rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import count
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.own_texts import STOPPED
from eventstore.providers.identifiers import nine_characters
from eventstore.providers.json_values import members_of
from eventstore.providers.model import Change, Rendered


def mend_for_server(rendered: Rendered, list_key: str, codes: Collection[str]) -> None:
    """Change a request's list in place until it breaks none of the rules in `codes`."""
    for code, mend in _MENDS.items():
        if code in codes:
            mend(rendered.arguments[list_key], rendered.changes)


def _let_user_end(messages: list[JsonObject], changes: list[Change]) -> None:
    if messages and messages[-1]["role"] == "assistant":
        changes.append(Change("added", "OA14", "a request ends with the user"))
        messages.append({"role": "user", "content": STOPPED})


def _name_system(messages: list[JsonObject], changes: list[Change]) -> None:
    for message in messages:
        if message["role"] == "developer":
            changes.append(Change("rewritten", "OA15", "the developer speaks as the system here"))
            message["role"] = "system"


def _describe_images(messages: list[JsonObject], changes: list[Change]) -> None:
    for message in messages:
        content: JsonValue = message.get("content")
        parts = [members_of(part) for part in content] if isinstance(content, list) else []
        if any(part.get("type") == "image_url" for part in parts):
            changes.append(Change("wrapped", "OA16", "the model sees no images"))
            message["content"] = "\n".join(map(_described, parts))


def _described(part: JsonObject) -> str:
    if part.get("type") != "image_url":
        return str(part.get("text", f"[{part.get('type')}]"))
    address: JsonValue = members_of(part.get("image_url")).get("url")
    is_short = isinstance(address, str) and not address.startswith("data:")
    return f"[image {address}]" if is_short else "[image]"


def _leave_reasoning_out(messages: list[JsonObject], changes: list[Change]) -> None:
    for message in messages:
        if "reasoning_content" in message:
            changes.append(Change("dropped", "OA17", "reasoning_content is refused by this server"))
            del message["reasoning_content"]


def _add_reasoning(messages: list[JsonObject], changes: list[Change]) -> None:
    for message in messages:
        said: JsonValue = message.get("reasoning_content")
        if message["role"] == "assistant" and not isinstance(said, str):
            changes.append(Change("added", "OA18", "its reasoning is not known"))
            message["reasoning_content"] = _UNKNOWN_REASONING


def _add_reasoning_to_calls(messages: list[JsonObject], changes: list[Change]) -> None:
    for message in messages:
        said: JsonValue = message.get("reasoning_content")
        if message.get("tool_calls") and not (isinstance(said, str) and said):
            changes.append(Change("added", "OA19", "its reasoning is not known"))
            message["reasoning_content"] = _UNKNOWN_REASONING


_UNKNOWN_REASONING: Final = " "
"""The least that Moonshot takes; DeepSeek takes it, too."""


def _make_whole(items: list[JsonObject], changes: list[Change]) -> None:
    """Give the assistant's messages in parts the members with which the API gives them."""
    used = {item.get("id") for item in items}
    for number, item in enumerate(items):
        if item.get("role") != "assistant" or not isinstance(item.get("content"), list):
            continue
        own_id = next(name for n in count() if (name := f"msg_{number}{n or ''}") not in used)
        whole = {"type": "message", "id": own_id, "status": "completed"}
        missing = [key for key in whole if not isinstance(item.get(key), str)]
        if missing:
            changes.append(Change("added", "OR08", f"a message needs {', '.join(missing)} here"))
            item |= {key: whole[key] for key in missing}
            used.add(item["id"])


def _shorten_ids(messages: list[JsonObject], changes: list[Change]) -> None:
    """Give call and result the same id of 9 letters and digits."""
    for message in messages:
        calls: JsonValue = message.get("tool_calls")
        asked = [members_of(call) for call in calls] if isinstance(calls, list) else []
        for holder, key in (*((call, "id") for call in asked), (message, "tool_call_id")):
            given: JsonValue = holder.get(key)
            made = nine_characters(given) if isinstance(given, str) else given
            if made != given:
                holder[key] = made
                changes.append(Change("re-keyed", "MI01", f"id {given!r} is {made!r} here"))


def _sign_calls(contents: list[JsonObject], changes: list[Change]) -> None:
    """Give the first call of each content since the user's last words the placeholder."""
    from eventstore.providers.gemini.shapes import UNSIGNED  # not loaded for other providers

    if any(_holds(part, _SIGNATURE) for content in contents for part in content["parts"]):
        return  # the adapter has signed the others
    start = 0
    for number, content in enumerate(contents):
        is_said = any(not _holds(part, _RESPONSE) for part in content["parts"])
        if content["role"] == "user" and is_said:
            start = number
    for content in contents[start:]:
        for part in [part for part in content["parts"] if _holds(part, _CALL)][:1]:
            changes.append(Change("added", "GE09", "its signature is not known"))
            part[_SIGNATURE[0]] = UNSIGNED


_CALL: Final = ("functionCall", "function_call")
_RESPONSE: Final = ("functionResponse", "function_response")
_SIGNATURE: Final = ("thoughtSignature", "thought_signature")


def _holds(part: JsonObject, keys: tuple[str, ...]) -> bool:
    return any(part.get(key) for key in keys)


_MENDS: Final[dict[str, Callable[[list[JsonObject], list[Change]], None]]] = {
    "OA14": _let_user_end,
    "OA15": _name_system,
    "OA16": _describe_images,
    "OA17": _leave_reasoning_out,
    "OA18": _add_reasoning,
    "OA19": _add_reasoning_to_calls,
    "OR08": _make_whole,
    "MI01*": _shorten_ids,
    "GE09": _sign_calls,
}
