"""The README's Python runs, block after block, as a reader would type it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Integer, MetaData, Table, create_engine

from eventstore import EventStore, migrate
from eventstore.storage.sqlite.driver import driver
from projections import Projector

README = Path(__file__).resolve().parents[2] / "README.md"
TYPED_TOOLS = README.parent / "docs" / "typed-tools.md"


@pytest.mark.parametrize("page", [README, TYPED_TOOLS], ids=lambda page: page.stem)
def test_the_python_blocks_of_a_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Path
) -> None:
    """Every block runs in one session, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8")
    names: dict[str, object] = {}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert len(blocks) > 3
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        code = compile("\n" * line + block[1], str(page), "exec", dont_inherit=True)
        exec(code, names)  # noqa: S102
    names["store"].close()  # type: ignore[attr-defined]


def test_every_command_that_the_readme_lists_exists() -> None:
    """The README's list equals the commands of the command line."""
    from projections.cli.app import app

    listed = re.findall(r"^toolledger (\w+)  ", README.read_text(), re.MULTILINE)
    have = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert set(listed) == have


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "mariadb"])
def test_a_hosts_autogenerate_leaves_our_tables_alone(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    """The README's function protects the log's and the projections' tables.

    Without it they would be dropped.
    """
    text = README.read_text()
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
