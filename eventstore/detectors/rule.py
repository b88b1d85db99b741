r"""`Redact`: a rule that finds in a text what must not be stored, and covers it; `Rules`: several.

1. What a rule finds is replaced by `[redacted: NAME]`. A rule does not look at what another one has
   left there, so that a text which was covered stays as it is.
2. The rules are asked in order; each sees what those before it left.
3. A text that is a JSON object or list is looked at as that first: its texts, names and
   numbers one by one. Text with escapes (`\u0040`) is looked at without them, too.
4. A rule is a function of the text alone, and makes the same of the same. A call that is asked for
   again is only so recognised.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from eventstore.domain.payload_texts import cover_text, replace_texts
from eventstore.errors import RuleFailed

Span: TypeAlias = tuple[int, int]
"""Where a text begins and ends in another one, as in `text[begin:end]`."""

Find: TypeAlias = Callable[[str], str | Iterable[Span] | None]
"""Returns the text to store, or where what must not be stored is; None if it is nowhere."""

_NAME = re.compile(r"[\w.-][\w .-]{0,62}[\w.-]|[\w.-]")


class Redact(msgspec.Struct, frozen=True):
    """A rule: its name, and a compiled expression or a function that finds what is to be covered.

    A function returns where that is, as pairs of begin and end, or else the whole text to store. An
    expression should take time in proportion to the text: it sees what strangers write.
    """

    name: str
    find: re.Pattern[str] | Find

    def __post_init__(self) -> None:
        """Refuse what is no rule."""
        name, find = cast("object", self.name), cast("Any", self.find)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(
                f"name is {name!r}: pass letters, digits, '.', '-' and blanks, for example 'email'"
            )
        if _is_pattern(find):
            if not isinstance(find.pattern, str) or find.search(""):
                raise ValueError(
                    f"the expression of rule {name!r} is of bytes, or found everywhere: pass one "
                    "of text that does not match the empty text"
                )
        elif not callable(find):
            raise TypeError(f"rule {name!r} has {find!r}: pass a compiled expression or a function")

    @property
    def mark(self) -> str:
        """What stands in the place of what the rule found."""
        return f"[redacted: {self.name}]"

    def cover(self, text: str, marks: re.Pattern[str]) -> str:
        """Return the text without what the rule finds outside of the `marks`.

        Raises:
            RuleFailed: it raised, or returned what it may not.
        """
        how = ""
        try:
            found = self._found(text)
        except Exception as error:  # noqa: BLE001 - told below: its own text may hold the secret
            found, how = text, f"raised {type(error).__name__}"
        if how:
            raise RuleFailed(self.name, how)
        if isinstance(found, str):
            return found
        spans = _outside(found, [match.span() for match in marks.finditer(text)]) if found else ()
        left, at = list[str](), 0
        for begin, end in spans:
            left += (text[at:begin], self.mark)
            at = end
        return "".join([*left, text[at:]])

    def _found(self, text: str) -> str | list[Span]:
        if isinstance(self.find, re.Pattern):
            return [m.span() for m in self.find.finditer(text) if m.end() > m.start()]
        found: Any = self.find(text)
        if isinstance(found, str):
            found.encode()  # half of a surrogate pair cannot be stored
            return found
        spans: list[Span] = []
        for begin, end in found or ():
            if not 0 <= begin < end <= len(text):
                raise ValueError
            spans.append((int(begin), int(end)))
        return sorted(spans)


def _is_pattern(find: object) -> bool:
    return isinstance(find, re.Pattern)


def _outside(spans: Iterable[Span], marks: Sequence[Span]) -> list[Span]:
    """Return spans that do not overlap, without those inside a mark; one that cuts it has it.

    Both are given in the order of their places, and marks do not overlap.
    """
    begins, ends = [begin for begin, _ in marks], [end for _, end in marks]
    left: list[Span] = []
    for begin, end in _merged(spans):
        first, after = bisect_right(ends, begin), bisect_left(begins, end)
        if first == after:
            left.append((begin, end))
        elif begin < begins[first] or ends[first] < end:
            left.append((min(begin, begins[first]), max(end, ends[after - 1])))
    return _merged(left)


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in spans:
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


class Rules:
    """The rules of a store, as one function of a text.

    Raises:
        TypeError: one is no `Redact`.
        ValueError: two have one name.
    """

    def __init__(self, rules: Iterable[Redact]) -> None:
        self._rules = tuple(rules)
        for rule in self._rules:
            if not isinstance(cast("object", rule), Redact):
                raise TypeError(f"redact has {rule!r}: pass Redact(name, expression or function)")
        names = [rule.name for rule in self._rules]
        if len(set(names)) < len(names):
            raise ValueError(f"redact has two rules of one name in {names}: name each otherwise")
        self._marks = re.compile("|".join(re.escape(rule.mark) for rule in self._rules) or r"(?!)")

    def cover(self, text: str) -> str:
        """Return the text to store.

        Raises:
            RuleFailed: a rule could not look at it.
        """
        return cover_text(text, self._cover_plain)

    def cover_json(self, value: Any) -> bool:
        """Cover the texts of a JSON object or list in place; return whether there was any."""
        return replace_texts(value, self.cover, foreign=True)

    def _cover_plain(self, text: str) -> str:
        for rule in self._rules:
            text = rule.cover(text, self._marks)
        return text
