"""The rules of `why`: each finds its example, and the documentation lists them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eventstore import (
    ErrorKind,
    Event,
    Failure,
    FunctionCall,
    FunctionResponse,
    HistoryCompacted,
    MessageAdded,
    ModelResponded,
    Recorded,
    RunEnded,
    Text,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    UsageLimitBreach,
)
from eventstore.testing.builders import log
from projections import why
from projections.current_tools import CurrentTools
from projections.debugging.call_facts import LogFacts
from projections.debugging.error_groups import group_errors
from projections.debugging.rules.evidence import Evidence
from projections.debugging.rules.table import RULES, CauseRule
from projections.debugging.suspects import suspects
from projections.repeats.projection import repeats

DOCS = Path(__file__).parents[4] / "docs" / "debugging.md"
ANSWER = MessageAdded("assistant", (Text("Done."),), 9)


def made(
    number: int,
    name: str,
    result: Any,
    *,
    failed: bool = False,
    turn: int | None = None,
    **given: Any,
) -> list[Event]:
    """Return a call and its end."""
    call_id = f"c{number}"
    asked = ToolPending(FunctionCall(name, given, call_id), turn=turn or number)
    if failed:
        return [asked, ToolFailed(call_id, Failure(ErrorKind.INTERNAL, result))]
    return [asked, ToolCompleted(call_id, FunctionResponse(name, result, call_id))]


def sh(number: int, command: str, result: str, *, failed: bool = False) -> list[Event]:
    """Return a command of a shell and its end."""
    return made(number, "bash", result, failed=failed, command=command)


SUMMARY = HistoryCompacted(3, (MessageAdded("user", (Text("So far: ..."),)),))
DATA = '{"name": "ada", "orders": [' + '{"id": 1},' * 20 + '{"id": 2}]}'
EXAMPLES: dict[str, list[Event]] = {
    "run ended": [RunEnded("error", Failure(ErrorKind.AUTH, "401 invalid x-api-key"))],
    "limit reached": [UsageLimitBreach("requests", 3, 4)],  # type: ignore[arg-type]
    "not whole": [MessageAdded("assistant", (Text("Once"),), 1, finish_reason="length")],
    "unanswered": [ToolPending(FunctionCall("deploy", {}, "c1")), ToolRunning("c1", 1)],
    "refused": [ToolPending(FunctionCall("deploy", {}, "c1")), ToolRejected("c1", "no", by="mia")],
    "refused, then settled": [
        ToolPending(FunctionCall("push", {}, "c1")),
        ToolRejected("c1", "no", by="mia"),
        MessageAdded("user", (Text("Use a branch."),)),
        *made(2, "push", "pushed", to="branch"),
    ],
    "failed in passing": [
        *sh(1, "ls node_modules", "ls: cannot access 'node_modules'", failed=True),
        *sh(2, "npm ci", "added 20 packages"),
    ],
    "failed": sh(1, "npm publish", "error TS2305: no member", failed=True),
    "never gave way": [
        *made(1, "ask", "429 Too Many Requests", failed=True, q=1),
        *made(2, "ask", "quota exceeded", failed=True, q=2),
    ],
    "server died": [
        *made(1, "mcp__db__query", "41", sql="a"),
        *made(2, "mcp__db__query", "Connection closed", failed=True, sql="b"),
        *made(3, "mcp__db__explain", "Not connected", failed=True, sql="c"),
    ],
    "wrong directory": [
        *sh(1, "cat src/app.py", "import os"),
        *sh(2, "cd build", ""),
        *sh(3, "cat src/app.py", "cat: src/app.py: No such file or directory"),
        *sh(4, "ls src", "ls: cannot access 'src': No such file or directory"),
    ],
    "taken away": [
        *sh(1, "mv src/db.py lib/", ""),
        *sh(2, "python src/db.py", "python: can't open file 'src/db.py'", failed=True),
    ],
    "put aside": [
        *sh(1, "git stash", "Saved working directory"),
        *sh(2, "git commit -am Fix", "nothing to commit, working tree clean", failed=True),
    ],
    "another branch": [
        *sh(1, "git checkout release-1.0", "Switched to branch 'release-1.0'"),
        *sh(2, "cat src/new.py", "cat: src/new.py: No such file or directory", failed=True),
        *sh(3, "pytest src", "ERROR: file or directory not found: src", failed=True),
    ],
    "loop": [event for n in range(6) for event in made(n, "search", "none", q="x")],
    "called again": [
        *made(1, "status", "pending", v=1),
        *made(2, "status", "pending", v=1),
        *made(3, "status", "ready", v=1),
        ANSWER,
    ],
    "flaky": [
        *sh(1, "pytest -q", "1 failed", failed=True),
        *sh(2, "pytest -q", "1 passed"),
        *sh(3, "pytest -q", "1 failed", failed=True),
    ],
    "passed by chance": [
        *sh(1, "npm test", "1 failed", failed=True),
        *sh(2, "npm test", "1 passed"),
    ],
    "done again": [*made(1, "migrate", "done", step=1), SUMMARY, *made(2, "migrate", "no", step=1)],
    "looked again": [*sh(1, "cat a.py", "1"), SUMMARY, *sh(2, "cat a.py", "1")],
    "misplaced result": [*made(1, "find", "one"), *made(1, "find", "two")[1:]],
    "arguments break off": [
        ToolPending(FunctionCall("write", None, "c1", '{"path": "a.py", "text": "def')),
        ToolCompleted("c1", FunctionResponse("write", "written", "c1")),
    ],
    "result breaks off": made(1, "orders", '{"orders": [{"id": 1}, {"id"'),
    "names another": made(1, "find_order", {"order_id": "B-9"}, order_id="A-7"),
    "swapped": [
        ToolPending(FunctionCall("weather", {"city": "Lyon"}, "a"), turn=1),
        ToolPending(FunctionCall("weather", {"city": "Oslo"}, "b"), turn=1, index=1),
        ToolCompleted("a", FunctionResponse("weather", "Oslo: rain", "a")),
        ToolCompleted("b", FunctionResponse("weather", "Lyon: sun", "b")),
    ],
    "same for another": [*made(1, "page", DATA, n=1), *made(2, "page", DATA, n=2)],
    "built on nothing": [
        *sh(1, "cat users.csv", ""),
        *sh(2, "./import users.csv", "imported 0 rows"),
    ],
    "found nothing": [
        *sh(1, "grep -rn API_KEY src", ""),
        *made(2, "edit_file", "edited", path=".env"),
    ],
    "large result": made(1, "read_log", "x" * 200_000),
    "unreadable": [ToolRunning("never", 1)],
}


def evidence_of(events: Sequence[Event]) -> Evidence:
    """Return the evidence of a conversation."""
    recorded: list[Recorded] = log(MessageAdded("user", (Text("Go."),)), *events)
    facts = LogFacts().extend(recorded)
    damage = CurrentTools().extend(recorded).anomalies
    return Evidence(facts, group_errors(facts), repeats(recorded), damage)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_finds_its_example(rule: CauseRule) -> None:
    """Each rule has one; the cause has the versions and a weight within bounds."""
    events = EXAMPLES[rule.name]
    evidence = evidence_of(events)
    causes = list(rule.find(evidence, rule.weight))
    assert causes
    for cause in causes:
        assert cause.version in cause.versions
        assert 1 <= cause.weight <= 100


def test_the_documentation_lists_the_rules() -> None:
    """A row for each, in the order of the table, with what it looks for and its example."""
    rows = [
        f"| {rule.name}{' *' if rule.hint else ''} | {rule.looks_for} | {rule.example} |"
        for rule in RULES
    ]
    written = [line for line in DOCS.read_text("utf-8").splitlines() if line in rows]
    assert written == rows


def test_a_hint_is_named_only_beside_a_cause() -> None:
    """By itself, what it finds is ordinary."""
    searched = [*EXAMPLES["found nothing"], ANSWER]
    assert suspects(evidence_of(searched)) == []
    broken = sh(3, "make", "make: *** [all] Error 2", failed=True)
    found = suspects(evidence_of([*EXAMPLES["found nothing"], *broken, ANSWER]))
    assert [cause.kind for cause in found] == ["error", "empty"]


def test_an_error_weighs_less_than_the_cause_that_tells_where_it_comes_from() -> None:
    """The change of the directory stands before the calls that miss their files."""
    causes = suspects(evidence_of(EXAMPLES["wrong directory"]))
    assert [cause.kind for cause in causes] == ["place", "error", "error"]
    assert causes[0].version == 5


def test_a_limit_of_one_tool_is_no_full_context() -> None:
    """A full context needs the provider's words, or the end of the run."""
    large = "File content (85812 tokens) exceeds maximum allowed tokens (25000)."
    read = made(1, "Read", large, failed=True, file_path="/a.json")
    found = why(log(MessageAdded("user"), *read, *made(2, "Read", "part"), ANSWER))
    assert [cause.kind for cause in found.causes] == ["error"]
    overflow = "prompt is too long: 213462 tokens > 200000 maximum"
    found = why(log(MessageAdded("user"), *made(1, "delegate", overflow, failed=True)))
    assert [cause.kind for cause in found.causes] == ["context"]


def test_a_version_is_quoted_with_its_own_text() -> None:
    """The first of many is quoted with its own request id, the last with its own."""
    many = [
        event
        for n in (1, 2, 3)
        for event in made(n, "fetch", f"429 Too Many Requests, request req_{n}", failed=True, p=n)
    ]
    found = why(log(MessageAdded("user"), *many, ANSWER))
    assert found.causes[0].version == 3
    assert "request req_1 " in found.causes[0].text
    assert found.failure is not None
    assert (found.failure.version, found.failure.line[-5:]) == (7, "req_3")


def test_a_response_is_cut_off_once() -> None:
    """The message and its response both say so: that is one cause."""
    said = MessageAdded("assistant", (Text("Once"),), 1, finish_reason="length")
    responded = ModelResponded("openai", "m", "r", "length")
    found = why(log(MessageAdded("user"), said, responded))
    assert [cause.version for cause in found.causes] == [3]
    assert found.ended.startswith("the last answer, version 2, was cut off (length)")
