"""Scanners: each built-in rule finds its case and leaves a good run alone."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from support.played_logs import STEPS, Step, played
from support.tiers import examples

from eventstore import Conversation, EventStore, MessageAdded
from eventstore.testing import FrozenClock
from projections import ScanFinding, ScannedLog, scan
from projections.debugging.scan import LONG_WAIT, RULES


def call(chat: Conversation, name: str, arguments: dict[str, object], result: object) -> str:
    """Record a call with its result; return its id."""
    asked = chat.request(name, arguments)
    chat.start(asked.id)
    chat.complete(asked.id, result)
    return asked.id


def rules_of(chat: Conversation) -> list[str]:
    """Return the names of the rules that find something."""
    return [finding.rule for finding in scan(chat.events())]


def test_a_good_run_has_no_findings(chat: Conversation) -> None:
    """Every result is used, and every call has its end."""
    chat.add_message("user", "Where is order A-171717?")
    call(
        chat,
        "find_order",
        {"order": "A-171717"},
        {
            "city": "Montpellier",
            "state": "underway",
            "carrier": "Parcelforce",
            "weight": "2400 grams",
            "customer": "Miriam",
        },
    )
    chat.add_message("assistant", "It is in Montpellier, with Parcelforce.")
    assert scan(chat.events()) == []


def test_loops_open_calls_and_repeated_errors(chat: Conversation) -> None:
    """Each is found with its versions."""
    for _ in range(3):
        asked = chat.request("find", {"q": "lamp"})
        chat.start(asked.id)
        chat.fail(asked.id, ValueError("no such lamp"))
    left = chat.request("pay", {"amount": 7})
    found = {finding.rule: finding for finding in scan(chat.events())}
    assert found["loops"].versions == (1, 7)
    assert found["open_calls"].call_id == left.id
    assert found["open_calls"].text == 'pay {"amount":7} is pending and has no end'
    assert found["repeated_errors"].versions == (3, 6, 9)
    assert found["repeated_errors"].text == "3 times: no such lamp"
    assert len(found) == 3


def test_a_repeated_error_is_quoted_where_it_came_first(chat: Conversation) -> None:
    """The version that is named, and the text beside it, are of the same event."""
    for number in range(3):
        asked = chat.request("find", {"page": number})
        chat.start(asked.id)
        chat.fail(asked.id, ValueError(f"429, request {number + 71}"))
    (finding,) = scan(chat.events())
    assert str(finding) == "repeated_errors: version 3: 3 times: 429, request 71"


def test_an_unused_result(chat: Conversation) -> None:
    """No word of the result comes again; words of the arguments do not count."""
    answer = {
        "city": "Montpellier",
        "state": "underway",
        "carrier": "Parcelforce",
        "weight": "2400 grams",
        "customer": "Miriam",
    }
    unused = call(chat, "find_order", {"order": "A-171717"}, answer)
    chat.add_message("assistant", "I could not find order A-171717.")
    (finding,) = scan(chat.events())
    assert (finding.rule, finding.call_id) == ("unused_results", unused)
    call(chat, "search", {"near": "montpellier"}, "nothing")
    assert rules_of(chat) == []


def test_one_large_result(chat: Conversation) -> None:
    """Several results of the same size are no finding."""
    call(chat, "read", {"path": "a"}, "some words of it\n" * 2_000)
    assert rules_of(chat) == ["large_results"]
    for name in "bcdef":
        call(chat, "read", {"path": name}, f"other words of {name}\n" * 2_000)
    assert rules_of(chat) == []


def test_an_approval_that_waited(store: EventStore, clock: FrozenClock) -> None:
    """The limit is one hour."""
    chat = store.conversation("c")
    quick, slow = chat.request("a"), chat.request("b")
    clock.advance(3600)
    chat.approve(quick.id)
    clock.advance(1)
    chat.reject(slow.id)
    found = [each for each in scan(chat.events()) if each.rule == "long_waits"]
    assert [(each.call_id, each.text) for each in found] == [
        (slow.id, "b {} waited 1 h 0 m to be rejected")
    ]
    assert LONG_WAIT == 3600 * 10**6


def test_a_call_that_waits_still_is_a_long_wait(chat: Conversation, clock: FrozenClock) -> None:
    """The log's last event says how long it has waited; a call that started does not wait."""
    waiting, running = chat.request("pay"), chat.request("look")
    chat.start(running.id)
    clock.advance(3600)
    assert [each for each in scan(chat.events()) if each.rule == "long_waits"] == []
    clock.advance(3600)
    chat.add_message("user", "Hello?")
    (found,) = (each for each in scan(chat.events()) if each.rule == "long_waits")
    assert found.call_id == waiting.id
    assert found.text == "pay {} had waited 2 h 0 m when the log ends"


def test_a_secret_in_arguments_is_found_and_not_shown(chat: Conversation) -> None:
    """The finding names the call alone."""
    key = "sk-proj-0123456789abcdef"
    call(chat, "login", {"key": key}, "ok")
    (finding,) = scan(chat.events())
    assert finding.rule == "secrets_in_arguments"
    assert key not in str(finding)


def test_a_rule_of_ones_own(chat: Conversation) -> None:
    """Its input holds the events and the facts; it stands beside the built-in ones or alone."""

    def rude(log: ScannedLog) -> Iterable[ScanFinding]:
        for recorded in log.events:
            if isinstance(recorded.event, MessageAdded) and recorded.event.role == "user":
                yield ScanFinding("rude", f"{len(log.facts.calls)} calls", (recorded.version,))

    chat.request("pay")
    chat.add_message("user", "Hurry up!")
    assert [str(each) for each in scan(chat.events(), [rude])] == ["rude: version 2: 1 calls"]
    assert [each.rule for each in scan(chat.events(), [*RULES, rude])] == ["open_calls", "rude"]


@settings(max_examples=examples(30))
@given(steps=STEPS)
def test_any_log_is_scanned(steps: list[Step]) -> None:
    """The findings are in order, and name versions of the log."""
    events = played(steps)
    found = scan(events)
    assert [each.versions[0] for each in found] == sorted(each.versions[0] for each in found)
    assert {version for each in found for version in each.versions} <= {
        recorded.version for recorded in events
    }
    assert scan(events) == found


def test_an_empty_log_has_no_findings() -> None:
    """There is nothing to find."""
    assert scan([]) == []


@pytest.mark.parametrize("rule", RULES)
def test_rules_are_named_by_their_functions(rule: object) -> None:
    """A finding's rule can be looked up in the reference."""
    assert callable(rule)
    assert rule.__doc__
