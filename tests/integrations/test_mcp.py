"""mcp plays the scenes, and what a server's tools have of their own is kept."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import warnings
from pathlib import Path
from typing import Any

import pytest
from integrations.scenes import (
    Scenes,
    url_in,
)
from support.frameworks import required

required("mcp.server.mcpserver")
required("openai.types.responses")

from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer
from mcp.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    TextContent,
)
from mcp.types import BlobResourceContents as Blob
from mcp.types import TextResourceContents as Resource
from mcp.types import Tool as ServerTool

from eventstore import AsyncDispatcher, AsyncEventStore, Completed, Failed, Tool
from eventstore.integrations.mcp import MAX_PAGES, UnusableSchemaWarning, tools_of
from projections import model_history

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
WAV = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt ").decode()
NOISE = base64.b64encode(b"\xff\x00" * 300).decode()


class TestMcp(Scenes):
    """The scenes with the tools of a server."""

    framework = "mcp"
    asks_a_model = False
    tells_errors = False
    failure = (  # no class of an exception crosses the wire
        "eventstore.integrations.mcp.RemoteToolError",
        "Error executing tool find_order",
    )


def server_of() -> MCPServer:
    """Return a server with a tool for each form of a result."""
    server = MCPServer("forms")

    @server.tool()
    def order(number: int) -> dict[str, Any]:
        """Find an order."""
        return {"order": number, "status": "lost"}

    @server.tool()
    def chart() -> CallToolResult:
        """Draw a chart."""
        text = TextContent(type="text", text="the chart")
        image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
        page = Resource(uri="file:///chart.csv", text="1,2")
        return CallToolResult(
            content=[text, image, EmbeddedResource(type="resource", resource=page)]
        )

    @server.tool()
    def said() -> CallToolResult:
        """Say one thing in words, and another in structure."""
        words = TextContent(type="text", text="two orders")
        return CallToolResult(content=[words], structured_content={"orders": 2})

    @server.tool()
    def numbers() -> list[int]:
        """Return a list, of which the protocol makes a block for each item."""
        return [1, 2]

    @server.tool()
    def names() -> list[str]:
        """Return a list of texts."""
        return ["1", "b\nc"]

    @server.tool()
    def orders() -> list[dict[str, Any]]:
        """Return a list of objects."""
        return [{"order": 7}]

    @server.tool()
    def media() -> CallToolResult:
        """Return a sound, and what resources hold as bytes."""
        blobs = {"a.png": PIXEL, "b.pdf": base64.b64encode(b"%PDF-1.7").decode(), "c.zip": NOISE}
        return CallToolResult(
            content=[
                AudioContent(type="audio", data=WAV, mime_type="audio/wav"),
                *(
                    EmbeddedResource(
                        type="resource", resource=Blob(uri=f"file:///{name}", blob=blob)
                    )
                    for name, blob in blobs.items()
                ),
            ]
        )

    @server.tool()
    def refused() -> str:
        """Refuse, as the protocol has it."""
        raise MCPError(code=-32602, message="no such order")

    @server.tool()
    def ended(code: int, text: str) -> str:
        """End as the client of the package tells it."""
        raise MCPError(code=code, message=text)

    return server


async def dispatched(url: str, name: str, arguments: dict[str, Any]) -> tuple[Tool, str]:
    """Return a call of a server's tool that was dispatched, and the prompt after it."""
    async with AsyncEventStore.open(url) as store, Client(server_of()) as session:
        chat = store.conversation("c")
        await chat.add_message("user", "?")
        call = await chat.request(name, arguments)
        (tool,) = await AsyncDispatcher(chat, await tools_of(session)).dispatch([call])
        history = model_history([recorded async for recorded in chat.events()])
        return tool, str(history.render("anthropic"))


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("order", {"number": 7}, {"order": 7, "status": "lost"}),
        ("said", {}, "two orders"),
        ("numbers", {}, {"result": [1, 2]}),
        ("names", {}, {"result": ["1", "b\nc"]}),
        ("orders", {}, {"result": [{"order": 7}]}),
    ],
)
def test_a_result_is_recorded_as_the_server_said_it(
    name: str, arguments: dict[str, Any], result: object, tmp_path: Path
) -> None:
    """Structure is kept where the text says the same; otherwise the text is kept."""
    tool, _ = asyncio.run(dispatched(url_in(tmp_path), name, arguments))
    assert tool.response is not None
    assert tool.response.result == result


