"""A line about a conversation: its size, its last event, its failures, and how it ends."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from eventstore import Conversation, ConversationArchived, Recorded
from projections.debugging.call_facts import LogFacts


class ConversationSummary(msgspec.Struct, frozen=True, gc=False):
    """What a list of conversations says about each.

    `failed` counts the calls whose last outcome is a failure, as the statistics do;
    `error_results` the completed calls whose result says an error, and `open` the calls without an
    end. `last_at` is in microseconds since 1970 UTC. `last` says how the log ends: answered, cut
    off, waiting, under way, or the end of the run. `tokens` are those of the responses.
    """

    conversation_id: str
    version: int
    last_at: int
    calls: int
    failed: int
    open: int
    last: str
    tokens: int = 0
    error_results: int = 0


def conversation_summary(conversation_id: str, events: Iterable[Recorded]) -> ConversationSummary:
    """Return the summary of one conversation."""
    facts = LogFacts().extend(events)
    calls = facts.calls.values()
    last = facts.last
    return ConversationSummary(
        conversation_id=conversation_id,
        version=last.version if last is not None else 0,
        last_at=last.time if last is not None else 0,
        calls=len(calls),
        failed=sum(call.status == "failed" and not call.runs_again for call in calls),
        open=sum(call.is_open for call in calls),
        last=facts.end.name,
        tokens=facts.usage.total_tokens,
        error_results=sum(call.status == "completed" and call.is_error for call in calls),
    )


def summary_of(chat: Conversation) -> ConversationSummary:
    """Return the summary of a conversation, which may be archived."""
    try:
        return conversation_summary(chat.id, chat.events())
    except ConversationArchived as archived:
        return _archived(archived)


def _archived(archived: ConversationArchived) -> ConversationSummary:
    return ConversationSummary(
        conversation_id=archived.conversation_id,
        version=archived.version,
        last_at=archived.archived_at,
        calls=0,
        failed=0,
        open=0,
        last=f"archived in {archived.place}",
        tokens=0,
    )
