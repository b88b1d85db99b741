"""The page that lies in a bundle: what it holds, how it is checked, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec


class Bundle(msgspec.Struct, frozen=True):
    """What a bundle holds."""

    conversations: int
    events: int
    proven: int
    redacted: int
    decisions: int


def about(bundle: Bundle, store: str, keys: Sequence[str]) -> str:
    """Return the page, in Markdown."""
    template = Path(__file__).with_name("about.md").read_text("utf-8")
    return template.format(
        store=store,
        conversations=f"{bundle.conversations:,}",
        events=f"{bundle.events:,}",
        proven=f"{bundle.proven:,}",
        redacted=f"{bundle.redacted:,}",
        decisions=f"{bundle.decisions:,}",
        keys=", ".join(f"`{key}`" for key in keys),
    )
