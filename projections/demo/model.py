"""The model of the demo: a function that reads the prompt, and needs no network."""

from __future__ import annotations

import msgspec

from eventstore.domain.json_types import JsonObject


def answer(prompt: JsonObject) -> JsonObject:
    """Return the next message of the assistant; prompt and message have OpenAI's form."""
    calls = [call for message in prompt["messages"] for call in message.get("tool_calls", ())]
    made = {call["function"]["name"] for call in calls}
    number = len(calls) + 1
    if "find_order" not in made:
        lamp = ("find_order", {"order": "A-17"})
        price = ("shipping_price", {"city": "Lyon", "kg": 2.4})
        return _message("Let me look.", number, lamp, price)
    if "issue_refund" not in made:
        refund = ("issue_refund", {"order": "A-17", "amount": 490.0})
        return _message("I refund it.", number, refund, ("delete_account", {"customer": "mia"}))
    if "ship_parcel" not in made:
        parcel = ("ship_parcel", {"order": "A-17", "city": "Lyon"})
        return _message("I send a new one.", number, parcel)
    voucher = ("send_voucher", {"customer": "mia", "amount": 10.0})
    return _message("And for the trouble a voucher.", number, voucher)


def _message(text: str, number: int, *calls: tuple[str, JsonObject]) -> JsonObject:
    return {
        "role": "assistant",
        "content": text,
        "tool_calls": [
            {
                "id": f"call_{count}",
                "type": "function",
                "function": {"name": name, "arguments": msgspec.json.encode(arguments).decode()},
            }
            for count, (name, arguments) in enumerate(calls, number)
        ],
    }
