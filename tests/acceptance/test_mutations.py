"""The script that tries small changes to the source: what it passes over, and what it changes."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "mutation.py"


def script() -> Any:
    """Return the script as a module."""
    spec = spec_from_file_location("mutation", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_change_that_is_passed_over_is_one_of_a_line_that_is_there() -> None:
    """A line that was rewritten has to be judged again."""
    for path, line, _ in script().SAME:
        lines = (ROOT / path).read_text("utf-8").splitlines()
        assert line in map(str.strip, lines), (path, line)


def test_a_file_is_changed_in_one_place_at_a_time() -> None:
    """Each comparison, Boolean, number, operator and statement has its turn."""
    lines = ["def f(a):", " b = a + 1", " if not a < b:", "  raise ValueError(b)", " return True"]
    source = "\n".join(lines)
    assert [(one.line, one.change) for one in script().mutants("f.py", source)] == [
        (2, "b = a + 1 -> nothing"),
        (4, "raise ValueError(b) -> nothing"),
        (2, "a + 1 -> a - 1"),
        (3, "not a < b -> not not a < b"),
        (5, "True -> False"),
        (2, "1 -> 2"),
        (3, "a < b -> a <= b"),
    ]
