"""What every format of files keeps, as a test suite."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from eventstore.domain.json_types import JsonObject, is_json_list, is_json_object
from eventstore.importers.file_import import ImportedFile, import_file
from eventstore.importers.formats import KNOWN_FORMATS
from eventstore.importers.reading.file_format import FileFormat, Unit
from eventstore.importers.reading.problems import SourceError
from eventstore.importers.source import read
from eventstore.store import EventStore

if TYPE_CHECKING:
    import pytest


File: TypeAlias = list[Any] | JsonObject
"""The JSON values of a file's lines, or one document."""


class ImporterContract:
    """The guarantees of a file format: derive a class of tests that says what its files hold.

    A file is the list of the JSON values of its lines, or an object: the file is one document then.
    """

    file_format: ClassVar[FileFormat]

    files: ClassVar[Sequence[Any]]
    """Cases of a file, and the number of messages in each of its conversations, by their ids.

    A result is a message. The file is called `given`.

    Between them they have what the format can hold: calls, results, failures.
    """

    grows: ClassVar[bool] = True
    """Whether the program writes on at the end of a file, so that it is imported again."""

    damaged_copies: ClassVar[int] = 40
    """How many damaged copies of each file are imported."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test on the files that its arguments ask for."""
        if "counts" in metafunc.fixturenames:
            metafunc.parametrize(("file", "counts"), self.files)
        elif "file" in metafunc.fixturenames:
            metafunc.parametrize("file", [_values(case)[0] for case in self.files])

    def test_a_file_is_recognised(self, file: File) -> None:
        """A value of it looks like this format, and like that of no other program."""
        unit: Unit = "line" if is_json_list(file) else "file"
        values: list[Any] = file if is_json_list(file) else [file]
        found = {
            each.name
            for each in (*KNOWN_FORMATS, self.file_format)
            for value in values
            if each.looks_like(value, unit)
        }
        assert found == {self.file_format.name}

    def test_a_value_of_no_format_is_left_to_others(self) -> None:
        """No value raises, and none that holds nothing looks like this format."""
        units: tuple[Unit, ...] = ("line", "item", "file")
        for odd in _ODD:
            assert not any(self.file_format.looks_like(odd, unit) for unit in units)

    def test_its_conversations_are_imported(
        self, file: File, counts: dict[str, int], tmp_path: Path
    ) -> None:
        """Nothing of the file is a problem, and each conversation has its id and its messages."""
        path = _written(tmp_path, file)
        read_counts = {
            transcript.id: sum(1 for _ in transcript.messages)
            for transcript in read(path, self.file_format).transcripts()
        }
        assert read_counts == counts
        with EventStore.open("sqlite://") as store:
            done = self._imported(store, tmp_path, file)
            assert (done.ids, done.problems, done.refused) == ([*counts], [], [])
            assert all(store.conversation(each).version for each in counts)

    def test_the_same_file_again_adds_nothing(self, file: File, tmp_path: Path) -> None:
        """An import may be repeated."""
        with EventStore.open("sqlite://") as store:
            first = self._imported(store, tmp_path, file)
            before = list(store.read())
            again = self._imported(store, tmp_path, file)
            assert (again.ids, again.added, again.events) == (first.ids, 0, 0)
            assert list(store.read()) == before

    def test_a_file_that_has_grown_adds_what_is_new(self, file: File, tmp_path: Path) -> None:
        """A log that got the file line by line equals one that got it at once."""
        if not self.grows or not is_json_list(file):
            return
        with EventStore.open("sqlite://") as store, EventStore.open("sqlite://") as whole:
            for end in range(1, len(file) + 1):
                with suppress(SourceError):  # a part without messages
                    assert self._imported(store, tmp_path, file[:end]).refused == []
            done = self._imported(whole, tmp_path, file)
            for each in done.ids:
                grown = [recorded.event for recorded in store.conversation(each).events()]
                assert grown == [recorded.event for recorded in whole.conversation(each).events()]

    def test_times_are_microseconds(self, file: File, tmp_path: Path) -> None:
        """A transcript has at most one time for each message: microseconds since 1970, or None."""
        path = _written(tmp_path, file)
        for transcript in read(path, self.file_format).transcripts():
            count = sum(1 for _ in transcript.messages)
            assert len(transcript.times) <= count
            assert all(_is_moment(time) for time in transcript.times)

    def test_a_line_that_is_no_json_is_a_problem(self, file: File, tmp_path: Path) -> None:
        """The problem has its number, and the other lines are imported."""
        if not is_json_list(file):
            return
        lines = [json.dumps(value) for value in file]
        path = _written(tmp_path, [])
        path.write_text("\n".join([*lines, '{"half": "a li']), "utf-8")
        with EventStore.open("sqlite://") as store:
            done = import_file(store, path, provider=self.file_format)
            assert f"line {len(lines) + 1}" in done.problems[-1]
            assert done.ids == self._imported(store, tmp_path, file).ids

    def test_no_damage_raises_an_error_of_python(self, file: File, tmp_path: Path) -> None:
        """Whatever stands where, it is imported, a problem, or refused as what it is."""
        chance = random.Random(0)
        with EventStore.open("sqlite://") as store:
            for number in range(self.damaged_copies):
                path = _written(tmp_path, _damaged(file, chance), f"{number}")
                with suppress(SourceError):
                    done = import_file(store, path, provider=self.file_format, name=f"{number}")
                    assert all(isinstance(each, SourceError) for each in done.refused)

    def _imported(self, store: EventStore, folder: Path, file: File) -> ImportedFile:
        return import_file(store, _written(folder, file), provider=self.file_format)


def _values(case: Any) -> Sequence[Any]:
    """Return the values of a case, which is a tuple or a `pytest.param`."""
    values: Sequence[Any] = getattr(case, "values", case)
    return values


def _written(folder: Path, file: File, name: str = "given") -> Path:
    """Return the path of a file that holds the values."""
    path = folder / f"{name}.{'jsonl' if is_json_list(file) else 'json'}"
    values = file if is_json_list(file) else [file]
    path.write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")
    return path


def _is_moment(time: object) -> bool:
    return time is None or (type(time) is int and 10**15 < time < 10**16)


_ODD: Final[tuple[Any, ...]] = (
    *(None, True, -1, 1.5, 10**30, "", "x", "2025", "\ud800", [], {}, [None], {"a": None}, [[]]),
)
"""Values that stand nowhere in a file."""

_DAMAGE: Final = 0.04
"""The share of members that are damaged."""


def _damaged(value: Any, chance: random.Random) -> Any:
    """Return a value in which some members, at any depth, have become something else."""

    def damaged(member: Any) -> Any:
        return chance.choice(_ODD) if chance.random() < _DAMAGE else _damaged(member, chance)

    if is_json_list(value):
        return [damaged(each) for each in value]
    if is_json_object(value):
        return {key: damaged(each) for key, each in value.items()}
    return value
