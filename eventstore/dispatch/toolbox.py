"""`Toolbox`: the tools of an agent, for its dispatcher and for its requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from eventstore.dispatch.function_tool import AnyFunctionTool, Tools, registry
from eventstore.providers.registry import adapter_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.tool import Tool
    from eventstore.policies.result_limits import ResultLimits
    from eventstore.providers.registry import AnyProvider


class Toolbox(Mapping[str, AnyFunctionTool]):
    """The tools of an agent by name, in their order. A dispatcher takes it as its `tools`.

    Raises:
        TypeError: a tool is not a function, or its types cannot be checked.
        ValueError: two tools have the same name, or one has none.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = registry(tools)

    def __getitem__(self, name: str) -> AnyFunctionTool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"<Toolbox {', '.join(self._tools)}>"

    def needs_approval_for(self, tool: Tool) -> bool:
        """Return whether a person decides on a call; True for a call of an unknown tool.

        `resume_plan(events, toolbox.needs_approval_for)` takes it.
        """
        definition = self._tools.get(tool.call.name)
        return definition is None or definition.needs_approval_for(tool)

    def is_idempotent(self, tool: Tool) -> bool:
        """Return whether a call of unknown outcome may run again; False for an unknown tool.

        `resume_plan(events, is_idempotent=toolbox.is_idempotent)` takes it.
        """
        definition = self._tools.get(tool.call.name)
        return definition is not None and definition.idempotent

    def result_limits(self, default: ResultLimits | None = None) -> dict[str, ResultLimits]:
        """Return how much of the results of each tool the model reads, by the tool's name.

        `default` is for the tools that have no `result_limits`. `model_history(events,
        result_limits=toolbox.result_limits())` takes it.
        """
        limits = {name: tool.result_limits or default for name, tool in self._tools.items()}
        return {name: each for name, each in limits.items() if each is not None}

    def schemas(
        self,
        provider: AnyProvider,
        names: Iterable[str] | None = None,
        *,
        cache: bool = False,
    ) -> list[JsonObject]:
        """Return the tools for a request to a provider; with `names` only these, in our order.

        The list is the `tools` of the request, for Gemini that of its `config`, for Bedrock that of
        its `toolConfig`. `names` takes `offer().visible` of a dispatcher. With `cache`, Anthropic
        and Bedrock are told to cache the tools: a change of them makes all that follows new.

        Raises:
            ValueError: the provider is unknown, or a name.
        """
        wanted = self._tools.keys() if names is None else set(names)
        if unknown := wanted - self._tools.keys():
            raise ValueError(f"names has {sorted(unknown)}: the tools are {list(self._tools)}")
        definitions = [
            tool.schema(provider) for name, tool in self._tools.items() if name in wanted
        ]
        adapter = adapter_of(provider)
        tools = adapter.tool_list(definitions)
        return adapter.mark_tools_for_cache(tools) if cache else tools