def test_an_image_reaches_the_model_as_one(tmp_path: Path) -> None:
    """Words stay words, and a resource is shown as its JSON."""
    tool, prompt = asyncio.run(dispatched(url_in(tmp_path), "chart", {}))
    assert isinstance(tool.status, Completed)
    assert f"'data': '{PIXEL}'" in prompt
    assert "file:///chart.csv" in prompt


def test_sounds_and_resources_of_bytes_are_media(tmp_path: Path) -> None:
    """Bytes of no known kind are kept, and the model reads how many there are."""
    tool, prompt = asyncio.run(dispatched(url_in(tmp_path), "media", {}))
    assert tool.response is not None
    assert [part for part in tool.response.result if part["type"] != "text"] == [
        {"type": "audio", "data": WAV, "media_type": "audio/wav"},
        {"type": "image", "data": PIXEL, "media_type": "image/png"},
        {"type": "document", "data": "JVBERi0xLjc=", "name": "b.pdf"},
        {"type": "opaque", "provider": "toolledger", "data": {"type": "bytes", "data": NOISE}},
    ]
    assert f"'data': '{PIXEL}'" in prompt
    assert "'type': 'document'" in prompt
    assert "[audio (audio/wav)]" in prompt
    assert "[600 bytes, which are not shown here]" in prompt
    assert NOISE not in prompt
    assert prompt.count("file:///") == 3


def test_an_error_of_the_protocol_is_of_kind_validation(tmp_path: Path) -> None:
    """The code of the protocol decides."""
    tool, _ = asyncio.run(dispatched(url_in(tmp_path), "refused", {}))
    assert isinstance(tool.status, Failed)
    assert tool.status.failure.kind == "validation"


@pytest.mark.parametrize(
    ("code", "text", "in_doubt"),
    [
        (-32000, "Connection closed", True),
        (-32001, "Request timed out", True),
        (-32700, "Failed to parse JSON response", True),
        (-32603, "Server returned an error response", True),  # of a gateway, over HTTP
        (-32600, "Unexpected content type: text/html", True),
        (-32600, "Session terminated", False),
    ],
)
def test_an_error_that_the_client_made_is_no_answer(code: int, text: str, in_doubt: bool) -> None:
    """The request was sent, and nothing of the server says what became of it."""
    tool, _ = asyncio.run(dispatched("sqlite://", "ended", {"code": code, "text": text}))
    assert isinstance(tool.status, Failed)
    assert tool.in_doubt is in_doubt


def test_arguments_are_refused_by_the_schema_of_the_server(tmp_path: Path) -> None:
    """The failure names the place, and no attempt began."""
    tool, _ = asyncio.run(dispatched(url_in(tmp_path), "order", {"number": "seven"}))
    assert isinstance(tool.status, Failed)
    assert (tool.status.failure.code, tool.attempts) == ("invalid_arguments", 0)
    assert "$.number" in tool.status.failure.message


def test_names_that_the_server_does_not_have_are_refused() -> None:
    """A wrong name would let calls run without the decision that was asked for."""

    async def ask() -> None:
        async with Client(server_of()) as session:
            with pytest.raises(ValueError, match="ordr"):
                await tools_of(session, needs_approval=["ordr"])

    asyncio.run(ask())


