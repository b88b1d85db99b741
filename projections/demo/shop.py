"""A lamp shop: the tools of the demo, and the outside world that they change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import msgspec

from eventstore import FunctionTool, Outcome, RetryPolicy, Tool, Toolbox
from eventstore.domain.json_types import JsonObject


class Shop:
    """The tools of a web shop, small but real.

    `books` is the file in which the outside world notes what was done. `on_booked` is called when
    the carrier has booked a parcel, and has not answered yet.
    """

    orders: ClassVar[dict[str, JsonObject]] = {
        "A-17": {"item": "lamp", "paid": 49.0, "kg": 2.4, "customer": "mia"}
    }

    def __init__(self, books: Path, on_booked: Callable[[], object] = lambda: None) -> None:
        self._books = books
        self._on_booked = on_booked
        self._times_asked = 0

    @property
    def toolbox(self) -> Toolbox:
        """The tools: which are retried, which a person approves, which can be asked about."""
        return Toolbox(
            [
                FunctionTool(self.find_order, effect="read_only"),
                FunctionTool(
                    self.shipping_price,
                    effect="read_only",
                    retry=RetryPolicy(max_attempts=3, initial_backoff=0.05),
                ),
                FunctionTool(self.issue_refund, effect="mutating", needs_approval=True),
                FunctionTool(self.delete_account, effect="destructive"),  # so it needs approval
                FunctionTool(self.ship_parcel, effect="mutating", verify=self.ask_carrier),
                FunctionTool(self.send_voucher, effect="mutating", needs_approval=True),
            ]
        )

    def find_order(self, order: str) -> JsonObject:
        """Look an order up."""
        return self.orders[order]

    def shipping_price(self, city: str, kg: float) -> JsonObject:
        """Price a parcel; the carrier refuses the connection the first time."""
        self._times_asked += 1
        if self._times_asked == 1:
            raise ConnectionRefusedError("the carrier refused the connection")
        return {"city": city, "price": round(3.9 + 1.5 * kg, 2)}

    def issue_refund(self, order: str, amount: float) -> JsonObject:
        """Pay money back."""
        return self._note({"refund": order, "amount": amount})

    def delete_account(self, customer: str) -> JsonObject:
        """Delete a customer's account."""
        return self._note({"deleted": customer})

    def ship_parcel(self, order: str, city: str) -> JsonObject:
        """Book a parcel with the carrier."""
        booked = self._note({"parcel": order, "city": city})
        self._on_booked()
        return booked

    def ask_carrier(self, tool: Tool) -> Outcome:
        """Return what the carrier knows of a parcel whose outcome is unknown."""
        order = tool.effective_call.arguments["order"]
        booked = [entry for entry in self._entries() if entry.get("parcel") == order]
        return Outcome.done(booked[0]) if booked else Outcome.not_done()

    def send_voucher(self, customer: str, amount: float) -> JsonObject:
        """Give a customer a voucher."""
        return self._note({"voucher": customer, "amount": amount})

    def _note(self, entry: JsonObject) -> JsonObject:
        """Write an entry into the books of the outside world."""
        with self._books.open("ab") as books:
            books.write(msgspec.json.encode(entry) + b"\n")
            books.flush()
            os.fsync(books.fileno())
        return entry

    def _entries(self) -> list[JsonObject]:
        if not self._books.exists():
            return []
        return [msgspec.json.decode(line) for line in self._books.read_bytes().splitlines()]
