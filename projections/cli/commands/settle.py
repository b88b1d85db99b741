"""`doubts` and `settle`: the calls that may have taken effect, and what became of one.

A call is settled as it was shown. With `--shown` the user repeats its revision, and a call that was
started again by then is left as it is. Without it the word is about the call as the command finds
it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from eventstore import CallChanged
from projections.cli.commands.approve import (
    SHOWN_CHARACTERS,
    By,
    CallId,
    check_shown,
    not_as_shown,
    of_call,
    report_decision,
    short_revision,
)
from projections.cli.options import URL, ConversationId, Json, Url, open_store, same_store
from projections.cli.output import print_json, say, show_table, shown_width
from projections.doubts import doubts as find_doubts
from projections.doubts import result_of
from projections.formatting import arguments_text, plural, quoted_name, utc_text


def doubts(
    url: Url = URL,
    *,
    as_json: Json = False,
    fail_if_any: Annotated[
        bool, typer.Option("--fail-if-any", help="Exit with 1 if there is one: for an alert.")
    ] = False,
) -> None:
    """List the calls that may have taken effect, in all conversations."""
    with open_store(url) as store:
        found = find_doubts(store)
    if as_json:
        print_json([msgspec.structs.asdict(doubt) for doubt in found])
    else:
        width = shown_width(SHOWN_CHARACTERS)
        rows = [
            [
                utc_text(doubt.since or 0),
                quoted_name(doubt.conversation_id),
                quoted_name(doubt.call_id),
                quoted_name(doubt.name),
                short_revision(doubt.revision),
                arguments_text(doubt.call, width),
                doubt.why,
            ]
            for doubt in found
        ]
        show_table(
            ["since", "conversation", "call", "tool", "revision", "arguments", "doubt"], rows
        )
        command = same_store("toolledger settle CONVERSATION CALL --shown REVISION", url)
        say(f"{plural(len(found), 'call')} in doubt ({command})")
    if found and fail_if_any:
        raise typer.Exit(1)


def settle(  # noqa: PLR0913 - the options of the command
    conversation_id: ConversationId,
    call_id: CallId,
    completed: Annotated[
        str | None,
        typer.Option(
            "--completed",
            metavar="RESULT",
            help="It took effect, with this result: JSON, or a text.",
        ),
    ] = None,
    failed: Annotated[
        str | None,
        typer.Option("--failed", metavar="WHY", help="It took no effect, and never will."),
    ] = None,
    shown: Annotated[
        str | None,
        typer.Option(
            "--shown",
            metavar="REVISION",
            help="The revision that you were shown; a call that was started since is left as it "
            "is.",
        ),
    ] = None,
    by: By = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="How you know.")
    ] = None,
    url: Url = URL,
    *,
    run_again: Annotated[
        bool, typer.Option("--run-again", help="It took no effect: let it run again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what became of a call that may have taken effect."""
    given: dict[str, Any] = {"run_again": True} if run_again else {}
    given |= {} if completed is None else {"completed": result_of(completed)}
    given |= {} if failed is None else {"failed": failed}
    if len(given) != 1:
        raise typer.BadParameter("pass one of --completed RESULT, --failed WHY and --run-again")
    with open_store(url) as store:
        chat, tool = of_call(store, conversation_id, call_id, "toolledger doubts")
        check_shown(tool, tool.effective_call, shown)
        try:
            done = chat.settle(call_id, seen=tool, by=by, reason=reason, **given)
        except CallChanged as changed:
            raise not_as_shown(changed.now) from changed
    said = "it may run again" if run_again else f"settled as {done.status.name.lower()}"
    report_decision(said, chat, done, as_json=as_json)
