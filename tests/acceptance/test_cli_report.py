"""`toolledger report`: the file that it writes, and the files that it leaves alone."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore import EventStore
from projections import html_report
from projections.cli import app
from projections.report import FIRST_LINE

ID = "support 4/2"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the URL of a store with a conversation, in the folder that the command runs in."""
    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/log.db"
    with EventStore.open(address) as store:
        chat = store.conversation(ID)
        chat.add_message("user", "hello")
        call = chat.request("find", {"q": 1})
        chat.start(call.id)
        chat.fail(call.id, ValueError("broken"))
        store.conversation("support 43").add_message("user", "hello")
    return address


def test_the_page_is_that_of_the_library(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The default name is made of the id; the output says how to open the file."""
    assert app.run(["report", "support 4/", "--url", url]) == 0
    path = Path("support-4-2.html")
    with EventStore.open(url) as store:
        page = html_report(store.conversation(ID).events())
    assert path.read_text(encoding="utf-8") == page
    assert capsys.readouterr().out == (
        f"support-4-2.html (4 events): open {path.absolute().as_uri()}\n"
    )
    assert list(Path().glob("*.part")) == []
    mask = os.umask(0o022)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_json_and_standard_output(url: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """A program gets the path, or the page itself."""
    assert app.run(["report", ID, "--url", url, "-o", "run.html", "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {
        "report": "run.html",
        "conversation_id": ID,
        "events": 4,
    }
    assert app.run(["report", ID, "--url", url, "-o", "-", "--provider", "gemini"]) == 0
    page = capsysbinary.readouterr().out
    assert page.startswith(FIRST_LINE.encode())
    assert b'"providers":["gemini"' in page


def test_a_file_that_is_no_report_is_left_alone(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log is not written over by mistake; an earlier report is."""
    before = Path("log.db").read_bytes()
    assert app.run(["report", ID, "--url", url, "-o", "log.db"]) == 1
    assert "log.db exists and is no report: pass --force" in capsys.readouterr().err
    assert Path("log.db").read_bytes() == before
    for _ in range(2):
        assert app.run(["report", ID, "--url", url, "-o", "run.html"]) == 0
    Path("other.html").write_text("<p>mine")
    assert app.run(["report", ID, "--url", url, "-o", "other.html", "--force"]) == 0
    assert Path("other.html").read_text("utf-8").startswith(FIRST_LINE)
    assert app.run(["report", ID, "--url", url, "-o", "."]) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["nobody"], 1, "there is no conversation 'nobody'"),
        (["support"], 1, "2 conversations begin with 'support'"),
        ([ID, "--provider", "nobody"], 2, "pass one of anthropic, "),
        ([ID, "-o", "missing/run.html"], 1, "does not exist: make it"),
    ],
)
def test_wrong_input_is_refused_in_one_line(
    url: str,
    arguments: list[str],
    status: int,
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is written then."""
    before = sorted(Path().iterdir())
    assert app.run(["report", *arguments, "--url", url]) == status
    out, err = capsys.readouterr()
    assert complaint in err
    assert (out, err.count("\n")) == ("", 1)
    assert sorted(Path().iterdir()) == before
