"""`Door`: the rules of a store, applied to events as the log would hold them, before it does.

1. Looked at are all texts of an event: messages, arguments, results, failures, reasons, details.
   Identifiers, names of tools and of people who decided, and the bytes of images are not.
2. The provider's own form is left out where a rule finds anything in it, or in a call of its turn.
3. The arguments that an attempt starts with stay those in force: the log has them already.
4. Where a rule fails, nothing is stored. The end of an attempt is stored all the same, because it
   says what was done: the text that the rule could not look at is withheld.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from eventstore.domain.calls import same_json
from eventstore.domain.codec import decode
from eventstore.domain.events import Event, MessageAdded, ToolPending, ToolRunning, UnknownEvent
from eventstore.domain.payload_texts import IDENTIFIERS, Cover, cover_payload, replace_texts
from eventstore.domain.stand_ins import as_payload
from eventstore.errors import RuleFailed

if TYPE_CHECKING:
    from eventstore.detectors.rule import Redact, Rules

ArgumentsInForce = Callable[[str], Any]
"""Returns the arguments of a call that is open; None for any other call."""

_SPARED = IDENTIFIERS | {"by", "marker", "origin"}
_WITHOUT_TEXT = frozenset({"renewed", "usage_limit_breach"})
_ENDS = frozenset({"completed", "ended_late", "failed", "paused"})
"""The tags of events that say how an attempt ended."""


def door_of(redact: Iterable[Redact]) -> Door | None:
    """Return what applies the rules; None without any.

    Raises:
        TypeError: one is no `Redact`.
        ValueError: two have one name.
    """
    try:
        given = tuple(redact)
    except TypeError:
        raise TypeError(f"redact is {redact!r}: pass a list of rules, redact=[rule]") from None
    if not given:
        return None
    from eventstore.detectors.rule import Rules  # few stores have rules

    return Door(Rules(given))


class Door:
    """Covers events before they are stored."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __copy__(self) -> Door:
        return self

    def covered(
        self, stored: Sequence[tuple[Event, bytes]], in_force: ArgumentsInForce
    ) -> list[Event]:
        """Return the events to store; `stored` has each as it is, with its payload.

        Raises:
            RuleFailed: nothing may be stored.
        """
        covered = [self._covered(event, payload, in_force) for event, payload in stored]
        turns = {
            event.turn
            for (before, _), event in zip(stored, covered, strict=True)
            if type(event) is ToolPending and event is not before
        }
        return [_without_form(event) if _tells_of(event, turns) else event for event in covered]

    def value(self, value: Any) -> Any:
        """Return a JSON value as it would be stored."""
        holder = [msgspec.to_builtins(value)]
        return holder[0] if self._rules.cover_json(holder) else value

    def _covered(self, event: Event, payload: bytes, in_force: ArgumentsInForce) -> Event:
        if event.tag in _WITHOUT_TEXT:
            return event
        if type(event) is UnknownEvent:
            return self._covered_unknown(event)
        members: dict[str, Any] = msgspec.json.decode(payload)
        given = _kept_arguments(event, members, in_force)
        cover = self._cover_or_withhold if event.tag in _ENDS else self._rules.cover
        native = members.pop("native", None)
        has_form = native is not None
        loses_form = has_form and _replace([native], cover)
        if not _replace(members, cover, own=True) and not loses_form:
            return event
        if has_form:
            members["native"] = native
        members |= given
        changed = decode(event.tag, event.schema, msgspec.json.encode(members))
        return _without_form(changed) if loses_form else changed

    def _covered_unknown(self, event: UnknownEvent) -> Event:
        if event.damage:
            return event
        payload = self._rules.cover(cover_payload(event.payload, self._rules.cover))
        return as_payload(msgspec.structs.replace(event, payload=payload))

    def _cover_or_withhold(self, text: str) -> str:
        try:
            return self._rules.cover(text)
        except RuleFailed as failed:
            return f"[withheld: the redaction rule {failed.rule} {failed.how}]"


def _replace(members: Any, cover: Cover, *, own: bool = False) -> bool:
    return replace_texts(members, cover, _SPARED, foreign=not own, media=False)


def _kept_arguments(
    event: Event, members: dict[str, Any], in_force: ArgumentsInForce
) -> dict[str, Any]:
    """Take the arguments in force out of an attempt's start, and return them."""
    if type(event) is not ToolRunning or "arguments" not in members:
        return {}
    known = in_force(event.call_id)
    is_known = known is not None and same_json(known, event.arguments)
    return {"arguments": members.pop("arguments")} if is_known else {}


def _tells_of(event: Event, turns: set[int | None]) -> bool:
    """Return whether it is a message that holds calls of these turns as its provider wrote."""
    return type(event) is MessageAdded and event.native is not None and event.turn in turns


def _without_form(event: Any) -> Any:
    """Return an event without the form in which its provider wrote it."""
    if type(event) is MessageAdded:
        return msgspec.structs.replace(event, native=None, exact=False, results=())
    return msgspec.structs.replace(event, native=None)
