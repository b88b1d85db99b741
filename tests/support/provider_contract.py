"""The contract of providers, for those that are built in."""

from __future__ import annotations

from typing import Any

from support.provider_histories import FORMS

from eventstore.testing import ProviderContract
from projections import repair_messages


class BuiltInContract(ProviderContract):
    """The contract, with the exchanges that the properties use, too."""

    def __init_subclass__(cls) -> None:
        cls.opening = FORMS[cls.provider].opening

    def exchange(self, ids: list[str]) -> tuple[list[Any], list[Any]]:
        """Return calls, and the results that answer them."""
        return FORMS[self.provider].exchange(ids)

    def repaired(self, messages: Any) -> Any:
        """Return the repaired list."""
        return repair_messages(messages, self.provider).messages
