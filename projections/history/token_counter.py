"""Counters of tokens: an estimate that needs nothing, and the exact one of tiktoken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from eventstore.domain.one_line import one_line

TokenCounter: TypeAlias = Callable[[str], int]
"""From a text to its number of tokens."""

DEFAULT_ENCODING = "o200k_base"

_BYTES_PER_TOKEN = 3
_WITHOUT_DIGITS = dict.fromkeys(map(ord, "0123456789"))


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has, rather too many than too few.

    It takes three bytes of UTF-8 for a token, and each digit for two of them. Prose and JSON have
    1 to 1.4 times fewer tokens, long numbers and base64 up to 2.4 times more. Nothing is loaded.
    """
    digits = len(text) - len(text.translate(_WITHOUT_DIGITS))
    return -(-(len(text.encode("utf-8", "replace")) + digits) // _BYTES_PER_TOKEN)


def token_counter(encoding: str = DEFAULT_ENCODING) -> TokenCounter:
    """Return a function that counts the tokens of a text, in an `encoding` of tiktoken.

    The first time tiktoken fetches the encoding from the internet.

    Raises:
        ValueError: tiktoken is not installed, or cannot load the encoding.
    """
    remedy = "pass count_tokens, a function from text to a number such as estimate_tokens"
    try:
        import tiktoken  # optional, and slow to load
    except ImportError:
        raise ValueError(
            "tokens cannot be counted exactly without tiktoken: "
            f"pip install 'toolledger[tiktoken]', or {remedy}"
        ) from None
    try:
        loaded = tiktoken.get_encoding(encoding)
    except Exception as error:  # an unknown encoding, or one that could not be downloaded
        why = one_line(str(error), 200)
        raise ValueError(f"tiktoken cannot load {encoding!r} ({why}): {remedy}") from error
    return lambda text: len(loaded.encode(text, disallowed_special=()))
