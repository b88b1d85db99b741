"""From what a log holds to what the model sees: answers, collapse, windows.

Every call that is kept is answered exactly once. What is shown follows from the log alone: no
clock, no randomness, so that the same log gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import msgspec

from eventstore import (
    Approved,
    Completed,
    Failed,
    MessageAdded,
    NonResolvedToolError,
    Part,
    Pending,
    Rejected,
    Text,
    Tool,
    ToolCompleted,
    ToolFailed,
    ToolRejected,
)
from eventstore.wire import (
    ROLES,
    Answer,
    Call,
    Change,
    Closing,
    Turn,
    plain_text,
    render,
    stored_parts,
)
from projections.explanation import explanation
from projections.repair import Repair
from projections.text import plural
from projections.window import Cut, Window

OpenCalls = Literal["answer", "raise", "drop"]
Collapse = Literal["failed", "all", "none"]

_OPEN_CALLS, _COLLAPSE = get_args(OpenCalls), get_args(Collapse)

EVERYTHING = Window()

REASONS_SHOWN = 3  # different reasons that a note on failed attempts gives
REASON_LENGTH = 200  # characters of each

_encode = msgspec.json.Encoder().encode


class MadeCall(msgspec.Struct, gc=False):
    """A call of the log: where it stands, the events of it, and the one that answered it."""

    tool: Tool
    versions: list[int]
    imported: bool
    answer: ToolCompleted | ToolFailed | ToolRejected | None = None


class Entry(msgspec.Struct, gc=False):
    """A message, or an assistant turn with its calls, in the order of the log.

    `stray` is what a result that has no place says. `closing` is the message in which the results
    of the calls came. `held`: it is the result of a call that the provider's server may keep.
    """

    role: str
    message: MessageAdded | None
    version: int
    calls: list[MadeCall] = []
    stray: tuple[Part, ...] = ()
    closing: MessageAdded | None = None
    held: bool = False


class ModelHistory:
    """Turns to show the model, and what was repaired to make them so."""

    def __init__(self, turns: list[Turn], repairs: list[Repair]) -> None:
        self._turns = turns
        self.repairs = repairs

    @property
    def turns(self) -> list[Turn]:
        """The neutral turns, in order."""
        return [turn for turn in self._turns if not turn.hidden]

    def render(self, provider: str) -> dict[str, Any]:
        """The keyword arguments of the provider's SDK call, ready for `**`.

        Raises:
            ValueError: nobody here speaks for that provider.
        """
        return render(self._turns, provider).arguments

    def repairs_for(self, provider: str) -> list[Repair]:
        """`repairs`, and those that this provider's form asks for."""
        return self.rendered(provider)[1]

    def rendered(self, provider: str) -> tuple[dict[str, Any], list[Repair]]:
        """What `render` and `repairs_for` give, made once."""
        made = render(self._turns, provider)
        return made.arguments, [*self.repairs, *repairs_of(made.changes)]

    def explain(self, provider: str | None = None) -> str:
        """The turns, their calls and answers, and why each change was made, as text.

        With a `provider`, also what its form asks for.
        """
        repairs = self.repairs if provider is None else self.repairs_for(provider)
        return explanation(self._turns, repairs)


def repairs_of(changes: Iterable[Change]) -> list[Repair]:
    """A renderer's changes as repairs."""
    return [
        Repair(
            change.what, change.rule, change.why, change.call_id,
            () if change.version is None else (change.version,),
        )
        for change in changes
    ]  # fmt: skip


def show(
    entries: Sequence[Entry],
    repairs: Sequence[Repair],
    *,
    open_calls: OpenCalls,
    collapse: Collapse,
    window: Window,
) -> ModelHistory:
    """What the model sees of `entries`; the options are those of `model_history`."""
    _one_of("open_calls", open_calls, _OPEN_CALLS)
    _one_of("collapse", collapse, _COLLAPSE)
    made = list(repairs)
    notes = _superseded(entries, collapse, made) if collapse != "none" else {}
    turns = [_turn(entry, open_calls, notes, made) for entry in entries]
    if window != EVERYTHING:
        cuts = window.apply(turns, [_latest(entry) for entry in entries])
        made += [_cut_off(entries, cut, window.summary) for cut in cuts]
    return ModelHistory(turns, made)


def _latest(entry: Entry) -> int:
    """The last event that concerns an entry."""
    return max((entry.version, *(call.versions[-1] for call in entry.calls)))


