"""The provider that a page of the documentation shows keeps the contract, as the page says."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support.pages import run_blocks

from eventstore.providers import registry

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own-provider.md"

with TemporaryDirectory() as folder, chdir(folder):  # the page makes a file
    _page = run_blocks(PAGE)
# Other tests register one of this name.
_ACME = (registry._providers.pop("acme"), registry._adapters.pop("acme"))


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._providers, "acme", _ACME[0])
    monkeypatch.setitem(registry._adapters, "acme", _ACME[1])


TestAcme: Any = _page["TestAcme"]
"""The class of the page; pytest runs the contract that it derives from."""
