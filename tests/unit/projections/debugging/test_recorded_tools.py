"""Recorded tools: a log that answers an agent's calls, failures included."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    Conversation,
    Dispatcher,
    ErrorKind,
    EventStore,
    Failure,
    FunctionTool,
    Recorded,
    RetryPolicy,
    Text,
    UnknownEvent,
)
from eventstore.testing.builders import log
from projections import (
    Divergence,
    RecordedFailure,
    RecordedTools,
    load_events,
    model_history,
)
from projections.debugging.event_lines import event_line
from projections.debugging.json_diff import json_diff
from projections.debugging.recorded_tools import RecordedToolsWarning

Tools = Mapping[str, Callable[..., Any]]
PROVIDERS = ("openai", "openai-responses", "anthropic", "gemini", "mistral", "bedrock", "ollama")


class Flaky:
    """Real tools with a state: a carrier that answers at the second try, a bank that refuses."""

    def __init__(self) -> None:
        self.tries = 0
        self.reads = 0

    def ask_carrier(self, number: int) -> str:
        """Ask where a parcel is."""
        self.tries += 1
        if self.tries == 1:
            raise ConnectionRefusedError("no answer")
        return f"parcel {number} is in Lyon"

    def refund(self, number: int) -> str:
        """Pay the money back."""
        raise PermissionError("the key of the bank has expired")

    def read(self, path: str) -> dict[str, Any]:
        """Read a file, which changes."""
        self.reads += 1
        return {"path": path, "lines": self.reads}

    def draw(self, of: str) -> list[Any]:
        """Draw a picture."""
        return [Text(f"a picture of {of}")]


def agent(chat: Conversation, tools: Tools) -> None:
    """Run a scripted agent: two turns through a dispatcher, and one call in a plain loop."""
    chat.add_message("user", "Where is my order 9?")
    dispatcher = Dispatcher(
        chat,
        [
            FunctionTool(
                tools["ask_carrier"],
                name="ask_carrier",
                typed=False,
                retry=RetryPolicy(max_attempts=3, initial_backoff=0.001),
            ),
            FunctionTool(tools["refund"], name="refund", typed=False),
            FunctionTool(tools["read"], name="read", typed=False),
        ],
    )
    chat.add_message("assistant", "I ask.")
    calls = [chat.request(name, {"number": 9}, call_id=name) for name in ("ask_carrier", "refund")]
    dispatcher.dispatch(calls)
    chat.add_message("assistant", "I read.")
    for n in range(2):
        dispatcher.dispatch([chat.request("read", {"path": "a.txt"}, call_id=f"read_{n}")])
    call = chat.request("draw", {"of": "a cat"}, call_id="draw")
    with chat.running(call.id) as attempt:
        attempt.complete(tools["draw"](**attempt.arguments))
    call = chat.request("refund", {"number": 10}, call_id="last")
    with pytest.raises((PermissionError, RecordedFailure)), chat.running(call.id) as attempt:
        attempt.complete(tools["refund"](**attempt.arguments))


def played(tools: Tools) -> list[Recorded]:
    """Return the log of the agent with these tools."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        agent(chat, tools)
        return list(chat.events())


def real() -> list[Recorded]:
    """Return the log of the agent with real tools."""
    tools = Flaky()
    names = ("ask_carrier", "refund", "read", "draw")
    return played({name: getattr(tools, name) for name in names})


def test_a_run_replays_to_the_same_prompts() -> None:
    """Failures, retries and changed answers come again, and each provider's prompt is the same."""
    events = real()
    with RecordedTools(events) as tools:
        again = played(tools)
    assert tools.unused == []
    assert [e.event.tag for e in again] == [e.event.tag for e in events]
    for provider in PROVIDERS:
        one, other = (model_history(log).render(provider) for log in (events, again))
        assert msgspec.json.encode(one) == msgspec.json.encode(other)


