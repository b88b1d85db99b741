"""Fixtures of the importers' tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.importing import Importer

from eventstore import EventStore


@pytest.fixture
def importer(store: EventStore, tmp_path: Path) -> Importer:
    """Return an importer into an empty store."""
    return Importer(store, tmp_path)
