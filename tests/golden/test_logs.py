"""Logs of older versions are read as their own version read them: see `make.py`.

If a test fails here, users who upgrade find another history in their database.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from golden import reading
from golden.dumps import load, rows, stored_events
from golden.every_member import EVENTS, NEWER_FORM, UNKNOWN
from golden.make import SEEN

from eventstore import EventStore, UnknownEvent
from eventstore.domain.codec import encode
from eventstore.seals import SigningKey, check, openings, prove
from projections import Projector, error_statistics

LOGS = sorted(path for path in Path(__file__).with_name("logs").iterdir() if path.is_dir())
KEY = SigningKey("example.com/agents", bytes(range(32)))
ENGINES = ("sqlite", "postgresql", "mariadb", "mysql")


class GoldenLog(NamedTuple):
    """A log of an older version in a database of its own, and what that version read from it."""

    url: str
    files: Path
    cursor: str

    def open(self, tenant: str = "") -> EventStore:
        """Open it with this version, which must not have to create anything."""
        return EventStore.open(self.url, tenant=tenant, create=False)

    def expected(self, tenant: str, name: str) -> str:
        """Return the text of one of the files."""
        return (self.files / (tenant or "default") / name).read_text("utf-8")


Place = Callable[[], GoldenLog]


@pytest.fixture(
    scope="module",
    params=[(log, engine) for log in LOGS for engine in ENGINES],
    ids=[f"{log.name}-{engine}" for log in LOGS for engine in ENGINES],
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return a function that puts the log into a new database of an engine."""
    files, engine = request.param
    server = None if engine == "sqlite" else request.getfixturevalue(engine)

    def placed() -> GoldenLog:
        if server is None:
            file = tmp_path_factory.mktemp("golden") / "agent.db"
            shutil.copyfile(files / "sqlite.db", file)
            url = f"sqlite:///{file}"
        else:
            url = server.database()
            load((files / f"{engine}.sql").read_text("utf-8"), url)
        return GoldenLog(url, files, (files / f"{engine}.cursor").read_text().strip())

    return placed


@pytest.fixture(scope="module")
def golden(place: Place) -> GoldenLog:
    """Return a log that the tests only read."""
    return place()


tenants = pytest.mark.parametrize("tenant", reading.TENANTS, ids=["default", "acme"])


@tenants
def test_a_golden_log_is_sound(golden: GoldenLog, tenant: str) -> None:
    """`verify` finds no wrong digest, gap, transition or head."""
    with golden.open(tenant) as store:
        assert list(store.verify()) == []


@tenants
def test_the_events_of_a_golden_log_are_read_equal(golden: GoldenLog, tenant: str) -> None:
    """Each event has its envelope and its place in the feed."""
    stored = stored_events(golden.url, tenant)
    with golden.open(tenant) as store:
        assert reading.lines(store, stored) == golden.expected(tenant, "events.jsonl")
        fed = [(r.lane, r.position, r.conversation_id, r.version, r.event_id) for r in store.read()]
    assert sorted(fed) == [row[:5] for row in stored]


@tenants
def test_the_events_of_a_golden_log_are_written_again_byte_for_byte(
    golden: GoldenLog, tenant: str
) -> None:
    """No member was lost in reading, and an older version can read what this one writes."""
    lines = golden.expected(tenant, "events.jsonl").rstrip("\n").split("\n")
    payloads = [json.loads(line)["payload"] for line in lines]
    with golden.open(tenant) as store:
        assert [encode(recorded.event).decode() for recorded in reading.events(store)] == payloads


def test_every_member_of_a_golden_log_has_its_value(golden: GoldenLog) -> None:
    """The events equal those that were written down by hand, tag by tag."""
    with golden.open() as store:
        read = [recorded.event for recorded in store.conversation("every-member").events()]
    assert read == list(EVENTS)
    assert [type(event) for event in read] == [type(event) for event in EVENTS]


@tenants
def test_a_golden_log_renders_its_prompts_byte_for_byte(golden: GoldenLog, tenant: str) -> None:
    """The bytes are compared for every provider, because a changed prompt loses its cache."""
    with golden.open(tenant) as store:
        names = set(reading.conversations(store)) - reading.NOT_RENDERED
        found = {name: reading.prompts(store, name) for name in names}
    expected = {name: golden.expected(tenant, f"prompts/{name}.json") for name in names}
    assert found == {name: reading.expected_prompts(name, expected[name]) for name in names}


