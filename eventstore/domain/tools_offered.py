"""What the model was offered: the event of an iteration, with the answer of each gate."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec


class GateAnswer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The answer of one gate: a sorted list of tool names, or no opinion."""

    gate: str
    allow: tuple[str, ...] | None = None


class ToolsOffered(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The tools that the model could see in one iteration, and why.

    Called `ToolGateApplied` in clark-agent, for each of the `gates`. Its `conflict` is called
    `ToolGateConflictResolved` there.
    """

    tag: ClassVar[str] = "tools_offered"
    schema: ClassVar[int] = 1
    iteration: int
    available: tuple[str, ...]
    allowed: tuple[str, ...] | None = None
    gates: tuple[GateAnswer, ...] = ()
    conflict: dict[str, Any] | None = None
