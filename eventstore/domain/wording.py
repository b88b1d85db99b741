"""What a framework told the model as the result of a call, where that is not what the log would.

1. The next prompt repeats it: its words stay the same, and the provider's cache holds. What the
   framework kept from the model is not shown later either.
2. The log has all the same what the tool returned or raised, for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from eventstore.domain.messages import Text

if TYPE_CHECKING:
    from eventstore.domain.events import MessageAdded, ToolCompleted, ToolFailed, ToolRejected
    from eventstore.domain.json_types import JsonObject


class Wording(msgspec.Struct, frozen=True, gc=False):
    """The `text` of an error, and a result or an error in the `native` form of a `provider`.

    Other providers read the text of an error, and of a result what the tool returned.
    """

    text: str | None = None
    provider: str | None = None
    native: JsonObject | None = None


def later_words(call_id: str, text: str) -> MessageAdded:
    """Return the event of what the model was told of a call after its end was recorded."""
    from eventstore.domain.events import MessageAdded

    return MessageAdded("tool", (Text(text),), call_id=call_id, results=(call_id,))


def later_wording(event: MessageAdded) -> str | None:
    """Return what the model was told of a call after its end; None of other messages."""
    if event.role != "tool" or not event.results or event.call_id is None:
        return None
    return "\n".join(part.text for part in event.parts if isinstance(part, Text))


def with_wording(event: Any, wording: Wording) -> ToolCompleted | ToolFailed | ToolRejected:
    """Return the end of a call with what the model was told of it."""
    if wording.native is not None:
        event = replace(event, provider=wording.provider, native=wording.native)
    failure = getattr(event, "failure", None)
    if failure is not None and wording.text is not None and failure.model_text != wording.text:
        event = replace(event, failure=replace(failure, model_message=wording.text))
    ended: ToolCompleted | ToolFailed | ToolRejected = event
    return ended


def reworded(event: Any, text: str) -> ToolCompleted | ToolFailed | ToolRejected:
    """Return the end of a call as the model was told of it later, in a text."""
    event = replace(event, provider=None, native=None)
    response = getattr(event, "response", None)
    if response is not None:
        event = replace(event, response=replace(response, result=text), in_parts=False)
    return with_wording(event, Wording(text))
