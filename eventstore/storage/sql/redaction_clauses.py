"""The statements of a redaction: what becomes of an event's row, and of its row in the index."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Delete, Update, and_, bindparam, delete, null, update

from eventstore.storage.sql import schema as tables

_e, _f = tables.events.c, tables.fingerprints.c


def redact() -> Update:
    """Put a marker in the place of a payload, and delete its salt."""
    change = update(tables.events).where(_at_key())
    return change.values(payload=bindparam("payload"), salt=null())


def forget_mark() -> Update:
    """Delete the fingerprint of an event."""
    return update(tables.events).where(_at_key()).values(fingerprint=null())


def unindex() -> Delete:
    """Delete what finds an event by its fingerprint."""
    return delete(tables.fingerprints).where(
        _f.lane == bindparam("at"),
        _f.fingerprint == bindparam("digest"),
        _f.conversation == bindparam("key"),
        _f.version == bindparam("version"),
    )


def _at_key() -> ColumnElement[bool]:
    return and_(
        _e.lane == bindparam("at"),
        _e.conversation == bindparam("key"),
        _e.version == bindparam("version"),
    )
