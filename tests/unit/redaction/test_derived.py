"""What was derived from events goes, too, when they are redacted."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from starlette.testclient import TestClient

from eventstore import Conversation, EventStore, IllegalTransition, PayloadsRedacted, UnknownEvent
from eventstore.backup import restore_events, stored_events
from eventstore.storage.chain import conversation_digest, event_digest
from eventstore.storage.interface import Draft
from projections import (
    CurrentTools,
    ErrorStatistics,
    History,
    Projector,
    Repeats,
    Replay,
    ResumePlan,
    TextSearch,
    UsageStatistics,
    error_statistics,
    model_history,
)
from projections.cli import app
from projections.debugging.event_lines import exported_line, read_events
from projections.unsettled_calls import UnsettledCalls
from projections.web.app import web_app
from projections.web.guard import Guard, new_token

CARD = "4111-1111-hunter2"


@pytest.fixture
def store() -> Iterator[EventStore]:
    """Return a log in memory."""
    with EventStore.open("sqlite://") as store:
        yield store


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """Return a conversation that has a secret in every place of it."""
    chat = store.conversation("chat")
    fill(chat)
    return chat


def fill(chat: Conversation) -> None:
    """Put the secret into every place of a conversation."""
    chat.add_message("user", f"My card is {CARD}.")
    for number in range(1, 4):
        pay = chat.request("pay", {"card": CARD, "cents": 5}, f"call_{number}")
        chat.start(pay.id)
        if number == 1:
            chat.complete(pay.id, {"paid": CARD})
        else:
            chat.fail(pay.id, f"declined: {CARD}")
    edited = chat.request("pay", {"card": "none"}, "call_4")
    chat.approve(edited.id, {"card": CARD}, by="mia", reason=CARD)
    chat.start(edited.id)
    chat.fail(edited.id, f"declined: {CARD}")
    chat.reject(chat.request("pay", {"card": CARD}, "call_5").id, f"not {CARD}")
    chat.add_message("assistant", f"I could not pay with {CARD}.")
    chat.append(UnknownEvent("of_mine", 1, f'{{"note":"{CARD}"}}'))
    chat.add_message("user", "Thank you.")


def redact_all(store: EventStore) -> None:
    """Take the secret out of the conversation."""
    store.redact("chat", by="mia", reason="a card", text=CARD)


def everything(value: object, seen: dict[int, object] | None = None) -> Iterator[str]:
    """Yield every text that an object holds, however deep."""
    seen = {} if seen is None else seen
    if isinstance(value, str | bytes):
        yield value if isinstance(value, str) else value.decode("latin-1")
        return
    if id(value) in seen or isinstance(value, type):
        return
    seen[id(value)] = value
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset | deque):
        inner = list(cast("Iterable[Any]", value))
    elif isinstance(value, msgspec.Struct):
        inner = [getattr(value, name) for name in value.__struct_fields__]
    elif type(value).__module__.startswith(("eventstore.append", "projections")):
        inner = list(getattr(value, "__dict__", {}).values())
        for kind in type(value).__mro__:
            slots = getattr(kind, "__slots__", ())
            names = (slots,) if isinstance(slots, str) else slots
            inner += [getattr(value, name, None) for name in names]
    for each in inner:
        yield from everything(each, seen)


FOLDS: dict[str, Callable[[], Any]] = {
    "tools": CurrentTools,
    "statistics": ErrorStatistics,
    "usage": UsageStatistics,
    "history": History,
    "repeats": Repeats,
    "resume plan": ResumePlan,
    "unsettled": UnsettledCalls,
}


@pytest.mark.parametrize("name", FOLDS)
def test_a_fold_that_goes_on_gives_up_what_was_redacted(
    name: str, store: EventStore, chat: Conversation
) -> None:
    """A fold has nothing of the secret any more, once it has read the record."""
    fold = FOLDS[name]()
    fold.extend(chat.events())
    fingerprint = chat.tools["call_1"].fingerprint
    assert fingerprint is not None
    redact_all(store)
    fold.extend(chat.events(after=fold_version(store) - 1))
    held = " ".join(everything(fold))
    assert CARD not in held
    assert fingerprint not in held


def fold_version(store: EventStore) -> int:
    """Return the version of the record."""
    (record,) = store.redactions()
    return record.version


def test_the_state_that_appends_are_decided_on_is_read_again(
    store: EventStore, chat: Conversation
) -> None:
    """A failed call stays in memory, because it may run again; its arguments do not."""
    states: Any = store.session.committer
    assert CARD in " ".join(everything(states))
    redact_all(store)
    assert CARD not in " ".join(everything(states))
    chat.add_message("user", "And now?")
    assert CARD not in " ".join(everything(states))


@pytest.mark.parametrize("name", FOLDS)
def test_a_fold_over_what_is_left_keeps_it(
    name: str, store: EventStore, chat: Conversation
) -> None:
    """The record covers nothing that was read from its marker, also where it was redacted twice."""
    redact_all(store)
    store.redact("chat", by="mia", text="declined")
    whole, read = FOLDS[name](), list(chat.events())
    whole.extend(read)
    without = FOLDS[name]()
    without.extend(each for each in read if type(each.event) is not PayloadsRedacted)
    if name == "tools":
        assert whole.tools == without.tools
        assert whole.tools["call_1"].call.arguments == {"card": "[redacted]", "cents": 5}
    if name == "history":
        assert whole.view().turns == without.view().turns
    if name == "statistics":
        assert whole.result().by_fingerprint == without.result().by_fingerprint


def test_a_fold_that_was_redacted_twice_gives_up_both(
    store: EventStore, chat: Conversation
) -> None:
    """The second redaction takes what the first has left."""
    redact_all(store)
    tools = CurrentTools().extend(chat.events())
    store.redact("chat", by="mia", text="declined")
    tools.extend(chat.events(after=fold_count(store)))
    assert "declined" not in " ".join(everything(tools))


def fold_count(store: EventStore) -> int:
    """Return the version of the first record."""
    return next(store.redactions()).version


def test_a_prompt_of_a_handle_is_made_anew(store: EventStore, chat: Conversation) -> None:
    """The handle keeps its fold; after a redaction it shows what a new reading shows."""
    assert CARD in str(model_history(chat).render("openai"))
    store.redact("chat", by="mia", calls=["call_1"], paths=["arguments.card"])
    store.redact("chat", by="mia", text=CARD)
    kept = model_history(chat)
    assert CARD not in str(kept.render("openai"))
    assert kept.render("openai") == model_history(chat.events()).render("openai")
    assert "cents" in str(kept.render("openai"))


def test_a_replay_that_goes_on_shows_no_past_that_was_redacted(
    store: EventStore, chat: Conversation
) -> None:
    """A frame after the redaction tells the history without what is gone."""
    replay = Replay()
    list(replay.frames(chat.events()))
    redact_all(store)
    last = list(replay.frames(chat.events(after=fold_version(store) - 1)))[-1]
    assert CARD not in str(last.history().render("openai"))
    assert "redacted by mia: a card" in str(last)


def test_pages_are_made_anew(store: EventStore, chat: Conversation) -> None:
    """No page shows what is gone, errors and newest events among them; counts stay."""
    token = new_token()
    app = web_app(store, Guard(token, frozenset({"here:80"})))
    pages = ("/", "/errors", "/newest", "/approvals", "/doubts", "/conversation/chat")
    with TestClient(app, base_url="http://here:80", headers={"Host": "here:80"}) as browser:
        browser.get(f"/?token={token}")
        assert any(CARD in browser.get(page).text for page in pages)
        redact_all(store)
        for page in pages:
            assert CARD not in browser.get(page).text
        assert "1 different error<" in browser.get("/errors").text
        chat.add_message("user", "And now?")
        assert "And now?" in browser.get("/newest").text


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("batch", [3, 1000])
def test_tables_give_up_what_was_redacted(tmp_path: Path, batch: int, restarted: bool) -> None:
    """No byte of the tables holds it, or its fingerprint; nothing counts twice; the rest stays."""
    tables = tmp_path / "tables.db"
    search = TextSearch()

    def projector() -> Projector:
        return Projector(log, f"sqlite:///{tables}", batch=batch, projections=[search])

    with EventStore.open(f"sqlite:///{tmp_path}/log.db") as log:
        chat = log.conversation("chat")
        fill(chat)
        other = log.conversation("other")
        other.reject(other.request("pay", {"card": "another"}, "call_1").id, "no")
        with projector() as first:
            first.catch_up()
            assert [*search.find(first, CARD)]
            before = first.statistics()
            fingerprint = chat.tools["call_1"].fingerprint or ""
            assert CARD.encode() in held(tables)
            assert fingerprint.encode() in held(tables)
            redact_all(log)
            if not restarted:
                first.catch_up()
        with projector() as second:
            second.catch_up()
            assert [*search.find(second, CARD)] == []
            assert [*search.find(second, "my card is [redacted]")]
            assert {tool.id: tool for _, tool in second.tools("chat")} == dict(chat.tools)
            after, fresh = second.statistics(), error_statistics(log.read())
        assert after.by_tool == before.by_tool
        assert after.by_kind == before.by_kind == fresh.by_kind
        assert after.by_fingerprint == fresh.by_fingerprint
        assert "another" in str(after.by_fingerprint)
    found = held(tables)
    assert CARD.encode() not in found
    assert fingerprint.encode() not in found
    assert bytes.fromhex(fingerprint[3:19]) not in found


class Raising(TextSearch):
    """The search with a bug: it raises where it has to give up texts."""

    is_broken = True

    def redact(self, state: Any, events: Any) -> None:
        """Raise, until it is mended."""
        if self.is_broken:
            raise RuntimeError("a bug")
        super().redact(state, events)


def test_a_projection_that_cannot_give_up_is_parked(store: EventStore, chat: Conversation) -> None:
    """The record waits, and a retry gives up what was redacted; other conversations go on."""
    search = Raising()
    with Projector(store, "sqlite://", views=(), projections=[search]) as projector:
        projector.catch_up()
        redact_all(store)
        store.conversation("other").add_message("user", "And now?")
        projector.catch_up()
        (parked,) = projector.parked()
        assert (parked.tag, parked.problem) == ("redacted", "RuntimeError: a bug")
        assert [*search.find(projector, "and now?")]
        search.is_broken = False
        assert projector.retry() == 1
        assert [*search.find(projector, CARD)] == []
        assert projector.parked() == []


def held(path: Path) -> bytes:
    """Return the bytes of a database after a checkpoint."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


