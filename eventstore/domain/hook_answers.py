"""What a hook answered before a call ran."""

from __future__ import annotations

import msgspec


class HookAnswer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What one hook decided on a call: approve, reject, ask, defer, skip, terminate, or None.

    None means that it left the decision to others. `approver` marks the answer of the approver.
    The event that follows from the answers has them as its `hooks`, in the order of the questions.
    """

    hook: str
    decision: str | None = None
    reason: str | None = None
    approver: bool = False
