"""The Python of the pages in `docs` runs, block after block, as a reader would type it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eventstore import EventStore

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [
    "debugging.md",
    "dispatcher.md",
    "errors.md",
    "if-you-know.md",
    "pauses.md",
    "streams.md",
    "tool-outcomes.md",
    "usage-limits.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_the_python_blocks_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block runs in one session, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text()
    names: dict[str, object] = {}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert len(blocks) >= 3
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], page, "exec"), names)  # noqa: S102
    for store in names.values():
        if isinstance(store, EventStore):
            store.close()
