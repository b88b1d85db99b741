"""Steps that cannot be read: which calls a damaged event leaves in doubt. Pure.

1. A step of a call whose payload cannot be read may have been its start, so that the call may have
   taken effect. The call is known by its id, where the rest of the payload has it; otherwise by the
   fingerprint of the row.
2. Without either, every call of the conversation that is not settled is in doubt.
3. A later step that settles the call takes the doubt away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from eventstore.domain.events import TOOL_EVENTS, UnknownEvent
from eventstore.domain.statuses import Completed, Rejected
from eventstore.domain.tool import Tool

_TOOL_TAGS = frozenset(str(getattr(kind, "tag", "")) for kind in TOOL_EVENTS)
_CALL_ID = re.compile(r'\{"call_id":("(?:[^"\\]|\\.)*")')


def left_in_doubt(
    event: UnknownEvent, fingerprint: str | None, tools: Mapping[str, Tool]
) -> list[Tool]:
    """Return the calls that an event leaves in doubt, as they are then.

    `tools` are the calls of its conversation by id; settled ones may be left out.
    """
    if event.problem is None or event.tag not in _TOOL_TAGS:
        return []
    open_calls = [t for t in tools.values() if type(t.status) not in (Completed, Rejected)]
    call_id = _call_id_of(event)
    if call_id is not None:
        concerned = [tool for tool in open_calls if tool.id == call_id]
    else:
        equal = [tool for tool in open_calls if tool.fingerprint == fingerprint]
        concerned = equal or open_calls
    return [replace(tool, ended_in_doubt=True) for tool in concerned]


def _call_id_of(event: UnknownEvent) -> str | None:
    found = _CALL_ID.match(event.payload)
    if found is None:
        return None
    try:
        return msgspec.json.decode(found[1], type=str)
    except msgspec.DecodeError:
        return None
