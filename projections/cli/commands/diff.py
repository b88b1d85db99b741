"""`diff`: what a second run did otherwise, or what the model saw at two versions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Annotated

import typer

from eventstore import Recorded
from projections.cli.options import (
    URL,
    Json,
    Provider,
    Url,
    known_provider,
    named,
    open_store,
)
from projections.cli.output import print_json, say
from projections.debugging.log_diff import LogDiff
from projections.debugging.log_diff import diff as compared
from projections.debugging.prompt_diff import PromptDiff, prompt_diff
from projections.history.projection import model_history

Before = Annotated[str, typer.Argument(metavar="ID", help="The first conversation's id.")]
After = Annotated[
    str | None,
    typer.Argument(metavar="OTHER", help="The second conversation's id; with --prompts optional."),
]
Prompts = Annotated[
    str | None,
    typer.Option(
        "--prompts",
        metavar="V:W",
        help="Compare what the model saw at version V of ID with version W of OTHER, or of ID.",
    ),
]


def diff(
    before: Before,
    after: After = None,
    prompts: Prompts = None,
    provider: Provider = "openai",
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Compare the calls of two conversations, or two prompts; the status is 1 if they differ."""
    name = known_provider(provider)
    if after is None and prompts is None:
        raise typer.BadParameter("pass OTHER, or --prompts V:W for two versions of ID")
    versions = None if prompts is None else _versions(prompts)
    with open_store(url) as store:
        logs = [named(store, before).events(), named(store, after or before).events()]
        found: LogDiff | PromptDiff
        if versions is None:
            found = compared(*logs)
        else:
            cut = [_up_to(*pair) for pair in zip(logs, versions, strict=True)]
            found = prompt_diff(*(model_history(events).render(name) for events in cut))
    if as_json:
        print_json(found)
    else:
        say(str(found))
    if found:
        raise typer.Exit(1)


def _versions(text: str) -> tuple[int, int]:
    given = re.fullmatch(r"(\d+):(\d+)", text)
    if given is None:
        raise typer.BadParameter(f"{text!r}: pass two versions, as 12:40", param_hint="--prompts")
    return int(given[1]), int(given[2])


def _up_to(events: Iterable[Recorded], version: int) -> list[Recorded]:
    """Return the events up to a version.

    Raises:
        BadParameter: there is no such version.
    """
    kept = list(takewhile(lambda recorded: recorded.version <= version, events))
    if not kept or kept[-1].version != version:
        last = kept[-1].version if kept else 0
        raise typer.BadParameter(
            f"version {version}: pass one from 1 to {last}", param_hint="--prompts"
        )
    return kept
