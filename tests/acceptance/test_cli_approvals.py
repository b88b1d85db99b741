"""`toolledger approvals | approve | reject`, as people and programs run them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from eventstore import Approved, EventStore, Rejected
from projections.cli import app
from projections.cli.commands import approve as approving


class Terminal(StringIO):
    """An output that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


class Command:
    """The `toolledger` command on a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/log.db"

    def __call__(self, *given: str, status: int = 0, terminal: bool = False) -> tuple[str, str]:
        """Run the command; return its output and its error output."""
        kind = Terminal if terminal else StringIO
        out, err = kind(), kind()
        with chdir(self.folder), redirect_stdout(out), redirect_stderr(err):
            assert app.run([*given, "--url", self.url]) == status, err.getvalue()
        return out.getvalue(), err.getvalue()

    def refused(self, *given: str, status: int = 1, terminal: bool = False) -> str:
        """Return the one line of the refusal."""
        out, err = self(*given, status=status, terminal=terminal)
        assert out == ""
        assert err.startswith("toolledger: ")
        assert err.count("\n") == 1
        return err


@pytest.fixture
def run(tmp_path: Path) -> Command:
    """Return the command."""
    return Command(tmp_path)


@pytest.fixture
def store(run: Command) -> Iterator[EventStore]:
    """Return its store: two conversations, three calls that wait, one that does not."""
    with EventStore.open(run.url) as opened:
        chat = opened.conversation("chat")
        chat.request("pay", {"amount": 10, "to": "ann\x1b[31m"}, "a")
        chat.request("pay", {"amount": 20}, "b")
        chat.reject("b")
        chat.request("pay", "{oops", "c")
        opened.conversation("other").request("mail", {"to": "bob"}, "a")
        yield opened


def test_the_inbox_lists_what_waits_everywhere(run: Command, store: EventStore) -> None:
    """Each call has its arguments, its revision and its time, as a table and as JSON."""
    out, _ = run("approvals")
    lines = out.splitlines()
    assert lines[0].split() == ["asked", "conversation", "call", "tool", "revision", "arguments"]
    assert [line.split()[2:5] for line in lines[1:4]] == [
        ["chat", "a", "pay"],
        ["chat", "c", "pay"],
        ["other", "a", "mail"],
    ]
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
    names = ['"chat\\nx"', '"a\\t\\r\\n\\x1b[2J"', '"f\\n2026-01-01', 'rm"', "{}"]
    shown = lines[1].split()[2:]
    assert [*shown[:4], *shown[5:]] == names  # the revision is between
    out, _ = run("approve", "chat\nx", "a\t\r\n\x1b[2J")
    assert out == f'approved: {names[2]} rm"({{}}), call {names[1]} of {names[0]}\n'


HOSTILE = "\x9b31m\x7f\u2028\u202e\u2066\x1b[2J\U000e0041é\n"
"""Codes of a terminal, C1 and DEL, a line separator, bidi overrides, a tag, and a letter."""


def test_json_on_a_terminal_has_no_control_codes_and_stays_json(run: Command) -> None:
    """Escape in JSON what a terminal would obey; leave it as it is for a file."""
    with EventStore.open(run.url) as store:
        chat = store.conversation(HOSTILE)
        chat.request(HOSTILE, {HOSTILE: HOSTILE}, HOSTILE)
    for command in (["approvals"], ["tools"], ["show", HOSTILE], ["tail"], ["show"]):
        shown, _ = run(*command, "--json", terminal=True)
        raw, _ = run(*command, "--json")
        assert all(map(str.isprintable, shown.split("\n")))
        assert "é" in shown
        lines = zip(shown.splitlines(), raw.split("\n"), strict=False)
        if command[0] == "approvals" or command[0] == "tools":
            lines = iter([(shown, raw)])
        assert all(json.loads(one) == json.loads(other) for one, other in lines)
    approved, _ = run("approve", HOSTILE, HOSTILE, "--by", HOSTILE, "--json", terminal=True)
    assert all(map(str.isprintable, approved.split("\n")))
    assert json.loads(approved)["status"]["by"] == HOSTILE


def test_output_made_for_a_file_has_no_control_codes_on_a_terminal(run: Command) -> None:
    """Escape them where events, a table or a page are shown, and not written; JSON stays JSON."""
    with EventStore.open(run.url) as store:
        store.conversation(HOSTILE).request(HOSTILE, {HOSTILE: HOSTILE}, HOSTILE)
    for command in (
        ["export"],
        ["export", "--format", "csv"],
        ["export", "--format", "otlp", "--content"],
        ["report", HOSTILE, "-o", "-"],
    ):
        shown, _ = run(*command, terminal=True)
        assert all(map(str.isprintable, shown.replace("\t", "").split("\n")))
        assert "é" in shown
        if command[0] == "export" and "csv" not in command:
            name = f"{len(command)}.json"
            run(*command, "--out", name)
            assert json.loads(shown) == json.loads((run.folder / name).read_text("utf-8"))
    assert "pass --out" in run.refused("export", "--format", "parquet", status=2, terminal=True)


@pytest.mark.parametrize("terminal", [False, True])
def test_the_author_of_a_decision_cannot_write_another_line(run: Command, terminal: bool) -> None:
    """Show who decided first on one line, whatever the name is."""
    with EventStore.open(run.url) as store:
        call = store.conversation("chat").request("pay", {})
        store.conversation("chat").approve(call.id, by=f"eve\tapproved: pay{HOSTILE}")
    out, _ = run("approve", "chat", call.id, terminal=terminal)
    assert out.count("\n") == 1
    assert all(map(str.isprintable, out.rstrip("\n")))
    assert out.startswith('approved already, by "eve\\tapproved: pay\\x9b31m')


def test_a_name_that_reads_like_a_call_is_quoted(run: Command) -> None:
    """Let no name pass for another name with arguments."""
    with EventStore.open(run.url) as store:
        name = 'read({"path":"a"}), call x of y; rm'
        approval = store.conversation("my chat").request(name, {"all": True}, "b")
    out, _ = run("approvals")
    assert re.search(r'"my chat" +b +"read\(\{\\"path\\":\\"a\\"\}\), call x of y; rm" ', out)
    out, _ = run("approve", "my chat", approval.id)
    assert out.startswith('approved: "read({')
    assert out.endswith('; rm"({"all":true}), call b of "my chat"\n')


def test_a_key_that_is_there_twice_is_shown_twice(run: Command) -> None:
    """Show both values of a repeated key, run neither, and take no such edit."""
    text = '{"path": "a", "mode": {"x": 1, "x": 2}}'
    with EventStore.open(run.url) as store:
        store.conversation("chat").request("read", text, "a")
    assert text in run("approvals")[0]
    assert "pass --edit" in run.refused("approve", "chat", "a")
    refusal = run.refused("approve", "chat", "a", "--edit", '{"a": 1, "a": 2}', status=2)
    assert "has a key twice" in refusal
    assert run("approve", "chat", "a", "--shown", text, "--edit", '{"a": 1}')[0]


def test_long_arguments_are_shown_in_part_with_a_remark(run: Command) -> None:
    """Programs get all of them, and an error message stays short."""
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
    """The tables are updated first, with a progress bar on a terminal; the answer is the same."""
    tables = f"sqlite:///{run.folder}/tables.db"
    direct = run("approvals", terminal=terminal)[0]
    assert run("approvals", "--tables", tables, terminal=terminal)[0] == direct
    run("approve", "chat", "a")
    assert "2 calls wait" in run("approvals", "--tables", tables)[0]


def test_a_person_in_another_process_decides(run: Command, store: EventStore) -> None:
    """The agent's handle sees the decision, its author and the reason."""
    chat = store.conversation("chat")
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "projections.cli",
            "approve",
            "chat",
            "a",
            "--by",
            "ann",
            "--reason",
            "small",
            "--url",
            run.url,
        ],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.startswith('approved: pay({"amount":10')
    assert chat.tools["a"].status == Approved(None, "ann", "small")
    out, _ = run("reject", "other", "a", "--by", "ann", "--reason", "no mail")
    assert out == 'rejected: mail({"to":"bob"}), call a of other\n'
    assert store.conversation("other").tools["a"].status == Rejected("no mail", "human", "ann")
    assert chat.start("a").status.arguments["amount"] == 10  # type: ignore[union-attr]


