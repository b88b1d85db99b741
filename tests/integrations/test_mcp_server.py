"""A server whose calls are recorded, asked by the SDK's own client in memory."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from support.frameworks import required

required("mcp.server.mcpserver")

from mcp import Client, MCPError
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, TextContent
from pydantic import BaseModel, PositiveInt

from eventstore import (
    AsyncConversation,
    AsyncEventStore,
    Completed,
    ErrorKind,
    EventStore,
    Failed,
    Failure,
    StoreClosed,
    Tool,
)
from eventstore.detectors import EMAIL
from eventstore.integrations.mcp_server import RecordedServer
from projections import model_history

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
Asked = Callable[[Client], Awaitable[Any]]


class Order(BaseModel):
    """An order, as a tool checks it."""

    number: PositiveInt


def recorded(ask: Asked, *tools: Callable[..., Any]) -> tuple[Any, list[Tool]]:
    """Return what a client got of a server with the tools, and the calls in the log."""

    async def run() -> tuple[Any, list[Tool]]:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("orders")
            server = RecordedServer(chat, "orders")
            for tool in tools:
                server.add_tool(tool)
            async with Client(server) as client:
                answer = await ask(client)
            events = [event async for event in chat.events()]
            assert model_history(events).render("openai") is not None
            return answer, list((await chat.tools()).values())

    return asyncio.run(run())


def call(name: str, **arguments: Any) -> Asked:
    """Return what asks for one call."""
    return lambda client: client.call_tool(name, arguments)


def failure_of(tool: Tool) -> Failure:
    """Return the failure of a call that has failed."""
    assert isinstance(tool.status, Failed)
    return tool.status.failure


def test_a_tool_gets_what_the_rules_of_the_store_have_left() -> None:
    """The arguments that run are those of the log."""
    given: list[str] = []

    def mail(to: str) -> str:
        """Send a mail."""
        given.append(to)
        return f"sent to {to}"

    async def run() -> None:
        async with AsyncEventStore.open("sqlite://", redact=[EMAIL]) as store:
            chat = store.conversation("orders")
            server = RecordedServer(chat, "orders")
            server.add_tool(mail)
            async with Client(server) as client:
                await client.call_tool("mail", {"to": "ann@example.com"})
            (tool,) = (await chat.tools()).values()
            assert given == [tool.call.arguments["to"]] == ["[redacted: email]"]

    asyncio.run(run())


def test_a_call_is_running_on_disk_before_its_effect() -> None:
    """The tool sees its own call as running; the result is what the server wrote."""
    seen: list[str] = []

    async def run() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("orders")
            server = RecordedServer(chat, "orders")

            @server.tool()
            async def find_order(number: int) -> str:
                seen.extend([event.event.tag async for event in chat.events()])
                return f"order {number} is lost"

            async with Client(server) as client:
                await client.call_tool("find_order", {"number": 7})
            (found,) = (await chat.tools()).values()
            assert isinstance(found.status, Completed)
            assert (found.call.name, found.attempts) == ("find_order", 1)
            assert found.call.arguments == {"number": 7}
            assert found.response is not None
            assert found.response.result == "order 7 is lost"

    asyncio.run(run())
    assert seen == ["pending", "running"]


def test_the_exception_of_the_tool_is_recorded() -> None:
    """The client sees that there was an error; the log says which."""

    def refund() -> str:
        raise ConnectionError("db-7.internal is down")

    answer, (failed,) = recorded(call("refund"), refund)
    assert answer.is_error
    assert "internal" not in answer.content[0].text
    failure = failure_of(failed)
    assert (failure.exception, failure.message) == ("ConnectionError", "db-7.internal is down")
    assert failure.kind is ErrorKind.TRANSIENT


def test_an_error_that_the_tool_foresaw_is_recorded_as_it_is() -> None:
    """Both of them: one that is raised, and one that is returned."""

    def refund() -> str:
        raise ToolError("order 7 is paid back already")

    def cancel() -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="too late")], is_error=True)

    _, (raised,) = recorded(call("refund"), refund)
    assert "order 7 is paid back already" in failure_of(raised).message
    answer, (returned,) = recorded(call("cancel"), cancel)
    assert (answer.is_error, answer.content[0].text) == (True, "too late")
    assert failure_of(returned).message == "too late"


def test_an_error_of_the_protocol_is_recorded_as_one() -> None:
    """The client gets it as it was raised."""

    def refund() -> str:
        raise MCPError(-32001, "busy")

    async def ask(client: Client) -> None:
        with pytest.raises(MCPError, match="busy"):
            await client.call_tool("refund", {})

    _, (failed,) = recorded(ask, refund)
    failure = failure_of(failed)
    assert (failure.exception, failure.message) == ("mcp.shared.exceptions.MCPError", "busy")


def test_the_exception_of_a_tool_inside_a_tool_is_recorded() -> None:
    """Both calls are in the log, and both have the exception at the bottom."""

    async def run() -> list[Tool]:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("orders")
            server = RecordedServer(chat, "orders")

            @server.tool()
            def inner() -> str:
                raise KeyError("seven")

            @server.tool()
            async def outer(context: Context) -> str:
                await server.call_tool("inner", {}, context)
                return "never"

            async with Client(server) as client:
                assert (await client.call_tool("outer", {})).is_error
            return list((await chat.tools()).values())

    outer, inner = asyncio.run(run())
    assert (outer.call.name, inner.call.name) == ("outer", "inner")
    assert {failure_of(tool).exception for tool in (outer, inner)} == {"KeyError"}


def test_refused_arguments_are_a_failure_of_validation() -> None:
    """Nothing ran. A `ValidationError` that the tool raises itself is not one of them."""
    ran: list[int] = []

    def find_order(number: int) -> str:
        ran.append(number)
        return f"order {Order(number=number)}"

    answer, (refused,) = recorded(call("find_order", number="seven"), find_order)
    assert answer.is_error
    assert ran == []
    assert failure_of(refused).kind is ErrorKind.VALIDATION
    _, (own,) = recorded(call("find_order", number=-7), find_order)
    assert ran == [-7]
    assert failure_of(own).exception == failure_of(refused).exception
    _, (unknown,) = recorded(call("delete_order"), find_order)
    assert failure_of(unknown).message == "Unknown tool: delete_order"


def test_an_image_is_recorded_as_one() -> None:
    """Its bytes are what the tool returned."""

    def draw() -> Image:
        return Image(data=base64.b64decode(PIXEL), format="png")

    _, (drawn,) = recorded(call("draw"), draw)
    assert drawn.response is not None
    (image,) = drawn.response.result
    assert (image["data"], image["media_type"]) == (PIXEL, "image/png")


def test_a_question_to_the_client_is_the_answer_of_its_request() -> None:
    """The client asks once more, with what a person said; the server's state stays private."""

    async def run() -> Any:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("orders")
            server = RecordedServer(chat, "orders")

            @server.tool()
            def refund() -> InputRequiredResult:
                return InputRequiredResult(request_state="s3cret")

            await server.call_tool("refund", {})
            (asked,) = (await chat.tools()).values()
            assert asked.response is not None
            return asked.response.result

    assert asyncio.run(run()) == {"resultType": "input_required"}


