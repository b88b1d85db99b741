"""`show`, `prompt`, `tools` and `stats`: the log, and what is read from it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

import msgspec
import typer

from eventstore import (
    Conversation,
    EventStore,
    Prices,
    PriceTable,
    Recorded,
    Tool,
)
from eventstore.domain.json_types import JsonObject
from projections.cli.event_filters import Limit, Page, filtered, place_of, time_of
from projections.cli.imports_on_the_way import store_with
from projections.cli.options import (
    URL,
    AnyReadId,
    Json,
    Model,
    Provider,
    ReadId,
    ReadOnly,
    Rebuild,
    Tables,
    Url,
    Workers,
    caught_up,
    known_provider,
    named,
    one_of,
)
from projections.cli.output import (
    clean,
    complain,
    is_terminal,
    print_json,
    print_json_line,
    say,
    show_table,
    shown_width,
)
from projections.cli.windows import LastTurns, MaxTokens, marks_in
from projections.current_tools import CurrentTools
from projections.debugging.conversation_summary import summary_of
from projections.debugging.event_filter import EventFilter
from projections.debugging.request_outline import request_lines
from projections.formatting import arguments_text, duration, plural, share, table, utc_text
from projections.history.entries import Repair
from projections.history.options import Collapse, OpenCalls
from projections.history.projection import model_history
from projections.projection import outlined
from projections.replay import SHOWN_CHARACTERS, describe
from projections.statistics.projection import error_statistics
from projections.statistics.usage import UsageStatistics

if TYPE_CHECKING:
    from projections.projector import TimeBucket
    from projections.statistics.results import Statistics
    from projections.statistics.usage import UsageReport

StatusName = Literal["pending", "approved", "running", "completed", "failed", "rejected"]

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
Shorten = Annotated[
    bool,
    typer.Option("--shorten", help="With --max-tokens: no result takes more than a quarter of it."),
]
Since = Annotated[
    int | None,
    typer.Option(
        "--since", min=1, metavar="VERSION", help="Only what happened from this version on."
    ),
]
Summary = Annotated[
    str | None, typer.Option("--summary", help="A text in place of the turns that are left out.")
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain", help="Say turn by turn what the model sees, and why, in place of it."
    ),
]
Repairs = Annotated[bool, typer.Option("--repairs", help="Also show what was changed, and why.")]
Status = Annotated[
    str | None,
    typer.Option("--status", help=f"Only calls that are {', '.join(get_args(StatusName))}."),
]

Every = Annotated[
    str | None,
    typer.Option("--every", metavar="TIME", help="Count by time span (UTC), of --tables: 1h, 7d."),
]
PriceSource = Annotated[
    str | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        help="A price table for the usage, as JSON.",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="With --tables: only calls requested from this time on (UTC). Otherwise as --since.",
    ),
]
At = Annotated[
    int | None,
    typer.Option("--at", min=1, metavar="VERSION", help="As after this version, and not now."),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Only calls requested before this time (UTC)."),
]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def event_fields(recorded: Recorded) -> JsonObject:
    """Return an event and its place, for JSON."""
    fields: JsonObject = msgspec.to_builtins(recorded)
    fields["tag"] = recorded.event.tag
    fields["event"] = fields.pop("event")
    return fields


def tool_fields(tool: Tool) -> JsonObject:
    """Return a call as it stands, for JSON, with every field of it."""
    status = {"state": tool.status.name, **msgspec.structs.asdict(tool.status)}
    return {**msgspec.structs.asdict(tool), "status": status}


def event_line(recorded: Recorded, *, whole: bool = False, mark: str = " ") -> str:
    """Return an event on one line, for people; a terminal gets its beginning if not the `whole`."""
    width = SHOWN_CHARACTERS if is_terminal() and not whole else None
    line = (
        f"{recorded.version:>6}  {utc_text(recorded.time)}{mark} {recorded.event.tag:<13}  "
        f"{describe(recorded, width)}"
    )
    return clean(line, kept="")


@filtered()
def show(
    conversation_id: AnyReadId = None,
    limit: Limit = None,
    url: Url = URL,
    *,
    chosen: EventFilter,
    as_json: Json = False,
    read_only: ReadOnly = False,
) -> None:
    """Show the events of a conversation; without an id, list the conversations."""
    with store_with(url, conversation_id, read_only=read_only) as (store, name):
        if name is None:
            if chosen or limit is not None:
                raise typer.BadParameter("pass the ID of a conversation to choose events of it")
            _show_all(store, as_json=as_json)
            return
        page = Page(limit)
        chat = named(store, name)
        latest, goes_back = 0, False
        for recorded in chosen.select(chat.events()):
            if not page.takes(recorded):
                break
            if as_json:
                print_json_line(event_fields(recorded))
                continue
            is_earlier = recorded.time < latest
            say(event_line(recorded, mark="<" if is_earlier else " "))
            latest, goes_back = max(latest, recorded.time), goes_back or is_earlier
        if goes_back:
            complain("< is earlier than an event before it: the clocks of its writers differ")
        page.close(chat.version)


def _show_all(store: EventStore, *, as_json: bool) -> None:
    listed = (summary_of(store.conversation(name)) for name, _ in store.conversations())
    if as_json:
        for summary in listed:
            print_json_line(summary)
        return
    rows = [
        (
            summary.conversation_id,
            summary.version,
            utc_text(summary.last_at),
            summary.calls,
            summary.failed,
            summary.error_results,
            summary.open,
            summary.tokens,
            summary.last,
        )
        for summary in listed
    ]
    shown = [at for at, head in enumerate(_HEADS) if head != _ERRORS or any(r[at] for r in rows)]
    show_table(
        [_HEADS[at] for at in shown],
        [[row[at] for at in shown] for row in rows],
        right=("events", "calls", "failed", _ERRORS, "open", "tokens"),
    )


_ERRORS = "said an error"
"""Completed calls whose result says an error: statistics do not count them as failed."""
_HEADS = (
    *("conversation", "events", "last", "calls", "failed", _ERRORS, "open", "tokens", "ends with"),
)


def _up_to(chat: Conversation, at: int | None) -> Iterator[Recorded]:
    """Return the events of a conversation, up to a version where one is given.

    Raises:
        BadParameter: the conversation has no such version.
    """
    if at is not None and at > chat.version:
        raise typer.BadParameter(
            f"{at}: pass a version of the conversation, which is at {chat.version}",
            param_hint="--at",
        )
    return takewhile(lambda recorded: at is None or recorded.version <= at, chat.events())


def prompt(  # noqa: PLR0913 - a parameter for each option
    conversation_id: ReadId,
    provider: Provider = "openai",
    collapse: CollapseOption = "earlier",
    open_calls: OpenCallsOption = "answer",
    last_turns: LastTurns = None,
    url: Url = URL,
    *,
    max_tokens: MaxTokens = None,
    shorten: Shorten = False,
    since: Since = None,
    summary: Summary = None,
    repairs: Repairs = False,
    explain: Explain = False,
    model: Model = None,
    at: At = None,
    as_json: Json = False,
) -> None:
    """Show the next prompt, valid for a provider: what the model would see now, or saw then."""
    known = known_provider(provider)
    one_of(collapse, get_args(Collapse), "--collapse")
    one_of(open_calls, get_args(OpenCalls), "--open-calls")
    with store_with(url, conversation_id) as (store, name):
        chat = named(store, name)
        if since is not None and since > chat.version:
            raise typer.BadParameter(
                f"{since}: pass a version of the conversation, which is at {chat.version}",
                param_hint="--since",
            )
        history = model_history(
            _up_to(chat, at),
            collapse=cast("Collapse", collapse),
            open_calls=cast("OpenCalls", open_calls),
            last_turns=marks_in(last_turns),
            max_tokens=marks_in(max_tokens),
            results="shorten" if shorten else "whole",
            since=since,
            summary=summary,
            model=model,
        )
    arguments, changes = history.rendered(known)
    explanation = history.explain(known) if explain else None
    if as_json:
        more: dict[str, object] = {"repairs": changes} if repairs or explain else {}
        more |= {"explanation": explanation} if explain else {}
        print_json({"arguments": arguments, **more} if more else arguments)
        return
    if explanation is not None:
        say(explanation)
    else:
        for line in request_lines(arguments):
            say(line)
    if repairs:
        say()
        show_repairs(changes)


def show_repairs(repairs: list[Repair]) -> None:
    """Print what was changed to make a history valid, as a table."""
    if not repairs:
        say("nothing had to be repaired")
        return
    show_table(
        ("repair", "rule", "call", "events", "why"),
        [(r.what, r.rule, r.call_id, ", ".join(map(str, r.versions)), r.why) for r in repairs],
    )


@filtered()
def tools(
    conversation_id: AnyReadId = None,
    status: Status = None,
    url: Url = URL,
    *,
    chosen: EventFilter,
    as_json: Json = False,
) -> None:
    """List the tool calls as they stand now, of one conversation or of all."""
    if status is not None:
        one_of(status, get_args(StatusName), "--status")
    with store_with(url, conversation_id) as (store, wanted):
        calls = [
            (name, tool)
            for name, tool in CurrentTools().extend(_events(store, wanted, chosen)).calls()
            if status is None or tool.status.name.lower() == status
        ]
    if as_json:
        print_json([{"conversation_id": name, **tool_fields(tool)} for name, tool in calls])
        return
    width = shown_width(60)
    show_table(
        ("conversation", "call", "tool", "status", "attempts", "arguments"),
        [
            (
                name,
                tool.id,
                tool.call.name,
                tool.status.name + (" (in doubt)" if tool.ended_in_doubt else ""),
                tool.attempts,
                arguments_text(tool.effective_call, width),
            )
            for name, tool in calls
        ],
        right=("attempts",),
    )
    counts = Counter(tool.status.name.lower() for _, tool in calls)
    say(f"{len(calls):,} calls" + "".join(f", {n:,} {name}" for name, n in sorted(counts.items())))


def _events(
    store: EventStore, conversation_id: str | None, chosen: EventFilter
) -> Iterable[Recorded]:
    """Return the events of a conversation, without an id of all; with a filter, of those calls."""
    events = store.read() if conversation_id is None else named(store, conversation_id).events()
    return chosen.whole_calls(events) if chosen else events


@filtered(has_from=False)
def stats(  # noqa: PLR0913 - a parameter for each option
    conversation_id: AnyReadId = None,
    tables: Tables = None,
    every: Every = None,
    from_: From = None,
    to: To = None,
    prices: PriceSource = None,
    url: Url = URL,
    *,
    chosen: EventFilter,
    rebuild: Rebuild = False,
    workers: Workers = 1,
    as_json: Json = False,
) -> None:
    """Count the results of the tool calls (failures, retries, times) and the models' usage."""
    if tables is None and from_ is not None:
        chosen, from_ = replace(chosen, since=place_of(from_, "--from")), None
    over_time = not (every is None and from_ is None and to is None)
    if tables is None and over_time:
        raise typer.BadParameter("--every and --to need --tables: pass a database's URL")
    if tables is None and rebuild:
        raise typer.BadParameter("--rebuild needs --tables: pass a database's URL")
    if workers > 1 and not rebuild:
        raise typer.BadParameter("--workers needs --rebuild: pass both")
    if tables is not None and conversation_id is not None:
        raise typer.BadParameter(
            "the tables count all conversations: leave out ID", param_hint="--tables"
        )
    if tables is not None and chosen:
        raise typer.BadParameter(
            "the tables count all calls: leave out what chooses calls", param_hint="--tables"
        )
    if tables is not None and prices is not None:
        raise typer.BadParameter(
            "the tables keep the costs as they were recorded: leave out --prices, or --tables",
            param_hint="--prices",
        )
    span = (_time(from_, "--from"), _time(to, "--to"), _duration(every))
    copies = conversation_id is not None
    used = UsageStatistics(_price_table(prices), copies=copies)
    with store_with(url, conversation_id) as (store, name):
        if tables is None:
            events = outlined(_events(store, name, chosen))
            found = error_statistics(_noted(events, used), copies=copies)
            _show_statistics(found, used.result(), as_json=as_json)
            return
        with caught_up(store, tables, rebuild=rebuild, processes=workers) as projector:
            if over_time:
                _show_timeline(projector.timeline(*span), as_json=as_json)
            else:
                _show_statistics(projector.statistics(), projector.usage(), as_json=as_json)


