"""Rules about results that cannot be right, or that say nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise

import msgspec

from eventstore.domain.json_types import is_json_list, is_json_object
from eventstore.domain.redaction import REDACTED
from projections.debugging.call_facts import CallFacts
from projections.debugging.command_output import command_of
from projections.debugging.rules.commands import (
    asks,
    asks_for_data,
    changes_nothing,
    looks_up,
)
from projections.debugging.rules.empty_results import says_nothing
from projections.debugging.rules.evidence import Cause, Evidence, cause, shown
from projections.debugging.rules.result_faults import mismatch, truncation_weight
from projections.formatting import arguments_text

_MIN_LARGE_CHARACTERS = 200_000
_MIN_TWIN_CHARACTERS, _TWINS = 120, 2
"""Only data is compared: a constant answer, such as "saved", is that of many calls."""
_MAX_SWAP_CHARACTERS, _MIN_NAMED_CHARACTERS = 20_000, 3
_WORD = re.compile(r"[\w@.-]{6,}")
_DISTINCT = re.compile(r"[_@\d]|[a-z][A-Z]|[A-Z]{3}")
"""What an identifier, an address or a constant has, and an ordinary word has not."""
_SAYS_NONE = re.compile(r"\b(?:no|none|nothing|not|never|unable|missing|0)\b|n't\b", re.IGNORECASE)
_NO_MORE = re.compile(
    r"\b(?:0|no|zero) (?:\w+ )?(?:rows?|records?|items?|results?|entries|files?|users?|recipients?|"
    r"documents?|matches|lines?|e?mails?|messages|orders?|customers?|data|invoices?|rules|tests?)\b|"
    r"\bnothing to\b|\bis empty\b|\b(?:count|total|rows|sent|imported|processed)[\"']?: ?0\b",
    re.IGNORECASE,
)


def arguments_break_off(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the calls whose arguments are not a JSON object."""
    for call in e.calls:
        raw = call.call.raw
        if raw in (None, REDACTED) or call.edit is not None or call.is_open:
            continue
        heavy = weight + 13 * (call.version > e.last_assistant)
        if e.successes.get(call.name, 0) > call.ended:
            heavy -= 6
        text = f"the arguments of {call.name} are not a JSON object: they end in {raw[-40:]!r}"
        versions = {call.version, call.ended or call.version}
        yield cause("json", call.version, text, heavy, versions=versions, call=call)


