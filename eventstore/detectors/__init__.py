"""Rules that find what must not be stored, for `EventStore.open(url, redact=[...])`."""

from __future__ import annotations

from eventstore.detectors.libraries import phone_numbers
from eventstore.detectors.ready_made import CARD, EMAIL, IBAN, SECRET
from eventstore.detectors.rule import Find, Redact, Span

__all__ = [
    "CARD",
    "EMAIL",
    "IBAN",
    "SECRET",
    "Find",
    "Redact",
    "Span",
    "phone_numbers",
]
