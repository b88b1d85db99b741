"""The registry of backends by the scheme of a URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventstore import EventStore, ToolCompleted
from projections import Projector

MODULE = '''
from eventstore.storage.sqlite.backend import Sqlite


def backend(url, durability, busy_timeout):
    """Return a backend for the file that the URL names."""
    return Sqlite(url.set(drivername="sqlite"), durability, busy_timeout)
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution `elsewhere` whose entry point names a backend for its scheme."""
    site = tmp_path / "site"
    info = site / "elsewhere-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "elsewhere.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[toolledger.storage]\nelsewhere = elsewhere:backend\n")
    monkeypatch.syspath_prepend(site)


@pytest.mark.usefixtures("installed")
def test_a_backend_is_found_by_an_entry_point(tmp_path: Path) -> None:
    """A distribution that declares one is used by its URLs, for the log and for projections."""
    with (
        EventStore.open(f"elsewhere:///{tmp_path}/log.db") as store,
        Projector(store, f"elsewhere:///{tmp_path}/tables.db") as projector,
    ):
        chat = store.conversation("chat")
        call = chat.request("find", {"number": 7})
        with chat.running(call.id) as attempt:
            attempt.complete("found")
        projector.catch_up()
        assert [type(r.event) for r in chat.events()][-1] is ToolCompleted
        assert projector.statistics().overall.completions == 1
