"""Scheme 1 of the fingerprint, by written vectors and by its algebra."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from eventstore.domain.fingerprint import (
    SLICES,
    canonical,
    content_id,
    digest,
    fingerprint,
    parse,
    raw_digest,
    render,
    slice_of,
)
from eventstore.domain.nesting import MAX_LEVELS
from eventstore.errors import UnhashableArguments

# (name, arguments, the bytes that are hashed, their xxh3_128 in hex): written once, for good.
VECTORS: list[tuple[str, Any, bytes, str]] = [
    # keys are sorted, at every level; arrays are not
    (
        "search",
        {"q": "rig", "limit": 5},
        b'["search",{"limit":5,"q":"rig"}]',
        "720b606342a765f6e4107d1dd28a4331",
    ),
    (
        "f",
        {"b": 1, "a": {"y": {}, "x": [{"c": 2, "b": 1}, []]}},
        b'["f",{"a":{"x":[{"b":1,"c":2},[]],"y":{}},"b":1}]',
        "44230a3af48a8e7c76c23a2fcc345624",
    ),
    # numbers are what they are
    ("f", {"n": 1}, b'["f",{"n":1}]', "516fa33f3873152e862a716aace0a448"),
    ("f", {"n": 1.0}, b'["f",{"n":1.0}]', "bef4abad7a666e78ebe4e460ca327f62"),
    ("f", {"n": 0.0}, b'["f",{"n":0.0}]', "72055c416bcd841d9fb1d7d668f4e27d"),
    ("f", {"n": -0.0}, b'["f",{"n":-0.0}]', "f5aac46805eb0097aeb31c4369df1c31"),
    (
        "f",
        {"n": 10**40},
        b'["f",{"n":10000000000000000000000000000000000000000}]',
        "57ca4cd90f758c0648888aab9a492c98",
    ),
    ("f", {"n": 1e16}, b'["f",{"n":1e16}]', "5319440db7c66d13d366cc5be71c031a"),
    ("f", {"n": 1e-7}, b'["f",{"n":1e-7}]', "e70721b86b0e33b106754786df6bd049"),
    # strings are untouched: NFC and NFD differ, non-ASCII is written as it is
    ("f", {"s": "caf\u00e9"}, b'["f",{"s":"caf\xc3\xa9"}]', "5264db87b72b21599bcf04dbf021c65e"),
    ("f", {"s": "cafe\u0301"}, b'["f",{"s":"cafe\xcc\x81"}]', "a5da91ad9a077a33759956173c2fb9d1"),
    (
        "f",
        {"\u00e9\u6f22": "\U0001f980", "z": 0},
        b'["f",{"z":0,"\xc3\xa9\xe6\xbc\xa2":"\xf0\x9f\xa6\x80"}]',
        "6e1f0a69c3ce631400b14d22de5bfa3f",
    ),
    (
        "f",
        {"s": '"\\\n\0\x7f/'},
        b'["f",{"s":"\\"\\\\\\n\\u0000\x7f/"}]',
        "560b8d4c82247420622d113642007441",
    ),
    # null is a value like any other, and no sign of trouble
    (
        "f",
        {"b": [None], "a": None},
        b'["f",{"a":null,"b":[null]}]',
        "347a6797088f538d296fdde8ba468134",
    ),
    ("f", {"s": "null"}, b'["f",{"s":"null"}]', "6aa33d4c2ead34a382097f36631d5769"),
    # name and arguments have a border, and arguments may be any JSON value
    ("ab", "c", b'["ab","c"]', "49ac2b0a60ed9fc1f0f0ba0dccce5863"),
    ("a", "bc", b'["a","bc"]', "985d0f634b5ed09198a8bdeb6d6571b2"),
    ("f", {}, b'["f",{}]', "afab9e083f6a3a693f770429a000beb4"),
    ("f", None, b'["f",null]', "e6e238c204c0d3268b09a770f367652d"),
    ("f", [2, 1], b'["f",[2,1]]', "31e8a5fbad9c42a2590e5b0ec6490425"),
    ("f", "text", b'["f","text"]', "7d69a00ad015117de0b6065fdf8b4aa2"),
    ("f", 7, b'["f",7]', "1ae62a3673724db2b05020d754b4b99d"),
    ("f", True, b'["f",true]', "88f65bfd2132bc449b0d031636e51f5f"),
]

# (raw text, the bytes that are hashed, their xxh3_128 in hex)
RAW_VECTORS: list[tuple[str, bytes, str]] = [
    ("{broken", b'["f","{broken","raw"]', "7ae61e7902f61f3b560b3d02bc3f704a"),
    ("[2,1]", b'["f","[2,1]","raw"]', "137f0db4330937547b52b3f7fae976d9"),
    ("\ud800", b'["f","\xed\xa0\x80","raw"]', "05bac4d725c307ff6fb1c770d1062e08"),
    ("\\ud800", b'["f","\\\\ud800","raw"]', "9f93bd0f5e5f87ddb7efd659c8419248"),
]

any_text = st.text(st.characters(exclude_categories=[]))  # lone surrogates, too

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@dataclasses.dataclass
class Query:
    """A foreign object that msgspec can write."""

    limit: float


class Unwritable:
    """A foreign object that cannot be written."""


class Touchy(dict[str, Any]):
    """A JSON object that will not be compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None


