"""A ready-made counter of tokens, where tiktoken is installed."""

from __future__ import annotations

from collections.abc import Callable

from projections.text import one_line

ENCODING = "o200k_base"


def token_counter(encoding: str = ENCODING) -> Callable[[str], int]:
    """Counts the tokens of a text as `encoding` of tiktoken has them.

    Raises:
        ValueError: tiktoken is not installed, or cannot load the encoding.
    """
    remedy = "pass count_tokens, a function from text to a number"
    try:
        import tiktoken  # noqa: PLC0415 - slow to load, and may not be there
    except ImportError:
        raise ValueError(
            f"tokens cannot be counted without tiktoken: pip install tiktoken, or {remedy}"
        ) from None
    try:
        spoken = tiktoken.get_encoding(encoding)
    except Exception as error:  # unknown, or not to be fetched: whatever its loader raises
        why = one_line(str(error), 200)
        raise ValueError(f"tiktoken cannot load {encoding!r} ({why}): {remedy}") from error
    return lambda text: len(spoken.encode(text, disallowed_special=()))
