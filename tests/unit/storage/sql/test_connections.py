"""The connections of a storage, and what listens to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore.storage.factory import backend_for, open_storage
from eventstore.storage.sql import forks
from eventstore.storage.sql.connections import Connections


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[Connections]:
    """Return connections to a store."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    open_storage(url, "", "full", 30.0).close()
    connections = Connections(backend_for(url))
    yield connections
    connections.close()


def test_listeners_hear_of_a_loss_and_of_a_fork(connections: Connections) -> None:
    """A connection that ends in order is no loss."""
    heard: list[str] = []
    connections.on_loss.append(lambda: heard.append("loss"))
    connections.on_renewal.append(lambda: heard.append("renewal"))
    connections.rows("SELECT 1")
    connections.writer()
    connections.roll_back()
    assert heard == []
    connections.roll_back(lost=True)
    with pytest.raises(ZeroDivisionError), connections.cursor():
        raise ZeroDivisionError
    assert heard == ["loss", "loss"]
    forks._before_fork()
    forks._after_fork_in_child()
    assert heard[2:] == ["renewal"]


def test_connections_for_writing_are_counted(connections: Connections) -> None:
    """Those to read with are not."""
    connections.rows("SELECT 1")
    assert connections.opened == 0
    for lost in (False, True, False):
        connections.writer()
        connections.roll_back(lost=lost)
    assert connections.opened == 2
