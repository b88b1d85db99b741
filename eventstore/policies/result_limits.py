"""`ResultLimits`: how much of a result the model reads. Pure.

1. The log keeps every result whole. Limits apply to the prompt alone.
2. A text with more `characters` is cut in the middle. So is a list with more `items`, and what is
   left of the whole, as the model reads it, if it has more `bytes`.
3. A mark takes the place of what is left out, and says how much that is. It counts for the limit,
   so that nothing is longer than its limit.
4. The same result is always cut in the same way: a prompt's cache holds. What is cut once is not
   cut again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from eventstore.domain.arguments import checked_minimum
from eventstore.domain.json_types import JsonValue, is_json_list, is_json_object

MIN_LENGTH = 100
"""Least limit of characters or bytes: a mark needs its place."""

MIN_ITEMS = 3
"""Least limit of items: the first, the mark, the last."""

_encode = msgspec.json.Encoder().encode


class BoundedResult(msgspec.Struct, frozen=True):
    """A result as the model reads it, and what was left out of it, place by place."""

    text: str
    left_out: tuple[str, ...] = ()


class _Gap(msgspec.Struct, frozen=True):
    """What is left out of a list."""

    count: int
    total: int


class _Unbounded(NamedTuple):
    """A value of a result, where it goes, and where it is from: deep results need no recursion."""

    into: Any
    at: Any
    value: object
    path: str


class ResultLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a result the model reads; None is no limit.

    `characters` is for each text in the result, `items` for each list, `bytes` for the whole as
    UTF-8. Called `ToolResultEnvelope` in rig-compose, which has the same defaults.

    Raises:
        TypeError, ValueError: a limit is not a number, or is too small for a mark.
    """

    characters: int | None = 4_000
    items: int | None = 64
    bytes: int | None = 256_000

    def __post_init__(self) -> None:
        """Refuse limits that leave no place for a mark."""
        for name, minimum in (
            ("characters", MIN_LENGTH),
            ("items", MIN_ITEMS),
            ("bytes", MIN_LENGTH),
        ):
            limit = getattr(self, name)
            if limit is not None:
                checked_minimum(name, limit, minimum)

    def bound(self, result: JsonValue) -> BoundedResult:
        """Return a result as the model reads it: text as it is, everything else as JSON."""
        left_out: list[str] = []
        bounded = self._bounded(result, left_out)
        text = bounded if isinstance(bounded, str) else _encode(bounded).decode()
        return BoundedResult(self._bounded_whole(text, left_out), tuple(left_out))

    def bound_texts(self, texts: list[str]) -> tuple[list[str], tuple[str, ...]]:
        """Return the texts of one result, and what was left out; one text if all are too long."""
        left_out: list[str] = []
        bounded = [self._bounded_text(text, "$", left_out) for text in texts]
        whole = "\n".join(bounded)
        cut = self._bounded_whole(whole, left_out)
        return bounded if cut is whole else [cut], tuple(left_out)

    def _bounded(self, value: JsonValue, left_out: list[str]) -> JsonValue:
        bounded: list[Any] = [None]
        pending: list[_Unbounded] = [_Unbounded(bounded, 0, value, "$")]
        while pending:
            into, at, item, path = pending.pop()
            inner: list[_Unbounded] = []
            if isinstance(item, str):
                into[at] = self._bounded_text(item, path, left_out)
            elif isinstance(item, _Gap):
                into[at] = _mark(item.count, item.total, "items", path, left_out)
            elif is_json_list(item):
                into[at], inner = self._list_to_bound(item, path)
            elif is_json_object(item):
                into[at] = made = dict.fromkeys(item)
                inner = [_Unbounded(made, key, each, f"{path}.{key}") for key, each in item.items()]
            else:
                into[at] = item
            pending += reversed(inner)
        return cast("JsonValue", bounded[0])

    def _list_to_bound(
        self, items: list[JsonValue], path: str
    ) -> tuple[list[None], list[_Unbounded]]:
        """Return a list to fill, and what of the items goes into it."""
        total = len(items)
        if self.items is None or total <= self.items:
            made = [None] * total
            return made, [_Unbounded(made, n, items[n], f"{path}[{n}]") for n in range(total)]
        made = [None] * self.items
        kept = self.items - 1
        head, tail = range(kept - kept // 2), range(total - kept // 2, total)
        first = [_Unbounded(made, n, items[n], f"{path}[{n}]") for n in head]
        gap = _Unbounded(made, len(head), _Gap(total - kept, total), path)
        rest = enumerate(tail, len(head) + 1)
        return made, [
            *first,
            gap,
            *(_Unbounded(made, at, items[n], f"{path}[{n}]") for at, n in rest),
        ]

    def _bounded_text(self, text: str, path: str, left_out: list[str]) -> str:
        limit, total = self.characters, len(text)
        if limit is None or total <= limit:
            return text
        kept = limit - _mark_length(total, "characters")
        mark = _mark(total - kept, total, "characters", path, left_out)
        return f"{text[: kept - kept // 2]}{mark}{text[total - kept // 2 :]}"

    def _bounded_whole(self, text: str, left_out: list[str]) -> str:
        limit = self.bytes
        if limit is None or len(text) * 4 <= limit:
            return text
        data = text.encode()
        total = len(data)
        if total <= limit:
            return text
        kept = limit - _mark_length(total, "bytes")
        # A character that the cut would split is left out as a whole.
        head = data[: kept - kept // 2].decode(errors="ignore")
        tail = data[total - kept // 2 :].decode(errors="ignore")
        missing = total - len(head.encode()) - len(tail.encode())
        return f"{head}{_mark(missing, total, 'bytes', '$', left_out)}{tail}"


def _mark(missing: int, total: int, unit: str, path: str, left_out: list[str]) -> str:
    """Return the mark for what is left out, and note its place."""
    how_much = f"{missing:,} of {total:,} {unit}"
    left_out.append(how_much if path == "$" else f"{how_much} at {path}")
    return f"[... {how_much} left out ...]"


def _mark_length(total: int, unit: str) -> int:
    return len(f"[... {total:,} of {total:,} {unit} left out ...]")
