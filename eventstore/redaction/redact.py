"""`redact`: markers in the place of payloads, and the record of it, in one transaction."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Required, TypedDict

import msgspec

from eventstore.append.command import Command, Decide, PendingAppend
from eventstore.append.tool_fold import fold_tools
from eventstore.domain.redaction import SALT_BYTES, PayloadsRedacted
from eventstore.errors import RedactionRefused, StoreBusy, VersionConflict
from eventstore.redaction.plan import Planned, plan
from eventstore.redaction.selection import Selection, selection

if TYPE_CHECKING:
    from eventstore.session import LogSession

RECORDED_TOGETHER = 1000
"""Payloads that one event records at most."""

TRIES = 100
"""How often it is planned anew where others append to the conversation meanwhile."""


class Said(TypedDict, total=False):
    """What is said of a redaction; see `EventStore.redact`."""

    by: Required[str]
    reason: str | None
    rule: str | None
    dry_run: bool


class Chosen(Said, total=False):
    """What is chosen to be redacted, and what is said of it; see `EventStore.redact`."""

    versions: Iterable[int]
    calls: Iterable[str]
    paths: Iterable[str]
    text: str | re.Pattern[str]
    whole: bool


class Redaction(msgspec.Struct, frozen=True):
    """What was redacted of a conversation, and what is left.

    `versions` are those of the redacted events, `recorded_at` those of the events that record it.
    What `guessable` events held can be guessed, and the guess confirmed: they have no salts.
    `remains` says in words where the database still holds the text, and how to clear it.
    """

    conversation_id: str
    versions: tuple[int, ...]
    recorded_at: tuple[int, ...] = ()
    guessable: tuple[int, ...] = ()
    remains: tuple[str, ...] = ()


def redact(  # noqa: PLR0913 - see `EventStore.redact`
    session: LogSession,
    conversation_id: str,
    *,
    by: str,
    versions: Iterable[int] = (),
    calls: Iterable[str] = (),
    paths: Iterable[str] = (),
    text: str | re.Pattern[str] = "",
    whole: bool = False,
    reason: str | None = None,
    rule: str | None = None,
    dry_run: bool = False,
) -> Redaction:
    """Redact events of a conversation; see `EventStore.redact`."""
    if not isinstance(by, str) or not by.strip():
        raise ValueError(f"by is {by!r}: name a person, for example 'mia@acme.example'")
    wanted = selection(versions, calls, paths, text, whole=whole)
    for _ in range(TRIES):
        planned, version = _planned(session, conversation_id, wanted)
        record = list(_records(planned, by, reason, rule, wanted))
        if dry_run or not planned:
            return _redaction(conversation_id, planned)
        command = Command(
            conversation_id,
            _decided(record),
            PendingAppend.recorded,
            version,
            exclusive=True,
            rewrites=[each.rewrite for each in planned],
        )
        try:
            recorded = session.run(command)
        except VersionConflict:
            continue
        at = tuple(each.version for each in recorded)
        return _redaction(conversation_id, planned, at, session.storage.erase())
    raise StoreBusy(
        f"conversation {conversation_id!r} was appended to {TRIES} times while it was to be "
        "redacted; nothing was redacted: try again when it rests"
    )


def _planned(
    session: LogSession, conversation_id: str, wanted: Selection
) -> tuple[list[Planned], int]:
    rows = list(session.storage.payloads(conversation_id))
    if not rows:
        raise RedactionRefused(
            f"there is no conversation {conversation_id!r}: name one of `store.conversations()`"
        )
    tools = fold_tools(session.events(conversation_id))
    nonce = partial(os.urandom, SALT_BYTES)
    return plan(conversation_id, rows, tools, wanted, nonce), rows[-1].version


def _decided(record: list[PayloadsRedacted]) -> Decide:
    return lambda _, __: record


def _records(
    planned: list[Planned], by: str, reason: str | None, rule: str | None, wanted: Selection
) -> Iterator[PayloadsRedacted]:
    for first in range(0, len(planned), RECORDED_TOGETHER):
        some = tuple(each.record for each in planned[first : first + RECORDED_TOGETHER])
        yield PayloadsRedacted(by, some, reason, rule, wanted.paths)


def _redaction(
    conversation_id: str,
    planned: list[Planned],
    recorded_at: tuple[int, ...] = (),
    remains: tuple[str, ...] = (),
) -> Redaction:
    return Redaction(
        conversation_id,
        tuple(each.record.version for each in planned),
        recorded_at,
        tuple(each.record.version for each in planned if not each.salted),
        remains,
    )