@pytest.mark.parametrize("salted", [True, False])
def test_an_export_of_a_redacted_log_is_restored_byte_for_byte(
    tmp_path: Path, salted: bool
) -> None:
    """Markers, whole and in part, and their records come back, and the copy is as sound."""
    url, copy = f"sqlite:///{tmp_path}/log.db", f"sqlite:///{tmp_path}/copy.db"
    lines = tmp_path / "log.jsonl"
    with EventStore.open(url) as store:
        fill(store.conversation("chat"))
    if not salted:
        remove_salts(tmp_path / "log.db")
    with EventStore.open(url) as store:
        store.redact("chat", by="mia", calls=["call_1"])
        store.redact("chat", by="mia", calls=["call_2"], paths=["arguments.card"])
        redact_all(store)
        assert list(store.verify()) == []
        stored = [*stored_events(store)]
        lines.write_bytes(b"\n".join(map(exported_line, stored)))
    with EventStore.open(copy) as other:
        restore_events(other, list(read_events(lines)))
        assert list(other.verify()) == []
        restored = [*stored_events(other)]
        assert [each.stored for each in restored] == [each.stored for each in stored]
        assert [each.recorded for each in restored] == [each.recorded for each in stored]
        assert any(each.recorded.redacted for each in restored)
        with pytest.raises(IllegalTransition, match="redacted"):
            other.conversation("chat").start("call_2", 2)


