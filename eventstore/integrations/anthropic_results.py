"""How the tools of anthropic's runner ended, and what the SDK tells the model of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anthropic.lib.tools import ToolError
from pydantic import ValidationError

from eventstore.clock import system_clock
from eventstore.domain.failure import Failure
from eventstore.integrations.recorded_calls import id_in_framework, validation_failure
from eventstore.integrations.recorded_wordings import recorded_of, wording_in
from eventstore.providers.sdk_objects import plain

if TYPE_CHECKING:
    from eventstore.attempt import StartedAttempt
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.wording import Wording

PROVIDER: Final = "anthropic"
"""The form of the SDK's messages."""


def failure_of(error: Exception) -> Failure:
    """Return a tool's failure: the SDK wraps what refuses the arguments."""
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        return validation_failure(cause)
    return Failure.from_exception(error, now=system_clock())


def wording_of_error(error: Exception, failure: Failure, attempt: StartedAttempt) -> Wording | None:
    """Return what the SDK tells the model of an error; None where the log does, of a doubt."""
    if failure.leaves_doubt and attempt.has_effect:
        return None
    content = error.content if isinstance(error, ToolError) else repr(error)
    return wording_in(_result_message(content, attempt, is_error=True), PROVIDER)


def recorded_result(result: object, attempt: StartedAttempt) -> tuple[Any, Wording | None]:
    """Return what is recorded of a result, and what the SDK tells the model of it."""
    if isinstance(result, str):
        return result, None
    message = _result_message(result, attempt, is_error=False)
    return recorded_of(message, PROVIDER, plain(result))


def _result_message(content: object, attempt: StartedAttempt, *, is_error: bool) -> JsonObject:
    tool = attempt.tool
    block = {
        "type": "tool_result",
        "tool_use_id": id_in_framework(tool),
        "content": plain(content),
    }
    if is_error:
        block["is_error"] = True
    return {"role": "user", "content": [block]}