def test_an_approval_may_edit_the_arguments(run: Command, store: EventStore) -> None:
    """The edit is in force, and can replace arguments that were not a JSON object."""
    found = json.loads(run("approve", "chat", "c", "--edit", '{"amount": 3}', "--json")[0])
    assert found["status"]["state"] == "Approved"
    assert (found["conversation_id"], found["id"]) == ("chat", "c")
    assert store.conversation("chat").tools["c"].effective_call.arguments == {"amount": 3}


@pytest.mark.parametrize(
    ("call", "shown"),
    [("a", '{"to": "ann\\u001b[31m",  "amount": 10}'), ("c", "{oops"), ("a", "revision")],
)
@pytest.mark.parametrize("command", ["approve", "reject"])
def test_a_decision_holds_only_for_the_arguments_shown(
    run: Command, store: EventStore, call: str, shown: str, command: str
) -> None:
    """The arguments may differ in key order and spacing, or be the same raw text.

    The revision is the one in the table.
    """
    if shown == "revision":
        shown = run("approvals")[0].splitlines()[1].split()[5]
    more = ["--edit", "{}"] if (command, call) == ("approve", "c") else []
    run(command, "chat", call, "--shown", shown, *more)
    assert not store.conversation("chat").tools[call].is_pending


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("a", '{"to": "ann\\u001b[31m", "amount": 10.0}'),
        ("a", '{"amount": 10}'),
        ("a", "{}"),
        ("c", "{}"),
        ("c", "{oops "),
        ("c", "1.1.00000000"),
    ],
)
@pytest.mark.parametrize("command", ["approve", "reject"])
def test_a_call_that_was_not_shown_is_not_decided_on(
    run: Command, store: EventStore, call: str, shown: str, command: str
) -> None:
    """Any other arguments are refused, and the error shows the right ones."""
    reported = run.refused(command, "chat", call, "--shown", shown)
    assert "is not as it was shown, nothing was decided; it is Pending now" in reported
    assert ("{oops" if call == "c" else '"amount":10,') in reported
    assert store.conversation("chat").tools[call].is_pending


