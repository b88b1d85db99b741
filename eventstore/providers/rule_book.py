"""What one provider's rule book declares; each provider's `rules.py` is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, Protocol, TypeAlias

__all__ = ["Finding", "Level", "Rule", "RuleBook"]

Level = Literal["hard", "strict"]

Rule: TypeAlias = tuple[Level, str, str]
"""A row of a rule table: the level, the provider's words and the remedy."""

Finding: TypeAlias = tuple[str, str, str]
"""One breach of a rule: code, place and detail."""


class RuleBook(Protocol):
    """What one provider accepts: a table of rules, and the checks that apply it."""

    RULES: Mapping[str, Rule]
    """Code to level, the provider's words and the remedy.

    The words are a format string over `place`, `path` (the place in dots) and `detail`. A star
    after a code marks the part of the rule that is held at another level.
    """

    def findings(self, messages: object) -> Iterator[Finding]:
        """Yield code, place and detail of everything in `messages` that breaks a rule."""
        ...
