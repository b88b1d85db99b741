"""Foreign text on one line, safe for a terminal."""

from __future__ import annotations


def one_line(text: str, width: int) -> str:
    """Return `text` on one line of at most `width` characters, its control characters escaped.

    A longer text keeps its beginning and its end, because calls often differ only at the end.
    """
    text = text.strip()
    if len(text) <= width:
        text = _escaped(text)
    if len(text) <= width:
        return text
    end = width // 3
    start = width - end - 3
    return f"{_escaped(text[:start])[:start]}...{_escaped(text[-end:])[-end:]}"


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
