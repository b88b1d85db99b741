"""The page of guarantees: each promise has tests that are there, in the tier that it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import unmeasured

ROOT = Path(__file__).parents[2]
ROWS = [
    line
    for line in (ROOT / "docs" / "guarantees.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| promise")
]
NAMED = re.compile(r"`(tests/[^`]+)`(?:, (\w+))?")
TIERS = {"quick", "whole", "integrations"}
OWN_ENVIRONMENT = ("tests/integrations/", "tests/browser/", "tests/torture/test_cluster.py")


def named_in(row: str) -> list[tuple[str, str]]:
    """Return the files that the last cell of a row names, each with its tier."""
    return NAMED.findall(row.rstrip(" |").rpartition(" | ")[2])


def quick_among(files: set[str]) -> set[str]:
    """Return those of the files that have tests in the quick tier."""
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-m", "not server and not slow"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *sorted(files)],
        cwd=ROOT,
        env={k: v for k, v in unmeasured.environment().items() if k != "PYTEST_ADDOPTS"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:50])
def test_a_promise_names_its_tests_and_their_tiers(row: str) -> None:
    """The last cell of each row has the files that fail if the promise is broken."""
    named = named_in(row)
    assert named
    for file, tier in named:
        assert (ROOT / file).is_file(), file
        assert tier in TIERS, file


@pytest.mark.slow
def test_each_test_runs_in_the_tier_that_the_page_says() -> None:
    """That is the first tier which runs a test of the file."""
    said = {(file, tier) for row in ROWS for file, tier in named_in(row)}
    files = {file for file, _ in said}
    quick = quick_among(files)
    true = {
        (file, "integrations")
        if file.startswith(OWN_ENVIRONMENT)
        else (file, "quick" if file in quick else "whole")
        for file in files
    }
    assert said == true
