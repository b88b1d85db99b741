"""A search for texts over all conversations, through an index in tables."""

from __future__ import annotations

from projections.search.projection import FoundEvent, TextSearch

__all__ = ["FoundEvent", "TextSearch"]