def _cut_off(entries: Sequence[Entry], cut: Cut, summary: str | None) -> Repair:
    versions = tuple(entries[place].version for place in cut.turns)
    told = f"{plural(len(cut.turns), 'older turn')} outside of {cut.window}"
    if summary is None:
        return Repair("dropped", "window", told, None, versions)
    return Repair("collapsed", "window", f"a summary stands for {told}", None, versions)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}: pass one of {', '.join(known)}")


# turns


def _turn(
    entry: Entry, open_calls: OpenCalls, notes: dict[str, str | None], repairs: list[Repair]
) -> Turn:
    if entry.stray:
        return Turn("user", entry.stray, version=entry.version)
    message = entry.message
    if message is None:
        turn = Turn(entry.role, version=entry.version)
    elif entry.role == "tool":
        text = orphan_text(message.call_id, _said(message))
        shown = (part for part in message.parts if not isinstance(part, Text))
        turn = Turn("user", (Text(text), *shown), version=entry.version)
        if entry.held:
            turn.provider, turn.native = message.provider, message.native
            turn.held = _held(message)
            return turn
        repairs.append(Repair("wrapped", "orphan", "the result answers no call of this history",
                              message.call_id, (entry.version,)))  # fmt: skip
        return turn
    else:
        turn = Turn(
            message.role if message.role in ROLES else "user", message.parts, [],
            message.provider, message.native, message.exact, message.joined, version=entry.version,
        )  # fmt: skip
        if entry.role == "assistant" and len(entry.calls) != message.calls:
            turn.exact = False
    if entry.calls:
        turn.calls = [_call(call, turn, open_calls, notes, repairs) for call in entry.calls]
        if all(call.hidden for call in turn.calls):
            turn.hidden = not any(isinstance(part, Text) for part in turn.parts)
        if entry.closing is not None:
            turn.closing = _closing(entry.closing, turn)
    return turn


def _said(message: MessageAdded) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _held(message: MessageAdded) -> Call:
    """The call that the provider's server keeps, with the result of it that is here."""
    answer = Answer(_said(message), provider=message.provider, native=message.native)
    return Call(message.call_id or "", "", {}, answer)


def _closing(message: MessageAdded, turn: Turn) -> Closing | None:
    """The message of a turn's results, where it holds those that are shown, and no other."""
    if message.provider is None or not message.exact:
        return None
    if sorted(message.results) != sorted(call.id for call in turn.calls if not call.hidden):
        return None
    return Closing(message.provider, message.results, message.native)


def _call(
    made: MadeCall,
    turn: Turn,
    open_calls: OpenCalls,
    notes: dict[str, str | None],
    repairs: list[Repair],
) -> Call:
    tool = made.tool
    asked = tool.edit or tool.call
    if tool.edit is not None:
        turn.exact = False
    answer = _answer(made)
    call = Call(tool.id, asked.name, asked.arguments, answer, tool.provider_call_id, asked.raw)
    if tool.id in notes:
        answer.note = notes[tool.id]
        call.hidden = answer.note is None
    if not call.hidden and not tool.is_resolved:
        if open_calls == "raise":
            raise NonResolvedToolError(tool.id, tool.status.name)
        call.hidden = open_calls == "drop"
        what = "dropped" if call.hidden else "answered"
        repairs.append(Repair(what, "open-call", answer.text, tool.id, tuple(made.versions)))
    return call


# answers


def _answer(made: MadeCall) -> Answer:
    status = made.tool.status
    event: Any = made.answer
    provider = event.provider if event is not None else None
    native = event.native if event is not None else None
    if type(status) is Completed:
        result = status.response.result
        text, parts = (result, ()) if type(result) is str else shown(event)
        return Answer(text, is_error=False, provider=provider, native=native, given=parts)
    if type(status) is Failed:
        return Answer(status.failure.model_text, is_error=True, provider=provider, native=native)
    if type(status) is Rejected:
        # What was imported says so in its own words.
        text = _rejection(status) if native is None else status.reason or ""
        return Answer(text, is_error=True, provider=provider, native=native)
    return Answer(_placeholder(made), is_error=not _is_waiting(made))


def shown(event: ToolCompleted) -> tuple[str, tuple[Part, ...]]:
    """What the model reads of a result, and sees of one that was given in parts."""
    result = event.response.result
    parts = stored_parts(result) if event.in_parts else ()
    return plain_text(parts, []) if parts else result_text(result), parts


