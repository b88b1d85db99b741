"""`fork`: a copy of a conversation up to a version, to continue from there otherwise."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.cli.options import (
    URL,
    ConversationId,
    Json,
    Url,
    existing,
    known_provider,
    open_store,
)
from projections.cli.output import print_json, say
from projections.history.projection import model_history

To = Annotated[str, typer.Argument(metavar="NEW", help="The id of the copy.")]
At = Annotated[int, typer.Option("--at", min=1, metavar="VERSION", help="The last version copied.")]
Prompt = Annotated[
    str | None,
    typer.Option("--prompt", metavar="PROVIDER", help="Print the copy's prompt, as JSON."),
]


def fork(
    conversation_id: ConversationId,
    to: To,
    at: At,
    prompt: Prompt = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Copy a conversation up to a version; its open calls never run in the copy."""
    provider = known_provider(prompt) if prompt is not None else None
    with open_store(url) as store:
        copy = existing(store, conversation_id).fork(at, to)
        version = copy.version
        arguments = model_history(copy.events()).render(provider) if provider else None
    if arguments is not None:
        print_json(arguments)
    elif as_json:
        print_json({"conversation_id": to, "version": version, "origin": conversation_id, "at": at})
    else:
        say(f"{to} is a copy of {conversation_id} up to version {at}, and at version {version}")
