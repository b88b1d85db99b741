"""Checking a log: what is wrong with its stored rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from eventstore.errors import StoreCorrupt
from eventstore.storage import Damage
from eventstore.storage.rows import payload_digest

if TYPE_CHECKING:
    from eventstore.storage.database import Database
    from eventstore.storage.reading import Reader
    from eventstore.storage.statements import Statements


def verify(log: Reader, database: Database, sql: Statements) -> Iterator[Damage]:
    """What is wrong with the stored rows; see `Storage.verify`."""
    try:
        for problem in list(database.damage(log.rows)):
            yield Damage(-1, None, None, None, problem)
        heads = log.heads()
        for lane in log.lanes:
            if lane not in heads:
                yield Damage(lane, None, None, None, "the lane's head is missing")
            yield from _verify_lane(log, sql, lane, heads.get(lane))
    except StoreCorrupt as error:
        yield Damage(-1, None, None, None, f"the check had to end here: {error}")


def _verify_lane(log: Reader, sql: Statements, lane: int, head: int | None) -> Iterator[Damage]:
    position = 0
    versions: dict[int, int] = {}
    for rows in log.chunks(sql.check, lane):
        names = log.names_of(lane, (row[1] for row in rows))
        unknown = (key for key, name in names.items() if name is None and key not in versions)
        lost = [key for key in unknown if not log.rows(sql.name, lane, key)]
        for at, conversation, version, digest, payload in rows:
            name = names[conversation]
            where = (lane, at, name, version)
            if at != position + 1:
                yield Damage(*where, f"positions {position + 1} to {at - 1} are missing")
            last = versions.get(conversation, 0)
            if version != last + 1:
                yield Damage(*where, f"version {version} follows version {last}")
            if conversation in lost and conversation not in versions:
                yield Damage(*where, "its conversation is not listed: nobody can read it")
            if payload_digest(bytes(payload)) != digest:
                yield Damage(*where, "the payload does not match its digest")
            position = at
            versions[conversation] = version
    if head is not None:
        yield from _verify_head(log, lane, head, position)


def _verify_head(log: Reader, lane: int, head: int, position: int) -> Iterator[Damage]:
    if position < head:
        yield Damage(lane, position, None, None, f"the lane's head is {head}, its last event "
                     f"is at {position}: {head - position} events are missing")  # fmt: skip
    if position > head and log.heads()[lane] < position:
        yield Damage(lane, position, None, None, f"the lane's head {head} is behind its events")
