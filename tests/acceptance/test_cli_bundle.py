"""`bundle`: a folder that a stranger checks by the script in it, and what the script finds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventstore import EventStore, HistoryCompacted, MessageAdded, SubjectSecret, Text
from eventstore.seals import SigningKey
from eventstore.testing import FrozenClock
from projections.cli import app

KEY = SigningKey("example.com/agents", bytes(range(32)))
VKEY = str(KEY.verifier)
URL = "sqlite:///log.db"
DOCS = Path(__file__).parents[2] / "docs/auditor.md"
SCRIPTS = "check.py", "check_more.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the bundle of two conversations of three, with one event after the last seal."""
    monkeypatch.chdir(tmp_path)
    with EventStore.open(URL) as store:
        for name in ("one", "größe/2", "other"):
            chat = store.conversation(name)
            chat.add_message("user", f"my card is 4111, says {name}")
            call = chat.request("refund", {"amount": 20})
            chat.approve(call.id, by="mia", edited_arguments={"amount": 10})
            chat.start(call.id)
            chat.complete(call.id, {"paid": 10})
        store.redact("one", by="ann", versions=[1], reason="a card", rule="cards")
        store.seal(KEY)
        store.conversation("one").add_message("user", "more")
    assert app.run(["bundle", "audit", "one", "größe/2", "--key", VKEY, "--url", URL]) == 0
    return tmp_path / "audit"


def found_in(folder: Path, script: Path | None = None) -> str:
    """Return what the script of a bundle says, run as a stranger does, without this library."""
    command: list[str | Path] = [sys.executable, "-I", script or folder / "check.py", folder, VKEY]
    done = subprocess.run(command, capture_output=True, check=False)
    said = done.stdout.decode()
    assert done.returncode == int(" 0 faults" not in said), done.stderr
    return said


