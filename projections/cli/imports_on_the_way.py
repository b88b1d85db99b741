"""Sessions of programs as arguments of commands that read: imported on the way into the store."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from eventstore import EventStore, NotAStore
from eventstore.importers import (
    NoMessages,
    Session,
    UnknownSession,
    discover,
    import_sessions,
)
from eventstore.importers.discovery import programs
from projections.cli.options import open_store
from projections.cli.output import complain
from projections.formatting import plural

Name = TypeVar("Name", bound=str | None)

LATEST = "latest"
"""Stands for the newest session, of all programs or, after its name, of one."""


@contextmanager
def store_with(
    url: str, name: Name, *, read_only: bool = False
) -> Generator[tuple[EventStore, Name | str], None, None]:
    """Give the store, and the id of the conversation in it that a name means.

    A session of a program, `PROGRAM:ID` or `latest`, is imported first, and the store is made if
    there is none. A conversation that is in the log under the name itself comes before it. A
    session in which nothing was said yet is not the latest.
    """
    sessions = [] if name is None else _sessions(url, name)
    if not sessions or read_only:
        with open_store(url, read_only=read_only) as store:
            yield store, sessions[0].id if sessions else name
        return
    with open_store(url, create=True) as store:
        yield store, _first_imported(store, sessions)


def _sessions(url: str, name: str) -> list[Session]:
    """Return the session that a name means, none where it means a conversation of the log.

    The latest one is followed by those before it.

    Raises:
        UnknownSession: it means neither.
    """
    program, colon, own = name.partition(":")
    if name != LATEST and not (colon and program in programs()):
        return []
    try:
        with open_store(url, read_only=True) as store:
            known = [each for each, _ in store.conversations() if each.startswith(name)]
    except NotAStore:
        known = []
    if name in known:
        return []
    found = discover()
    try:
        session = found.named(name)
    except UnknownSession:
        if len(known) == 1:  # the beginning of an id in the log
            return []
        raise
    if LATEST not in (name, own):
        return [session]
    return [each for each in found.sessions if name == LATEST or each.program == program]


def _first_imported(store: EventStore, sessions: list[Session]) -> str:
    """Return the id of the first session that has messages, after importing it."""
    for session in sessions[:-1]:
        try:
            return _imported(store, session)
        except NoMessages:
            complain(f"{session.name}: nothing was said in it yet")
    return _imported(store, sessions[-1])


def _imported(store: EventStore, session: Session) -> str:
    """Import a session, say so, and return the id of its conversation.

    Raises:
        NoMessages: nothing was said in it yet.
        Exception: nothing of it could be imported.
    """
    ids: list[str] = []
    refused: list[Exception] = []
    added = 0
    for done in import_sessions(store, [session]):
        ids += done.ids
        refused += done.refused
        added += done.added
    if refused and not ids:  # also where the log has another conversation under the id
        raise refused[0]
    if not ids:  # of a database, which has other sessions
        raise NoMessages(f"{session.name} holds no messages")
    for error in refused:
        complain(str(error))
    if added:
        from eventstore.engines import shown_url  # loads SQLAlchemy, as the store has

        complain(
            f"imported {session.name} ({plural(added, 'message')}) into {shown_url(store.url)}"
        )
    else:
        complain(f"{session.name}: nothing new since it was imported")
    return session.id if session.id in ids else ids[0]
