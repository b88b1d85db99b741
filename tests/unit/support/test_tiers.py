"""The tiers of the tests: which tests are marked, and how many examples a property gets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import tiers, unmeasured

ROOT = Path(__file__).parents[3]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")

pytestmark = pytest.mark.slow  # each starts pytest


def without(*names: str) -> dict[str, str]:
    """Return the environment without these variables."""
    return {name: value for name, value in unmeasured.environment().items() if name not in names}


def collected(*options: str | Path) -> list[str]:
    """Return the ids of the tests that pytest chooses."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "no:cacheprovider",
            *options,
        ],
        cwd=ROOT,
        env=without("PYTEST_ADDOPTS"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 5), done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_a_test_that_needs_a_server_is_marked_by_its_fixtures() -> None:
    """A test whose parameter names the server is marked, too.

    SQLite's tests in the file are not.
    """
    path = Path("tests", "contract", "test_on_servers.py")
    assert collected(path, "-m", "not server") == []
    path = Path("tests", "contract", "test_host_transaction.py")
    quick = collected(path, "-m", "not server")
    assert quick
    assert [name for name in quick if any(engine in name for engine in tiers.SERVERS)] == []
    golden = collected(Path("tests", "golden"), "-m", "server")
    assert len({name.partition("-")[2] for name in golden if "is_sound" in name}) == 6


def test_torture_is_slow() -> None:
    """Every test in the folder is marked."""
    path = Path("tests", "torture", "test_kill.py")
    assert collected(path, "-m", "torture and slow") == collected(path) != []


@pytest.mark.parametrize(
    ("options", "reported"),
    [({"TOOLLEDGER_REQUIRE": "postgresql,mysql"}, "1 error"), ({}, "1 skipped")],
    ids=["required", "not required"],
)
def test_a_server_that_is_not_there_is_skipped_unless_it_is_required(
    tmp_path: Path, options: dict[str, str], reported: str
) -> None:
    """`TOOLLEDGER_REQUIRE` turns the skip into a failure that gives the reason."""
    (tmp_path / "conftest.py").write_text("from support.server_room import mysql\n")
    (tmp_path / "test_it.py").write_text("def test_it(mysql):\n    assert False, 'it is there'\n")
    environment = without("PYTEST_ADDOPTS", "TOOLLEDGER_REQUIRE", "TOOLLEDGER_MYSQL_URL")
    environment |= {"PATH": os.devnull, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"} | options
    done = subprocess.run(
        [*PYTEST, "-rsE", tmp_path],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if "it is there" in done.stdout:
        pytest.skip("the system has a MySQL of its own")
    assert reported in done.stdout
    assert "there is no MySQL here" in done.stdout
    assert ("TOOLLEDGER_REQUIRE asks for it" in done.stdout) is bool(options)
