"""`what-if`: what other policies would have decided in a recorded conversation."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Annotated, cast, get_args

import typer

from eventstore import (
    ErrorKind,
    ErrorKindSet,
    RetryPolicy,
    ToolErrorPolicy,
    ToolGate,
    ToolGateContext,
    ToolPending,
)
from projections.cli.commands.show import CollapseOption
from projections.cli.imports_on_the_way import store_with
from projections.cli.options import (
    URL,
    Json,
    Provider,
    ReadId,
    Url,
    known_provider,
    named,
    one_of,
)
from projections.cli.output import print_json, say
from projections.cli.windows import LastTurns, MaxTokens, marks_in
from projections.debugging.what_if import what_if as judged
from projections.formatting import did_you_mean
from projections.history.options import Collapse
from projections.history.token_counter import estimate_tokens

EndOn = Annotated[
    list[ErrorKind] | None,
    typer.Option("--end-on", help="End the run on errors of this kind. Repeat it for more."),
]
Attempts = Annotated[
    int | None, typer.Option("--attempts", min=1, help="Run each call at most N times.")
]
Hide = Annotated[
    list[str] | None,
    typer.Option("--hide", metavar="TOOL", help="Hide this tool. Repeat it for more."),
]


def what_if(  # noqa: PLR0913 - a parameter for each option
    conversation_id: ReadId,
    end_on: EndOn = None,
    attempts: Attempts = None,
    hide: Hide = None,
    collapse: CollapseOption = "earlier",
    last_turns: LastTurns = None,
    provider: Provider = "openai",
    url: Url = URL,
    *,
    max_tokens: MaxTokens = None,
    as_json: Json = False,
) -> None:
    """Say what other policies would have ended, retried, hidden and left out. Nothing runs.

    Sizes are in tokens, by an estimate.
    """
    wanted = known_provider(provider)
    one_of(collapse, get_args(Collapse), "--collapse")
    with store_with(url, conversation_id) as (store, name):
        events = list(named(store, name).events())
    names = {each.event.call.name for each in events if isinstance(each.event, ToolPending)}
    for name in hide or ():
        if name not in names:
            raise typer.BadParameter(
                f"there is no call of a tool {name!r}{did_you_mean(name, names)}",
                param_hint="--hide",
            )
    found = judged(
        events,
        errors=ToolErrorPolicy(ErrorKindSet.of(*end_on)) if end_on else None,
        retries=None if attempts is None else RetryPolicy(attempts),
        gates=[Hidden(hide)] if hide else (),
        provider=wanted,
        counter=estimate_tokens,
        collapse=cast("Collapse", collapse),
        last_turns=marks_in(last_turns),
        max_tokens=marks_in(max_tokens),
    )
    if as_json:
        print_json(found)
    else:
        say(str(found))


class Hidden(ToolGate):
    """The gate that hides the tools of the option."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    def allowlist(self, context: ToolGateContext, /) -> AbstractSet[str] | None:
        """Return every other tool."""
        return set(context.available_tool_names) - self._names
