"""A repair: one change that was made to show a valid history, as data."""

from __future__ import annotations

import msgspec


class Repair(msgspec.Struct, frozen=True, gc=False):
    """One change that was made to show a valid history.

    `what`: answered, moved, merged, collapsed, re-keyed, dropped, wrapped or added. `rule` is
    the code of the rule that asked for it, `versions` are the events concerned.
    """

    what: str
    rule: str
    why: str
    call_id: str | None = None
    versions: tuple[int, ...] = ()
