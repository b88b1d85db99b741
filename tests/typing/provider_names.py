"""A provider's name is checked by mypy and pyright: each ignored error here must be one.

mypy warns of an ignore that is not needed, so that the check fails when a typo is accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eventstore import AsyncConversation, Conversation, validate
from eventstore.providers import ProviderAdapter, RuleBook, known_provider, register
from projections import ModelHistory, repair_messages

if TYPE_CHECKING:
    from eventstore.providers import ProviderName


def names_of_built_in_providers(
    chat: Conversation, history: ModelHistory, name: ProviderName
) -> None:
    """Accept every name in `ProviderName`, and a variable of that type."""
    validate([], "cohere")
    repair_messages([], "openai", to="openai-responses")
    chat.record({}, provider="mistral")
    history.render(name)


def typos(chat: Conversation, history: ModelHistory, messages: list[Any]) -> None:
    """Refuse a name that does not exist in every public parameter for a provider."""
    validate(messages, "opnai")  # type: ignore[arg-type]
    repair_messages(messages, "opnai")  # type: ignore[arg-type]
    repair_messages(messages, "openai", to="antropic")  # type: ignore[arg-type]
    history.render("opnai")  # type: ignore[arg-type]
    history.repairs_for("opnai")  # type: ignore[arg-type]
    chat.record({}, "opnai")  # type: ignore[arg-type]
    chat.record_messages(messages, "opnai")  # type: ignore[arg-type]
    chat.import_messages(messages, "opnai")  # type: ignore[arg-type]


async def typos_in_the_asynchronous_handle(chat: AsyncConversation, messages: list[Any]) -> None:
    """Refuse the same names with asyncio."""
    await chat.record({}, "opnai")  # type: ignore[arg-type]
    await chat.record_messages(messages, "opnai")  # type: ignore[arg-type]
    await chat.import_messages(messages, "opnai")  # type: ignore[arg-type]


def other_names(adapter: ProviderAdapter, rules: RuleBook, name: str) -> None:
    """Accept a registered provider and a checked text, and refuse plain text."""
    acme = register(adapter, rules)
    validate([], acme)
    validate([], known_provider(name))
    validate([], name)  # type: ignore[arg-type]
