"""The types of the parts that a message of litellm holds: those of Chat Completions."""

from __future__ import annotations

from eventstore.providers.openai.shapes import PARTS

__all__ = ["PARTS"]
