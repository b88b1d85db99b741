"""Bundles for an auditor: chosen events as a folder that is checked without this library."""

from __future__ import annotations

from projections.audit.about import Bundle
from projections.audit.bundle import Span, write_bundle

__all__ = ["Bundle", "Span", "write_bundle"]