FAILURES = [
    Failure(ErrorKind.AUTH, "expired", exception="PermissionError"),
    Failure(ErrorKind.RATE_LIMIT, "slow", http_status=429, retry_after=2.5, exception="a.b.Limit"),
    Failure(ErrorKind.TRANSIENT, "late", code="timeout", exception="TimeoutError", in_doubt=True),
    Failure(ErrorKind.TRANSIENT, "lost", exception="x.Lost", in_doubt=True),
    Failure(ErrorKind.VALIDATION, "bad", model_message="pass a number", exception="x.Bad"),
]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_recorded_failure_is_recorded_as_the_same(failure: Failure) -> None:
    """Kind, code, status, hint, texts and the name of the exception come again."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        chat.request("f", {"n": 1}, call_id="a")
        chat.start("a")
        chat.fail("a", failure)
        tools = RecordedTools(chat.events())
    with pytest.raises(RecordedFailure) as raised:
        tools["f"](n=1)
    assert raised.value.failure == failure
    assert Failure.from_exception(raised.value) == failure


def recorded(*calls: tuple[str, dict[str, Any], Any]) -> list[Recorded]:
    """Return the log of calls that completed."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        for name, arguments, result in calls:
            call = chat.request(name, arguments)
            chat.start(call.id)
            chat.complete(call.id, result)
        return list(chat.events())


FOUND = recorded(
    ("find", {"q": "rig", "limit": 5}, "first"),
    ("find", {"q": "rig", "limit": 5}, "second"),
    ("find", {"q": "sea", "limit": 5}, "third"),
    ("pay", {"order": 7}, "paid"),
)


def test_the_second_call_gets_the_second_outcome() -> None:
    """The order of other calls does not matter, nor does the order of the arguments."""
    tools = RecordedTools(FOUND)
    assert tools["find"](q="sea", limit=5) == "third"
    assert tools.call("find", {"limit": 5, "q": "rig"}) == "first"
    assert [call.result for call in tools.unused] == ["second", "paid"]
    assert tools.call("find", {"q": "rig", "limit": 5}) == "second"


def test_a_missing_call_is_a_divergence_with_the_nearest_call() -> None:
    """The message has the JSON path of what differs; the end of the block raises it again."""

    def run_agent() -> None:
        with RecordedTools(FOUND) as tools, suppress(AssertionError):
            tools["find"](q="sea", limit=50, page=2)

    with pytest.raises(Divergence) as raised:
        run_agent()
    error = raised.value
    assert str(error).splitlines() == [
        'find {"q":"sea","limit":50,"page":2}: the log has no such call',
        '  the nearest recorded call: find {"q":"sea","limit":5} (version 9)',
        "    $.limit: 5 became 50",
        "    $.page: added 2",
    ]
    assert [change.path for change in error.changes] == ["$.limit", "$.page"]


def test_one_call_too_many_is_a_divergence() -> None:
    """The log has the call, and each outcome answers once."""
    tools = RecordedTools(FOUND)
    assert tools["pay"](order=7) == "paid"
    with pytest.raises(Divergence, match="the log has no further call of it"):
        tools["pay"](order=7)


def test_a_tool_that_the_log_does_not_know_is_a_divergence() -> None:
    """The nearest call is of another tool, and that is said."""
    tools = RecordedTools(FOUND)
    assert "lose" not in tools
    assert list(tools) == ["find", "pay"]
    assert len(tools) == 2
    with pytest.raises(Divergence, match=r'\$name: "pay" became "lose"'):
        tools["lose"](order=7)
    with pytest.raises(Divergence):
        tools.check()
    with pytest.raises(Divergence, match="no such call"):
        RecordedTools([])["lose"]()


def test_lenient_mode_answers_with_the_nearest_call_and_warns() -> None:
    """The divergence is kept, and a tool without any call is still refused."""
    with RecordedTools(FOUND, "lenient") as tools:
        with pytest.warns(RecordedToolsWarning, match="the nearest one answered"):
            assert tools["find"](q="sea", limit=6) == "third"
        with pytest.raises(Divergence):
            tools["lose"]()
    assert len(tools.divergences) == 2


