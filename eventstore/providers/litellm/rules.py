"""The rules of litellm: those of OpenAI Chat Completions, which it reads all requests in.

Its own members, and the ids in which it keeps a signature, are legal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eventstore.providers.openai import rules as openai

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventstore.providers.rule_book import Finding, Rule

__all__ = ["RULES", "findings"]

_OF_OPENAI_ALONE: Final = frozenset({"OA06", "OA20*", "OA21"})

RULES: Final[dict[str, Rule]] = {
    code: rule for code, rule in openai.RULES.items() if code not in _OF_OPENAI_ALONE
}
"""Code to level, the words of OpenAI and the remedy."""


def findings(messages: object) -> Iterator[Finding]:
    """Yield code, place and detail of everything in `messages` that breaks a rule."""
    return (found for found in openai.findings(messages) if found[0] in RULES)
