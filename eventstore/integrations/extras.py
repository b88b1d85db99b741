"""The error for a framework that is not installed."""

from __future__ import annotations


def missing_extra(extra: str, error: ImportError) -> ImportError:
    """Return the error that says how to install what an integration needs."""
    package, _, _ = (error.name or extra).partition(".")
    return ImportError(
        f"{package} is not installed: pip install 'toolledger[{extra}]'",
        name=error.name,
    )
