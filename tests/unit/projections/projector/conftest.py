"""A log of one lane, and its projector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.projected_logs import new_store

from eventstore import (
    EventStore,
)
from eventstore.testing import FrozenClock
from projections import Projector
from projections.projector.database import ProjectionDatabase


@pytest.fixture
def clock() -> FrozenClock:
    """Return the clock of the log."""
    return FrozenClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the log."""
    return tmp_path / "log.db"


@pytest.fixture
def store(path: Path, clock: FrozenClock) -> Iterator[EventStore]:
    """Return a log of one lane."""
    with new_store(path, clock=clock) as opened:
        yield opened


@pytest.fixture
def projector(store: EventStore) -> Iterator[Projector]:
    """Return the log's projector, its tables beside the log."""
    with Projector(store) as opened:
        yield opened


@pytest.fixture
def database(store: EventStore) -> Iterator[ProjectionDatabase]:
    """Return the database of the projections, its tables beside the log."""
    opened = ProjectionDatabase(store.url)
    yield opened
    opened.close()
