"""What a host's code has seen of a call when it decides on it through a framework.

1. An answer is bound to the call as it was when the framework asked. It is refused for a call that
   has changed since (`CallChanged`).
2. A framework that keeps no revision asks about what the model asked for.
3. Arguments that the host's code has changed are an edit, if that code has seen the call as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from eventstore.domain.calls import FunctionCall
from eventstore.domain.decision_errors import CallChanged
from eventstore.domain.revision import Revision

if TYPE_CHECKING:
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.tool import Tool
    from eventstore.session import Session


EDITED: Final = "edited by the host"
"""The reason of an approval by which code of the host has edited a call before its start."""


def first_seen(tool: Tool) -> Revision:
    """Return what a framework shows of a call that has not started: what the model asked for."""
    return Revision.of(tool.call, 0, 0)


def seen_unedited(tool: Tool) -> Revision:
    """Return what a framework shows of a call when it gives no sign of when it asked."""
    return Revision.of(tool.call, tool.attempts, tool.pauses)


def seen_at_pause(tool: Tool) -> Revision:
    """Return what is to be seen of a running call when its attempt pauses now."""
    return Revision.of(tool.effective_call, tool.attempts, tool.pauses + 1)


def shown_revision(tool: Tool, edited: JsonObject | None) -> Revision:
    """Return what is seen of a call that is shown with its arguments in force, or `edited` ones."""
    if edited is None:
        return tool.revision
    call = FunctionCall.of(tool.call.name, edited, tool.id)
    return Revision.of(call, tool.attempts, tool.pauses)


def seen_with_edit(tool: Tool, seen: Revision, edited: JsonObject | None) -> Revision:
    """Return what a decision on a call is bound to, if it was made on `edited` arguments.

    Raises:
        CallChanged: the call is no longer as it was when it was shown with them.
    """
    if edited is None:
        return seen
    if seen != shown_revision(tool, edited):
        raise CallChanged("approved", tool.revision, tool)
    return tool.revision


def host_edit(tool: Tool, given: object, session: Session) -> JsonObject | None:
    """Return the arguments that the host's code has for a call, where the log has others.

    What the rules of the store cover in them is no edit.

    They are not an edit of a call that has been edited, started or paused meanwhile: the host's
    code has not seen it as it is.
    """
    if given == tool.call.arguments:
        return None
    given = session.covered(given)
    if given == tool.call.arguments or tool.revision != first_seen(tool):
        return None
    return cast("JsonObject", given)
