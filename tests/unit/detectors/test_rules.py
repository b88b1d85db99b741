"""Rules find what they are for, and cover it so that nothing of it is left."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import EventStore, Redact, RuleFailed
from eventstore.detectors import CARD, EMAIL, IBAN, SECRET, phone_numbers
from eventstore.detectors.rule import Rules

ALL = Rules([EMAIL, CARD, IBAN, SECRET])
CODE = "ZX-4711-QQ"
CODES = Rules([Redact("code", re.compile(r"ZX-[0-9]{4}-QQ"))])


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("to zoë.w+x@mail.example.com.", "to [redacted: email]."),
        ("an @mention, and a@b", None),
        ("4111 1111 1111 1111", "[redacted: card]"),
        ("no. 12 4111-1111-1111-1111, 12/29", "no. 12 [redacted: card], 12/29"),
        ("378282246310005 or 5555555555554444", "[redacted: card] or [redacted: card]"),
        ("4111 1111 1111 1112", None),  # the check digit is wrong
        ("1764300000000000", None),  # a time in microseconds
        ("DE89 3704 0044 0532 0130 00!", "[redacted: iban]!"),
        ("gb82west12345698765432", "[redacted: iban]"),
        ("DE89 3704 0044 0532 0130 01", None),
        ("key sk-abcdefghij0123456789", "key [redacted: secret]"),
        ("postgresql://ann:hunter22@db/x", "postgresql://[redacted: secret]@db/x"),
        ("sk_live_abcdefghijkl", "[redacted: secret]"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
            "[redacted: secret]",
        ),
        ('{"m":"z\\u0040example.com"}', '{"m":"[redacted: email]"}'),
        ('broken {"m":"z\\u0040example.com', 'broken {"m":"[redacted: email]'),
        (
            '{"a@example.com":1,"b@example.com":2}',
            '{"[redacted: email]":1,"[redacted: email] 2":2}',
        ),
        ('{"n":4111111111111111}', '{"n":"[redacted: card]"}'),
    ],
)
def test_ready_made_rules_find_what_has_a_form_and_its_check(
    text: str, covered: str | None
) -> None:
    """Numbers count with the right length and check digits; JSON in a text is looked into."""
    assert ALL.cover(text) == (text if covered is None else covered)


nested = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.just(CODE),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just(CODE), inner),
    max_leaves=12,
)


@given(value=nested, before=st.text(), after=st.text())
def test_nothing_is_left_of_what_a_rule_finds_however_deep(
    value: Any, before: str, after: str
) -> None:
    """In texts, names of members, and JSON inside of a text; and what is covered stays so."""
    holder = [value, before + CODE + after, json.dumps({"a": [value, CODE]})]
    CODES.cover_json(holder)
    assert CODE not in json.dumps(holder, ensure_ascii=False)
    once = json.dumps(holder)
    assert CODES.cover_json(holder) is False
    assert json.dumps(holder) == once


@pytest.mark.parametrize(
    "text_of",
    [
        lambda count: "[redacted: card] 4111 1111 1111 1111 " * count,
        lambda count: "DE89 3704 0044 0532 0130 00 ann@example.com " * count,
        lambda count: json.dumps({f"{n}@example.com": "sk_live_abcdefgh" for n in range(count)}),
    ],
    ids=["marks", "spans", "names"],
)
def test_a_text_full_of_what_is_covered_takes_time_in_proportion(
    text_of: Callable[[int], str],
) -> None:
    """A stranger may write it, with marks and equal names: eight times the text, under 20 times."""

    def seconds(text: str) -> float:
        begin = process_time()
        ALL.cover(text)
        return process_time() - begin

    few, many = (min(seconds(text_of(count)) for _ in range(3)) for count in (500, 4000))
    assert many < 20 * few


def _raises(text: str) -> str:
    raise ValueError(text)


@pytest.mark.parametrize(
    "find", [_raises, lambda _: [(0, 999)], lambda _: [(2, 1)], lambda _: 7, lambda _: "\ud800"]
)
def test_a_rule_that_fails_is_named_and_the_text_is_not(find: Any) -> None:
    """A rule that returns no places in the text has failed, too."""
    with pytest.raises(RuleFailed) as failed:
        Rules([Redact("own", find)]).cover("hunter22")
    assert failed.value.rule == "own"
    shown = f"{failed.value} {failed.value.__cause__} {failed.value.__context__}"
    assert "hunter22" not in shown


@pytest.mark.parametrize(
    ("name", "find"), [("", _raises), ("a]b", _raises), ("a", re.compile("x*")), ("a", "text")]
)
def test_a_rule_that_makes_no_sense_is_refused(name: str, find: Any) -> None:
    """An expression that is found everywhere would cover nothing, or all."""
    with pytest.raises((TypeError, ValueError)):
        Redact(name, find)


def test_rules_have_names_of_their_own() -> None:
    """The mark in the text says which rule it was."""
    with pytest.raises(TypeError, match=r"redact is Redact\(.*: pass a list of rules"):
        EventStore.open("sqlite://", redact=Redact("code", print))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="two rules"):
        Rules([CARD, CARD])


def test_phone_numbers_are_those_of_the_numbering_plans() -> None:
    """A number without its country is found where a region is given."""
    pytest.importorskip("phonenumbers")
    text = "Call +49 30 901820 or 030 901820, order 12345678."
    anywhere, german = Rules([phone_numbers()]), Rules([phone_numbers("DE")])
    assert anywhere.cover(text) == "Call [redacted: phone] or 030 901820, order 12345678."
    assert german.cover(text).count("[redacted: phone]") == 2
    with pytest.raises(ValueError, match="region"):
        phone_numbers("Germany")