def test_a_session_and_its_schemas_are_served() -> None:
    """The schema is the server's own; the tools may run again only where the host says so."""

    async def listed() -> list[tuple[str, bool, object]]:
        async with Client(server_of()) as session:
            tools = await tools_of(session.session, idempotent=["order"])
        return [(tool.name, tool.idempotent, tool.schema("openai")) for tool in tools]

    found = asyncio.run(listed())
    assert [name for name, again, _ in found if again] == ["order"]
    assert "'number'" in str(found[0][2])


class Listing:
    """A session whose server lists one tool a page, each with a schema of its own."""

    def __init__(self, *schemas: dict[str, Any], endless: bool = False) -> None:
        self._schemas = schemas
        self._endless = endless
        self.pages = 0

    async def list_tools(self, params: Any = None) -> ListToolsResult:
        """List the next tool."""
        number, self.pages = self.pages % len(self._schemas), self.pages + 1
        tool = ServerTool(name=f"tool_{number}", input_schema=self._schemas[number])
        is_last = not self._endless and self.pages == len(self._schemas)
        return ListToolsResult(tools=[tool], next_cursor=None if is_last else "next")

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Answer."""
        return CallToolResult(content=[TextContent(type="text", text=f"{name} {arguments}")])


async def ends_of(*schemas: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return how calls of tools with these schemas end, and what was warned of."""
    async with AsyncEventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            listing: Any = Listing(*schemas)
            tools = await tools_of(listing)
        for tool in tools:
            await chat.request(tool.name, {"a": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"})
        calls = list(await chat.tools())
        ended = await AsyncDispatcher(chat, tools).dispatch(calls)
        assert all(each.category is UnusableSchemaWarning for each in warned)
        return [type(tool.status).__name__ for tool in ended], [str(w.message) for w in warned]


OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"$ref": "ADDRESS"}, "Unresolvable"),
        ({"properties": {"a": {"$dynamicRef": "ADDRESS"}}}, "Unresolvable"),
        ({"properties": {"a": {"$ref": "file:///schema.json"}}}, "Unresolvable"),
        ({"$ref": "#/nowhere"}, "PointerToNowhere"),
        ({"type": "strange"}, "'strange' is not valid"),
        ({"required": 7}, "7 is not of type 'array'"),
        ({"$schema": ["x"]}, "TypeError"),
        ({"$ref": "#"}, None),
        ({"odd": {"$ref": "ADDRESS"}, "$ref": "#/odd"}, None),
    ],
)
def test_a_schema_that_cannot_be_used_fails_the_calls_of_its_tool_alone(
    schema: dict[str, Any], problem: str | None
) -> None:
    """Nothing is fetched, the host is warned at once, and the other calls of the turn run."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        schema = json.loads(json.dumps(schema).replace("ADDRESS", address))
        ended, warned = asyncio.run(ends_of(OBJECT, schema, OBJECT))
        with pytest.raises(BlockingIOError):  # nobody has asked
            listener.accept()
    assert ended == ["Completed", "Failed", "Completed"]
    assert len(warned) == (problem is not None)
    assert problem is None or problem in warned[0]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": "(a+)+$"}}},
        {"properties": {"a": {"pattern": r"\p{L}"}}},
        {"patternProperties": {"(a+)+$": {}}, "additionalProperties": False},
        {"$schema": "http://example.com/a-dialect-of-its-own"},
        {
            "$defs": {"a": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "b"}},
            "properties": {"a": {"$ref": "#/$defs/a"}},
        },
    ],
)
def test_the_patterns_of_a_schema_are_left_to_the_server(schema: dict[str, Any]) -> None:
    """Its expressions are of another language, and may take for ever."""
    assert asyncio.run(ends_of(schema)) == (["Completed"], [])


def test_a_server_that_lists_tools_without_end_is_refused() -> None:
    """The pages have a bound."""
    listing: Any = Listing(OBJECT, endless=True)
    with pytest.raises(ValueError, match=f"more than {MAX_PAGES} pages"):
        asyncio.run(tools_of(listing))
    assert listing.pages == MAX_PAGES
