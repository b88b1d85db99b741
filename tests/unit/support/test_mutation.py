"""The script that breaks the source a little at a time makes each change alone."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / ".ci" / "mutation.py"))
SOURCE = '''
def head(positions: list[int], lane: int) -> int:
    """Return the head of a lane, or 0."""
    total = 0
    if lane in positions and not total:
        total = lane + 1
    return total
'''


def test_each_mutant_is_one_change_of_its_own() -> None:
    """Comparisons, Booleans, numbers and operators are changed, and statements left out."""
    mutants = list(SCRIPT["mutants"]("feed.py", SOURCE))
    assert sorted(mutant.change for mutant in mutants) == [
        "0 -> 1",
        "1 -> 2",
        "lane + 1 -> lane - 1",
        "lane in positions -> lane not in positions",
        "lane in positions and (not total) -> lane in positions or not total",
        "not total -> not not total",
        "total = 0 -> nothing",
        "total = lane + 1 -> nothing",
    ]
    assert len({mutant.source for mutant in mutants}) == len(mutants)
    assert all(mutant.source.count("Return the head") == 1 for mutant in mutants)


def test_every_room_names_files_and_tests_that_are_there() -> None:
    """A file that was renamed is told of here, and not at the end of a long run."""
    root = SCRIPT["ROOT"]
    for files, tests in SCRIPT["ROOMS"].values():
        assert all((root / path).exists() for path in [*files, *tests])


def test_a_room_is_tried_in_other_places_when_its_files_change() -> None:
    """Its sample stays the same until then, so that a failure comes again."""
    seed_of = SCRIPT["seed_of"]
    assert seed_of([SOURCE, ""]) == seed_of([SOURCE, ""])
    assert len({seed_of(files) for files in ([SOURCE], [SOURCE, ""], [SOURCE + "\n"])}) == 3