def result_breaks_off(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the results that are JSON without its end; weighed less, where it is a file's."""
    for call in e.calls:
        result = call.result
        if type(result) is str and (heavy := truncation_weight(result)) is not None:
            text = f"the result of {call.name} is JSON that breaks off: {result[-40:]!r}"
            yield _of_result(e, "truncated", call, text, min(heavy, weight))


def names_another(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the results that name another value for an argument."""
    for call in e.calls:
        if (problem := mismatch(call)) is not None:
            yield _of_result(e, "mismatch", call, f"{shown(call)} {problem}", weight)


def same_for_another(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the data that two calls got which asked for different things."""
    twins: dict[tuple[str, str], list[CallFacts]] = {}
    for call in e.calls:
        result = call.result
        if type(result) is str and len(result) > _MIN_TWIN_CHARACTERS and result[0] in "{[":
            twins.setdefault((call.name, result), []).append(call)
    for calls in twins.values():
        first, last = calls[0], calls[-1]
        if len({call.fingerprint for call in calls}) == len(calls) == _TWINS:
            text = f"{shown(last)} got the very result of other arguments, at {first.ended}"
            yield _of_result(e, "mismatch", last, text, weight)


def swapped(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield two calls of one turn of which each result names what the other asked for."""
    for number, turn in groupby(e.calls, key=lambda call: call.turn):
        if number is None:
            continue  # nothing says which calls were made together
        calls = [call for call in turn if call.status == "completed" and not call.is_error]
        for first, second in pairwise(calls):
            if first.name != second.name or first.fingerprint == second.fingerprint:
                continue
            mine, yours = _named(first, second), _named(second, first)
            if mine and yours and _names(first, yours, mine) and _names(second, mine, yours):
                text = f"{shown(first)} and {shown(second)} got each other's result "
                text += f"(asked for at versions {first.version} and {second.version})"
                versions = {first.version, first.ended, second.version, second.ended}
                heavy = e.of_last_turn(second.ended, weight)
                yield cause("mismatch", first.ended, text, heavy, versions=versions, call=first)


def _named(call: CallFacts, other: CallFacts) -> set[str]:
    """Return the values that a call has among its arguments and another call has not."""
    own, others = (
        {
            str(value).casefold()
            for value in (arguments.values() if is_json_object(arguments) else ())
            if isinstance(value, str | int) and not isinstance(value, bool)
        }
        for arguments in ((each.edit or each.call).arguments for each in (call, other))
    )
    return {value for value in own - others if len(value) >= _MIN_NAMED_CHARACTERS}


def _names(call: CallFacts, wanted: set[str], unwanted: set[str]) -> bool:
    """Return whether the result of a call names all of some values, and none of others."""
    text = _as_text(call.result).casefold()
    if not text or len(text) > _MAX_SWAP_CHARACTERS:
        return False
    return all(map(text.__contains__, wanted)) and not any(map(text.__contains__, unwanted))


def built_on_nothing(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the empty data on which the rest was built: what came of it was empty, or failed."""
    for call in e.empty_results:
        if not (asks(call) and _is_built_on(e, call)):
            continue
        heavy = e.of_last_turn(call.ended, weight)
        sign = _what_came_of(e, call)
        if sign is None and e.facts.errors and (blind := _went_on_blindly(e, call)) is not None:
            sign, heavy = f"version {blind.version} has nothing to do with it", heavy - 25
        if sign is not None:
            text = f"{shown(call)} gave back nothing (asked for at version {call.version}), and "
            text += f"the run went on from that: {sign}"
            versions = {call.version, call.ended}
            yield cause("empty", call.ended, text, heavy, versions=versions, call=call)


def _went_on_blindly(e: Evidence, call: CallFacts) -> CallFacts | None:
    """Return the first change after a look into other data than files that found nothing.

    None where the change takes up what was looked for, or says that there is nothing.
    """
    if command_of(call.call) is not None or not looks_up(call):
        return None
    sought = _sought(call)
    for later in e.followers(call):
        if not changes_nothing(later):
            said = arguments_text(later.edit or later.call, _MAX_SWAP_CHARACTERS)
            takes_up = any(
                word in said for word in sought if "@" in word or "_" in word or "-" in word
            )
            return None if takes_up or _SAYS_NONE.search(said) else later
    return None


def found_nothing(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the question that gave back nothing nearest to what failed; data before a search."""
    failed = e.standing_errors[-1].version if e.standing_errors else 1 << 62
    found = [
        (bool(asks_for_data(call)), call.ended < failed, call.ended)
        for call in e.empty_results
        if asks(call) and _is_built_on(e, call)
    ]
    if found:
        is_data, _, ended = max(found)
        call = next(each for each in e.empty_results if each.ended == ended)
        text = f"{shown(call)} gave back nothing, and the run went on (asked for at version "
        text += f"{call.version})"
        if len(found) > 1:
            text += f"; {len(found):,} such calls"
        heavy = weight + 10 * is_data + e.recency(ended)
        yield cause("empty", ended, text, heavy, versions={call.version, ended}, call=call)


def _is_built_on(e: Evidence, call: CallFacts) -> bool:
    """Return whether the run went on without asking again."""
    for later in e.followers(call):
        if not changes_nothing(later):
            return True
        if later.name == call.name and asks(later) and not says_nothing(later.result):
            return False
    return bool(e.followers(call))


def _what_came_of(e: Evidence, call: CallFacts) -> str | None:
    """Return what shows that the rest was built on nothing; after a search, what it sought."""
    is_data = asks_for_data(call)
    stands = {error.version for error in e.standing_errors}
    sought = _sought(call)
    for later in e.followers(call):
        if later.is_error and later.ended in stands:
            text = later.errors[-1].text
            if named := next((word for word in sought if word in text), None):
                return f"version {later.ended} failed on {named!r}"
            if is_data:
                return f"version {later.ended} failed"
        if not is_data:
            continue
        if _holds_nothing((later.edit or later.call).arguments):
            return f"version {later.version} passes on nothing"
        if later.status == "completed" and _NO_MORE.search(_as_text(later.result)[:2_000]):
            return f"version {later.ended} has nothing either"
    return None


def _sought(call: CallFacts) -> set[str]:
    """Return the words that a call looked for."""
    arguments = (call.edit or call.call).arguments
    given = arguments.values() if is_json_object(arguments) else ()
    texts = " ".join(value for value in given if isinstance(value, str))
    return {word for word in _WORD.findall(texts) if _DISTINCT.search(word)}


def _holds_nothing(arguments: object) -> bool:
    given = arguments.values() if is_json_object(arguments) else ()
    return any(value in ([], {}, "[]", "{}") for value in given)


def large(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the one result that stands out by its size."""
    size, at = e.facts.largest
    stands_out = 2 * size > e.facts.characters or size > 4 * e.facts.second_largest
    if size >= _MIN_LARGE_CHARACTERS and stands_out:
        share = 100 * size // e.facts.characters
        text = f"one result of {size:,} characters is {share}% of all that the model reads"
        yield cause("size", at, text, weight if at >= e.facts.last_progress else weight - 13)


def _of_result(e: Evidence, kind: str, call: CallFacts, text: str, weight: int) -> Cause:
    text += f" (asked for at version {call.version})"
    weight += e.recency(call.ended)
    versions = {call.version, call.ended}
    return cause(kind, call.ended, text, weight, versions=versions, call=call)


def _as_text(result: object) -> str:
    if isinstance(result, str):
        return result
    if is_json_list(result):
        return "\n".join(map(_as_text, result))
    try:
        return msgspec.json.encode(result).decode()
    except Exception:  # noqa: BLE001 - a log made by hand may hold anything
        return ""
