"""What JSON cannot say, in its nearest readable form."""

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

from eventstore.readable import nests_deeply, readable


class Name(str):
    """Text that lies about itself."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError


class Money(float):
    """A number of another class."""


class Level(enum.IntEnum):
    """A number with a name."""

    HIGH = 3


class Colour(enum.Enum):
    """A name."""

    RED = "red"


@dataclass
class Hit:
    """Fields."""

    page: int
    body: bytes


class Answer(pydantic.BaseModel):
    """A model."""

    text: str
    at: dt.date


class Shy:
    """No repr."""

    def __repr__(self) -> str:
        raise RuntimeError


class Broken(list[int]):
    """A list that cannot be walked in the usual way."""

    def __iter__(self) -> Any:
        raise RuntimeError


class Loud:
    """A repr that no database can hold."""

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
def test_what_json_can_say_stays_as_it_is(value: Any, plain: Any) -> None:
    """Tuples become lists and text loses its class; nothing else changes."""
    got, lossy = readable(value)
    assert (got, lossy) == (plain, False)
    assert type(got) is type(plain)


@pytest.mark.parametrize(("value", "plain"), LOSSY)
@pytest.mark.parametrize("inside", [False, True])
def test_what_json_cannot_say_takes_its_nearest_form(value: Any, plain: Any, inside: bool) -> None:
    """At any depth, and it is marked."""
    got, lossy = readable({"deep": [value]} if inside else value)
    assert (got, lossy) == ({"deep": [plain]} if inside else plain, True)


@pytest.mark.parametrize("value", [value for value, _ in EXACT + LOSSY])
def test_the_readable_form_can_always_be_stored(value: Any) -> None:
    """Plain JSON that comes back as it is, and is not lossy when taken again."""
    plain, _ = readable(value)
    assert msgspec.json.decode(msgspec.json.encode(plain)) == plain
    assert readable(plain) == (plain, False)


def test_what_contains_itself_says_so() -> None:
    """Also where many members point back, as in a tree with parents."""
    root: dict[str, Any] = {"children": []}
    root["children"] = [{"parent": root, "n": n} for n in range(50)]
    plain, lossy = readable(root)
    assert lossy
    assert plain["children"][49] == {"parent": "<this is inside the same dict>", "n": 49}
    assert len(json.dumps(plain)) < 5000


def test_a_value_that_is_there_twice_is_there_twice() -> None:
    """Only what is inside itself is cut."""
    shared = [1]
    assert readable([shared, shared]) == ([[1], [1]], False)


def test_what_is_nested_too_deeply_ends_in_text() -> None:
    """Where a reader with little stack would give up."""
    deep: Any = "end"
    for _ in range(300):
        deep = [deep]
    plain, lossy = readable(deep)
    assert lossy
    depth = 0
    while isinstance(plain, list):
        (plain,) = plain
        depth += 1
    assert depth == 100
    assert plain.startswith("[[[")


def test_a_number_with_more_digits_than_python_writes_is_written_in_hex() -> None:
    """Nothing of it is lost but its form."""
    assert readable(10**5000) == (hex(10**5000), True)


def test_a_stand_in_that_answers_to_any_name_is_shown() -> None:
    """It is no model, although it has every method."""
    plain, lossy = readable(MagicMock(name="tool"))
    assert lossy
    assert plain.startswith("<MagicMock name='tool'")


def test_depth_is_measured_not_counted() -> None:
    """Wide values are not deep, brackets in text are none, and at 100 levels it is still fine."""

    def nested(depth: int) -> Any:
        value: Any = 1
        for n in range(depth):
            value = [value] if n % 2 else {"a": value}
        return value

    for value, deep in (
        ([{}] * 500, False),
        ("[" * 500, False),
        (nested(99), False),
        (nested(101), True),
        ([nested(101), 1], True),
    ):
        assert nests_deeply(value, msgspec.json.encode(value)) is deep
