"""No order of requests, decisions, crashes and resumes breaks what is promised of effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from support.safety_model import Agents
from support.tiers import LONG, examples

from eventstore import Running
from eventstore.append import conversation_state
from eventstore.append.commands import attempts, decisions
from eventstore.append.conversation_state import ConversationState
from eventstore.append.last_turn import LastTurn
from eventstore.dispatch import failures
from eventstore.dispatch.execution import Execution
from eventstore.domain import fork, lifecycle
from eventstore.leases.keeper import LeaseKeeper
from eventstore.providers import parsing, to_events

STEPS = 30
PAY, MAIL, PUT = ([(name, 1)] for name in ("pay", "mail", "put"))


def test_every_effect_was_allowed_and_is_in_the_log() -> None:
    """See the rules of the model."""
    limits = settings(max_examples=examples(100), stateful_step_count=STEPS)
    run_state_machine_as_test(Agents, settings=limits)


class Fault(NamedTuple):
    """A fault to plant, in one place or several, a way to it, and the rule that it breaks."""

    place: object
    name: str
    broken: Callable[..., Any]
    way: Callable[[Agents], None]
    rule: str


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing, and find nothing."""


def decides_on_an_older_call(play: Agents) -> None:
    """The call was edited, and has paused, since it was shown."""
    play.ask(PAY, ["acts", "asks a person"])
    play.look()
    play.decide(edit=2)
    play.resume()
    play.go_on()
    play.decide()
    play.resume()
    play.go_on()


def uses_an_approval_late(play: Agents) -> None:
    """A worker comes after the approval has ended."""
    play.ask(PAY)
    play.look()
    play.decide(expires=True)
    play.wait()
    play.resume()
    play.go_on()


def hands_back_a_prompt(play: Agents) -> None:
    """The call has not run."""
    play.ask(PAY)
    play.hand_back()


def runs_what_was_cut_off(play: Agents) -> None:
    """The response ends with "length"."""
    play.ask(MAIL, reason="length")
    play.resume()
    play.go_on()


def retries_a_lost_answer(play: Agents) -> None:
    """The tool may run three times."""
    play.ask(MAIL, ["acts", "acts, and the answer is lost"])
    play.resume()
    play.go_on()


def dies_and_starts_again(play: Agents) -> None:
    """The loop by hand asks no one."""
    play.ask(MAIL)
    play.run_by_hand(dies=True)
    play.run_by_hand()


def asks_again_under_another_id(play: Agents) -> None:
    """The first call is in doubt."""
    dies_and_starts_again(play)
    play.ask(MAIL)
    play.resume()
    play.go_on()


def asks_twice(play: Agents) -> None:
    """Two responses have one id."""
    play.ask(MAIL)
    play.ask(MAIL)


def says_no_to_a_doubt(play: Agents) -> None:
    """The call took effect, its end is missing, and its next attempt asks a person."""
    play.ask(MAIL)
    play.run_by_hand(dies=True)
    play.ask_before_another_attempt()
    play.look()
    play.decide(yes=False)


def asks_again_before_the_next_attempt(play: Agents) -> None:
    """The worker dies while it waits to try the call again."""
    play.ask(MAIL, ["acts", "is refused"], works=True)
    while not next(iter(play.chat.tools.values())).retry_announced:
        play.go_on(steps=1)
    play.kill()
    play.ask(MAIL, works=True)
    play.go_on()


def hands_back_a_failure(play: Agents) -> None:
    """The call has failed, and no attempt follows."""
    play.ask(MAIL, ["is refused", "is refused", "is refused"], works=True)
    play.go_on()
    play.hand_back()


def pauses(play: Agents) -> None:
    """The tool asks a person."""
    play.ask(MAIL, ["asks a person"])
    play.resume()
    play.go_on()


def resumes_a_copy(play: Agents) -> None:
    """An idempotent call is under way in the origin."""
    play.ask(PUT)
    play.run_by_hand(dies=True)
    play.fork()


