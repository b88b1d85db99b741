"""What a lane's checkpoint holds beside its position."""

from __future__ import annotations

import msgspec

from projections.projection import Anomaly


class Totals(msgspec.Struct, gc=False, omit_defaults=True):
    """The JSON in the column `totals` of a checkpoint.

    `last` is the position and the anchor of the last event that was applied. By it a log is noticed
    that was restored from an older copy. The rest is counted by the built-in projections.
    """

    events: int = 0
    conversations: int = 0
    numbered: int = 0
    forgotten: int = 0
    anomaly_count: int = 0
    anomalies: list[Anomaly] = []
    breaches: dict[str, int] = {}
    copied_calls: int = 0
    last: tuple[int, str] = (0, "")
