"""The Python of the pages in `docs` runs, block after block, as a reader would type it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pages import python_blocks, run_blocks

DOCS = Path(__file__).resolve().parents[2] / "docs"
ELSEWHERE = {"integrations.md", "projections-in-tables.md"}
"""Pages that another test runs, because they need more than the packages."""
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.name not in ELSEWHERE and python_blocks(page)
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_python_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block runs in one session, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(DOCS / "examples")
    run_blocks(page)
