"""Whether messages that are given as new ones are the conversation itself, told again.

The words and the calls are compared, in their order: those of the log from its first event on, and
those given. They are the conversation if neither differs from the other as far as both go, and what
they share was answered, or goes on. A user who says one thing twice repeats nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from eventstore.domain.events import MessageAdded, Recorded, ToolPending
from eventstore.domain.messages import Part, Text
from eventstore.providers.model import TURN_ROLES, ParsedItem, ParsedMessage
from eventstore.session import Session


class _Said(NamedTuple):
    """A text, or a call with its name, and the role that says it."""

    role: str
    what: str
    arguments: Any = None


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
        for said in (
            *_texts(item.role, item.parts),
            *(_Said("assistant", made.call.name, made.call.arguments) for made in item.calls),
        )
    ]
    said = (_Said(each.role, *session.covered([each.what, each.arguments])) for each, _ in given)
    shared = _shared([*said], session.events(conversation_id))
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
    shared, is_answered = 0, False
    for said in _said_in(log):
        if shared == len(given):
            break
        if said != given[shared]:
            return 0
        shared += 1
        is_answered = is_answered or said.role == "assistant"
    goes_on = shared < len(given)
    return shared if goes_on or is_answered else 0


def _said_in(log: Iterable[Recorded]) -> Iterator[_Said]:
    for recorded in log:
        event = recorded.event
        if type(event) is MessageAdded:
            yield from _texts(event.role, event.parts)
        elif type(event) is ToolPending:
            yield _Said("assistant", event.call.name, event.call.arguments)


def _texts(role: str, parts: Iterable[Part]) -> Iterator[_Said]:
    if role != "tool":
        for part in parts:
            if isinstance(part, Text) and part.text:
                yield _Said(TURN_ROLES.get(role, role), part.text)
