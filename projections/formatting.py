"""Plain text: tables, times, durations, rates, counts and arguments."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from html import escape

import msgspec

from eventstore import FunctionCall, HookAnswer, ModelResponded, Tool, ToolsOffered, Usage
from eventstore.domain.one_line import one_line

_PLAIN_NAME = re.compile(r"[\w.:/@+#|-]+")
_UNITS_IN_MICROSECONDS = (("us", 1), ("ms", 1_000), ("s", 1_000_000))
_UNITS_IN_SECONDS = (("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400))
_UNITS_IN_BYTES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 0))
_MINUTE_SECONDS = 60
_JOINER = "\u200d"
_WITHOUT_WIDTH = ("Mn", "Me", "Cf")
"""Unicode's categories of characters that combine with the one before, or are not shown."""


class NotebookText:
    """A value that a notebook shows as its text, with nothing of it read as markup."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(visible_text(str(self)))}</pre>"


def visible_text(text: str) -> str:
    """Return a text over several lines with its hidden characters as escapes."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def utc_text(microseconds: int) -> str:
    """Return a time (microseconds since 1970 UTC): `2026-01-31 12:00:00.000`."""
    try:
        then = datetime.fromtimestamp(microseconds / 1_000_000, UTC)
    except (OverflowError, OSError, ValueError):  # a log made by hand
        return str(microseconds)
    return then.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def duration(microseconds: int | None) -> str:
    """Return a duration in a unit that suits it: `850 us`, `1.20 s`, `3 h 20 m`; `-` for None."""
    if microseconds is None:
        return "-"
    seconds = microseconds // 1_000_000
    if seconds < _MINUTE_SECONDS:
        fitting = (unit for unit in reversed(_UNITS_IN_MICROSECONDS) if microseconds >= unit[1])
        unit, size = next(fitting, _UNITS_IN_MICROSECONDS[0])
        return f"{_three_digits(microseconds / size) if size > 1 else microseconds} {unit}"
    place = max(n for n, (_, size) in enumerate(_UNITS_IN_SECONDS) if seconds >= size)
    (small, small_size), (large, large_size) = _UNITS_IN_SECONDS[place - 1 : place + 1]
    return f"{seconds // large_size:,} {large} {seconds % large_size // small_size} {small}"


def byte_size(count: int | None) -> str:
    """Return a size in a unit that suits it: `850 B`, `1.20 MB`; empty for None."""
    if count is None:
        return ""
    unit, size = next(each for each in _UNITS_IN_BYTES if count >= each[1])
    return f"{_three_digits(count / size) if size > 1 else count} {unit}"


def _three_digits(value: float) -> str:
    integer_digits = len(str(int(value)))
    return f"{value:.{max(3 - integer_digits, 0)}f}"


def share(rate: float | None) -> str:
    """Return a rate in percent; `-` for None. Only the exact rates read 0.0% and 100.0%."""
    if rate is None:
        return "-"
    return f"{rate if rate in (0, 1) else min(max(rate, 0.001), 0.999):.1%}"


def offer_text(event: ToolsOffered) -> str:
    """Return how many tools were offered, and what each gate said."""
    allowed = event.available if event.allowed is None else event.allowed
    text = f"{len(allowed)} of {len(event.available)} tools"
    said = [
        f"{answer.gate}: {'no opinion' if answer.allow is None else _names(answer.allow)}"
        for answer in event.gates
    ]
    conflict = event.conflict or {}
    if suppressed := conflict.get("suppressed"):
        said.append(f"suppressed: {_names(suppressed)}")
    if reason := conflict.get("reason"):
        said.append(f"conflict: {reason}")
    return f"{text}; {'; '.join(said)}" if said else text


def _names(names: Collection[str]) -> str:
    return ", ".join(names) or "no tool"


def usage_text(usage: Usage | None) -> str:
    """Return the tokens of a response, or of several, and what they cost."""
    if usage is None:
        return "unknown usage"
    cached = f", {usage.cached_tokens:,} cached" if usage.cached_tokens else ""
    reasoning = f", {usage.reasoning_tokens:,} reasoning" if usage.reasoning_tokens else ""
    cost = "" if usage.cost is None else f", cost {usage.cost:f}"
    return (
        f"{plural(usage.total_tokens, 'token')} "
        f"({usage.input_tokens:,} in{cached}; {usage.output_tokens:,} out{reasoning}){cost}"
    )


