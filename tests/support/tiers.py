"""The tiers of the tests: quick, whole or long; and the marks of each test.

Quick: `pytest -m "not server and not slow" -n auto`, while you write code. Whole: `pytest -n auto`,
before a change lands. Long: `TOOLLEDGER_LONG=1 pytest -n auto`, with many times as many random
examples and torture rounds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

LONG = bool(os.environ.get("TOOLLEDGER_LONG"))
"""Whether the long tier runs."""

FULL_EXAMPLES = 50
"""How many examples a property needs for some certainty; hypothesis's own default is 100."""

SERVERS = frozenset({"postgresql", "mariadb", "mysql"})
GALERA_FIXTURES = frozenset({"galera", "own_galera", "own_group"})
SERVER_FIXTURES = SERVERS | GALERA_FIXTURES | {"server", "own_server", "cluster", "citus"}
SLOW_FILES = frozenset({"test_duckdb.py"})
"""Whole files that are slow."""
SLOW_FOLDERS = frozenset({"integrations", "browser"})
"""Folders that are slow: agent frameworks and browsers take seconds to load."""

_PROFILES = {"quick": 10, "whole": 15, "long": 1_000}
"""How many examples a property gets; a failure is kept and tried again, whatever the number is."""
_tier = "long" if LONG else "whole"


def choose_tier(config: pytest.Config) -> None:
    """Give hypothesis the profile of the tier that the command line asks for.

    There is no deadline for an example, because machines are shared.
    """
    global _tier  # noqa: PLW0603 - set once, before any test module is imported
    if "not slow" in config.getoption("markexpr"):
        _tier = "quick"
    for name, examples in _PROFILES.items():
        settings.register_profile(
            name,
            max_examples=examples,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
    settings.load_profile(_tier)


def examples(full: int) -> int:
    """Return how many examples a property gets that needs `full` where others need 50."""
    return max(full * _PROFILES[_tier] // FULL_EXAMPLES, 1)


def rounds(full: int, long: int) -> int:
    """Return the number of random tries of a test that hypothesis does not count."""
    return long if _tier == "long" else examples(full)


def repeated(full: int) -> int:
    """Return how often something is repeated in torture, ten times as often in the long tier."""
    return rounds(full, 10 * full)


def also_long(whole: Sequence[Any], long: Sequence[Any]) -> list[Any]:
    """Return the cases of the whole tier, and in the long tier those that repeat one of them."""
    return [*whole, *(long if LONG else ())]


def sampled(cases: Sequence[Any], quick: int) -> list[Any]:
    """Return all cases (`pytest.param`), marked as slow but for `quick` of them, evenly spread."""
    kept = {number * len(cases) // quick for number in range(quick)}
    return [
        case if number in kept else case._replace(marks=[*case.marks, pytest.mark.slow])
        for number, case in enumerate(cases)
    ]


def mark(items: list[pytest.Item]) -> None:
    """Mark tests by their fixtures and their folder.

    `server` is set by fixtures or a parameter that names an engine, `galera` by those of clusters,
    `torture` and `slow` by the folder `torture`; integrations and pages are slow. Other slow tests
    have the mark in their file.
    """
    for item in items:
        if "torture" in item.path.parts:
            item.add_marker(pytest.mark.torture)
            item.add_marker(pytest.mark.slow)
        if item.path.name in SLOW_FILES or item.path.parent.name in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)
        if _uses_server(item):
            item.add_marker(pytest.mark.server)
        if not GALERA_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.galera)


def rank(item: pytest.Item) -> int:
    """Return which tests come first: a long one that starts last keeps the others waiting."""
    names = {mark.name for mark in item.iter_markers()}
    return -len(names & {"torture", "slow", "server"})


def _uses_server(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    if not SERVER_FIXTURES.isdisjoint(fixtures):
        return True
    callspec = getattr(item, "callspec", None)
    if callspec is None or "request" not in fixtures:
        return False
    return any(_names_server(value) for value in callspec.params.values())


def _names_server(value: object) -> bool:
    """Return whether a parameter is an engine (or a URL's scheme) that needs a server.

    `request.getfixturevalue` gets the server of such a name.
    """
    parts = value if isinstance(value, tuple) else (value,)
    return any(isinstance(part, str) and part.partition("+")[0] in SERVERS for part in parts)
