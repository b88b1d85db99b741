"""Every expression of the packages takes time in proportion to the text that it sees.

Texts that others have written decide on the time otherwise: one of some kilobytes can stop a page.
"""

from __future__ import annotations

import ast
import functools
import re
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import msgspec
import pytest
from support.tiers import rounds

from eventstore.importers.formats import about_formats

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for package in ("eventstore", "projections")
    for path in (ROOT / package).rglob("*.py")
    if path.name != "__main__.py"
)
OF_THE_HOST = {
    "projections/cli/app.py: '.+?'.join(map(re.escape, _ESCAPED.split(each)))",  # of an error
    "projections/cli/commands/import_.py: pattern or ''",
    "projections/cli/commands/search.py: re.escape(text)",
    "projections/debugging/event_filter.py: text",
}
"""Expressions that a person passes, about texts of the own machine."""
IN_TABLES = {
    "eventstore/domain/media_types.py: pattern": "_BEGINNINGS",
    "eventstore/domain/media_types.py: another": "_OTHER_BEGINNINGS",
    "eventstore/domain/sdk_errors.py: sentence": "_OVERFLOW_SENTENCES",
    "eventstore/importers/programs/swe_agent.py": "_ERROR_TEXT",
    "eventstore/importers/programs/atif.py": "_ERROR_TEXT",
    "eventstore/importers/reading/dialogue.py": "ERROR_TEXT",
    "eventstore/importers/frameworks/block_messages.py": "_SEMANTIC_KERNEL_ERRORS",
    "eventstore/providers/models.py: fact.models": "",  # names of models, our own
}
"""Expressions that stand in a table, by where they are used."""
METHODS_OF_TABLES = {"_GOOGLE_ENTRY": frozenset({"match"}), "_NUMPY_ENTRY": frozenset({"match"})}
METHODS = {"search", "match", "fullmatch", "sub", "split", "findall", "finditer"}
TINY, SMALL, LARGE = 500, 5_000, 20_000
MOST_GROWTH = 6
TRIVIAL_SECONDS = 0.01
"""What takes less for the large text is not compared: noise would decide."""


class Use(NamedTuple):
    """An expression, and the methods by which it is used."""

    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


def uses() -> Iterator[Use]:
    """Yield the expressions of all modules whose libraries are installed."""
    for path in FILES:
        place = str(path.relative_to(ROOT))
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        try:
            module = import_module(name.removesuffix(".__init__"))
        except ImportError:
            continue
        tree = ast.parse(path.read_text("utf-8"))
        yield from in_calls(place, tree, vars(module))
        for table in (each for at, each in IN_TABLES.items() if at.split(":")[0] == place):
            for text in getattr(module, table, ()) if table != table.strip("_") else ():
                yield from of_text(place, text)
        if isinstance(text := getattr(module, IN_TABLES.get(place, ""), None), str):
            yield from of_text(place, text)
        assigned = {t.id for n in tree.body for t in targets_of(n)}
        for own in assigned & vars(module).keys():
            methods = METHODS_OF_TABLES.get(own) or frozenset(
                node.attr
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and (node.value.id, node.attr in METHODS) == (own, True)
            )
            for pattern in patterns_in(getattr(module, own)):
                yield Use(f"{place}: {own}", pattern, methods or frozenset({"search"}))


def of_listings() -> Iterator[Use]:
    """Yield the expressions by which formats list sessions."""
    for name, about in about_formats().items():
        for text in (about.listing.call, about.listing.id, about.listing.parent):
            yield from of_text(f"listing of {name}: {text[:20]}", text)


def of_text(place: str, text: Any) -> Iterator[Use]:
    """Yield the expression of a text."""
    if len(text) > 1:
        flags = re.DOTALL if place.endswith("sdk_errors.py") else 0
        yield Use(place, re.compile(text, flags), frozenset({"search"}))


def targets_of(statement: ast.stmt) -> list[ast.Name]:
    """Return the names that a statement of a module assigns."""
    if isinstance(statement, ast.AnnAssign):
        return [statement.target] if isinstance(statement.target, ast.Name) else []
    found = statement.targets if isinstance(statement, ast.Assign) else []
    return [each for each in found if isinstance(each, ast.Name)]


def in_calls(place: str, tree: ast.Module, names: dict[str, Any]) -> Iterator[Use]:
    """Yield the expressions that calls of `re` are given; one that is not known is a fault."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        function = node.func
        if not (isinstance(function.value, ast.Name) and function.value.id == "re"):
            continue
        if function.attr not in {*METHODS, "compile"}:
            continue
        try:
            text = eval(ast.unparse(node.args[0]), names)  # noqa: S307 - our own source
        except NameError:
            at = f"{place}: {ast.unparse(node.args[0])}"
            assert at in OF_THE_HOST | IN_TABLES.keys() or function.attr == "compile", at
            continue
        if function.attr != "compile" and isinstance(text, str):
            yield Use(f"{place}:{node.lineno}", re.compile(text), frozenset({function.attr}))


def patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    """Yield the expressions in a value of a module, and in its tables."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from patterns_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from patterns_in(each)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from patterns_in(getattr(value, name))


# texts that begin as an expression wants it, and do not end so


