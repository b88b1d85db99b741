"""The JSON form of a tool call: its status as `state`, and what the state carries as `data`.

    {"id": "1", "call": {...}, "status": {"state": "Approved", "data": {"edited_call": {...}}}}

A state that carries nothing has no `data`. Members that other libraries with this form do not have
(attempts, times, the author of a decision) are written only where they differ from the default.

Two other forms are read as well: `msgspec.json.encode(tool)`, where the members of a state stand
beside it and not in `data`; and a call as a part of a message, `{"type": "Tool", "value": {...}}`.

`Tool` gives its fields to `encode` and is made from the fields that `decode` returns.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

import msgspec
from msgspec import UNSET, UnsetType

from eventstore.domain.calls import FunctionCall, FunctionResponse, same_json
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.statuses import (
    Approved,
    Completed,
    Failed,
    Pending,
    Rejected,
    Running,
    ToolStatus,
)

_T = TypeVar("_T")


class ToolFields(TypedDict):
    """The fields of a `Tool`."""

    id: str
    call: FunctionCall
    status: ToolStatus
    attempts: int
    edit: FunctionCall | None
    provider_call_id: str | None
    turn: int
    index: int
    fingerprint: str | None
    requested_at: int | None
    decided_at: int | None
    started_at: int | None
    ended_at: int | None
    ended_in_doubt: bool
    pauses: int
    expires_at: int | None
    retry_announced: bool


class _Call(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A call; the first three members are always written."""

    id: str | UnsetType | None = UNSET
    name: str
    arguments: Any
    raw: str | None = None


class _Response(msgspec.Struct, kw_only=True):
    """A response; all members are always written."""

    id: str | None = None
    name: str
    result: Any


class _Data(msgspec.Struct, omit_defaults=True):
    """The data of a state; each state has its own members of these."""

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
    until: int | None = None
    needs_decision: bool = False
    leased_until: int | None = None
    worker: str | None = None


_State = Literal["Pending", "Approved", "Running", "Completed", "Failed", "Rejected"]


class _Status(_Data, omit_defaults=True, kw_only=True):
    """A status. The members beside `state` and `data` are read, and not written."""

    state: _State
    data: _Data | UnsetType = UNSET


class _Tool(msgspec.Struct, omit_defaults=True):
    """A tool call; the first three members are always written. Without a status it is pending."""

    id: str
    call: _Call
    status: _Status | UnsetType = UNSET
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
    ended_in_doubt: bool = False
    pauses: int = 0
    expires_at: int | None = None
    retry_announced: bool = False


class _Part(msgspec.Struct, tag_field="type", tag="Tool"):
    """A call as a part of a message."""

    value: _Tool


class _Type(msgspec.Struct):
    """The member that tells a part from a call."""

    type: Any = None


def encode(**fields: Unpack[ToolFields]) -> bytes:
    """Return the call as JSON; see `decode`."""
    status = fields["status"]
    is_in_status = type(status) is Approved and status.edited_call == fields["edit"]
    return msgspec.json.encode(
        _Tool(
            id=fields["id"],
            call=_call(fields["call"]),
            status=_Status(state=status.name, data=_data(fields)),
            attempts=fields["attempts"],
            edit=None if is_in_status else _call(fields["edit"]),
            provider_call_id=fields["provider_call_id"],
            turn=fields["turn"],
            index=fields["index"],
            fingerprint=fields["fingerprint"],
            requested_at=fields["requested_at"],
            decided_at=fields["decided_at"],
            started_at=fields["started_at"],
            ended_at=fields["ended_at"],
            ended_in_doubt=fields["ended_in_doubt"],
            pauses=fields["pauses"],
            expires_at=fields["expires_at"],
            retry_announced=fields["retry_announced"],
        )
    )


