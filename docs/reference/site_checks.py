"""What must hold for the built pages: every public name is there, and no page needs a network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Final

import eventstore
import projections
from eventstore import detectors, engines, providers, seals, testing

PUBLIC: Final[tuple[ModuleType, ...]] = (
    eventstore,
    projections,
    detectors,
    engines,
    providers,
    seals,
    testing,
)
"""The modules whose `__all__` is the public surface."""

_ANCHOR: Final = re.compile(r' id="(?P<name>[\w.]+)"')
_LOADED: Final = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?P<src>(?:https?:)?//[^\" >]+)"
    r"|<link\b(?=[^>]*\brel=\"?(?:stylesheet|preconnect|preload|icon))[^>]*"
    r"\bhref=\"?(?P<href>(?:https?:)?//[^\" >]+)"
)


def undocumented(pages: Iterable[str], modules: Iterable[ModuleType] = PUBLIC) -> list[str]:
    """Return the public names that no page has an anchor for."""
    anchors = {match["name"] for page in pages for match in _ANCHOR.finditer(page)}
    return [
        f"{module.__name__}.{name}"
        for module in modules
        for name in module.__all__
        if anchors.isdisjoint(_anchors_of(module, name))
    ]


def _anchors_of(module: ModuleType, name: str) -> Iterator[str]:
    yield f"{module.__name__}.{name}"
    defined_in = getattr(getattr(module, name), "__module__", None)
    if defined_in is not None:
        yield f"{defined_in}.{name}"


def loaded_from_elsewhere(page: str) -> list[str]:
    """Return the addresses of scripts, styles and pictures that a browser would fetch."""
    return [match["src"] or match["href"] for match in _LOADED.finditer(page)]