def settles_a_later_attempt(play: Agents) -> None:
    """A worker began another attempt, and it took effect, since the person asked."""
    play.ask(PUT, ["acts", "is lost on the way"])
    play.run_by_hand(dies=True)
    play.ask_the_world()
    play.resume()
    while not play.world.effects:
        play.go_on(steps=1)
    play.settle()


def resumes_beside_a_worker(play: Agents) -> None:
    """The first worker has started the call, and stops there for a while."""
    play.ask(PUT)
    play.resume()
    while not isinstance(next(iter(play.chat.tools.values())).status, Running):
        play.go_on(steps=1)
    play.resume()
    play.go_on(pick=1)


FAULTS = {
    "a decision holds for whatever the call is by then": Fault(
        decisions,
        "on_seen",
        lambda command, *_: command,
        decides_on_an_older_call,
        "a call started with what nobody allowed",
    ),
    "a settlement holds for whatever attempt there is by then": Fault(
        decisions,
        "on_seen",
        lambda command, *_: command,
        settles_a_later_attempt,
        "a call took effect, and the log says that it did not",
    ),
    "a lease keeps nobody away": Fault(
        LeaseKeeper,
        "is_held",
        lambda *_: False,
        resumes_beside_a_worker,
        "a call started beside a worker that lives",
    ),
    "an approval never ends": Fault(
        attempts, "has_expired", lambda *_: False, uses_an_approval_late, "an approval had ended"
    ),
    "a placeholder is a result": Fault(
        to_events, "is_own_text", lambda _: False, hands_back_a_prompt, "our own text is a result"
    ),
    "a response that was cut off counts as whole": Fault(
        parsing, "why_not_whole", nothing, runs_what_was_cut_off, "a call ran that was cut off"
    ),
    "a lost answer is a plain failure": Fault(
        failures, "_in_doubt", lambda *_: False, retries_a_lost_answer, "a call took effect twice"
    ),
    "a start needs no number": Fault(
        attempts, "_check_known", nothing, dies_and_starts_again, "a call took effect twice"
    ),
    "an equal call is another one": Fault(
        ConversationState,
        "in_the_way",
        nothing,
        asks_again_under_another_id,
        "a call started beside an equal one in doubt",
    ),
    "a response is known by its id": Fault(
        LastTurn,
        "waiting_response",
        lambda turn, _: turn.response,
        asks_twice,
        "a response counts once",
    ),
    "a pause is not recorded": Fault(
        Execution,
        "_pause_attempt",
        lambda *_: iter(()),
        pauses,
        "a worker came to its end, and its attempt has none",
    ),
    "a rejection hides a doubt": Fault(
        (lifecycle, decisions),
        "check_no_doubt",
        nothing,
        says_no_to_a_doubt,
        "a call took effect, and the log says that it did not",
    ),
    "an announced attempt is not one to come": Fault(
        conversation_state,
        "stands_in_the_way",
        lambda tool: tool.in_doubt,
        asks_again_before_the_next_attempt,
        "a call started beside an equal one that is to run again",
    ),
    "an error in JSON is a result": Fault(
        parsing,
        "error_of_text",
        nothing,
        hands_back_a_failure,
        "a call that did not complete is handed back as done",
    ),
    "a copy closes nothing": Fault(
        fork, "_closing", lambda *_: (), resumes_a_copy, "a copy ran a call of its origin"
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    """The way to it breaks its rule, and none without it.

    The long tier finds a way itself, which may break another rule first.
    """
    follow(fault.way)
    for place in fault.place if isinstance(fault.place, tuple) else (fault.place,):
        monkeypatch.setattr(place, fault.name, fault.broken)
    with pytest.raises(AssertionError, match=None if LONG else fault.rule):
        search() if LONG else follow(fault.way)


def follow(way: Callable[[Agents], None]) -> None:
    """Go a way, and check the rules at its end."""
    play = Agents()
    try:
        way(play)
        play.the_log_tells_the_truth()
        play.a_copy_runs_nothing()
        play.each_response_counts_once()
    finally:
        play.teardown()


def search() -> None:
    """Play until a rule is broken."""
    limits = settings(
        max_examples=20_000,
        stateful_step_count=STEPS,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(Agents, settings=limits)