class Numbers(msgspec.Struct):
    """A struct around any values."""

    values: list[Any]


def floats_in(value: Any) -> Iterator[float]:
    """Yield the floats of a JSON value."""
    if isinstance(value, float):
        yield value
    members = value.values() if isinstance(value, dict) else value
    for member in members if isinstance(value, dict | list) else ():
        yield from floats_in(member)


def nested(depth: int, value: object = 0) -> object:
    """Return `value` inside `depth` lists."""
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(("name", "arguments", "data", "expected"), VECTORS)
def test_the_written_vectors_hold(name: str, arguments: object, data: bytes, expected: str) -> None:
    """Canonical bytes and fingerprints never change, on any platform and version."""
    assert canonical(name, arguments) == data
    assert xxhash.xxh3_128_hexdigest(data) == expected
    assert digest(name, arguments).hex() == expected
    assert fingerprint(name, arguments) == f"x1:{expected}"


@pytest.mark.parametrize(("raw", "data", "expected"), RAW_VECTORS)
def test_the_written_vectors_of_raw_text_hold(raw: str, data: bytes, expected: str) -> None:
    """Text that is not a JSON object is hashed with a third element, surrogates included."""
    assert raw_digest("f", raw).hex() == expected
    assert xxhash.xxh3_128_hexdigest(data) == expected


def test_the_hash_is_the_published_one() -> None:
    """The empty input has the value that xxHash itself publishes for XXH3-128."""
    assert xxhash.xxh3_128_hexdigest(b"") == "99aa06d3014798d86001c324468d497f"


def test_keys_are_in_code_point_order() -> None:
    """A key beyond the basic plane comes after every other, unlike in UTF-16 order."""
    assert canonical("f", {"\U0001f980": 1, "\uff5e": 2}) == (
        '["f",{"\uff5e":2,"\U0001f980":1}]'.encode()
    )


