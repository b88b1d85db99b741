"""What holds for all tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from servers import mariadb, mysql, own_server, postgresql, server

__all__ = ["mariadb", "mysql", "own_server", "postgresql", "server"]

# Machines are shared: how long an example takes, or its making, says nothing.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

# Its assertions explain themselves like those of test modules.
pytest.register_assert_rewrite("eventstore.testing")
