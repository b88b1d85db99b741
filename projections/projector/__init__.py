"""`Projector`: projections that are kept in SQL tables, and go on where they stopped."""

from __future__ import annotations

from projections.projector.driver import Progress, Projector, TimeBucket
from projections.projector.lane import Parked

__all__ = ["Parked", "Progress", "Projector", "TimeBucket"]
