"""What a provider's messages say, item by item, before anybody pairs calls with results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from eventstore.message import Part
from eventstore.tool import FunctionCall


class WireCall(msgspec.Struct, frozen=True, gc=False):
    """A call as the provider gave it: `id` is None where it gave none."""

    id: str | None
    call: FunctionCall


class WireMessage(msgspec.Struct, frozen=True, gc=False):
    """A message with the calls it makes.

    `native` is the provider's own message; `exact` says that it is well formed, so that it may
    go back as it is. `joined`: results stood in the same message; so many `results` are the items
    before it, and `native` has None for each. `key` is the provider's id of the message. `piece`:
    it goes on with the assistant's message right before it, where one stands there; `native` is
    then a list, which grows with each piece.
    """

    role: str
    parts: tuple[Part, ...] = ()
    calls: tuple[WireCall, ...] = ()
    native: Any = None
    exact: bool = False
    joined: bool = False
    key: str | None = None
    piece: bool = False
    results: int = 0


class WireResult(msgspec.Struct, frozen=True, gc=False):
    """A result; `id` and `name` are those of the call it answers, where the provider says.

    `text` is the content as text. `native` is the provider's own form, where it is well formed,
    as `exact` says. `rejected`: it says that a person refused the call.
    """

    id: str | None
    name: str | None
    text: str
    is_error: bool = False
    native: Any = None
    rejected: bool = False
    exact: bool = False


WireItem = WireMessage | WireResult


class Answer(msgspec.Struct, gc=False):
    """What the model reads as a call's result. `note` is a line of ours under it.

    `given` is what the result shows, where that is more than text and no provider's own; `parts`
    is what it, or another provider's, shows here.
    """

    text: str
    is_error: bool = False
    provider: str | None = None
    native: Any = None
    note: str | None = None
    given: tuple[Part, ...] = ()
    parts: tuple[Part, ...] = ()


class Call(msgspec.Struct, gc=False):
    """A call in a turn, with its answer; `provider_id` is what its provider called it."""

    id: str
    name: str
    arguments: Any
    answer: Answer
    provider_id: str | None = None
    raw: str | None = None
    hidden: bool = False


class Closing(msgspec.Struct, frozen=True, gc=False):
    """The message of `provider` in which the results of a turn's calls came, all of them.

    `native` has None for each of the `results`; without it, the message holds nothing else.
    """

    provider: str
    results: tuple[str, ...]
    native: Any = None


class Turn(msgspec.Struct, gc=False):
    """A message to show the model: what was said, and the calls made with it.

    `native` is the message as `provider` wrote it; `exact`: it may go back as it is. `joined`:
    it stands in one message with the results before it. `closing` is the message with the results
    of the calls. `held` is a call that the server keeps, with the result that the turn says.
    `hidden` turns and calls are not shown, but keep their ids from being given to others.
    `version` is that of the event which it began with.
    """

    role: str
    parts: tuple[Part, ...] = ()
    calls: list[Call] = []
    provider: str | None = None
    native: Any = None
    exact: bool = False
    joined: bool = False
    hidden: bool = False
    closing: Closing | None = None
    held: Call | None = None
    version: int | None = None


class Change(msgspec.Struct, frozen=True, gc=False):
    """One thing that a renderer had to change: what, by which rule, why, of which call or turn.

    `version` is that of a turn.
    """

    what: str
    rule: str
    why: str
    call_id: str | None = None
    version: int | None = None


class Rendered(msgspec.Struct, gc=False):
    """A request's keyword arguments, and what was changed to make them valid."""

    arguments: dict[str, Any]
    changes: list[Change]


def each_shown(
    turns: Sequence[Turn], ids: Sequence[list[str]], changes: list[Change]
) -> Iterator[tuple[Turn, list[str]]]:
    """The turns that are shown, with the ids of their calls; what is changed in one names it."""
    for turn, names in zip(turns, ids, strict=True):
        if turn.hidden:
            continue
        known = len(changes)
        yield turn, names
        if len(changes) > known:
            changes[known:] = [of_turn(change, turn) for change in changes[known:]]


def of_turn(change: Change, turn: Turn) -> Change:
    """`change` with the turn that it was made in, where it is about no call."""
    if change.call_id is not None:
        return change
    return msgspec.structs.replace(change, version=turn.version)
