"""The words of docstrings, comments, error messages and test names, as far as a rule can tell.

1. A test's name says what is shown: it does not begin with a pronoun or a conjunction.
2. A test's docstring is whole sentences: it does not begin with a pronoun or a conjunction either,
   begins with a capital letter, and ends in a period.
3. In the packages threads, processes and callers have no personal pronouns.
4. No name has a word that does not say what the thing is.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = sorted(
    path for tests in ("tests", "eventstore/testing") for path in (ROOT / tests).rglob("*.py")
)
PACKAGES = sorted(
    path for package in ("eventstore", "projections") for path in (ROOT / package).rglob("*.py")
)

FRAGMENT = re.compile(
    r"(also|although|and|because|but|else|even|he|it|likewise|of|or|nor|she|so|than|they|unless|"
    r"until|what|which|who|whoever|whose)\b",
    re.IGNORECASE,
)
RIDDLE = re.compile(FRAGMENT.pattern.replace(r")\b", r"|that|this|these|those|to|not)\b"))

# "who" may follow a word for people; other personal pronouns have no use here.
PRONOUNS = re.compile(
    r"\b(he|him|his|she|hers?|himself|whom|whoever|nobody|somebody|anybody|everybody|"
    r"(?<!person )(?<!user )(?<!users )(?<!people )who|lest|in vain)\b",
    re.IGNORECASE,
)

VAGUE = re.compile(r"(?:^|_)(told|in_vain)(?:_|$)")


def _tests_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of each test."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test_"
        ):
            yield node.name, ast.get_docstring(node) or ""


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings, comments and the texts of raised errors, each with its first line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)
        elif isinstance(node, ast.Raise):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def faults_of_test(name: str, docstring: str) -> list[str]:
    """Return what is wrong with a test's name and docstring."""
    faults = []
    if found := RIDDLE.match(name.removeprefix("test_").replace("_", " ")):
        faults.append(f"the name begins with {found[0]!r}")
    if found := FRAGMENT.match(docstring):
        faults.append(f"the docstring begins with {found[0]!r}")
    if not docstring or not (docstring[0].isupper() or docstring[0] in "`0123456789"):
        faults.append("the docstring does not begin with a capital letter")
    if not docstring.endswith((".", "`)")):
        faults.append("the docstring does not end in a period")
    return faults


def pronouns_in(source: str) -> list[str]:
    """Return each personal pronoun with its line."""
    if not PRONOUNS.search(source):  # tokens take much longer
        return []
    return [
        f"line {line}: {found[0]}"
        for line, text in prose_of(source)
        for found in PRONOUNS.finditer(text)
    ]


def vague_names_in(source: str) -> list[str]:
    """Return each name with a vague word, with its line."""
    if not any(word in source for word in ("told", "in_vain")):  # tokens take much longer
        return []
    return [
        f"line {token.start[0]}: {token.string}"
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.NAME and VAGUE.search(token.string)
    ]


def test_tests_have_names_and_sentences_that_can_be_understood() -> None:
    """Each name has a subject, and each docstring is whole sentences."""
    faults = [
        f"{path.relative_to(ROOT)}: {name}: {fault}"
        for path in TESTS
        for name, docstring in _tests_in(path)
        for fault in faults_of_test(name, docstring)
    ]
    assert faults == []


def test_the_packages_have_no_pronouns_of_persons() -> None:
    """Docstrings, comments and errors say "the caller", "another process", "the thread"."""
    faults = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in PACKAGES
        for fault in pronouns_in(path.read_text("utf-8"))
    ]
    assert faults == []


def test_names_say_what_the_thing_is() -> None:
    """No function, test, argument or variable has a vague word in its name."""
    faults = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in {*TESTS, *PACKAGES}
        for fault in vague_names_in(path.read_text("utf-8"))
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("name", "docstring", "fault"),
    [
        ("test_what_is_stored", "Everything is stored.", "the name begins with 'what'"),
        ("test_who_waits_is_woken", "The waiter is woken.", "the name begins with 'who'"),
        ("test_it_ends", "The thread ends.", "the name begins with 'it'"),
        ("test_a", "It ends.", "the docstring begins with 'It'"),
        ("test_a", "And nothing else.", "the docstring begins with 'And'"),
        ("test_a", "a call ends.", "the docstring does not begin with a capital letter"),
        ("test_a", "", "the docstring does not begin with a capital letter"),
        ("test_a", "A call ends", "the docstring does not end in a period"),
    ],
)
def test_a_bad_name_or_docstring_is_reported(name: str, docstring: str, fault: str) -> None:
    """Each rule finds the fault that it is for."""
    assert fault in faults_of_test(name, docstring)


@pytest.mark.parametrize(
    "source",
    ['"""The thread that asks: he waits."""', "x = 1  # whoever comes", "raise E(f'nobody {x}')"],
)
def test_a_pronoun_is_reported(source: str) -> None:
    """Docstrings, comments and error messages are all searched."""
    assert len(pronouns_in(source)) == 1


@pytest.mark.parametrize("source", ["told = 1", "def is_told(): ...", "waits_in_vain = True"])
def test_a_vague_name_is_reported(source: str) -> None:
    """Functions and variables are all searched, and prose is not."""
    assert len(vague_names_in(source)) == 1
    assert vague_names_in(f'"""{source}"""\nretold = "told"  # told') == []


def test_names_and_values_are_not_prose() -> None:
    """Identifiers, other strings and "a person who decides" are allowed."""
    source = '"""A person who decides."""\nhis = she("he")\n'
    assert pronouns_in(source) == []
