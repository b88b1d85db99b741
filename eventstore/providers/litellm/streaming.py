"""The streams of litellm, which are those of Chat Completions."""

from __future__ import annotations

from eventstore.providers.openai.streaming import Response

__all__ = ["Response"]
