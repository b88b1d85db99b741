"""`repair_messages`: a valid history from a list of messages, without a log.

1. The messages are read as the log that they would be, and shown by the rule of `model_history`.
2. Messages that are valid already come back equal.
3. Its own output comes back unchanged.
4. It never raises on a bad history, and never changes its input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from eventstore import ToolPending
from eventstore.providers import (
    AnyProvider,
    LaterSystem,
    Reasoning,
    ServerKept,
    adapter_of,
    copy,
    events_of_history,
    has_all_results,
    is_continued,
    is_valid,
    list_key,
    parse_in_place,
    request_of,
    unwrapped,
)
from projections.formatting import NotebookText, plural
from projections.history.entries import Repair
from projections.history.options import Collapse, HistoryOptions
from projections.history.projection import History

_REPAIRED_IN_VIEW = ("used-id", "orphan")
"""Rules whose repairs come from the view of the history."""

_NAMED_WITH_PLACES = ("late-result", "form")
"""Rules whose repairs the list names by its places, and a view of a log by its events."""


class RepairedMessages(NotebookText, msgspec.Struct):
    """A valid message list, with the repairs made for it.

    `system` is the text that the provider keeps outside of the list, otherwise None. `messages`
    is a text where a text was the whole input of OpenAI Responses.
    """

    messages: Any
    system: str | None
    repairs: list[Repair]

    def __str__(self) -> str:
        if not self.repairs:
            return "nothing had to be changed"
        return "\n".join([plural(len(self.repairs), "change"), *map(str, self.repairs)])


def repair_messages(  # noqa: PLR0913 - each with a default
    messages: Sequence[Any] | dict[str, Any],
    provider: AnyProvider,
    to: AnyProvider | None = None,
    *,
    is_error: Callable[[Any], bool] | None = None,
    collapse: Collapse = "none",
    prefill: bool = False,
    later_system: LaterSystem = "keep",
    model: str | None = None,
    reasoning: Reasoning = "drop",
    server_kept: ServerKept = "keep",
) -> RepairedMessages:
    """Return `messages` of one provider as a valid list for the same provider, or for another.

    A call without a result is answered, a result moves after its call, and a result that answers
    no call becomes text. `messages` may be a whole request, whose list is then repaired. Where it
    continues what the provider's server keeps (`previous_response_id`, `conversation`), results
    may answer calls that are kept there, and stay results; with a `thread` of Anthropic's they do
    where nothing else is wrong.

    `is_error` returns whether a result, as its provider wrote it, is a failure. `collapse`,
    `prefill`, `later_system`, `model`, `reasoning` and `server_kept` are as in `model_history`; a
    valid list that ends with the assistant's words stays so, unless the `model` is known to refuse
    it.

    Raises:
        ValueError: the provider, or an option, is unknown.
    """
    target = to or provider
    options = HistoryOptions(
        collapse=collapse,
        prefill=prefill,
        later_system=later_system,
        model=model,
        reasoning=reasoning,
        server_kept=server_kept,
    )
    request = request_of(messages) if is_continued(messages) else None
    continued = request is not None and adapter_of(provider).keeps_server_calls
    messages = unwrapped(messages, list_key(provider))
    given: list[Any] = list(messages) if isinstance(messages, list | tuple) else [messages]
    if target == provider and (collapse, later_system, server_kept) == (
        "none",
        "keep",
        "keep",
    ):
        whole = messages if isinstance(messages, str) else given
        # A text is a whole input of OpenAI Responses.
        if (has_all_results(given, provider) and is_valid(whole, provider, model=model)) or (
            request is not None and is_valid(request, provider, model=model)
        ):
            return RepairedMessages(copy(whole), None, [])
    history = History(is_continued=continued)
    repairs = _read(history, given, provider, is_error, with_fingerprints=collapse != "none")
    arguments, more = history.last_view(options).rendered(target)
    made = arguments[list_key(target)]
    system = adapter_of(target).system_text(arguments)
    repairs += more
    if not repairs and target == provider and made != given:
        repairs = [Repair("merged", "form", "messages stand as the provider wants them")]
    return RepairedMessages(made, system, repairs)


def _read(
    history: History,
    given: list[Any],
    provider: str,
    is_error: Callable[[Any], bool] | None,
    *,
    with_fingerprints: bool,
) -> list[Repair]:
    """Read a message list into `history`; return what had to be repaired for this."""
    repairs: list[Repair] = []
    parsed = parse_in_place(given, provider, is_error)
    items, places = parsed.items, parsed.numbers
    for place, change in parsed.changes:
        why = f"{list_key(provider)}[{place}]: {change.why}"
        repairs.append(Repair(change.what, change.rule, why))
    if len(set(places)) < len(given):
        for place in sorted({*range(len(given))} - {*places}):
            why = f"{list_key(provider)}[{place}] says nothing"
            repairs.append(Repair("dropped", "empty", why))
    transcript = events_of_history(items, provider)
    for version, event in enumerate(transcript.events, 1):
        fingerprint = None
        if with_fingerprints and type(event) is ToolPending:
            fingerprint = event.call.fingerprint
        history.take(event, version, None, fingerprint)
    history.forget_repairs(_NAMED_WITH_PLACES)
    for finding in transcript.findings:
        if finding.rule not in _REPAIRED_IN_VIEW:
            why = f"{list_key(provider)}[{places[finding.item]}]: {finding.problem}"
            repairs.append(Repair(finding.what, finding.rule, why, finding.call_id))
    return repairs
