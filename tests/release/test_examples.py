"""The programs of `docs/examples`, each run in an empty folder as a reader would run it."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from support import unmeasured

from eventstore import EventStore

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
ENVIRONMENT = unmeasured.environment() | {"PYTHONPATH": str(ROOT)}
PATIENCE = 120
"""Seconds until a process that never ends is a failure."""

PAGE = ROOT / "docs" / "examples.md"

PRINTED = {
    "chat_loop": ["It is shipped."],
    "crash_and_resume": ["unknown: ['refund']", "status: Completed", "paid: 1 time"],
    "approval_inbox": [
        "waits: send_mail {'to': 'all@example.com'}",
        "waits: drop_table {'name': 'orders'}",
        "send_mail is Completed",
        "drop_table is Rejected",
    ],
    "retrying_tool": ["calls: 1 attempts: 3", "the model reads: parcel 9 is in Lyon"],
    "gates": [
        "open True, turn 1: find_order | Rejected",
        "open True, turn 2: find_order refund | Completed",
        "2 offers are explained",
        "open False, turn 1: find_order | Rejected",
        "open False, turn 2: find_order | Rejected",
        "2 offers are explained",
    ],
    "several_agents": [
        "The researcher found 3 pages on owls.",
        "works for: boss call_research",
        "ended      the run ended at version 7: completed; a sub-agent of boss, call call_research",
    ],
    "cost_per_tool": ["{'search': 4, 'translate': 5}"],
}
"""Program to the lines that it ends with."""


def python(folder: Path, *arguments: str) -> str:
    """Run Python in a folder, and return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fetch(address: str, form: dict[str, str] | None = None) -> str:
    """Return a page of our own server; with a form, the answer to it."""
    sent = None if form is None else urlencode(form).encode()
    with urlopen(address, sent, timeout=PATIENCE) as answer:  # noqa: S310 - http, on this machine
        text: str = answer.read().decode()
        return text


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    """A program runs in an empty folder, and ends with the lines that its reader is to see."""
    lines = python(tmp_path, str(EXAMPLES / f"{name}.py")).splitlines()
    assert lines[-len(PRINTED[name]) :] == PRINTED[name]


def test_the_example_of_a_regression_test_passes(tmp_path: Path) -> None:
    """Pytest runs the file alone."""
    (tmp_path / "test_refund_run.py").write_text((EXAMPLES / "test_refund_run.py").read_text())
    assert "2 passed" in python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".")


def test_the_cells_of_the_notebook_run(tmp_path: Path) -> None:
    """The cells run one after the other, in an empty folder."""
    notebook = json.loads((EXAMPLES / "look_at_a_run.ipynb").read_text())
    code = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    (tmp_path / "notebook.py").write_text("\n".join(code))
    printed = python(tmp_path, "notebook.py")
    assert "in Lyon" in printed
    assert printed.splitlines()[-1] == "1 2"


def test_the_web_inbox_takes_a_decision_on_what_it_showed(tmp_path: Path) -> None:
    """A form of the page decides; one with other arguments, or without the token, does not."""
    command = [sys.executable, str(EXAMPLES / "web_inbox.py"), "0"]
    server = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            page = fetch(address)
            found = re.findall(r'type=hidden name="(\w+)" value="([^"]*)"', page)
            fields = {key: html.unescape(value) for key, value in found}

            def post(**changed: str) -> str:
                return fetch(address, fields | {"decision": "approve"} | changed)

            assert "refused: the form is not of this page" in post(token="another")  # noqa: S106 - no secret
            assert "since it was seen" in post(seen="1.0." + "0" * 32)
            assert "send_mail: approved" in post()
            assert "send_mail" not in fetch(address)
        finally:
            server.kill()
    with EventStore.open(f"sqlite:///{tmp_path}/web_inbox.db") as store:
        (tool,) = store.conversation("news").tools.values()
        assert tool.status.name == "Approved"


def test_the_page_of_examples_names_every_program() -> None:
    """A program that is added gets its place on the page."""
    page = (ROOT / "docs" / "examples.md").read_text("utf-8")
    assert all(f"`{path.name}`" in page for path in EXAMPLES.iterdir() if path.is_file())


@pytest.mark.parametrize("program", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_a_program_stands_on_the_page(program: Path) -> None:
    """The page takes it in by a directive, which a formatter of code must leave as it is."""
    directive = (
        f'\n```{{.python title="{program.name}"}}\n--8<-- "docs/examples/{program.name}"\n```\n'
    )
    assert directive in PAGE.read_text("utf-8")
