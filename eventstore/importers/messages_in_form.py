"""Messages that are in a provider's form: whatever else they are, importing them would lose calls.

1. In a message's content stands no call and no result that the form does not know.
2. Where a message has calls or results, some were read: the form has them at this place. An item
   of its own, without a role, is one of the provider's where it is well formed.
3. Beside its content, it has no more unknown ones than were read: they repeat those.
4. Calls that the model wrote into its text (`<tool_call>`) cannot be read: with results, the file
   is refused.
5. Most messages have what messages of the form have: content, or a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from eventstore.domain.json_types import JsonValue, is_json_object
from eventstore.importers.foreign_shapes import described
from eventstore.importers.reading.problems import SourceError
from eventstore.importers.signs_of_calls import is_in_form, providers_that_know, signs_in
from eventstore.providers.detection import ForeignForm
from eventstore.providers.model import ParsedItem, ParsedMessage
from eventstore.providers.parsing import parse

_REMEDY = "see `toolledger import --help` for the files that are read"
_WRITTEN_CALL: Final = "<tool_call>"


class Judge:
    """Judges the messages of one conversation, one after the other."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._count = self._others = 0
        self._first_other: JsonValue = None
        self._has_signs = self._has_result = self._has_written_call = False

    def take(self, message: JsonValue) -> None:
        """Take the next message.

        Raises:
            SourceError: it holds a call or a result that would be lost.
        """
        what = _lost_call(message, self._provider)
        if what is not None:
            raise SourceError(
                f"messages[{self._count}] has {what!r}, which is not read in messages of "
                f"{self._provider}: {_REMEDY}"
            )
        self._count += 1
        self._note(message)
        if not is_in_form(message, self._provider):
            self._first_other = message if not self._others else self._first_other
            self._others += 1

    def _note(self, message: JsonValue) -> None:
        self._has_signs = self._has_signs or any(signs_in(message, self._provider))
        if not is_json_object(message):
            return
        said = message.get("content")
        self._has_result = self._has_result or message.get("role") == "tool"
        if message.get("role") == "assistant" and isinstance(said, str):
            self._has_written_call = self._has_written_call or _WRITTEN_CALL in said

    def finish(self) -> None:
        """Judge the messages so far as a whole.

        Raises:
            SourceError: most of them are in another form, or their calls are texts.
        """
        if self._has_written_call and self._has_result and not self._has_signs:
            raise SourceError(
                f"the calls are written in the assistant's texts ({_WRITTEN_CALL}), which is not "
                "read: write them as tool_calls"
            )
        if 2 * self._others > self._count:
            raise SourceError(
                f"{self._others:,} of {self._count:,} messages are in no form of {self._provider}: "
                f"the first looks like {described(self._first_other)}; {_REMEDY}"
            )


def in_form(
    known: Sequence[JsonValue], later: Iterable[JsonValue], provider: str
) -> Iterator[JsonValue]:
    """Yield messages that are in the form of `provider`; `known` ones are judged before the second.

    Raises:
        ForeignForm: they are in the form of another provider.
        SourceError: calls or results would be lost.
    """
    judge = Judge(provider)
    fault = _fault_of(known, judge)
    if fault is not None:
        yield from known[:1]  # a refusal of this conversation alone, not of the file
        raise _advised(fault, known, provider)
    yield from known
    for message in later:
        judge.take(message)
        yield message
    judge.finish()


def _fault_of(messages: Sequence[JsonValue], judge: Judge) -> SourceError | None:
    try:
        for message in messages:
            judge.take(message)
        judge.finish()
    except SourceError as error:
        return error
    return None


def _advised(fault: SourceError, messages: Sequence[JsonValue], provider: str) -> ValueError:
    """Return why messages are refused, with the providers as whose all of them can be read."""
    lost = ((number, _lost_call(each, provider)) for number, each in enumerate(messages))
    number, found = next(((n, what) for n, what in lost if what), (0, ""))
    others = (name for name in providers_that_know(found) if name != provider)
    whose = [name for name in others if _fault_of(messages, Judge(name)) is None]
    if not whose:
        return fault
    return ForeignForm(f"messages[{number}] has {found}, which {provider} does not", tuple(whose))


def _lost_call(message: JsonValue, provider: str) -> str | None:
    """Return what names a call or a result in a message that would be lost."""
    signs = [*signs_in(message, provider)]
    unknown = [sign for sign in signs if not sign.is_known]
    for sign in unknown:
        if sign.in_content:
            return sign.what
    if not signs:
        return None
    items = parse([message], provider)
    if not unknown and _is_item(message) and items and all(item.well_formed for item in items):
        return None  # one that is no call of the client's is kept as it is
    read = sum(map(_count, items))
    return signs[0].what if not read or len(unknown) > read else None


def _is_item(message: JsonValue) -> bool:
    return is_json_object(message) and "role" not in message


def _count(item: ParsedItem) -> int:
    """Return how many calls and results an item is."""
    return len(item.calls) if isinstance(item, ParsedMessage) else 1