def test_a_request_that_the_client_gives_up_is_recorded_as_cancelled() -> None:
    """Whether the call took effect is not known."""

    async def ponder() -> str:
        await asyncio.sleep(60)
        return "never"

    async def ask(client: Client) -> None:
        with anyio.move_on_after(0.2):
            await client.call_tool("ponder", {})

    _, (cancelled,) = recorded(ask, ponder)
    assert failure_of(cancelled).code == "cancelled"


@pytest.mark.parametrize("read_only", [False, True])
def test_a_call_equal_to_one_in_doubt_does_not_run(read_only: bool) -> None:
    """The client had no answer, and asks again; a tool that only reads may."""
    ran: list[int] = []

    def pay(number: int) -> str:
        """Pay an order; the bank's answer is lost the first time."""
        ran.append(number)
        if len(ran) == 1:
            raise ConnectionResetError("the bank hung up")
        return "paid"

    async def run() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("orders")
            server = RecordedServer(chat, "orders", read_only=["pay"] if read_only else [])
            server.add_tool(pay)
            async with Client(server) as client:
                await client.call_tool("pay", {"number": 7})
                again = await client.call_tool("pay", {"number": 7})
                other = await client.call_tool("pay", {"number": 8})
            assert again.is_error is not read_only
            assert ("asks for the same as the call" in again.content[0].text) is not read_only
            assert not other.is_error

    asyncio.run(run())
    assert ran == ([7, 7, 8] if read_only else [7, 8])


def test_calls_at_once_have_ends_of_their_own() -> None:
    """Each has its own result."""

    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    async def ask(client: Client) -> None:
        await asyncio.gather(*(client.call_tool("double", {"number": n}) for n in range(8)))

    _, tools = recorded(ask, double)
    assert sorted(
        (tool.call.arguments["number"], tool.response.result)
        for tool in tools
        if tool.response is not None
    ) == [(n, str(2 * n)) for n in range(8)]


def test_each_request_may_have_a_conversation_of_its_own() -> None:
    """The function sees the context of the request."""

    async def run() -> list[str]:
        async with AsyncEventStore.open("sqlite://") as store:

            def chat_of(context: Context[Any, Any] | None) -> AsyncConversation:
                return store.conversation("inside" if context is None else "client")

            server = RecordedServer(chat_of, "orders")
            server.add_tool(lambda: "pong", name="ping")
            async with Client(server) as client:
                await client.call_tool("ping", {})
            await server.call_tool("ping", {})
            return [name async for name, _ in store.conversations()]

    assert asyncio.run(run()) == ["client", "inside"]


def test_a_call_that_cannot_be_recorded_does_not_run() -> None:
    """The client sees an error, as for any failure of the server."""
    ran: list[str] = []

    async def run() -> bool:
        store = AsyncEventStore(EventStore.open("sqlite://"))
        server = RecordedServer(store.conversation("orders"), "orders")
        server.add_tool(lambda: ran.append("refund"), name="refund")
        await store.close()
        with pytest.raises(StoreClosed):
            await server.call_tool("refund", {})
        async with Client(server) as client:
            return bool((await client.call_tool("refund", {})).is_error)

    assert asyncio.run(run())
    assert ran == []
