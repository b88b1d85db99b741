"""The texts of a payload: what may be replaced in it without changing what the event is.

1. The form of the payload stays: its own members have their names, and identifiers their values.
2. In what a model, a tool or a provider wrote, names of members are texts, too.
3. Two members whose names become the same stay two: the later one gets a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, cast

IDENTIFIERS = frozenset(
    {
        *("call_id", "id", "parent_call_id", "parent_conversation_id", "provider_call_id"),
        *("response_id", "results", "name", "available", "allow", "allowed", "step", "worker"),
        *("axis", "code", "decision", "kind", "role", "source", "type", "provider", "model"),
        *("asked", "gate", "hook"),
    }
)
"""Members of payloads whose texts are identifiers, and words of a fixed set."""

FOREIGN = frozenset({"arguments", "conflict", "data", "details", "native", "result"})
"""Members of payloads that hold JSON values which others wrote."""


def replace_texts(
    payload: Any,
    cover: Callable[[str], str],
    spared: AbstractSet[str] = IDENTIFIERS,
    *,
    foreign: bool = False,
    numbers: bool = False,
    media: bool = True,
) -> bool:
    """Put what `cover` makes of it in the place of each text, and return whether any is another.

    The payload, a JSON object or list, is changed in place. Its members named in `spared` stay.
    With `foreign` all of it was written by others. With `numbers`, a number in what others
    wrote is a text, too. Without `media`, the bytes of images and documents are no text.
    """
    found = False
    holders: list[tuple[Any, bool]] = [(payload, foreign)]
    while holders:
        holder, is_foreign = holders.pop()
        if is_foreign and type(holder) is dict:
            found = _replace_names(cast("dict[str, Any]", holder), cover) or found
        for key, inner in list(_items(holder)):
            if not is_foreign and _is_spared(holder, key, spared, media=media):
                continue
            if isinstance(inner, str) or (numbers and is_foreign and type(inner) in (int, float)):
                text = str(inner)
                if (covered := cover(text)) != text:
                    holder[key] = covered
                    found = True
            elif type(inner) in (dict, list):
                holders.append((inner, is_foreign or key in FOREIGN))
    return found


def _is_spared(holder: Any, key: Any, spared: AbstractSet[str], *, media: bool) -> bool:
    if key == "name":  # that of a document is its title
        return key in spared and holder.get("type") != "document"
    if key == "data" and not media:
        return holder.get("type") in ("image", "document")
    return key in spared


def _replace_names(holder: dict[str, Any], cover: Callable[[str], str]) -> bool:
    names = [cover(name) for name in holder]
    if names == list(holder):
        return False
    members = list(holder.values())
    holder.clear()
    numbers: dict[str, int] = {}
    for name, member in zip(names, members, strict=True):
        holder[_unused(name, holder, numbers)] = member
    return True


def _unused(name: str, holder: dict[str, Any], numbers: dict[str, int]) -> str:
    """Return the name with a number that no member has; `numbers` are the last ones given."""
    number, unused = numbers.get(name, 1), name
    while unused in holder:
        number += 1
        unused = f"{name} {number}"
    numbers[name] = number
    return unused


def _items(holder: Any) -> Iterable[tuple[Any, Any]]:
    if type(holder) is dict:
        return cast("dict[str, Any]", holder).items()
    return enumerate(cast("list[Any]", holder))
