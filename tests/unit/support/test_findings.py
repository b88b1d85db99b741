"""The check of the scripts in `findings`: what a script must have, without running it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

CHECK = runpy.run_path(str(Path(__file__).parents[3] / ".ci" / "findings.py"))
GOOD = """#!/usr/bin/env bash
# Guess: what goes in comes out,
#     because nothing else would do.
# Package: openai-agents 0.24.0
# Package: @openai/agents 0.9.1
# Date: 2026-11-27
# Output:
#
#     2 of 3
set -euo pipefail
pip install "openai-agents[litellm]==0.24.0" && npm install @openai/agents@0.9.1
"""


def script(folder: Path, text: str, mode: int = 0o755) -> Path:
    """Return a script of that text."""
    path = folder / "surprise.sh"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def test_a_whole_script_has_no_fault(tmp_path: Path) -> None:
    """Several packages have a line each; a guess and an output may go on in the next line."""
    assert CHECK["faults_of"](script(tmp_path, GOOD)) == []


def test_a_script_has_to_be_executable(tmp_path: Path) -> None:
    """The remedy is named."""
    fault = "it is not executable: chmod +x"
    assert CHECK["faults_of"](script(tmp_path, GOOD, 0o644)) == [fault]


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("# Guess: what goes in comes out,\n#     because nothing else would do.", "#", "# Guess:"),
        ("# Package: openai-agents 0.24.0\n# Package: @openai/agents 0.9.1\n", "", "# Package:"),
        ("# Package: openai-agents 0.24.0", "# Package: openai-agents", "no name and version"),
        ("# Package: openai-agents 0.24.0", "# Package: openai-agents 0.24", "nothing installs"),
        ("agents@0.9.1", "agents", "nothing installs @openai/agents in version 0.9.1"),
        ("# Date: 2026-11-27", "# Date: 2026-11-31", "`# Date: 2026-11-31` is no day"),
        ("# Date: 2026-11-27\n", "", "# Date:"),
        ("#     2 of 3\n", "", "# Output:"),
        ("#!/usr/bin/env bash\n", "\n", "# Guess:"),
    ],
)
def test_each_fault_of_a_top_is_named(before: str, after: str, fault: str, tmp_path: Path) -> None:
    """A line below the first line of code is no part of the top."""
    faults = CHECK["faults_of"](script(tmp_path, GOOD.replace(before, after)))
    assert fault in "\n".join(faults)


def test_the_findings_of_this_repository_have_the_form(capsys: pytest.CaptureFixture[str]) -> None:
    """There is one at least, and the folder says what their form is."""
    assert CHECK["main"]() == 0, capsys.readouterr().out
    assert list(CHECK["FOLDER"].glob("*.sh"))
    assert (CHECK["FOLDER"] / "README.md").exists()