def test_a_compaction_that_is_gone_keeps_its_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its identifiers are proven as those of any event are."""
    monkeypatch.chdir(tmp_path)
    with EventStore.open(URL) as store:
        chat = store.conversation("one")
        chat.add_message("user", "my card is 4111")
        said = MessageAdded("user", (Text("the card is 4111"),))
        chat.append(HistoryCompacted(until=1, messages=(said,), hides_system=True))
        store.redact("one", by="ann", versions=[1, 2], reason="a card")
        store.seal(KEY)
    assert app.run(["bundle", "audit", "one", "--key", VKEY, "--url", URL]) == 0
    assert " 0 faults" in found_in(tmp_path / "audit")
    assert "is 4111" not in (tmp_path / "audit" / "events.jsonl").read_text("utf-8")


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """Return the events of a bundle."""
    return [json.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]


def test_a_bundle_is_whole_and_checked_without_the_library(folder: Path) -> None:
    """Events, notes, decisions with their persons, and pages; nothing of other conversations."""
    readme, page = (folder / "README.md").read_text("utf-8"), DOCS.read_text("utf-8")
    for name in SCRIPTS:
        text = (folder / name).read_text("utf-8")
        assert not re.search(r"import (toolledger|eventstore|projections)", text)
        assert not re.search(r"toolledger(?!/\w)", text)
        lines = f"{text.count(chr(10))} lines"
        assert lines in readme
        assert lines in page
    assert found_in(folder).splitlines() == [
        "not proven: 'one' version 7 comes after its note",
        "'one': versions 1 to 7; no bundle shows if there are more",
        "'größe/2': versions 1 to 5; no bundle shows if there are more",
        "for reading, and proven by nothing: README.md, pages/",
        "not signed: manifest.json, so no bundle shows what was left out as a whole",
        "11 events proven, 1 after the last seal, 0 faults",
    ]
    leaves = [json.loads(line["leaf"]) for line in lines_of(folder)]
    assert [leaf["version"] for leaf in leaves] == [*range(1, 8), *range(1, 6)]
    assert {leaf["conversation"] for leaf in leaves} == {"one", "größe/2"}
    assert [line["payload"] is None for line in lines_of(folder)].count(True) == 1
    assert [line["marker"] is None for line in lines_of(folder)].count(False) == 1
    assert b"4111, says one" not in b"".join(
        path.read_bytes() for path in folder.rglob("*") if path.is_file()
    )
    made = json.loads((folder / "decisions.json").read_bytes())
    assert [(each["what"], each["by"], each.get("edited", False)) for each in made] == [
        ("approved", "mia", True),
        ("redacted", "ann", False),
        ("approved", "mia", True),
    ]
    (redaction,) = json.loads((folder / "redactions.json").read_bytes())
    assert (redaction["versions"], redaction["reason"], redaction["rule"]) == (
        [1],
        "a card",
        "cards",
    )
    assert len(list((folder / "pages").glob("*.html"))) == 2
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert {*manifest["sha256"], "manifest.json"} == {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    }
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_span_of_time_is_chosen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Events are those that were recorded in it, of any conversation; none is an error."""
    said = ("--key", VKEY, "--url", URL)
    assert app.run(["bundle", "all", "--from", "2000-01-01", *said, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["conversations"] == 3
    assert app.run(["bundle", "none", "--until", "2000-01-01", *said]) == 1
    assert "no event was recorded there" in capsys.readouterr().err
    assert app.run(["bundle", "audit", "one", *said]) == 1
    assert "exists: name a new folder" in capsys.readouterr().err
    assert app.run(["bundle", "some", *said]) == 2
    assert {path.name for path in folder.parent.iterdir() if path.is_dir()} == {"all", "audit"}


def test_the_first_script_says_that_the_second_one_is_missing(folder: Path) -> None:
    """As many events are proven by it alone, wherever it lies."""
    alone = Path(shutil.copy(folder / "check.py", folder.parent))
    assert found_in(folder, alone).splitlines() == [
        "not proven: 'one' version 7 comes after its note",
        "not checked: what check_more.py looks at, which is not beside check.py",
        "not signed: manifest.json, so no bundle shows what was left out as a whole",
        "11 events proven, 1 after the last seal, 0 faults",
    ]


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SubjectSecret:
    """Return the secret of a store: events about two persons, two tenants, an archive."""
    monkeypatch.chdir(tmp_path)
    secret = SubjectSecret.create("secret")
    clock = FrozenClock()
    with EventStore.open(URL, subjects=secret, clock=clock) as store:
        store.conversation("old", subjects=["ann.lee"]).add_message("user", "long ago")
        clock.advance(100 * 86_400)
        (tmp_path / "archive").mkdir()
        store.retain("90 days", folder=tmp_path / "archive", dry_run=False)
        for name, person in (("a", "ann.lee"), ("b", "bob"), ("c", "ann.lee")):
            chat = store.conversation(name)
            chat.add_message("user", "hello")
            chat.about(person).add_message("user", f"my name is secret-{name}")
        store.seal(KEY)
    with EventStore.open(URL, subjects=secret, tenant="shop") as store:
        store.conversation("a", subjects=["ann.lee"]).add_message("user", "hello shop")
    return secret


def test_a_person_is_chosen(
    secret: SubjectSecret, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whole conversations of the tenant with a tag; what is not covered is said; no clear name."""
    said = ("--subject", "ann.lee", "--secret", "secret", "--key", VKEY, "--url", URL)
    assert app.run(["bundle", "audit", *said, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    archived, other = shown["not_covered"]
    assert (shown["conversations"], shown["events"], shown["proven"]) == (2, 4, 4)
    assert archived.startswith("not in it: conversation 'old', which is archived in ")
    assert other.startswith("not in it: 1 conversation of tenant 'shop' with events about that ")
    folder = tmp_path / "audit"
    digest = secret.digest("ann.lee").hex()
    assert json.loads((folder / "manifest.json").read_bytes())["subject"] == digest
    places = [json.loads(line["leaf"]) for line in lines_of(folder)]
    assert [(leaf["conversation"], leaf["version"]) for leaf in places] == [
        *(("a", 1), ("a", 2), ("c", 1), ("c", 2)),
    ]
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert not [path for path, data in files.items() if b"ann.lee" in data + bytes(path)]
    found = found_in(folder).splitlines()
    assert found[-1] == "4 events proven, 0 after the last seal, 0 faults"
    assert any(line.startswith(f"chosen by the tags of the person {digest}: ") for line in found)


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (("--subject", "ann.lee"), 2, "name the file of the secret"),
        (("a", "--subject", "ann.lee", "--secret", "secret"), 2, "or pass --subject, not both"),
        (("--subject", "", "--secret", "secret"), 2, "a subject is a text"),
        (("--subject", "eve", "--secret", "secret"), 1, "no event here is about that person"),
        (("--subject", "bob", "--secret", "other"), 1, "secret"),
        (
            ("--subject", "bob", "--secret", "secret", "--until", "2000-01-01"),
            1,
            "no event was recorded there",
        ),
    ],
)
@pytest.mark.usefixtures("secret")
def test_a_person_that_cannot_be_chosen_is_an_error(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    status: int,
    error: str,
) -> None:
    """The name, the secret, or the choice; nothing is written."""
    SubjectSecret.create("other")
    assert app.run(["bundle", "audit", *words, "--key", VKEY, "--url", URL]) == status
    assert error in capsys.readouterr().err
    assert not (tmp_path / "audit").exists()
