"""Bytecode for all processes of a run, where the environment tells Python to write none.

The run starts a hundred interpreters, and each would compile all that it imports.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def share(config: pytest.Config) -> None:
    """Let this process and those below it keep bytecode in a folder that the run's end removes."""
    if not sys.dont_write_bytecode or sys.pycache_prefix is not None:
        return
    folder = tempfile.TemporaryDirectory(prefix="toolledger-bytecode-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = folder.name
    sys.dont_write_bytecode = False
