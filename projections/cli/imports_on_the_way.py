"""Sessions of programs as arguments of commands that read: imported on the way into the store."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import typer

from eventstore import EventStore, NotAStore
from eventstore.importers import (
    Session,
    UnknownSession,
    described,
    discover,
    import_sessions,
)
from eventstore.importers.discovery import programs
from projections.cli.options import named, open_store
from projections.cli.output import complain
from projections.formatting import plural

LATEST = "latest"


@contextmanager
def store_with(
    url: str, name: str | None, *, read_only: bool = False
) -> Generator[tuple[EventStore, str | None], None, None]:
    """Give the store, and the id of the conversation in it that a name means.

    A session of a program, `PROGRAM:ID` or `latest`, is imported first, and the store is made if
    there is none. A conversation that is in the log under the name itself comes before it.
    """
    if name is None or not _may_be_session(name):
        with open_store(url, read_only=read_only) as store:
            yield store, name
        return
    try:
        with open_store(url, read_only=read_only) as store:
            if _has(store, name):
                yield store, name
                return
            session = _session(store, name)
            if session is None or read_only:
                yield store, name if session is None else session.id
                return
    except (NotAStore, typer.BadParameter):
        if read_only:
            raise
        session = discover().named(name)  # before a store is made for it
    with open_store(url, create=True) as store:
        yield store, _imported(store, session)


def _may_be_session(name: str) -> bool:
    program, colon, _ = name.partition(":")
    return name == LATEST or (bool(colon) and program in programs())


def _has(store: EventStore, conversation_id: str) -> bool:
    return next(store.conversation(conversation_id).events(), None) is not None
