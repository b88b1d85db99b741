"""`toolledger approvals | approve | reject`, as people and programs run them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from eventstore import Approved, EventStore, Rejected
from projections.cli import app, approving


class Terminal(StringIO):
    """Something that a person looks at."""

    def isatty(self) -> bool:
        """It is one."""
        return True


class Command:
    """`toolledger` on a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/log.db"

    def __call__(self, *given: str, status: int = 0, terminal: bool = False) -> tuple[str, str]:
        """Run it; what it prints, and what it complains of."""
        kind = Terminal if terminal else StringIO
        out, err = kind(), kind()
        with chdir(self.folder), redirect_stdout(out), redirect_stderr(err):
            assert app.run([*given, "--url", self.url]) == status, err.getvalue()
        return out.getvalue(), err.getvalue()

    def refused(self, *given: str, status: int = 1) -> str:
        """The one line that it says no with."""
        out, err = self(*given, status=status)
        assert out == ""
        assert err.startswith("toolledger: ")
        assert err.count("\n") == 1
        return err


@pytest.fixture
def run(tmp_path: Path) -> Command:
    """The command."""
    return Command(tmp_path)


@pytest.fixture
def store(run: Command) -> Iterator[EventStore]:
    """Its store: two conversations, three calls that wait, one that does not."""
    with EventStore.open(run.url) as opened:
        chat = opened.conversation("chat")
        chat.request("pay", {"amount": 10, "to": "ann\x1b[31m"}, "a")
        chat.request("pay", {"amount": 20}, "b")
        chat.reject("b")
        chat.request("pay", "{oops", "c")
        opened.conversation("other").request("mail", {"to": "bob"}, "a")
        yield opened


def test_the_inbox_lists_what_waits_everywhere(run: Command, store: EventStore) -> None:
    """With the arguments, the fingerprint, and when it was asked; as a table and as JSON."""
    out, _ = run("approvals")
    lines = out.splitlines()
    assert lines[0].split() == ["asked", "conversation", "call", "tool", "arguments"]
    assert [line.split()[2:5] for line in lines[1:4]] == [
        ["chat", "a", "pay"], ["chat", "c", "pay"], ["other", "a", "mail"],
    ]  # fmt: skip
    assert '{"amount":10,"to":"ann\\u001b[31m"}' in lines[1]
    assert "\x1b" not in out
    assert lines[4].startswith("3 calls wait")
    found = json.loads(run("approvals", "--json")[0])
    assert found[0]["arguments"] == {"amount": 10, "to": "ann\x1b[31m"}
    assert found[0]["fingerprint"] == store.conversation("chat").tools["a"].fingerprint
    assert found[1]["raw"] == "{oops"
    assert [one["requested_at"] is not None for one in found] == [True] * 3


def test_a_call_takes_one_line_whatever_the_model_calls_it(run: Command) -> None:
    """No id and no name makes a second line that reads like another call."""
    with EventStore.open(run.url) as store:
        store.conversation("chat\nx").request("f\n2026-01-01 rm", {}, "a\t\r\n\x1b[2J")
    lines = run("approvals")[0].splitlines()
    assert len(lines) == 3
    assert lines[1].split()[2:] == ["chat\\nx", "a\\t\\r\\n\\x1b[2J", "f\\n2026-01-01", "rm", "{}"]
    out, _ = run("approve", "chat\nx", "a\t\r\n\x1b[2J")
    assert out == "approved: f\\n2026-01-01 rm({}), call a\\t\\r\\n\\x1b[2J of chat\\nx\n"


def test_of_long_arguments_a_person_sees_a_part_and_is_told_so(run: Command) -> None:
    """A program gets all of them; a complaint stays short."""
    with EventStore.open(run.url) as store:
        store.conversation("chat").request("send", {"body": "x" * 1_000_000}, "a")
        store.conversation("chat").request("send", {}, "b")
    out, _ = run("approvals", terminal=True)
    assert "only the beginning and the end are shown" in out
    assert len(out) < 5000
    out, _ = run("approvals")
    assert '"' + "x" * 1_000_000 + '"}\n' in out
    assert len(out) < 1_001_000  # nothing is filled up with blanks
    assert "only the beginning" not in out
    assert len(run.refused("approve", "chat", "a", "--shown", "{}")) < 600
    run("approve", "chat", "a", terminal=True)
    assert "only the beginning" not in run("approvals", terminal=True)[0]


@pytest.mark.parametrize("terminal", [False, True])
def test_the_inbox_may_be_read_from_tables(run: Command, store: EventStore, terminal: bool) -> None:
    """They are kept up on the way, with a bar where a person looks; the answer is the same."""
    tables = f"sqlite:///{run.folder}/tables.db"
    direct = run("approvals", terminal=terminal)[0]
    assert run("approvals", "--tables", tables, terminal=terminal)[0] == direct
    run("approve", "chat", "a")
    assert "2 calls wait" in run("approvals", "--tables", tables)[0]


