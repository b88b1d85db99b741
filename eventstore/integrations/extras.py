"""The error for a framework that is not installed."""

from __future__ import annotations

from typing import Final

_NAMESPACES: Final = ("google",)  # several distributions put packages into these


def missing_extra(extra: str, error: ImportError) -> ImportError:
    """Return the error that says how to install what an integration needs."""
    names = (error.name or extra).split(".")
    package = ".".join(names[: 2 if names[0] in _NAMESPACES else 1])
    return ImportError(
        f"{package} is not installed: pip install 'toolledger[{extra}]'",
        name=error.name,
    )
