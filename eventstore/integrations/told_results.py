"""What a framework tells the model of a call, as the log keeps it; see `eventstore.domain.told`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventstore.domain.told import Told
from eventstore.providers.model import ParsedResult
from eventstore.providers.native_form import without_restorable_native
from eventstore.providers.parsing import parse_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventstore.domain.json_types import JsonObject


def told_in(message: JsonObject, provider: str, result: object = None) -> Told | None:
    """Return what the only result in a message of a provider tells the model; None without one.

    A text as `result` is what a prompt of the log tells, too: it needs no form of its own.
    """
    found = next(_results_in(message, provider), None)
    if found is None:
        return None
    if result == found.text and without_restorable_native(found, provider).native is None:
        return None
    if found.native is None:
        return Told(found.text)
    return Told(found.text, provider, found.native)


def _results_in(message: JsonObject, provider: str) -> Iterator[ParsedResult]:
    return (item for item in parse_own([message], provider) if isinstance(item, ParsedResult))
