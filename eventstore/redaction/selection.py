"""`Selection`: what of a conversation is to be redacted, as its caller says it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, TypeGuard

import msgspec

from eventstore.domain.arguments import check_version
from eventstore.redaction.paths import steps_of


class Selection(msgspec.Struct, frozen=True):
    """Events by version and by call; of them all, or the members at `paths`, or a text.

    Without versions and calls it is every event of the conversation. With neither paths nor a text
    payloads go as a whole. A path begins with `arguments`
    or `result`, or with a member of the payload; see `eventstore.redaction.paths`. A text is gone
    wherever it stands in a string.
    """

    versions: frozenset[int] = frozenset()
    calls: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()
    text: re.Pattern[str] | None = None
    spares: bool = False
    """What must stay for now, or has nothing to redact, is passed over and not refused."""

    @property
    def is_whole(self) -> bool:
        """Whether payloads go as a whole."""
        return not self.paths and self.text is None

    def names(self, version: int, call_id: str | None) -> bool:
        """Return whether an event is among those."""
        if not self.versions and not self.calls:
            return True
        return version in self.versions or call_id in self.calls


def selection(
    versions: Iterable[int],
    calls: Iterable[str],
    paths: Iterable[str],
    text: str | re.Pattern[str],
    *,
    whole: bool,
) -> Selection:
    """Return what is to be redacted; `whole` means the whole conversation.

    Raises:
        ValueError: a version, a path or a text makes no sense; the error names it.
    """
    numbers = _listed("versions", versions, "[3, 4]")
    for number in numbers:
        check_version("version", number, least=1)
    checked = _texts("paths", paths, "['arguments.card']")
    for path in checked:
        steps_of(path)
    pattern = pattern_of(text) if _is_given(text) else None
    if checked and pattern is not None:
        raise ValueError("paths and a text were passed: redact one after the other")
    names = frozenset(_texts("calls", calls, "['call_9']"))
    if whole == bool(numbers or checked or pattern or names):
        raise ValueError(
            "pass versions, calls, paths or a text, or else whole=True for the whole conversation"
        )
    return Selection(frozenset(numbers), names, checked, pattern)


def _is_given(text: object) -> bool:
    return not isinstance(text, str) or bool(text)


def pattern_of(text: object) -> re.Pattern[str]:
    """Return what finds a text, or the expression that was given.

    Raises:
        ValueError: it is neither text nor an expression of text, or it is found everywhere.
    """
    if isinstance(text, str) and text:
        return _forms_of(text)
    if not _is_expression(text):
        kind = type(getattr(text, "pattern", text)).__name__
        raise ValueError(
            f"text is {'empty' if text == '' else f'of type {kind}'}: pass what is to be redacted, "
            "as text or as a compiled expression of text, such as re.compile(r'[0-9]{4}-[0-9]{4}')"
        )
    if text.search(""):
        raise ValueError(f"text {text.pattern!r} is found everywhere: pass a longer one")
    return text


def _is_expression(value: object) -> TypeGuard[re.Pattern[str]]:
    pattern: object = getattr(value, "pattern", None)
    return isinstance(value, re.Pattern) and isinstance(pattern, str)


def _forms_of(text: str) -> re.Pattern[str]:
    """Return what finds a text as it is, and as JSON writes it in a string, up to twice.

    For texts that hold JSON which is cut off: whole JSON in a text is read, see `payload_texts`.
    """
    once = _json_forms(text)
    forms = {text, *once, *(twice for form in once for twice in _json_forms(form))}
    return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))


def _json_forms(text: str) -> list[str]:
    """Return what stands for a text in a JSON string, however its characters are escaped."""
    escaped = json.dumps(text)[1:-1]
    in_capitals = re.sub(r"(?<=\\u)[0-9a-f]{4}", lambda code: code[0].upper(), escaped)
    return [escaped, in_capitals, json.dumps(text, ensure_ascii=False)[1:-1]]


def _listed(name: str, values: object, example: str) -> tuple[Any, ...]:
    given: Any = values
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        return tuple(given)
    raise ValueError(f"{name} is {values!r}: pass a list, such as {name}={example}")


def _texts(name: str, values: object, example: str) -> tuple[str, ...]:
    given = (values,) if isinstance(values, str) else _listed(name, values, example)
    for value in given:
        if not isinstance(value, str) or not value:
            raise ValueError(f"{name} has {value!r}: pass texts that are not empty")
    return given
