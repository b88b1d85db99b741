"""Decisions in a log: which person or rule has allowed, refused, settled or redacted, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from eventstore import PayloadsRedacted, Recorded, ToolApproved, ToolRejected
from projections.formatting import utc_text


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision, as its event says it."""

    conversation: str
    version: int
    at: str
    what: str
    """The tag of the event: approved, rejected, redacted; or how a call in doubt was settled."""
    by: str | None
    call_id: str | None = None
    reason: str | None = None
    source: str | None = None
    """What has refused a call: human, gate, hook, rule, limit or sibling."""
    edited: bool = False
    """Whether the arguments were changed by the decision."""
    rule: str | None = None
    versions: tuple[int, ...] = ()
    """The events whose content a redaction has taken away."""


def decisions(events: Iterable[Recorded]) -> Iterator[Decision]:
    """Yield the decisions among events, in their order."""
    for recorded in events:
        event: Any = recorded.event
        by = getattr(event, "by", None)
        if by is None and not isinstance(event, ToolApproved | ToolRejected):
            continue
        yield Decision(
            recorded.conversation_id,
            recorded.version,
            utc_text(recorded.time),
            event.tag,
            by,
            recorded.call_id,
            getattr(event, "reason", None),
            getattr(event, "source", None),
            getattr(event, "edited_call", None) is not None,
            getattr(event, "rule", None),
            tuple(each.version for each in event.payloads)
            if isinstance(event, PayloadsRedacted)
            else (),
        )
