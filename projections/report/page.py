"""`html_report`: the page of one conversation, a single file that asks the network for nothing.

1. What is seen first (how it ended, counts, statistics) is HTML, which the template escapes.
2. The rest is data in blocks that no browser runs: JSON, compressed, as base64. The page's script
   makes text of it, never markup.
3. The content security policy names the digests of the page's own scripts and styles. It allows no
   other, and no request.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, get_args

import jinja2
import msgspec

from eventstore import Event, Recorded
from eventstore.domain.one_line import one_line
from eventstore.providers import AnyProvider
from projections.formatting import duration, plural, share, utc_text
from projections.report import FIRST_LINE
from projections.report.bounded import event_text
from projections.report.data import Report, report_data

_EVENTS_IN_A_BLOCK = 2_000
_NAME_CHARACTERS = 60
_MAX_ESCAPE_CHARACTERS = 10  # of one character that is not shown as it is
_MAX_TOOLS = 100
_assets = files("projections.report") / "assets"
_encode = msgspec.json.encode


def html_report(events: Iterable[Recorded], *, provider: AnyProvider | None = None) -> str:
    """Return one conversation as a page of HTML: a single file, which opens without a network.

    The events are those of one conversation from its start, as `chat.events()`. The prompts of the
    log's own provider, or of the given one, are shown first. Texts of more than 100,000 characters
    are cut in their middle. It needs `toolledger[report]`.

    Raises:
        ValueError: there are no events, they are of several conversations, or the provider is
            unknown.
    """
    return _rendered(report_data(events, provider=provider))


def _rendered(report: Report) -> str:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        duration=duration, share=share, name=_name, visible=_visible, count="{:,}".format
    )
    scripts = [_asset("uplot", "uPlot.iife.min.js"), _asset("page.js")]
    styles = [_asset("uplot", "uPlot.min.css"), _asset("page.css")]
    template = environment.from_string(_asset("page.html.jinja"))
    return template.render(
        first_line=FIRST_LINE,
        policy=_policy(scripts, styles),
        scripts=scripts,
        styles=styles,
        uplot_licence=_asset("uplot", "LICENSE"),
        report=report,
        conversation=one_line(report.diagnosis.conversation_id, 200),
        summary=_summary(report),
        tools=list(report.statistics.by_tool.items())[:_MAX_TOOLS],
        more_tools=max(len(report.statistics.by_tool) - _MAX_TOOLS, 0),
        overview=_json_block(_overview(report)),
        blocks=list(_blocks(report)),
    )


def _asset(*path: str) -> str:
    return _assets.joinpath(*path).read_text(encoding="utf-8")


def _name(text: str) -> str:
    return one_line(text, _NAME_CHARACTERS)


def _visible(text: str) -> str:
    return one_line(text, len(text) * _MAX_ESCAPE_CHARACTERS)


def _summary(report: Report) -> list[str]:
    overall = report.statistics.overall
    return [
        plural(report.statistics.events, "event"),
        plural(overall.calls, "call"),
        f"{overall.terminal_failures:,} failed",
        f"{overall.open:,} open",
        f"{duration(report.last_at - report.first_at)} from {utc_text(report.first_at)} UTC",
    ]


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    return (
        f"default-src 'none'; script-src {_digests(scripts)}; style-src {_digests(styles)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digests(sources: Sequence[str]) -> str:
    digests = (base64.b64encode(sha256(source.encode()).digest()).decode() for source in sources)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _overview(report: Report) -> dict[str, Any]:
    diagnosis = report.diagnosis
    return {
        "conversation": diagnosis.conversation_id,
        "last": diagnosis.last_version,
        "opensAt": report.opens_at,
        "firstAt": report.first_at,
        "providers": [prompts.provider for prompts in report.prompts],
        "blocks": [each.version for each in report.events[::_EVENTS_IN_A_BLOCK]],
        "members": sorted(_member_names()),
        "markdown": diagnosis.markdown(),
        "loops": report.loops,
        "tokens": report.tokens,
    }


def _member_names() -> set[str]:
    """Return the names of the events' own members, which a search does not find."""
    names = {"version", "tag", "at", "event", "id", "name", "arguments", "result", "text", "type"}
    for cls in get_args(Event):
        names.update(cls.__struct_fields__)
    return names


def _json_block(value: object) -> str:
    """Return JSON that cannot end the element around it."""
    return _encode(value).decode().replace("<", "\\u003c")


def _blocks(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the names and the contents of the compressed blocks."""
    yield "rows", _compressed(_encode(report.rows))
    for prompts in report.prompts:
        yield f"prompts-{prompts.provider}", _compressed(_encode(prompts))
    events = report.events
    for number, start in enumerate(range(0, len(events), _EVENTS_IN_A_BLOCK)):
        block = events[start : start + _EVENTS_IN_A_BLOCK]
        yield f"events-{number}", _compressed(b"\n".join(map(event_text, block)))


def _compressed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()