def test_a_person_in_another_process_decides(run: Command, store: EventStore) -> None:
    """The agent's handle sees the decision, who made it and why."""
    chat = store.conversation("chat")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "projections.cli", "approve", "chat", "a",
         "--by", "ann", "--reason", "small", "--url", run.url],
        check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stdout.startswith('approved: pay({"amount":10')
    assert chat.tools["a"].status == Approved(None, "ann", "small")
    out, _ = run("reject", "other", "a", "--by", "ann", "--reason", "no mail")
    assert out == 'rejected: mail({"to":"bob"}), call a of other\n'
    assert store.conversation("other").tools["a"].status == Rejected("no mail", "human", "ann")
    assert chat.start("a").status.arguments["amount"] == 10  # type: ignore[union-attr]


def test_an_approval_may_edit_the_arguments(run: Command, store: EventStore) -> None:
    """They are in force from then on; so arguments that were no JSON object can be mended."""
    found = json.loads(run("approve", "chat", "c", "--edit", '{"amount": 3}', "--json")[0])
    assert found["status"]["state"] == "Approved"
    assert (found["conversation_id"], found["id"]) == ("chat", "c")
    assert store.conversation("chat").tools["c"].effective_call.arguments == {"amount": 3}


@pytest.mark.parametrize(
    ("call", "shown"),
    [("a", '{"to": "ann\\u001b[31m",  "amount": 10}'), ("c", "{oops")],
)
@pytest.mark.parametrize("command", ["approve", "reject"])
def test_what_was_shown_is_what_is_decided_on(
    run: Command, store: EventStore, call: str, shown: str, command: str
) -> None:
    """The same arguments in any order and spacing, or the same raw text."""
    more = ["--edit", "{}"] if (command, call) == ("approve", "c") else []
    run(command, "chat", call, "--shown", shown, *more)
    assert not store.conversation("chat").tools[call].is_pending


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("a", '{"to": "ann\\u001b[31m", "amount": 10.0}'), ("a", '{"amount": 10}'), ("a", "{}"),
        ("c", "{}"), ("c", "{oops "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["approve", "reject"])
def test_a_call_that_was_not_shown_is_not_decided_on(
    run: Command, store: EventStore, call: str, shown: str, command: str
) -> None:
    """Other arguments, be it by a hair, are refused, and the right ones named."""
    told = run.refused(command, "chat", call, "--shown", shown)
    assert "has other arguments than those shown, nothing was decided" in told
    assert ("{oops" if call == "c" else '"amount":10,') in told
    assert store.conversation("chat").tools[call].is_pending


@pytest.mark.parametrize(
    ("given", "told", "status"),
    [
        (["approve", "nobody", "a"], "there is no conversation 'nobody'", 1),
        (["approve", "chat", "x"], "has no call 'x': `toolledger approvals` lists", 1),
        (["approve", "chat", "b"], "call 'b' is Rejected: approved is not allowed", 1),
        (["approve", "chat", "c"], "cannot run: pass --edit with those it should have", 1),
        (["approve", "chat", "a", "--edit", "{"], "'{' is no JSON", 2),
        (["approve", "chat", "a", "--edit", "[1]"], "'[1]' is no JSON object", 2),
        (["approve", "chat", "a", "--shown", "5"], "'5' is no JSON object", 2),
        (["reject", "chat", "x"], "has no call 'x'", 1),
        (["approve", "chat"], "Missing argument 'CALL'", 2),
        (["approvals", "--tables", "nonsense"], "is not a database URL", 2),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    run: Command, store: EventStore, given: list[str], told: str, status: int
) -> None:
    """And nothing is written."""
    before = store.conversation("chat").version
    assert told in run.refused(*given, status=status)
    assert store.conversation("chat").version == before


def test_who_decides_second_is_told_whose_decision_stands(
    run: Command, store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where both have seen the call wait."""
    waiting = approving._waiting

    def slow(*given: Any) -> Any:
        found = waiting(*given)
        if store.conversation("chat").tools["a"].is_pending:
            store.conversation("chat").approve("a", by="bob")
        return found

    monkeypatch.setattr(approving, "_waiting", slow)
    assert run("approve", "chat", "a", "--by", "ann")[0].startswith("approved already, by bob: ")


def test_the_first_decision_stands(run: Command, store: EventStore) -> None:
    """The same one again changes nothing, another is refused."""
    assert run("approve", "chat", "a")[0].startswith("approved: ")
    assert run("approve", "chat", "a")[0].startswith("approved already, by somebody who gave no")
    assert "Approved: approved is not allowed" in run.refused(
        "approve", "chat", "a", "--edit", "{}"
    )
    run("reject", "chat", "a", "--reason", "second thoughts")  # it has not started
    assert "Rejected" in run.refused("approve", "chat", "a")
