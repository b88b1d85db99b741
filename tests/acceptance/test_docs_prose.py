"""The prose of README and `docs` can be read: short sentences, and no word of ours unexplained."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]

sys.path.insert(0, str(DOCS / "reference"))

from vocabulary import EVERYDAY, abbreviations, vocabulary  # type: ignore[import-not-found]  # noqa: E402

LONGEST_WORDS, AVERAGE_WORDS = 25, 15
SHORTEST_WORDS = 3
"""What is shorter is a label ("Default."), and would make the average look better."""
MOST_WORDS_OF_OURS = 20

FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
NO_PROSE = re.compile(r"^ *(\||#|<!--|!).*$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")
PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)")
BULLET = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
SENTENCE = re.compile(r"(?<=[.!?])[)\"]?\s+")
WORD = re.compile(r"[\w'./-]*\w")
PERSONS = re.compile(
    r"\b(he|him|his|she|her|hers|whom|whoever|nobody|somebody|anybody|everybody|"
    r"(?<!person )(?<!people )(?<!user )(?<!users )(?<!attacker )who)\b",
    re.IGNORECASE,
)


def sentences_of(text: str) -> Iterator[str]:
    """Yield the sentences of a page: no code, tables or headings, a span of code as one word."""
    prose = NO_PROSE.sub("", FENCE.sub("\n", text))
    prose = CODE.sub("code", LINK.sub(r"\1", prose)).replace("*", "")
    for paragraph in PARAGRAPH.split(prose):
        yield from SENTENCE.split(" ".join(BULLET.sub("", paragraph).split()))


def words_in(sentence: str) -> int:
    """Return how many words a sentence has."""
    return len(WORD.findall(sentence))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_sentences_of_a_page_are_short(page: Path) -> None:
    """None has more than 25 words, and the average is at most 15."""
    sentences = [
        sentence
        for sentence in sentences_of(page.read_text("utf-8"))
        if words_in(sentence) >= SHORTEST_WORDS
    ]
    assert [sentence for sentence in sentences if words_in(sentence) > LONGEST_WORDS] == []
    assert fmean(map(words_in, sentences)) <= AVERAGE_WORDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_no_pronouns_of_persons_for_things(page: Path) -> None:
    """Only a person, a user or an attacker may be one "who" does something."""
    sentences = sentences_of(page.read_text("utf-8"))
    assert [sentence for sentence in sentences if PERSONS.search(sentence)] == []


def test_the_words_of_ours_are_few_and_each_is_explained_where_it_is_used() -> None:
    """The first page has the meaning of each, and every other page shows it beside the word."""
    words = vocabulary((DOCS / "index.md").read_text("utf-8"))
    assert words.keys() >= EVERYDAY
    assert len(words) <= MOST_WORDS_OF_OURS
    shown = abbreviations(words).splitlines()
    assert f"*[lanes]: {words['lane']}" in shown
    assert f"*[Lane]: {words['lane']}" in shown
    assert len(shown) == 4 * (len(words) - len(EVERYDAY))


def test_the_readme_speaks_without_words_of_ours() -> None:
    """The meaning of a word is shown on the built pages only, and README is read before them."""
    words = vocabulary((DOCS / "index.md").read_text("utf-8")).keys() - EVERYDAY
    ours = re.compile(rf"\b(?:{'|'.join(words)})s?\b", re.IGNORECASE)
    sentences = sentences_of((ROOT / "README.md").read_text("utf-8"))
    assert [sentence for sentence in sentences if ours.search(sentence)] == []


def test_code_tables_and_headings_are_not_prose() -> None:
    """A list item is a sentence of its own; a colon does not end one."""
    page = (
        "# A title\n\nOne `a b c` word: [two words](x.md). Next one?\n\n"
        "```python\nfor it in range(9): pass\n```\n| a | table |\n- first item\n- second\n  item.\n"
    )
    sentences = [sentence for sentence in sentences_of(page) if sentence]
    assert sentences == [
        "One code word: two words.",
        "Next one?",
        "first item",
        "second item.",
    ]
    assert [words_in(sentence) for sentence in sentences] == [5, 2, 2, 2]


@pytest.mark.parametrize(
    ("sentence", "is_fault"),
    [
        ("The thread that waits, and he is woken.", True),
        ("The process who asks.", True),
        ("A person who decides.", False),
        ("Users who know it.", False),
    ],
)
def test_a_pronoun_for_a_thing_is_found(sentence: str, is_fault: bool) -> None:
    """People keep theirs."""
    assert bool(PERSONS.search(sentence)) is is_fault