@tenants
def test_a_golden_log_gives_its_tools_and_statistics(golden: GoldenLog, tenant: str) -> None:
    """The calls have the same states, and the numbers are the same."""
    with golden.open(tenant) as store:
        assert reading.tools(store) == golden.expected(tenant, "tools.json")
        assert reading.statistics(store) == golden.expected(tenant, "statistics.json")


def test_a_cursor_of_a_golden_log_leads_on(golden: GoldenLog) -> None:
    """The cursor gives exactly the events after it."""
    with golden.open() as store:
        everything = [recorded.event_id for recorded in store.read()]
        after = [recorded.event_id for recorded in store.read(golden.cursor)]
    assert len(after) == len(everything) - SEEN
    assert set(after) < set(everything)


@tenants
def test_the_tables_of_a_golden_projector_are_read_equal(golden: GoldenLog, tenant: str) -> None:
    """No event has to be projected again."""
    with golden.open(tenant) as store, Projector(store) as projector:
        assert projector.lag().events == 0
        assert projector.catch_up() == 0
        tools = reading.projected_tools(projector)
        statistics = reading.projected_statistics(projector)
        parked = [(event.conversation_id, event.version) for event in projector.parked()]
    assert tools == golden.expected(tenant, "projected_tools.json")
    assert statistics == golden.expected(tenant, "projected_statistics.json")
    assert parked == ([("newer", 4)] if tenant else [])


def test_a_golden_log_and_its_projector_go_on(place: Place) -> None:
    """This version ends the open calls, and the tables are updated."""
    with place().open() as store, Projector(store) as projector:
        chat = store.conversation("support")
        before = chat.version
        chat.approve("call_pending", {"number": 12}, by="ada")
        chat.start("call_approved")
        chat.fail("call_approved", "no answer", delay=2)
        chat.start("call_running", attempt=2)
        chat.complete("call_running", {"order": 11})
        assert [recorded.version for recorded in chat.events(before)] == list(
            range(before + 1, before + 6)
        )
        assert list(store.verify()) == []
        assert projector.catch_up() == 5
        assert reading.projected_tools(projector) == reading.tools(store)
        projected = projector.statistics()
        counted = error_statistics(store.read())
    for name in ("events", "conversations", "by_kind", "by_fingerprint", "anomaly_count"):
        assert getattr(projected, name) == getattr(counted, name)
    assert projected.overall.calls == counted.overall.calls
    assert projected.overall.failures_by_kind == counted.overall.failures_by_kind


def test_a_golden_log_is_sealed_and_proven(place: Place) -> None:
    """Events without a salt have leaves, too, and what follows them is sealed with them."""
    with place().open() as store:
        before = store.seal(KEY)
        store.conversation("every-member").add_message("user", "more")
        notes = [seal.note for seal in (*before, *store.seal(KEY))]
        assert check(store, "\n".join(notes), [KEY.verifier]).findings == []
        opened = next(iter(openings(store, "every-member")))
        row, _ = prove(store, "every-member", opened.version, [KEY.verifier]).check([KEY.verifier])
        assert opened.salt is None
        assert row.payload == opened.digest()


def test_an_event_that_no_version_knows_yet_stays_as_it_was_stored(golden: GoldenLog) -> None:
    """A tag of a later version, and a later form of a known tag, are kept whole."""
    found = []
    for tenant in reading.TENANTS:
        with golden.open(tenant) as store:
            found += [recorded.event for recorded in reading.events(store)]
    assert [event for event in found if isinstance(event, UnknownEvent)] == [UNKNOWN, NEWER_FORM]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_the_readable_dump_of_the_file_is_that_file(log: Path, tmp_path: Path) -> None:
    """People read `sqlite.sql`; the other tests use `sqlite.db`."""
    loaded, copied = tmp_path / "loaded.db", tmp_path / "copied.db"
    load((log / "sqlite.sql").read_text("utf-8"), f"sqlite:///{loaded}")
    shutil.copyfile(log / "sqlite.db", copied)  # to read it in place would leave files beside it
    assert rows(loaded) == rows(copied)
