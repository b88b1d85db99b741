"""The Python of the pages in `docs` runs, block after block, as a reader would type it."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from support.pages import python_blocks, run_blocks

from eventstore.providers import registry
from eventstore.storage import factory
from projections.cli import app

DOCS = Path(__file__).resolve().parents[2] / "docs"
ELSEWHERE = {"integrations.md", "opentelemetry.md", "projections-in-tables.md"}
"""Pages that another test runs, because they need more than the packages."""
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.name not in ELSEWHERE and python_blocks(page)
]


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """Take back the providers and backends that a page registers."""
    registers: list[dict[str, object]] = [
        cast("dict[str, object]", registry._providers),
        cast("dict[str, object]", factory._registered),
    ]
    before = [dict(register) for register in registers]
    yield
    for register, entries in zip(registers, before, strict=True):
        register.clear()
        register.update(entries)


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collect what a page has left open, so that Python 3.13 warns of it in the page's own test.

    Older versions do not warn, and to go through all objects of a run takes a third of a second.
    """
    yield
    if sys.version_info >= (3, 13):
        gc.collect()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_python_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block runs in one session, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(DOCS / "examples")
    run_blocks(page)


@pytest.mark.parametrize("name", ["redaction.md", "erasure.md"])
def test_the_commands_of_a_page_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As written, in the folder that the Python of the page leaves, they do what they say."""
    monkeypatch.chdir(tmp_path)
    run_blocks(DOCS / name)
    lines = (DOCS / name).read_text("utf-8").splitlines()
    commands = [line for line in lines if line.startswith("toolledger ")]
    assert commands
    assert [app.run(shlex.split(command)[1:]) for command in commands] == [0] * len(commands)
