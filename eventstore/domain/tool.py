"""One tool call and its lifecycle: six statuses, the table of transitions, `evolve`.

    pending ──► approved ──► running ──► completed
       │           │          │  ▲
       │           │          ▼  │ (the next attempt)
       └───────────┴──► rejected · failed ──► completed (the answer came late)

A call may be completed or failed without an attempt (answered by a hook, or with arguments
that cannot be parsed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from eventstore.errors import IllegalTransition, NonResolvedToolError
from eventstore.failure import Failure
from eventstore.fingerprint import digest, raw_digest, render

if TYPE_CHECKING:
    from eventstore.events import ToolEvent


class FunctionCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the model asked for: a tool's name and its arguments.

    `raw` is the text of the arguments when that text is not a JSON object; `arguments` is then
    the JSON value it holds, or None.
    """

    name: str
    arguments: Any
    id: str | None = None
    raw: str | None = None

    @classmethod
    def of(cls, name: str, arguments: Any = None, id: str | None = None) -> FunctionCall:  # noqa: A002
        """A call from arguments as anybody has them: an object, its JSON text, or neither.

        None, null and blank text are the empty object. Text that is no JSON object, and any other
        JSON value, is kept as `raw`.

        Raises:
            UnhashableArguments: no text, and nothing that JSON can say.
        """
        if type(arguments) is dict:
            return cls(name, arguments, id)
        if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
            return cls(name, {}, id)
        if isinstance(arguments, str):
            value, raw = _parsed(arguments), arguments
        else:
            digest(name, arguments)  # refuses what JSON cannot say, and names the place
            value = msgspec.to_builtins(arguments)
            raw = _canonical(value).decode()
        if type(value) is dict:
            return cls(name, value, id)
        if raw.strip() == "null":
            return cls(name, {}, id)
        return cls(name, value, id, raw.encode("utf-8", "backslashreplace").decode())

    @property
    def is_object(self) -> bool:
        """Whether the arguments are a JSON object, as a tool needs them."""
        return self.raw is None

    def digest(self) -> bytes:
        """The 16 bytes of the fingerprint.

        Raises:
            UnhashableArguments: arguments that JSON cannot say exactly.
        """
        if self.raw is None:
            return digest(self.name, self.arguments)
        return raw_digest(self.name, self.raw)

    @property
    def fingerprint(self) -> str:
        """The fingerprint as text; see `digest`."""
        return render(self.digest())


