"""Kept messages: a request begins with those of the last one, where the turns are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec
import pytest

from eventstore import Text
from eventstore.providers import Answer, Call, Change, ProviderName, Turn, render
from eventstore.providers.kept_messages import LAST_TURNS, KeptMessages
from eventstore.providers.rendering import LastRequest

COUNT = 20
"""Turns of a request: enough for most to be kept."""


class Adding:
    """Adds a message for each turn, and counts the turns that it was given."""

    def __init__(self) -> None:
        self.given = 0

    def __call__(
        self,
        made: list[Any],
        turns: Sequence[Turn],
        ids: Sequence[list[str]],
        changes: list[Change],
    ) -> None:
        """Add the messages of turns; a change for each."""
        for turn, names in zip(turns, ids, strict=True):
            self.given += 1
            made.append(
                {"role": turn.role, "version": turn.version, "native": turn.native, "ids": names}
            )
            changes.append(Change("added", "test", f"message {turn.version}"))


def turns_of(count: int) -> list[Turn]:
    """Return turns of the user and the assistant, each of the latter with a call."""
    turns: list[Turn] = []
    for number in range(count):
        parts = (Text(f"text {number}"),)
        call = Call(f"call_{number}", "find", {"n": number}, Answer("found"))
        said = Turn("user", parts) if number % 2 else Turn("assistant", parts, [call])
        said.version = number + 1
        turns.append(said)
    return turns


def name(
    turns: Sequence[Turn], before: Sequence[list[str]], changes: list[Change]
) -> list[list[str]]:
    """Return an id for each turn that tells how many turns are before it; a change for each."""
    ids = [[f"id_{number}"] for number in range(len(before), len(before) + len(turns))]
    changes += (Change("re-keyed", "id", names[0]) for names in ids)
    return ids


def made(kept: KeptMessages, turns: list[Turn]) -> Any:
    """Return the messages, the changes, and the number of turns that messages were made of."""
    adding = Adding()
    changes = [Change("re-keyed", "id", "before")]
    new: list[Any] = []
    messages = kept.continued(new, turns, changes, name, adding)
    assert (messages, changes) == made_anew(turns)
    return messages, changes, adding.given


def made_anew(turns: list[Turn]) -> tuple[Any, list[Change]]:
    """Return the messages and the changes when nothing is kept."""
    messages: list[Any] = []
    changes = [Change("re-keyed", "id", "before")]
    Adding()(messages, turns, name(turns, [], changes), changes)
    return messages, changes


def test_only_the_last_turns_and_new_ones_are_made_again() -> None:
    """Messages and changes are those of all turns, in their order."""
    kept, turns = KeptMessages(), turns_of(COUNT + 3)
    assert made(kept, turns[:COUNT])[2] == COUNT
    assert made(kept, turns[:COUNT])[2] == LAST_TURNS
    assert made(kept, turns)[2] == LAST_TURNS + 3


def test_more_is_kept_as_the_request_grows() -> None:
    """Each turn is made a bounded number of times, however long the list becomes."""
    kept, turns = KeptMessages(), turns_of(100)
    given = [made(kept, turns[:count])[2] for count in range(1, 101)]
    assert max(given) <= 10


def test_each_request_has_messages_of_its_own() -> None:
    """A caller that changes a message, or what it holds, changes no later request."""
    kept, turns = KeptMessages(), turns_of(COUNT)
    for _ in range(3):
        messages, _changes, _given = made(kept, turns)
        for message in messages:
            message["ids"].clear()
            message.clear()
        messages.clear()


def test_other_turns_are_made_anew() -> None:
    """A turn that is equal to the kept one is another: JSON tells 1 from true, Python does not."""
    kept, turns = KeptMessages(), turns_of(COUNT)
    turns[3].native = {"n": 1}
    made(kept, turns)
    other = msgspec.structs.replace(turns[3], native={"n": True})
    changed = [*turns[:3], other, *turns[4:]]
    assert changed == turns
    messages, _, given = made(kept, changed)
    assert (messages[3]["native"]["n"] is True, given) == (True, COUNT)
    assert made(kept, turns[:5])[2] == 5


def test_messages_that_are_not_json_are_not_kept() -> None:
    """The request is made all the same, every time."""
    kept, turns = KeptMessages(), turns_of(COUNT)
    made(kept, turns)
    odd = Turn("user", native={"odd": object()})  # type: ignore[dict-item]
    strange = [odd, *turns]
    assert [made(kept, strange)[2] for _ in range(2)] == [COUNT + 1] * 2


def test_a_list_of_turns_may_be_changed_after_its_request() -> None:
    """The next request is that of the list as it is then."""
    last, turns = LastRequest(), turns_of(COUNT)
    turns, more = turns[:-4], turns[-4:]
    render(turns, "openai", last=last)
    for _ in range(2):
        turns += more[:2]
        del turns[:1], more[:2]
        assert render(turns, "openai", last=last) == render(turns, "openai")


@pytest.mark.parametrize("first", get_args(ProviderName))
@pytest.mark.parametrize("second", get_args(ProviderName))
def test_a_request_to_another_provider_takes_up_nothing(first: str, second: str) -> None:
    """The turns are the same objects; their messages are not the same."""
    last, turns = LastRequest(), turns_of(COUNT)
    for provider in (first, second, second):
        assert render(turns, provider, last=last) == render(turns, provider)


@pytest.mark.parametrize("provider", get_args(ProviderName))
def test_ids_that_kept_turns_have_are_not_given_again(provider: ProviderName) -> None:
    """Each turn's call has the same id of its provider, at every length of the history."""
    last, turns = LastRequest(), turns_of(2 * COUNT)
    for turn in turns:
        for call in turn.calls:
            call.provider_id = "call id"
    for count in range(1, len(turns) + 1):
        assert render(turns[:count], provider, last=last) == render(turns[:count], provider)
