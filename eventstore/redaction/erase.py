"""`erase`: a person is forgotten: all events about a subject are redacted, in all conversations.

1. The index of subjects says which events they are, of all tenants. Where one event of a call is
   about the subject, all events of the call are. A text is taken out of every conversation, too,
   where it has no tag.
2. Each conversation is redacted in one transaction. A run that ended in the middle is repeated:
   what is redacted is passed over, and still in the report.
3. Calls that are open or in doubt are left, and named. So are archives, which are files.
4. Then the key of the subject is destroyed, if there is one and nothing was left.
5. The tags go at the end, of all that is done. What was left keeps its tags, so that a later run
   finds it. An event that came meanwhile is found by the next round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Required, TypedDict, Unpack

import msgspec

from eventstore.domain.arguments import check_version
from eventstore.domain.redaction import is_marker, parsed_marker
from eventstore.errors import ConversationArchived
from eventstore.redaction.redact import UNREADABLE, Redaction, Said, check_said, redact_selected
from eventstore.redaction.selection import Selection, pattern_of
from eventstore.subjects.tags import WHOLE, TaggedConversation

if TYPE_CHECKING:
    from eventstore.session import LogSession

ROUNDS = 10
"""How often the index is asked again where events about the subject are appended meanwhile."""

RULE = "erase subject"


class ErasureSaid(TypedDict, total=False):
    """What is said of an erasure; see `EventStore.erase_subject`."""

    by: Required[str]
    reason: str | None
    text: str | re.Pattern[str]
    archives_are_gone: bool
    dry_run: bool


class ErasedConversation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was erased of a conversation, and what was left.

    `versions` are those of the events that are about the subject, and are redacted by now.
    `recorded_at` are those of the events that record it, of this run. `shared` are the versions
    that concerned others, too. `left` has the calls that are open or in doubt, with their states.
    `archive` is where the conversation was archived to: that file holds it, or may hold the text,
    still. What `guessable` events held can be guessed, and the guess confirmed. `kept` has the
    names of identifiers that hold the text and stay, by version. `damage` says what is not as it
    was written, so that it was left, with its tags.
    """

    conversation_id: str
    tenant: str = ""
    versions: tuple[int, ...] = ()
    recorded_at: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()
    left: dict[str, str] = {}
    guessable: tuple[int, ...] = ()
    archive: str | None = None
    kept: dict[int, tuple[str, ...]] = {}
    damage: str | None = None


class Erasure(msgspec.Struct, frozen=True):
    """What was erased of a subject; `remains` says in words what is left, and what to do about it.

    It holds no name: `by` and the reason are in the events that record the redactions.
    """

    conversations: tuple[ErasedConversation, ...] = ()
    remains: tuple[str, ...] = ()
    key_destroyed: bool = False
    """Whether the subject's key was destroyed, and so every copy of what it had encrypted."""
    is_final: bool = True
    """Whether no event about the subject came meanwhile that was not erased, too."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left in the log, or in its archives."""
        return self.is_final and not any(
            each.left or each.archive or each.kept or each.damage for each in self.conversations
        )


