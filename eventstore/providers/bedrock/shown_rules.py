"""Rule BE07 of Bedrock's Converse: documents and other media, and cache points behind them."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from eventstore.providers.bedrock.shapes import FORMATS, MAX_DOCUMENTS
from eventstore.providers.rules_reader import quoted, readable, text_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventstore.providers.bedrock.history import History
    from eventstore.providers.rules_reader import Fault

__all__ = ["check_images", "check_shown", "check_shown_strictly"]

_MAX_IMAGES: Final = 20
_DOCUMENT_NAME: Final = re.compile(r"[a-zA-Z0-9 ()\[\]-]{1,200}")


def check_shown(history: History) -> Iterator[Fault]:
    """Check BE07: formats are known, and documents few, with legal names of their own."""
    names: set[str] = set()
    count = 0
    for block in history.shown:
        kind, place = block.kind or "", f"{block.place}.{block.kind}"
        given = block.body.get("format")
        if "format" in block.body and not _is_known_format(given, kind):
            known = ", ".join(sorted(FORMATS[kind]))
            yield (
                f"{place}.format",
                f"{block.path}.{kind}.format must be one of {known}, but is {quoted(given)}.",
            )
        if kind != "document":
            continue
        count += 1
        if count > MAX_DOCUMENTS:
            yield place, f"You can't include more than {MAX_DOCUMENTS} documents in a request."
        name = text_or_none(block.body.get("name"))
        if name is None:
            continue
        if not _DOCUMENT_NAME.fullmatch(name) or "  " in name:
            yield (
                f"{place}.name",
                (
                    f"{block.path}.document.name holds letters, digits, single spaces, hyphens, "
                    f"parentheses and square brackets, but is {quoted(name)}."
                ),
            )
        elif name in names:
            yield (
                f"{place}.name",
                f"Messages can't contain duplicate document names: {readable(name)} comes twice.",
            )
        names.add(name)


def _is_known_format(given: object, kind: str) -> bool:
    """Return whether a format is known; of an image or a video the service takes a media type."""
    name = text_or_none(given) or ""
    return (name if kind == "document" else name.rpartition("/")[2]) in FORMATS[kind]


def check_shown_strictly(history: History) -> Iterator[Fault]:
    """Check BE07*: no cache point follows text that the service extracts; names differ in words."""
    for message in history.messages:
        for before, block in pairwise(message.blocks):
            form = before.body.get("format", "pdf")
            if block.kind == "cachePoint" and before.kind == "document" and form != "pdf":
                yield block.place, f"{block.path}.type: Field required"
    names: dict[str, str] = {}
    for block in history.shown:
        name = text_or_none(block.body.get("name"))
        if block.kind == "document" and name is not None:
            other = names.setdefault(name.casefold(), name)
            if other != name:
                yield (
                    f"{block.place}.document.name",
                    f"Messages can't contain duplicate document names: {readable(name)}.",
                )


def check_images(history: History) -> Iterator[Fault]:
    """Check BE07**: a message holds 20 images at most, those of its results included."""
    images = (block.parent for block in history.shown if block.kind == "image")
    counts = Counter(parent.partition(".")[0] for parent in images)
    for place, count in counts.items():
        if count > _MAX_IMAGES:
            yield place, f"{count} images in one message, and {_MAX_IMAGES} is the maximum."
