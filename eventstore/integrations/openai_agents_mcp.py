"""How the calls to the MCP servers of an agent of openai-agents ended.

The SDK makes function tools of a server's tools. What these return does not say that the server
answered with an error, and a `failure_error_function` hides exceptions. So the server is watched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from agents import UserError

from eventstore.attempt import current_attempt
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.integrations.mcp_failures import remote_failure
from eventstore.providers.sdk_objects import member

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agents.mcp import MCPServer

RemoteEnds = dict[str, Failure | None]
"""By the log's id of a call: its failure; None if the server answered with a result."""

_NOT_SENT: Final = re.compile("Server not initialized")
_REFUSED: Final = re.compile("missing required parameters|arguments must be an object")
"""What the SDK says of a call that it did not send: it has no class for that."""


class WatchedServer:
    """A server of an agent that notes how each call ended; otherwise it is the server."""

    def __init__(self, server: MCPServer, ends: RemoteEnds) -> None:
        self._watched = server
        self._ends = ends

    def __getattr__(self, name: str) -> Any:
        """Return what the server has."""
        if name.startswith("__"):  # of `copy`, which asks before there is a server
            raise AttributeError(name)
        return getattr(self._watched, name)

    async def call_tool(self, *args: Any, **named: Any) -> Any:
        """Call a tool of the server, as that does."""
        try:
            result = await self._watched.call_tool(*args, **named)
        except BaseException as error:
            self._note(self._failure(error))
            raise
        self._note(_failure_of(result))
        return result

    def _note(self, end: Failure | None) -> None:
        attempt = current_attempt()
        if attempt is not None:
            self._ends[attempt.call_id] = end

    def _failure(self, error: BaseException) -> Failure:
        if isinstance(error, UserError) and error.__cause__ is None:
            if _REFUSED.search(str(error)):
                return Failure.from_exception(error, classifier=lambda _: ErrorKind.VALIDATION)
            if _NOT_SENT.search(str(error)):
                return Failure.from_exception(error)
        retries = getattr(self._watched, "max_retry_attempts", 0) != 0
        return remote_failure(error, is_last_try=retries)


def _failure_of(result: object) -> Failure | None:
    """Return the failure of a call to which the server answered with an error; otherwise None."""
    if not (member(result, "is_error") or member(result, "isError")):  # of versions 2 and 1
        return None
    content = cast("Iterable[object]", member(result, "content") or ())
    texts = [member(block, "text") for block in content]
    text = "\n".join(each for each in texts if isinstance(each, str))
    return Failure(ErrorKind.INTERNAL, text or "The server answered with an error.")


def words_of(result: object) -> object:
    """Return the text of what the SDK made of a server's answer, if it has nothing else."""
    blocks: list[Any] = result if isinstance(result, list) else [result]
    if not all(isinstance(block, dict) and block.get("type") == "text" for block in blocks):
        return result
    return "\n".join(block["text"] for block in blocks)