def texts_for(pattern: re.Pattern[Any]) -> set[tuple[str, str]]:
    """Return pairs of a beginning and of what is repeated after it."""
    source = pattern.pattern
    tree = _parser.parse(source, pattern.flags)
    found = set(parts_of(tree))
    openings = {("", begin + repeated) for begin, repeated in found} | {("", " "), ("", "\n")}
    return openings if rounds(1, 100) < 100 else found | openings


def parts_of(items: Any) -> Iterator[tuple[str, str]]:
    """Yield what stands before each item of an expression, and what the item is."""
    begin = ""
    for operator, given in items:
        inner = inner_of(operator, given)
        for part in inner:
            for before, repeated in parts_of(part):
                yield begin + before, repeated
        shown = example_of(operator, given)
        if shown:
            yield begin, shown
        begin += shown


def inner_of(operator: Any, given: Any) -> list[Any]:
    """Return the expressions inside an item."""
    if operator in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
        return [given[2]]
    if operator is ops.SUBPATTERN:
        return [given[3]]
    if operator is ops.ATOMIC_GROUP:
        return [given]
    return list(given[1]) if operator is ops.BRANCH else []


def example_of(operator: Any, given: Any) -> str:
    """Return a short text that an item matches; empty for what matches no text."""
    if operator is ops.LITERAL:
        return chr(given)
    if operator is ops.IN:
        return example_in(given)
    if operator in (ops.ANY, ops.NOT_LITERAL):
        return "a"
    inner = inner_of(operator, given)
    if not inner:
        return ""
    shown = "".join(example_of(*item) for item in inner[0])
    is_repeat = operator in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
    return shown * max(given[0], 1) if is_repeat else shown


@functools.cache
def _category(name: Any) -> re.Pattern[str]:
    letter = str(name).rsplit("_", 1)[-1][0].lower()
    return re.compile("\\" + (letter.upper() if "NOT" in str(name) else letter))


def example_in(members: Any) -> str:
    """Return a character of a set."""
    negated = members[0][0] is ops.NEGATE
    for char in "aA0 -_./:x<>\"'{[(=\\\n,;|!#%":
        if negated != any(is_member(char, *each) for each in members if each[0] is not ops.NEGATE):
            return char
    kind, given = members[0]
    return chr(given[0] if kind is ops.RANGE else given) if isinstance(given, int | tuple) else ""


def is_member(char: str, kind: Any, given: Any) -> bool:
    """Return whether a character is a member of a set."""
    if kind is ops.LITERAL:
        return ord(char) == given
    if kind is ops.RANGE:
        return bool(given[0] <= ord(char) <= given[1])
    return _category(given).match(char) is not None


def seconds(run: Callable[[Any], object], text: Any) -> float:
    """Return the time of the processor that a method takes for a text."""
    began = time.process_time()
    run(text)
    return time.process_time() - began


def run_of(pattern: re.Pattern[Any], method: str) -> Callable[[Any], object]:
    """Return a method of an expression as a function of the text."""
    if method == "sub":
        empty = pattern.pattern[:0]
        return lambda text: pattern.sub(empty, text)
    if method == "finditer":
        return lambda text: list(pattern.finditer(text))
    found: Callable[[Any], object] = getattr(pattern, method)
    return found


def growth(use: Use, begin: str, repeated: str) -> float:
    """Return how many times as long four times the text takes, at the least."""

    def text(size: int) -> str | bytes:
        made = begin + repeated * (size // len(repeated)) + "\0"
        is_bytes = isinstance(use.pattern.pattern, bytes)
        return made.encode("latin-1", "replace") if is_bytes else made

    worst = 0.0
    for method in use.methods:
        run = run_of(use.pattern, method)
        tiny, small = seconds(run, text(TINY)), seconds(run, text(SMALL))
        if small < TRIVIAL_SECONDS / 16 or small < 3 * SMALL / TINY * tiny:
            continue  # it is trivial, or not quadratic
        if small > 1:
            return small / tiny
        small = min(seconds(run, text(SMALL)) for _ in range(3))
        large = min(seconds(run, text(LARGE)) for _ in range(2))
        if large > TRIVIAL_SECONDS:
            worst = max(worst, large / small)
    return worst


USES = [*uses(), *of_listings()]


def test_expressions_are_found() -> None:
    """The collection sees modules, tables in them, and texts in calls."""
    places = {use.place for use in USES}
    assert {
        "projections/debugging/error_line.py: _RULES",
        "eventstore/domain/sdk_errors.py",
    } < places
    assert len(USES) > 100


def test_a_quadratic_expression_is_noticed() -> None:
    """An opening without an end, many times over, is what these texts are made of."""
    use = Use("", re.compile(r"<(style|script)\b.*?</\1>", re.DOTALL), frozenset({"sub"}))
    assert max(growth(use, *text) for text in texts_for(use.pattern)) > MOST_GROWTH


@pytest.mark.slow
@pytest.mark.parametrize("place", sorted({use.place for use in USES}))
def test_time_grows_with_the_text(place: str) -> None:
    """Four times the text takes six times as long at most, where no end follows the openings."""
    for use in (each for each in USES if each.place == place):
        for begin, repeated in texts_for(use.pattern):
            grown = growth(use, begin, repeated)
            assert grown <= MOST_GROWTH, (use.pattern.pattern, begin, repeated, grown)
