"""The API's own tools that the host runs, in a loop over the Responses API.

1. A function of the host that has the name of such a tool runs its calls: `shell`, `local_shell`,
   `apply_patch`, `computer`, `tool_search`. It is not offered as a function besides.
2. An MCP server of the API asks for approvals, which wait for a person. An approved one has
   nothing to run here: the answer is yes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from eventstore.dispatch import FunctionTool, Toolbox
from eventstore.providers.openai_responses.client_items import APPROVAL
from eventstore.providers.sdk_objects import member

if TYPE_CHECKING:
    from eventstore.domain.json_types import JsonObject

_NAMES: Final = {
    "apply_patch": "apply_patch",
    "computer": "computer",
    "computer_use_preview": "computer",
    "local_shell": "local_shell",
    "shell": "shell",
    "tool_search": "tool_search",
}
"""Type of a tool to the name of its calls."""


def with_approvals(toolbox: Toolbox, offered: Sequence[Any]) -> Toolbox:
    """Return the tools, with what answers an MCP server's request where one is offered."""
    asks = any(_kind(tool) == "mcp" for tool in offered)
    if not asks or APPROVAL in toolbox:
        return toolbox
    approved = FunctionTool(_approve, APPROVAL, needs_approval=True, equal_calls="run")
    return Toolbox([*toolbox.values(), approved])


def schemas(toolbox: Toolbox, provider: Any, offered: Sequence[Any]) -> list[JsonObject]:
    """Return the host's tools for a request, without those that `offered` has as the API's own."""
    own = {_NAMES.get(_kind(tool)) for tool in offered} | {APPROVAL}
    return toolbox.schemas(provider, [name for name in toolbox if name not in own])


def _kind(tool: Any) -> str:
    return str(member(tool, "type"))


def _approve(server_label: str, name: str, arguments: Any) -> bool:
    """Answer the request of an MCP server, which a person has approved."""
    del server_label, name, arguments
    return True
