"""The nearest readable form of values that JSON cannot express."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections import Counter, OrderedDict, namedtuple
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from uuid import UUID

import msgspec
import pydantic
import pytest

from eventstore.domain.jsonable import readable


class Name(str):
    """Text whose methods return other text."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError


class Money(float):
    """A number of another class."""


class Level(enum.IntEnum):
    """A number with a name."""

    HIGH = 3


class Colour(enum.Enum):
    """An enumeration of names."""

    RED = "red"


@dataclass
class Hit:
    """An object with fields."""

    page: int
    body: bytes


class Answer(pydantic.BaseModel):
    """A pydantic model."""

    text: str
    at: dt.date


class Shy:
    """An object whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError


class Broken(list[int]):
    """A list that cannot be iterated in the usual way."""

    def __iter__(self) -> Any:
        raise RuntimeError


class Loud:
    """An object whose repr no database can hold."""

    def __repr__(self) -> str:
        return "\ud800"


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the kind without types

EXACT = [
    (None, None),
    (True, True),
    (7, 7),
    (10**30, 10**30),
    (-2.5, -2.5),
    ("text", "text"),
    (Name("text"), "text"),
    ((1, (2, 3)), [1, [2, 3]]),
    ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
    ({Name("key"): 1}, {"key": 1}),
]
LOSSY = [
    (float("nan"), "nan"),
    (float("-inf"), "-inf"),
    (Money(1.5), 1.5),
    (Money("inf"), "inf"),
    (Level.HIGH, 3),
    (Colour.RED, "red"),
    (b"plain", "plain"),
    (bytearray(b"\xff\x00"), "ff00"),
    (memoryview(b"ab"), "ab"),
    ("half \ud800", "half \\ud800"),
    ({1: "a", "1": "b", None: "c"}, {"1": "a", "1'": "b", "None": "c"}),
    ({"\ud800": 1}, {"\\ud800": 1}),
    ({3}, [3]),
    (frozenset([b"x"]), ["x"]),
    (OrderedDict(a=b"x"), {"a": "x"}),
    (Counter("aab"), {"a": 2, "b": 1}),
    (Point(1, b"x"), [1, "x"]),
    (Broken([1, 2]), [1, 2]),
    (Hit(1, b"\xff"), {"page": 1, "body": "ff"}),
    (Answer(text="hi", at=dt.date(2026, 1, 2)), {"text": "hi", "at": "2026-01-02"}),
    (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "2026-01-02T00:00:00Z"),
    (dt.timedelta(seconds=90), "PT90S"),
    (Decimal("1.10"), "1.10"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Path("a/b"), repr(Path("a/b"))),
    (int, "<class 'int'>"),
    (Shy(), "<Shy>"),
    (Loud(), "\\ud800"),
]


@pytest.mark.parametrize(("value", "plain"), EXACT)
def test_json_values_stay_unchanged(value: Any, plain: Any) -> None:
    """Tuples become lists and text loses its class; nothing else changes."""
    got, lossy = readable(value)
    assert (got, lossy) == (plain, False)
    assert type(got) is type(plain)


@pytest.mark.parametrize(("value", "plain"), LOSSY)
@pytest.mark.parametrize("inside", [False, True])
def test_other_values_take_their_nearest_form_and_are_lossy(
    value: Any, plain: Any, inside: bool
) -> None:
    """This holds at any depth, and the result is marked lossy."""
    got, lossy = readable({"deep": [value]} if inside else value)
    assert (got, lossy) == ({"deep": [plain]} if inside else plain, True)


@pytest.mark.parametrize("value", [value for value, _ in EXACT + LOSSY])
def test_the_readable_form_can_always_be_stored(value: Any) -> None:
    """The form is plain JSON that reads back equal, and is not lossy a second time."""
    plain, _ = readable(value)
    assert msgspec.json.decode(msgspec.json.encode(plain)) == plain
    assert readable(plain) == (plain, False)


def test_a_value_that_contains_itself_is_replaced_by_a_note() -> None:
    """This holds if many members point back, too, as in a tree with parents."""
    root: dict[str, Any] = {"children": []}
    root["children"] = [{"parent": root, "n": n} for n in range(50)]
    plain, lossy = readable(root)
    assert lossy
    assert plain["children"][49] == {"parent": "<this is inside the same dict>", "n": 49}
    assert len(json.dumps(plain)) < 5000


def test_a_repeated_value_is_written_each_time() -> None:
    """Only a value inside itself is replaced."""
    shared = [1]
    assert readable([shared, shared]) == ([[1], [1]], False)


def test_values_nested_too_deeply_become_text() -> None:
    """Deep values become JSON text, whatever the interpreter could print."""
    deep: Any = "end"
    for _ in range(50_000):
        deep = [deep]
    plain, lossy = readable(deep)
    assert lossy
    depth = 0
    while isinstance(plain, list):
        (plain,) = plain
        depth += 1
    assert depth == 200
    assert plain == "[" * 49_800 + '"end"' + "]" * 49_800


def test_deep_values_of_any_kind_become_text_as_shallow_ones_do() -> None:
    """Each leaf has the form that it has above the limit, however deep it is."""
    leaves = [float("nan"), b"hello", {1: 2}, Point(1, 2), 1j]
    for levels in (200, 5_000):
        deep: Any = leaves
        for _ in range(levels):
            deep = (deep,)
        plain = readable(deep)[0]
        for _ in range(200):
            (plain,) = plain
        inner = msgspec.json.encode(readable(leaves)[0]).decode()
        assert plain == "[" * (levels - 200) + inner + "]" * (levels - 200)


def test_an_integer_with_too_many_digits_is_written_in_hex() -> None:
    """The number is the same, only its form changes."""
    assert readable(10**5000) == (hex(10**5000), True)


def test_a_mock_with_every_attribute_becomes_its_repr() -> None:
    """A mock is not a model, although it has every method of one."""
    plain, lossy = readable(MagicMock(name="tool"))
    assert lossy
    assert plain.startswith("<MagicMock name='tool'")
