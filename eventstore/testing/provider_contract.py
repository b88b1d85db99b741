"""What the rules and the adapter of every provider keep, as a test suite."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from eventstore.providers.registry import AnyProvider, rule_book
from eventstore.providers.rules_reader import is_list, is_object
from eventstore.providers.validation import is_valid, validate

if TYPE_CHECKING:
    import pytest

_MAX_BYTES: Final = 2_000
"""The longest message of a violation."""
_MANY: Final = 400
"""As many calls as show that work grows in proportion to their number."""


class ProviderContract:
    """The guarantees of a provider: derive a class of tests that says what its messages are.

    Its members are lists of messages as the provider's API takes them.
    """

    provider: ClassVar[AnyProvider]

    broken: ClassVar[Sequence[Any]]
    """Cases of a rule's code, the places of its faults, and messages that break no other rule.

    The code is that of the rule book, stars included. Where messages break several rules, there are
    as many codes as places.
    """

    sound: ClassVar[Sequence[Any]]
    """Cases of a rule's code, and messages that come close to its fault, but break no rule."""

    opening: ClassVar[list[Any]]
    """Messages that a conversation begins with."""

    ignored_codes: ClassVar[Collection[str]] = ()
    """Rules that are not looked at: the rules of a rule book that yours extends, tested there."""

    def exchange(self, ids: list[str]) -> tuple[list[Any], list[Any]]:
        """Return the messages that make a call for each id, and those that answer in this order."""
        raise NotImplementedError("override the method `exchange`")

    def repaired(self, messages: Any) -> Any:
        """Return what `projections.repair_messages` makes of a list for the same provider."""
        raise NotImplementedError("override the method `repaired`")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test on the cases that its arguments ask for."""
        names = metafunc.fixturenames
        if "places" in names:
            metafunc.parametrize(("code", "places", "messages"), self.broken)
        elif "code" in names:
            metafunc.parametrize(("code", "messages"), self.sound)
        elif "odd" in names:
            metafunc.parametrize("odd", _ODD.values(), ids=_ODD)
        elif "shape" in names:
            metafunc.parametrize("shape", _SHAPES.values(), ids=_SHAPES)

    def test_a_fault_is_reported_once_at_its_place_and_mended(
        self, code: str | Sequence[str], places: list[str], messages: Any
    ) -> None:
        """A history with one kind of fault breaks that rule at each place; repair leaves none."""
        rules = rule_book(self.provider).RULES
        codes = [code] * len(places) if isinstance(code, str) else code
        violations = validate(messages, self.provider)
        found = [(each.code, each.level, each.place, each.remedy) for each in violations]
        assert sorted(each for each in found if each[0] not in self.ignored_codes) == sorted(
            (code.rstrip("*"), rules[code][0], place, rules[code][2])
            for code, place in zip(codes, places, strict=True)
        )
        assert not any(
            "{place}" in each.message or "{detail}" in each.message for each in violations
        )
        assert is_valid(self.repaired(messages), self.provider)

    def test_a_sound_history_breaks_no_rule_and_stays(self, code: str, messages: Any) -> None:
        """A history that comes close to a fault, but has none, is not changed."""
        assert code in rule_book(self.provider).RULES
        found = {each.code for each in validate(messages, self.provider)}
        assert found.difference(self.ignored_codes) == set()
        assert self.repaired(messages) == messages

    def test_every_rule_is_seen_to_refuse_and_to_allow(self) -> None:
        """Each rule has a case that breaks it, and one that does not."""
        rules = set(rule_book(self.provider).RULES).difference(self.ignored_codes)
        assert {code for case in self.broken for code in _codes(case)} == rules
        allowed = {code.rstrip("*") for case in self.sound for code in _codes(case)}
        assert allowed == {code.rstrip("*") for code in rules}

    def test_a_history_with_every_call_answered_is_valid(self) -> None:
        """Such a history has any number of turns, with any number of calls in each."""
        history = self._history(1, 3, 0, 2)
        assert validate(history, self.provider) == []
        assert is_valid(history, self.provider)

    def test_each_call_has_one_result(self) -> None:
        """A lost result breaks a rule, and so does one that comes twice."""
        calls, results = self.exchange(_ids(2))
        for wrong in ([], results[1:], results[:-1], [*results, results[-1]]):
            assert validate([*self.opening, *calls, *wrong], self.provider) != []

    def test_messages_stay_when_another_is_mended(self) -> None:
        """Messages in the provider's own form go back as they came."""
        calls, _ = self.exchange(["unanswere"])
        history = self._history(1, 3, 2)
        assert self.repaired([*history, *calls])[: len(history)] == history

    def test_a_value_of_any_type_is_judged_and_mended_at_every_place(self, odd: Any) -> None:
        """No value raises or makes a long message, and each is judged alike a second time."""
        for messages in _with_value(odd, self._history(2)):
            found = validate(messages, self.provider)
            assert validate(messages, self.provider) == found
            assert all(len(each.message.encode()) < _MAX_BYTES for each in found)
            assert is_valid(self.repaired(messages), self.provider)

    def test_a_value_nested_too_deep_to_walk_is_judged_at_every_place(self) -> None:
        """A history of any depth is judged without an error."""
        for messages in _with_value(_nested(50_000), self._history(2)):
            validate(messages, self.provider)

    def test_twice_the_history_is_twice_the_work(self, shape: Callable[..., list[Any]]) -> None:
        """The work grows in proportion to the history, also for thousands of parallel calls."""

        def work(count: int) -> int:
            history = [*self.opening, *shape(self, [_Id(each) for each in _ids(count)])]
            return _calls_made(lambda: validate(history, self.provider))

        half, whole = work(_MANY), work(2 * _MANY)
        assert half > _MANY
        assert whole < 2.05 * half

    def _history(self, *turns: int) -> list[Any]:
        """Return a history whose turns make these numbers of calls, all answered."""
        ids = iter(_ids(sum(turns)))
        made = [self.exchange([next(ids) for _ in range(count)]) for count in turns if count]
        return [*self.opening, *(each for pair in made for part in pair for each in part)]