class _Work:
    """An erasure under way."""

    def __init__(
        self,
        session: LogSession,
        session_of: Callable[[str], LogSession],
        digest: bytes,
        said: Said,
        *,
        archives_are_gone: bool,
    ) -> None:
        self._session = session
        self._session_of = session_of
        self._digest = digest
        self._said = said
        self._archives_are_gone = archives_are_gone
        self.done: dict[tuple[str, str], ErasedConversation] = {}
        self.comes_more = False
        self.key_destroyed = False
        self.lacks_keys = False
        self.lacks_keys_for_text = False

    def tagged(self) -> None:
        """Erase what the index names; its tags go last."""
        for _ in range(ROUNDS):
            found = list(self._session.storage.subjects.find(self._digest))
            ends = {(each.lane, each.key): self._erase_or_name(each) for each in found}
            if self._said.get("dry_run"):
                return
            if not any(each.left for each in self.done.values()):
                self._destroy_key()
            removed = [self._untag(each, ends[each.lane, each.key]) for each in found]
            self.comes_more = not all(removed) or self._comes_more(found)
            if not self.comes_more:
                return

    def _destroy_key(self) -> None:
        """Destroy the key of the subject, which erases every copy of what is encrypted with it."""
        if self._session.vault is not None:
            self._session.vault.destroy(self._digest)
            self.key_destroyed = True

    def _comes_more(self, before: list[TaggedConversation]) -> bool:
        """Return whether the index names events that it did not name before."""
        known = {(each.lane, each.key): set(each.versions) for each in before}
        now = self._session.storage.subjects.find(self._digest)
        return any(set(each.versions) - known.get((each.lane, each.key), set()) for each in now)

    def _erase_or_name(self, tagged: TaggedConversation) -> int:
        """Erase what is tagged, or name the archive that it went to meanwhile."""
        try:
            return self._erase_tagged(tagged)
        except ConversationArchived as archived:
            name, tenant, shared = tagged.conversation_id, tagged.tenant, tagged.shared
            self.done[tenant, name] = ErasedConversation(
                name, tenant, shared=shared, archive=archived.place
            )
            return 0

    def _erase_tagged(self, tagged: TaggedConversation) -> int:
        """Redact what a conversation says of the subject; return the version that it has then.

        It is 0 where its tags must stay.
        """
        name, tenant = tagged.conversation_id, tagged.tenant
        if tagged.archive is not None:
            place = None if self._archives_are_gone else tagged.archive
            self.done[tenant, name] = ErasedConversation(
                name, tenant, shared=tagged.shared, archive=place, damage=tagged.damage
            )
            return 0
        self._note_damage(tenant, name, tagged.damage)
        try:
            return self._redact_tagged(tagged) if tagged.versions else 0
        except UNREADABLE as error:  # the others are erased
            self._note_damage(tenant, name, str(error))
            return 0

    def _note_damage(self, tenant: str, name: str, damage: str | None) -> None:
        before = self.done.get((tenant, name), ErasedConversation(name, tenant))
        self.done[tenant, name] = msgspec.structs.replace(before, damage=damage)

    def _redact_tagged(self, tagged: TaggedConversation) -> int:
        """Redact what is tagged; return the version that the conversation has then."""
        name, tenant = tagged.conversation_id, tagged.tenant
        session = self._session_of(tenant)
        versions = frozenset[int]() if WHOLE in tagged.versions else frozenset(tagged.versions)
        calls: set[str] = set()
        for each in session.events(name):
            if not versions or each.version in versions:
                self.lacks_keys |= each.locked is not None and self._session.vault is None
                if each.call_id is not None and versions:
                    calls.add(each.call_id)
        end = session.version(name)
        wanted = Selection(versions, frozenset(calls), spares=True)
        recorded = self._redact(session, name, wanted, tagged.shared)
        return max(end, *recorded) if recorded else end

    def everywhere(self, text: re.Pattern[str]) -> None:
        """Take a text out of every conversation of every tenant."""
        for tenant in self._session.storage.subjects.tenants():
            session = self._session_of(tenant)
            for name, _ in list(session.storage.conversations()):
                try:
                    self._redact(session, name, Selection(text=text, spares=True), ())
                except ConversationArchived as archived:  # the text may be in that file
                    if not self._archives_are_gone:
                        self.done[tenant, name] = ErasedConversation(
                            name, tenant, archive=archived.place
                        )
                except UNREADABLE as error:
                    self._note_damage(tenant, name, str(error))

    def _redact(
        self, session: LogSession, name: str, wanted: Selection, shared: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Redact what is selected; return the versions of the events that record it."""
        redacted = redact_selected(session, name, wanted, **self._said)
        self.lacks_keys_for_text |= bool(redacted.locked)
        if wanted.text is not None and not (redacted.versions or redacted.left or redacted.kept):
            return ()
        gone = () if wanted.text is not None else _gone(session, name, wanted)
        tenant = session.storage.tenant
        before = self.done.get((tenant, name), ErasedConversation(name, tenant))
        self.done[tenant, name] = _joined(before, redacted, gone, shared)
        return redacted.recorded_at

    def _untag(self, tagged: TaggedConversation, end: int) -> bool:
        done = self.done[tagged.tenant, tagged.conversation_id]
        if done.archive is not None or (done.damage is not None and not end):
            return True
        gone = set(tagged.versions)
        if done.left:
            events = self._session_of(tagged.tenant).events(tagged.conversation_id)
            try:
                gone -= {each.version for each in events if each.call_id in done.left} | {WHOLE}
            except ConversationArchived:  # meanwhile: the next run finds it by its tags
                return True
        return self._session.storage.subjects.remove(self._digest, tagged, gone, end)


def erase(
    session: LogSession,
    subject: str,
    *,
    text: str | re.Pattern[str] = "",
    archives_are_gone: bool = False,
    **said: Unpack[Said],
) -> Erasure:
    """Erase a subject; see `EventStore.erase_subject`."""
    pattern = None if text == "" else pattern_of(text)
    check_said(said, pattern)
    said = {"rule": RULE, **said}

    digest = session.digest_of(subject)
    with ExitStack() as opened:
        sessions = {session.storage.tenant: session}

        def of_tenant(tenant: str) -> LogSession:
            if tenant not in sessions:
                sessions[tenant] = opened.enter_context(_of_tenant(session, tenant))
            return sessions[tenant]

        work = _Work(session, of_tenant, digest, said, archives_are_gone=archives_are_gone)
        if pattern is not None:
            work.everywhere(pattern)
        work.tagged()
    conversations = tuple(work.done[key] for key in sorted(work.done))
    if not conversations or said.get("dry_run"):
        return Erasure(conversations)
    notes = (*session.storage.erase(), *_notes(work, conversations))
    return Erasure(conversations, notes, work.key_destroyed, not work.comes_more)


@contextmanager
def _of_tenant(session: LogSession, tenant: str) -> Generator[LogSession]:
    """Open the log of another tenant of the same database."""
    from eventstore.storage.factory import DEFAULT_BUSY_SECONDS, open_storage

    storage = open_storage(session.storage.url, tenant, "full", DEFAULT_BUSY_SECONDS, new=False)
    other = session.on(storage)
    try:
        yield other
    finally:
        other.close()


def tag(
    session: LogSession, subject: str, conversation_id: str, versions: Iterable[int] | None
) -> int:
    """Tag events that are stored; see `EventStore.tag_subject`."""
    numbers = [WHOLE] if versions is None else list(versions)
    for number in () if versions is None else numbers:
        check_version("version", number, least=WHOLE + 1)
    return session.storage.subjects.add(conversation_id, session.digest_of(subject), numbers)


def _gone(session: LogSession, name: str, wanted: Selection) -> list[int]:
    """Return which of the selected events are redacted as a whole."""
    gone: list[int] = []
    for stored, recorded in zip(session.storage.payloads(name), session.events(name), strict=False):
        if is_marker(stored.payload) and wanted.names(stored.version, recorded.call_id):
            marker = parsed_marker(stored.payload)
            if marker is not None and marker.kept is msgspec.UNSET:
                gone.append(stored.version)
    return gone


def _joined(
    before: ErasedConversation,
    redacted: Redaction,
    gone: Iterable[int],
    shared: tuple[int, ...],
) -> ErasedConversation:
    return ErasedConversation(
        before.conversation_id,
        before.tenant,
        tuple(sorted({*before.versions, *redacted.versions, *gone})),
        tuple(sorted({*before.recorded_at, *redacted.recorded_at})),
        tuple(sorted({*before.shared, *shared})),
        before.left | redacted.left,
        tuple(sorted({*before.guessable, *redacted.guessable})),
        kept=before.kept | redacted.kept,
        damage=before.damage,
    )


def _notes(work: _Work, conversations: tuple[ErasedConversation, ...]) -> Iterator[str]:
    if work.lacks_keys:
        yield (
            "copies are encrypted with a key that is still there, as the store was opened without "
            "keys: destroy it"
        )
    if work.lacks_keys_for_text:
        yield (
            "events that are encrypted were not looked at for the text, as their keys are not "
            "there: erase again in a store that is opened with keys"
        )
    if work.comes_more:
        yield "events about the subject are still appended: end what appends them, and erase again"
    if any(each.archive for each in conversations):
        yield (
            "archives hold it still, or may hold the text: restore them, erase again, and destroy "
            "the files that are named; or destroy these, or their keys, at once, and erase again "
            "with archives_are_gone=True"
        )
    if any(each.kept for each in conversations):
        yield (
            "identifiers and records of redactions that hold the text stay; the members are named"
        )
    if any(each.damage for each in conversations):
        yield (
            "what is damaged was left: run `toolledger verify`, restore the database from a copy, "
            "and erase again; text=... finds what has no tag"
        )
    if any(each.left for each in conversations):
        yield (
            "calls that are open or in doubt were left: complete, reject or settle them, and erase "
            "again"
        )
    yield (
        "tables of projections and indexes of searches hold it until they have caught up: run your "
        "projectors; processes that have read it may hold it until they end"
    )
