"""A run of yesterday as a regression test: its tools are answered from the log.

    pytest test_refund_run.py

`toolledger pytest ID` writes such a test and its fixture from a stored conversation. Here the run
is made first, so that the file stands alone. Change the agent so that it asks for another order,
and the test fails with the nearest recorded call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from eventstore import EventStore, Recorded
from projections import Divergence, RecordedTools


def run_agent(tools: Mapping[str, Callable[..., Any]], order: int = 7) -> str:
    """Find an order, and refund it if it is lost: the agent under test."""
    found = tools["find_order"](number=order)
    if found["status"] != "lost":
        return "nothing to do"
    return str(tools["refund"](number=order, amount=found["paid"]))


@pytest.fixture
def run(tmp_path: Any) -> list[Recorded]:
    """Return the events of the run that is to stay as it was."""
    with EventStore.open(f"sqlite:///{tmp_path}/agent.db") as store:
        chat = store.conversation("billing-7")
        for name, arguments, result in (
            ("find_order", {"number": 7}, {"status": "lost", "paid": 49.0}),
            ("refund", {"number": 7, "amount": 49.0}, "paid back 49.0"),
        ):
            with chat.running(chat.request(name, arguments).id) as attempt:
                attempt.complete(result)
        return list(chat.events())


def test_the_agent_does_as_it_did(run: list[Recorded]) -> None:
    """Every call is in the log, and none of the log is left."""
    with RecordedTools(run) as tools:
        assert run_agent(tools) == "paid back 49.0"
    assert not tools.unused


def test_another_order_is_a_divergence(run: list[Recorded]) -> None:
    """A call that was not made then is named, with what differs."""
    with pytest.raises(Divergence) as found:
        run_agent(RecordedTools(run), order=8)
    assert str(found.value.changes[0]) == "$.number: 7 became 8"
