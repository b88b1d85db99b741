"""Gates: which tools the model sees in which turn, and why.

    python gates.py

A gate is a rule. Here the first turn may only look, and nothing is changed after office hours. What
every gate said is in the log, so that a call that was refused can be explained later.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from eventstore import Dispatcher, EventStore, OpeningGate, ToolGate, ToolGateContext
from projections import model_history


def find_order(number: int) -> str:
    """Find an order."""
    return f"order {number} is lost"


def refund(number: int) -> str:
    """Pay the money for an order back."""
    return f"order {number} is paid back"


class OfficeHours(ToolGate):
    """Tools that change something are only offered while somebody is there."""

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open

    def allowlist(self, context: ToolGateContext, /) -> AbstractSet[str] | None:
        """Return the tools that may be offered; None is no opinion."""
        return None if self.is_open else {"find_order"}


def main() -> None:
    """Ask for a refund in the first turn and in the second, by day and by night."""
    with EventStore.open("sqlite:///gates.db") as store:
        for is_open in (True, False):
            chat = store.conversation(f"open-{is_open}")
            gates = [OpeningGate(["find_order"]), OfficeHours(is_open=is_open)]
            dispatcher = Dispatcher(chat, [find_order, refund], gates=gates)
            chat.add_message("user", "Order 7 is lost: I want my money back.")
            for turn in (1, 2):
                offer = dispatcher.offer()
                chat.add_message("assistant", "I pay it back.")
                (tool,) = dispatcher.dispatch([chat.request("refund", {"number": 7})])
                print(f"open {is_open}, turn {turn}:", *offer.visible, "|", tool.status.name)
            print(model_history(chat.events()).explain().count("offered:"), "offers are explained")


if __name__ == "__main__":
    main()
