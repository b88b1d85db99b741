"""The difference of two requests: what the model saw at one moment, and at another.

1. The messages are aligned by what they say. Messages that stand between two that agree are paired
   in their order, as far as both have the same role: such a message was changed.
2. The other members of the request (the system text) are compared as JSON.
3. `common` counts the messages at the beginning that are the same: what a cache may keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile, zip_longest
from typing import Any, Literal

import msgspec

from eventstore.domain.json_types import is_json_list, is_json_object
from eventstore.domain.one_line import one_line
from projections.debugging.json_diff import JsonChange, json_diff
from projections.formatting import NotebookText, plural

_SHOWN_CHARACTERS = 100
_encode = msgspec.json.encode
_key = msgspec.json.Encoder(order="sorted").encode

Pair = tuple[int | None, int | None]
"""The places of a message in both requests, None where it has none."""


class MessageDifference(msgspec.Struct, frozen=True, gc=False):
    """One message that differs; `before` and `after` are its places in the lists, from 0.

    `kind` is added, removed, or changed, `changes` are those inside of it.
    """

    kind: Literal["added", "removed", "changed"]
    before: int | None
    after: int | None
    text: str
    changes: tuple[JsonChange, ...] = ()

    def __str__(self) -> str:
        if self.kind != "changed":
            place = self.after if self.before is None else self.before
            return f"{self.kind} message {place}: {self.text}"
        head = f"changed message {self.before}"
        if self.before != self.after:
            head += f", now {self.after}"
        return "\n".join([f"{head}: {self.text}", *(f"    {change}" for change in self.changes)])


class PromptDiff(NotebookText, msgspec.Struct, frozen=True, gc=False):
    """How two requests differ; `common` messages at the beginning are the same.

    `members` are the differences beside the messages: the system text.
    """

    differences: tuple[MessageDifference, ...]
    members: tuple[JsonChange, ...]
    common: int

    def __bool__(self) -> bool:
        """Return whether the requests differ."""
        return bool(self.differences or self.members)

    def __str__(self) -> str:
        count = len(self.differences) + len(self.members)
        tail = f"{plural(self.common, 'equal message')} at the beginning, "
        tail += plural(count, "difference")
        return "\n".join([*map(str, self.members), *map(str, self.differences), tail])


def prompt_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> PromptDiff:
    """Return how two requests differ; the result is true if they do.

    Each is what `ModelHistory.render(provider)` or `Frame.prompt(provider)` returns, both for one
    provider.

    Raises:
        ValueError: the requests are of two providers, or hold no list of messages.
    """
    names = [name for name in ("messages", "contents", "input") if name in before and name in after]
    if not names:
        raise ValueError(
            f"the requests have {', '.join(before) or 'no members'} and "
            f"{', '.join(after) or 'no members'}: pass two that render() made for one provider"
        )
    one, other = (_listed(request[names[0]]) for request in (before, after))
    rest = (
        {name: request[name] for name in request if name != names[0]} for request in (before, after)
    )
    same = takewhile(lambda pair: pair[0] == pair[1], zip(_keys(one), _keys(other), strict=False))
    return PromptDiff(
        tuple(_difference(pair, one, other) for pair in _aligned(one, other)),
        tuple(json_diff(*rest)),
        sum(1 for _ in same),
    )


def _listed(messages: Any) -> list[Any]:
    return messages if is_json_list(messages) else [messages]  # a text is a whole input


def _keys(messages: Sequence[Any]) -> list[bytes]:
    return [_key(message) for message in messages]


def _aligned(one: Sequence[Any], other: Sequence[Any]) -> Iterator[Pair]:
    """Yield the places of the messages that differ."""
    matcher = SequenceMatcher(None, _keys(one), _keys(other), autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        for before, after in zip_longest(range(start, end), range(other_start, other_end)):
            if before is None or after is None or _role(one[before]) == _role(other[after]):
                yield before, after
            else:
                yield before, None
                yield None, after


def _role(message: Any) -> object:
    members = message if is_json_object(message) else {}
    return members.get("role") or members.get("type")


def _difference(pair: Pair, one: Sequence[Any], other: Sequence[Any]) -> MessageDifference:
    before, after = pair
    message = other[after] if after is not None else one[before or 0]
    text = one_line(_encode(message).decode(), _SHOWN_CHARACTERS)
    if before is None or after is None:
        return MessageDifference("added" if before is None else "removed", before, after, text)
    changes = tuple(json_diff(one[before], other[after]))
    return MessageDifference("changed", before, after, text, changes)
