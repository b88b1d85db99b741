"""A sample of small changes to the rooms that everything rests on: the tests notice them."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from support.tiers import LONG

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


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="runs tests forty times: set TOOLLEDGER_LONG=1")
@pytest.mark.timeout(3600)
def test_a_sample_of_changes_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    """The tests notice 85 % of a sample; the failure names each change that they did not notice."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "42"], capture_output=True, text=True, check=False
    )
    with capsys.disabled():
        print(f"\n{done.stdout}")  # its seeds, and what survived although the score is enough
    assert done.returncode == 0, done.stdout + done.stderr