def result_text(result: Any) -> str:
    """A result as the model reads it: text as it is, everything else as JSON."""
    return result if isinstance(result, str) else _encode(result).decode()


def orphan_text(call_id: str | None, text: str) -> str:
    """A result that has no place, as text."""
    of = f"of call {call_id}" if call_id else "of a call"
    return f"[Result {of} that is not open in this history]\n{text}"


def _rejection(status: Rejected) -> str:
    if status.source == "human":
        who = f"User {status.by}" if status.by else "User"
    else:
        who = f"A {status.source}" + (f" ({status.by})" if status.by else "")
    told = f"{who} rejected this tool call"
    return told if status.reason is None else f"{told}: {status.reason}"


def _is_waiting(made: MadeCall) -> bool:
    """Whether the call simply has not run yet, which is no error."""
    tool = made.tool
    return tool.call.raw is None and not made.imported and type(tool.status) in (Pending, Approved)


def _placeholder(made: MadeCall) -> str:
    tool = made.tool
    if type(tool.status) is Approved:
        return "[Approved, but not started: this call has not run.]"
    if type(tool.status) is not Pending:
        return (
            f"[Started (attempt {tool.attempts}), outcome unknown: this call may have taken "
            "effect. Check before running it again.]"
        )
    if tool.call.raw is not None:
        return "[Not executed: its arguments could not be parsed as a JSON object.]"
    if made.imported:
        return "[No result was recorded for this call: whether it ran is not known.]"
    return "[Awaiting approval: this call has not run.]"


# collapse


def _superseded(
    entries: Sequence[Entry], collapse: Collapse, repairs: list[Repair]
) -> dict[str, str | None]:
    """Calls that are left out (None), and the note for each call that stands for them."""
    notes: dict[str, str | None] = {}
    for group in _groups(entries, across_users=collapse == "all"):
        if len(group) < 2:  # noqa: PLR2004 - nothing to compare with
            continue
        if collapse == "all":
            _keep_one(group, notes, repairs)
        else:
            _keep_later(group, notes, repairs)
    return notes


def _groups(entries: Sequence[Entry], *, across_users: bool) -> Iterable[list[MadeCall]]:
    """Calls of one fingerprint, in order: over all entries, or between two user messages."""
    groups: dict[str, list[MadeCall]] = {}
    for entry in entries:
        if entry.role == "user" and not entry.stray and not across_users:
            yield from groups.values()
            groups = {}
        for call in entry.calls:
            if call.tool.fingerprint is not None:
                groups.setdefault(call.tool.fingerprint, []).append(call)
    yield from groups.values()


def _keep_later(group: list[MadeCall], notes: dict[str, str | None], repairs: list[Repair]) -> None:
    failed: list[MadeCall] = []
    last = len(group) - 1
    for place, call in enumerate(group):
        if type(call.tool.status) is Failed and place < last:
            failed.append(call)
        elif failed:
            _collapse(failed, call, notes, repairs)
            failed = []


def _keep_one(group: list[MadeCall], notes: dict[str, str | None], repairs: list[Repair]) -> None:
    ended = [call for call in group if type(call.tool.status) in (Completed, Failed)]
    if len(ended) < 2:  # noqa: PLR2004 - nothing to compare with
        return
    done = [call for call in ended if type(call.tool.status) is Completed]
    kept = done[0] if done else ended[-1]
    _collapse([call for call in ended if call is not kept], kept, notes, repairs)


def _collapse(
    left_out: list[MadeCall], kept: MadeCall, notes: dict[str, str | None], repairs: list[Repair]
) -> None:
    for call in left_out:
        notes[call.tool.id] = None
        repairs.append(
            Repair("collapsed", "repeat", f"call {kept.tool.id} repeats it", call.tool.id,
                   tuple(call.versions))
        )  # fmt: skip
    failed = [c.tool.status.failure for c in left_out if isinstance(c.tool.status, Failed)]
    if failed:
        reasons = list(dict.fromkeys(failure.model_text for failure in failed))
        shown = "; ".join(_short(reason) for reason in reasons[:REASONS_SHOWN])
        count = f"{len(failed)} other attempt{'s' * (len(failed) > 1)} failed"
        notes[kept.tool.id] = f"[{count}: {shown}]"


def _short(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= REASON_LENGTH else f"{line[: REASON_LENGTH - 1]}…"
