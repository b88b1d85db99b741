"""`redact`: markers in the place of payloads, and the record of it, in one transaction."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Required, TypedDict, Unpack

import msgspec

from eventstore.append.command import Command, Decide, PendingAppend
from eventstore.append.tool_fold import fold_tools
from eventstore.domain.redaction import SALT_BYTES, PayloadsRedacted
from eventstore.errors import RedactionRefused, StoreBusy, VersionConflict
from eventstore.redaction.plan import Planned, RedactionPlan, plan
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
    `left` has the calls that were left, as they are open or in doubt, with their states: where a
    whole person is erased.
    `remains` says in words where the database still holds the text, and how to clear it.
    """

    conversation_id: str
    versions: tuple[int, ...]
    recorded_at: tuple[int, ...] = ()
    guessable: tuple[int, ...] = ()
    remains: tuple[str, ...] = ()
    left: dict[str, str] = {}


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
    check_person(by)
    wanted = selection(versions, calls, paths, text, whole=whole)
    done = redact_selected(
        session, conversation_id, wanted, by=by, reason=reason, rule=rule, dry_run=dry_run
    )
    if done.recorded_at:
        return msgspec.structs.replace(done, remains=session.storage.erase())
    return done


def check_person(by: object) -> None:
    """Refuse what does not name a person.

    Raises:
        ValueError: it does not.
    """
    if not isinstance(by, str) or not by.strip():
        raise ValueError(f"by is {by!r}: name a person, for example 'mia@acme.example'")


def redact_selected(
    session: LogSession, conversation_id: str, wanted: Selection, **said: Unpack[Said]
) -> Redaction:
    """Redact what is selected of a conversation, in one transaction.

    What the database still holds of it is left to the caller; see `Storage.erase`.

    Raises:
        RedactionRefused: there is no such event, or it must stay for now.
    """
    reason, rule = said.get("reason"), said.get("rule")
    for _ in range(TRIES):
        planned, version = _planned(session, conversation_id, wanted)
        payloads = planned.payloads
        record = list(_records(payloads, said["by"], reason, rule, wanted))
        if said.get("dry_run") or not payloads:
            return _redaction(conversation_id, planned)
        command = Command(
            conversation_id,
            _decided(record),
            PendingAppend.recorded,
            version,
            exclusive=True,
            rewrites=[each.rewrite for each in payloads],
        )
        try:
            recorded = session.run(command)
        except VersionConflict:
            continue
        at = tuple(each.version for each in recorded)
        return _redaction(conversation_id, planned, at)
    raise StoreBusy(
        f"conversation {conversation_id!r} was appended to {TRIES} times while it was to be "
        "redacted; nothing was redacted: try again when it rests"
    )


def _planned(
    session: LogSession, conversation_id: str, wanted: Selection
) -> tuple[RedactionPlan, int]:
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
    conversation_id: str, planned: RedactionPlan, recorded_at: tuple[int, ...] = ()
) -> Redaction:
    return Redaction(
        conversation_id,
        tuple(each.record.version for each in planned.payloads),
        recorded_at,
        tuple(each.record.version for each in planned.payloads if not each.salted),
        left=planned.left,
    )
