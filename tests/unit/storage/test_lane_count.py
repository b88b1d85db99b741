"""How many lanes a store has, and how one with too few is replaced by one with more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from eventstore import EventStore
from eventstore.testing import message
from projections.cli import app

if TYPE_CHECKING:
    from support.servers import PostgreSQL, Server


def toolledger(*arguments: object) -> None:
    """Run a command, which succeeds."""
    assert app.run([str(argument) for argument in arguments]) == 0


def lanes_of(server: Server, url: str) -> tuple[int, int]:
    """Return the number of lanes that a store says it has, and that of its counters."""
    ((said,),) = server.execute("SELECT lanes FROM toolledger_store", database=url)
    ((there,),) = server.execute("SELECT COUNT(*) FROM toolledger_lanes", database=url)
    return said, there


def test_a_store_is_made_with_more_lanes(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store keeps them; the same number again is harmless, another is refused."""
    url = server.database()
    toolledger("migrate", "--url", url, "--lanes", 64)
    toolledger("migrate", "--url", url, "--lanes", 64)
    assert lanes_of(server, url) == (64, 64)
    with EventStore.open(url) as store:
        for number in range(200):
            store.conversation(f"chat-{number}").append(message("a"))
        used = {lane for lane, end in store.end().positions if end}
        assert len(used) > 48
        assert max(used) > 48
        assert list(store.verify()) == []
    capsys.readouterr()
    assert app.run(["migrate", "--url", url, "--lanes", "32"]) == 1
    said = capsys.readouterr().err
    assert "lanes is 32: the store has 64, which cannot change; to have more, make a new" in said
    assert lanes_of(server, url) == (64, 64)


@pytest.mark.parametrize("lanes", [0, -1, 1025])
def test_a_number_that_makes_no_sense_is_refused(
    postgresql: PostgreSQL, capsys: pytest.CaptureFixture[str], lanes: int
) -> None:
    """Nothing is made."""
    url = postgresql.database()
    assert app.run(["migrate", "--url", url, f"--lanes={lanes}"]) == 1
    assert f"lanes is {lanes}: pass 1 to 1024" in capsys.readouterr().err
    ((made,),) = postgresql.execute("SELECT to_regclass('toolledger_lanes')", database=url)
    assert made is None


def test_a_file_has_one_lane(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file has one writer, whatever is asked for."""
    url = f"sqlite:///{tmp_path}/agent.db"
    EventStore.open(url).close()
    assert app.run(["migrate", "--url", url, "--lanes", "4"]) == 1
    assert "lanes is 4: a SQLite store has one lane" in capsys.readouterr().err
    toolledger("migrate", "--url", url, "--lanes", 1)


def rows(server: Server, url: str) -> list[Any]:
    """Return what is stored of all events, but for their places in lanes, salts and digests."""
    return server.execute(
        "SELECT tenant, conversation_id, version, event_id, recorded_at, payload, fingerprint "
        "FROM toolledger_events e JOIN toolledger_conversations USING (lane, conversation) "
        "ORDER BY conversation_id, version",
        database=url,
    )


def test_a_store_with_too_few_lanes_is_copied_into_one_with_more(
    postgresql: PostgreSQL, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ids, versions and times stay, digests do not; the second copy adds what came meanwhile."""
    old, new, file = postgresql.database(), postgresql.database(), tmp_path / "all.jsonl"
    toolledger("migrate", "--url", new, "--lanes", 64)

    def copy() -> dict[str, int]:
        file.unlink(missing_ok=True)
        toolledger("export", "--url", old, "--out", file)
        capsys.readouterr()
        toolledger("restore", file, "--url", new, "--json")
        found: dict[str, int] = json.loads(capsys.readouterr().out)
        return found

    with EventStore.open(old) as store:
        for number in range(40):
            chat = store.conversation(f"chat-{number}")
            chat.append(message("a"), event_ids=[f"{number:032x}"])
            chat.complete(chat.request("pay", {"n": number}).id, "paid")
        place = str(store.end())
        assert copy() == {"added": 120, "there_already": 0}
        store.conversation("chat-1").append(message("late"))
        store.conversation("chat-new").append(message("late"))
        assert copy() == {"added": 2, "there_already": 120}
    assert rows(postgresql, new) == rows(postgresql, old)
    with EventStore.open(new) as store:
        assert list(store.verify()) == []
        assert len({lane for lane, end in store.end().positions if end}) > 16
        again = store.conversation("chat-7").append(message("a"), event_ids=[f"{7:032x}"])
        assert again[0].version == 1
        with pytest.raises(ValueError, match="of another store"):
            list(store.read(place))
