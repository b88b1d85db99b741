"""The texts of a payload: what may be replaced in it without changing what the event is.

1. The form of the payload stays: its own members have their names, and identifiers their values.
2. In what a model, a tool, a provider or another program wrote, names of members and numbers are
   texts, too.
3. A text that holds JSON is looked at as that first, and one with escapes without them, too.
4. Two members whose names become the same stay two: the later one gets a number.

The rules of a store walk this way before an event is stored, and a redaction does afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, TypeAlias, cast

import msgspec

from eventstore.domain.finish_reasons import ending_of
from eventstore.domain.json_types import json_members
from eventstore.domain.nesting import nests_too_deeply

Cover: TypeAlias = Callable[[str], str]
"""Returns what is to stand in the place of a text: the text itself where nothing is to go."""

IDENTIFIERS = frozenset(
    {
        *("call_id", "id", "parent_call_id", "parent_conversation_id", "provider_call_id"),
        *("response_id", "results", "name", "available", "allow", "allowed", "step", "worker"),
        *("axis", "code", "decision", "kind", "role", "source", "type", "provider", "model"),
        *("asked", "gate", "hook", "cost", "limit", "observed"),
    }
)
"""Members of payloads whose texts are identifiers, amounts, and words of a fixed set."""

FOREIGN = frozenset({"arguments", "conflict", "data", "details", "native", "result"})
"""Members of payloads that hold JSON values which others wrote."""

_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


def replace_texts(
    payload: Any,
    cover: Cover,
    spared: AbstractSet[str] = IDENTIFIERS,
    *,
    foreign: bool = False,
    media: bool = True,
) -> bool:
    """Put what `cover` makes of it in the place of each text, and return whether any is another.

    The payload, a JSON object or list, is changed in place. Its members named in `spared` stay.
    With `foreign` all of it was written by others. Without `media`, the bytes of images and
    documents are no text.
    """
    found = False
    holders: list[tuple[Any, bool]] = [(payload, foreign)]
    while holders:
        holder, is_foreign = holders.pop()
        if is_foreign and type(holder) is dict:
            found = _replace_names(cast("dict[str, Any]", holder), cover) or found
        for key, inner in list(json_members(holder)):
            if not is_foreign and _is_spared(holder, key, spared, media=media):
                continue
            of_others = is_foreign or key in FOREIGN
            if isinstance(inner, str) or (of_others and type(inner) in (int, float)):
                text = str(inner)
                if (covered := cover(text)) != text:
                    holder[key] = covered
                    found = True
            elif type(inner) in (dict, list):
                holders.append((inner, of_others))
    return found


def cover_text(text: str, cover: Cover) -> str:
    """Return what `cover` leaves of a text, of the JSON in it, and of what its escapes stand for.

    JSON in JSON is looked into, too: each level doubles what must be escaped, so few have room.
    """
    if text.lstrip()[:1] in ("{", "["):
        text = _cover_json(text, cover)
    text = cover(text)
    if "\\u" in text:
        plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
        plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if (covered := cover(plain)) != plain:
            return covered
    return text


def cover_payload(payload: str, cover: Cover) -> str:
    """Return the payload of an event of another program with what `cover` makes of its texts.

    It may be one value alone; if it is not JSON, it is a text.
    """
    value = _json_in(payload)
    if value is None:
        return cover(payload)
    holder = [value]
    is_other = replace_texts(holder, cover, foreign=True)
    return msgspec.json.encode(holder[0]).decode() if is_other else payload


def _cover_json(text: str, cover: Cover) -> str:
    value = _json_in(text)
    if value is None or not replace_texts(value, partial(cover_text, cover=cover), foreign=True):
        return text
    return msgspec.json.encode(value).decode()


def _json_in(text: str) -> Any:
    """Return the value that a text holds as JSON; None for another text, and for null."""
    if nests_too_deeply(text):
        return None
    try:
        return msgspec.json.decode(text)
    except ValueError:  # the errors of msgspec are ValueErrors
        return None


def _is_spared(holder: Any, key: Any, spared: AbstractSet[str], *, media: bool) -> bool:
    if key == "name":  # that of a document is its title
        return key in spared and holder.get("type") != "document"
    if key == "data" and not media:
        return holder.get("type") in ("image", "document", "audio")
    if key == "finish_reason":  # a word of a fixed set, if it is known
        return ending_of(holder.get("provider"), holder[key]) != "unknown"
    return key in spared


def _replace_names(holder: dict[str, Any], cover: Cover) -> bool:
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
