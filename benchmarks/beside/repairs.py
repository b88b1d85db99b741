"""The repair of message lists that a crash left broken: ours, and those of others.

Each is called as its documentation shows. pydantic-ai's works on its own message objects, which are
made beforehand; it does less, see README.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from work import PROMPT, RESULT, TOOL, arguments_of, broken_list, call_id

Work = Callable[[], object]


def ours(provider: Any, turns: int) -> Work:
    """Return the repair of this library."""
    from projections import repair_messages

    messages = broken_list(provider, turns)
    return lambda: repair_messages(messages, provider)


def turnsafes(provider: str, turns: int) -> Work:
    """Return the repair of turnsafe."""
    import turnsafe

    messages = broken_list(provider, turns)
    return lambda: turnsafe.repair(messages, provider=provider)


def pydantic_ais(provider: str, turns: int) -> Work:
    """Return the repair of pydantic-ai, which is the same for all providers."""
    from pydantic_ai import messages as pm

    del provider
    messages: list[Any] = [pm.ModelRequest([pm.UserPromptPart(PROMPT)])]
    for number in range(turns):
        call = pm.ToolCallPart(TOOL, arguments_of(number), tool_call_id=call_id(number))
        messages.append(pm.ModelResponse([call]))
        if number % 10 != 9:
            answer = pm.ToolReturnPart(TOOL, RESULT, tool_call_id=call_id(number))
            messages.append(pm.ModelRequest([answer]))
        else:
            messages.append(pm.ModelRequest([pm.UserPromptPart("Are you there?")]))
    return lambda: pm.repair_messages(messages)


REPAIRS: dict[str, Callable[[str, int], Work]] = {
    "toolledger": ours,
    "turnsafe": turnsafes,
    "pydantic-ai": pydantic_ais,
}
"""Name to what makes the repair of a provider's list."""
