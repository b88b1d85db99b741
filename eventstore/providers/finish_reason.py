"""Why a response ended, as its provider says: in the SDK's object or in its JSON."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from eventstore.domain.finish_reasons import ending_of
from eventstore.domain.value_paths import Path, values_at
from eventstore.providers.registry import PROVIDERS, adapter_of


def finish_reason_of(response: object, provider: str | None) -> str | None:
    """Return why a response, or a message of one, ended, as its provider says; None if not said.

    Where several members tell, one that says the response is not whole counts. Without a provider
    the members of all are read: a framework hands on what it got from any of them.
    """
    names = PROVIDERS if provider is None else (provider,)
    paths = [path for name in names for path in adapter_of(name).response_members.finish_reason]
    return _ended(response, provider, paths)


def _ended(response: object, provider: str | None, paths: Sequence[Path]) -> str | None:
    said = [reason for path in paths if (reason := text_at(response, (path,)))]
    cut_off = (reason for reason in said if ending_of(provider, reason) != "whole")
    return next(cut_off, said[0] if said else None)


def text_at(response: object, paths: tuple[Path, ...]) -> str | None:
    """Return the first text at one of the paths, or None."""
    for path in paths:
        for value in values_at(response, path):
            text = value.value if isinstance(value, Enum) else value
            if isinstance(value, Enum) and not isinstance(text, str):
                text = value.name  # the older SDK of Gemini numbers them
            if isinstance(text, str):
                return text
    return None
