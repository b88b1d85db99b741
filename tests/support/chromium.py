"""A real Chromium without a window, for the tests of pages.

`TOOLLEDGER_REQUIRE=chromium` turns the skip, where it is not there, into a failure.
"""

from __future__ import annotations

import os
import shutil

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def program() -> str:
    """Return the path of Chromium, or skip the test where it is not installed.

    Raises:
        RuntimeError: it is required.
    """
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is not None:
        return found
    if "chromium" in os.environ.get("TOOLLEDGER_REQUIRE", "").split(","):
        raise RuntimeError("chromium is not installed (TOOLLEDGER_REQUIRE asks for it)")
    pytest.skip("chromium is not installed")
