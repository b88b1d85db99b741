"""Call ids made by the store where a provider gives none."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import lru_cache

from eventstore.domain.fingerprint import content_id


def mint_call_id(conversation_id: str, turn: int, index: int, taken: AbstractSet[str]) -> str:
    """Return an id for a call that came without one; it is not among those `taken`.

    The same place in the same conversation gives the same id; every other place gives another.
    """
    minted = f"call_{_digest_prefix(conversation_id)}{turn:04x}{index:04x}"
    salt = 0
    while minted in taken:
        salt += 1
        prefix = _digest_prefix(f"{conversation_id}.{turn}.{index}.{salt}")
        minted = f"call_{prefix}{turn:04x}{index:04x}"
    return minted


@lru_cache(1024)
def _digest_prefix(text: str) -> str:
    """Return 16 hex digits for a text."""
    return content_id(text.encode()).hex()[:16]
