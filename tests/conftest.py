"""What holds for all tests."""

from __future__ import annotations

import pytest

# Its assertions explain themselves like those of test modules.
pytest.register_assert_rewrite("eventstore.testing")
