"""What agents of others write today, by the real programs of the versions that npm has."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.real_programs import PROGRAMS, run
from support.tiers import LONG

from eventstore.importers.formats import KNOWN_FORMATS

if TYPE_CHECKING:
    from pathlib import Path

    from support.importing import Importer

NEEDS_NPM = "npm and Node are not installed"


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="the long tier runs it: it installs packages from npm")
@pytest.mark.skipif(shutil.which("npm") is None, reason=NEEDS_NPM)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_call_of_a_real_session_has_its_end(
    name: str, importer: Importer, tmp_path: Path
) -> None:
    """A command that exits with 3, a missing file and an unknown tool fail; the rest succeeds."""
    program = PROGRAMS[name]
    tools = [tool for path in run(program, tmp_path) for tool in importer.file(path)]
    assert importer.problems == []
    assert Counter(tool.status.name for tool in tools) == {
        "Completed": program.completed,
        "Failed": program.failed,
    }
    assert len(importer.ids) == program.conversations


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_versions_that_were_tried_are_those_that_formats_name(name: str) -> None:
    """The docs' page says which version wrote a file that was read, where it names one."""
    about = next(each.about for each in KNOWN_FORMATS if each.name == name)
    packages = PROGRAMS[name].packages
    assert not about.tried or any(each.endswith(f"@{about.tried}") for each in packages)
