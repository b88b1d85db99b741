"""`approvals`, `approve` and `reject`: a person decides about calls that wait.

A decision is about one call as it was shown. With `--shown` the user repeats its revision or its
arguments, and a call that is another one by then is left as it is. Without it the decision is about
the call as the command finds it.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated

import msgspec
import typer

from eventstore import (
    Approved,
    CallChanged,
    Conversation,
    EventStore,
    FunctionCall,
    Tool,
    UnparsedArguments,
)
from eventstore.domain.json_types import JsonObject
from projections.approvals import PendingApproval, pending_approvals
from projections.cli.commands.show import tool_fields
from projections.cli.options import (
    URL,
    ConversationId,
    Json,
    Tables,
    Url,
    caught_up,
    existing,
    open_store,
    same_store,
    seconds,
)
from projections.cli.output import print_json, say, show_table, shown_width
from projections.formatting import arguments_text, plural, quoted_name, utc_text

CallId = Annotated[str, typer.Argument(metavar="CALL", help="The call's id.")]
Shown = Annotated[
    str | None,
    typer.Option(
        "--shown",
        metavar="REVISION|JSON",
        help="The revision or the arguments that you were shown; nothing is decided if the call "
        "has others.",
    ),
]
Expires = Annotated[
    float | None,
    typer.Option(
        "--expires",
        metavar="SECONDS",
        parser=seconds,
        help="How long the call may start on this approval; after that it waits again.",
    ),
]
Edit = Annotated[
    str | None,
    typer.Option("--edit", metavar="JSON", help="Run the call with these arguments instead."),
]
By = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="The name of the person who decides.")
]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="The reason for the decision.")
]

SHOWN_CHARACTERS = 300
"""Characters of a call's arguments that a terminal shows."""

REVISION_DIGITS = 8
"""Digits of a revision's digest that the list shows, and the least that `--shown` takes."""

_REVISION = re.compile(rf"[0-9]+\.[0-9]+\.[0-9a-f]{{{REVISION_DIGITS},}}")

_canonical = msgspec.json.Encoder(order="deterministic").encode


def approvals(tables: Tables = None, url: Url = URL, *, as_json: Json = False) -> None:
    """List the calls that wait for a person, in all conversations."""
    with open_store(url) as store:
        if tables is None:
            found = pending_approvals(store)
        else:
            with caught_up(store, tables) as projector:
                found = projector.pending_approvals()
    if as_json:
        print_json([_fields(approval) for approval in found])
        return
    arguments = [arguments_text(approval.call, shown_width(SHOWN_CHARACTERS)) for approval in found]
    rows = [
        [
            utc_text(a.requested_at or 0),
            quoted_name(a.conversation_id),
            quoted_name(a.call_id),
            quoted_name(a.name),
            short_revision(a.revision),
            text,
        ]
        for a, text in zip(found, arguments, strict=True)
    ]
    heads = ["asked", "conversation", "call", "tool", "revision", "arguments"]
    if any(a.equal_calls for a in found):
        heads.append("equal to")
        for row, approval in zip(rows, found, strict=True):
            row.append(", ".join(map(quoted_name, approval.equal_calls)))
    if any(a.until is not None or a.reason for a in found):
        heads.append("waits")
        for row, approval in zip(rows, found, strict=True):
            row.append(_waits(approval))
    show_table(heads, rows)
    waits = "waits" if len(found) == 1 else "wait"
    command = same_store("toolledger approve CONVERSATION CALL --shown REVISION", url)
    say(f"{plural(len(found), 'call')} {waits} ({command})")
    if any(len(text) == shown_width(SHOWN_CHARACTERS) for text in arguments):
        say("of long arguments only the beginning and the end are shown: --json has all")