def _codes(case: Any) -> Sequence[str]:
    """Return the codes of a case, which is a tuple or a `pytest.param`."""
    code = getattr(case, "values", case)[0]
    return [code] if isinstance(code, str) else code


def _ids(count: int) -> list[str]:
    """Return different ids; 9 letters and digits are legal everywhere."""
    return [f"call{number:05}" for number in range(count)]


class _Id(str):
    """An id whose comparisons are Python calls, so that a search through a list is counted."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True


_SHAPES: Final[dict[str, Callable[[ProviderContract, list[str]], list[Any]]]] = {
    "one turn of parallel calls": lambda contract, ids: [
        *contract.exchange(ids)[0],
        *contract.exchange(ids[::-1])[1],
    ],
    "calls without results": lambda contract, ids: contract.exchange(ids)[0],
    "results without calls": lambda contract, ids: contract.exchange(ids)[1],
    "one id over and over": lambda contract, ids: [
        *contract.exchange(ids[:1])[0],
        *(each for _ in ids for each in contract.exchange([_Id(ids[0])])[1]),
    ],
    "many turns": lambda contract, ids: [
        each for one in ids for part in contract.exchange([one]) for each in part
    ],
}


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [{"content": value}]
    return value


_ODD: Final[dict[str, Any]] = {
    "a huge integer": 10**10_000,
    "a lone surrogate": "\ud800",
    "deep nesting": _nested(300),
    "a long text": "x" * 100_000,
    "bytes": b"bytes",
    "not a number": float("nan"),
    "a set": {"a"},
    "an object": object(),
    "a tuple": ({},),
    "null": None,
    "an empty list": [],
    "an object without members": {},
}
"""Values that no message holds, each with its name."""


def _with_value(value: Any, given: Any) -> Iterator[Any]:
    """Yield copies of `given` that have a value in the place of each of its own."""
    yield value
    for key, item in _members(given):
        for changed in _with_value(value, item):
            copy = given.copy()
            copy[key] = changed
            yield copy


def _members(given: Any) -> Iterator[tuple[Any, Any]]:
    if is_object(given):
        yield from given.items()
    elif is_list(given):
        yield from enumerate(given)


def _calls_made(function: Callable[[], object]) -> int:
    """Return the number of Python and C calls that a function takes."""
    count = 0

    def add(*_: object) -> None:
        nonlocal count
        count += 1

    former = sys.getprofile()
    sys.setprofile(add)
    try:
        function()
    finally:
        sys.setprofile(former)
    return count
