"""What a run of pydantic-ai writes to the log.

1. A run is known by its `run_id`, and in a workflow of DBOS by the id that it had first. What the
   same run says again at the same step is stored once, and its calls are as the log has them.
2. The user's words are recorded before the model is asked, and the response with its thinking, its
   signatures and its usage before any of its calls runs.
3. The response of a call that waits keeps the revision that was asked about, in its `metadata`; an
   answer of the host is for that.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from pydantic_ai import messages

from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.messages import Text
from eventstore.integrations.host_answers import first_seen
from eventstore.integrations.pydantic_ai_messages import (
    FRAMEWORK,
    WORDS,
    after_response,
    last_response,
    message_added,
    parsed_call,
    stated_facts,
    without_stored,
    wording_by,
)
from eventstore.integrations.recorded_calls import AsyncRecordedCalls

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pydantic_ai import RunContext

    from eventstore.aio.conversation import AsyncConversation
    from eventstore.domain.revision import Revision
    from eventstore.domain.tool import Tool

_SEEN = "toolledger_seen"  # a member of a response's metadata: revisions, by call


class RunLog:
    """The words, the responses and the calls of a ledger's runs, in its conversation."""

    def __init__(self, chat: AsyncConversation, read_only: Collection[str]) -> None:
        self.chat = chat
        self.calls = AsyncRecordedCalls(chat, FRAMEWORK, read_only=read_only)
        self.first_ids: dict[str, str] = {}
        """The ids that runs in workflows had first, by the ids that they have now."""
        self._early: set[tuple[str, str]] = set()  # the step and id of calls that stand alone
        self._requested_at: dict[str, float] = {}  # by step and `time.monotonic`

    def note_request(self, ctx: RunContext[Any]) -> None:
        """Note that the model is asked now."""
        self._requested_at[self.step(ctx)] = time.monotonic()

    def step(self, ctx: RunContext[Any]) -> str:
        """Return what names a model's response: its run, and the step in it."""
        run_id = str(ctx.run_id)
        return f"{self.first_ids.get(run_id, run_id)} {ctx.run_step}"

    async def record_words(self, step: str, given: Sequence[messages.ModelMessage]) -> None:
        """Record the system's and the user's words after the last response, if they are new."""
        said = [part for message in after_response(given) for part in message.parts]
        events = [message_added(part) for part in said if isinstance(part, WORDS)]
        if events:
            await self.calls.record_words(lambda stored: without_stored(events, stored), step)

    async def record_response(self, ctx: RunContext[Any], response: messages.ModelResponse) -> None:
        """Record a response and its calls, before any of them runs."""
        step = self.step(ctx)
        requested_at = self._requested_at.pop(step, None)
        latency = None if requested_at is None else time.monotonic() - requested_at
        calls = [p for p in response.tool_calls if (step, p.tool_call_id) not in self._early]
        parts = [Text(p.content) for p in response.parts if isinstance(p, messages.TextPart)]
        if calls or parts or not response.tool_calls:
            (native,) = messages.ModelMessagesTypeAdapter.dump_python([response], mode="json")
            made = [parsed_call(call) for call in calls]
            said = f"{step} {json.dumps(native['parts'], sort_keys=True)}"  # or it was asked anew
            responded = stated_facts(response, latency)
            await self.calls.record(said, parts, made, native, responded, step)

    async def record_answers(self, given: Sequence[messages.ModelMessage]) -> None:
        """Record answers that pydantic-ai gave itself: to unknown tools, output tools, refusals.

        Raises:
            CallChanged: the host has denied a call that has changed since.
        """
        said = [part for message in after_response(given) for part in message.parts]
        answers = {p.tool_call_id: p for p in said if isinstance(p, messages.ToolReturnPart)}
        texts = {
            call_id: part.model_response_str(wrap_if_error=False)
            for call_id, part in answers.items()
        }
        for call_id, tool in (await self.calls.unanswered(texts)).items():
            part, text = answers[call_id], texts[call_id]
            wording = wording_by(part)
            if part.outcome == "denied":
                seen = seen_by_host(given, tool)
                await self.calls.reject(tool, text, seen=seen, wording=wording)
            elif part.outcome in ("failed", "retried"):
                await self.calls.fail(tool, Failure(ErrorKind.VALIDATION, text), wording)
            elif part.outcome == "success":
                await self.chat.complete(tool.id, text, synthetic=True)

    async def tool(
        self, ctx: RunContext[Any], call: messages.ToolCallPart, *, to_run: bool = False
    ) -> Tool:
        """Return the call in the log, for `running` or as it stands now.

        Where words came first, `run_stream` runs tools before it shows the response: then the call
        is recorded by itself, and the words after it.
        """
        tool = await self.calls.find(call.tool_call_id, as_recorded=to_run)
        if tool is not None and _is_made_in(ctx.messages, call.tool_call_id):
            return tool
        step = self.step(ctx)
        self._early.add((step, call.tool_call_id))
        (tool,) = await self.calls.record(
            f"{step} {call.tool_call_id}", (), [parsed_call(call)], None
        )
        return tool


def _is_made_in(given: Sequence[messages.ModelMessage], call_id: str) -> bool:
    """Return whether the last response makes a call."""
    last = last_response(given)
    return last is not None and any(part.tool_call_id == call_id for part in last.tool_calls)


def keep_seen(given: Sequence[messages.ModelMessage], shown: dict[str, str]) -> None:
    """Keep the revisions that people are asked about with the response that made the calls."""
    response = last_response(given)
    if response is not None and shown:
        before = response.metadata or {}
        response.metadata = {**before, _SEEN: {**before.get(_SEEN, {}), **shown}}


def seen_by_host(given: Sequence[messages.ModelMessage], tool: Tool) -> str | Revision:
    """Return what a person was asked about a call; without a note, what the model asked for."""
    response = last_response(given)
    kept = ((response and response.metadata) or {}).get(_SEEN, {})
    return kept.get(tool.id) or first_seen(tool)
