"""`EventStore`: the log of all conversations of one tenant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Self

from eventstore.append.door import door_of
from eventstore.conversation import Conversation
from eventstore.domain.arguments import check_conversation_id, check_storable
from eventstore.domain.events import Recorded
from eventstore.domain.fingerprint import parse
from eventstore.domain.redaction import PayloadsRedacted
from eventstore.errors import StorageError
from eventstore.retention.methods import Retains
from eventstore.session import DEFAULT_SETTINGS, LogSession, SessionSettings
from eventstore.storage.interface import Damage, Storage
from eventstore.storage.verification import verify
from eventstore.subjects.secret import SubjectSecret, secret_of, subjects_of
from eventstore.subscriptions.feed import Bookmark, Cursor, Feed

if TYPE_CHECKING:
    import re
    from types import TracebackType

    from sqlalchemy import Connection

    from eventstore.detectors import Redact
    from eventstore.policies.prices import Prices
    from eventstore.redaction.erase import Erasure
    from eventstore.redaction.redact import Redaction
    from eventstore.seals import Anchor, SigningKey, VerifierKey
    from eventstore.session import Session
    from eventstore.storage.sealable_log import Seal, SealableLog
    from eventstore.subjects.keys import SubjectKeys
    from eventstore.subscriptions.subscription import Follow
    from eventstore.subscriptions.waiting import StopSignal


class EventStore(Retains):
    """An append-only log of conversations; safe to share between threads, and across a fork.

    Open one with `EventStore.open(url)`. `storage` may be any `Storage`; for `clock` see `open`;
    `settings` are for tests and for unusual logs.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Callable[[], int] | None = None,
        *,
        settings: SessionSettings = DEFAULT_SETTINGS,
        prices: Prices | None = None,
        subjects: SubjectSecret | str | PathLike[str] | None = None,
        keys: SubjectKeys | str | PathLike[str] | None = None,
        redact: Iterable[Redact] = (),
    ) -> None:
        secret, vault = None if subjects is None else secret_of(subjects), None
        if secret is not None:
            storage.subjects.recognise(secret.check)
        if keys is not None:
            from eventstore.subjects.key_file import vault_of

            vault = vault_of(keys, secret)
            storage.unlock(vault)
        self.session = LogSession(
            storage,
            clock,
            _bind_to_connection,
            settings,
            prices,
            secret,
            vault,
            door_of(redact),
        )
        """What its handles share; for the package's own use."""

    @classmethod
    def open(  # noqa: PLR0913 - all but the first have names
        cls,
        url: str,
        *,
        tenant: str = "",
        durability: str = "full",
        busy_timeout: float = 30.0,
        create: bool = True,
        read_only: bool = False,
        upgrade: bool = True,
        clock: Callable[[], int] | None = None,
        prices: Prices | None = None,
        subjects: SubjectSecret | str | PathLike[str] | None = None,
        keys: SubjectKeys | str | PathLike[str] | None = None,
        redact: Iterable[Redact] = (),
    ) -> Self:
        """Open the store at a database URL; create or upgrade its schema.

        A file is `sqlite:///agent.db`; servers are `postgresql://user@host/name` and
        `mysql://user@host/name` (MariaDB, too), with the extra of that name installed.

        `create=False` refuses a database that holds no store yet, and leaves it as it is.
        `read_only=True` is for a user who may only read: nothing is created or upgraded, and an
        append raises `StoreReadOnly`.
        `upgrade=False` refuses a database whose schema is of an older version, and leaves it as it
        is: for a deployment that runs `toolledger migrate` at a time of its own.
        With `durability="full"` an append that returned is on disk. `"normal"` is faster and may
        lose the last commits in a power cut (not in a crash of the process). `busy_timeout`
        (seconds) is how long an append waits for other writers, or for a server to come back.
        `prices` is a price table (`PriceTable`): the usage of responses is recorded with its cost.
        Times of the log, leases and the ends of approvals come from the database: from its server,
        whatever the clock of this machine says, or of this machine for SQLite. A `clock` that
        returns microseconds since 1970 UTC takes its place, for tests for example.
        `subjects` is the secret of the index of subjects (`SubjectSecret`, or the path of its
        file), with which events are tagged with the persons that they are about, see
        `Conversation.about`, and found again, see `erase_subject`. With `keys` (the path of a
        `KeyFile`, or `SubjectKeys` of your own) what is appended about a subject is encrypted with
        its own key, and read where that is there; it needs the extra `encrypt`.
        `redact` are rules (`Redact`; `eventstore.detectors` has ready-made ones) that see all texts
        before they are stored through this store, and cover what they find.

        Raises:
            ValueError: the URL, or another argument, makes no sense.
            WrongKey: the log was tagged under another secret.
            NotAStore, SchemaTooNew, SchemaTooOld, StorageError: the database cannot be used.
        """
        if not isinstance(tenant, str):
            raise ValueError(f"tenant is {tenant!r}: pass text, for example 'acme'")  # noqa: TRY004
        check_storable("tenant", tenant)
        from eventstore.storage.factory import open_storage  # loads SQLAlchemy

        secret = None if subjects is None else secret_of(subjects)
        storage = open_storage(
            url,
            tenant,
            durability,
            busy_timeout,
            new=create,
            read_only=read_only,
            upgrade=upgrade,
        )
        try:
            return cls(storage, clock, prices=prices, subjects=secret, keys=keys, redact=redact)
        except BaseException:
            storage.close()
            raise

    def __repr__(self) -> str:
        from eventstore.storage.urls import shown  # loads SQLAlchemy

        tenant = self.tenant and f" of {self.tenant!r}"
        return f"<{type(self).__name__} {shown(self.url)!r}{tenant}>"

    @property
    def url(self) -> str:
        """The URL of the log, with the password: it opens the log once more.

        A file is named in full. `repr(store)` is for printing: it hides all secrets.
        """
        return self.session.committer.storage.url

    @property
    def tenant(self) -> str:
        """The tenant whose log it is."""
        return self.session.committer.storage.tenant

    def now(self) -> int:
        """Return the time by which leases and approvals end, in microseconds since 1970 UTC.

        It is that of the database, or of the `clock` that was passed; see `open`.
        """
        return self.session.now()

    def conversation(
        self,
        conversation_id: str,
        *,
        connection: Connection | None = None,
        subjects: str | Iterable[str] = (),
    ) -> Conversation:
        """Return a handle on a conversation; the first append creates it.

        With `connection`, a SQLAlchemy `Connection` to the store's database (of an ORM session,
        `session.connection()`), everything is read and appended inside the host's own transaction:
        the events are there when the host commits, and never if it rolls back. Your first append
        locks the lane (on SQLite, the database) until you commit. Appending without the
        connection meanwhile, in the same thread, would wait for yourself: it raises `StoreBusy`
        after `busy_timeout`.

        All that is appended through the handle is about the `subjects`; see `Conversation.about`.

        Raises:
            ValueError: the id is empty, or is not text that a database can hold; or a subject.
            TypeError, ValueError: the connection cannot be used, found here or at the first use.
        """
        check_conversation_id(conversation_id)
        session: Session = self.session
        if connection is not None:
            session = session.in_transaction(connection)
        if named := subjects_of(subjects):
            session = session.about(named)
        return Conversation(session, conversation_id)

    def conversations(self) -> Iterator[tuple[str, int]]:
        """Return every conversation's id with its version, oldest first."""
        return self.session.storage.conversations()

    def read(self, after: Cursor | str | None = None, limit: int | None = None) -> Feed:
        """Return the events of all conversations after a cursor, in bounded memory.

        The first event raises `CursorLost` if the log was put back behind the cursor.

        Raises:
            ValueError: it is not a cursor, or of another store; or the limit is negative.
        """
        if limit is not None and (type(limit) is not int or limit < 0):
            raise ValueError(f"limit is {limit!r}: pass None, 0 or more")
        return Feed(self.session.storage, after, limit)

    def follow(
        self,
        after: Cursor | str | None = None,
        *,
        stop: StopSignal | None = None,
        timeout: float | None = None,
        poll: float = 0.05,
    ) -> Follow[Cursor]:
        """Return the events of all conversations after a cursor, and then those to come.

        The iteration ends when `stop` (a `threading.Event`) is set, when nothing came for
        `timeout` seconds, or when the store is closed. Appends of this process are seen at once,
        appends of others within `poll` seconds. No event is ever passed over: a gap raises
        `StoreCorrupt`, and a log that was put back behind the cursor `CursorLost`.

        `store.follow(store.end())` returns only what is appended from now on.

        Raises:
            ValueError: it is not a cursor, or of another store; or a time is negative.
        """
        from eventstore.subscriptions.sources import StoreSource
        from eventstore.subscriptions.subscription import Follow, Subscription

        source = StoreSource(self.session, after)
        return Follow(Subscription(self.session, source, stop, timeout, poll))

    def end(self) -> Cursor:
        """Return the cursor after the last event."""
        storage = self.session.storage
        return Bookmark.at(storage, storage.heads()).cursor(storage.epoch)

    def read_call(self, conversation_id: str, call_id: str) -> Iterator[Recorded]:
        """Return the events of one call, in order."""
        events = self.session.events(conversation_id)
        return (recorded for recorded in events if recorded.call_id == call_id)

    def read_fingerprint(self, fingerprint: str) -> Iterator[Recorded]:
        """Return the events of every call with these arguments in force, in any conversation.

        Raises:
            ValueError: it is not a fingerprint (`x1:` and 32 hex digits).
        """
        digest, vault = parse(fingerprint), self.session.vault
        by_fingerprint = self.session.storage.by_fingerprint
        if vault is None:
            return by_fingerprint(digest)
        return chain(by_fingerprint(digest), by_fingerprint(vault.mark(digest)))

    def verify(self) -> Iterator[Damage]:
        """Return what is wrong with the log: nothing, for a log as it was written.

        First every stored row is checked, of all tenants, and then what the events of this tenant
        say; see `eventstore.storage.verification`. Stored seals are checked as far as no key is
        needed. `toolledger verify` prints the same.

        Raises:
            StorageError: the log could not be checked, for example because the server is gone.
        """
        yield from verify(self.session.storage)
        log = getattr(self.session.storage, "sealable_log", None)
        if log is not None:
            from eventstore.seals import seal_problems  # few need it

            for lane, problem in seal_problems(log):
                yield Damage(lane, None, None, None, problem)

    @property
    def sealable_log(self) -> SealableLog:
        """The log of all tenants as it is sealed, for the functions of `eventstore.seals`.

        Raises:
            StorageError: the storage keeps no seals.
        """
        storage = self.session.storage
        log: SealableLog | None = getattr(storage, "sealable_log", None)
        if log is None:
            raise StorageError(
                f"{type(storage).__name__} keeps no seals: give it a `sealable_log`, or use a "
                "storage over SQL"
            )
        return log

    def seal(
        self,
        key: SigningKey,
        *,
        anchors: Sequence[Anchor] = (),
        trusted: Collection[VerifierKey] = (),
    ) -> list[Seal]:
        """Sign what the log of all tenants holds now; return the newest seal of each lane.

        Each note is stored, and handed to the anchors. `trusted` are older keys of the same name.
        See `eventstore.seals`, which needs the extra `seal`; `Sealer` does this in a thread.

        Raises:
            SealMismatch: a lane is not what was sealed before, or is damaged; it is not signed.
            NotSigned: the last seal, or a note of an anchor, is signed by another key.
            AnchorFailed: the seals are stored, and an anchor failed with the cause.
        """
        from eventstore.seals import seal  # few need it

        return seal(self, key, anchors=anchors, trusted=trusted)

    def redact(  # noqa: PLR0913 - all but the first have names
        self,
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
        """Take the content out of events that are stored, and record that it was done.

        Chosen are events by their `versions`, or all events of `calls`. Of these everything goes,
        or only the members at `paths` (`arguments.card`, `result.rows[*].email`, `parts[0].text`)
        or a `text` wherever it stands (a compiled pattern, too). Paths or a text alone are looked
        for in the whole conversation; `whole=True` redacts all of it. Identifiers, versions, times
        and digests stay, so that the log is as sound as before. The redaction is an event of its
        own, with the person, the reason and the rule.

        A call of which an event was redacted is never started again. With `dry_run` nothing is
        done, and what would be is returned.

        Raises:
            RedactionRefused: a call is open or in doubt, or there is no such event.
            ValueError: an argument makes no sense.
        """
        from eventstore.redaction.redact import redact

        check_conversation_id(conversation_id)
        return redact(
            self.session,
            conversation_id,
            by=by,
            versions=versions,
            calls=calls,
            paths=paths,
            text=text,
            whole=whole,
            reason=reason,
            rule=rule,
            dry_run=dry_run,
        )

    def redact_everywhere(
        self,
        text: str | re.Pattern[str],
        *,
        by: str,
        reason: str | None = None,
        rule: str | None = None,
        dry_run: bool = False,
    ) -> list[Redaction]:
        """Take a text out of every conversation, and return what was done, and what is left.

        Each conversation is one transaction: what was done stays if a later one fails. Calls that
        are open or in doubt are left, and named, and so are conversations that are archived, or
        cannot be read; see `Redaction`. Conversations without the text are not in the list.

        Raises:
            ValueError: an argument makes no sense.
        """
        from eventstore.redaction.redact import redact_everywhere

        return redact_everywhere(
            self.session, text, by=by, reason=reason, rule=rule, dry_run=dry_run
        )

    def tag_subject(
        self, subject: str, conversation_id: str, versions: Iterable[int] | None = None
    ) -> int:
        """Tag events that are stored: they are about a subject. Return how many tags are new.

        Without `versions` it is the whole conversation, also what is still to come: that counts as
        one tag. `Conversation.about` tags events as they are appended.

        Raises:
            ValueError: there is no such event, it is no subject, or the store was opened without
                `subjects`.
        """
        from eventstore.redaction.erase import tag

        check_conversation_id(conversation_id)
        return tag(self.session, subject, conversation_id, versions)

    def erase_subject(
        self,
        subject: str,
        *,
        by: str,
        reason: str | None = None,
        text: str | re.Pattern[str] = "",
        archives_are_gone: bool = False,
        dry_run: bool = False,
    ) -> Erasure:
        """Redact all events that are about a subject, in all conversations of all tenants.

        They are found by their tags; see `Conversation.about`. A `text`, a name for example, or a
        compiled pattern, is taken out of all other events, too. Each conversation is redacted by
        itself, see `redact`; a run that was ended in the middle is repeated. Calls that are open or
        in doubt are left, and named, and so are archives. When the files of archives are destroyed,
        `archives_are_gone=True` forgets them, too. The tags of what was erased go at the end. The
        report names no subject; so should not the `reason`, which is stored.

        With `dry_run` nothing is done, and what would be is returned.

        Raises:
            ValueError: an argument makes no sense, or the store was opened without `subjects`.
        """
        from eventstore.redaction.erase import erase

        return erase(
            self.session,
            subject,
            by=by,
            reason=reason,
            text=text,
            archives_are_gone=archives_are_gone,
            dry_run=dry_run,
        )

    def redactions(self) -> Iterator[Recorded]:
        """Return the events that record redactions, of all conversations, in the feed's order."""
        return (each for each in self.read() if type(each.event) is PayloadsRedacted)

    def accept_loss(self) -> None:
        """Record in the store that it was put back to an older state, and that this is known.

        After a restore, or a failover that lost commits, a store that was open before refuses to
        append to the older log (`StoreCorrupt`). When you have seen what was lost, this lets such
        stores of all processes and tenants continue. `toolledger accept-loss` does the same.

        Readers begin again by themselves: see `CursorLost`.
        """
        self.session.storage.accept_loss()

    def close(self) -> None:
        """Give up the connections; appends and reads raise `StoreClosed` from now on."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _bind_to_connection(session: LogSession, connection: Connection) -> Session:
    from eventstore.host_transaction import bind_to_connection  # loads SQLAlchemy

    return bind_to_connection(session, connection)