@pytest.mark.parametrize(
    ("arguments", "path", "reason"),
    [
        (math.nan, "$", "nan is not a JSON number"),
        ({"calls": [{"limit": math.nan}]}, "$.calls[0].limit", "nan is not a JSON number"),
        ({"a": [1, [math.inf]]}, "$.a[1][0]", "inf is not a JSON number"),
        ({"a": {"b": (0, -math.inf)}}, "$.a.b[1]", "-inf is not a JSON number"),
        ({"max price": {"": math.nan}}, '$["max price"][""]', "nan is not a JSON number"),
        ({"null": None, "x": math.nan}, "$.x", "nan is not a JSON number"),
        ({"query": Query(math.nan)}, "$.query.limit", "nan is not a JSON number"),
        (Numbers([None, math.nan]), "$.values[1]", "nan is not a JSON number"),
        ({"a": [{1: "x"}]}, "$.a[0]", "the key 1 is int, not text"),
        ({"a": {None: 1}}, "$.a", "the key None is NoneType, not text"),
        ({"a": {"ok": 1, (1, 2): 1}}, "$.a", "the key (1, 2) is tuple, not text"),
        ({"a": ["\ud800"]}, "$.a[0]", "'\\ud800' is a lone surrogate"),
        ({"a": {"x\udfff": 1}}, "$.a", "'\\udfff' is a lone surrogate"),
        ({"a": [0, Unwritable()]}, "$.a[1]", "Encoding objects of type Unwritable"),
        ({"a": 10**5000}, "$.a", "digits"),
        ({"a": nested(200)}, "$.a" + "[0]" * 11 + "… and 188 steps more", "more than 200 levels"),
        (nested(20_000), "$" + "[0]" * 12 + "… and 188 steps more", "more than 200 levels"),
    ],
)
def test_arguments_that_are_not_json_are_refused_with_their_path(
    arguments: object, path: str, reason: str
) -> None:
    """The error names the place, what is wrong there, and what to pass instead."""
    with pytest.raises(UnhashableArguments) as caught:
        fingerprint("f", arguments)
    assert caught.value.path == path
    assert reason in caught.value.reason
    assert path in str(caught.value)
    str(caught.value).encode()


@given(
    st.recursive(
        st.none()
        | st.floats()
        | st.integers()
        | st.binary(min_size=8, max_size=8).map(lambda bits: struct.unpack(">d", bits)[0])
        | st.sampled_from(["null", "\u02ff", 0xCB7FF0, -0x35000F0000000000, 2**64 - 1, 2**70]),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)
def test_a_number_that_json_cannot_hold_is_found_among_any_others(value: Any) -> None:
    """A null beside the number hides nothing. Values whose bytes look like a NaN are accepted."""
    arguments = {"none": None, "value": value}
    if all(map(math.isfinite, floats_in(value))):
        assert msgspec.json.decode(canonical("f", arguments)) == ["f", arguments]
        return
    with pytest.raises(UnhashableArguments, match="is not a JSON number"):
        canonical("f", arguments)


def test_arguments_that_contain_themselves_are_refused() -> None:
    """A cycle ends in an error, not in a hang, also beside another fault."""
    endless: dict[str, object] = {}
    endless["again"] = endless
    for arguments in (endless, {"b": endless, "a": Unwritable()}):
        with pytest.raises(UnhashableArguments, match="nested"):
            canonical("f", arguments)


def test_nesting_without_end_is_refused_without_a_long_search() -> None:
    """A search through 100,000 levels took most of a second: none goes below the limit."""
    looked = 0

    class Endless(list[object]):
        def __iter__(self) -> Iterator[object]:
            nonlocal looked
            looked += 1
            return super().__iter__()

    endless = Endless()
    endless.append(endless)
    for arguments in (endless, {"b": endless, "a": Unwritable()}):
        with pytest.raises(UnhashableArguments, match="nested"):
            canonical("f", arguments)
    assert looked <= 2 * MAX_LEVELS


def test_a_name_with_a_lone_surrogate_is_refused() -> None:
    """The tool's name is part of the hash, and obeys the same rule."""
    with pytest.raises(UnhashableArguments, match="lone surrogate") as caught:
        canonical("\ud800", {})
    assert caught.value.path == "name"


def test_deep_nulls_raise_no_false_alarm() -> None:
    """A null is looked at without recursion, as deep as arguments may nest."""
    depth = MAX_LEVELS
    arguments = nested(depth, None)
    assert canonical("f", arguments) == b'["f",' + b"[" * depth + b"null" + b"]" * depth + b"]"


def test_nulls_in_tuples_and_structs_raise_no_false_alarm() -> None:
    """Tuples, structs and subclasses of dict become JSON arrays and objects, nulls included."""
    assert canonical("f", Touchy(a=None)) == b'["f",{"a":null}]'
    assert canonical("null", {"a": (None, Query(1.0))}) == b'["null",{"a":[null,{"limit":1.0}]}]'


@given(json_values, st.randoms(use_true_random=False))
def test_key_order_never_matters(value: object, source: random.Random) -> None:
    """Shuffling the keys of every object leaves the bytes as they are."""
    assert canonical("f", _shuffled(value, source)) == canonical("f", value)


@given(json_values, json_values)
def test_different_json_differs_in_its_bytes(one: object, other: object) -> None:
    """Two values have the same bytes exactly when they are the same JSON."""
    assert (canonical("f", one) == canonical("f", other)) == (_exact(one) == _exact(other))


@given(json_values)
def test_a_fingerprint_survives_storage(value: object) -> None:
    """A value that is written as JSON and read again has the same fingerprint."""
    stored = msgspec.json.encode(value)
    assert fingerprint("f", msgspec.json.decode(stored)) == fingerprint("f", value)


@given(any_text, any_text)
def test_raw_text_is_never_refused(one: str, other: str) -> None:
    """Any two texts have digests, equal exactly when the texts are, and never those of JSON."""
    assert (raw_digest("f", one) == raw_digest("f", other)) == (one == other)
    try:
        assert raw_digest("f", one) != digest("f", one)
    except UnhashableArguments:
        assert not one.isprintable()


@given(st.binary(min_size=16, max_size=16))
def test_the_text_form_reads_back(value: bytes) -> None:
    """`parse` undoes `render`."""
    assert parse(render(value)) == value


def test_the_text_form_is_read_in_either_case() -> None:
    """Capital hex digits mean the same fingerprint."""
    assert parse("x1:" + "AB" * 16) == b"\xab" * 16


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x1:",
        "x2:" + "0" * 32,
        "0" * 32,
        "x1:" + "0" * 31,
        "x1:" + "0" * 33,
        "x1:" + "0 " * 16,
        " x1:" + "0" * 32,
        "x1:" + "0" * 32 + "\n",
        "x1:" + "g" * 32,
        "x1:" + "\u0661" * 32,
        "\ud800",
        None,
    ],
)
def test_invalid_text_is_refused_as_a_fingerprint(text: Any) -> None:
    """The error shows the value and says what a fingerprint looks like."""
    with pytest.raises(ValueError, match="is not a fingerprint: pass `x1:` and 32 hex digits"):
        parse(text)