def test_live_mode_calls_the_real_tool_and_warns() -> None:
    """Only what the log does not answer reaches the real tool."""
    asked: list[Any] = []

    def pay(order: int) -> None:
        asked.append(order)

    with RecordedTools(FOUND, "live", live={"pay": pay}) as tools:
        assert tools["pay"](order=7) == "paid"
        assert asked == []
        with pytest.warns(RecordedToolsWarning, match="the real tool was called"):
            tools["pay"](order=8)
    assert asked == [8]


@pytest.mark.parametrize(
    ("mode", "live"), [("loose", None), ("live", None), ("strict", {"f": print})]
)
def test_a_mode_that_makes_no_sense_is_refused(mode: Any, live: Any) -> None:
    """The error says what to pass."""
    with pytest.raises(ValueError, match="pass "):
        RecordedTools([], mode, live=live)


def test_an_edited_call_is_known_by_what_ran() -> None:
    """The approved edit ran, so the edit is answered."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        chat.request("mail", {"to": "all"}, call_id="a")
        chat.approve("a", edited_arguments={"to": "ada"})
        chat.start("a")
        chat.complete("a", "sent")
        chat.request("mail", {"to": "bob"}, call_id="b")
        chat.reject("b", "no")
        tools = RecordedTools(chat.events())
    assert tools["mail"](to="ada") == "sent"
    assert tools.unused == []
    with pytest.raises(Divergence):
        tools["mail"](to="bob")


def test_a_crash_ends_the_recorded_run() -> None:
    """The last attempt without an end is a divergence; one that was followed is passed over."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        chat.request("pay", {"order": 1}, call_id="a")
        chat.start("a")
        chat.start("a", attempt=2)
        chat.complete("a", "paid")
        chat.request("pay", {"order": 2}, call_id="b")
        chat.start("b")
        tools = RecordedTools(chat.events())
    assert tools["pay"](order=1) == "paid"
    with pytest.raises(Divergence, match="the recorded run stopped in it"):
        tools["pay"](order=2)


def test_the_calls_of_an_imported_history_answer() -> None:
    """Imported calls ran elsewhere, and no attempt is recorded."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}'}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "one"},
    ]
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        chat.import_messages(messages, "openai")
        assert RecordedTools(chat.events())["f"](n=1) == "one"


# events as lines


def test_events_come_back_from_their_lines(tmp_path: Any) -> None:
    """Every event is equal to what was written, also one of a newer version."""
    events = [*real(), *log(UnknownEvent("later", 9, '{"a": 1}'))]
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\n".join(map(event_line, events)) + b"\n\n")
    assert load_events(path) == events


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"tag": "pending"}', '{"version": "one"}'])
def test_a_line_that_is_no_event_is_named(tmp_path: Any, line: str) -> None:
    """The error has the number of the line, and how the file is written."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(event_line(FOUND[0]) + b"\n" + line.encode())
    with pytest.raises(ValueError, match=r"line 2 is not an event .*toolledger export"):
        load_events(path)


# the difference of JSON values

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab c", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab ", max_size=2), inner),
    max_leaves=8,
)


@given(values, values)
def test_only_equal_values_have_no_difference(one: Any, other: Any) -> None:
    """Booleans are not numbers, and the order of members does not count."""
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (json_diff(one, other) == []) is same
    assert json_diff(one, one) == []


@given(values, values)
def test_a_difference_turned_round_is_the_opposite(one: Any, other: Any) -> None:
    """A value added one way is removed the other way."""
    turned = {"added": "removed", "removed": "added", "changed": "changed"}
    there = {(change.path, change.kind) for change in json_diff(one, other)}
    back = {(change.path, turned[change.kind]) for change in json_diff(other, one)}
    assert there == back


def test_differences_have_paths() -> None:
    """Members and items are named as in the errors of msgspec."""
    before = {"orders": [{"id": 1}, {"id": 2}], "a b": True}
    after = {"orders": [{"id": 1.0}], "a b": 1, "new": None}
    assert [str(change) for change in json_diff(before, after)] == [
        "$.orders[0].id: 1 became 1.0",
        '$.orders[1]: removed {"id":2}',
        '$["a b"]: true became 1',
        "$.new: added null",
    ]
