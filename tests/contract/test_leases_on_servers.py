"""Leases go by the time of the server, whatever the clocks of the hosts say."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from eventstore import CallUnderWay, Dispatcher, EventStore, FunctionTool, Tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.servers import Server

right_time_ns = time.time_ns

LEASE = 60.0
HOUR = 3600.0
PATIENCE_SECONDS = 30.0


class Host:
    """A machine with a wall clock of its own, that is `ahead` by some seconds."""

    def __init__(self, url: str, ahead: float, wall: pytest.MonkeyPatch) -> None:
        self.ahead, self._wall = ahead, wall
        self.store = self.run(lambda: EventStore.open(url))
        self.chat = self.store.conversation("chat")

    def run(self, work: Callable[[], Any]) -> Any:
        """Do some work by the clock of this machine."""
        with self._wall.context() as wall:
            wall.setattr(time, "time_ns", lambda: right_time_ns() + round(self.ahead * 1e9))
            return work()

    def resume(self, pay: Callable[[], object]) -> list[Tool]:
        """Resume the conversation with a tool that may run twice."""
        tools = [FunctionTool(pay, "pay", idempotent=True)]
        resumed: list[Tool] = self.run(Dispatcher(self.chat, tools, lease=LEASE).resume)
        return resumed


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_leases_go_by_the_time_of_the_server(
    server: Server, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    """A living worker is left alone and a dead one taken over, also where a clock is set."""
    url = server.emptied()
    first, second = Host(url, 0, monkeypatch), Host(url, ahead, monkeypatch)
    with first.store, second.store:
        server_time = second.store.session.storage.server_time
        assert server_time is not None

        def slow() -> str:
            first.ahead = -ahead  # the clock of the machine is set while the tool runs
            renewed = time.monotonic() + LEASE / 2
            first.run(lambda: first.store.session.leases.renew_due(renewed))
            (beside,) = second.resume(lambda: "paid twice")
            assert (beside.status.name, beside.attempts) == ("Running", 1)
            with pytest.raises(CallUnderWay):
                second.run(lambda: second.chat.start(beside.id, 2))
            status: Any = beside.status
            assert LEASE * 1e6 < status.leased_until - server_time() < 2 * LEASE * 1e6
            return "paid"

        call = first.chat.request("pay")
        work = Dispatcher(first.chat, {"pay": slow}, lease=LEASE)
        (done,) = first.run(lambda: work.dispatch([call]))
        assert (done.status.name, done.attempts) == ("Completed", 1), done.status

        call = first.chat.request("pay", {})
        first.ahead = -ahead
        until = first.run(lambda: first.chat.start(call.id, lease=0.3)).status.leased_until
        started, patient_until = None, time.monotonic() + PATIENCE_SECONDS
        while started is None and time.monotonic() < patient_until:
            with suppress(CallUnderWay):
                started = second.run(lambda: second.chat.start(call.id, 2))
        assert started is not None, "a dead worker is taken for a living one"
        assert until <= started.started_at <= server_time()
