"""The arguments of a call, as messages hold them and as requests take them."""

from __future__ import annotations

from eventstore.domain.calls import FunctionCall
from eventstore.domain.fingerprint import canonical
from eventstore.domain.json_types import JsonObject
from eventstore.domain.jsonable import safe_repr
from eventstore.domain.nesting import json_text, too_deep
from eventstore.domain.redaction import REDACTED
from eventstore.providers.json_values import as_text, copy
from eventstore.providers.model import Call, Change


def function_call(name: object, arguments: object) -> FunctionCall:
    """Return a call made of the name and arguments in a message, whatever these are."""
    clean = as_text(name)
    try:
        if not isinstance(arguments, str):  # all JSON text has a fingerprint
            canonical(clean, arguments)
        return FunctionCall.of(clean, arguments)
    except (TypeError, ValueError):  # UnhashableArguments is a ValueError
        return FunctionCall.of(clean, raw_text(arguments))


def raw_text(arguments: object) -> str:
    """Return the text of arguments that are nested too deeply, or that JSON cannot express.

    It never equals the text of other arguments, which would run.
    """
    if too_deep(arguments) is None:
        return safe_repr(arguments)
    try:
        return json_text(arguments)
    except (TypeError, ValueError, OverflowError):
        return safe_repr(arguments)


def is_call_of(made: FunctionCall, call: Call) -> bool:
    """Return whether a call in a native message is still the one that is to be rendered."""
    return (made.name, made.arguments, made.raw) == (call.name, call.arguments, call.raw)


def object_arguments(call: Call, changes: list[Change]) -> JsonObject:
    """Return the arguments as an object, as providers demand; any other value is wrapped in one."""
    if call.free_text is not None:
        why = "a function takes the text of a custom tool as a member"
        changes.append(Change("wrapped", "arguments", why, call.id))
        return {"input": call.free_text}
    if call.raw is None and isinstance(call.arguments, dict):
        return copy(call.arguments)
    is_gone = call.raw == REDACTED
    why = "its arguments were redacted" if is_gone else "its arguments are not a JSON object"
    changes.append(Change("wrapped", "arguments", why, call.id))
    return {"raw_arguments": call.raw if call.raw is not None else call.arguments}
