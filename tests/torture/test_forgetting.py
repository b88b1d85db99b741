"""Events are redacted while others write, follow and project, and the process is killed at it."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import workers
from support.storms import Storm
from support.tiers import repeated

from eventstore import EventStore, PayloadsRedacted, RedactionRefused, ToolPending
from eventstore.domain.redaction import REDACTED

if TYPE_CHECKING:
    from support.servers import Server

Redacted = tuple[str, str]
"""A conversation and a call of it."""


def redact_without_end(url: str, seed: int, pipe: Any) -> None:
    """Redact calls that are over, one after the other, and tell of each that is done."""
    chance = random.Random(seed)
    with EventStore.open(url) as store:
        while True:
            names = [name for name, _ in store.conversations()]
            if not names:
                continue
            name = chance.choice(names)
            tools = [tool for tool in store.conversation(name).tools.values() if tool.is_resolved]
            if not tools:
                continue
            call_id = chance.choice(tools).id
            try:
                store.redact(name, by="mia", calls=[call_id])
            except RedactionRefused:
                continue
            pipe.send((name, call_id))


def check_redactions_beside(url: str) -> None:
    """Kill the process that redacts several times; what it told stays, and nothing else is lost."""
    done: list[Redacted] = []
    with Storm(url) as storm:
        for number in range(repeated(4)):
            job = partial(redact_without_end, url, number)
            with workers.children([job]) as ((process, pipe),):
                for redacted in workers.received(pipe):
                    done.append(redacted)
                    if len(done) >= 10 * (number + 1):
                        process.kill()
                done += workers.received(pipe)
            storm.wait_for_appends()
    storm.check(others=lambda each: isinstance(each.event, PayloadsRedacted))
    with EventStore.open(url) as store:
        recorded = {
            (each.conversation_id, payload.call_id)
            for each in store.redactions()
            for payload in each.event.payloads  # type: ignore[union-attr]
        }
        assert recorded >= set(done)
        for name, call_id in recorded:
            asked = next(
                each.event
                for each in store.read_call(name, str(call_id))
                if isinstance(each.event, ToolPending)
            )
            assert asked.call.raw == REDACTED
        assert list(store.verify()) == []


@pytest.mark.slow
def test_redactions_beside_writers_of_a_file_lose_nothing(tmp_path: Path) -> None:
    """Followers and tables are told of each; acknowledged events are stored or redacted."""
    check_redactions_beside(f"sqlite:///{tmp_path / 'agent.db'}")


@pytest.mark.slow
def test_redactions_beside_writers_on_a_server_lose_nothing(server: Server) -> None:
    """The same, with as many lanes as a server's log has."""
    check_redactions_beside(server.database(migrated=True))