def _show_statistics(found: Statistics, usage: UsageReport, *, as_json: bool) -> None:
    """Print statistics, and the usage where there were responses."""
    if as_json:
        more = {"usage": usage} if usage.overall.responses else {}
        print_json({**msgspec.structs.asdict(found), **more})
    else:
        say(f"{found}\n\n{usage}" if usage.overall.responses else str(found))


def _price_table(source: str | None) -> Prices | None:
    if source is None:
        return None
    try:
        return PriceTable.read(source)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--prices") from error


def _noted(events: Iterable[Recorded], usage: UsageStatistics) -> Iterator[Recorded]:
    """Return the same events, and take them in, so that the log is read once."""
    for recorded in events:
        usage.apply(recorded)
        yield recorded


def _show_timeline(buckets: list[TimeBucket], *, as_json: bool) -> None:
    if as_json:
        print_json(buckets)
        return
    for line in table(_TIMELINE_HEADS, list(map(_timeline_row, buckets)), left=["from"]):
        say(line)
    say(f"{plural(sum(bucket.overall.calls for bucket in buckets), 'call')} of that time")


_TIMELINE_HEADS = (
    "from",
    "calls",
    "done",
    "failed",
    "unknown",
    "rejected",
    "failures",
    "retries",
    "recovered",
    "repeated",
    "1st try",
    "p50",
    "p95",
)


def _timeline_row(bucket: TimeBucket) -> tuple[str | int, ...]:
    counts = bucket.overall
    return (
        f"{bucket.start:%Y-%m-%d %H:%M:%S}",
        counts.calls,
        counts.completions,
        counts.terminal_failures,
        counts.outcome_unknown,
        counts.rejections,
        counts.failures,
        counts.retries,
        counts.recovered,
        counts.repeated,
        share(counts.first_try_success_rate),
        duration(counts.running.p50),
        duration(counts.running.p95),
    )


def _time(text: str | None, option: str) -> datetime | None:
    return None if text is None else time_of(text, option, "a time, for example 2026-01-31T12:00")


def _duration(text: str | None) -> timedelta | None:
    if text is None:
        return None
    number, unit = text[:-1], _UNITS.get(text[-1:])
    if unit is None or not re.fullmatch(r"[0-9]{1,6}", number):
        raise typer.BadParameter(f"{text!r}: pass for example 30m, 1h or 7d", param_hint="--every")
    return timedelta(**{unit: int(number)})
