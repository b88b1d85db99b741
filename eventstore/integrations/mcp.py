"""mcp: the tools of a server, as tools of a dispatcher that records their calls.

    async with Client(server) as session:
        dispatcher = AsyncDispatcher(chat, await tools_of(session))

1. Arguments are checked against the server's schema before a call starts: refused ones are a
   failure of kind `validation`, and nothing was sent. So is every call of a tool whose schema
   cannot be used; `tools_of` warns of it. See `eventstore.integrations.mcp_schemas`.
2. `eventstore.integrations.mcp_results` says what is recorded of an answer.
3. No class of an exception crosses the wire: an error of a tool is a `RemoteToolError` with the
   server's text, one of the protocol keeps its code.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from eventstore.dispatch import FunctionTool
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.mcp_failures import remote_kind
from eventstore.integrations.mcp_results import recorded_content, text_of

try:
    from mcp import Client, ClientSession
    from mcp.types import PaginatedRequestParams

    from eventstore.integrations.mcp_schemas import ArgumentsSchema
except ImportError as error:
    raise missing_extra("mcp", error) from error

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as ServerTool

    from eventstore.domain.calls import FunctionCall
    from eventstore.domain.json_types import JsonObject


MAX_PAGES: Final = 1000
"""Pages of tools that a server may list."""


class UnusableSchemaWarning(UserWarning):
    """Every call of a server's tool will fail, because its schema cannot be used."""


class RemoteToolError(Exception):
    """A tool of a server answered with an error."""


class RemoteTool(FunctionTool[..., Any]):
    """A tool of a server. It takes the options of a `FunctionTool`."""

    def __init__(self, session: Client | ClientSession, tool: ServerTool, **options: Any) -> None:
        async def call(**arguments: Any) -> object:
            return result_of(await session.call_tool(tool.name, arguments))

        super().__init__(
            call,
            tool.name,
            description=tool.description or "",
            **{"classify": remote_kind, **options},
        )
        self._schema: JsonObject = tool.input_schema
        self._arguments = ArgumentsSchema(self._schema)

    @property
    def parameters(self) -> JsonObject:
        """JSON schema of the arguments, as the server has it."""
        return self._schema

    @property
    def schema_problem(self) -> str | None:
        """Why the server's schema cannot be used, so that every call fails; None if it can."""
        return self._arguments.problem

    def invalid(self, call: FunctionCall) -> Failure | None:
        """Return why the server cannot take the arguments of the call; None if it can."""
        refused = super().invalid(call)
        if refused is not None:
            return refused
        fault = self._arguments.fault(call.arguments)
        if fault is None:
            return None
        message = f"`{call.name}` {fault}"
        return Failure(
            ErrorKind.VALIDATION, message, f"Not executed: {message}", code="invalid_arguments"
        )


async def tools_of(
    session: Client | ClientSession,
    *,
    needs_approval: Collection[str] = (),
    idempotent: Collection[str] = (),
) -> list[RemoteTool]:
    """Return the tools of a server, for an `AsyncDispatcher`.

    The calls of those in `needs_approval` wait for a decision. Those in `idempotent` may run again
    after a crash; what a server says of itself is not taken for it.

    Raises:
        ValueError: the server has no tool of a name in `needs_approval` or `idempotent`, or lists
            tools without end.

    Warns:
        UnusableSchemaWarning: the schema of a tool cannot be used.
    """
    listed = await _listed(session)
    if unknown := {*needs_approval, *idempotent} - {tool.name for tool in listed}:
        raise ValueError(f"the server has no tool {sorted(unknown)}: pass names of its tools")
    tools = [
        RemoteTool(
            session,
            tool,
            needs_approval=tool.name in needs_approval,
            idempotent=tool.name in idempotent,
        )
        for tool in listed
    ]
    for tool in tools:
        if tool.schema_problem is not None:
            unusable = (
                f"every call of {tool.name!r} will fail, because the server's schema of its "
                f"arguments cannot be used ({tool.schema_problem}): mend it at the server"
            )
            warnings.warn(unusable, UnusableSchemaWarning, stacklevel=2)
    return tools


async def _listed(session: Client | ClientSession) -> list[ServerTool]:
    """Return what a server lists, of all its pages."""
    source = session.session if isinstance(session, Client) else session
    page = await source.list_tools()
    listed = list(page.tools)
    for _ in range(MAX_PAGES - 1):
        if not page.next_cursor:
            return listed
        page = await source.list_tools(params=PaginatedRequestParams(cursor=page.next_cursor))
        listed += page.tools
    if page.next_cursor:
        raise ValueError(f"the server lists more than {MAX_PAGES} pages of tools: mend it there")
    return listed


def result_of(answer: CallToolResult) -> object:
    """Return what is recorded of an answer.

    Raises:
        RemoteToolError: the answer is an error.
    """
    if answer.is_error:
        raise RemoteToolError(text_of(answer.content))
    return recorded_content(answer.content, answer.structured_content)
