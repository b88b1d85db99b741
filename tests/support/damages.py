"""Damages of message lists, each with a name, and valid lists to damage.

A damage changes the list that it is given, at a random place; it may find nothing to change.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from support.broken import GENERATORS, histories

from eventstore.providers import AnyProvider, is_valid
from projections import repair_messages

Messages = list[Any]
Damage = Callable[[random.Random, Messages], None]
Place = tuple[Any, Any]
"""An object or a list, and the key or index of a value in it."""

SOURCES = 60
"""Valid histories of a provider that are damaged, over and over."""

ODD: list[Any] = [
    *(None, "", " ", "x", [], {}, 0, -1, 1.5, True, 10**30, "\x00", "\ud800"),
    *([[]], [None], {"type": "text"}, {"a": 1}, [{"type": "text", "text": ""}]),
]
ROLES: list[Any] = [
    *("user", "assistant", "model", "tool", "system", "developer", "function"),
    *("USER", "", None, 3),
]
ARGUMENTS = frozenset({"arguments", "input", "args"})
REASONING = frozenset({"thinking", "reasoning", "redacted_thinking"})
SIGNATURES = frozenset(
    {"signature", "thoughtSignature", "thought_signature", "encrypted_content", "data"}
)
CONTENT = frozenset({"content", "parts"})
IDS = frozenset({"id", "call_id", "tool_call_id", "tool_use_id", "toolUseId", "item_id"})


def valid_histories(provider: AnyProvider, is_typed: Callable[[Messages], bool]) -> list[Messages]:
    """Return valid lists of a provider, all of whose types are right: with calls and results."""
    found: list[Messages] = []
    for broken in histories(provider, 20 * SOURCES, "valid"):
        messages = repair_messages(broken, provider).messages
        if len(messages) > 1 and is_valid(messages, provider) and is_typed(messages):
            found.append(messages)
        if len(found) == SOURCES:
            return found
    raise AssertionError(f"{len(found)} valid histories of {provider}")


def foreign_messages(provider: AnyProvider) -> Messages:
    """Return messages of all other providers."""
    others = [name for name in GENERATORS if name != provider]
    return [m for name in others for each in histories(name, 10, "foreign") for m in each]


def places(value: Any) -> Iterator[Place]:
    """Yield every place in a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield value, key
            yield from places(inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield value, index
            yield from places(inner)


def lists(messages: Messages) -> list[list[Any]]:
    """Return the lists inside the messages: their contents and parts."""
    return [held[key] for held, key in places(messages) if isinstance(held[key], list)]


def contents(messages: Messages) -> list[list[Any]]:
    """Return the contents of messages and of results that are lists."""
    return [
        held[key]
        for held, key in places(messages)
        if key in CONTENT and isinstance(held[key], list)
    ]


def drop_a_message(rng: random.Random, messages: Messages) -> None:
    """Leave a message out."""
    if messages:
        del messages[rng.randrange(len(messages))]


def double_a_message(rng: random.Random, messages: Messages) -> None:
    """Put a message in twice."""
    if messages:
        messages.insert(rng.randrange(len(messages)), copy.deepcopy(rng.choice(messages)))


def swap_messages(rng: random.Random, messages: Messages) -> None:
    """Put two messages in each other's place."""
    if len(messages) > 1:
        one, other = rng.sample(range(len(messages)), 2)
        messages[one], messages[other] = messages[other], messages[one]


def merge_neighbours(rng: random.Random, messages: Messages) -> None:
    """Make one message of two of the same form that stand beside each other."""
    if len(messages) < 2:
        return
    at = rng.randrange(len(messages) - 1)
    one, other = messages[at : at + 2]
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return
    if ("parts" in one) != ("parts" in other):
        return
    for key, value in other.items():
        known = one.get(key)
        both = isinstance(known, str | list) and type(known) is type(value)
        one[key] = known + value if both and key in CONTENT else known or value
    del messages[at + 1]


def cut_a_text(rng: random.Random, messages: Messages) -> None:
    """End a text where a stream broke off; no stream breaks off in the bytes of an image."""
    found = [
        (held, key)
        for held, key in places(messages)
        if isinstance(held[key], str) and key not in SIGNATURES
    ]
    if found:
        held, key = rng.choice(found)
        held[key] = held[key][: rng.randint(0, len(held[key]))]


def cut_arguments(rng: random.Random, messages: Messages) -> None:
    """End the JSON of a call's arguments where a stream broke off."""
    found = [(held, key) for held, key in places(messages) if key in ARGUMENTS]
    if found:
        held, key = rng.choice(found)
        text = held[key] if isinstance(held[key], str) else json.dumps(held[key])
        held[key] = text[: rng.randint(0, len(text))]


def cut_a_streamed_message(rng: random.Random, messages: Messages) -> None:
    """Keep what had come of a message when its stream broke off: nothing after that byte."""
    found = [place for place, message in enumerate(messages) if isinstance(message, dict)]
    if found:
        place = rng.choice(found)
        length = sum(len(text) for text in _texts(messages[place]))
        messages[place] = _beginning(messages[place], [rng.randint(0, length)])


def _texts(value: Any) -> list[str]:
    return [held[key] for held, key in places(value) if isinstance(held[key], str)]


def _beginning(value: Any, left: list[int]) -> Any:
    """Return the beginning of a JSON value, with as many characters of texts as are left."""
    if isinstance(value, str):
        taken = value[: left[0]]
        left[0] -= len(value)
        return taken
    if isinstance(value, list):
        return [_beginning(item, left) for item in value if left[0] >= 0]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for key, item in value.items():
        if left[0] < 0 or (key in SIGNATURES and isinstance(item, str) and len(item) > left[0]):
            break  # a signature comes in one piece
        kept[key] = _beginning(item, left)
    return kept


def cut_the_list(rng: random.Random, messages: Messages) -> None:
    """End the list anywhere, or begin it anywhere."""
    at = rng.randint(0, len(messages))
    if rng.random() < 0.5:
        del messages[at:]
    else:
        del messages[:at]


def change_a_role(rng: random.Random, messages: Messages) -> None:
    """Give a message another speaker."""
    found = [message for message in messages if isinstance(message, dict)]
    if found:
        rng.choice(found)["role"] = rng.choice(ROLES)


def put_an_odd_value(rng: random.Random, messages: Messages) -> None:
    """Put a value of another type in any place."""
    found = list(places(messages))
    if found:
        held, key = rng.choice(found)
        held[key] = copy.deepcopy(rng.choice(ODD))


def lose_a_member(rng: random.Random, messages: Messages) -> None:
    """Take a member out of any object."""
    found = [(held, key) for held, key in places(messages) if isinstance(held, dict)]
    if found:
        held, key = rng.choice(found)
        del held[key]


def change_an_id(rng: random.Random, messages: Messages) -> None:
    """Give a call, or a result, another id or none."""
    found = [(held, key) for held, key in places(messages) if key in IDS]
    if found:
        held, key = rng.choice(found)
        held[key] = rng.choice(["", "other", None, 5, rng.choice(found)[0].get(key)])


def lose_a_signature(rng: random.Random, messages: Messages) -> None:
    """Take the signature away from what was signed."""
    found = [(held, key) for held, key in places(messages) if key in SIGNATURES]
    if found:
        held, key = rng.choice(found)
        del held[key]


def detach_reasoning(rng: random.Random, messages: Messages) -> None:
    """Move reasoning away from the calls that it led to."""
    found = [
        (held, key)
        for held, key in places(messages)
        if isinstance(held, list)
        and isinstance(held[key], dict)
        and (str(held[key].get("type")) in REASONING or "reasoningContent" in held[key])
    ]
    if found:
        held, key = rng.choice(found)
        moved = held.pop(key)
        into = rng.choice(contents(messages) or [messages])
        into.insert(rng.randint(0, len(into)), moved)


def drop_a_part(rng: random.Random, messages: Messages) -> None:
    """Leave a part of a message out."""
    found = [held for held in lists(messages) if held]
    if found:
        held = rng.choice(found)
        del held[rng.randrange(len(held))]


def double_a_part(rng: random.Random, messages: Messages) -> None:
    """Put a part of a message in twice."""
    found = [held for held in lists(messages) if held]
    if found:
        held = rng.choice(found)
        held.append(copy.deepcopy(rng.choice(held)))


def swap_parts(rng: random.Random, messages: Messages) -> None:
    """Put two parts of a message in each other's place."""
    found = [held for held in lists(messages) if len(held) > 1]
    if found:
        held = rng.choice(found)
        one, other = rng.sample(range(len(held)), 2)
        held[one], held[other] = held[other], held[one]


def move_a_part(rng: random.Random, messages: Messages) -> None:
    """Move a part to another message."""
    found = contents(messages)
    if len(found) > 1:
        source, target = rng.sample(found, 2)
        if source:
            moved = copy.deepcopy(source.pop(rng.randrange(len(source))))
            target.insert(rng.randint(0, len(target)), moved)


DAMAGES: tuple[Damage, ...] = (
    *(drop_a_message, double_a_message, swap_messages, merge_neighbours),
    *(cut_a_text, cut_arguments, cut_a_streamed_message, cut_the_list),
    *(change_a_role, put_an_odd_value, lose_a_member),
    *(change_an_id, lose_a_signature, detach_reasoning),
    *(drop_a_part, double_a_part, swap_parts, move_a_part),
)


def foreign_damages(provider: AnyProvider) -> tuple[Damage, Damage]:
    """Return the damages that put a message, or a part, of another provider in."""
    others = foreign_messages(provider)

    def put_a_foreign_message(rng: random.Random, messages: Messages) -> None:
        """Put a message of another provider in."""
        messages.insert(rng.randint(0, len(messages)), copy.deepcopy(rng.choice(others)))

    def put_a_foreign_part(rng: random.Random, messages: Messages) -> None:
        """Put a part of another provider in."""
        other = rng.choice(others)
        held = other.get("content", other.get("parts")) if isinstance(other, dict) else None
        into = [message for message in messages if isinstance(message, dict)]
        own = [m[key] for m in into for key in sorted(CONTENT) if isinstance(m.get(key), list)]
        if own and isinstance(held, list) and held:
            rng.choice(own).append(copy.deepcopy(rng.choice(held)))

    return put_a_foreign_message, put_a_foreign_part
