"""A ready-made counter of tokens; it needs tiktoken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from eventstore.domain.one_line import one_line

TokenCounter: TypeAlias = Callable[[str], int]
"""From a text to its number of tokens."""

DEFAULT_ENCODING = "o200k_base"


def token_counter(encoding: str = DEFAULT_ENCODING) -> TokenCounter:
    """Return a function that counts the tokens of a text, in an `encoding` of tiktoken.

    Raises:
        ValueError: tiktoken is not installed, or cannot load the encoding.
    """
    remedy = "pass count_tokens, a function from text to a number"
    try:
        import tiktoken  # optional, and slow to load
    except ImportError:
        raise ValueError(
            f"tokens cannot be counted without tiktoken: pip install tiktoken, or {remedy}"
        ) from None
    try:
        loaded = tiktoken.get_encoding(encoding)
    except Exception as error:  # an unknown encoding, or one that could not be downloaded
        why = one_line(str(error), 200)
        raise ValueError(f"tiktoken cannot load {encoding!r} ({why}): {remedy}") from error
    return lambda text: len(loaded.encode(text, disallowed_special=()))
