"""A tool call and its lifecycle.

    pending ──► approved ──► running ──► completed
     ▲ │           │          │ │  ▲
     │ │           │          │ ▼  │ (the next attempt)
     │ └───────────┴──► rejected · failed ──► completed (the answer came late)
     │                        │
     └────────────────────────┘ (the attempt paused)

A call may complete or fail without an attempt: a hook answers it, or its arguments cannot be
parsed. The rules are in `lifecycle`.
"""

from __future__ import annotations

from html import escape

import msgspec

from eventstore.domain import tool_json
from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.one_line import one_line
from eventstore.domain.revision import Revision
from eventstore.domain.statuses import (
    PENDING,
    Approved,
    Completed,
    Failed,
    Pending,
    Rejected,
    Running,
    ToolStatus,
)
from eventstore.errors import NonResolvedToolError

SHOWN_CHARACTERS = 400
"""Characters of a call in a notebook."""


class Tool(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool call and its status, called `Tool` and `ToolStatus` in chat-rs.

    `attempts` counts the starts, `pauses` how often the call paused or was deferred. `edit` is the
    approved edit, which stays in force. `fingerprint` is that of the call in force. The times
    (`requested_at`, `decided_at`, `started_at`, `ended_at`) are those of the first request, the
    decision, the last start and the last end, in microseconds since 1970 UTC. `ended_in_doubt` says
    that an attempt which is over may have taken effect. `expires_at` is the time at which the
    approval ends, if it does. `retry_announced`: the call has failed, and its next attempt is to
    come.
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
    ended_in_doubt: bool = False
    pauses: int = 0
    expires_at: int | None = None
    retry_announced: bool = False

    def _repr_html_(self) -> str:
        """Return the call as a notebook shows it: its text, with nothing of it read as markup."""
        call = self.effective_call
        given = call.raw if call.raw is not None else repr(call.arguments)
        status = self.status.name.lower()
        shown = f"{self.id}: {call.name}({given}) {status}, {self.attempts} attempts"
        return f"<pre>{escape(one_line(shown, SHOWN_CHARACTERS))}</pre>"

    @property
    def is_pending(self) -> bool:
        """Whether the call waits: requested and not decided, deferred, or paused."""
        return type(self.status) is Pending

    @property
    def is_paused(self) -> bool:
        """Whether the call waits because it was paused or deferred; see `Pending`."""
        status = self.status
        return type(status) is Pending and (status.needs_decision or status.until is not None)

    @property
    def is_executing(self) -> bool:
        """Whether the call is approved or running."""
        return type(self.status) in (Approved, Running)

    @property
    def is_resolved(self) -> bool:
        """Whether the call is completed, failed or rejected, so that the model can be answered."""
        return type(self.status) in (Completed, Failed, Rejected)

    @property
    def in_doubt(self) -> bool:
        """Whether the call may have taken effect, and nothing in the log says whether it has.

        It is started again by the number of its next attempt alone. An attempt under way is one
        without an end: no log can tell the two apart.
        """
        if self.ended_in_doubt:
            return True
        status = self.status
        return type(status) is Running or (type(status) is Failed and status.failure.leaves_doubt)

    @property
    def effective_call(self) -> FunctionCall:
        """Call in force: the approved edit, otherwise the call that the model asked for."""
        return self.edit or self.call

    @property
    def revision(self) -> Revision:
        """What is to be seen of the call; a decision is bound to it, see `Conversation.approve`.

        `str(tool.revision)` is for a form or a command line.
        """
        return Revision.of(self.effective_call, self.attempts, self.pauses)

    @property
    def approval_used(self) -> bool:
        """Whether the attempt that was approved has failed, and no other one was announced."""
        has_failed = type(self.status) is Failed and not self.retry_announced
        return has_failed and self.decided_at is not None

    @property
    def retries_on_approval(self) -> bool:
        """Whether the call has failed, and its announced attempt needs an approval that expires."""
        return self.retry_announced and self.expires_at is not None

    @property
    def edit_names_other_tool(self) -> bool:
        """Whether the edit names another tool, as a log of an older version may; it never runs."""
        return self.edit is not None and self.edit.name != self.call.name

    @property
    def response(self) -> FunctionResponse | None:
        """Real response of a completed call, otherwise None."""
        status = self.status
        return status.response if type(status) is Completed else None

    def to_tuple(self) -> tuple[FunctionCall, FunctionResponse | None]:
        """Return the call in force and its answer.

        The answer is the real response, or made from the failure or rejection, or None.
        """
        status = self.status
        if type(status) is Completed:
            return self.effective_call, status.response
        if isinstance(status, Failed | Rejected):
            return self.effective_call, self._error_response(status.model_text)
        return self.effective_call, None

    def try_to_tuple(self) -> tuple[FunctionCall, FunctionResponse]:
        """Return the same as `to_tuple`, but require an answer.

        Raises:
            NonResolvedToolError: the call is pending, approved or running.
        """
        call, response = self.to_tuple()
        if response is None:
            raise NonResolvedToolError(self.id, self.status.name)
        return call, response

    def encode(self) -> bytes:
        """Return the call as JSON, its status as `state` and `data`; see `tool_json`."""
        return tool_json.encode(**msgspec.structs.asdict(self))

    @staticmethod
    def decode(data: str | bytes) -> Tool:
        """Return the call that `encode` wrote, or `msgspec.json.encode`.

        Both may stand in a message, as `{"type": "Tool", "value": ...}`. What `encode` wrote is
        read here alone: `msgspec.json.decode(..., type=Tool)` does not know its `data`.

        Raises:
            msgspec.ValidationError: the JSON does not have that form; the error names the path.
        """
        return Tool(**tool_json.decode(data))

    def _error_response(self, text: str) -> FunctionResponse:
        return FunctionResponse(self.call.name, {"error": text}, self.id)
