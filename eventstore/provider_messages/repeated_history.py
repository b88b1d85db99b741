"""Whether messages that are given as new ones are the conversation itself, told again.

What was said is compared in its order: that of the log from its first event on, and what is given.
It is the conversation if neither differs from the other as far as both go, and

- what is given goes on after the end of the log;
- or both have a call with an id;
- or both have two messages of the user with an answer between them. One exchange may be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from eventstore.domain.calls import FunctionCall
from eventstore.domain.events import MessageAdded, Recorded, ToolPending
from eventstore.domain.messages import Part, Text
from eventstore.providers.model import TURN_ROLES, ParsedItem, ParsedMessage
from eventstore.session import Session

_CALL = "call"


class _Said(NamedTuple):
    """A part of a message, or a call, and the role that says it."""

    role: str
    what: Any


def refuse_known(
    items: Sequence[ParsedItem],
    numbers: Sequence[int],
    session: Session,
    conversation_id: str,
) -> None:
    """Refuse messages that the log has from its first event on.

    `numbers` has for each item the number of its message. What the rules of the store let through
    is compared, as the log has it.

    Raises:
        ValueError: the first ones are the conversation.
    """
    given = [
        (said, number)
        for item, number in zip(items, numbers, strict=True)
        if isinstance(item, ParsedMessage)
        for said in _said_by(item)
    ]
    said = [_Said(each.role, session.covered(each.what)) for each, _ in given]
    shared = _shared(said, session.events(conversation_id))
    if not shared:
        return
    known = given[shared - 1][1] + 1
    new = f"messages[{known}:]" if known <= max(numbers) else "none of them"
    raise ValueError(
        f"messages[:{known}] are in the conversation {conversation_id!r} already: pass what is "
        f"new, {new}; or keep the conversation with `import_messages` alone, which takes the whole "
        "list each time and adds what is new"
    )


def _shared(given: Sequence[_Said], log: Iterable[Recorded]) -> int:
    """Return how much of what is given the log begins with, if it is the conversation; or 0."""
    shared = 0
    for said in _said_in(log):
        if shared == len(given):
            break
        if said != given[shared]:
            return 0
        shared += 1
    goes_on = shared < len(given)
    return shared if goes_on or _is_one_history(given[:shared]) else 0


def _is_one_history(said: Sequence[_Said]) -> bool:
    """Return whether it has a call, or two messages of the user with an answer between them."""
    roles = [each.role for each in said]
    if _CALL in roles:
        return True
    answer = next((n for n, role in enumerate(roles) if role == "assistant"), len(roles))
    return "user" in roles[:answer] and "user" in roles[answer:]


def _said_by(item: ParsedMessage) -> Iterator[_Said]:
    yield from _parts(item.role, item.parts)
    for made in item.calls:
        yield _call(made.id, made.call)


def _said_in(log: Iterable[Recorded]) -> Iterator[_Said]:
    for recorded in log:
        event = recorded.event
        if type(event) is MessageAdded:
            yield from _parts(event.role, event.parts)
        elif type(event) is ToolPending:
            yield _call(event.provider_call_id, event.call)


def _call(given: str | None, call: FunctionCall) -> _Said:
    role = "assistant" if given is None else _CALL
    return _Said(role, [given, call.name, call.arguments])


def _parts(role: str, parts: Iterable[Part]) -> Iterator[_Said]:
    if role != "tool":
        for part in parts:
            if not isinstance(part, Text) or part.text:
                yield _Said(TURN_ROLES.get(role, role), msgspec.to_builtins(part))