class FunctionResponse(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the tool answered: any JSON value."""

    name: str
    result: Any
    id: str | None = None


class Pending(msgspec.Struct, frozen=True, gc=False, tag_field="state", tag="Pending"):
    """Asked for; nobody has decided and nothing has run."""

    name: ClassVar[str] = "Pending"


class Approved(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="Approved"
):
    """Allowed, with `edited_call` in force where somebody edited it; not started."""

    name: ClassVar[str] = "Approved"
    edited_call: FunctionCall | None = None
    by: str | None = None
    reason: str | None = None


class Running(msgspec.Struct, frozen=True, gc=False, tag_field="state", tag="Running"):
    """Started, no end recorded: under way, or its outcome is unknown."""

    name: ClassVar[str] = "Running"
    attempt: int
    arguments: Any = None


class Completed(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="Completed"
):
    """Answered, for good."""

    name: ClassVar[str] = "Completed"
    response: FunctionResponse
    synthetic: bool = False


class Failed(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="Failed"
):
    """The last attempt failed; another may follow."""

    name: ClassVar[str] = "Failed"
    failure: Failure

    @property
    def error(self) -> str:
        """The text of the failure."""
        return self.failure.message


class Rejected(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="Rejected"
):
    """Refused, for good."""

    name: ClassVar[str] = "Rejected"
    reason: str | None = None
    source: str = "human"
    by: str | None = None


ToolStatus = Pending | Approved | Running | Completed | Failed | Rejected

PENDING = Pending()


class Tool(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call and where it stands.

    `attempts` counts the starts; `edit` is the approved edit, in force for good; `fingerprint`
    is of the call in force. The times
    (`requested_at`, `decided_at`, `started_at`, `ended_at`) are microseconds since 1970 UTC,
    of the first request, the decision, the last start and the last end.
    """

    id: str
    call: FunctionCall
    status: ToolStatus = PENDING
    attempts: int = 0
    edit: FunctionCall | None = None
    provider_call_id: str | None = None
    turn: int = 0
    index: int = 0
    fingerprint: str | None = None
    requested_at: int | None = None
    decided_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None

    @property
    def is_pending(self) -> bool:
        """Nobody has decided and nothing has run."""
        return type(self.status) is Pending

    @property
    def is_executing(self) -> bool:
        """Approved or running."""
        return type(self.status) in (Approved, Running)

    @property
    def is_resolved(self) -> bool:
        """Completed, failed or rejected: there is something to tell the model."""
        return type(self.status) in (Completed, Failed, Rejected)

    @property
    def effective_call(self) -> FunctionCall:
        """The call in force: the approved edit, else what the model asked for."""
        return self.edit or self.call

    @property
    def response(self) -> FunctionResponse | None:
        """The real response, when completed."""
        status = self.status
        return status.response if type(status) is Completed else None

    def to_tuple(self) -> tuple[FunctionCall, FunctionResponse | None]:
        """The call in force and its answer: real, made from the failure or rejection, or None."""
        status = self.status
        if type(status) is Completed:
            return self.effective_call, status.response
        if type(status) is Failed:
            return self.effective_call, self._error_response(status.failure.model_text)
        if type(status) is Rejected:
            told = "User rejected this tool call"
            if status.reason is not None:
                told = f"{told}: {status.reason}"
            return self.effective_call, self._error_response(told)
        return self.effective_call, None

    def try_to_tuple(self) -> tuple[FunctionCall, FunctionResponse]:
        """`to_tuple`, where an answer is needed.

        Raises:
            NonResolvedToolError: the call is pending, approved or running.
        """
        call, response = self.to_tuple()
        if response is None:
            raise NonResolvedToolError(self.id, self.status.name)
        return call, response

    def encode(self) -> bytes:
        """The call as JSON, its status as `state` and `data`; see `tool_json`."""
        from eventstore import tool_json  # noqa: PLC0415 - it needs this module whole

        return tool_json.encode(self)

    @staticmethod
    def decode(data: str | bytes) -> Tool:
        """The call that `encode` wrote.

        Raises:
            msgspec.ValidationError: it is no such JSON; the error names the place.
        """
        from eventstore import tool_json  # noqa: PLC0415 - it needs this module whole

        return tool_json.decode(data)

    def _error_response(self, text: str) -> FunctionResponse:
        return FunctionResponse(self.call.name, {"error": text}, self.id)


# event tag -> the statuses it may follow (design section 3)
TRANSITIONS: dict[str, tuple[str, ...]] = {
    "approved": ("Pending",),
    "rejected": ("Pending", "Approved"),
    "running": ("Pending", "Approved", "Failed", "Running"),
    "completed": ("Pending", "Approved", "Running", "Failed"),
    "failed": ("Pending", "Approved", "Running"),
}

_CLASSES: dict[str, Any] = {
    kind.name: kind for kind in (Pending, Approved, Running, Completed, Failed, Rejected)
}
_STARTABLE, _COMPLETABLE, _FAILABLE, _REJECTABLE = (
    frozenset(_CLASSES[name] for name in TRANSITIONS[tag])
    for tag in ("running", "completed", "failed", "rejected")
)

_canonical = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.decode


def _parsed(text: str) -> Any:
    try:
        return _decode(text)
    except (ValueError, RecursionError):  # both of msgspec's errors are ValueErrors
        return None


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON, key order aside (1 and 1.0 differ)."""
    if one is other:
        return True
    texts = _canonical(one), _canonical(other)
    # What is in the text as it was stored (`msgspec.Raw`) is not in order yet.
    return texts[0] == texts[1] or _canonical(_decode(texts[0])) == _canonical(_decode(texts[1]))


def evolve(
    tool: Tool | None, event: ToolEvent, at: int | None = None, fingerprint: str | None = None
) -> Tool:
    """`tool` after `event`, recorded at `at`; `fingerprint` is of the call then in force.

    Returns the same object when the event repeats what is already so: a no-op, not to be
    written.

    Raises:
        IllegalTransition: the status does not allow the event.
    """
    return STEPS[event.tag](tool, event, at, fingerprint)


def _pending(tool: Tool | None, event: Any, at: int | None, mark: str | None) -> Tool:
    call = event.call
    if tool is None:
        return Tool(
            call.id, call, PENDING, 0, None, event.provider_call_id, event.turn or 0, event.index,
            mark, at,
        )  # fmt: skip
    known = tool.call
    if (
        known.name == call.name
        and known.raw == call.raw
        and same_json(known.arguments, call.arguments)
    ):
        return tool
    raise IllegalTransition(
        tool.status.name, "pending", tool.id, "another call of this id exists; use a new id"
    )


def _approved(tool: Tool | None, event: Any, at: int | None, mark: str | None) -> Tool:
    if tool is None or type(tool.status) is not Pending:
        if tool is not None and type(tool.status) is Approved:
            if same_json(tool.status.edited_call, event.edited_call):
                return tool
            raise IllegalTransition("Approved", "approved", tool.id, "the first decision stands")
        raise _illegal(tool, event)
    return Tool(
        tool.id, tool.call, Approved(event.edited_call, event.by, event.reason), tool.attempts,
        event.edited_call, tool.provider_call_id, tool.turn, tool.index,
        mark or tool.fingerprint, tool.requested_at, at,
        tool.started_at, tool.ended_at,
    )  # fmt: skip


def _running(tool: Tool | None, event: Any, at: int | None, mark: str | None) -> Tool:
    if tool is None or type(tool.status) not in _STARTABLE:
        raise _illegal(tool, event)
    attempt = event.attempt
    if attempt != tool.attempts + 1:
        raise IllegalTransition(
            tool.status.name,
            "running",
            tool.id,
            f"attempt {attempt} cannot start, the next attempt is {tool.attempts + 1}",
        )
    return Tool(
        tool.id, tool.call, Running(attempt, event.arguments), attempt, tool.edit,
        tool.provider_call_id, tool.turn, tool.index,
        mark or tool.fingerprint, tool.requested_at, tool.decided_at, at,
    )  # fmt: skip


def _completed(tool: Tool | None, event: Any, at: int | None, mark: str | None) -> Tool:
    if tool is None or type(tool.status) not in _COMPLETABLE:
        if tool is not None and type(tool.status) is Completed:
            if same_json(tool.status.response.result, event.response.result):
                return tool
            raise IllegalTransition(
                "Completed", "completed", tool.id, "the first completion stands"
            )
        raise _illegal(tool, event)
    return Tool(
        tool.id, tool.call, Completed(event.response, event.synthetic), tool.attempts, tool.edit,
        tool.provider_call_id, tool.turn, tool.index,
        mark or tool.fingerprint, tool.requested_at, tool.decided_at,
        tool.started_at, at,
    )  # fmt: skip


def _failed(tool: Tool | None, event: Any, at: int | None, mark: str | None) -> Tool:
    if tool is None or type(tool.status) not in _FAILABLE:
        raise _illegal(tool, event)
    return Tool(
        tool.id, tool.call, Failed(event.failure), tool.attempts, tool.edit,
        tool.provider_call_id, tool.turn, tool.index,
        mark or tool.fingerprint, tool.requested_at, tool.decided_at,
        tool.started_at, at,
    )  # fmt: skip


def _rejected(tool: Tool | None, event: Any, at: int | None, mark: str | None) -> Tool:
    if tool is None or type(tool.status) not in _REJECTABLE:
        raise _illegal(tool, event)
    return Tool(
        tool.id, tool.call, Rejected(event.reason, event.source, event.by), tool.attempts,
        tool.edit, tool.provider_call_id, tool.turn, tool.index,
        mark or tool.fingerprint, tool.requested_at, at,
        tool.started_at, at,
    )  # fmt: skip


def _illegal(tool: Tool | None, event: Any) -> IllegalTransition:
    if tool is None:
        return IllegalTransition(
            "unknown", event.tag, event.call_id, "no such call: it was never pending"
        )
    return IllegalTransition(tool.status.name, event.tag, tool.id)


STEPS: dict[str, Callable[[Tool | None, Any, int | None, str | None], Tool]] = {
    "pending": _pending,
    "approved": _approved,
    "running": _running,
    "completed": _completed,
    "failed": _failed,
    "rejected": _rejected,
}
"""Event tag to its step; `evolve` for who knows the tag already."""
