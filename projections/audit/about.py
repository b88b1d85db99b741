"""The page that lies in a bundle: what it holds, how it is checked, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

SCRIPTS = "check.py", "check_more.py"
"""The files that check a bundle, and lie in it."""


class Bundle(msgspec.Struct, frozen=True):
    """What a bundle holds."""

    conversations: int
    events: int
    proven: int
    redacted: int
    decisions: int


def about(bundle: Bundle, store: str, keys: Sequence[str]) -> str:
    """Return the page, in Markdown."""
    room = Path(__file__).parent
    template = (room / "about.md").read_text("utf-8")
    lines = [(room / name).read_bytes().count(b"\n") for name in SCRIPTS]
    return template.format(
        lines=lines,
        store=store,
        conversations=f"{bundle.conversations:,}",
        events=f"{bundle.events:,}",
        proven=f"{bundle.proven:,}",
        redacted=f"{bundle.redacted:,}",
        decisions=f"{bundle.decisions:,}",
        keys=", ".join(f"`{key}`" for key in keys),
    )
