"""A tool call as JSON: its status as `state`, and what the state carries as `data`.

    {"id": "1", "call": {...}, "status": {"state": "Approved", "data": {"edited_call": {...}}}}

A state that carries nothing has no `data`. What other libraries of this form do not have (attempts,
times, who decided) is written only where it is more than the default.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import msgspec
from msgspec import UNSET, UnsetType

from eventstore.failure import ErrorKind, Failure
from eventstore.tool import (
    Approved,
    Completed,
    Failed,
    FunctionCall,
    FunctionResponse,
    Pending,
    Rejected,
    Running,
    Tool,
    ToolStatus,
    same_json,
)


class _Call(msgspec.Struct, omit_defaults=True):
    """A call; the first three members are always written."""

    id: str | None
    name: str
    arguments: Any
    raw: str | None = None


class _Response(msgspec.Struct):
    """A response; all members are always written."""

    id: str | None
    name: str
    result: Any


class _Carried(msgspec.Struct, omit_defaults=True):
    """What a state carries; each state has its own of these."""

    edited_call: _Call | None = None
    response: _Response | None = None
    error: str | None = None
    reason: str | None = None
    by: str | None = None
    source: str = "human"
    synthetic: bool = False
    failure: Failure | None = None
    attempt: int | None = None
    arguments: Any = UNSET


_State = Literal["Pending", "Approved", "Running", "Completed", "Failed", "Rejected"]


class _Status(msgspec.Struct, omit_defaults=True):
    """A status."""

    state: _State
    data: _Carried | UnsetType = UNSET


class _Tool(msgspec.Struct, omit_defaults=True):
    """A tool call; the first three members are always written."""

    id: str
    call: _Call
    status: _Status
    attempts: int = 0
    edit: _Call | None = None
    provider_call_id: str | None = None
    turn: int = 0
    index: int = 0
    fingerprint: str | None = None
    requested_at: int | None = None
    decided_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None


_PLACE_AND_TIMES = _Tool.__struct_fields__[5:]


def encode(tool: Tool) -> bytes:
    """The call as JSON; see `decode`."""
    status = tool.status
    is_in_status = type(status) is Approved and status.edited_call == tool.edit
    return msgspec.json.encode(
        _Tool(
            tool.id,
            _call(tool.call),
            _Status(status.name, _carried(tool)),  # type: ignore[arg-type]
            tool.attempts,
            None if is_in_status else _call(tool.edit),
            *(getattr(tool, field) for field in _PLACE_AND_TIMES),
        )
    )


def decode(data: str | bytes) -> Tool:
    """The call that `encode` wrote, or another library of this form; any text is an id.

    Raises:
        msgspec.ValidationError: it is no such JSON; the error names the place.
    """
    read = msgspec.json.decode(data, type=_Tool)
    call = _function_call(read.call)
    carried = _Carried() if read.status.data is UNSET else read.status.data
    edit = read.edit or (carried.edited_call if read.status.state == "Approved" else None)
    tool = Tool(
        read.id,
        call,
        attempts=read.attempts,
        edit=_function_call(edit),
        **{field: getattr(read, field) for field in _PLACE_AND_TIMES},
    )
    return msgspec.structs.replace(tool, status=_status(read.status.state, carried, tool))


def _carried(tool: Tool) -> _Carried | UnsetType:
    status: Any = tool.status
    match status:
        case Approved():
            return _Carried(_call(status.edited_call), reason=status.reason, by=status.by)
        case Running():
            return _started(tool, status)
        case Completed():
            answer = status.response
            response = _Response(answer.id, answer.name, answer.result)
            return _Carried(response=response, synthetic=status.synthetic)
        case Failed():
            failure = status.failure
            is_plain = failure == Failure(ErrorKind.INTERNAL, failure.message)
            return _Carried(error=failure.message, failure=None if is_plain else failure)
        case Rejected():
            return _Carried(reason=status.reason, by=status.by, source=status.source)
        case _:
            return UNSET


def _started(tool: Tool, status: Running) -> _Carried | UnsetType:
    """What an attempt carries beyond what the call says: nothing, as a rule."""
    is_last = status.attempt == (tool.attempts or 1)
    is_in_force = same_json(status.arguments, tool.effective_call.arguments)
    if is_last and is_in_force:
        return UNSET
    return _Carried(attempt=status.attempt, arguments=status.arguments)


def _status(state: _State, carried: _Carried, tool: Tool) -> ToolStatus:
    match state:
        case "Pending":
            return Pending()
        case "Approved":
            return Approved(_function_call(carried.edited_call), carried.by, carried.reason)
        case "Running":
            in_force = tool.effective_call.arguments
            given = carried.arguments
            attempt = carried.attempt or tool.attempts or 1
            return Running(attempt, in_force if given is UNSET else given)
        case "Completed":
            answer = _needed(carried.response, state, "response")
            response = FunctionResponse(answer.name, answer.result, answer.id)
            return Completed(response, carried.synthetic)
        case "Failed":
            error = _needed(carried.error, state, "error")
            return Failed(carried.failure or Failure(ErrorKind.INTERNAL, error))
        case _:
            return Rejected(carried.reason, carried.source, carried.by)


def _needed(member: Any, state: str, name: str) -> Any:
    if member is None:
        raise msgspec.ValidationError(f"{state} carries `{name}` - at `$.status.data`")
    return member


@overload
def _call(call: FunctionCall) -> _Call: ...
@overload
def _call(call: FunctionCall | None) -> _Call | None: ...
def _call(call: FunctionCall | None) -> _Call | None:
    return None if call is None else _Call(call.id, call.name, call.arguments, call.raw)


@overload
def _function_call(call: _Call) -> FunctionCall: ...
@overload
def _function_call(call: _Call | None) -> FunctionCall | None: ...
def _function_call(call: _Call | None) -> FunctionCall | None:
    return None if call is None else FunctionCall(call.name, call.arguments, call.id, call.raw)
