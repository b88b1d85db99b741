"""The scenes of all integrations explain their assertions like test modules."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("integrations.scenes")
