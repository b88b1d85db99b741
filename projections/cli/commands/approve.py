"""`approvals`, `approve`, `reject`: a person decides, in a process of their own.

A decision is about one call with the arguments that were shown. With `--shown` they are given
back, and a call whose arguments are others is not touched.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from eventstore import Conversation, EventStore, FunctionCall, Tool
from projections.approvals import PendingApproval, pending_approvals
from projections.cli.options import URL, ConversationId, Json, Url, existing, open_store
from projections.cli.output import clean, print_json, room, say, show_table
from projections.cli.projecting import Tables, kept_up
from projections.cli.reading import moment, tool_fields
from projections.text import arguments_text, plural

CallId = Annotated[str, typer.Argument(metavar="CALL", help="The call's id.")]
Shown = Annotated[
    str | None,
    typer.Option(
        "--shown", metavar="JSON", help="The arguments that you were shown: it must have no others."
    ),
]
Edit = Annotated[
    str | None,
    typer.Option("--edit", metavar="JSON", help="Run it with these arguments instead."),
]
By = Annotated[str | None, typer.Option("--by", metavar="WHO", help="Who decides.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")]

SHOWN = 300
"""Characters of a call's arguments that a person is shown."""

_canonical = msgspec.json.Encoder(order="deterministic").encode


def approvals(tables: Tables = None, url: Url = URL, *, as_json: Json = False) -> None:
    """List the calls that wait for a person, in all conversations."""
    with open_store(url) as store:
        if tables is None:
            found = pending_approvals(store)
        else:
            with kept_up(store, tables) as projector:
                found = projector.pending_approvals()
    if as_json:
        print_json([_fields(approval) for approval in found])
        return
    arguments = [arguments_text(approval.call, room(SHOWN)) for approval in found]
    show_table(
        ("asked", "conversation", "call", "tool", "arguments"),
        [
            (moment(a.requested_at or 0), a.conversation_id, a.call_id, a.name, text)
            for a, text in zip(found, arguments, strict=True)
        ],
    )
    waits = "waits" if len(found) == 1 else "wait"
    say(f"{plural(len(found), 'call')} {waits} (toolledger approve CONVERSATION CALL)")
    if any(len(text) == room(SHOWN) for text in arguments):
        say("of long arguments only the beginning and the end are shown: --json has all")


def approve(
    conversation_id: ConversationId,
    call_id: CallId,
    shown: Shown = None,
    edit: Edit = None,
    by: By = None,
    reason: Reason = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Allow a call that waits, as it is or with other arguments."""
    edited = None if edit is None else _object(edit, "--edit")
    with open_store(url) as store:
        chat, tool = _waiting(store, conversation_id, call_id, shown)
        if edited is None and not tool.call.is_object:
            raise ValueError(
                f"the arguments of call {call_id!r} are no JSON object, so it cannot run: "
                "pass --edit with those it should have, or reject it"
            )
        done = chat.approve(call_id, edited, by, reason)
    # The first decision stands: who repeats it, or was second, is told whose it was.
    status: Any = done.status
    first = tool.is_pending and (status.by, status.reason) == (by, reason)
    _tell(
        "approved" if first else f"approved already, by {_who(status.by)}",
        chat,
        done,
        as_json=as_json,
    )


def reject(
    conversation_id: ConversationId,
    call_id: CallId,
    shown: Shown = None,
    by: By = None,
    reason: Reason = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Refuse a call that waits, for good."""
    with open_store(url) as store:
        chat, _ = _waiting(store, conversation_id, call_id, shown)
        done = chat.reject(call_id, reason, "human", by)
    _tell("rejected", chat, done, as_json=as_json)


def _waiting(
    store: EventStore, conversation_id: str, call_id: str, shown: str | None
) -> tuple[Conversation, Tool]:
    """The call to decide on, which is the one that was shown.

    Raises:
        ValueError: there is no such call, or it has other arguments.
    """
    chat = existing(store, conversation_id)
    tool = chat.tools.get(call_id)
    if tool is None:
        raise ValueError(
            f"conversation {conversation_id!r} has no call {call_id!r}: "
            "`toolledger approvals` lists those that wait"
        )
    if shown is not None and not is_shown(tool.call, shown):
        raise ValueError(
            f"call {call_id!r} has other arguments than those shown, nothing was decided; they "
            f"are: {arguments_text(tool.call, SHOWN)}"
        )
    return chat, tool


def is_shown(call: FunctionCall, shown: str) -> bool:
    """Whether `shown` are the call's arguments: the same canonical bytes, or the same raw text."""
    if call.raw is not None:
        return call.raw == shown
    return _canonical(call.arguments) == _canonical(_object(shown, "--shown"))


def _object(text: str, option: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{text!r} is no JSON: {error}", param_hint=option) from error
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{text!r} is no JSON object: {{...}}", param_hint=option)
    return value


def _tell(what: str, chat: Conversation, tool: Tool, *, as_json: bool) -> None:
    if as_json:
        print_json({"conversation_id": chat.id, **tool_fields(tool)})
        return
    call = tool.effective_call
    line = f"{call.name}({arguments_text(call, room(SHOWN))}), call {tool.id} of {chat.id}"
    say(f"{what}: {clean(line, kept='')}")


def _who(by: str | None) -> str:
    return by or "somebody who gave no name"


def _fields(approval: PendingApproval) -> dict[str, Any]:
    return msgspec.structs.asdict(approval)
