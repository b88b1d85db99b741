"""LangGraph's checkpoints and the log in one PostgreSQL, through a `kill -9`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from integrations.scenes import CHAT, DONE, TESTS
from support import unmeasured
from support.frameworks import required

required("langgraph.checkpoint.postgres")
required("psycopg")

from typing import TYPE_CHECKING

from integrations.play_langgraph_postgresql import THREAD
from langgraph.checkpoint.postgres import PostgresSaver

from eventstore import Completed, EventStore, Pending, Running
from eventstore.importers import read
from eventstore.integrations.langgraph import Disagreement, Ledger

if TYPE_CHECKING:
    from support.servers import PostgreSQL


def played(*given: str) -> subprocess.CompletedProcess[str]:
    """Play a half of the run in a process of its own."""
    command = [sys.executable, "-m", "integrations.play_langgraph_postgresql", *given]
    path = f"{TESTS}{os.pathsep}{TESTS.parent}"
    environment = {**unmeasured.environment(), "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def disagreements(url: str) -> list[Disagreement]:
    """Return what a third process finds when it compares the checkpoint with the log."""
    own = url.replace("postgresql+psycopg://", "postgresql://")
    with EventStore.open(url) as store, PostgresSaver.from_conn_string(own) as saver:
        checkpoint = saver.get_tuple(THREAD)
        assert checkpoint is not None
        messages = checkpoint.checkpoint["channel_values"]["messages"]
        return Ledger(store.conversation(CHAT)).disagreements(messages)


def imported_calls(url: str) -> list[str]:
    """Return the calls that an import of the checkpoints finds, in another store."""
    (transcript,) = read(url).transcripts()
    with EventStore.open("sqlite://") as store:
        chat = store.conversation(transcript.id)
        chat.import_messages(transcript.messages, "openai", occurred_at=transcript.times)
        # The library's own text is no result: what it says of the second call is not known.
        assert [tool.is_resolved for tool in chat.tools.values()] == [True, False, True]
        return sorted(chat.tools)


def test_a_killed_superstep_is_resumed_and_runs_no_tool_twice(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    """The call that was killed does not run again, and the checkpoint and the log agree."""
    url, file = postgresql.database(), tmp_path / "effects"
    killed = played(url, str(file), "kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert file.read_text().splitlines() == ["find_order 7", "refund 7"]
    with EventStore.open(url) as store:
        statuses = [type(tool.status) for tool in store.conversation(CHAT).tools.values()]
    assert statuses == [Completed, Running, Pending]

    resumed = played(url, str(file), "resume")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout.splitlines()[-1])[0] == DONE
    assert file.read_text().splitlines() == ["find_order 7", "refund 7", "find_order 8"]
    with EventStore.open(url) as store:
        chat = store.conversation(CHAT)
        statuses = [type(tool.status) for tool in chat.tools.values()]
        assert statuses == [Completed, Running, Completed]
        # LangGraph's answer to the call whose outcome is unknown stands for no end of it
        assert disagreements(url) == [Disagreement("call_b", "answered", "Running")]
        chat.complete("call_b", "refunded 1.5")
    assert disagreements(url) == []
    assert imported_calls(url) == ["call_a", "call_b", "call_c"]
    with EventStore.open(url) as store:
        store.conversation(CHAT).request("refund", {"number": 8}, "call_d")
    assert disagreements(url) == [Disagreement("call_d", None, "Pending")]
