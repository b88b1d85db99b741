"""`show`, `prompt`, `tools`, `stats`: what the log says, and what comes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import msgspec
import typer

from eventstore import EventStore, Recorded, Tool
from projections.cli.options import (
    URL,
    AnyConversationId,
    ConversationId,
    Json,
    Provider,
    Url,
    existing,
    known_provider,
    open_store,
)
from projections.cli.output import (
    clean,
    is_terminal,
    print_json,
    print_json_line,
    room,
    say,
    show_table,
)
from projections.cli.projecting import Rebuild, Tables, kept_up
from projections.cli.requests import request_lines
from projections.history import model_history
from projections.repair import Repair
from projections.replay import WIDTH, describe
from projections.statistics import error_statistics
from projections.text import arguments_text, duration, plural, share, table
from projections.tools import CurrentTools
from projections.view import Collapse, OpenCalls

if TYPE_CHECKING:
    from projections.projector import TimeBucket

Choice = Literal["pending", "approved", "running", "completed", "failed", "rejected"]

CollapseOption = Annotated[
    str,
    typer.Option(
        "--collapse", help=f"Repeated calls to leave out: {', '.join(get_args(Collapse))}."
    ),
]
OpenCallsOption = Annotated[
    str,
    typer.Option("--open-calls", help=f"Calls without a result: {', '.join(get_args(OpenCalls))}."),
]
LastTurns = Annotated[
    int | None, typer.Option("--last-turns", min=1, help="Only so many turns of the model.")
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", min=1, help="Only what fits, as tiktoken (o200k_base) counts."),
]
Since = Annotated[
    int | None,
    typer.Option("--since", min=1, metavar="VERSION", help="Only what happened from it on."),
]
Summary = Annotated[
    str | None, typer.Option("--summary", help="A text in place of the turns that are cut off.")
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Also what the model sees turn by turn, and why.")
]
Repairs = Annotated[bool, typer.Option("--repairs", help="Also what was changed, and why.")]
Status = Annotated[
    str | None,
    typer.Option("--status", help=f"Only calls that are {', '.join(get_args(Choice))}."),
]

Every = Annotated[
    str | None,
    typer.Option("--every", metavar="TIME", help="Over time, from --tables: 1h, 7d."),
]
From = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Calls asked for from then on (UTC).")
]
To = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="Calls asked for before then (UTC).")
]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def event_fields(recorded: Recorded) -> dict[str, Any]:
    """An event and its place, for JSON."""
    fields: dict[str, Any] = msgspec.to_builtins(recorded)
    fields["tag"] = recorded.event.tag
    fields["event"] = fields.pop("event")
    return fields


def tool_fields(tool: Tool) -> dict[str, Any]:
    """A call as it stands, for JSON: every field is there, whatever it is."""
    return {**msgspec.structs.asdict(tool), "status": {
        "state": tool.status.name, **msgspec.structs.asdict(tool.status)
    }}  # fmt: skip


def moment(microseconds: int) -> str:
    """A time of the log, UTC."""
    try:
        then = datetime.fromtimestamp(microseconds / 1_000_000, UTC)
    except (OverflowError, OSError, ValueError):  # a log made by hand
        return str(microseconds)
    return then.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def event_line(recorded: Recorded) -> str:
    """An event on one line, for people."""
    width = WIDTH if is_terminal() else None
    line = (
        f"{recorded.version:>6}  {moment(recorded.recorded_at)}  {recorded.event.tag:<13}  "
        f"{describe(recorded, width)}"
    )
    return clean(line, kept="")


def show(
    conversation_id: AnyConversationId = None, url: Url = URL, *, as_json: Json = False
) -> None:
    """Show the events of a conversation; without an id, list the conversations."""
    with open_store(url) as store:
        if conversation_id is None:
            _show_all(store, as_json=as_json)
            return
        for recorded in existing(store, conversation_id).events():
            if as_json:
                print_json_line(event_fields(recorded))
            else:
                say(event_line(recorded))


def _show_all(store: EventStore, *, as_json: bool) -> None:
    if as_json:
        for name, version in store.conversations():
            print_json_line({"conversation_id": name, "version": version})
        return
    show_table(("conversation", "events"), store.conversations(), right=("events",))


def prompt(  # noqa: PLR0913 - its options
    conversation_id: ConversationId,
    provider: Provider = "openai",
    collapse: CollapseOption = "failed",
    open_calls: OpenCallsOption = "answer",
    last_turns: LastTurns = None,
    url: Url = URL,
    *,
    max_tokens: MaxTokens = None,
    since: Since = None,
    summary: Summary = None,
    repairs: Repairs = False,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """Show the next prompt: what the model would see now, valid for a provider."""
    known_provider(provider)
    _one_of(collapse, get_args(Collapse), "--collapse")
    _one_of(open_calls, get_args(OpenCalls), "--open-calls")
    with open_store(url) as store:
        chat = existing(store, conversation_id)
        if since is not None and since > chat.version:
            raise typer.BadParameter(
                f"{since}: pass a version of the conversation, which is at {chat.version}",
                param_hint="--since",
            )
        history = model_history(
            chat.events(),
            collapse=cast("Collapse", collapse),
            open_calls=cast("OpenCalls", open_calls),
            last_turns=last_turns,
            max_tokens=max_tokens,
            since=since,
            summary=summary,
        )
    arguments, made = history.rendered(provider)
    told = history.explain(provider) if explain else None
    if as_json:
        more: dict[str, Any] = {"repairs": made} if repairs or explain else {}
        more |= {"explanation": told} if explain else {}
        print_json({"arguments": arguments, **more} if more else arguments)
        return
    for line in request_lines(arguments):
        say(line)
    if repairs:
        say()
        show_repairs(made)
    if told is not None:
        say()
        say(told)


def show_repairs(repairs: list[Repair]) -> None:
    """What was changed to make a history valid, as a table."""
    if not repairs:
        say("nothing had to be repaired")
        return
    show_table(
        ("repair", "rule", "call", "events", "why"),
        [(r.what, r.rule, r.call_id, ", ".join(map(str, r.versions)), r.why) for r in repairs],
    )


def tools(
    conversation_id: AnyConversationId = None,
    status: Status = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """List the tool calls as they stand now, of one conversation or of all."""
    if status is not None:
        _one_of(status, get_args(Choice), "--status")
    with open_store(url) as store:
        calls = [
            (name, tool)
            for name, tool in CurrentTools().extend(_events(store, conversation_id)).calls()
            if status is None or tool.status.name.lower() == status
        ]
    if as_json:
        print_json([{"conversation_id": name, **tool_fields(tool)} for name, tool in calls])
        return
    width = room(60)
    show_table(
        ("conversation", "call", "tool", "status", "attempts", "arguments"),
        [
            (name, tool.id, tool.call.name, tool.status.name, tool.attempts,
             arguments_text(tool.effective_call, width))
            for name, tool in calls
        ],
        right=("attempts",),
    )  # fmt: skip
    counts = Counter(tool.status.name.lower() for _, tool in calls)
    say(f"{len(calls):,} calls" + "".join(f", {n:,} {name}" for name, n in sorted(counts.items())))


def _events(store: EventStore, conversation_id: str | None) -> Iterable[Recorded]:
    """The events of a conversation; without an id, of all."""
    return store.read() if conversation_id is None else existing(store, conversation_id).events()


def stats(
    conversation_id: AnyConversationId = None,
    tables: Tables = None,
    every: Every = None,
    from_: From = None,
    to: To = None,
    url: Url = URL,
    *,
    rebuild: Rebuild = False,
    as_json: Json = False,
) -> None:
    """Count what became of the tool calls: failures, retries, rejections, times."""
    over_time = not (every is None and from_ is None and to is None)
    if tables is None and over_time:
        raise typer.BadParameter("numbers over time are read from --tables: pass a database's URL")
    if tables is None and rebuild:
        raise typer.BadParameter("only --tables are built anew: pass a database's URL with it")
    if tables is not None and conversation_id is not None:
        raise typer.BadParameter(
            "they count all conversations: leave out ID", param_hint="--tables"
        )
    span = (_time(from_, "--from"), _time(to, "--to"), _duration(every))
    found: Any
    with open_store(url) as store:
        if tables is None:
            found = error_statistics(_events(store, conversation_id))
        else:
            with kept_up(store, tables, rebuild=rebuild) as projector:
                found = projector.timeline(*span) if over_time else projector.statistics()
    if as_json:
        print_json(found)
    elif over_time:
        _show_timeline(found)
    else:
        say(str(found))


def _show_timeline(buckets: list[TimeBucket]) -> None:
    heads = ("from", "calls", "done", "failed", "unknown", "rejected", "failures", "retries",
             "recovered", "repeated", "1st try", "p50", "p95")  # fmt: skip
    rows = [
        (
            f"{bucket.start:%Y-%m-%d %H:%M:%S}", n.calls, n.completions, n.terminal_failures,
            n.outcome_unknown, n.rejections, n.failures, n.retries, n.recovered, n.repeated,
            share(n.first_try_success_rate), duration(n.running.p50), duration(n.running.p95),
        )
        for bucket in buckets
        for n in (bucket.overall,)
    ]  # fmt: skip
    for line in table(heads, rows, left=heads[:1]):
        say(line)
    say(f"{plural(sum(bucket.overall.calls for bucket in buckets), 'call')} of that time")


def _time(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    try:
        then = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r}: pass a time, for example 2026-01-31T12:00", param_hint=option
        ) from error
    return then if then.tzinfo else then.replace(tzinfo=UTC)


def _duration(text: str | None) -> timedelta | None:
    if text is None:
        return None
    number, unit = text[:-1], _UNITS.get(text[-1:])
    if unit is None or not (number.isascii() and number.isdigit() and len(number) < 7):  # noqa: PLR2004
        raise typer.BadParameter(f"{text!r}: pass for example 30m, 1h or 7d", param_hint="--every")
    return timedelta(**{unit: int(number)})


def _one_of(value: str, known: tuple[str, ...], option: str) -> None:
    if value not in known:
        raise typer.BadParameter(f"{value!r}: pass one of {', '.join(known)}", param_hint=option)