def decode(data: str | bytes) -> ToolFields:
    """Return the fields of a call, in this form or in one of the two other forms.

    Any text is accepted as an id.

    Raises:
        msgspec.ValidationError: the JSON does not have this form; the error names the path.
    """
    read = _read(data)
    status = _Status(state="Pending") if read.status is UNSET else read.status
    carried = status if status.data is UNSET else status.data
    edit = read.edit or (carried.edited_call if status.state == "Approved" else None)
    return ToolFields(
        id=read.id,
        call=_function_call(read.call),
        status=_status(status.state, carried, edit or read.call, read.attempts or 1),
        attempts=read.attempts,
        edit=_function_call(edit),
        provider_call_id=read.provider_call_id,
        turn=read.turn,
        index=read.index,
        fingerprint=read.fingerprint,
        requested_at=read.requested_at,
        decided_at=read.decided_at,
        started_at=read.started_at,
        ended_at=read.ended_at,
        ended_in_doubt=read.ended_in_doubt,
        pauses=read.pauses,
        expires_at=read.expires_at,
        retry_announced=read.retry_announced,
    )


def _read(data: str | bytes) -> _Tool:
    if msgspec.json.decode(data, type=_Type).type is None:
        return msgspec.json.decode(data, type=_Tool)
    return msgspec.json.decode(data, type=_Part).value


def _data(fields: ToolFields) -> _Data | UnsetType:
    status = fields["status"]
    match status:
        case Approved():
            edit = _call(status.edited_call)
            return _Data(edited_call=edit, reason=status.reason, by=status.by)
        case Running():
            return _attempt_data(fields, status)
        case Completed():
            answer = status.response
            response = _Response(id=answer.id, name=answer.name, result=answer.result)
            return _Data(
                response=response,
                synthetic=status.synthetic,
                by=status.by,
                reason=status.reason,
            )
        case Failed():
            failure = status.failure
            is_plain = failure == Failure(ErrorKind.INTERNAL, failure.message)
            return _Data(error=failure.message, failure=None if is_plain else failure)
        case Rejected():
            return _Data(reason=status.reason, by=status.by, source=status.source)
        case Pending():
            data = _Data(
                reason=status.reason, until=status.until, needs_decision=status.needs_decision
            )
            return UNSET if data == _Data() else data


def _attempt_data(fields: ToolFields, status: Running) -> _Data | UnsetType:
    """Return what an attempt carries beyond what the call says: without a lease, nothing."""
    data = _Data(leased_until=status.leased_until, worker=status.worker)
    is_last = status.attempt == (fields["attempts"] or 1)
    in_force = fields["edit"] or fields["call"]
    if not (is_last and same_json(status.arguments, in_force.arguments)):
        data.attempt, data.arguments = status.attempt, status.arguments
    return UNSET if data == _Data() else data


def _status(state: _State, data: _Data, in_force: _Call, last_attempt: int) -> ToolStatus:
    match state:
        case "Pending":
            return Pending(data.until, data.needs_decision, data.reason)
        case "Approved":
            return Approved(_function_call(data.edited_call), data.by, data.reason)
        case "Running":
            arguments = in_force.arguments if data.arguments is UNSET else data.arguments
            attempt = data.attempt or last_attempt
            return Running(attempt, arguments, data.leased_until, data.worker)
        case "Completed":
            answer = _required(data.response, state, "response")
            response = FunctionResponse(answer.name, answer.result, answer.id)
            return Completed(response, data.synthetic, data.by, data.reason)
        case "Failed":
            return Failed(data.failure or _plain_failure(data.error))
        case "Rejected":
            return Rejected(data.reason, data.source, data.by)


def _plain_failure(error: str | None) -> Failure:
    return Failure(ErrorKind.INTERNAL, _required(error, "Failed", "error"))


def _required(member: _T | None, state: str, name: str) -> _T:
    if member is None:
        raise msgspec.ValidationError(f"{state} carries `{name}` - at `$.status.data`")
    return member


@overload
def _call(call: FunctionCall) -> _Call: ...
@overload
def _call(call: FunctionCall | None) -> _Call | None: ...
def _call(call: FunctionCall | None) -> _Call | None:
    if call is None:
        return None
    return _Call(id=call.id, name=call.name, arguments=call.arguments, raw=call.raw)


@overload
def _function_call(call: _Call) -> FunctionCall: ...
@overload
def _function_call(call: _Call | None) -> FunctionCall | None: ...
def _function_call(call: _Call | None) -> FunctionCall | None:
    if call is None:
        return None
    call_id = None if call.id is UNSET else call.id
    return FunctionCall(call.name, call.arguments, call_id, call.raw)
