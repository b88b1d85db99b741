"""Agent frameworks: their tests are skipped where one is not installed, unless it is required.

`TOOLLEDGER_REQUIRE=frameworks` turns the skip into a failure, as it does for servers.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest


def required(module: str) -> None:
    """Skip the test module where a framework is not installed.

    Raises:
        RuntimeError: it is required.
    """
    if _is_installed(module):
        return
    if "frameworks" in os.environ.get("TOOLLEDGER_REQUIRE", "").split(","):
        raise RuntimeError(f"{module} is not installed (TOOLLEDGER_REQUIRE asks for it)")
    pytest.skip(f"{module} is not installed", allow_module_level=True)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a module's parent
        return False