def response_text(event: ModelResponded) -> str:
    """Return what a response of a model says of itself."""
    name = event.model or event.provider or "a model"
    text = f"{name}: {usage_text(event.usage)}" if event.completes is None else _completing(event)
    if event.latency is not None:
        text += f", {duration(event.latency)}"
    return text if event.finish_reason is None else f"{text}: {event.finish_reason}"


def _completing(event: ModelResponded) -> str:
    usage = event.usage
    if usage is None:
        return f"completes version {event.completes}"
    text = usage_text(usage) if usage.total_tokens or usage.cost is None else f"cost {usage.cost:f}"
    return f"completes version {event.completes}: {text}"


def hooks_text(answers: Iterable[HookAnswer]) -> str:
    """Return what each hook, and the approver, said of a call."""
    return "; ".join(
        f"{'approver ' if answer.approver else ''}{answer.hook}: "
        f"{answer.decision or 'no decision'}{f' ({answer.reason})' if answer.reason else ''}"
        for answer in answers
    )


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun: `1 call`, `1,200 calls`."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'x'?` for the known name that is nearest; empty if none is near.

    One name that begins so is near, however long it is.
    """
    from difflib import get_close_matches  # slow to load, and rarely needed

    known = sorted(known)
    longer = [each for each in known if name and each.startswith(name)]
    near = longer if len(longer) == 1 else get_close_matches(name, known, n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def arguments_text(call: FunctionCall, width: int = 200) -> str:
    """Return the arguments of a call as JSON text on one line of at most `width` characters."""
    if call.raw is not None:
        return one_line(call.raw, width)
    try:
        return one_line(msgspec.json.encode(call.arguments).decode(), width)
    except Exception:  # noqa: BLE001 - a log made by hand may hold anything
        return f"<{type(call.arguments).__name__}>"


def slug(conversation_id: str) -> str:
    """Return a conversation's id as the name of a file."""
    return re.sub(r"[^\w.-]+", "-", conversation_id).strip("-.")[:100] or "report"


def quoted_name(text: str) -> str:
    """Return a name or an id as a person may trust it: in quotes if it has blanks or signs.

    Otherwise a call could be named so that it reads like another one with its arguments.
    """
    if _PLAIN_NAME.fullmatch(text):
        return text
    shown = one_line(text, max(len(text), 1) * 10)
    return '"' + shown.replace('"', '\\"') + '"'


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str | int]], left: Collection[str]
) -> list[str]:
    """Return the lines of a table: columns in `left` are left-aligned, the others right-aligned.

    Columns in which every row has 0 or `-` are left out. A table without rows has no lines.
    """
    if not rows:
        return []
    columns = [
        column
        for column in zip(heads, *rows, strict=True)
        if column[0] in left or set(column[1:]) - {0, "-"}
    ]
    cells = [[cell if isinstance(cell, str) else f"{cell:,}" for cell in c] for c in columns]
    return aligned_lines(cells, [column[0] not in left for column in columns])


def aligned_lines(columns: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Return the lines of a table, given its columns and which of them are right-aligned."""
    aligned = [_aligned(column, right=at) for column, at in zip(columns, right, strict=True)]
    return ["  ".join(line).rstrip() for line in zip(*aligned, strict=True)]


def _aligned(cells: Sequence[str], *, right: bool) -> list[str]:
    widths = [display_width(cell) for cell in cells]
    spaces = [" " * (max(widths) - width) for width in widths]
    return [s + cell if right else cell + s for cell, s in zip(cells, spaces, strict=True)]


def display_width(text: str) -> int:
    """Return how many columns of a terminal a line of text takes.

    East Asian wide characters and emoji take two, combining and invisible characters none. Emoji
    that are joined to one take the columns of one.
    """
    if text.isascii():
        return len(text)
    width = 0
    before = ""
    for character in text:
        is_wide = unicodedata.east_asian_width(character) in "WF"
        if is_wide:
            width += 0 if before == _JOINER else 2
        elif not _combines(character):
            width += 1
        before = character
    return width


def _combines(character: str) -> bool:
    is_within_syllable = "\u1160" <= character <= "\u11ff"  # Hangul's later letters
    return is_within_syllable or unicodedata.category(character) in _WITHOUT_WIDTH


def status_text(tool: Tool) -> str:
    """Return the status of a call in small letters, and whether a past attempt is in doubt."""
    return tool.status.name.lower() + (", in doubt" if tool.ended_in_doubt else "")
