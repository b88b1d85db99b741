"""`repair_messages`: a valid history for those who have only a list of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from eventstore import ToolPending
from eventstore.wire import copy, is_valid, list_key, parse_in_place, transcribe_alone, unwrapped
from projections.history import History
from projections.repair import Repair
from projections.view import Collapse


class RepairedMessages(msgspec.Struct):
    """A valid message list; `system` is the text that the provider keeps outside of it.

    A text that was the whole input of OpenAI Responses is `messages` as it was.
    """

    messages: Any
    system: str | None
    repairs: list[Repair]


def repair_messages(
    messages: Sequence[Any] | dict[str, Any],
    provider: str,
    to: str | None = None,
    *,
    is_error: Callable[[Any], bool] | None = None,
    collapse: Collapse = "none",
) -> RepairedMessages:
    """`messages` of one provider as a valid list for the same, or for another.

    Never raises on a bad history, leaves its input alone, gives valid input back equal, and
    changes nothing when run on its own output. A call without a result is answered, a result
    moves behind its call, and one that answers no call becomes text. Of a whole request, its
    list is repaired. `is_error` tells of a result, as its provider wrote it, whether it is a
    failure; `collapse` is as in `model_history`.

    Raises:
        ValueError: the provider, or an option, is unknown.
    """
    target = to or provider
    messages = unwrapped(messages, list_key(provider))
    given = list(messages) if isinstance(messages, list | tuple) else [messages]
    if target == provider and collapse == "none":
        whole = messages if isinstance(messages, str) else given
        if is_valid(whole, provider):  # a text is a whole input of OpenAI Responses
            return RepairedMessages(copy(whole), None, [])
    reading = _Reading(given, provider, is_error, marked=collapse != "none")
    arguments, repairs = reading.history.view(collapse=collapse).rendered(target)
    made = arguments[list_key(target)]
    system = arguments.get("system", arguments.get("system_instruction"))
    if isinstance(system, list):  # Bedrock's blocks
        system = "\n\n".join(block["text"] for block in system)
    repairs = [*reading.repairs, *repairs]
    if not repairs and target == provider and made != given:
        repairs = [Repair("merged", "form", "messages stand as the provider wants them")]
    return RepairedMessages(made, system, repairs)


class _Reading:
    """A message list, read as the log that it would be."""

    def __init__(
        self,
        given: list[Any],
        provider: str,
        is_error: Callable[[Any], bool] | None,
        *,
        marked: bool,
    ) -> None:
        self.repairs: list[Repair] = []
        self.history = History()
        items, places = parse_in_place(given, provider, is_error)
        if len(set(places)) < len(given):
            for place in sorted({*range(len(given))} - {*places}):
                why = f"{list_key(provider)}[{place}] says nothing"
                self.repairs.append(Repair("dropped", "empty", why))
        transcript = transcribe_alone(items, provider)
        take = self.history.take
        for version, event in enumerate(transcript.events, 1):
            mark = event.call.fingerprint if marked and type(event) is ToolPending else None
            take(event, version, None, mark)
        for finding in transcript.findings:
            if finding.rule not in ("used-id", "orphan"):  # what became of them is told later
                why = f"{list_key(provider)}[{places[finding.item]}]: {finding.problem}"
                self.repairs.append(Repair(finding.what, finding.rule, why, finding.call_id))
