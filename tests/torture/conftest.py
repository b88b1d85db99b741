"""The servers that torture runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from support.tiers import also_long

if TYPE_CHECKING:
    from support.servers import Server


# MySQL has its contract and its unit tests in every tier, and torture in the long one.
@pytest.fixture(params=also_long(["postgresql", "mariadb"], ["mysql"]))
def server(request: pytest.FixtureRequest) -> Server:
    """Return each server in turn."""
    return cast("Server", request.getfixturevalue(request.param))
