"""The options that commands share, and the stores and conversations they name."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Annotated

import typer

from eventstore import Conversation, EventStore
from eventstore.wire import PROVIDERS

URL = "sqlite:///toolledger.db"

tenant: ContextVar[str] = ContextVar("tenant", default="")
"""Whose log a command is about; it is said once, before the command."""

Url = Annotated[
    str,
    typer.Option("--url", envvar="TOOLLEDGER_URL", show_default=True, help="The store."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
ConversationId = Annotated[str, typer.Argument(metavar="ID", help="A conversation's id.")]
AnyConversationId = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="A conversation's id; without it, all.")
]
Provider = Annotated[
    str,
    typer.Option("--provider", help=f"Whose form: {', '.join(sorted(PROVIDERS))}."),
]


def open_store(url: str, *, create: bool = False) -> EventStore:
    """The store at a URL; one that is not there is made only by those that write."""
    try:
        return EventStore.open(url, create=create, tenant=tenant.get())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url") from error


def existing(store: EventStore, conversation_id: str) -> Conversation:
    """A conversation that has events.

    Raises:
        ValueError: it has none.
    """
    chat = store.conversation(conversation_id)
    if next(chat.events(), None) is None:
        raise ValueError(
            f"there is no conversation {conversation_id!r}: `toolledger show` lists them"
        )
    return chat


def known_provider(name: str) -> str:
    """The name of a provider whose form can be rendered."""
    if name not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise typer.BadParameter(f"{name!r}: pass one of {known}", param_hint="--provider")
    return name