def approve(  # noqa: PLR0913 - the options of the command
    conversation_id: ConversationId,
    call_id: CallId,
    shown: Shown = None,
    edit: Edit = None,
    by: By = None,
    reason: Reason = None,
    expires: Expires = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Allow a call that waits, as it is or with other arguments."""
    edited = None if edit is None else _object(edit, "--edit")
    lasts = None if expires is None else timedelta(seconds=expires)
    with open_store(url) as store, _refused_in_words():
        chat, tool = of_call(store, conversation_id, call_id)
        # An approval with an edit may come twice: it was decided on the call before the edit.
        check_shown(tool, tool.effective_call if tool.is_pending else tool.call, shown)
        done = chat.approve(call_id, edited, by, reason, seen=tool, expires=lasts)
    report_decision(_approval(tool, done, by, reason), chat, done, as_json=as_json)


def _approval(before: Tool, after: Tool, by: str | None, reason: str | None) -> str:
    """Return the outcome in words; for a later decision, with the author of the first one."""
    match after.status:
        case Approved(by=first_by, reason=first_reason) if not before.is_pending or (
            first_by,
            first_reason,
        ) != (by, reason):
            author = quoted_name(first_by) if first_by else "someone who gave no name"
            return f"approved already, by {author}"
        case _:
            return "approved"


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
    """Refuse a call that waits for a decision. It will never run."""
    with open_store(url) as store, _refused_in_words():
        chat, tool = of_call(store, conversation_id, call_id)
        check_shown(tool, tool.effective_call, shown)
        done = chat.reject(call_id, reason, "human", by, seen=tool)
    report_decision("rejected", chat, done, as_json=as_json)


@contextmanager
def _refused_in_words() -> Generator[None, None, None]:
    """Say what the call is now, or which option helps, where the log refuses a decision."""
    try:
        yield
    except CallChanged as changed:
        raise not_as_shown(changed.now) from changed
    except UnparsedArguments as error:
        raise ValueError(
            f"the arguments of call {error.call_id!r} are not a JSON object, so it cannot run: "
            "pass --edit with those it should have, or reject it"
        ) from error


def not_as_shown(tool: Tool) -> ValueError:
    """Return the error of a decision on another state of a call, with what it is now."""
    call = tool.effective_call
    return ValueError(
        f"call {tool.id!r} is not as it was shown, nothing was decided; it is {tool.status.name} "
        f"now, of revision {short_revision(str(tool.revision))}, with the arguments "
        f"{arguments_text(call, SHOWN_CHARACTERS)}"
    )


def of_call(
    store: EventStore, conversation_id: str, call_id: str, lists: str = "toolledger approvals"
) -> tuple[Conversation, Tool]:
    """Return the conversation and the call to decide on; the command `lists` those there are.

    Raises:
        ValueError: there is no such call.
    """
    is_empty = next(store.conversation(conversation_id).events(), None) is None
    if is_empty and next(store.conversation(call_id).events(), None) is not None:
        raise ValueError(f"{call_id!r} is the conversation: name it before the call")
    chat = existing(store, conversation_id)
    tool = chat.tools.get(call_id)
    if tool is None:
        raise ValueError(
            f"conversation {conversation_id!r} has no call {call_id!r}: "
            f"`{lists}` lists those there are"
        )
    return chat, tool


def check_shown(tool: Tool, call: FunctionCall, shown: str | None) -> None:
    """Raise an error unless `shown` is the revision of the call, or the arguments of `call`."""
    if shown is None:
        return
    if _REVISION.fullmatch(shown):
        is_same = str(tool.revision).startswith(shown)
    else:
        is_same = is_shown(call, shown)
    if not is_same:
        raise not_as_shown(tool)


def short_revision(revision: str) -> str:
    """Return a revision with the beginning of its digest."""
    counts, _, digest = revision.rpartition(".")
    return f"{counts}.{digest[:REVISION_DIGITS]}"


def is_shown(call: FunctionCall, shown: str) -> bool:
    """Return whether `shown` are the call's arguments: equal canonical bytes, or equal raw text."""
    if call.raw is not None:
        return call.raw == shown
    return _canonical(call.arguments) == _canonical(_object(shown, "--shown"))


def _object(text: str, option: str) -> JsonObject:
    try:
        value = msgspec.json.decode(text, type=JsonObject)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(
            f"{text!r} is not a JSON object: {{...}}", param_hint=option
        ) from error
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{text!r} is not JSON: {error}", param_hint=option) from error
    if not FunctionCall.of(option, text).is_object:
        raise typer.BadParameter(f"{text!r} has a key twice", param_hint=option)
    return value


def report_decision(decision: str, chat: Conversation, tool: Tool, *, as_json: bool) -> None:
    """Print what was decided on a call."""
    if as_json:
        print_json({"conversation_id": chat.id, **tool_fields(tool)})
        return
    call = tool.effective_call
    arguments = arguments_text(call, shown_width(SHOWN_CHARACTERS))
    name, call_id, conversation_id = map(quoted_name, (call.name, tool.id, chat.id))
    say(f"{decision}: {name}({arguments}), call {call_id} of {conversation_id}")


def _waits(approval: PendingApproval) -> str:
    """Return until when and why a call that paused, or was deferred, waits."""
    until = "" if approval.until is None else f"until {utc_text(approval.until)}"
    return ": ".join(filter(None, (until, approval.reason)))


def _fields(approval: PendingApproval) -> JsonObject:
    return msgspec.structs.asdict(approval)