@pytest.mark.parametrize(
    ("tenant", "conversation_id", "expected"),
    [("", "support-42", 23), ("ab", "c", 917), ("a", "bc", 176), ("acme", "caf\u00e9", 242)],
)
def test_the_slice_of_a_conversation_never_changes(
    tenant: str, conversation_id: str, expected: int
) -> None:
    """Slices are stored: these four are written down for good."""
    assert slice_of(tenant, conversation_id) == expected


def test_slices_are_used_evenly() -> None:
    """Numbered conversations reach every slice, none of them far more often than the mean."""
    counts = [0] * SLICES
    for number in range(64 * SLICES):
        counts[slice_of("", f"conversation-{number}")] += 1
    assert min(counts) >= 24
    assert max(counts) <= 128


@given(any_text, any_text)
def test_every_conversation_has_a_slice(tenant: str, conversation_id: str) -> None:
    """Any two texts lead to a slice of the store."""
    assert 0 <= slice_of(tenant, conversation_id) < SLICES


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((b"", b"support-42"), "8eb9940e485a7cb3dc52f8e39a9b215a"),
        ((b"ab", b"c"), "3790745c4a3aeead2237f1c25d58d01b"),
        ((b"a", b"bc"), "771ca41371fbfe448924b414b36f1c6b"),
        ((), "99aa06d3014798d86001c324468d497f"),
        ((b"",), "2c0a8a99dc147d5445c3b49d035665b2"),
    ],
)
def test_content_ids_never_change(parts: tuple[bytes, ...], expected: str) -> None:
    """The id of the same parts is always the same; the borders of the parts count."""
    assert content_id(*parts).hex() == expected


def _shuffled(value: Any, source: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        source.shuffle(keys)
        return {key: _shuffled(value[key], source) for key in keys}
    return [_shuffled(member, source) for member in value] if isinstance(value, list) else value


def _exact(value: object) -> str:
    """Return the JSON of another encoder that distinguishes 1, 1.0, true, 0.0 and -0.0."""
    return json.dumps(value, sort_keys=True)
