"""The storage that a page of the documentation shows keeps the contract, as the page says."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.pages import run_blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own-storage.md"

with TemporaryDirectory() as folder, chdir(folder):  # the page makes a file
    _page = run_blocks(PAGE)

TestRollbackSqlite: Any = _page["TestRollbackSqlite"]
"""The class of the page; pytest runs the contract that it derives from."""
