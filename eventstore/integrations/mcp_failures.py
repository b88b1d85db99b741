"""What is recorded of a call to an MCP server that an exception of its client ended.

An error of the protocol is the server's answer: the call has failed. After any other exception no
answer has come, and the call is in doubt, unless the exception says that nothing was sent.

The SDK is not imported: the integrations of frameworks that bring their own client use this, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from eventstore.domain.doubt import says_of_effect
from eventstore.domain.failure import ErrorKind, Failure, classify
from eventstore.domain.foreign_errors import package_of
from eventstore.domain.value_paths import dig

_REFUSED: Final = (-32601, -32602)
"""The protocol's codes for an unknown method, or tool, and for wrong parameters."""

_PROTOCOL_ERRORS: Final = ("MCPError", "McpError")
"""The class of the protocol's errors in versions 2 and 1 of the SDK."""


def remote_failure(error: BaseException, *, is_last_try: bool = False) -> Failure:
    """Return the failure of a call that an exception of the client ended.

    `is_last_try`: the client may have sent the call before this try, in which nothing was sent.
    """
    failure = Failure.from_exception(error, classifier=remote_kind)
    is_unsent = says_of_effect(error) is False and not is_last_try
    if failure.in_doubt or is_unsent or _code_of(error) is not None:
        return failure
    return replace(failure, in_doubt=True)


def remote_kind(error: BaseException) -> ErrorKind:
    """Return the kind of an exception of a client; the code of the protocol decides."""
    return ErrorKind.VALIDATION if _code_of(error) in _REFUSED else classify(error)


def _code_of(error: BaseException) -> object:
    """Return the code of an error of the protocol; None of any other exception."""
    names = [cls.__name__ for cls in type(error).__mro__ if package_of(cls) == "mcp"]
    return dig(error, "error", "code") if {*names} & {*_PROTOCOL_ERRORS} else None
