"""The tiers of the tests: which tests are marked, how many examples a property gets, which skip."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import settings
from support import tiers
from support.server_room import ROOM, started
from support.servers import AbsentError, Server

TESTS = Path(__file__).parents[2]


def marks(path: str, fixtures: tuple[str, ...] = (), **params: Any) -> set[str]:
    """Return the marks that a test of a file gets."""
    found: list[Any] = []
    item = SimpleNamespace(path=TESTS / path, fixturenames=fixtures, add_marker=found.append)
    if params:
        item.callspec = SimpleNamespace(params=params)
    tiers.mark([cast("pytest.Item", item)])
    return {mark.name for mark in found}


def test_a_test_that_needs_a_server_is_marked_by_its_fixtures() -> None:
    """A parameter that names an engine counts where the test asks for fixtures by name."""
    assert marks("unit/test_store.py", ("store",)) == set()
    for name in ("postgresql", "mariadb", "mysql", "server", "own_server"):
        assert marks("unit/test_store.py", (name,)) == {"server"}
    assert marks("unit/test_store.py", ("own_galera",)) == {"server", "galera"}
    by_name = "contract/test_host_transaction.py", ("request", "host")
    assert marks(*by_name, host="postgresql+asyncpg") == {"server"}
    assert marks(*by_name, host=("mysql", 1)) == {"server"}
    assert marks(*by_name, host="sqlite+aiosqlite") == set()
    assert marks(by_name[0], ("host",), host="mysql") == set()


def test_folders_are_slow() -> None:
    """Torture, frameworks and browsers are left out of the quick tier."""
    assert marks("torture/test_kill.py") == {"torture", "slow"}
    assert marks("integrations/test_mcp.py") == marks("browser/test_serve.py") == {"slow"}


def test_a_tier_has_its_number_of_examples() -> None:
    """A test that needs more than others gets more in each tier, and at least one."""
    each = settings.get_profile(settings.get_current_profile_name()).max_examples
    assert tiers.examples(tiers.FULL_EXAMPLES) == each
    assert tiers.examples(2 * tiers.FULL_EXAMPLES) == 2 * each
    assert tiers.examples(1) >= 1
    assert tiers.repeated(1) >= 1


class Absent(Server):
    """A server that no machine has."""

    def __init__(self, place: Path | None = None) -> None:
        raise AbsentError("there is no Absent here")


def test_a_server_that_is_not_there_is_skipped_unless_it_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`TOOLLEDGER_REQUIRE` turns the skip into a failure that gives the reason."""
    monkeypatch.delenv(ROOM, raising=False)
    monkeypatch.delenv("TOOLLEDGER_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception, match="there is no Absent here"):
        started(Absent)
    monkeypatch.setenv("TOOLLEDGER_REQUIRE", "postgresql,absent")
    with pytest.raises(pytest.fail.Exception, match=r"no Absent here \(TOOLLEDGER_REQUIRE asks"):
        started(Absent)
