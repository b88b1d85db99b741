"""Bundles for an auditor: chosen events as a folder that is checked without this library."""

from __future__ import annotations

from projections.audit.about import Bundle
from projections.audit.bundle import AboutSubject, Span, about_subject, write_bundle

__all__ = ["AboutSubject", "Bundle", "Span", "about_subject", "write_bundle"]
