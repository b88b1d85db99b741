"""The seam of the importers: a table of formats, each of which recognises and reads its values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eventstore.importers.file_format import FileContent, FileFormat, Unit
from eventstore.importers.problems import Problem, Problems
from eventstore.importers.source import FORMATS, PROVIDERS
from eventstore.importers.transcript import Transcript

MESSAGE = {"role": "user", "content": "Hello."}
RECORD = {"type": "user", "uuid": "1", "sessionId": "s", "message": MESSAGE}


def content(unit: Unit, *values: object, name: str | None = None) -> FileContent:
    """Return the content of a file with these values."""
    return FileContent(
        iter(enumerate(values, 1)),
        unit,
        file_stem="file",
        name=name,
        provider=None,
        problems=Problems(),
    )


class Sentences:
    """A format as another module would add it: each line is what the user said."""

    name = "sentences"

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line is text."""
        return unit == "line" and isinstance(value, str)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield one conversation for each line."""
        for number, value in content.values:
            if self.looks_like(value, content.unit):
                message = {"role": "user", "content": value}
                yield Transcript(content.unused_name(content.stem), "openai", [message])
            else:
                content.report("not a sentence", number)


@pytest.mark.parametrize(
    ("value", "unit", "names"),
    [
        (MESSAGE, "line", ["messages"]),
        (MESSAGE, "item", ["messages"]),
        (MESSAGE, "file", []),
        ({"messages": [MESSAGE]}, "line", ["conversations"]),
        ({"messages": [MESSAGE]}, "file", ["conversations"]),
        ([MESSAGE], "line", ["conversations"]),
        ([MESSAGE], "item", []),
        (RECORD, "line", ["claude-code"]),
        (RECORD, "item", ["claude-code"]),
        (RECORD, "file", []),
        ("text", "line", []),
        (None, "item", []),
    ],
)
def test_a_value_is_recognised_by_one_format_or_none(
    value: object, unit: Unit, names: list[str]
) -> None:
    """Therefore the order of the formats does not matter for a file of one format."""
    assert [each.name for each in FORMATS if each.looks_like(value, unit)] == names


def test_formats_have_names_of_their_own() -> None:
    """A name of a format that a caller may pass is not also a provider's."""
    names = [each.name for each in FORMATS]
    assert len(set(names)) == len(names)
    assert set(names) & set(PROVIDERS) == {"claude-code"}


def test_a_format_is_one_class() -> None:
    """A format gets numbered values, names for its conversations, and a list of faults."""
    added: FileFormat = Sentences()
    given = content("line", "Hello.", 5, "Bye.")
    assert [each.id for each in added.read(given)] == ["file", "file#2"]
    assert given.problems.kept == [Problem("not a sentence", 2, 2)]


@pytest.mark.parametrize(
    ("unit", "problem"),
    [
        ("line", "line 1: not a message: it has no role"),
        ("item", "item 1 is not a message: it has"),
    ],
)
def test_a_fault_is_placed_by_line_or_by_item(unit: Unit, problem: str) -> None:
    """The place is a line number or an item number, as the file has them."""
    given = content(unit, 5)
    for transcript in FORMATS[-1].read(given):
        assert list(transcript.messages) == []
    assert [str(each)[: len(problem)] for each in given.problems.kept] == [problem]