def remove_salts(path: Path) -> None:
    """Make the events of a log those of an older version."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT e.position, e.version, e.event_id, e.recorded_at, e.tag, e.schema,"
            " e.fingerprint, e.payload, f.version, e.occurred_at FROM toolledger_events e LEFT JOIN"
            " toolledger_fingerprints f ON f.fingerprint = e.fingerprint AND f.version = e.version"
            " ORDER BY e.version"
        ).fetchall()
        previous = conversation_digest(b"", b"chat")
        for position, version, event_id, at, tag, schema, mark, payload, begins, occurred in rows:
            draft = Draft(
                bytes(event_id), at, tag, schema, payload.encode(), mark and bytes(mark),
                begins is not None, occurred_at=occurred,
            )  # fmt: skip
            previous = event_digest(previous, version, draft)
            connection.execute(
                "UPDATE toolledger_events SET salt = NULL, chain = ? WHERE position = ?",
                (previous, position),
            )
        connection.commit()


@pytest.mark.parametrize("late", [False, True])
def test_a_fork_has_what_is_left_and_the_records_of_it(
    late: bool, store: EventStore, chat: Conversation
) -> None:
    """No copy is damage, whether the redaction came before the place of the fork or after it."""
    end = chat.version
    store.redact("chat", by="mia", calls=["call_1"])
    redact_all(store)
    copy = chat.fork(end if late else chat.version, "fork")
    again = copy.fork(copy.version, "fork of the fork")
    assert list(store.verify()) == []
    for each in (copy, again):
        records = [e.event for e in each.events() if isinstance(e.event, PayloadsRedacted)]
        assert [record.origin for record in records] == ["chat", "chat"]
        assert CARD not in str(list(each.events()))
        assert each.tools["call_1"].call.raw == "[redacted]"
        with pytest.raises(IllegalTransition, match="redacted"):
            each.start("call_2", 2)
    store.redact("fork", by="mia", text="declined")
    assert list(store.verify()) == []


def test_commands_show_what_was_redacted_and_by_whom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No command fails or shows the secret; `verify` notes the person and the reason."""
    url = f"sqlite:///{tmp_path}/log.db"
    with EventStore.open(url) as log:
        fill(log.conversation("chat"))
        redact_all(log)
    for command in (
        ["show", "chat"],
        ["why", "chat"],
        ["replay", "chat"],
        ["tools"],
        ["stats"],
        ["prompt", "chat", "--explain"],
        ["export", "--format", "csv"],
        ["export", "--format", "otlp", "--content"],
        ["verify"],
    ):
        assert app.run([*command, "--url", url]) == 0
        said = capsys.readouterr().out
        assert CARD not in said
        assert "[redacted]" in said or command[0] in ("stats", "verify")
    assert "18 events of 1 conversation redacted by mia: a card" in said
    with EventStore.open(url) as log:
        again = log.redact("chat", by="mia", reason="a card", versions=[1])
        assert again.versions == (1,)
    assert app.run(["verify", "--url", url]) == 0
    assert "18 events of 1 conversation redacted by mia: a card" in capsys.readouterr().out
