"""`redact`: markers in the place of payloads, and the record of it, in one transaction."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Required, TypedDict, Unpack

import msgspec
from msgspec.structs import replace

from eventstore.append.command import Command, Decide, PendingAppend
from eventstore.append.tool_fold import fold_tools
from eventstore.domain.redaction import SALT_BYTES, PayloadsRedacted
from eventstore.errors import (
    ConversationArchived,
    RedactionRefused,
    StoreBusy,
    StoreCorrupt,
    VersionConflict,
    WrongKey,
)
from eventstore.redaction.members import covering
from eventstore.redaction.plan import Planned, RedactionPlan, plan
from eventstore.redaction.selection import Selection, pattern_of, selection

if TYPE_CHECKING:
    from eventstore.session import LogSession

RECORDED_TOGETHER = 1000
"""Payloads that one event records at most."""

TRIES = 100
"""How often it is planned anew where others append to the conversation meanwhile."""


UNREADABLE = (StoreCorrupt, WrongKey)
"""What is raised where one conversation cannot be read; the others are redacted all the same."""


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
    `left` has the calls that were left, as they are open or in doubt, with their states, and
    `archive` is where the conversation was archived to: that file may hold the text still.
    `damage` says why it cannot be read, so that it was left. The three are there where all
    conversations are looked through.
    `kept` has the names of members that hold the text and stay, by version: those of identifiers,
    such as the name of a tool, and of what people said in the records of redactions. `locked`
    are the versions of events that are encrypted, and were not looked at for want of a key.
    `remains` says in words where the database still holds the text, and how to clear it.
    """

    conversation_id: str
    versions: tuple[int, ...]
    recorded_at: tuple[int, ...] = ()
    guessable: tuple[int, ...] = ()
    remains: tuple[str, ...] = ()
    left: dict[str, str] = {}
    archive: str | None = None
    kept: dict[int, tuple[str, ...]] = {}
    locked: tuple[int, ...] = ()
    damage: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing of what was chosen is left in the conversation, or in its archive."""
        return not (self.left or self.archive or self.kept or self.locked or self.damage)


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
    wanted = selection(versions, calls, paths, text, whole=whole)
    said: Said = {"by": by, "reason": reason, "rule": rule, "dry_run": dry_run}
    check_said(said, wanted.text)
    done = redact_selected(session, conversation_id, wanted, **said)
    if done.recorded_at:
        return replace(done, remains=session.storage.erase())
    return done


def redact_everywhere(
    session: LogSession, text: str | re.Pattern[str], **said: Unpack[Said]
) -> list[Redaction]:
    """Take a text out of every conversation; see `EventStore.redact_everywhere`."""
    wanted = Selection(text=pattern_of(text), spares=True)
    check_said(said, wanted.text)
    done: list[Redaction] = []
    remains: tuple[str, ...] = ()
    try:
        for conversation_id, _ in list(session.storage.conversations()):
            done.append(_or_named(session, conversation_id, wanted, said))
    finally:
        if any(each.recorded_at for each in done):
            remains = session.storage.erase()
    return [
        replace(each, remains=remains) if each.recorded_at else each
        for each in done
        if each.versions or not each.is_complete
    ]


def _or_named(
    session: LogSession, conversation_id: str, wanted: Selection, said: Said
) -> Redaction:
    """Redact what is selected of a conversation, or say why it was left."""
    try:
        return redact_selected(session, conversation_id, wanted, **said)
    except ConversationArchived as archived:
        remains = (
            f"conversation {conversation_id!r} is archived in {archived.place}, which may hold the "
            "text: restore it, redact it, and destroy that file; or destroy that file, or its key"
        )
        return Redaction(conversation_id, (), remains=(remains,), archive=archived.place)
    except UNREADABLE as error:
        return Redaction(conversation_id, (), damage=str(error))


def check_said(said: Said, text: re.Pattern[str] | None) -> None:
    """Refuse what cannot be recorded of a redaction, or holds the text that is to go.

    Raises:
        ValueError: it does. The error does not repeat the text.
    """
    check_person(said["by"])
    for name in ("by", "reason", "rule"):
        value: object = said.get(name)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name} is {value!r}: pass text, or leave it out")
        if text is not None and value and covering(text)(value) != value:
            raise ValueError(
                f"{name} holds the text that is to be redacted, and is stored with the record of "
                "it: say it in other words"
            )


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
            f"there is no conversation {conversation_id!r}: name one of `store.conversations()`, "
            "which `toolledger show` lists"
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
        kept=planned.kept,
        locked=planned.locked,
    )
