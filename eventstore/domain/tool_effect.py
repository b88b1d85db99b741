"""Tool effects: what a tool does to the world outside of the conversation."""

from __future__ import annotations

from enum import StrEnum


class ToolEffect(StrEnum):
    """What a tool does to the world; the defaults of a `FunctionTool` follow from it.

    Called `ToolEffect` in entelix-core, where a tool that names none is read-only. Here nothing is
    assumed of such a tool.
    """

    READ_ONLY = "read_only"
    """It changes nothing: after an unknown outcome it may run again."""

    MUTATING = "mutating"
    """It changes something: after an unknown outcome it is verified, or left to a person."""

    DESTRUCTIVE = "destructive"
    """It changes something for good: as mutating, and a person decides before it starts."""
