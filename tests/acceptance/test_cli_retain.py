"""`retain`: old conversations go to an archive, and `restore` brings them back."""

from __future__ import annotations

import io
import json
from pathlib import Path

import duckdb
import pytest

from eventstore import EventStore, SubjectSecret
from eventstore.testing import FrozenClock
from projections.cli import app


@pytest.fixture(autouse=True)
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a store with two old conversations and a new one; commands use it."""
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/log.db"
    monkeypatch.setenv("TOOLLEDGER_URL", address)
    with EventStore.open(address, clock=FrozenClock()) as store:
        for name in ("one", "two"):
            chat = store.conversation(name)
            chat.add_message("user", "Where is my order?")
            tool = chat.request("find", {"order": name})
            chat.start(tool.id)
            chat.complete(tool.id, {"at": "sea"})
    with EventStore.open(address) as store:
        store.conversation("new").add_message("user", "Hello.")
    (tmp_path / "archive").mkdir()
    return address


def shown(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """Return what a command prints; it must succeed."""
    capsys.readouterr()
    assert app.run(list(command)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_old_conversations_go_to_an_archive_and_back(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --yes nothing is done; other programs read the archive, and any store takes it."""
    before = shown(capsys, "export")
    command = ("retain", "--keep", "6 months", "--to", "archive", "--format", form)
    planned = shown(capsys, *command)
    assert "2 conversations without an event since" in planned
    assert "would be archived: 8 events," in planned
    assert shown(capsys, "export") == before
    done = json.loads(shown(capsys, *command, "--yes", "--json"))
    assert (done["conversations"], done["events"], done["dry_run"]) == (2, 8, False)
    (name,) = done["files"]
    assert f"archived in {name}" in shown(capsys, "show")
    assert "all is well" in shown(capsys, "verify", "--archives")
    exported = [json.loads(line) for line in shown(capsys, "export").splitlines()]
    assert [line["conversation_id"] for line in exported] == ["new"]

    read = "read_json_auto" if form == "jsonl" else "read_parquet"
    found = duckdb.sql(
        f"FROM {read}('{name}') SELECT conversation_id, count(*), "
        "max(event->'$.response'->>'$.result.at') GROUP BY ALL ORDER BY ALL"
    )
    assert found is not None
    assert found.fetchall() == [("one", 4, "sea"), ("two", 4, "sea")]

    other = f"sqlite:///{tmp_path}/other.db"
    assert "8 events added" in shown(capsys, "restore", name, "--url", other)
    assert "all is well" in shown(capsys, "verify", "--url", other)
    back = shown(capsys, "restore", name)
    assert back == "8 events back from the archive, proven to be the same\n"
    assert "all is well" in shown(capsys, "verify")
    assert set(before.splitlines()) <= set(shown(capsys, "export").splitlines())


def test_an_archive_that_is_missing_is_noted_and_a_changed_one_is_a_defect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file may have been moved; one that is there must be as it was written."""
    command = ("retain", "--keep", "6 months", "--to", "archive", "--yes", "--json")
    path = Path(json.loads(shown(capsys, *command))["files"][0])
    whole = path.read_bytes()
    path.unlink()
    assert f"note: {path}: the archive of 2 conversations is not there" in shown(capsys, "verify")
    path.write_bytes(whole.replace(b"sea", b"sky"))
    assert "all is well" in shown(capsys, "verify")
    assert app.run(["verify", "--archives"]) == 1
    assert f"archive {path}: version 4 of conversation 'one'" in capsys.readouterr().out


def test_only_payloads_redacts_what_is_old(capsys: pytest.CaptureFixture[str]) -> None:
    """The events stay, and their content goes for good."""
    command = ("retain", "--keep", "6 months", "--only", "payloads", "--yes")
    assert "2 conversations without an event since" in shown(capsys, *command)
    assert "sea" not in shown(capsys, "export")
    assert "all is well" in shown(capsys, "verify")


def test_conversations_about_one_person_go_sooner(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tags find them; the name is nowhere in what is printed and stored."""
    SubjectSecret.create(tmp_path / "secret")
    with EventStore.open(url, subjects=tmp_path / "secret") as store:
        store.tag_subject("customer-17", "two", [1])
    command = ("retain", "--keep", "90 days", "--to", "archive", "--subject", "-", "--json")
    assert app.run([*command]) == 2
    assert "name the file of the secret" in capsys.readouterr().err

    monkeypatch.setenv("TOOLLEDGER_SUBJECTS", f"{tmp_path}/secret")
    for name, count in (("customer-18", 0), ("customer-17", 1)):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{name}\n"))
        done = json.loads(shown(capsys, *command, "--yes"))
        assert done["conversations"] == count
    (path,) = done["files"]
    lines = Path(path).read_text().splitlines()
    assert {json.loads(line)["conversation_id"] for line in lines} == {"two"}
    assert "customer-17" not in shown(capsys, "show", "--json") + shown(capsys, "export")
