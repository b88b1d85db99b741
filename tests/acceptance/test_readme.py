"""What the README shows runs, block after block, as a reader would type it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Integer, MetaData, Table, create_engine
from support.model_server import model_server
from support.pages import run_blocks
from support.sse import Events, anthropic_events, chat_chunks

from eventstore import EventStore, migrate
from eventstore.storage.sqlite.driver import driver
from projections import Projector
from projections.cli.command_groups import GROUPS

README = Path(__file__).resolve().parents[2] / "README.md"
DOCS = README.parent / "docs"
MADE_FROM_THE_CODE = {f"reference/{name}.md" for name in ("commands", "events", "provider-rules")}
"""Pages that `mkdocs build` makes, and whose links it checks."""


def replies(provider: str) -> tuple[Events, Events]:
    """Return the streams of a response that calls `find_order`, and of one that only says words."""
    if provider == "openai":
        calls = chat_chunks()
        return [*calls[:6], calls[-1]], chat_chunks(calls=False)
    events = anthropic_events()
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
    words = [each for each in events if each.get("index", 0) < 2]
    return (
        [each for each in events if each.get("index") != 3],
        [
            end | {"usage": each["usage"]} if each["type"] == "message_delta" else each
            for each in words
        ],
    )


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
def test_the_python_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every block runs in one session, in an empty folder; the SDKs ask a server of this test."""
    monkeypatch.chdir(tmp_path)
    with model_server(*replies("openai"), *replies("anthropic")) as (url, requests):
        for sdk in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{sdk}_API_KEY", "x")
            monkeypatch.setenv(f"{sdk}_BASE_URL", url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        run_blocks(README)
    said = capsys.readouterr().out
    assert said.count("Let me look.") == 4
    assert "attempt 1 has no recorded end, it may have taken effect" in said
    first, second, third, fourth = requests
    assert [each["model"] for each in requests] == ["gpt-5"] * 2 + ["claude-sonnet-5-5"] * 2
    assert first["tools"][0]["function"]["name"] == third["tools"][0]["name"] == "find_order"
    result = {"order": 7, "status": "shipped"}
    assert json.loads(second["messages"][-1]["content"]) == result
    (answer,) = fourth["messages"][-1]["content"]
    assert json.loads(answer["content"]) == result
    assert "toolu_2" in str(fourth["messages"])
    assert "call_0" in str(fourth["messages"])  # what the other model did


def test_the_readme_is_short() -> None:
    """Three screens are enough; everything else is a page in `docs`."""
    assert len(README.read_text("utf-8")) <= 11_000


@pytest.mark.parametrize("page", [README, *sorted(DOCS.glob("*.md"))], ids=lambda page: page.stem)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    """A link to a heading leads to a heading of that page."""
    prose = re.sub(
        r"^```.*?^```|`[^`\n]+`(?!\])", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose):
        name, _, heading = target.partition("#")
        if name in MADE_FROM_THE_CODE:
            continue
        found = page.parent / name if name else page
        assert found.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]
            assert heading in anchors, target


def test_the_page_of_the_command_line_lists_every_command() -> None:
    """The page's list equals the commands of the command line."""
    listed = re.findall(
        r"^toolledger ([\w-]+) +(.*)$", (DOCS / "command-line.md").read_text(), re.MULTILINE
    )
    assert listed == [(each.name, each.summary) for group in GROUPS.values() for each in group]


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "mariadb"])
def test_a_hosts_autogenerate_leaves_our_tables_alone(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    """The page's function protects the log's and the projections' tables.

    Without it they would be dropped.
    """
    text = (DOCS / "host-database.md").read_text()
    found = re.search(r"^def include_name\(.*?(?=^```)", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[0], names)  # noqa: S102
    more: dict[str, Any] = {}
    if engine == "sqlite":
        url, more = f"sqlite:///{tmp_path}/host.db", {"module": driver()}
    else:
        url = request.getfixturevalue(engine).database()
    host = MetaData()
    Table("orders", host, Column("id", Integer, primary_key=True))
    own = create_engine(url, **more)
    host.create_all(own)
    migrate.move(url)
    with EventStore.open(url) as store, Projector(store) as projector:
        store.conversation("chat").request("f", {})
        projector.catch_up()
    with own.connect() as connection:
        for options, spared in (({"include_name": names["include_name"]}, True), ({}, False)):
            context = MigrationContext.configure(connection, opts=options)
            assert (compare_metadata(context, host) == []) is spared
    own.dispose()
