"""`Projector`: projections that are kept in SQL tables, and continue where they stopped."""

from __future__ import annotations

from projections.projector.generations import OtherVersion
from projections.projector.parked import Parked
from projections.projector.projector import Projector
from projections.projector.statistics_reads import TimeBucket
from projections.projector.table_projection import ProjectedLane, TableProjection
from projections.projector.worker import Progress

__all__ = [
    "OtherVersion",
    "Parked",
    "Progress",
    "ProjectedLane",
    "Projector",
    "TableProjection",
    "TimeBucket",
]