@pytest.mark.parametrize(
    ("given", "reported", "status"),
    [
        (["approve", "nobody", "a"], "there is no conversation 'nobody'", 1),
        (["approve", "chat", "x"], "has no call 'x': `toolledger approvals` lists", 1),
        (["approve", "chat", "b"], "call 'b' is Rejected: approved is not allowed", 1),
        (["approve", "chat", "c"], "cannot run: pass --edit with those it should have", 1),
        (["approve", "chat", "a", "--edit", "{"], "'{' is not JSON", 2),
        (["approve", "chat", "a", "--edit", "[1]"], "'[1]' is not a JSON object", 2),
        (["approve", "chat", "a", "--shown", "5"], "'5' is not a JSON object", 2),
        (["reject", "chat", "x"], "has no call 'x'", 1),
        (["approve", "chat"], "Missing argument 'CALL'", 2),
        (["approvals", "--tables", "nonsense"], "is not a database URL", 2),
    ],
)
def test_an_impossible_decision_is_refused_in_one_line(
    run: Command, store: EventStore, given: list[str], reported: str, status: int
) -> None:
    """Nothing is written."""
    before = store.conversation("chat").version
    assert reported in run.refused(*given, status=status)
    assert store.conversation("chat").version == before


def test_a_second_decision_names_the_author_of_the_first(
    run: Command, store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds if both persons have seen the call wait."""
    beside(monkeypatch, lambda: store.conversation("chat").approve("a", by="bob"))
    assert run("approve", "chat", "a", "--by", "ann")[0].startswith("approved already, by bob: ")


def beside(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let another process act between the command's look at a call and its append."""
    waiting = approving.of_call

    def slow(*given: Any) -> Any:
        found = waiting(*given)
        act()
        return found

    monkeypatch.setattr(approving, "of_call", slow)


@pytest.mark.parametrize("command", ["approve", "reject"])
def test_a_call_that_changes_beside_the_command_is_not_decided_on(
    run: Command, store: EventStore, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Another desk edits and starts it, and its tool asks again: the shown arguments are gone."""
    chat = store.conversation("chat")

    def another_desk() -> None:
        chat.approve("a", {"amount": 9000}, by="bob")
        chat.begin("a").pause(reason="more than 1,000")

    beside(monkeypatch, another_desk)
    shown = '{"amount": 10, "to": "ann\\u001b[31m"}'
    reported = run.refused(command, "chat", "a", "--shown", shown)
    assert "it is Pending now, of revision 1.1." in reported
    assert '{"amount":9000}' in reported
    assert chat.tools["a"].is_pending


def test_an_approval_may_expire(run: Command, store: EventStore) -> None:
    """The option gives the seconds from the append on, by the clock of the store."""
    run("approve", "chat", "a", "--by", "ann", "--expires", "0.001")
    given = store.conversation("chat").tools["a"]
    assert given.expires_at == (given.decided_at or 0) + 1000
    assert run.refused("approve", "chat", "a", "--expires", "0", status=2)


def test_the_inbox_marks_equal_calls(run: Command) -> None:
    """The model asked twice for the same in one conversation."""
    with EventStore.open(run.url) as store:
        for name, call, amount in (("chat", "a", 10), ("chat", "b", 10.0), ("other", "a", 10)):
            store.conversation(name).request("pay", {"amount": amount}, call)
    lines = run("approvals")[0].splitlines()
    assert [line.split()[6:] for line in lines[1:4]] == [
        ['{"amount":10}', "b"],
        ['{"amount":10.0}', "a"],
        ['{"amount":10}'],
    ]
    found = json.loads(run("approvals", "--json")[0])
    assert [one["equal_calls"] for one in found] == [["b"], ["a"], []]


def test_the_first_decision_stands(run: Command, store: EventStore) -> None:
    """The same decision again changes nothing, and a different one is refused."""
    assert run("approve", "chat", "a")[0].startswith("approved: ")
    assert run("approve", "chat", "a")[0].startswith("approved already, by someone who gave no")
    assert "Approved: approved is not allowed" in run.refused(
        "approve", "chat", "a", "--edit", "{}"
    )
    run("reject", "chat", "a", "--reason", "second thoughts")  # it has not started
    assert "Rejected" in run.refused("approve", "chat", "a")


def test_a_paused_call_is_listed_with_its_reason(run: Command) -> None:
    """A deferred call has its time; the arguments are those in force, which are compared."""
    with EventStore.open(run.url) as store:
        chat = store.conversation("chat")
        chat.request("pay", {"amount": 10}, "a")
        chat.approve("a", {"amount": 5})
        with chat.running("a") as attempt:
            attempt.pause(reason="above the \x1b[31mlimit")
        chat.request("mail", {}, "b")
        chat.defer("b", 1_767_355_200_000_000)
        chat.request("look", {}, "c")
    out, _ = run("approvals")
    lines = out.splitlines()
    assert lines[0].split()[-1] == "waits"
    assert "\x1b" not in out
    assert re.search(r'pay +1\.1\.[0-9a-f]{8} +\{"amount":5\} +above the', lines[1])
    assert lines[2].endswith("until 2026-01-02 12:00:00.000")
    found = json.loads(run("approvals", "--json")[0])
    assert [(a["attempts"], a["until"]) for a in found] == [
        (1, None),
        (0, 1_767_355_200_000_000),
        (0, None),
    ]
    assert "was decided; it is Pending" in run.refused(
        "approve", "chat", "a", "--shown", '{"amount":10}'
    )
    run("approve", "chat", "a", "--shown", '{"amount":5}', "--by", "ada")
    with EventStore.open(run.url) as store:
        tool = store.conversation("chat").tools["a"]
    assert tool.effective_call.arguments == {"amount": 5}
    assert isinstance(tool.status, Approved)
    assert "paused" in run("show", "chat")[0]


def test_doubts_are_listed_and_settled(run: Command, store: EventStore) -> None:
    """Each way to settle one; an alert has a status; what is wrong gets one line."""
    chat = store.conversation("other")
    for number, call_id in enumerate(("d1", "d2", "d3")):
        chat.request("refund", {"order": number}, call_id)
        chat.start(call_id)
    chat.fail("d2", TimeoutError("late"))
    out, _ = run("doubts", "--fail-if-any", status=1)
    lines = out.splitlines()
    assert [line.split()[2:5] for line in lines[1:4]] == [
        ["other", "d1", "refund"],
        ["other", "d3", "refund"],
        ["other", "d2", "refund"],
    ]
    assert lines[4].startswith("3 calls in doubt (toolledger settle CONVERSATION CALL --shown")
    listed = json.loads(run("doubts", "--json")[0])
    assert [(each["call_id"], each["is_open"]) for each in listed] == [
        ("d1", True),
        ("d3", True),
        ("d2", False),
    ]
    revision = lines[1].split()[5]
    out, _ = run("settle", "other", "d1", "--completed", '{"paid": 1}', "--shown", revision)
    assert out == 'settled as completed: refund({"order":0}), call d1 of other\n'
    out, _ = run("settle", "other", "d2", "--failed", "no such", "--by", "ann", "--reason", "asked")
    assert out.startswith("settled as failed: refund")
    out, _ = run("settle", "other", "d3", "--run-again", "--json")
    assert json.loads(out)["status"]["failure"]["code"] == "run_again"
    assert "(settled by ann: asked)" in run("show", "other")[0]
    tools = chat.tools
    assert tools["d1"].response is not None
    assert tools["d1"].response.result == {"paid": 1}
    run("doubts", "--fail-if-any")
    assert "nothing about it is in doubt" in run.refused("settle", "other", "d2", "--run-again")
    assert "has no call 'd9'" in run.refused("settle", "other", "d9", "--run-again")
    assert "pass one of --completed" in run.refused("settle", "other", "d1", status=2)
    chat.request("refund", {}, "d4")
    chat.start("d4")
    chat.complete("d4", "paid")
    assert "in doubt: it is Completed" in run.refused(
        "settle", "other", "d4", "--completed", "paid"
    )
    chat.start("d3")
    assert "it is Running now" in run.refused(
        "settle", "other", "d3", "--failed", "no", "--shown", revision
    )
